"""False decisions on policies of equal mean score: tables of ``python -m studies.validity``.

Scores are drawn, and decided by the functions that decide in a report: ``contrasts`` and
``decide``. Ranks are decided over all pairs of a group.
"""

import argparse
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from coopbench.analysis.contrasts import Contrast, contrasts, decide
from coopbench.analysis.score_matrix import ScoreMatrix
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.schema import Protocol
from studies.validity.regime import COUNTS, EPISODES, FLOOR, SHAPES, TASKS

ENDS = (FLOOR, 1.0)  # of the score on every task
RATIO = 14.0  # standard deviation of runs / error of the mean of a run
LUCK = 0.1  # standard deviation over episodes of what all policies share
CHUNK = 40  # pairs of one call
GRIDS = 480  # policies on tasks of one call

Pairs = list[tuple[str, str]]
Scores = Mapping[str, np.ndarray]  # policy -> (tasks, runs, episodes), or (tasks, episodes)


@cache
def protocol() -> Protocol:
    """Return the protocol whose settings of reports apply: paired by seed, alpha .05."""
    return load_protocol("coopetition-standard")


def compared(scores: Scores, pairs: Pairs, tasks: slice) -> list[Contrast]:
    """Return the differences of pairs of policies, of the mean over some of the tasks."""
    matrices = {
        policy: tuple(_matrix(policy, place, rows) for place, rows in enumerate(values[tasks]))
        for policy, values in scores.items()
    }
    ends = [ENDS] * len(next(iter(matrices.values())))
    rows = contrasts(protocol(), matrices, ends, pairs=pairs)
    return [rows[pair] for pair in pairs]


def _matrix(policy: str, place: int, rows: np.ndarray) -> ScoreMatrix:
    runs = tuple(range(len(rows))) if rows.ndim == 2 else ()
    seeds = np.arange(rows.shape[-1], dtype=np.uint64)
    return ScoreMatrix(policy, rows, seeds, None, runs, f"{place}")  # other models on each task


# -- one task --------------------------------------------------------------------------------------


def false_claims(shape: str, rival: str, runs: int, trials: int) -> float:
    """Return how often a difference that does not exist is decided on a single task.

    The rival of the learner has the same mean: "policy" is fixed, "learner" has normal runs.
    """
    one, alpha = SHAPES[shape], protocol().report.alpha
    rng, claimed = np.random.default_rng([9, runs]), 0
    for start in range(0, trials, CHUNK):
        count = min(CHUNK, trials - start)
        luck = rng.normal(0.0, LUCK, (count, 1, EPISODES))
        learners = one.scores(rng, RATIO, (count, runs)) + luck
        others = one.mean + luck[:, 0]
        if rival == "learner":
            level = one.mean - SHAPES["normal"].mean
            others = SHAPES["normal"].scores(rng, RATIO, (count, runs)) + level + luck
        pairs = [(f"learner {k}", f"rival {k}") for k in range(count)]
        scores = {
            name: side[k][None]
            for k, pair in enumerate(pairs)
            for name, side in zip(pair, (learners, others), strict=True)
        }
        rows = compared(scores, pairs, slice(1))
        claimed += sum(decided for row in rows for _, decided in decide([row], alpha))
    return claimed / trials


