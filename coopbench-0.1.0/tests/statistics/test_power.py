import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbench.statistics import power, runs_needed


def test_power_matches_the_recorded_values(golden):
    for case in golden("power")["cases"]:
        d, alpha, runs = case["d"], case["alpha"], case["n_per_group"]
        assert power(d, 10, alpha=alpha) == pytest.approx(case["power_at_n10"], abs=1e-8)
        # The recorded number of runs was solved for to about seven digits.
        assert power(d, runs, alpha=alpha) == pytest.approx(case["power"], abs=1e-6)
        assert runs_needed(d, power=case["power"], alpha=alpha) == math.ceil(runs)


@settings(deadline=None, max_examples=30)
@given(st.floats(0.3, 3.0), st.floats(0.3, 0.95), st.sampled_from(["two-sided", "greater"]))
def test_the_runs_needed_are_the_fewest(effect, wanted, alternative):
    runs = runs_needed(effect, power=wanted, alternative=alternative)
    assert power(effect, runs, alternative=alternative) >= wanted
    assert runs == 2 or power(effect, runs - 1, alternative=alternative) < wanted
    assert runs == runs_needed(-effect, power=wanted, alternative=alternative)


def test_no_effect_is_found_as_often_as_alpha_says():
    assert power(0.0, 8, alpha=0.03) == pytest.approx(0.03, abs=1e-9)
    assert power(1.0, 10) == pytest.approx(power(-1.0, 10), abs=1e-9)
    assert power(-1.0, 10, alternative="greater") < 0.001


def test_unequal_sizes_lie_between_equal_ones_and_simulation_agrees():
    assert power(1.0, 6) < power(1.0, 6, rivals=12) < power(1.0, 12)
    from scipy import stats

    rng = np.random.default_rng(0)
    a, b = rng.normal(1.0, 1.0, (4000, 6)), rng.normal(size=(4000, 12))
    rejected = np.mean(stats.ttest_ind(a, b, axis=1).pvalue < 0.05)
    assert power(1.0, 6, rivals=12) == pytest.approx(rejected, abs=0.03)


@pytest.mark.parametrize(
    "call",
    [
        lambda: power(1.0, 1),
        lambda: power(1.0, 5, alpha=0.0),
        lambda: power(1.0, 5, alternative="less"),
        lambda: runs_needed(0.0),
        lambda: runs_needed(1.0, power=0.01),
    ],
)
def test_other_questions_are_refused(call):
    with pytest.raises(ValueError, match="allowed"):
        call()
