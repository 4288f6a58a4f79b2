"""Simulations of the statistics: coverage of intervals, and errors of printed claims.

A run r scores y_re = a_r + b_e + e_re in episode e, so that the true mean is 0 (coverage) or known
(claims). All of it goes through ``coopbench.statistics``, as in a report.
"""

import argparse
from collections.abc import Callable, Iterator

import numpy as np

from coopbench.statistics import (
    Grid,
    TwoWay,
    half_widths,
    mean_weights,
    p_values,
    trimmed_weights,
)

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

CASES = {"(66, 1)": (66.0, 1.0), "(12.6, 1.6)": (12.6, 1.6), "(17, 2)": (17.0, 2.0)}
EPISODES, TASKS, CHUNK = 1000, 8, 100
SPREAD = 30.0  # true means of the tasks of a group lie evenly between plus and minus this


# -- shapes, all with mean 0 and standard deviation 1 ----------------------------------------------


def normal(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """Draw normal values."""
    return rng.normal(size=size)


def lognormal(sigma: float) -> Draw:
    """Return a draw of standardised lognormal values."""
    mean, square = np.exp(sigma**2 / 2), np.expm1(sigma**2)

    def draw(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
        return (rng.lognormal(0.0, sigma, size) - mean) / (mean * np.sqrt(square))

    return draw


def heavy(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """Draw from Student's t with 3 degrees of freedom."""
    return rng.standard_t(3.0, size) / np.sqrt(3.0)


def two_points(share: float) -> Draw:
    """Return a draw of which a share is low, the rest high."""

    def draw(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
        low = rng.uniform(size=size) < share
        return np.where(low, share - 1.0, share) / np.sqrt(share * (1.0 - share))

    return draw


# Name -> draws of runs and of episodes, and the deviation of e_re in that of an episode.
SHAPES: dict[str, tuple[Draw, Draw, float]] = {
    "normal": (normal, normal, 0.25),
    "interaction": (normal, normal, 1.0),
    "heavy episodes": (normal, heavy, 0.25),
    "skewed episodes": (normal, lognormal(1.0), 0.25),
    "lognormal runs": (lognormal(0.8), normal, 0.25),
    "half/half runs": (two_points(0.5), normal, 0.25),
    "a fifth of the runs fails": (two_points(0.2), normal, 0.25),
}


def floor(shape: str, runs: int) -> float:
    """Return the coverage of one task that is required at least; 0 where it is only printed."""
    if shape == "half/half runs":
        return 0.92 if runs < 10 else 0.93
    if shape == "a fifth of the runs fails":
        return 0.93 if runs >= 10 else 0.0
    return 0.93


def draw_tasks(
    rng: np.random.Generator, shape: str, case: str, runs: int, tasks: int, count: int
) -> np.ndarray:
    """Return scores (count, tasks, runs, episodes) with true means of 0."""
    episode_sd, run_sd = CASES[case]
    of_runs, of_episodes, residual = SHAPES[shape]
    scores = rng.normal(0.0, residual * episode_sd, (count, tasks, runs, EPISODES))
    scores += run_sd * of_runs(rng, (count, tasks, runs, 1))
    scores += episode_sd * of_episodes(rng, (count, tasks, 1, EPISODES))
    return scores


def ideal(shape: str, case: str, runs: int) -> float:
    """Return the half width of a normal interval with the true standard deviation."""
    episode_sd, run_sd = CASES[case]
    residual = SHAPES[shape][2] * episode_sd
    parts = run_sd**2 / runs, episode_sd**2 / EPISODES, residual**2 / (runs * EPISODES)
    return 1.959964 * float(np.sqrt(sum(parts)))


def task_coverage(shape: str, case: str, runs: int, trials: int) -> tuple[float, float]:
    """Return coverage and mean width, in ideal widths, of the interval of one task."""
    rng, hits, widths = np.random.default_rng([7, runs]), 0, 0.0
    for start in range(0, trials, CHUNK):
        scores = draw_tasks(rng, shape, case, runs, 1, min(CHUNK, trials - start))
        two_way = TwoWay([Grid(one[0]) for one in scores])
        halves = half_widths(two_way.spread(np.eye(len(scores))))
        hits += int(np.sum(np.abs(two_way.means) <= halves))
        widths += float(halves.sum())
    return hits / trials, widths / trials / ideal(shape, case, runs)


def group_coverage(shape: str, case: str, runs: int, trials: int) -> tuple[float, float]:
    """Return the coverage of the mean and of the trimmed mean of task means over a group."""
    rng, hits = np.random.default_rng([8, runs]), np.zeros(2)
    levels = np.linspace(-SPREAD, SPREAD, TASKS)
    truths = [weights(levels) @ levels for weights in (mean_weights, trimmed_weights)]
    for _ in range(trials):
        scores = draw_tasks(rng, shape, case, runs, TASKS, 1)[0] + levels[:, None, None]
        two_way = TwoWay([Grid(one) for one in scores])
        forms = np.array([weights(two_way.means) for weights in (mean_weights, trimmed_weights)])
        halves = half_widths(two_way.spread(forms))
        hits += np.abs(forms @ two_way.means - truths) <= halves
    return hits[0] / trials, hits[1] / trials


def coverage(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield the rows of the table of coverage, its head first."""
    yield [
        "runs",
        "(episode sd, run sd)",
        "runs per task",
        "one task",
        "width",
        "mean",
        "trimmed mean",
    ]
    for case in CASES:
        for shape in SHAPES:
            for runs in (5, 10):
                task = task_coverage(shape, case, runs, arguments.trials)
                group = group_coverage(shape, case, runs, arguments.trials // 2)
                numbers = [f"{value:z.3f}" for value in (task[0], task[1], *group)]
                yield [shape, case, str(runs), *numbers]


# -- claims ----------------------------------------------------------------------------------------

ENDS = (0.0, 1.0)  # of the scale


def mixture(share: float, low: float = 0.1, high: float = 0.9) -> tuple[float, Draw]:
    """Return the mean of runs of which a share scores low, the rest high, and their draw."""

    def draw(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
        jitter = rng.normal(0.0, 0.01, size)
        return np.where(rng.uniform(size=size) < share, low, high) + jitter

    return share * low + (1.0 - share) * high, draw


def skewed(sign: float) -> tuple[float, Draw]:
    """Return the mean of lognormal runs around one half, with their tail up or down."""
    standard = lognormal(0.8)
    return 0.5, lambda rng, size: np.clip(0.5 + sign * 0.1 * standard(rng, size), *ENDS)


# Name -> mean of the runs and their draw, in normalised score. Clipping at the ends of the scale
# moves the mean of skewed runs by less than .001.
RUNS: dict[str, tuple[float, Draw]] = {
    "normal": (0.5, lambda rng, size: rng.normal(0.5, 0.05, size)),
    "tail up": skewed(1.0),
    "tail down": skewed(-1.0),
    **{f"{share:.0%} fail": mixture(share) for share in (0.05, 0.1, 0.2, 0.3, 0.5)},
    **{f"{share:.0%} succeed": mixture(1.0 - share) for share in (0.05, 0.1, 0.2, 0.3)},
}
COUNTS, CLAIM_EPISODES, EPISODE_SD = (3, 5, 10, 30), 50, 0.1


def _chunks(trials: int) -> Iterator[int]:
    for start in range(0, trials, CHUNK):
        yield min(CHUNK, trials - start)


def errors_against_policy(name: str, runs: int, trials: int) -> float:
    """Return how often a difference from a fixed policy that does not exist is claimed."""
    mean, draw = RUNS[name]
    rng, claimed = np.random.default_rng([9, runs]), 0
    for count in _chunks(trials):
        luck = rng.normal(0.0, EPISODE_SD, (count, 1, CLAIM_EPISODES))
        noise = rng.normal(0.0, EPISODE_SD / 4, (count, runs, CLAIM_EPISODES))
        gaps = draw(rng, (count, runs, 1)) - mean + luck + noise  # from the policy, by episode
        two_way = TwoWay([Grid(one) for one in gaps])
        levels = p_values(two_way.means, two_way.spread(np.eye(count)))
        claimed += int(np.sum(levels < 0.05))
    return claimed / trials


def errors_between_learners(name: str, runs: int, trials: int) -> float:
    """Return the same for two learners of equal mean, of which the other is normal."""
    mean, draw = RUNS[name]
    rng, claimed = np.random.default_rng([10, runs]), 0
    for count in _chunks(trials):
        luck = rng.normal(0.0, EPISODE_SD, (count, 1, CLAIM_EPISODES))
        scores = [
            level + luck + rng.normal(0.0, EPISODE_SD / 4, (count, runs, CLAIM_EPISODES))
            for level in (draw(rng, (count, runs, 1)), rng.normal(mean, 0.05, (count, runs, 1)))
        ]
        grids = [Grid(side[k], episodes=k) for k in range(count) for side in scores]
        two_way = TwoWay(grids)
        forms = np.kron(np.eye(count), [[1.0, -1.0]])
        gaps = two_way.estimates(forms)
        levels = p_values(gaps, two_way.spread(forms))
        claimed += int(np.sum(levels < 0.05))
    return claimed / trials


def type_one(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield the rows of the table of false claims, its head first."""
    kinds = {"policy": errors_against_policy, "normal learner": errors_between_learners}
    yield ["runs of the learner", "against", *(f"{count} runs" for count in COUNTS)]
    for against, errors in kinds.items():
        for name in RUNS:
            shares = [errors(name, count, arguments.trials) for count in COUNTS]
            yield [name, against, *(f"{share:z.3f}" for share in shares)]
