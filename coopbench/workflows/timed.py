"""Timed play: one episode at a time with time limits, scored like the Flatland challenge.

The policy acts in a process of its own, which is ended when it hangs; the game and the partners
stay in this one. Page: docs/timed.md.
"""

import json
import math
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell, Episodes
from coopbench.episodes.trajectories import Recorder
from coopbench.files import write_text
from coopbench.playing.contestants import Models, PolicyLike, loaded_policy
from coopbench.playing.plan import game_of
from coopbench.playing.rollout import outcome
from coopbench.protocol.limits import LIMITS, Limits
from coopbench.protocol.loading import find_protocol, with_limits
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task, instance_state
from coopbench.protocol.variants import with_tasks
from coopbench.provenance import machine, versions
from coopbench.workflows.timed_policy import Clock, EpisodeLost, TimedPolicy
from coopbench_envs.engine import DISABLED, Engine

SCHEMA = 1
ARRIVED = "arrived"  # metric of which a protocol can ask that a task reaches a share
WORST = -1.0  # normalized return of an episode that was not played to its end
_ROUNDING = 1e-9  # by which a normalized return may exceed 0 through rounding alone

Outcome = Literal["played", "timed out", "failed", "left out"]
TellTask = Callable[[str, float], None]  # task, done in [0, 1]


@dataclass(frozen=True)
class TimedEpisode:
    """The result of one episode; times are in seconds."""

    task: str
    episode: int
    seed: int
    normalised: float  # return in [-1, 0]; -1 unless the episode was played to its end
    arrived: float | None  # share of agents, 0 unless played to its end; None: no such metric
    outcome: Outcome  # failed: the policy raised, or its process died; left out: never begun
    reason: str  # what went wrong; empty if nothing did
    steps: int  # that were played
    planning: float | None  # to the first action or the end of waiting; None if none was needed
    slowest: float | None  # longest of the later actions; None if there was none
    seconds: float  # of the whole episode, with the time of the environment


@dataclass(frozen=True)
class TimedScores:
    """Result of ``coopbench.timed_evaluate``; print it, or ``save`` it."""

    protocol: Protocol  # with the limits that applied
    policy: str
    episodes: tuple[TimedEpisode, ...]  # all of the protocol, in its order
    seconds: float  # of the whole evaluation

    @property
    def means(self) -> dict[str, float]:
        """Mean normalized return over all episodes of every task."""
        return {
            task.id: float(np.mean([e.normalised for e in self.episodes if e.task == task.id]))
            for task in self.protocol.task
        }

    @property
    def arrived(self) -> dict[str, float]:
        """Mean share of agents arrived over all episodes of every task that has this metric."""
        shares: dict[str, list[float]] = {}
        for episode in self.episodes:
            if episode.arrived is not None:
                shares.setdefault(episode.task, []).append(episode.arrived)
        return {task: float(np.mean(values)) for task, values in shares.items()}

    @property
    def round_one(self) -> float:
        """Mean over tasks of their mean normalized return, in [-1, 0]."""
        tests = [[e.normalised for e in self.episodes if e.task == t] for t in self.means]
        return math.fsum(math.fsum(test) / len(test) for test in tests) / len(tests)

    @property
    def round_two(self) -> float:
        """Sum over episodes of 1 + normalized return; at most their number."""
        return math.fsum(1.0 + episode.normalised for episode in self.episodes)

    @property
    def troubles(self) -> tuple[str, ...]:
        """What went wrong, every reason once, with the episodes concerned."""
        places: dict[tuple[str, str], list[str]] = {}
        for row in self.episodes:
            if row.reason:
                place = f"{row.task} episode {row.episode}"
                places.setdefault((row.outcome, row.reason), []).append(place)
        return tuple(f"{_listed(at)} {what}: {why}" for (what, why), at in places.items())

    def __str__(self) -> str:
        outcomes = [episode.outcome for episode in self.episodes]
        counts = (f"{outcomes.count(name)} {name}" for name in dict.fromkeys(outcomes))
        share = self._share()
        sums = f"{self.round_two:.3f} (of {len(outcomes)})"
        lines = (
            f"{self.protocol.name}, policy {self.policy!r}, {self.seconds:.1f} s",
            f"Limits: {self.protocol.limits}.",
            f"Episodes: {len(outcomes)}, of which {', '.join(counts)}.",
            f"Round 1, mean normalized return: {self.round_one:.5f} (from -1 to 0){share}",
            f"Round 2, sum of 1 + normalized return: {sums}{share}",
            *(
                f"{task}: normalized return {mean:.5f}, share arrived {self.arrived[task]:.3f}"
                for task, mean in self.means.items()
                if task in self.arrived
            ),
            *self.troubles,
        )
        return "\n".join(lines)

    def _share(self) -> str:
        """Return the mean over tasks of the share of agents arrived, in words; "" without one."""
        return f", share arrived {np.mean([*self.arrived.values()]):.3f}" if self.arrived else ""

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
            "arrived": self.arrived,
            "troubles": self.troubles,
            "episodes": [asdict(episode) for episode in self.episodes],
            "seconds": self.seconds,
            "versions": versions(),
            "platform": platform.platform(),
            "machine": machine(),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_text(Path(path), json.dumps(content, indent=2, allow_nan=False) + "\n")
        return Path(path)


