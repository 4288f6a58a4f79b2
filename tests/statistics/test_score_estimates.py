import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import stats

from coopbench.statistics import (
    improvement_interval,
    iqm,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    profile_interval,
)

FAST = settings(deadline=None, max_examples=60)
FINITE = st.floats(-1e6, 1e6, width=32)
MATRICES = arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=7), elements=FINITE)


def test_point_estimates_match_the_recorded_ones(golden):
    for case in golden("point_estimates")["cases"]:
        scores = np.array(case["scores"])
        values = {
            "mean": mean(scores),
            "median": median(scores),
            "iqm": iqm(scores),
            "og_gamma1": optimality_gap(scores),
            "og_gamma0_5": optimality_gap(scores, gamma=0.5),
        }
        assert values == pytest.approx(case["expected"], abs=1e-12), case["name"]


def test_probability_of_improvement_matches_the_recorded_ones(golden):
    for case in golden("poi")["cases"]:
        x, y = np.array(case["x"]), np.array(case["y"])
        probabilities = probability_of_improvement(x, y), probability_of_improvement(y, x)
        assert probabilities == pytest.approx((case["p_xy"], case["p_yx"]), abs=1e-12), case["name"]


def test_profiles_match_the_recorded_ones(golden):
    recorded = golden("profiles")
    for case in recorded["cases"]:
        profile = performance_profile(case["scores"], recorded["taus"])
        assert profile == pytest.approx(case["run"], abs=1e-12), case["name"]


@FAST
@given(MATRICES)
def test_iqm_has_the_bits_of_the_trimmed_mean(scores):
    assert iqm(scores) == stats.trim_mean(scores, 0.25, axis=None)


def test_profiles_count_strictly():
    scores = [[0.0, 1.0], [1.0, 2.0]]
    assert performance_profile(scores, [0.0, 1.0, 2.0]).tolist() == [0.75, 0.25, 0.0]


def newcombes(p, sizes, df, sharing=1.0):
    """Half width that an interval of level 0.9 has where the true mean over tasks is p."""
    skew = (1 - p) / (2 - p) + p / (1 + p)
    parts = [p * (1 - p) * (1 + ((m + n) / 2 - 1) * skew) / (m * n) for m, n in sizes]
    return stats.t.ppf(0.95, df) * np.sqrt(sharing * sum(parts)) / len(sizes)


def test_limits_of_improvement_are_as_far_away_as_their_own_error():
    rng = np.random.default_rng(2)
    x, y = ([rng.integers(5, size=n) * 1.0 for n in sizes] for sizes in ((8, 6), (5, 9)))
    interval = improvement_interval(x, y, 0.9)
    assert interval.estimate == probability_of_improvement(x, y)
    assert interval.low < interval.estimate < interval.high
    for end in (interval.low, interval.high):
        half = newcombes(end, [(8, 5), (6, 9)], df=8 + 5 + 6 + 9 - 4)
        assert abs(end - interval.estimate) == pytest.approx(half)
    sure = improvement_interval(np.arange(5.0) + 9.0, np.arange(5.0))
    assert (sure.estimate, sure.high) == (1.0, pytest.approx(1.0))
    assert 0.5 < sure.low < 0.9


def test_matched_tasks_that_are_equal_tell_nothing_new():
    rng = np.random.default_rng(3)
    x, y = rng.normal(0.4, 1.0, size=(12, 1)), rng.normal(size=(12, 1))
    twice = np.tile(x, 2), np.tile(y, 2)
    units = [np.arange(12)] * 2
    interval = improvement_interval(*twice, 0.9, (units, units), matched=True)
    half = newcombes(interval.low, [(12, 12)] * 2, df=4 * 11, sharing=2.0)
    assert interval.estimate - interval.low == pytest.approx(half)
    assert improvement_interval(*twice, 0.9).low > interval.low
    others = [units[0], units[1] + 1]
    for wrong in (None, (units, others)):
        with pytest.raises(ValueError, match="must be the same"):
            improvement_interval(*twice, 0.9, wrong, matched=True)


