"""A small run of studies/validity: intervals cover, and how often claims are false.

Seeds are fixed, so that nothing here is a matter of luck; the floors are those of the page less
two standard errors of these numbers of trials.
"""

import numpy as np
import pytest

from studies.validity import statistics as validity


def less_two_errors(share, trials):
    return share - 2.0 * np.sqrt(share * (1.0 - share) / trials)


@pytest.mark.parametrize("runs", [5, 10])
@pytest.mark.parametrize(
    ("shape", "case"),
    [
        ("normal", "(66, 1)"),
        ("interaction", "(12.6, 1.6)"),
        ("skewed episodes", "(17, 2)"),
        ("half/half runs", "(12.6, 1.6)"),
        ("a fifth of the runs fails", "(12.6, 1.6)"),
    ],
)
def test_the_interval_of_a_task_covers(shape, case, runs):
    trials = 200
    covered, width = validity.task_coverage(shape, case, runs, trials)
    assert covered >= less_two_errors(validity.floor(shape, runs), trials)
    if shape == "normal" or runs >= 10:
        assert width <= 1.45
    if shape.startswith("a fifth") and runs == 5:
        assert 0.75 <= covered <= 0.93  # what no rule can mend, and the page says


@pytest.mark.parametrize("shape", ["normal", "a fifth of the runs fails"])
def test_the_intervals_of_a_group_cover(shape):
    trials = 60
    for covered in validity.group_coverage(shape, "(12.6, 1.6)", 5, trials):
        assert covered >= less_two_errors(0.92, trials)


@pytest.mark.parametrize("runs", [3, 30])
@pytest.mark.parametrize(("name", "most"), [("normal", 0.05), ("tail up", 0.1)])
def test_false_claims_are_rare_where_runs_do_not_fail(name, most, runs):
    trials = 300
    slack = 2.0 * np.sqrt(most * (1.0 - most) / trials)
    for errors in (validity.errors_against_policy, validity.errors_between_learners):
        assert errors(name, runs, trials) <= most + slack


def test_rare_failures_lead_to_false_claims_that_more_runs_prevent():
    """No rule that looks at the runs alone can know of failures that none of them shows."""
    few, many = (validity.errors_against_policy("10% fail", runs, 300) for runs in (5, 30))
    assert few > 0.4
    assert many < 0.15
