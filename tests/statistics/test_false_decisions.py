"""Small runs of studies/validity/decisions: how often policies of equal mean are told apart.

Seeds are fixed, so that nothing here is a matter of luck.
"""

import numpy as np
import pytest

from studies.validity.decisions import (
    CASES,
    FIXED,
    RARE,
    TIES,
    false_claims,
    false_on_pairs,
    false_ranks,
)
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
            reports = [draw(np.random.default_rng(0), 2)]
            assert not false_on_pairs(reports).any()
            assert not false_ranks(reports).any()


def test_policies_that_differ_are_told_apart():
    """In the second report one of them is better; the first is decided as if it were alone."""
    draw, rng = CASES[f"{FIXED} episodes", "normal"], np.random.default_rng(0)
    equal, scores = draw(rng, 2), dict(draw(rng, 2))
    scores["1"] = scores["1"] + 0.5
    assert false_on_pairs([equal, scores])[1].all()
    assert false_ranks([equal, scores])[1]
    assert (false_on_pairs([equal, scores])[:1] == false_on_pairs([equal])).all()


@pytest.mark.parametrize(
    "case", [(f"{FIXED} episodes", f"{100 * RARE:g} % are won"), ("5 runs", "a fifth fails")]
)
def test_ranks_of_equal_policies_are_rarely_false(case):
    rng, trials = np.random.default_rng(1), 100
    false = false_ranks([CASES[case](rng, 3) for _ in range(trials)])
    assert false.mean() <= 0.05 + 2.0 * np.sqrt(0.05 * 0.95 / trials)
