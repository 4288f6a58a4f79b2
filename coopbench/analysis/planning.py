"""Planning: how often reports will decide a difference, before anything is trained.

Reports are simulated: scores of runs and episodes are drawn with the spreads of runs that exist,
and decided by the functions that decide in a report.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coopbench.analysis.contrasts import contrasts, decide
from coopbench.analysis.score_matrix import ScoreMatrix, group_matrices, same_episodes, score_ends
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task

SHIPPED = Path(__file__).with_name("spreads.csv")  # made by ``python -m studies.spreads``
SCRIPT, LEARNER = "script", "learner"  # whom a learner is compared with
LEVEL, TRIALS = 0.9, 200  # normalized score of the better one; simulated reports
_EPISODES = 200  # simulated at most: fewer, which vary less, stand for all
_GRIDS = 800  # of one call: their covariances are as many, squared


@dataclass(frozen=True)
class Variation:
    """Standard deviations on one task, in normalized score."""

    runs: float  # of the means of the runs of one learner
    from_script: float  # of the difference from a fixed policy, from episode to episode
    between: float  # of the difference between two learners, from episode to episode
    assumed: tuple[str, ...] = ()  # which of these no results show, by name


class _Runs(NamedTuple):
    """Training runs of a learner in some reports: what they have in common on all their tasks."""

    deviations: np.ndarray  # (reports, runs, 1), in standard deviations of their means
    failed: np.ndarray  # (reports, runs)


@dataclass(frozen=True)
class Prospect:
    """Share of simulated reports in which a difference is decided, for the side that is better."""

    group: str
    rival: str  # "script" or "learner"
    runs: int  # of a learner on every task
    effect: float  # true difference on every task, in normalized score; at least 0
    over_group: float
    on_tasks: dict[str, float]  # by task
    trials: int  # the standard error of a share p is the root of p (1 - p) / trials

    @property
    def of_tasks(self) -> float:
        """Mean over tasks of the shares."""
        return float(np.mean(list(self.on_tasks.values())))


@dataclass(frozen=True)
class Plan:
    """What is simulated."""

    runs: int
    effect: float  # of the means, runs that fail included; at least 0; decisions of 0 are false
    rival: str = SCRIPT
    level: float = LEVEL  # normalized score of the better one's runs that do not fail
    failing: float = 0.0  # share of the runs of every learner that fail, with the floor of the task
    trials: int = TRIALS
    seed: int = 0


def shipped_variation(protocol: Protocol) -> dict[str, Variation]:
    """Return the variation of the stored reference results of a protocol, by task.

    Tasks on which no learner with two runs or more has been stored are left out.
    """
    with SHIPPED.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["protocol"] == protocol.protocol.name]
    known = {task.id for task in protocol.task}
    return {
        row["task"]: Variation(float(row["runs"]), float(row["from_script"]), float(row["between"]))
        for row in rows
        if row["task"] in known
    }


def variation(protocol: Protocol, table: EpisodeTable, episodes: float) -> dict[str, Variation]:
    """Return the variation of the results of a pilot, pooled over learners, by task.

    Where results show no difference from a fixed policy, or between learners, its standard
    deviation from episode to episode is ``episodes``, and its name is among those ``assumed``.
    """
    found: dict[str, Variation] = {}
    for group, members in group_matrices(protocol, table).items():
        for place, task in enumerate(protocol.groups[group]):
            played = {name: plays[place] for name, plays in members.items()}
            learned = [one for one in played.values() if len(one.runs) > 1]
            if not learned:
                continue
            squares: dict[str, list[float]] = {"from_script": [], "between": []}
            for one in learned:
                for other in played.values():
                    if other is not one and same_episodes((one, other)):
                        gaps = one.values.mean(axis=0) - np.atleast_2d(other.values).mean(axis=0)
                        kind = "from_script" if other.fixed else "between"
                        squares[kind].append(float(np.var(gaps, ddof=1)))
            runs = float(np.sqrt(np.mean([np.var(one.run_means, ddof=1) for one in learned])))
            sds = {k: float(np.sqrt(np.mean(s))) if s else episodes for k, s in squares.items()}
            assumed = tuple(kind for kind, some in squares.items() if not some)
            found[task.id] = Variation(runs, **sds, assumed=assumed)
    return found


def prospect(
    protocol: Protocol, group: str, variations: Mapping[str, Variation], plan: Plan
) -> Prospect:
    """Simulate reports on the tasks of a group, and return how often they decide.

    ``variations`` are by task, of all tasks of the group. Scores of runs and of episodes are
    normal. A run that plays several tasks of the group is as far above or below its learner's mean
    on each of them, in standard deviations. The better one is a learner; the mean of its rival is
    below its own by the effect on every task, with the floor of runs that fail in both.

    Raises:
        ValueError: for fewer than three runs, an effect that is negative or not finite, a level
            that is not finite, an unknown rival, a share of failing runs outside [0, 1), fewer
            than one trial, or a task without variation.
    """
    tasks = protocol.groups[group]
    _check(plan, tasks, variations)
    rng = np.random.default_rng(plan.seed)
    chunk = max(1, _GRIDS // (2 * len(tasks)))
    over_group, on_tasks = 0, np.zeros(len(tasks))
    for start in range(0, plan.trials, chunk):
        count = min(chunk, plan.trials - start)
        sides: dict[str, tuple[_Runs, _Runs]] = {}  # by the model that plays
        for model in dict.fromkeys(protocol.model_of(task) for task in tasks):
            sides[model] = (_runs(plan, count, rng), _runs(plan, count, rng))
        drawn = [
            _drawn(protocol, task, variations[task.id], plan, sides[protocol.model_of(task)], rng)
            for task in tasks
        ]
        decided = _decided(protocol, tasks, drawn, count)
        over_group += int(decided[:, -1].sum())
        on_tasks += decided[:, :-1].sum(axis=0)
    shares = (on_tasks / plan.trials).tolist()
    by_task = {task.id: share for task, share in zip(tasks, shares, strict=True)}
    return Prospect(
        group, plan.rival, plan.runs, plan.effect, over_group / plan.trials, by_task, plan.trials
    )


def _check(plan: Plan, tasks: Sequence[Task], variations: Mapping[str, Variation]) -> None:
    rules = {
        "runs": (plan.runs >= 3, "at least 3 runs"),
        "effect": (0.0 <= plan.effect < math.inf, "finite numbers >= 0"),
        "rival": (plan.rival in (SCRIPT, LEARNER), f"{SCRIPT!r} and {LEARNER!r}"),
        "level": (math.isfinite(plan.level), "finite numbers"),
        "failing": (0.0 <= plan.failing < 1.0, "a share of at least 0 and below 1"),
        "trials": (plan.trials >= 1, "at least 1 trial"),
    }
    for name, (holds, text) in rules.items():
        if not holds:
            raise ValueError(f"{name} is {getattr(plan, name)!r}; allowed are {text}")
    missing = [task.id for task in tasks if task.id not in variations]
    if missing:
        raise ValueError(
            f"the spread of runs on {', '.join(missing)} is unknown: no runs are stored; give "
            "--sd RUNS,EPISODES, or the --results of a pilot"
        )


def _runs(plan: Plan, count: int, rng: np.random.Generator) -> _Runs:
    """Draw the runs of a learner in ``count`` reports."""
    shape = (count, plan.runs)
    return _Runs(rng.normal(size=(*shape, 1)), rng.uniform(size=shape) < plan.failing)


def _drawn(
    protocol: Protocol,
    task: Task,
    spread: Variation,
    plan: Plan,
    sides: tuple[_Runs, _Runs],
    rng: np.random.Generator,
) -> list[tuple[ScoreMatrix, ScoreMatrix]]:
    """Draw the scores of the runs of learners and of their rivals on a task, by report."""
    first, second = sides
    count = len(first.failed)
    played = protocol.episodes(task)
    episodes = min(played, _EPISODES)
    sd = spread.from_script if plan.rival == SCRIPT else spread.between
    sd *= (episodes / played) ** 0.5  # so that the mean is as certain as over all episodes
    luck = rng.normal(0.0, sd, (count, 1, episodes))
    better = plan.level + spread.runs * first.deviations + luck
    (ends,) = score_ends(protocol, [task], normalized=True)
    floor = min(ends, default=0.0)
    better[first.failed] = floor
    share = 1.0 - plan.failing  # of runs that do not fail
    if plan.rival == SCRIPT:
        mean = share * plan.level + plan.failing * floor
        worse = np.full((count, episodes), mean - plan.effect)
    else:
        means = plan.level - plan.effect / share + spread.runs * second.deviations
        worse = np.broadcast_to(means, better.shape).copy()
        worse[second.failed] = floor
    seeds, runs = np.arange(episodes, dtype=np.uint64), tuple(range(plan.runs))
    origin = protocol.model_of(task)
    return [
        (
            ScoreMatrix(f"better {k}", better[k], seeds, None, runs, origin),
            ScoreMatrix(
                f"worse {k}", worse[k], seeds, None, runs if worse.ndim == 3 else (), origin
            ),
        )
        for k in range(count)
    ]


def _decided(
    protocol: Protocol,
    tasks: Sequence[Task],
    drawn: Sequence[Sequence[tuple[ScoreMatrix, ScoreMatrix]]],
    count: int,
) -> np.ndarray:
    """Return what the reports decide for the better one: (reports, tasks and the group)."""
    alpha = protocol.report.alpha
    ends = score_ends(protocol, tasks, normalized=True)
    pairs = [(f"better {k}", f"worse {k}") for k in range(count)]
    rows = []
    for place in (*([k] for k in range(len(tasks))), list(range(len(tasks)))):
        matrices = {
            pair[side]: tuple(drawn[task][k][side] for task in place)
            for k, pair in enumerate(pairs)
            for side in (0, 1)
        }
        limits = [ends[task] for task in place]
        compared = contrasts(protocol, matrices, limits, pairs=pairs)
        rows.append([compared[pair] for pair in pairs])
    decided = np.zeros((count, len(tasks) + 1), np.bool_)
    for k in range(count):
        family = [rows[task][k] for task in range(len(tasks))]
        for task, (row, (_, claim)) in enumerate(zip(family, decide(family, alpha), strict=True)):
            decided[k, task] = claim and row.difference > 0.0
        ((_, claim),) = decide([rows[-1][k]], alpha)
        decided[k, -1] = claim and rows[-1][k].difference > 0.0
    return decided
