"""Planning: what a number of training runs can show, before anything is trained."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coopbench import statistics
from coopbench.analysis.score_matrix import group_matrices, same_episodes
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol


@dataclass(frozen=True)
class Variation:
    """Standard deviations in normalized score."""

    runs: float  # of run means
    episodes: float  # of the difference between two policies, from episode to episode
    assumed: bool = False  # episodes: results of a policy alone do not show it


@dataclass(frozen=True)
class Prospect:
    """What a number of runs per learner and task can show; differences in normalized score.

    On a task at the level of the first step of Holm's method over the tasks that are judged
    together, so that a difference is found although the pair differs on no other; over the group at
    alpha, as one decision.
    """

    runs: int
    against_fixed: float  # smallest difference found on one task, learner against fixed policy
    between: float  # the same between two learners
    over_group: float  # the same between two learners, over the tasks of the largest group


def variation(protocol: Protocol, table: EpisodeTable, episodes: float) -> Variation | None:
    """Return the variation that results show, pooled over learners and tasks; None without any.

    That of episodes is of the differences between a learner's mean over runs and the other
    policies on the same seeds. Where there are none it is assumed to be ``episodes``.
    """
    of_runs, of_episodes = [], []
    for members in group_matrices(protocol, table).values():
        for name, plays in members.items():
            for place, one in enumerate(plays):
                if len(one.runs) < 2:
                    continue
                of_runs.append(np.var(one.run_means, ddof=1))
                for other, others in members.items():
                    if other != name and same_episodes((one, others[place])):
                        rival = np.atleast_2d(others[place].values).mean(axis=0)
                        of_episodes.append(np.var(one.values.mean(axis=0) - rival, ddof=1))
    if not of_runs:
        return None
    of_means = float(np.sqrt(np.mean(of_runs)))
    if not of_episodes:
        return Variation(of_means, episodes, assumed=True)
    return Variation(of_means, float(np.sqrt(np.mean(of_episodes))))


def family_size(protocol: Protocol) -> int:
    """Return the number of tasks of the largest group, on which a pair is judged together."""
    return max(len(members) for members in protocol.groups.values())


def prospects(
    protocol: Protocol,
    spread: Variation,
    runs: Sequence[int],
    power: float = 0.8,
    family: int | None = None,
) -> tuple[Prospect, ...]:
    """Return what each number of runs can show with a chance of ``power`` at the protocol's alpha.

    ``family`` is the number of tasks on which a pair is judged together; None: as many as the
    largest group has. With 1 a task is one decision, which nothing adjusts.

    Raises:
        ValueError: for fewer than three runs, a family of none, a negative deviation, or a power
            outside (alpha, 1).
    """
    alpha, tasks = protocol.report.alpha, family_size(protocol)
    family = tasks if family is None else family
    if family < 1:
        raise ValueError(f"the family has {family} tasks; allowed: at least 1")
    first_step = alpha / family
    episodes = min(protocol.episodes(task) for task in protocol.task)
    noise = {"episode_error": spread.episodes / episodes**0.5, "power": power}
    rows = []
    for count in runs:
        fixed, between, group = (
            statistics.detectable(count, spread.runs, sides=sides, tasks=size, alpha=level, **noise)
            for sides, size, level in ((1, 1, first_step), (2, 1, first_step), (2, tasks, alpha))
        )
        rows.append(Prospect(count, fixed, between, group))
    return tuple(rows)
