import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbench.statistics import cohens_d, hedges_g, welch

SAMPLES = st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=12)
HAND = [1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 4.0, 6.0, 8.0, 10.0]


def close(value):
    return pytest.approx(value, rel=1e-9, abs=1e-15, nan_ok=True)


@pytest.fixture
def two_sample(golden):
    """The recorded pairs of samples that have no missing value."""
    return [case for case in golden("two_sample")["cases"] if case["name"] != "nan_inside"]


def is_undefined(comparison):
    return np.isnan(comparison.p_value) and np.isnan(comparison.statistic)


def test_welch_matches_the_recorded_values(two_sample):
    for case in two_sample:
        wanted, pair = case["welch"], (case["a"], case["b"])
        comparison = welch(*pair)
        assert comparison.estimate == close(np.mean(case["a"]) - np.mean(case["b"]))
        if not np.isfinite(wanted["t"]):  # recorded as p = 0 or nan; never an answer here
            assert is_undefined(comparison), case["name"]
            assert comparison.interval is None
            continue
        assert (comparison.statistic, comparison.df, comparison.p_value) == close(
            (wanted["t"], wanted["df"], wanted["p_two"])
        ), case["name"]
        assert [comparison.interval.low, comparison.interval.high] == close(wanted["ci95"])
        for side in ("greater", "less"):
            assert welch(*pair, alternative=side).p_value == close(wanted[f"p_{side}"])


def test_effect_sizes_match_the_recorded_values(two_sample, golden):
    for case in two_sample:
        pair = case["a"], case["b"]
        values = {"cohen_d_pooled": cohens_d(*pair), "hedges_g_exact": hedges_g(*pair)}
        assert values == close({name: case[name] for name in values}), case["name"]
    for case in golden("paired")["cases"]:
        assert cohens_d(case["a"], case["b"], standardiser="paired") == close(case["cohen_dz"])


def test_samples_without_variation_or_with_one_run_have_no_p_value():
    flat, ones = [3.0] * 3, [1.0] * 3
    assert not is_undefined(welch(*HAND))
    assert is_undefined(welch(flat, flat))
    comparison = welch(flat, ones)  # a difference without variance is not certain
    assert is_undefined(comparison)
    assert comparison.estimate == 2.0
    assert is_undefined(welch([2.0], HAND[0]))
    for effect in (cohens_d, hedges_g):
        assert np.isnan(effect([2.0], HAND[0]))
        assert np.isnan(effect(flat, ones))


@pytest.mark.parametrize("function", [welch, cohens_d, hedges_g])
def test_missing_values_are_refused_and_named(function):
    with pytest.raises(ValueError, match="a has nan at position 2"):
        function([1.0, 2.0, np.nan], HAND[0][:3])
    with pytest.raises(ValueError, match="b has inf at position 0"):
        function([1.0, 2.0], [np.inf, 3.0])


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="alternative is 'larger'"):
        welch(*HAND, alternative="larger")
    with pytest.raises(ValueError, match="confidence is 95"):
        welch(*HAND, confidence=95)
    with pytest.raises(ValueError, match="b has 4 values"):
        cohens_d([1.0, 2.0], [1.0, 2.0, 3.0, 4.0], standardiser="paired")
    with pytest.raises(ValueError, match="standardiser is 'sd'"):
        cohens_d(*HAND, standardiser="sd")


@settings(deadline=None, max_examples=40)
@given(SAMPLES, SAMPLES)
def test_exchanging_the_samples_mirrors_the_answer(a, b):
    one, other = welch(a, b), welch(b, a)
    assert is_undefined(one) == is_undefined(other)
    if is_undefined(one):
        return
    assert one.p_value == pytest.approx(other.p_value, rel=1e-6, abs=1e-12)
    less = welch(b, a, alternative="less").p_value
    assert welch(a, b, alternative="greater").p_value == pytest.approx(less, rel=1e-6, abs=1e-12)
    assert one.interval.low <= one.estimate <= one.interval.high
