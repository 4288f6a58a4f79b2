"""The evaluated policy in a process of its own, acting within limits of time."""

import pickle
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from coopbench.baselines.player import Player
from coopbench.baselines.registry import entries
from coopbench.errors import WorkerError
from coopbench.playing.contestants import PolicyLike, name_of
from coopbench.playing.jobs import check_portable, note_own_line
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
    """(outcome, reason): an episode cannot be played to its end with its policy, or in time."""


class TimedPolicy:
    """Acts like a ``Player`` in a process of its own, started again if it had to be ended."""

    def __init__(self, policy: PolicyLike, limits: Limits, clock: Clock) -> None:
        self.label = name_of(policy)
        self.game: Any = None  # of the next episode
        self.times: list[float] = []  # seconds that every answer in this episode took
        self._over = f"the {limits.total:g} s of the whole evaluation were over"
        self.stopped = ""  # why no further episode begins, whatever time is left
        check_portable(policy, pickle.dumps)
        self._content = pickle.dumps(policy)
        self._limits, self._clock, self._start = limits, clock, clock.now()
        self._timeouts = 0  # since the last action
        self._worker: tuple[WorkerProcess, Connection] | None = None  # and our end of its pipe
        self._opening: tuple[Any, ...] | None = None  # sent with the first observations

    @property
    def elapsed(self) -> float:
        """Seconds since the evaluation began."""
        return self._clock.now() - self._start

    @property
    def end(self) -> str:
        """Why no further episode begins; empty as long as they do."""
        return self.stopped or (self._over if self.elapsed >= self._limits.total else "")

    def begin(
        self, seeds: np.ndarray, episodes: np.ndarray, chosen: np.ndarray, stream: int = 0
    ) -> None:
        """Begin an episode with a fresh policy, which is made when its first action is needed."""
        self._opening = self._content, self.game, seeds.copy(), episodes.copy()
        self.times = []

    def act(self, *arguments: Any) -> np.ndarray:
        """Return the actions that the policy's ``Player.act`` does, or raise ``EpisodeLost``."""
        limit = self._limits.step if self.times else self._limits.planning
        remaining = self._limits.total - self.elapsed
        opening, self._opening = self._opening, None
        answer = self._answer((opening, *arguments), min(limit, remaining))
        if answer is None and limit > remaining:
            raise EpisodeLost("timed out", self._over)
        if answer is None:
            self._timeouts += 1
            if self._timeouts == self._limits.timeouts:
                self.stopped = f"{self._timeouts} timeouts in a row ended the evaluation"
            phase = f"at step {len(self.times)}" if len(self.times) > 1 else "of planning"
            raise EpisodeLost("timed out", f"{self.label!r} took more than {limit:g} s {phase}")
        actions, error = answer
        if error:
            raise EpisodeLost("failed", f"{self.label!r} {error}")
        self._timeouts = 0
        return actions

    def _answer(self, message: tuple[Any, ...], seconds: float) -> tuple[np.ndarray, str] | None:
        """Return (actions, error) and note the seconds it took; None if they came too late."""
        if seconds <= 0:
            return None
        process, pipe = self._worker = self._worker or _started()
        begun = self._clock.now()
        try:
            pipe.send(message)
            answer = pipe.recv() if self._clock.wait(pipe, seconds) else None
        except (EOFError, OSError):
            process.join(5)  # it is about to end, and its exit status is needed
            answer = None, f"ended its process ({how_ended(process.exitcode)})"
            self.leave()
        self.times.append(self._clock.now() - begun)
        if answer is None:
            self.leave()
        return answer if self.times[-1] <= seconds else None

    def leave(self) -> None:
        """End the process, if there is one."""
        if self._worker is not None:
            (process, _), self._worker = self._worker, None
            process.kill()
            process.join()


def _started() -> tuple[WorkerProcess, Connection]:
    """Return a new process that is ready to play, and our end of its pipe."""
    ours, theirs = Pipe()
    process = WorkerProcess(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()  # so that the pipe ends when the worker does
    try:
        ours.recv()  # it has loaded its modules, which is not the policy's time
    except (EOFError, OSError):
        process.join()
        raise WorkerError(start_failure(process.exitcode)) from None
    return process, ours


def _serve(pipe: Connection) -> None:
    """In the process: answer (opening, arguments of ``act``) with (actions, error), to the end."""
    player: Any = None
    dict(entries())  # the named policies are imported before the clock runs
    pipe.send(None)
    while True:
        try:
            opening, *arguments = pipe.recv()
        except EOFError:
            return
        try:
            if opening is not None:
                content, game, seeds, episodes = opening
                player = Player(pickle.loads(content), game)
                player.begin(seeds, episodes, np.ones(1, np.bool_))
            answer = player.act(*arguments), ""
        except Exception as error:  # of whatever kind: the evaluation records it
            note_own_line(error)
            text = f"{type(error).__name__}: {error} {' '.join(getattr(error, '__notes__', ()))}"
            answer = None, f"raised {text[:800]}"
        pipe.send(answer)