def _listed(places: list[str]) -> str:
    """Name the first of several places, and how many more there are."""
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return f"{places[0]}{more}"


def timed_evaluate(
    protocol: str | Path | Protocol,
    policy: PolicyLike,
    limits: Limits | Mapping[str, Any] | str | None = None,
    clock: Clock | None = None,
    progress: TellTask | None = None,
    tasks: Sequence[str] | None = None,
) -> TimedScores:
    """Play all episodes of a protocol, one after the other, with time limits.

    ``policy`` is a name, a callable or an object, as in ``evaluate``; a fresh copy of it plays each
    episode. ``limits`` are for a protocol that has none: a preset such as ``"flatland"``, or
    ``{"planning": 600, "step": 10, "total": 28800}`` in seconds. An episode in which the policy is
    too late, raises or dies scores -1, with a reason that names it, and the next one begins.
    ``tasks`` are the ids of some of the protocol's tasks; None plays all of them.

    Raises:
        ValueError: no limits, or limits where the protocol has some; an ad-hoc evaluation; or a
            policy that cannot play a task.
        TypeError: ``policy`` is not a policy, or cannot be sent to another process.
        WorkerError: that process could not be started.
    """
    limited, bounds = _limited(protocol, limits, tasks or ())
    policy = loaded_policy(policy)
    _check(limited, policy)
    games = [_TimedTask(limited, task) for task in limited.task]
    clock = Clock() if clock is None else clock
    start, rows = clock.now(), list[TimedEpisode]()
    player = TimedPolicy(policy, bounds, clock)
    try:
        for game in games:
            for row in _episodes(game, player, clock):
                rows.append(row)
                if progress is not None:
                    progress(row.task, (row.episode + 1) / len(game.seeds))
            stop = bounds.stop_below
            if stop is not None and not player.end and game.arrived < stop:
                player.stop(
                    f"the share arrived in {game.task.id} is {game.arrived:.3f} on average, below "
                    f"{stop:g}"
                )
    finally:
        player.leave()
    return TimedScores(limited, player.label, tuple(rows), clock.now() - start)


