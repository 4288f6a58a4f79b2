"""Simulations of decisions: families of tests, groups of tasks with equal seeds, improvements.

All of it goes through the functions that a report uses.
"""

import argparse
import itertools
from collections.abc import Iterator

import numpy as np

import coopbench
from coopbench.analysis.contests import holm
from coopbench.analysis.plays import group_plays
from coopbench.protocol.loading import load_protocol
from coopbench.statistics import (
    Crossed,
    Grid,
    half_widths,
    improvement_interval,
    mean_weights,
    p_values,
    trimmed_weights,
    unseen_p,
)

TASKS, ALPHA = 8, 0.05
FAILING = 0.2  # share of the runs that score LOW, where runs fail
LOW, HIGH = 0.1, 0.9  # normalised scores of the two kinds of runs

# -- families of decisions -------------------------------------------------------------------------

POLICIES, COUNTS, EPISODES = (2, 5, 10), (3, 5, 10, 30), (100, 1000)


def _learners(rng: np.random.Generator, policies: int, runs: int, fails: bool) -> np.ndarray:
    """Return scores (tasks, policies, runs, episodes) of learners that are all alike."""
    episodes = 50
    luck = rng.normal(0.0, 0.1, (TASKS, 1, 1, episodes))
    size = (TASKS, policies, runs, 1)
    low = rng.uniform(size=size) < (FAILING if fails else 0.0)
    level = np.where(low, LOW, HIGH) if fails else 0.5
    levels = level + rng.normal(0.0, 0.05, size)
    scores: np.ndarray = levels + luck + rng.normal(0.0, 0.025, (*size[:3], episodes))
    return scores


def _fixed(rng: np.random.Generator, policies: int, episodes: int) -> np.ndarray:
    """Return scores (tasks, policies, episodes) of fixed policies that are all alike."""
    luck = rng.normal(0.0, 0.1, (TASKS, 1, episodes))
    scores: np.ndarray = 0.5 + luck + rng.normal(0.0, 0.1, (TASKS, policies, episodes))
    return scores


