import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from coopbench.statistics import (
    a12,
    alexander_govern,
    anova,
    average_ranks,
    brunner_munzel,
    cliffs_delta,
    cohens_d,
    friedman,
    hedges_g,
    kolmogorov_smirnov,
    kruskal,
    mann_whitney,
    paired_t,
    paired_tost,
    permutation_test,
    sign_flip,
    student,
    tost,
    welch,
    wilcoxon,
)

FAST = settings(deadline=None, max_examples=40)
FLAT, ONES = [3.0] * 3, [1.0] * 3
SAMPLES = st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=12)
TWO_SAMPLE = (welch, student, mann_whitney, brunner_munzel, kolmogorov_smirnov, permutation_test)
PAIRED = (paired_t, wilcoxon, sign_flip)
HAND = [1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 4.0, 6.0, 8.0, 10.0]


def close(value):
    return pytest.approx(value, rel=1e-9, abs=1e-15, nan_ok=True)


@pytest.fixture
def two_sample(golden):
    """The recorded pairs of samples that have no missing value."""
    return [case for case in golden("two_sample")["cases"] if case["name"] != "nan_inside"]


def is_undefined(comparison):
    return comparison.degenerate and np.isnan(comparison.p_value) and np.isnan(comparison.statistic)


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


def test_student_matches_the_recorded_values(two_sample):
    for case in two_sample:
        wanted, comparison = case["student"], student(case["a"], case["b"])
        if np.isfinite(wanted["t"]):
            assert (comparison.statistic, comparison.p_value) == close(
                (wanted["t"], wanted["p_two"])
            )
        else:
            assert is_undefined(comparison), case["name"]
        if min(np.ptp(case["a"]), np.ptp(case["b"])) > 0.0:
            low, high = stats.ttest_ind(case["a"], case["b"]).confidence_interval()
            assert (comparison.interval.low, comparison.interval.high) == close((low, high))


def test_effect_sizes_match_the_recorded_values(two_sample):
    for case in two_sample:
        pair = case["a"], case["b"]
        values = {
            "cohen_d_pooled": cohens_d(*pair),
            "cohen_d_av": cohens_d(*pair, standardiser="average"),
            "glass_delta_b": cohens_d(*pair, standardiser="control"),
            "hedges_g_exact": hedges_g(*pair),
            "a12": a12(*pair),
            "cliffs_delta": cliffs_delta(*pair),
        }
        assert values == close({name: case[name] for name in values}), case["name"]


def test_rank_tests_match_the_recorded_values(two_sample):
    for case in two_sample:
        pair = case["a"], case["b"]
        comparison = mann_whitney(*pair)
        wanted = case["mwu"]["U"], case["mwu"]["p_auto"]
        if np.ptp(np.append(*pair)) == 0.0:  # all equal: nothing was tested, recorded p is 1
            assert is_undefined(comparison)
        else:
            assert (comparison.statistic, comparison.p_value) == close(wanted), case["name"]
        comparison = brunner_munzel(*pair)
        wanted = case["brunner_munzel"]["W"], case["brunner_munzel"]["p"]
        if np.isfinite(wanted[0]):
            assert (comparison.statistic, comparison.p_value) == close(wanted), case["name"]
        else:
            assert is_undefined(comparison), case["name"]
        comparison = kolmogorov_smirnov(*pair)
        assert (comparison.statistic, comparison.p_value) == close(
            (case["ks"]["D"], case["ks"]["p"])
        )


def test_equivalence_matches_the_recorded_values(two_sample):
    for case in two_sample:
        pair, wanted = (case["a"], case["b"]), case["tost_margin1"]
        if np.isnan(wanted["p"]):
            assert is_undefined(tost(*pair, 1.0)), case["name"]
            continue
        assert tost(*pair, 1.0).p_value == pytest.approx(wanted["p"], rel=1e-9)
        assert tost(*pair, (-1.0, np.inf)).p_value == pytest.approx(wanted["p_lower"], rel=1e-9)
        assert tost(*pair, (-np.inf, 1.0)).p_value == pytest.approx(wanted["p_upper"], rel=1e-9)


def test_equivalence_at_five_percent_is_the_interval_inside_the_margin():
    rng = np.random.default_rng(5)
    answers = set()
    for _ in range(40):
        a, b = rng.normal(size=8), rng.normal(size=9)
        comparison = tost(a, b, 1.0)
        inside = comparison.interval.low > -1.0 and comparison.interval.high < 1.0
        assert (comparison.p_value < 0.05) == inside
        answers.add(inside)
    assert answers == {True, False}


