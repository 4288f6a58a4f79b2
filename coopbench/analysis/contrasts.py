"""Contrasts: all differences between the means of several policies, over one task or a group."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from coopbench import statistics
from coopbench.analysis.score_matrix import ScoreMatrix, common_episodes, same_episodes
from coopbench.protocol.schema import Protocol
from coopbench.statistics import Spread, TwoWay
from coopbench.statistics.two_way import FEWEST

Matrices = tuple[ScoreMatrix, ...]  # of one policy, one for each task
Weights = Callable[[np.ndarray], np.ndarray]  # task means -> weights of the tasks


@dataclass(frozen=True)
class Contrast:
    """Difference between two policies, first minus second."""

    first: str
    second: str
    difference: float
    half: float  # width of its two-way interval to each side; nan where there is no test
    p_value: float  # nan where there is no test
    spread: Spread | None  # None where there is no test
    reason: str = ""  # why there is no test
    note: str = ""  # on which episodes; empty if on all

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.difference - self.half

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.difference + self.half


def family_pairs(protocol: Protocol, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Iterate over the pairs of policies that are not models of one method."""
    for one, two in itertools.combinations(names, 2):
        if protocol.family(one)[0] != protocol.family(two)[0]:
            yield one, two


def contrasts(
    protocol: Protocol, matrices: dict[str, Matrices], weights: Weights = statistics.mean_weights
) -> dict[tuple[str, str], Contrast]:
    """Return the differences between all pairs of policies, over the tasks of their matrices.

    Every value must be defined. With the protocol's comparison "paired" policies are compared on
    the same episodes, with "welch" as if they had played others.
    """
    pairs = list(family_pairs(protocol, list(matrices)))
    paired = protocol.report.comparison == "paired"
    tasks = list(zip(*matrices.values(), strict=True))
    if not paired or all(same_episodes(task) for task in tasks):
        return _all_contrasts(protocol, matrices, pairs, weights)
    rows = {}
    for one, two in pairs:
        shared = [common_episodes(a, b) for a, b in zip(matrices[one], matrices[two], strict=True)]
        if any(pair is None for pair in shared):
            rows[one, two] = _untested(matrices, one, two, "they have not played the same seeds")
            continue
        left, right = zip(*[pair for pair in shared if pair is not None], strict=True)
        pair = _all_contrasts(protocol, {one: left, two: right}, [(one, two)], weights)
        note = _fewer_episodes(left, matrices[one], matrices[two])
        rows |= {key: replace(row, note=note) for key, row in pair.items()}
    return rows


def _fewer_episodes(shared: Matrices, one: Matrices, two: Matrices) -> str:
    """Say on how many episodes two policies are compared; empty if on all of both."""
    whole = [(len(a.seeds), len(b.seeds)) for a, b in zip(one, two, strict=True)]
    counts = [len(one.seeds) for one in shared]
    if all(count == max(pair) for count, pair in zip(counts, whole, strict=True)):
        return ""
    return f"over the {sum(counts)} episodes that both have played"


def _all_contrasts(
    protocol: Protocol,
    matrices: dict[str, Matrices],
    pairs: Sequence[tuple[str, str]],
    weights: Weights,
) -> dict[tuple[str, str], Contrast]:
    """Return the contrasts of policies whose matrices fit together, all at once."""
    if not pairs:
        return {}
    paired, names = protocol.report.comparison == "paired", list(matrices)
    two_way = TwoWay([one.grid(paired) for name in names for one in matrices[name]])
    tasks = len(two_way.means) // len(names)
    means = two_way.means.reshape(len(names), tasks)
    forms = np.zeros((len(pairs), len(names), tasks))
    for row, (one, two) in zip(forms, pairs, strict=True):
        for name, sign in ((one, 1.0), (two, -1.0)):
            place = names.index(name)
            row[place] = sign * weights(means[place])
    flat = forms.reshape(len(pairs), -1)
    spread, gaps = two_way.spread(flat), two_way.estimates(flat)
    halves = statistics.half_widths(spread, protocol.report.confidence)
    levels = statistics.p_values(gaps, spread)
    rows = {}
    for k, (one, two) in enumerate(pairs):
        reason = _no_test(matrices, one, two, float(halves[k]))
        gap, half = float(gaps[k]), math.nan if reason else float(halves[k])
        part = Spread(*(column[k : k + 1] for column in spread))
        p = math.nan if reason else float(levels[k])
        rows[one, two] = Contrast(one, two, gap, half, p, None if reason else part, reason)
    return rows


def _no_test(matrices: dict[str, Matrices], one: str, two: str, half: float) -> str:
    """Say why two policies cannot be tested; empty if they can."""
    for name in (one, two):
        few = [len(one.runs) for one in matrices[name] if not one.fixed]
        if few and min(few) < FEWEST:
            runs = "a single run" if min(few) == 1 else f"{min(few)} runs"
            return f"{name} has {runs}, and a test needs {FEWEST}"
    if math.isnan(half):
        return "a single episode"
    return "the differences do not vary" if half == 0.0 else ""


def _untested(matrices: dict[str, Matrices], one: str, two: str, reason: str) -> Contrast:
    """Return the difference of the means of two policies that cannot be tested."""
    left, right = (np.mean([m.run_means.mean() for m in matrices[name]]) for name in (one, two))
    return Contrast(one, two, float(left - right), math.nan, math.nan, None, reason)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust the p values that are defined by Holm's method; the others stay nan."""
    adjusted = np.array(p_values, np.float64)
    defined = np.isfinite(adjusted)
    if defined.any():
        adjusted[defined] = statistics.holm(adjusted[defined])
    values: list[float] = adjusted.tolist()
    return values