def _decisions(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what a report claims of all pairs: on some task, and over the group, (pairs,) each."""
    policies = scores.shape[1]
    runs = scores.shape[2] if scores.ndim == 4 else 0
    pairs = list(itertools.combinations(range(policies), 2))
    means = scores.reshape(TASKS, policies, -1).mean(axis=2)
    grids = [Grid(one, episodes=task) for task, row in enumerate(scores) for one in row]
    forms = np.zeros((TASKS + 1, len(pairs), TASKS, policies))
    for k, (first, second) in enumerate(pairs):
        for task in range(TASKS):
            forms[task, k, task, [first, second]] = 1.0, -1.0
        forms[TASKS, k, :, first], forms[TASKS, k, :, second] = 1.0 / TASKS, -1.0 / TASKS
    flat, crossed = forms.reshape(-1, TASKS * policies), Crossed(grids)
    gaps = crossed.estimates(flat)
    levels = p_values(gaps, crossed.spread(flat)).reshape(TASKS + 1, len(pairs))
    on_tasks, over_group = np.zeros(len(pairs), bool), np.zeros(len(pairs), bool)
    for k, (first, second) in enumerate(pairs):
        sides = means[:, [first, second]]
        decided = [_decision_p(levels[task, k], sides[task], runs) for task in range(TASKS)]
        on_tasks[k] = min(holm(decided)) < ALPHA
        over_group[k] = _decision_p(levels[TASKS, k], sides.mean(axis=0), runs * TASKS) < ALPHA
    return on_tasks, over_group


def _decision_p(p: float, means: np.ndarray, runs: int) -> float:
    """Return the larger of p and of the chance of runs that nobody has seen."""
    if not runs:
        return p
    return max(p, unseen_p(float(means.max()), runs, float(means.min()), runs, (0.0, 1.0)))


def families(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield how often a pair of equal policies is told apart on a task or over the group."""
    yield ["policies", "units", "of which", "false on a task", "false over the group", "per table"]
    kinds = [(f"{runs} runs", fails, runs) for fails in (False, True) for runs in COUNTS]
    kinds += [(f"{episodes} episodes", None, episodes) for episodes in EPISODES]
    for policies, (units, fails, count) in itertools.product(POLICIES, kinds):
        rng, wrong, trials = np.random.default_rng([20, policies, count]), np.zeros(2), 0
        pairs = policies * (policies - 1) // 2
        while trials < arguments.trials:
            if fails is None:
                scores = _fixed(rng, policies, count)
            else:
                scores = _learners(rng, policies, count, fails)
            wrong += [claims.mean() for claims in _decisions(scores)]
            trials += 1
        shares = wrong / trials
        which = {None: "equal", False: "equal", True: "a fifth fails"}[fails]
        numbers = [f"{value:.3f}" for value in shares]
        yield [str(policies), units, which, *numbers, f"{shares.sum() * pairs:.2f}"]


# -- groups of tasks that play the same seeds ------------------------------------------------------

PLAYED, FIRST = 16_800, 100_000  # seeds of the population, a multiple of all line-ups
DRAWN, PERIOD = 1000, 840  # episodes of an evaluation; after a period seats and partners repeat
PLAYERS = ("cooperator", "unforgiving")


def groups(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield the coverage of means over the groups of coopetition-standard, with its real scores.

    The scores of many seeds are the population. An evaluation draws a seed for each of its
    episodes, the same one in all tasks, from those with the same seats and partners.
    """
    protocol = load_protocol("coopetition-standard")
    content = protocol.model_dump(mode="json")
    content["seeds"]["evaluation"] = {"first": FIRST, "count": PLAYED}
    for task in content["task"]:
        task["episodes"] = None
    whole = type(protocol).model_validate(content, strict=False)
    report = coopbench.evaluate(whole, PLAYERS, reference=False)
    yield ["group", "policy", "mean", "width", "trimmed mean", "as if seeds differed"]
    for group, members in group_plays(whole, report.episodes).items():
        for policy, plays in members.items():
            scores = np.array([one.values for one in plays])
            strata = [one.strata for one in plays]
            numbers = _coverage(scores, strata, arguments.trials)
            yield [group, policy, *(f"{value:.3f}" for value in numbers)]


def _coverage(
    scores: np.ndarray, strata: list[np.ndarray | None], trials: int
) -> tuple[float, float, float, float]:
    """Return the coverage of the mean, its mean width, and two further coverages.

    They are that of the trimmed mean, and that of the mean as if the tasks had other seeds.
    """
    rng, truth = np.random.default_rng(21), scores.mean(axis=1)
    hits, width = np.zeros(3), 0.0
    places = np.arange(DRAWN) % PERIOD
    for _ in range(trials):
        drawn = places + PERIOD * rng.integers(PLAYED // PERIOD, size=DRAWN)
        parts = [None if labels is None else labels[drawn] for labels in strata]
        rows = list(zip(scores[:, drawn], parts, strict=True))
        shared = Crossed([Grid(values, "seeds", strata=labels) for values, labels in rows])
        apart = Crossed([Grid(values, strata=labels) for values, labels in rows])
        for k, (crossed, weights) in enumerate(
            ((shared, mean_weights), (shared, trimmed_weights), (apart, mean_weights))
        ):
            form = weights(crossed.means)
            half = half_widths(crossed.spread(form))[0]
            hits[k] += abs(form @ crossed.means - weights(truth) @ truth) <= half
            width += 2.0 * half if k == 0 else 0.0
    return hits[0] / trials, width / trials, hits[1] / trials, hits[2] / trials


# -- probability of improvement --------------------------------------------------------------------

TRUTHS = (0.5, 0.76, 0.96, 0.99)


def improvement(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield coverage and width of the interval of the probability of improvement."""
    from scipy.special import ndtri

    yield ["tasks", "runs", "truth", "coverage", "width", "a fifth fails: coverage", "width"]
    for tasks, runs, truth in itertools.product((1, TASKS), (3, 5, 10), TRUTHS):
        rng, numbers = np.random.default_rng([22, tasks, runs]), list[float]()
        for share in (0.0, FAILING):
            hits = width = 0.0
            # Both fail, one of them, or none; a tie counts one half, and so does it if both fail.
            actual = (1 - share) ** 2 * truth + (1 - share) * share + share**2 / 2
            for _ in range(arguments.trials):
                first, second = rng.normal(0.0, 1.0, (2, runs, tasks))
                first += np.sqrt(2.0) * ndtri(truth)
                failed = rng.uniform(size=(2, runs, tasks)) < share
                x, y = np.where(failed[0], -99.0, first), np.where(failed[1], -99.0, second)
                interval = improvement_interval(x, y)
                hits += interval.low <= actual <= interval.high
                width += interval.high - interval.low
            numbers += [hits / arguments.trials, width / arguments.trials]
        yield [str(tasks), str(runs), f"{truth:g}", *(f"{value:.3f}" for value in numbers)]
