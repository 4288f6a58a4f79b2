"""Contrasts: all differences between the means of several policies, over one task or a group.

The p value of a difference is the level at which its interval touches 0. Differences that do not
vary have one as well: exact ones, and those within a bound; see ``constants``.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coopbench import statistics
from coopbench.analysis.constants import (
    BOUND,
    EXACT,
    NONE,
    TEST,
    Matrices,
    are_exact,
    constant_episodes,
    constant_runs,
)
from coopbench.analysis.score_matrix import common_episodes, same_episodes
from coopbench.episodes.grouping import grouped
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.statistics import Spread, TwoWay
from coopbench.statistics.two_way import FEWEST

Weights = Callable[[np.ndarray], np.ndarray]  # task means -> weights of the tasks


@dataclass(frozen=True)
class Contrast:
    """Difference between two policies, first minus second."""

    first: str
    second: str
    difference: float
    half: float  # width of its interval to each side; nan where there is no test
    p_value: float  # nan where there is no test; 0 or 1 of an exact difference
    spread: Spread | None  # None where there is no test over runs or episodes
    basis: str = TEST  # "exact", "bound" or "none"
    bound: tuple[int, float] = (0, 0.0)  # episodes and width of the scores; see statistics.constant
    reason: str = ""  # why there is no test, or what there is instead
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


def families(protocol: Protocol, table: EpisodeTable) -> dict[str, list[str]]:
    """Group the policies by the method that they are models of; others are their own method."""
    return grouped((protocol.family(policy)[0], policy) for policy in table.policies)


def contrasts(
    protocol: Protocol,
    matrices: dict[str, Matrices],
    ends: Sequence[Sequence[float]],
    weights: Weights = statistics.mean_weights,
    pairs: Sequence[tuple[str, str]] | None = None,
) -> dict[tuple[str, str], Contrast]:
    """Return the differences between pairs of policies, over the tasks of their matrices.

    ``pairs`` are all that are not models of one method, unless they are given. ``ends`` are those
    of the score on the tasks, see ``score_ends``. Every value must be defined. With the protocol's
    comparison "paired" policies are compared on the same episodes, with "welch" as if they had
    played others.
    """
    pairs = list(family_pairs(protocol, list(matrices))) if pairs is None else pairs
    paired = protocol.report.comparison == "paired"
    tasks = list(zip(*matrices.values(), strict=True))
    if not paired or all(same_episodes(task) for task in tasks):
        return _all_contrasts(protocol, matrices, pairs, ends, weights)
    rows = {}
    for one, two in pairs:
        shared = [common_episodes(a, b) for a, b in zip(matrices[one], matrices[two], strict=True)]
        if any(pair is None for pair in shared):
            rows[one, two] = _untested(matrices, one, two)
            continue
        left, right = zip(*[pair for pair in shared if pair is not None], strict=True)
        pair = _all_contrasts(protocol, {one: left, two: right}, [(one, two)], ends, weights)
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
    ends: Sequence[Sequence[float]],
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
        part = Spread(*(column[k : k + 1] for column in spread))
        tested = Contrast(one, two, float(gaps[k]), float(halves[k]), float(levels[k]), part)
        sides = matrices[one], matrices[two]
        rows[one, two] = _decidable(protocol, tested, sides, ends)
    return rows


def _decidable(
    protocol: Protocol,
    row: Contrast,
    sides: tuple[Matrices, Matrices],
    ends: Sequence[Sequence[float]],
) -> Contrast:
    """Return a contrast as it can be decided: by its test, exactly, within a bound, or not."""
    for side in sides:
        few = [len(one.runs) for one in side if not one.fixed]
        if few and min(few) < FEWEST:
            runs = "a single run" if min(few) == 1 else f"{min(few)} runs"
            return _without(row, f"no test: {side[0].policy} has {runs}, and a test needs {FEWEST}")
    if are_exact(sides):
        return replace(
            row,
            half=0.0,
            p_value=float(row.difference == 0.0),
            spread=None,
            basis=EXACT,
            reason="exact: all starts are played, and nothing is drawn",
        )
    if math.isnan(row.half):
        return _without(row, "no test: a single episode")
    return _constant(protocol, row, sides, ends) if row.half == 0.0 else row


def _constant(
    protocol: Protocol,
    row: Contrast,
    sides: tuple[Matrices, Matrices],
    ends: Sequence[Sequence[float]],
) -> Contrast:
    """Return the contrast of two policies whose difference does not vary, although it could."""
    confidence = protocol.report.confidence
    if any(not side[0].fixed for side in sides):
        spread = constant_runs(sides, ends)
        half = float(statistics.half_widths(spread, confidence)[0])
        p = float(statistics.p_values(np.array([row.difference]), spread)[0])
        reason = "all runs are alike: tested as if one episode of one run were not"
        return replace(row, half=half, p_value=p, spread=spread, basis=BOUND, reason=reason)
    count, width = constant_episodes(sides, ends)
    width = max(width, abs(row.difference))
    return replace(
        row,
        half=statistics.constant_half_width(row.difference, count, width, confidence),
        p_value=statistics.constant_p(row.difference, count, width),
        spread=None,
        basis=BOUND,
        bound=(count, width),
        reason=f"the same difference in all of {count} episodes: an exact bound",
    )


def _without(row: Contrast, reason: str) -> Contrast:
    return replace(row, half=math.nan, p_value=math.nan, spread=None, basis=NONE, reason=reason)


def _untested(matrices: dict[str, Matrices], one: str, two: str) -> Contrast:
    """Return the difference of the means of two policies that share too few episodes."""
    left, right = (np.mean([m.run_means.mean() for m in matrices[name]]) for name in (one, two))
    gap, reason = float(left - right), "no test: they have not played the same seeds"
    return _without(Contrast(one, two, gap, math.nan, math.nan, None), reason)


def decide(family: Sequence[Any], alpha: float) -> list[tuple[float, bool]]:
    """Return the adjusted p value of every comparison of a family, and whether it is decided.

    This is the rule of reports: the adjusted p value is below ``alpha``. A comparison over a group
    is a family of its own.
    """
    return [(p, p < alpha) for p in adjusted(family)]


def adjusted(rows: Sequence[Any]) -> list[float]:
    """Return the p values of comparisons, adjusted by Holm's method as one family.

    Comparisons have ``p_value``, ``basis`` and ``difference``. What is certain is no test and does
    not count: exact differences, and differences of 0 in all episodes, which no data with the same
    absolute differences could decide (Tarone 1990, Biometrics 46: 515-522). Their p values, 0 or 1,
    stay.
    """
    certain = [row.basis == EXACT or (row.basis == BOUND and row.p_value == 1.0) for row in rows]
    return holm([row.p_value for row in rows], certain)


def holm(p_values: Sequence[float], certain: Sequence[bool]) -> list[float]:
    """Adjust the p values of tests by Holm's method.

    Those that are ``certain`` do not count and stay as they are, and so does nan, no test.
    """
    values = np.array(p_values, np.float64)
    tested = ~np.array(certain, np.bool_)
    values[tested] = statistics.holm(values[tested])
    adjusted: list[float] = values.tolist()
    return adjusted
