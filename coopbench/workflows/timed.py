"""Timed play: one episode at a time with limits of time, scored like the Flatland challenge.

The policy acts in a process of its own, which is ended when it hangs; the game and the partners
stay in this one. Page: docs/timed.md.
"""

import json
import math
import pickle
import platform
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.baselines.policy import label
from coopbench.baselines.registry import entries
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell, Episodes
from coopbench.episodes.trajectories import Recorder
from coopbench.errors import WorkerError
from coopbench.files import write_text
from coopbench.playing.backends.processes import hire, how_ended, start_failure
from coopbench.playing.models import Models
from coopbench.playing.plan import game_of
from coopbench.playing.rollout import outcome
from coopbench.protocol.instances import instance_state
from coopbench.protocol.loading import find_protocol, with_limits
from coopbench.protocol.schema import Protocol
from coopbench.protocol.sections import Limits, Task
from coopbench.provenance import versions
from coopbench_envs.engine import DISABLED, Engine

__all__ = ["Clock", "TimedEpisode", "TimedScores", "timed_evaluate"]

SCHEMA = 1
WORST = -1.0  # normalised return of an episode that was not played to its end

Outcome = Literal["played", "timed out", "failed", "left out"]
Progress = Callable[[str, float], None]  # task, done in [0, 1]


class Clock:
    """Tells the time and waits; a test can put one in its place for which no time passes."""

    def now(self) -> float:
        """Return the time in seconds, from any start."""
        return time.monotonic()

    def wait(self, pipe: Connection, seconds: float) -> bool:
        """Wait for something to come through ``pipe``, so long at most; tell if it did."""
        return pipe.poll(seconds)


@dataclass(frozen=True)
class TimedEpisode:
    """What one episode came to; the times are seconds."""

    task: str
    episode: int
    seed: int
    normalised: float  # return in [-1, 0]; -1 unless the episode was played to its end
    outcome: Outcome  # failed: the policy raised, or its process died; left out: never begun
    reason: str  # what went wrong; empty if nothing did
    steps: int  # that were played
    planning: float | None  # to the first action, or until it was given up; None: not asked for
    slowest: float | None  # longest of the later actions; None if there was none
    seconds: float  # of the whole episode, with the time of the environment


