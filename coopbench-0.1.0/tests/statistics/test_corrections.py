import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbench.statistics import (
    benjamini_hochberg,
    benjamini_yekutieli,
    bonferroni,
    hochberg,
    holm,
    holm_sidak,
)

METHODS = {
    "bonferroni": bonferroni,
    "holm": holm,
    "holm_sidak": holm_sidak,
    "hochberg": hochberg,
    "bh": benjamini_hochberg,
    "by": benjamini_yekutieli,
}
P_VALUES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12)


def test_adjusted_p_values_match_the_recorded_ones(golden):
    for case in golden("multiple_comparisons")["cases"]:
        for name, adjust in METHODS.items():
            assert adjust(case["p"]) == pytest.approx(case[name], abs=1e-12), (case["name"], name)


@settings(deadline=None, max_examples=60)
@given(P_VALUES, st.randoms(use_true_random=False))
def test_adjustment_raises_keeps_the_order_and_follows_the_input(p_values, random):
    order = random.sample(range(len(p_values)), len(p_values))
    p = np.array(p_values)
    by_method = {name: adjust(p) for name, adjust in METHODS.items()}
    for name, adjusted in by_method.items():
        assert np.all(adjusted >= p - 1e-15)
        assert np.all(adjusted <= 1.0)
        assert np.all(np.diff(adjusted[np.argsort(p, kind="stable")]) >= -1e-15)
        assert METHODS[name](p[order]) == pytest.approx(adjusted[order], abs=1e-15)
    assert np.all(by_method["holm"] <= by_method["bonferroni"] + 1e-15)
    assert np.all(by_method["hochberg"] <= by_method["holm"] + 1e-15)
    assert np.all(by_method["holm_sidak"] <= by_method["holm"] + 1e-15)
    assert np.all(by_method["bh"] <= by_method["by"] + 1e-15)


@pytest.mark.parametrize("adjust", METHODS.values())
def test_degenerate_tests_are_not_counted(adjust):
    adjusted = adjust([0.01, np.nan, 0.2])
    assert np.isnan(adjusted[1])
    assert adjusted[[0, 2]] == pytest.approx(adjust([0.01, 0.2]))
    assert np.all(np.isnan(adjust([np.nan, np.nan])))
    assert adjust([]).size == 0


def test_tiny_p_values_survive():
    assert holm_sidak([1e-300, 0.5])[0] == pytest.approx(2e-300)


@pytest.mark.parametrize("bad", [[0.1, 1.5], [-0.1], [[0.1]]])
def test_other_numbers_are_refused(bad):
    with pytest.raises(ValueError, match="p_values is"):
        holm(bad)
