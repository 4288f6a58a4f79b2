"""A small run of studies/validity: intervals cover, and false claims are rarely printed.

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
@pytest.mark.parametrize("name", ["10% fail", "20% fail", "20% succeed", "tail up"])
def test_false_claims_are_rarely_printed(name, runs):
    trials = 300
    slack = 2.0 * np.sqrt(0.1 * 0.9 / trials)
    for errors in (validity.errors_against_policy, validity.errors_between_learners):
        printed, _ = errors(name, runs, trials)
        assert printed <= 0.1 + slack


def test_without_the_rule_they_would_be_printed():
    printed, small = validity.errors_against_policy("10% fail", 5, 300)
    assert small > 0.4
    assert printed < 0.1
