import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbench.statistics import holm

P_VALUES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12)


def test_adjusted_p_values_match_the_recorded_ones(golden):
    for case in golden("multiple_comparisons")["cases"]:
        assert holm(case["p"]) == pytest.approx(case["holm"], abs=1e-12), case["name"]


@settings(deadline=None, max_examples=60)
@given(P_VALUES, st.randoms(use_true_random=False))
def test_adjustment_raises_keeps_the_order_and_follows_the_input(p_values, random):
    order = random.sample(range(len(p_values)), len(p_values))
    p = np.array(p_values)
    adjusted = holm(p)
    assert np.all(adjusted >= p - 1e-15)
    assert np.all(adjusted <= np.minimum(1.0, p * len(p)) + 1e-15)  # Bonferroni
    assert np.all(np.diff(adjusted[np.argsort(p, kind="stable")]) >= -1e-15)
    assert holm(p[order]) == pytest.approx(adjusted[order], abs=1e-15)


def test_degenerate_tests_are_not_counted():
    adjusted = holm([0.01, np.nan, 0.2])
    assert adjusted == pytest.approx([0.02, np.nan, 0.2], nan_ok=True)
    assert np.all(np.isnan(holm([np.nan, np.nan])))
    assert holm([]).size == 0


@pytest.mark.parametrize("bad", [[0.1, 1.5], [-0.1], [[0.1]]])
def test_other_numbers_are_refused(bad):
    with pytest.raises(ValueError, match="p_values is"):
        holm(bad)
