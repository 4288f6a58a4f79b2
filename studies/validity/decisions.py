"""Simulations of decisions: families of tests, groups of tasks with equal seeds, improvements.

All of it goes through the functions that a report uses.
"""

import argparse
import itertools
from collections.abc import Iterator

import numpy as np

from coopbench.analysis.contrasts import holm
from coopbench.analysis.score_matrix import group_matrices
from coopbench.episodes.table import EpisodeTable
from coopbench.playing.plan import plan
from coopbench.playing.rollout import play
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.schema import Protocol
from coopbench.statistics import (
    Grid,
    TwoWay,
    half_widths,
    improvement_interval,
    mean_weights,
    p_values,
    trimmed_weights,
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
    pairs = list(itertools.combinations(range(policies), 2))
    grids = [Grid(one, episodes=task) for task, row in enumerate(scores) for one in row]
    forms = np.zeros((TASKS + 1, len(pairs), TASKS, policies))
    for k, (first, second) in enumerate(pairs):
        for task in range(TASKS):
            forms[task, k, task, [first, second]] = 1.0, -1.0
        forms[TASKS, k, :, first], forms[TASKS, k, :, second] = 1.0 / TASKS, -1.0 / TASKS
    flat, two_way = forms.reshape(-1, TASKS * policies), TwoWay(grids)
    gaps = two_way.estimates(flat)
    levels = p_values(gaps, two_way.spread(flat)).reshape(TASKS + 1, len(pairs))
    on_tasks, over_group = np.zeros(len(pairs), bool), np.zeros(len(pairs), bool)
    for k in range(len(pairs)):
        on_tasks[k] = min(holm(levels[:TASKS, k].tolist())) < ALPHA
        over_group[k] = levels[TASKS, k] < ALPHA
    return on_tasks, over_group


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

AGAIN, FIRST = 20, 100_000  # evaluations with other seeds, one after the other from FIRST
PLAYERS = ("cooperator", "unforgiving")


def groups(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield the coverage of means over the groups of coopetition-standard, with its real scores.

    The protocol is played with many sets of seeds, each with the seats and partners that it has. An
    evaluation draws for each of its episodes one of the seeds that were played in its place, the
    same one in all tasks. The truth is the mean over all seeds, with these seats and partners; the
    last column is its distance from the mean in which all seats and partners count alike.
    """
    protocol = load_protocol("coopetition-standard")
    rows: dict[tuple[str, str], list[np.ndarray]] = {}
    labels: dict[tuple[str, str], list[np.ndarray | None]] = {}
    for again in range(AGAIN):
        played = _with_seeds(protocol, again)
        blocks = [play(played, cell, who.family) for cell, who in plan(played, PLAYERS)]
        for group, members in group_matrices(played, EpisodeTable(tuple(blocks))).items():
            for policy, plays in members.items():
                rows.setdefault((group, policy), []).append(np.array([p.values for p in plays]))
                labels[group, policy] = [one.grid().strata for one in plays]
    yield ["group", "policy", "mean", "width", "trimmed mean", "as if seeds differed", "off"]
    for (group, policy), scores in rows.items():
        numbers = _coverage(_as_new(scores), labels[group, policy], arguments.trials)
        yield [group, policy, *(f"{value:.3f}" for value in numbers)]


def _with_seeds(protocol: Protocol, again: int) -> Protocol:
    """Return the protocol with other evaluation seeds."""
    count = protocol.seeds.evaluation.count
    content = protocol.model_dump(mode="json")
    content["seeds"]["evaluation"] = {"first": FIRST + again * count, "count": count}
    return type(protocol).model_validate(content, strict=False)


def _as_new(scores: list[np.ndarray]) -> np.ndarray:
    """Return (tasks, sets of seeds, episodes) of which a draw varies as a new seed does.

    A draw among n values varies by (n - 1) / n of what new ones do.
    """
    values = np.stack(scores, axis=1)
    means = values.mean(axis=1, keepdims=True)
    widened: np.ndarray = means + (values - means) * np.sqrt(len(scores) / (len(scores) - 1))
    return widened


def _coverage(
    scores: np.ndarray, strata: list[np.ndarray | None], trials: int
) -> tuple[float, float, float, float, float]:
    """Return the coverage of the mean, its mean width, two further coverages, and a distance.

    ``scores`` is (tasks, sets of seeds, episodes). The coverages are those of the trimmed mean, and
    of the mean as if the tasks had other seeds; the distance is that of two definitions of the
    truth, see ``groups``.
    """
    rng, truth = np.random.default_rng(21), scores.mean(axis=(1, 2))
    hits, width, episodes = np.zeros(3), 0.0, np.arange(scores.shape[2])
    for _ in range(trials):
        drawn = scores[:, rng.integers(scores.shape[1], size=len(episodes)), episodes]
        rows = list(zip(drawn, strata, strict=True))
        shared = TwoWay([Grid(values, "seeds", strata=labels) for values, labels in rows])
        apart = TwoWay([Grid(values, strata=labels) for values, labels in rows])
        for k, (two_way, weights) in enumerate(
            ((shared, mean_weights), (shared, trimmed_weights), (apart, mean_weights))
        ):
            form = weights(two_way.means)
            half = half_widths(two_way.spread(form))[0]
            hits[k] += abs(form @ two_way.means - weights(truth) @ truth) <= half
            width += 2.0 * half if k == 0 else 0.0
    balanced = [_balanced(task.mean(axis=0), one) for task, one in zip(scores, strata, strict=True)]
    off = float(np.mean(truth) - np.mean(balanced))
    return hits[0] / trials, width / trials, hits[1] / trials, hits[2] / trials, off


def _balanced(scores: np.ndarray, strata: np.ndarray | None) -> float:
    """Return the mean of the means of the strata."""
    labels = np.zeros(len(scores), np.int64) if strata is None else strata
    return float(np.mean([scores[labels == one].mean() for one in np.unique(labels)]))


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
