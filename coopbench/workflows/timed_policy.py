"""Timed policy: the evaluated policy in a process of its own, acting within limits of time."""

import pickle
import time
import traceback
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.player import Player
from coopbench.baselines.registry import entries
from coopbench.errors import WorkerError
from coopbench.playing.contestants import PolicyLike, name_of
from coopbench.playing.processes import WorkerProcess, how_ended, start_failure
from coopbench.protocol.limits import Limits


class Clock:
    """Tells the time and waits; a test can replace it by one for which no time passes."""

    def now(self) -> float:
        """Return the time in seconds, from any start."""
        return time.monotonic()

    def wait(self, pipe: Connection, seconds: float) -> bool:
        """Wait at most so long for a message to come through ``pipe``; return whether it did."""
        return pipe.poll(seconds)


class EpisodeLost(Exception):  # noqa: N818 - ends an episode, not the evaluation
    """An episode cannot be played to its end because of its policy, or for lack of time."""

    def __init__(self, outcome: Literal["timed out", "failed"], reason: str) -> None:
        super().__init__(reason)
        self.outcome, self.reason = outcome, reason


class _Opening(NamedTuple):
    """How an episode begins; sent with the first observations."""

    policy: bytes  # pickled
    game: Game
    seeds: np.ndarray
    episodes: np.ndarray


class _Worker(NamedTuple):
    """The process of the policy, and our end of the pipe to it."""

    process: WorkerProcess
    pipe: Connection


class TimedPolicy:
    """Acts like a ``Player``, but in a process of its own and within limits of time.

    The process starts with the first episode, and again after one in which it had to be ended.
    """

    def __init__(self, policy: PolicyLike, limits: Limits, clock: Clock) -> None:
        self.label = name_of(policy)
        self.times: list[float] = []  # seconds that every answer in this episode took
        self._content = _pickled(policy, self.label)
        self._limits, self._clock, self._start = limits, clock, clock.now()
        self._timeouts = 0  # since the last action
        self._stopped = ""  # why the evaluation has been ended from outside
        self._worker: _Worker | None = None
        self._game: Game | None = None
        self._opening: _Opening | None = None

    @property
    def end(self) -> str:
        """Why no further episode begins; empty as long as they do."""
        if self._stopped:
            return self._stopped
        if self._timeouts >= self._limits.timeouts:
            return (
                f"{self._timeouts} timeouts in a row, with no action between, ended the evaluation"
            )
        return self._spent if self._remaining() <= 0 else ""

    def stop(self, reason: str) -> None:
        """Let no further episode begin; ``reason`` says why."""
        self._stopped = reason

    @property
    def _spent(self) -> str:
        return f"the {self._limits.total:g} s of the whole evaluation were over"

    def _remaining(self) -> float:
        """Return the remaining seconds of the whole evaluation."""
        return self._limits.total - (self._clock.now() - self._start)

    def join(self, game: Game) -> None:
        """Play in ``game`` from the next ``begin`` on."""
        self._game = game

    def begin(
        self, seeds: np.ndarray, episodes: np.ndarray, chosen: np.ndarray, stream: int = 0
    ) -> None:
        """Begin an episode with a fresh policy, which is made when its first action is needed."""
        if self._game is None:
            raise ValueError("A timed policy has to join a game before it begins an episode.")
        self._opening = _Opening(self._content, self._game, seeds.copy(), episodes.copy())
        self.times = []

    def act(
        self,
        observations: np.ndarray,
        state: Any = None,
        masks: np.ndarray | None = None,
        seated: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the policy's actions, or raise ``EpisodeLost``."""
        remaining = self._remaining()
        if remaining <= 0:
            raise EpisodeLost("timed out", self._spent)
        limit = self._limits.step if self.times else self._limits.planning
        opening, self._opening = self._opening, None
        answer, seconds = self._ask(
            (opening, observations, state, masks, seated), min(limit, remaining)
        )
        self.times.append(seconds)
        if answer is None:
            raise self._late(limit, remaining)
        actions, error = answer
        if error:
            raise EpisodeLost("failed", f"policy {self.label!r} {error}")
        self._timeouts = 0
        return actions

    def _late(self, limit: float, remaining: float) -> EpisodeLost:
        """Count a timeout, unless it was the time of the whole evaluation that was over."""
        if limit > remaining:
            return EpisodeLost("timed out", self._spent)
        self._timeouts += 1
        phase = f"at step {len(self.times)}" if len(self.times) > 1 else "of planning"
        reason = f"policy {self.label!r} took more than {limit:g} s {phase}"
        return EpisodeLost("timed out", reason)

    def _ask(
        self, message: tuple[Any, ...], seconds: float
    ) -> tuple[tuple[np.ndarray, str] | None, float]:
        """Return (actions, error), or None if they came too late, and the seconds it took."""
        worker = self._started() if self._worker is None else self._worker
        begun = self._clock.now()
        try:
            worker.pipe.send(message)
            came = self._clock.wait(worker.pipe, seconds)
            answer = worker.pipe.recv() if came else None
        except (EOFError, OSError):
            worker.process.join(5)  # it is about to end, and its exit status is needed
            answer = None, f"ended its process ({how_ended(self.leave())})"
        elapsed = self._clock.now() - begun
        if answer is None:
            self.leave()
        return (answer if elapsed <= seconds else None), elapsed

    def _started(self) -> _Worker:
        """Return a new worker that is ready to play."""
        ours, theirs = Pipe()
        process = WorkerProcess(target=_serve, args=(theirs,), daemon=True)
        self._worker = worker = _Worker(process, ours)
        process.start()
        theirs.close()  # so that the pipe ends when the worker does
        try:
            worker.pipe.recv()  # it has loaded its modules, which is not the policy's time
        except (EOFError, OSError):
            worker.process.join()
            raise WorkerError(start_failure(worker.process.exitcode)) from None
        return worker

    def leave(self) -> int | None:
        """End the process; return its exit status, 0 if there is none."""
        if self._worker is None:
            return 0
        (process, pipe), self._worker = self._worker, None
        process.kill()
        process.join()
        pipe.close()
        return process.exitcode


def _pickled(policy: PolicyLike, name: str) -> bytes:
    try:
        return pickle.dumps(policy)
    except Exception as error:  # whatever an object raises while it is pickled
        raise TypeError(
            f"Cannot send policy {name!r} to a process of its own ({error}). Make it a function or "
            f"an object of a class at the top level of a module, or name a registered policy."
        ) from error


# --- the process in which it acts -----------------------------------------------------------------


def _serve(pipe: Connection) -> None:
    """Answer every (opening, arguments of ``act``) with (actions, error), until the pipe closes."""
    player: Any = None
    dict(entries())  # the named policies are imported before the clock runs
    pipe.send(None)
    while True:
        try:
            opening, *arguments = pipe.recv()
        except EOFError:
            return
        try:
            player = player if opening is None else _player(*opening)
            answer = player.act(*arguments), ""
        except Exception as error:  # of whatever kind: the evaluation records it
            answer = None, f"raised {_described(error)}"
        pipe.send(answer)


def _player(content: bytes, game: Game, seeds: np.ndarray, episodes: np.ndarray) -> Player:
    player = Player(pickle.loads(content), game)
    player.begin(seeds, episodes, np.ones(1, np.bool_))
    return player


def _described(error: Exception) -> str:
    """Say what was raised, and in which line of which file."""
    text = "".join(traceback.format_exception_only(error)).strip()
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{text[:600]} ({Path(place.filename).name}, line {place.lineno})"
