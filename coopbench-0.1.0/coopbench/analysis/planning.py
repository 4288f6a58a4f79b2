"""Planning: what a number of training runs can show, before anything is trained."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coopbench import statistics
from coopbench.analysis.plays import group_plays
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol

__all__ = ["Prospect", "Variation", "prospects", "variation"]

GOOD = 0.9  # normalised score of the learner in the last column


@dataclass(frozen=True)
class Variation:
    """Standard deviations in normalised score."""

    runs: float  # of run means
    episodes: float  # of the difference between two policies, from episode to episode


@dataclass(frozen=True)
class Prospect:
    """What a number of runs per learner and task can show; differences in normalised score."""

    runs: int
    unseen: float  # share of runs of one task that could fail and none of them shows it
    against_fixed: float  # smallest difference found on one task, learner against fixed policy
    between: float  # the same between two learners
    over_group: float  # the same between two learners, over the tasks of the largest group
    rival: float  # on one task, a learner that scores .9 is shown to be better than up to this
    group_rival: float  # the same over the largest group


def variation(protocol: Protocol, table: EpisodeTable) -> Variation | None:
    """Return the variation that results show, pooled over learners and tasks; None without any.

    That of episodes is of the differences between a learner's mean over runs and the other
    policies on the same seeds.
    """
    of_runs, of_episodes = [], []
    for members in group_plays(protocol, table).values():
        for name, plays in members.items():
            for place, one in enumerate(plays):
                if len(one.runs) < 2:
                    continue
                of_runs.append(np.var(one.run_means, ddof=1))
                for other, others in members.items():
                    if other != name and np.array_equal(one.seeds, others[place].seeds):
                        rival = np.atleast_2d(others[place].values).mean(axis=0)
                        of_episodes.append(np.var(one.values.mean(axis=0) - rival, ddof=1))
    if not of_runs:
        return None
    pooled = [float(np.sqrt(np.mean(part))) if part else 0.0 for part in (of_runs, of_episodes)]
    return Variation(*pooled)


def prospects(
    protocol: Protocol, spread: Variation, runs: Sequence[int], power: float = 0.8
) -> tuple[Prospect, ...]:
    """Return what each number of runs can show with a chance of ``power`` at the protocol's alpha.

    Raises:
        ValueError: for fewer than three runs, a negative deviation, or a power outside (alpha, 1).
    """
    alpha = protocol.report.alpha
    tasks = max(len(members) for members in protocol.groups.values())
    episodes = min(protocol.episodes(task) for task in protocol.task)
    error = spread.episodes / episodes**0.5
    noise = {"episode_error": error, "alpha": alpha, "power": power}
    rows = []
    for count in runs:
        fixed, between, group = (
            statistics.detectable(count, spread.runs, sides=sides, tasks=size, **noise)
            for sides, size in ((1, 1), (2, 1), (2, tasks))
        )
        unseen, over_group = (statistics.unseen_share(n, alpha) for n in (count, count * tasks))
        ends = (1.0 - unseen) * GOOD, (1.0 - over_group) * GOOD
        rows.append(Prospect(count, unseen, fixed, between, group, *ends))
    return tuple(rows)
