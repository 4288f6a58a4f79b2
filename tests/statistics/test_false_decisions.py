"""Small runs of studies/validity/decisions: how often policies of equal mean are told apart.

Seeds are fixed, so that nothing here is a matter of luck.
"""

import numpy as np
import pytest

from studies.validity.decisions import CASES, FIXED, RARE, TIES, errors, false_claims
from studies.validity.regime import coverage

TRIALS = 200
SLACK = 2.0 * np.sqrt(0.05 * 0.95 / TRIALS)


@pytest.mark.parametrize("rival", ["policy", "learner"])
@pytest.mark.parametrize("shape", ["normal", "t(3)"])
def test_false_claims_are_rare_where_runs_do_not_fail(shape, rival):
    assert false_claims(shape, rival, 5, TRIALS) <= 0.05 + SLACK


def test_a_learner_with_failing_runs_is_told_apart_as_often_as_its_interval_misses():
    """No rule that looks at the runs alone can know of failures that none of them shows."""
    claimed = false_claims("a tenth fails", "policy", 5, TRIALS)
    assert claimed > 0.35
    missed = 1.0 - coverage("a tenth fails", 14.0, 5, TRIALS)
    assert claimed == pytest.approx(missed, abs=0.12)


def test_ties_are_never_told_apart():
    for (_, kind), draw in CASES.items():
        if kind == TIES:
            (found,) = errors([draw(np.random.default_rng(0), 3)])
            assert found == (0.0, 0.0, 0.0, 0.0)


def test_policies_that_differ_are_told_apart():
    """One of three is better; the report decided with it, of equal policies, is not changed."""
    draw, rng = CASES[f"{FIXED} episodes", "normal"], np.random.default_rng(0)
    equal, scores = draw(rng, 3), dict(draw(rng, 3))
    scores["2"] = scores["2"] + 0.5
    other, found = errors([equal, scores])
    assert [other] == errors([equal])
    assert found.over_group == found.on_tasks == pytest.approx(2 / 3)
    assert (found.decisions, found.ranks) == (4.0, 1.0)


@pytest.mark.parametrize(
    "case", [(f"{FIXED} episodes", f"{RARE:.1%} are won"), ("5 runs", "normal")]
)
def test_ranks_of_equal_policies_are_rarely_false(case):
    rng, trials = np.random.default_rng(1), 60
    found = errors([CASES[case](rng, 2) for _ in range(trials)])
    assert np.mean([one.ranks for one in found]) <= 0.05 + 2.0 * np.sqrt(0.05 * 0.95 / trials)