def test_matched_tasks_share_the_episodes_that_both_have():
    """Of a second task, a part of whose episodes is new; then of one with the others' luck."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(0.4, 1.0, 40), rng.normal(size=40)
    seeds = np.arange(40)

    def interval(first, second, units):
        return improvement_interval(*([one[first], one[second]] for one in (x, y)), 0.9, *units)

    equal = interval(seeds, seeds, (([seeds] * 2,) * 2, True))
    fewer = interval(seeds, seeds[:39], (([seeds, seeds[:39]],) * 2, True))
    apart = interval(seeds, seeds[:39], (([seeds, seeds[:39] + 40],) * 2, True))
    turned = interval(seeds, seeds[::-1], (([seeds, seeds[::-1]],) * 2, True))
    widths = [one.high - one.low for one in (equal, fewer, apart, turned)]
    assert widths[1] == pytest.approx(widths[0], rel=0.02)
    assert widths[2] == pytest.approx(widths[0] / np.sqrt(2.0), rel=0.02)
    assert widths[3] == pytest.approx(widths[0])


def test_tasks_that_the_same_runs_play_tell_nothing_new_if_they_are_equal():
    rng = np.random.default_rng(3)
    x, y = rng.normal(0.4, 1.0, size=(5, 1)), rng.normal(size=(7, 1))
    twice = np.tile(x, 2), np.tile(y, 2)
    units = [np.arange(5)] * 2, [np.arange(7)] * 2
    interval = improvement_interval(*twice, 0.9, units)
    assert (interval.low, interval.high) == pytest.approx(
        (improvement_interval(x, y, 0.9).low, improvement_interval(x, y, 0.9).high)
    )
    different = [np.arange(5), np.arange(5) + 5], [np.arange(7), np.arange(7) + 7]
    assert improvement_interval(*twice, 0.9, different) == improvement_interval(*twice, 0.9)
    sure = improvement_interval(twice[0] + 9.0, twice[1], 0.9, units)
    assert sure.low == pytest.approx(improvement_interval(x + 9.0, y, 0.9).low)
    for wrong in (units[0][:1], [np.arange(5), np.arange(7)]):
        with pytest.raises(ValueError, match=r"tasks \[5, 5\] values; allowed is one array"):
            improvement_interval(*twice, 0.9, (wrong, units[1]))


def test_tasks_that_go_opposite_ways_leave_an_interval():
    """Both seats of a zero-sum game: the mean of the two shares is 1/2 in every episode."""
    for seed in range(20):
        won = np.random.default_rng(seed).integers(2, size=24).astype(float)
        seats = np.stack([won, 1.0 - won], axis=1)
        units = [np.arange(24)] * 2
        interval = improvement_interval(seats, 1.0 - seats, units=(units, units), matched=True)
        assert interval.estimate == pytest.approx(0.5)
        assert interval.low == pytest.approx(1.0 - interval.high)
        assert 0.2 < interval.low < 0.45


MORE = stats.norm.ppf(0.95) ** 2 / 2  # scores on either side, at a confidence of 0.9


def adjusted(above, more):
    """Return a share and its variance with more ones and as many zeros."""
    count = len(above) + 2.0 * more
    share = (np.sum(above) + more) / count
    return share, share * (1.0 - share) / count


def test_profiles_of_one_task_have_the_interval_of_agresti_and_coull():
    scores = np.random.default_rng(4).normal(size=(9, 1))
    interval = profile_interval(scores, [-0.5, 0.1], 0.9)
    for k, level in enumerate((-0.5, 0.1)):
        centre, variance = adjusted(scores[:, 0] > level, MORE)
        half = stats.norm.ppf(0.95) * np.sqrt(variance)
        assert (interval.low[k], interval.high[k]) == pytest.approx((centre - half, centre + half))


def test_profiles_of_independent_tasks_add_their_variances():
    """Price and Bonett 2004 with coefficients 6 / 15 and 9 / 15."""
    scores = [np.arange(6.0), np.arange(9.0) / 2]
    interval = profile_interval(scores, [1.2], 0.9)
    (one, first), (two, second) = (adjusted(task > 1.2, MORE / 2) for task in scores)
    centre = (6 * one + 9 * two) / 15
    half = stats.norm.ppf(0.95) * np.sqrt(36 * first + 81 * second) / 15
    assert interval.low[0] == pytest.approx(centre - half)
    assert interval.high[0] == pytest.approx(centre + half)


def test_profiles_of_tasks_that_vary_as_one_are_as_wide_as_those_of_one_task():
    once = np.random.default_rng(4).normal(size=(9, 1))
    twice, levels = np.tile(once, 2), [-0.5, 0.1]
    shared = profile_interval(twice, levels, 0.9, [np.arange(9)] * 2)
    alone, apart = profile_interval(once, levels, 0.9), profile_interval(twice, levels, 0.9)
    assert shared.high - shared.low == pytest.approx(alone.high - alone.low)
    assert np.all(apart.high - apart.low < shared.high - shared.low)
    turned = profile_interval(
        [once[:, 0], once[::-1, 0]], levels, 0.9, [np.arange(9), np.arange(9)[::-1]]
    )
    assert turned.low == pytest.approx(shared.low)


def test_profiles_contain_the_correlation_of_tasks_over_the_units_that_they_share():
    rng = np.random.default_rng(5)
    few, many = np.array([7, 3, 4, 9, 0, 8]), np.arange(10)
    luck = rng.normal(size=10)
    scores = [luck[few] + rng.normal(0.0, 0.3, 6), luck + rng.normal(0.0, 0.3, 10)]
    interval = profile_interval(scores, [0.1], 0.9, [few, many])
    above = [(task > 0.1) * 1.0 for task in scores]
    first, second = (task - task.mean() for task in above)
    correlation = np.sum(first * second[few]) / np.sqrt(np.sum(first**2) * np.sum(second**2))
    assert 0.3 < correlation < 0.9
    one, two = (adjusted(task, MORE)[1] for task in above)  # one block
    variance = 36 * one + 100 * two + 2 * 60 * correlation * np.sqrt(one * two)
    centre = np.dot((6, 10), [adjusted(task, MORE / 2)[0] for task in above]) / 16
    half = stats.norm.ppf(0.95) * np.sqrt(variance) / 16
    assert interval.low[0] == pytest.approx(centre - half)
    assert interval.high[0] == pytest.approx(centre + half)


def test_a_task_whose_units_are_on_one_side_varies_with_the_others():
    units = [np.arange(6)] * 2
    scores = np.stack([np.ones(6), np.arange(6.0) > 1.0], axis=1)
    interval = profile_interval(scores, [0.5], 0.9, units)
    errors = [np.sqrt(adjusted(task > 0.5, MORE)[1]) for task in scores.T]
    centre = np.mean([adjusted(task > 0.5, MORE / 2)[0] for task in scores.T])
    assert interval.low[0] == pytest.approx(centre - stats.norm.ppf(0.95) * np.mean(errors))


def test_no_profile_is_certain():
    for scores in (np.ones((5, 1)), np.zeros((50, 3)), np.tile([0.0, 1.0], (10, 1))):
        for units in (None, [np.arange(len(scores))] * scores.shape[1]):
            interval = profile_interval(scores, [0.5], units=units)
            assert interval.low[0] <= interval.estimate[0] <= interval.high[0]
            assert interval.high[0] - interval.low[0] > 0.01
    seats = np.array([0.0, 1.0, 1.0, 0.0, 1.0])  # of a zero-sum game
    opposite = profile_interval([seats, 1.0 - seats], [0.5], 0.9, [np.arange(5)] * 2)
    variances = [adjusted(task > 0.5, MORE)[1] for task in (seats, 1.0 - seats)]
    half = stats.norm.ppf(0.95) * np.sqrt(sum(variances) / 4 / 2)
    assert opposite.high[0] == pytest.approx(0.5 + half)
    assert opposite.low[0] == pytest.approx(0.5 - half)


@pytest.mark.parametrize(
    ("confidence", "runs", "least"),
    [
        (0.8, 5, 0.62),
        (0.8, 30, 0.73),
        (0.9, 5, 0.83),
        (0.9, 10, 0.85),
        (0.95, 5, 0.89),
        (0.99, 5, 0.98),
    ],
)
def test_profiles_of_few_runs_cover_every_share_of_all_runs(confidence, runs, least):
    """The least exact coverage, as few values of a share are possible."""
    possible = [np.arange(runs) < above for above in range(runs + 1)]
    ends = [profile_interval(one[:, None] * 1.0, [0.5], confidence) for one in possible]
    for share in np.linspace(0.02, 0.98, 97):
        covered = [one.low[0] <= share <= one.high[0] for one in ends]
        assert stats.binom.pmf(np.arange(runs + 1), runs, share)[covered].sum() >= least


def test_unequal_run_counts_weigh_tasks_equally_except_where_cells_are_pooled():
    ragged = [np.array([0.0]), np.array([1.0, 1.0, 1.0])]
    assert mean(ragged) == 0.5
    assert median(ragged) == 0.5
    assert optimality_gap(ragged) == 0.5
    assert iqm(ragged) == 1.0  # the middle two of 0, 1, 1, 1
    assert probability_of_improvement(ragged, [np.array([0.5]), np.array([1.0, 0.0])]) == 0.375


def test_arrays_in_a_list_are_tasks_and_lists_in_a_list_are_rows():
    rows = [[0.0, 1.0, 1.0], [0.0, 1.0, 4.0]]
    assert median(rows) == 1.0
    for kind in (list, tuple):
        assert median(kind(np.array(row) for row in rows)) == pytest.approx((2 / 3 + 5 / 3) / 2)


def test_one_dimension_is_one_task():
    assert mean([1.0, 2.0, 6.0]) == mean([[1.0, 2.0, 6.0]]) == 3.0
    assert median([[1.0, 2.0, 6.0]]) == 2.0


@pytest.mark.parametrize(
    "call", [mean, median, iqm, optimality_gap, lambda s: performance_profile(s, [0.5])]
)
def test_missing_scores_are_refused_and_named(call):
    scores = np.zeros((5, 3))
    for bad in (np.nan, -np.inf):
        scores[2, 1] = bad
        with pytest.raises(ValueError, match="run 2, task 1"):
            call(scores)
        with pytest.raises(ValueError, match=r"task 1.*position 2"):
            call([np.zeros(4), scores[:, 1]])
    masked = np.ma.masked_equal(np.where(np.isfinite(scores), scores, 7.0), 7.0)
    with pytest.raises(ValueError, match="nan at run 2, task 1"):
        call(masked)
    with pytest.raises(ValueError, match=r"nan at position 2"):
        call([np.zeros(4), masked[:, 1]])


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 2, 2)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match="scores has shape"):
        mean(np.zeros(shape))


def test_wrong_options_are_named():
    with pytest.raises(ValueError, match="y has 2 tasks"):
        probability_of_improvement(np.ones((2, 3)), np.ones((2, 2)))