def _limited(
    protocol: str | Path | Protocol,
    limits: Limits | Mapping[str, Any] | str | None,
    tasks: Sequence[str],
) -> tuple[Protocol, Limits]:
    """Return the protocol of ``tasks`` with ``limits``, or its own if they are None, and these."""
    limited = with_tasks(find_protocol(protocol), tasks)
    if limited.ad_hoc:
        raise ValueError(
            "An ad-hoc evaluation has no agreed bounds to normalize returns by; name a protocol."
        )
    if limits is not None:
        limited = with_limits(limited, limits)
    if limited.limits is None:
        raise ValueError(
            f"{limited.name} has no time limits; give a preset ({', '.join(LIMITS)}), or seconds: "
            f"planning, step and total."
        )
    return limited, limited.limits


def _check(protocol: Protocol, policy: PolicyLike | Models) -> None:
    """Raise for a policy that cannot play all tasks, before anything is played."""
    if isinstance(policy, Models):
        raise ValueError(f"{policy.name} is several models; timed play takes one policy: name it.")
    for task in protocol.task:
        Player(policy, game_of(task))


# --- the game -------------------------------------------------------------------------------------


def _episodes(game: "_TimedTask", policy: TimedPolicy, clock: Clock) -> Iterator[TimedEpisode]:
    """Play the episodes of a task; those after the end of the evaluation are left out."""
    task = game.task.id
    for k, seed in enumerate(game.seeds.tolist()):
        end, begun = policy.end, clock.now()
        if end:
            arrived = game.share(k)
            yield TimedEpisode(task, k, seed, WORST, arrived, "left out", end, 0, None, None, 0.0)
            continue
        outcome: Outcome = "played"
        try:
            normalised, reason = game.play(k, policy)
        except EpisodeLost as lost:
            normalised, outcome, reason = WORST, lost.outcome, lost.reason
        seconds, times = clock.now() - begun, policy.times
        first, slowest = next(iter(times), None), max(times[1:], default=None)
        yield TimedEpisode(
            task=task,
            episode=k,
            seed=seed,
            normalised=normalised,
            arrived=game.share(k),
            outcome=outcome,
            reason=reason,
            steps=game.steps,
            planning=first,
            slowest=slowest,
            seconds=seconds,
        )


class _TimedTask:
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
        self._arrived = np.zeros(episodes)  # share of agents, of episodes played to their end
        self._engine.reset(self.seeds[:1])  # compiles, which is not part of the evaluation
        self._engine.step(self._engine.actions.copy(), DISABLED)

    @property
    def arrived(self) -> float:
        """Mean share of agents that have arrived, over all episodes; lost ones have 0."""
        return float(self._arrived.mean())

    def share(self, k: int) -> float | None:
        """Return the share of agents that have arrived in episode k; None if it has no metric."""
        return float(self._arrived[k]) if ARRIVED in self._engine.spec.metrics else None

    @property
    def steps(self) -> int:
        """Steps of the episode so far."""
        return int(self._engine.state.time[0])

    def play(self, k: int, policy: TimedPolicy) -> tuple[float, str]:
        """Play episode k; return its normalized return, and why it is undefined if it is."""
        engine, seats = self._engine, self._seats[k : k + 1]
        start = {name: np.asarray(field)[k] for name, field in self._start.items()}
        policy.join(self._game)
        match = Match(engine, [policy, *self._partners], seats)
        match.begin(self.seeds[k : k + 1], start)
        recorder = Recorder(engine)
        recorder.note()
        for _ in match.steps():
            recorder.note()
        cell = Cell(self.task.id, policy.label)
        block = outcome(engine, cell, self.seeds[k : k + 1], seats, recorder)
        if ARRIVED in engine.spec.metrics:
            self._arrived[k] = values(block, ARRIVED)[0]
        return self._normalised(block)

    def _normalised(self, block: Episodes) -> tuple[float, str]:
        score = float(values(block, self._score)[0])
        if np.isnan(score):
            return WORST, f"its {self._score} is not defined"
        normalised, high = self.task.bounds.shortfall(score), self.task.bounds.high
        if normalised > _ROUNDING:
            return 0.0, f"its {self._score} is above the upper bound of the task, {high:g}"
        return min(0.0, max(WORST, normalised)), ""
