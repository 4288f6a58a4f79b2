"""False ranks of equal policies: a table of ``python -m studies.validity``.

Ranks adjust the comparisons of all pairs over a group by Holm's method.
"""

import argparse
import itertools
from collections.abc import Iterator

import numpy as np

from coopbench.analysis.contrasts import holm
from coopbench.statistics import Grid, TwoWay, p_values

TASKS, EPISODES, ALPHA = 8, 1000, 0.05
RATES, POLICIES = (0.005, 0.5), (2, 6)


def is_false(rng: np.random.Generator, rate: float, policies: int) -> tuple[bool, float]:
    """Return whether a rank of equal policies is false, and the share of pairs with p < .05.

    Policies are fixed and win a share ``rate`` of the episodes of all tasks, each by its own luck.
    """
    pairs = list(itertools.combinations(range(policies), 2))
    forms = np.zeros((len(pairs), TASKS, policies))
    for row, (one, two) in zip(forms, pairs, strict=True):
        row[:, one], row[:, two] = 1.0 / TASKS, -1.0 / TASKS
    scores = (rng.uniform(size=(TASKS, policies, EPISODES)) < rate).astype(np.float64)
    two_way = TwoWay([Grid(one, episodes="seeds") for task in scores for one in task])
    flat = forms.reshape(len(pairs), -1)
    levels = p_values(two_way.estimates(flat), two_way.spread(flat))
    adjusted = np.array(holm(levels.tolist()))
    return bool(np.any(adjusted < ALPHA)), float(np.mean(levels < ALPHA))


def ranks(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield how often any rank of a report is false, and any single decision over a group."""
    yield ["win rate", "policies", "any false rank", "false decision on a pair"]
    for rate, policies in itertools.product(RATES, POLICIES):
        rng = np.random.default_rng([31, policies])
        reports = [is_false(rng, rate, policies) for _ in range(arguments.trials)]
        shares = np.mean(reports, axis=0)
        yield [f"{rate:g}", str(policies), *(f"{share:.3f}" for share in shares)]