def test_paired_equivalence_is_two_one_sided_paired_tests():
    rng = np.random.default_rng(2)
    luck = rng.normal(size=12)
    a, b = luck + 0.1 * rng.normal(size=12), luck + 0.1 * rng.normal(size=12)
    comparison = paired_tost(a, b, (-0.1, 0.2))
    above = paired_t(a + 0.1, b, alternative="greater").p_value
    below = paired_t(a - 0.2, b, alternative="less").p_value
    assert comparison.p_value == pytest.approx(max(above, below), rel=1e-12)
    assert comparison.interval == paired_t(a, b, confidence=0.9).interval
    assert comparison.p_value < 0.05 < tost(a, b, (-0.1, 0.2)).p_value  # unpaired, luck drowns it
    assert is_undefined(paired_tost(a, a, 1.0))
    with pytest.raises(ValueError, match="b has 11 values"):
        paired_tost(a, b[:11], 1.0)


def test_paired_tests_match_the_recorded_values(golden):
    for case in golden("paired_permutation")["cases"]:
        pair = case["a"], case["b"]
        comparison = paired_t(*pair)
        assert (comparison.statistic, comparison.df, comparison.p_value) == close(
            (case["t"], case["df"], case["p"])
        )
        assert [comparison.interval.low, comparison.interval.high] == close(case["ci95"])
        comparison = wilcoxon(*pair)
        assert (comparison.statistic, comparison.p_value) == close(
            (case["wilcoxon_W"], case["wilcoxon_p"])
        )
        assert sign_flip(*pair).p_value == close(case["signflip_exact_p_two"])
        assert cohens_d(*pair, standardiser="paired") == close(case["cohen_dz"])


def test_the_permutation_test_matches_the_recorded_values(golden):
    case = golden("paired_permutation")["independent"]
    for statistic in (None, lambda x, y: x.mean() - y.mean()):
        comparison = permutation_test(case["a"], case["b"], statistic)
        assert (comparison.statistic, comparison.p_value) == close((case["stat"], case["p_two"]))
        assert comparison.method == "permutation exact"


def test_tests_of_several_groups_match_the_recorded_values(golden):
    case = golden("multi_group")
    groups = case["groups"]
    for test, name in (
        (kruskal, "kruskal"),
        (anova, "anova"),
        (alexander_govern, "alexander_govern"),
    ):
        comparison = test(groups)
        assert [comparison.statistic, comparison.p_value] == close(case[name]), name
        assert 0.0 <= comparison.estimate <= 1.0
    comparison = friedman(np.transpose(groups))
    assert [comparison.statistic, comparison.p_value] == close(case["friedman"])
    assert average_ranks(np.transpose(groups)) == close(case["avg_ranks"])


def test_the_hand_case():
    comparison = welch(*HAND)
    assert comparison.statistic == pytest.approx(-1.897367, abs=1e-6)
    assert comparison.df == pytest.approx(5.882353, abs=1e-6)
    assert comparison.p_value == pytest.approx(0.107531, abs=1e-6)
    assert (cohens_d(*HAND), a12(*HAND)) == pytest.approx((-1.2, 0.2))
    assert hedges_g(*HAND) == pytest.approx(-1.083244, abs=1e-6)
    assert hedges_g(*HAND, standardiser="paired") == pytest.approx(-1.513880, abs=1e-6)
    assert mann_whitney(*HAND).statistic == 5.0


def test_sign_flips_equal_the_enumeration_and_large_samples_approach_it():
    gaps = np.array([0.3, -0.1, 0.7, 0.2, 0.2, -0.4])
    means = np.array([np.mean(gaps * s) for s in itertools.product((-1, 1), repeat=6)])
    share = np.mean(means >= gaps.mean() - 1e-12)
    assert sign_flip(gaps, np.zeros(6), alternative="greater").p_value == pytest.approx(share)
    assert sign_flip(gaps, np.zeros(6)).p_value == pytest.approx(min(1.0, 2.0 * share))
    many = np.random.default_rng(3).normal(0.25, 1.0, size=40)
    comparison = sign_flip(many, np.zeros(40))
    assert comparison.method == "sign flip random"
    assert comparison.p_value == pytest.approx(paired_t(many, np.zeros(40)).p_value, abs=0.02)
    assert sign_flip(many + 10.0, np.zeros(40), reps=999).p_value == pytest.approx(2 / 1000)


