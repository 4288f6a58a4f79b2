"""False decisions on policies of equal mean score: tables of ``python -m studies.validity``.

Scores are drawn, and decided by the functions that decide in a report: ``contrasts`` and
``decide``. Ranks are decided over all pairs of a group.
"""

import argparse
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

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

POLICIES = 6  # of a report with ranks
FIXED = 1000  # episodes of fixed policies
RARE = 0.005  # share of the episodes that are won
TIES = "all tie"  # one report shows what all do: nothing is drawn

Draw = Callable[[np.random.Generator, int], Scores]


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
    (f"{FIXED} episodes", f"{100 * RARE:g} % are won"): _rare,
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


def false_on_pairs(reports: Sequence[Scores]) -> np.ndarray:
    """Return whether two policies of equal mean are told apart, (reports, 2).

    The columns are on any of the tasks, and over the group. All reports are decided by the same
    calls, each as if it were alone.
    """
    alpha, (named, families) = protocol().report.alpha, _named(reports)
    pairs = [pair for (pair,) in families]
    tasks = [compared(named, pairs, slice(k, k + 1)) for k in range(TASKS)]
    over_group = compared(named, pairs, slice(TASKS))
    on_tasks = [
        any(claim for _, claim in decide(family, alpha)) for family in zip(*tasks, strict=True)
    ]
    return np.array([on_tasks, [decide([row], alpha)[0][1] for row in over_group]]).T


def false_ranks(reports: Sequence[Scores]) -> np.ndarray:
    """Return whether any rank of policies of equal mean is false, (reports,)."""
    alpha, (named, families) = protocol().report.alpha, _named(reports)
    rows = iter(compared(named, [pair for some in families for pair in some], slice(TASKS)))
    decided = [decide(list(itertools.islice(rows, len(some))), alpha) for some in families]
    return np.array([any(claim for _, claim in family) for family in decided])


def _named(reports: Sequence[Scores]) -> tuple[Scores, list[Pairs]]:
    """Return the policies of all reports with names of their own, and the pairs of each report."""
    names = [{name: f"{k} {name}" for name in report} for k, report in enumerate(reports)]
    scores = {
        own[name]: values
        for own, report in zip(names, reports, strict=True)
        for name, values in report.items()
    }
    return scores, [list(itertools.combinations(own.values(), 2)) for own in names]


def _simulated(
    errors: Callable[[Sequence[Scores]], np.ndarray], draw: Draw, policies: int, trials: int
) -> np.ndarray:
    """Return the errors of ``trials`` reports of some policies, (reports, ...)."""
    rng, chunk = np.random.default_rng([31, policies]), GRIDS // (policies * TASKS)
    counts = [min(chunk, trials - start) for start in range(0, trials, chunk)]
    return np.concatenate([errors([draw(rng, policies) for _ in range(n)]) for n in counts])


def ranks(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield how often policies of equal mean are told apart, and how often a rank is false.

    The number of policies in a report does not change the decisions on a pair.
    """
    yield [
        *("units", "scores", "false on a task", "false over the group"),
        *(f"any false rank of {POLICIES}", "standard error"),
    ]
    for (units, kind), draw in CASES.items():
        trials = 1 if kind == TIES else arguments.trials
        pairs = _simulated(false_on_pairs, draw, 2, trials).mean(axis=0)
        ranked = float(_simulated(false_ranks, draw, POLICIES, trials).mean())
        error = (ranked * (1.0 - ranked) / trials) ** 0.5
        yield [units, kind, *(f"{share:.3f}" for share in (*pairs, ranked, error))]
