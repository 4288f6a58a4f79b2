import numpy as np
import pytest

from coopbench.statistics import cohens_d, hedges_g, welch

HAND = [1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 4.0, 6.0, 8.0, 10.0]


def close(value):
    return pytest.approx(value, rel=1e-9, abs=1e-15, nan_ok=True)


@pytest.fixture
def two_sample(golden):
    """The recorded pairs of samples that have no missing value."""
    return [case for case in golden("two_sample")["cases"] if case["name"] != "nan_inside"]


def is_undefined(test):
    return np.isnan(test.statistic) and np.isnan(test.df)


def test_welch_matches_the_recorded_values(two_sample):
    for case in two_sample:
        wanted, pair = case["welch"], (case["a"], case["b"])
        test = welch(*pair)
        if np.isfinite(wanted["t"]):
            assert tuple(test) == close((wanted["t"], wanted["df"])), case["name"]
        else:
            assert is_undefined(test), case["name"]


def test_effect_sizes_match_the_recorded_values(two_sample, golden):
    for case in two_sample:
        pair = case["a"], case["b"]
        values = {"cohen_d_pooled": cohens_d(*pair), "hedges_g_exact": hedges_g(*pair)}
        assert values == close({name: case[name] for name in values}), case["name"]
    for case in golden("paired")["cases"]:
        assert cohens_d(case["a"], case["b"], standardiser="paired") == close(case["cohen_dz"])


def test_samples_without_variation_or_with_one_run_have_no_statistic():
    flat, ones = [3.0] * 3, [1.0] * 3
    assert not is_undefined(welch(*HAND))
    assert is_undefined(welch(flat, flat))
    assert is_undefined(welch(flat, ones))  # a difference without variance is not certain
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
    with pytest.raises(ValueError, match="b has 4 values"):
        cohens_d([1.0, 2.0], [1.0, 2.0, 3.0, 4.0], standardiser="paired")
    with pytest.raises(ValueError, match="standardiser is 'sd'"):
        cohens_d(*HAND, standardiser="sd")