@dataclass(frozen=True)
class TimedScores:
    """Result of ``coopbench.timed_evaluate``; print it, or ``save`` it."""

    protocol: Protocol  # with the limits that were kept
    policy: str
    episodes: tuple[TimedEpisode, ...]  # all of the protocol, in its order
    seconds: float  # of the whole evaluation

    @property
    def means(self) -> dict[str, float]:
        """Mean normalised return over all episodes of every task."""
        return {
            task.id: float(np.mean([e.normalised for e in self.episodes if e.task == task.id]))
            for task in self.protocol.task
        }

    @property
    def round_one(self) -> float:
        """Mean over tasks of their mean normalised return, in [-1, 0]."""
        return float(np.mean(list(self.means.values())))

    @property
    def round_two(self) -> float:
        """Sum over episodes of 1 + normalised return; at most their number."""
        return math.fsum(1.0 + episode.normalised for episode in self.episodes)

    @property
    def troubles(self) -> tuple[str, ...]:
        """What went wrong, each reason once, with the episodes that it befell."""
        found: dict[tuple[str, str], list[str]] = {}
        for each in self.episodes:
            if each.reason:
                place = f"{each.task} episode {each.episode}"
                found.setdefault((each.outcome, each.reason), []).append(place)
        return tuple(f"{_places(at)} {what}: {why}" for (what, why), at in found.items())

    def __str__(self) -> str:
        outcomes = [episode.outcome for episode in self.episodes]
        counts = (f"{outcomes.count(each)} {each}" for each in dict.fromkeys(outcomes))
        lines = (
            f"{self.protocol.name}, policy {self.policy!r}, {self.seconds:.1f} s",
            f"Limits: {self.protocol.limits}.",
            f"Episodes: {len(outcomes)}, of which {', '.join(counts)}.",
            f"Round 1, mean normalised return: {self.round_one:.5f} (from -1 to 0)",
            f"Round 2, sum of 1 + normalised return: {self.round_two:.3f} (of {len(outcomes)})",
            *self.troubles,
        )
        return "\n".join(lines)

    def save(self, path: str | Path) -> Path:
        """Write scores, episodes, limits and versions to a JSON file; return its path."""
        content = {
            "schema": SCHEMA,
            "protocol": self.protocol.name,
            "digest": self.protocol.digest,
            "limits": self.protocol.model_dump(mode="json")["limits"],
            "policy": self.policy,
            "round_one": self.round_one,
            "round_two": self.round_two,
            "means": self.means,
            "troubles": self.troubles,
            "episodes": [asdict(episode) for episode in self.episodes],
            "seconds": self.seconds,
            "versions": versions(),
            "platform": platform.platform(),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_text(Path(path), json.dumps(content, indent=2, allow_nan=False) + "\n")
        return Path(path)


def _places(places: list[str]) -> str:
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return f"{places[0]}{more}"


def timed_evaluate(
    protocol: str | Path | Protocol,
    policy: Any,
    limits: Limits | Mapping[str, Any] | None = None,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> TimedScores:
    """Play all episodes of a protocol, one after the other, with limits of time.

    ``policy`` is a name, a callable or an object, as in ``evaluate``; a fresh copy of it plays each
    episode. ``limits`` are those of the protocol; for one that has none they are given here, for
    instance ``{"planning": 600, "step": 10, "total": 7200}``. An episode in which the policy is too
    late, raises or dies scores -1, with a reason that names it, and the next one begins.

    Raises:
        ValueError: no limits or two, an ad-hoc evaluation, or a name that cannot play a task.
        TypeError: it is no policy, or cannot be sent to another process.
        WorkerError: that process could not be started.
    """
    found, kept = _limited(protocol, limits)
    _check(found, policy)
    tables = [_Table(found, task) for task in found.task]
    clock = Clock() if clock is None else clock
    start, rows = clock.now(), []
    seat = _Seat(policy, kept, clock)
    try:
        for table in tables:
            for row in _episodes(table, seat, clock):
                rows.append(row)
                if progress is not None:
                    progress(row.task, (row.episode + 1) / len(table.seeds))
    finally:
        seat.leave()
    return TimedScores(found, seat.label, tuple(rows), clock.now() - start)


def _limited(
    protocol: str | Path | Protocol, limits: Limits | Mapping[str, Any] | None
) -> tuple[Protocol, Limits]:
    """Return the protocol with its limits, or with those that are given, and the limits."""
    found = find_protocol(protocol)
    if found.ad_hoc:
        raise ValueError(
            "An ad-hoc evaluation has no agreed bounds to normalise returns by; name a protocol."
        )
    if limits is not None:
        found = with_limits(found, limits)
    if found.limits is None:
        raise ValueError(
            f"{found.name} has no limits of time; give them in seconds: planning, step and total."
        )
    return found, found.limits


def _check(protocol: Protocol, policy: Any) -> None:
    """Raise for a policy that cannot play all tasks, before anything is played."""
    if isinstance(policy, Models):
        raise ValueError(f"{policy.name} is several models; timed play is for one policy: give it.")
    for task in protocol.task:
        Player(policy, game_of(task))


# --- the game -------------------------------------------------------------------------------------


def _episodes(table: "_Table", seat: "_Seat", clock: Clock) -> Iterator[TimedEpisode]:
    """Play the episodes of a task as long as the evaluation is not over; leave out the others."""
    task = table.task.id
    for k, seed in enumerate(table.seeds.tolist()):
        over, begun = seat.over, clock.now()
        if over:
            yield TimedEpisode(task, k, seed, WORST, "left out", over, 0, None, None, 0.0)
            continue
        outcome: Outcome = "played"
        try:
            normalised, reason = table.play(k, seat)
        except _Trouble as trouble:
            normalised, outcome, reason = WORST, trouble.outcome, trouble.reason
        taken, times = clock.now() - begun, seat.times
        first, slowest = next(iter(times), None), max(times[1:], default=None)
        yield TimedEpisode(
            task, k, seed, normalised, outcome, reason, table.steps, first, slowest, taken
        )


class _Table:
    """The game of a task, in one lane, and the partners of the policy."""

    def __init__(self, protocol: Protocol, task: Task) -> None:
        self.task, self._score = task, protocol.report.score
        self.seeds = protocol.seeds_of(task)
        self._engine = Engine(task.env, **task.parameters)
        self._game = Game.of(self._engine)
        episodes = len(self.seeds)
        self._seats = task.seating(episodes, self._engine.agents)
        self._start = instance_state(task, self._engine.constants, episodes) or {}
        self._partners = [Player(name, self._game) for name in task.partner_names]
        self._engine.reset(self.seeds[:1])  # compiles, which is not part of the evaluation
        self._engine.step(self._engine.actions.copy(), DISABLED)

    @property
    def steps(self) -> int:
        """Steps of the episode so far."""
        return int(self._engine.state.time[0])

    def play(self, k: int, seat: "_Seat") -> tuple[float, str]:
        """Play episode k; return its normalised return and what is wrong with it, if anything."""
        engine, seats = self._engine, self._seats[k : k + 1]
        start = {name: np.asarray(field)[k] for name, field in self._start.items()}
        seat.sit(self._game)
        match = Match(engine, [seat, *self._partners], seats)
        match.begin(self.seeds[k : k + 1], start)
        recorder = Recorder(engine)
        recorder.note()
        for _ in match.steps():
            recorder.note()
        cell = Cell(self.task.id, seat.label)
        return self._normalised(outcome(engine, cell, self.seeds[k : k + 1], seats, recorder))

    def _normalised(self, block: Episodes) -> tuple[float, str]:
        score = values(block, self._score)[0]
        if np.isnan(score):
            return WORST, f"its {self._score} is not defined"
        return float(np.clip(self.task.bounds.normalise(score) - 1.0, WORST, 0.0)), ""


# --- the policy, seen from the game ---------------------------------------------------------------


class _Trouble(Exception):  # noqa: N818 - ends an episode, not the evaluation
    """An episode cannot be played to its end because of its policy, or for want of time."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome, self.reason = outcome, reason


class _Seat:
    """The evaluated policy: acts like a ``Player``, but in a process of its own and by the clock.

    The process begins with the first episode, and anew after one in which it had to be ended.
    """

    def __init__(self, policy: Any, limits: Limits, clock: Clock) -> None:
        self.label = policy if isinstance(policy, str) else label(policy)
        self.times: list[float] = []  # seconds that every answer in this episode took
        self._content = _pickled(policy, self.label)
        self._game: Game | None = None
        self._limits, self._clock, self._start = limits, clock, clock.now()
        self._late = 0  # timeouts since the last action
        self._process: Any = None
        self._pipe: Any = None
        self._hired = 0
        self._opening: tuple[Any, ...] | None = None  # goes before the first observations

    @property
    def over(self) -> str:
        """Why no further episode begins; empty as long as they do."""
        if self._late >= self._limits.timeouts:
            return f"{self._late} timeouts in a row, with no action between, ended the evaluation"
        return self._spent if self._left() <= 0 else ""

    @property
    def _spent(self) -> str:
        return f"the {self._limits.total:g} s of the whole evaluation were over"

    def _left(self) -> float:
        return self._limits.total - (self._clock.now() - self._start)

    def sit(self, game: Game) -> None:
        """Take a seat in a game, the next of whose episodes begin with ``begin``."""
        self._game = game

    def begin(
        self, seeds: np.ndarray, episodes: np.ndarray, chosen: np.ndarray, stream: int = 0
    ) -> None:
        """Begin an episode with a fresh policy, which is made when its first action is wanted."""
        self._opening = self._content, self._game, seeds.copy(), episodes.copy()
        self.times = []

    def act(
        self, observations: np.ndarray, state: Any = None, masks: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the policy's actions, or raise ``_Trouble``."""
        limits, left = self._limits, self._left()
        if left <= 0:
            raise _Trouble("timed out", self._spent)
        limit = limits.step if self.times else limits.planning
        opening, self._opening = self._opening, None
        answer, taken = self._ask((opening, observations, state, masks), min(limit, left))
        self.times.append(taken)
        if answer is None and limit > left:
            raise _Trouble("timed out", self._spent)
        if answer is None:
            self._late += 1
            what = f"at step {len(self.times)}" if len(self.times) > 1 else "of planning"
            raise _Trouble("timed out", f"policy {self.label!r} took more than {limit:g} s {what}")
        actions, error = answer
        if error:
            raise _Trouble("failed", f"policy {self.label!r} {error}")
        self._late = 0
        return actions

    def _ask(self, message: tuple[Any, ...], seconds: float) -> tuple[Any, float]:
        """Return (actions, error), or None if they were late, and the seconds that it took."""
        if self._process is None:
            self._hire()
        begun = self._clock.now()
        try:
            self._pipe.send(message)
            came = self._clock.wait(self._pipe, seconds)
            answer = self._pipe.recv() if came else None
        except (EOFError, OSError):
            self._process.join(5)  # it is about to end; the status is wanted
            answer = None, f"ended its process ({how_ended(self.leave())})"
        taken = self._clock.now() - begun
        if answer is None:
            self.leave()
        return (answer if taken <= seconds else None), taken

    def _hire(self) -> None:
        self._process, self._pipe = hire(_serve, self._hired)
        self._hired += 1
        try:
            self._pipe.recv()  # it has loaded what it needs: that is not the policy's time
        except (EOFError, OSError):
            self._process.join()
            raise WorkerError(start_failure(self._process.exitcode)) from None

    def leave(self) -> int:
        """End the process; return its exit status, 0 if there is none."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.kill()
        process.join()
        self._pipe.close()
        return process.exitcode


def _pickled(policy: Any, name: str) -> bytes:
    try:
        return pickle.dumps(policy)
    except Exception as error:  # whatever an object raises while it is pickled
        raise TypeError(
            f"Cannot send policy {name!r} to a process of its own ({error}). Make it a function or "
            f"an object of a class at the top level of a module, or name a registered policy."
        ) from error


# --- the process in which it acts -----------------------------------------------------------------


def _serve(pipe: Connection) -> None:
    """Answer every (opening, what it may know) with (actions, error), until there is no more."""
    player: Any = None
    entries()  # the named policies are imported before the clock runs
    pipe.send(None)
    while True:
        try:
            opening, *known = pipe.recv()
        except EOFError:
            return
        try:
            player = player if opening is None else _player(*opening)
            answer = player.act(*known), ""
        except Exception as error:  # of whatever kind: the other side puts it down
            answer = None, f"raised {_told(error)}"
        pipe.send(answer)


def _player(content: bytes, game: Game, seeds: np.ndarray, episodes: np.ndarray) -> Player:
    player = Player(pickle.loads(content), game)
    player.begin(seeds, episodes, np.ones(1, np.bool_))
    return player


def _told(error: Exception) -> str:
    """Say what was raised, and in which line of which file."""
    text = "".join(traceback.format_exception_only(error)).strip()
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{text[:600]} ({Path(place.filename).name}, line {place.lineno})"