def claims(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield how often a learner is told apart on a task from a rival with the same mean."""
    yield ["runs of the learner", "against", *(f"{count} runs" for count in COUNTS)]
    for rival, shape in itertools.product(("policy", "learner"), SHAPES):
        shares = [false_claims(shape, rival, count, arguments.trials) for count in COUNTS]
        against = {"policy": "fixed policy", "learner": "normal learner"}[rival]
        yield [shape, against, *(f"{share:.3f}" for share in shares)]


# -- reports of many policies ----------------------------------------------------------------------

POLICIES = (2, 6)
FIXED = 1000  # episodes of fixed policies
RARE = 0.005  # share of the episodes that are won
TIES = "all tie"  # one report shows what all do: nothing is drawn

Draw = Callable[[np.random.Generator, int], Scores]


class Errors(NamedTuple):
    """What a report of policies of equal mean gets wrong."""

    on_tasks: float  # share of pairs that are told apart on some task
    over_group: float  # share of pairs that are told apart over the group
    decisions: float  # number of both
    ranks: float  # 1 if a rank is false, else 0


def _learners(shape: str, runs: int) -> Draw:
    def draw(rng: np.random.Generator, policies: int) -> Scores:
        luck = rng.normal(0.0, LUCK, (TASKS, 1, EPISODES))
        size = TASKS, runs
        return {f"{k}": SHAPES[shape].scores(rng, RATIO, size) + luck for k in range(policies)}

    return draw


def _beside(shape: str, runs: int) -> Draw:
    """Return a draw of learners, and of as many fixed policies with their mean."""

    def draw(rng: np.random.Generator, policies: int) -> Scores:
        luck = rng.normal(0.0, LUCK, (TASKS, 1, EPISODES))
        one, size = SHAPES[shape], (TASKS, EPISODES)
        scores = {}
        for k in range(policies):
            own = rng.normal(one.mean, LUCK, size) + luck[:, 0]
            scores[f"{k}"] = own if k % 2 else one.scores(rng, RATIO, (TASKS, runs)) + luck
        return scores

    return draw


def _normal(rng: np.random.Generator, policies: int) -> Scores:
    luck = rng.normal(0.5, LUCK, (TASKS, FIXED))
    return {f"{k}": luck + rng.normal(0.0, LUCK, luck.shape) for k in range(policies)}


def _rare(rng: np.random.Generator, policies: int) -> Scores:
    wins = rng.uniform(size=(policies, TASKS, FIXED)) < RARE
    return {f"{k}": won.astype(np.float64) for k, won in enumerate(wins)}


def _ties(shape: tuple[int, ...]) -> Draw:
    """Return a draw of policies that all have the same score in all episodes."""
    return lambda rng, policies: {f"{k}": np.full(shape, 0.6) for k in range(policies)}


CASES: dict[tuple[str, str], Draw] = {
    (f"{FIXED} episodes", "normal"): _normal,
    (f"{FIXED} episodes", f"{RARE:.1%} are won"): _rare,
    (f"{FIXED} episodes", TIES): _ties((TASKS, FIXED)),
    ("5 runs", TIES): _ties((TASKS, 5, EPISODES)),
    **{
        (f"{runs} runs", shape): _learners(shape, runs)
        for shape in ("normal", "a fifth fails")
        for runs in COUNTS
    },
    **{
        (f"{runs} runs", "a fifth fails; every second policy is fixed"): _beside(
            "a fifth fails", runs
        )
        for runs in COUNTS
    },
}


def errors(reports: Sequence[Scores]) -> list[Errors]:
    """Return what reports decide of policies that have the same mean on every task.

    All are decided by the same calls, each as if it were alone.
    """
    named = {f"{k} {name}": v for k, report in enumerate(reports) for name, v in report.items()}
    pairs = [
        list(itertools.combinations([f"{k} {name}" for name in report], 2))
        for k, report in enumerate(reports)
    ]
    flat = [pair for some in pairs for pair in some]
    tasks = [compared(named, flat, slice(k, k + 1)) for k in range(TASKS)]
    families = iter(zip(*tasks, compared(named, flat, slice(TASKS)), strict=True))
    return [_errors(list(itertools.islice(families, len(some)))) for some in pairs]


def _errors(pairs: Sequence[Sequence[Contrast]]) -> Errors:
    """Return what one report decides; a pair has its differences on the tasks, and over them."""
    alpha = protocol().report.alpha
    over_group = [pair[-1] for pair in pairs]
    on_tasks = [any(claim for _, claim in decide(pair[:-1], alpha)) for pair in pairs]
    on_group = [claim for row in over_group for _, claim in decide([row], alpha)]
    ranked = any(claim for _, claim in decide(over_group, alpha))
    wrong = float(np.sum(on_tasks) + np.sum(on_group))
    return Errors(float(np.mean(on_tasks)), float(np.mean(on_group)), wrong, float(ranked))


def ranks(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield how often policies of equal mean are told apart, and how often a rank is false."""
    yield [
        *("policies", "units", "scores", "false on a task", "false over the group"),
        *("false decisions in a report", "any false rank", "standard error"),
    ]
    for policies, ((units, kind), draw) in itertools.product(POLICIES, CASES.items()):
        rng = np.random.default_rng([31, policies])
        trials = 1 if kind == TIES else arguments.trials
        chunk, found = GRIDS // (policies * TASKS), list[Errors]()
        for start in range(0, trials, chunk):
            count = min(chunk, trials - start)
            found += errors([draw(rng, policies) for _ in range(count)])
        mean = Errors(*np.mean(found, axis=0).tolist())
        error = float(np.sqrt(mean.ranks * (1.0 - mean.ranks) / trials))
        numbers = [f"{mean.on_tasks:.3f}", f"{mean.over_group:.3f}", f"{mean.decisions:.2f}"]
        yield [str(policies), units, kind, *numbers, f"{mean.ranks:.3f}", f"{error:.3f}"]
