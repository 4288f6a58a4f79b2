"""Timed play: the episodes of a protocol, one at a time, scored like the Flatland challenge.

The policy acts in a process of its own; the game and the partners stay here. Page: docs/timed.md.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from coopbench.baselines.player import Player
from coopbench.episodes.grouping import grouped
from coopbench.episodes.metrics import values
from coopbench.episodes.names import names_given
from coopbench.episodes.table import Cell
from coopbench.files import write_text
from coopbench.playing.contestants import PolicyLike, loaded_policy
from coopbench.playing.plan import game_of
from coopbench.playing.rollout import Seated, play_again
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.protocol.variants import with_tasks
from coopbench.provenance import machine, versions
from coopbench.timed.policy import Clock, EpisodeLost, TimedPolicy

ARRIVED = "arrived"  # metric of which a protocol can ask that a task reaches a share
WORST = -1.0  # normalized return of an episode that was not played to its end


@dataclass(frozen=True)
class TimedEpisode:
    """The result of one episode; times are in seconds."""

    task: str
    episode: int
    seed: int
    normalised: float  # return in [-1, 0]; -1 unless the episode was played to its end
    arrived: float | None  # share of agents, 0 unless played to its end; None: no such metric
    outcome: str  # "played", "timed out", "failed", or "left out": never begun
    reason: str  # what went wrong; empty if nothing did
    planning: float | None  # to the first action or the end of waiting; None if none was needed
    slowest: float | None  # longest of the later actions; None if there was none
    seconds: float  # of the whole episode, with the time of the environment


@dataclass(frozen=True)
class TimedScores:
    """Result of ``timed_evaluate``; print it, or ``save`` it."""

    protocol: Protocol
    policy: str
    episodes: tuple[TimedEpisode, ...]  # all of the protocol, in its order
    seconds: float  # of the whole evaluation

    @property
    def means(self) -> dict[str, float]:
        """Mean normalized return over all episodes of every task."""
        return self._means("normalised")

    @property
    def arrived(self) -> dict[str, float]:
        """Mean share of agents arrived over all episodes of every task that has this metric."""
        return self._means("arrived")

    def _means(self, field: str) -> dict[str, float]:
        parts = grouped((episode.task, getattr(episode, field)) for episode in self.episodes)
        return {t: math.fsum(part) / len(part) for t, part in parts.items() if None not in part}

    @property
    def round_one(self) -> float:
        """Mean over tasks of their mean normalized return, in [-1, 0]."""
        return math.fsum(self.means.values()) / len(self.means)

    @property
    def round_two(self) -> float:
        """Sum over episodes of 1 + normalized return; at most their number."""
        return math.fsum(1.0 + episode.normalised for episode in self.episodes)

    @property
    def troubles(self) -> tuple[str, ...]:
        """What went wrong, every reason once, with the number of its episodes."""
        reasons = Counter(f"{e.outcome}: {e.reason}" for e in self.episodes if e.reason)
        return tuple(f"{count} {reason}" for reason, count in reasons.items())

    def __str__(self) -> str:
        outcomes = Counter(episode.outcome for episode in self.episodes)
        total, shares = len(self.episodes), self.arrived
        share = f", share arrived {np.mean([*shares.values()]):.3f}" if shares else ""
        lines = [
            f"{self.protocol.name}, policy {self.policy!r}, {self.seconds:.1f} s",
            f"Limits: {self.protocol.limits}.",
            f"Episodes: {total}: {', '.join(f'{n} {name}' for name, n in outcomes.items())}.",
            f"Round 1, mean normalized return: {self.round_one:.5f} (from -1 to 0){share}",
            f"Round 2, sum of 1 + normalized return: {self.round_two:.3f} (of {total}){share}",
        ]
        for task, part in shares.items():
            lines.append(f"{task}: normalized return {self.means[task]:.5f}, arrived {part:.3f}")
        return "\n".join((*lines, *self.troubles))

    def save(self, path: str | Path) -> None:
        """Write scores, episodes and versions to a JSON file."""
        names = ("policy", "round_one", "round_two", "means", "arrived", "troubles", "seconds")
        content = {name: getattr(self, name) for name in names}
        content |= {"protocol": self.protocol.name, "digest": self.protocol.digest}
        content |= {"episodes": [asdict(episode) for episode in self.episodes]}
        content |= {"versions": versions(), "machine": machine()}
        write_text(Path(path), json.dumps(content, indent=2, allow_nan=False) + "\n")


def timed_evaluate(
    protocol: str | Path | Protocol,
    policy: PolicyLike,
    tasks: Sequence[str] | None = None,
    progress: Callable[[str, float], None] = lambda task, share: None,
    clock: Clock | None = None,
) -> TimedScores:
    """Play all episodes of a protocol, one after the other, within its limits of time.

    A fresh copy of the ``policy``, as in ``evaluate``, plays each episode. One in which it is too
    late, raises or dies scores -1, with a reason, and the next one begins. ``tasks`` are ids of
    tasks (None: all); ``progress`` is called with a task and the share of it that is done.

    Raises ``ValueError`` for a protocol without limits, or a policy that cannot play a task,
    ``TypeError`` for one that cannot be sent to another process, ``WorkerError`` if none starts.
    """
    limited = with_tasks(load_protocol(protocol), names_given(tasks))
    if (limits := limited.limits) is None:
        raise ValueError(f"{limited.name} has no [limits]; write a file that extends it with them.")
    policy = loaded_policy(policy)
    for task in limited.task:  # what cannot play is refused, and all is compiled, before time runs
        Player(policy, game_of(task))
        play_again(limited, Cell(task.id, "random"), "random", [0], (), longest=1)
    player, rows = TimedPolicy(policy, limits, clock or Clock()), list[TimedEpisode]()
    try:
        for task in limited.task:
            player.game, count = game_of(task), limited.episodes(task)
            for k in range(count):
                rows.append(_episode(limited, task, k, player))
                progress(task.id, (k + 1) / count)
            arrived = np.mean([row.arrived or 0.0 for row in rows[-count:]])
            if arrived < (limits.stop_below or 0.0) and not player.end:
                share = f"{arrived:.3f} on average, below {limits.stop_below}"
                player.stopped = f"the share arrived in {task.id} is {share}"
    finally:
        player.leave()
    return TimedScores(limited, player.label, tuple(rows), player.elapsed)


def _episode(protocol: Protocol, task: Task, k: int, policy: TimedPolicy) -> TimedEpisode:
    """Play episode k of a task, unless the evaluation has ended."""
    begun, result, arrived, outcome, reason = policy.elapsed, WORST, 0.0, "left out", policy.end
    if not reason:
        try:
            block, _ = play_again(protocol, Cell(task.id, policy.label), Seated(policy), [k], ())
            score, outcome = float(values(block, protocol.report.score)[0]), "played"
            result = min(0.0, max(WORST, task.bounds.shortfall(score)))  # WORST of nan, too
            arrived = float(block.metrics.get(ARRIVED, [0.0])[0])
        except EpisodeLost as lost:
            outcome, reason = lost.args
    times = [] if outcome == "left out" else policy.times
    first, slowest = times[0] if times else None, max(times[1:], default=None)
    share, seed = arrived if ARRIVED in task.spec.metrics else None, protocol.seeds_of(task)[k]
    facts = result, share, outcome, reason, first, slowest, policy.elapsed - begun
    return TimedEpisode(task.id, k, int(seed), *facts)
