"""A small run of studies/validity/regime: intervals where runs dominate."""

import pytest

from studies.validity.regime import task_coverage

TRIALS = 200


@pytest.mark.parametrize("ratio", [3.0, 60.0])
@pytest.mark.parametrize("shape", ["normal", "t(3)"])
def test_intervals_cover_runs_without_failures(shape, ratio):
    assert task_coverage(shape, ratio, 5, TRIALS) >= 0.90


def test_the_shortfall_of_failing_runs_is_what_the_page_says():
    assert 0.35 <= task_coverage("a tenth fails", 14.0, 5, TRIALS) <= 0.60