def test_random_permutations_approach_the_exact_share_and_follow_the_seed():
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.4, 1.0, 30), rng.normal(size=30)
    one, again, other = (permutation_test(a, b, reps=4000, seed=seed) for seed in (1, 1, 2))
    assert one.method == "permutation random"
    assert one.p_value == again.p_value != other.p_value
    assert one.p_value == pytest.approx(welch(a, b).p_value, abs=0.03)


def test_the_signed_rank_interval_inverts_the_test():
    gaps = np.random.default_rng(8).normal(0.5, 1.0, size=9)
    comparison = wilcoxon(gaps, np.zeros(9))
    step = 1e-9
    for end, outwards in ((comparison.interval.low, -step), (comparison.interval.high, step)):
        assert wilcoxon(gaps - end - outwards, np.zeros(9)).p_value <= 0.05
        assert wilcoxon(gaps - end + outwards, np.zeros(9)).p_value > 0.05
    few = wilcoxon(gaps[:5], np.zeros(5)).interval
    assert np.isnan(few.low)
    assert "too few" in few.warnings[0]
    assert wilcoxon([1.0, 1.0, 2.0, 3.0], np.zeros(4)).method == "wilcoxon permutation"


@pytest.mark.parametrize("test", TWO_SAMPLE)
def test_samples_without_any_variation_have_no_p_value(test):
    assert not test(*HAND).degenerate
    if test is kolmogorov_smirnov:  # a distance needs no variance
        assert test(FLAT, FLAT).p_value == 1.0
    else:
        assert is_undefined(test(FLAT, FLAT))
    if test in (welch, student, brunner_munzel):  # a difference without variance is not certain
        comparison = test(FLAT, ONES)
        assert is_undefined(comparison)
        assert comparison.estimate in (2.0, 1.0)  # the difference of means, or the chance to win


@pytest.mark.parametrize("test", PAIRED)
def test_pairs_without_difference_have_no_p_value(test):
    assert is_undefined(test(HAND[0], HAND[0]))
    assert test(HAND[0], np.add(HAND[0], 1.0)).degenerate == (test is paired_t)


def test_one_run_and_groups_without_variation_have_no_p_value():
    for test in (welch, brunner_munzel):
        assert is_undefined(test([2.0], HAND[0]))
    for test in (paired_t, student):
        assert is_undefined(test([2.0], [1.0]))
    for effect in (cohens_d, hedges_g):
        assert np.isnan(effect([2.0], HAND[0]))
    for test in (anova, alexander_govern, kruskal, friedman):
        assert is_undefined(test([ONES] * 3))
    assert is_undefined(anova([[1.0, 1.0], [2.0, 2.0]]))


@pytest.mark.parametrize("test", [*TWO_SAMPLE, *PAIRED, cohens_d, hedges_g, a12])
def test_missing_values_are_refused_and_named(test):
    with pytest.raises(ValueError, match="a has nan at position 2"):
        test([1.0, 2.0, np.nan], HAND[0][:3])
    with pytest.raises(ValueError, match="b has inf at position 0"):
        test([1.0, 2.0], [np.inf, 3.0])


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="alternative is 'larger'"):
        welch(*HAND, alternative="larger")
    with pytest.raises(ValueError, match="b has 4 values"):
        paired_t([1.0, 2.0], [1.0, 2.0, 3.0, 4.0])
    with pytest.raises(ValueError, match="margin is"):
        tost(*HAND, (1.0, -1.0))
    with pytest.raises(ValueError, match="standardiser is 'sd'"):
        cohens_d(*HAND, standardiser="sd")
    with pytest.raises(ValueError, match=r"groups\[1\] has shape"):
        anova([[1.0, 2.0], [1.0]])
    with pytest.raises(ValueError, match="2 contestants"):
        friedman([[1.0, 2.0], [2.0, 1.0]])


@FAST
@given(SAMPLES, SAMPLES)
def test_exchanging_the_samples_mirrors_the_answer(a, b):
    for test in (welch, student, mann_whitney, brunner_munzel):
        one, other = test(a, b), test(b, a)
        assert one.degenerate == other.degenerate
        if one.degenerate:
            continue
        assert one.p_value == pytest.approx(other.p_value, rel=1e-6, abs=1e-12)
        less = test(b, a, alternative="less").p_value
        assert test(a, b, alternative="greater").p_value == pytest.approx(less, rel=1e-6, abs=1e-12)
        if one.interval is not None:
            assert one.interval.low <= one.estimate <= one.interval.high
    assert cliffs_delta(a, b) == pytest.approx(-cliffs_delta(b, a), abs=1e-12)
