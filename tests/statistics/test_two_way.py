"""Two-way intervals equal slow loops over runs and episodes, and what they must not claim."""

import numpy as np
import pytest
from scipy import optimize, stats

from coopbench.statistics import (
    Grid,
    TwoWay,
    binomial_interval,
    complete_grid,
    half_widths,
    half_widths_apart,
    iqm,
    iqm_of_runs,
    mean_weights,
    one_sided,
    p_values,
    runs_behind_best,
    t_interval,
    trimmed_weights,
)
from coopbench.statistics.linear_statistics import gap_weights, median_weights

rng = np.random.default_rng(11)
RUNS, EPISODES = 4, 7
Y = rng.normal(size=(RUNS, EPISODES)) + rng.normal(size=(RUNS, 1)) + rng.normal(size=EPISODES)


def slow(y):
    """V_R, V_E and V_I by double loops."""
    runs, episodes = len(y), len(y[0])
    mean = sum(y[r][e] for r in range(runs) for e in range(episodes)) / (runs * episodes)
    m = [sum(y[r][e] for e in range(episodes)) / episodes for r in range(runs)]
    g = [sum(y[r][e] for r in range(runs)) / runs for e in range(episodes)]
    v_r = sum((a - mean) ** 2 for a in m) / (runs - 1) / runs
    v_e = sum((a - mean) ** 2 for a in g) / (episodes - 1) / episodes
    squares = 0.0
    for r in range(runs):
        for e in range(episodes):
            squares += (y[r][e] - m[r] - g[e] + mean) ** 2
    return mean, v_r, v_e, squares / ((runs - 1) * (episodes - 1) * runs * episodes)


def rule(v_r, df_r, v_e, df_e, v_i, tail):
    """Half width by the formula."""
    t_r, t_e = (stats.t.ppf(1 - tail, df) if np.isfinite(df) else 0.0 for df in (df_r, df_e))
    z = stats.norm.ppf(1 - tail)
    both = t_r**2 * v_r + t_e**2 * v_e - z**2 * v_i
    return np.sqrt(max(both, t_r**2 * v_r, t_e**2 * v_e))


def test_one_task_is_the_closed_rule():
    mean, v_r, v_e, v_i = slow(Y.tolist())
    two_way = TwoWay([Grid(Y)])
    spread = two_way.spread([1.0])
    assert two_way.means[0] == pytest.approx(mean, rel=1e-14)
    assert spread.runs[0] == pytest.approx(v_r, rel=1e-12)
    assert spread.episodes[0] == pytest.approx(v_e, rel=1e-12)
    assert spread.interaction[0] == pytest.approx(v_i, rel=1e-12)
    assert (spread.runs_df[0], spread.episodes_df[0]) == (RUNS - 1, EPISODES - 1)
    for confidence in (0.8, 0.95, 0.99):
        expected = rule(v_r, RUNS - 1, v_e, EPISODES - 1, v_i, (1 - confidence) / 2)
        assert half_widths(spread, confidence)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("which", ["runs", "episodes"])
def test_it_is_never_narrower_than_student_over_either(which):
    noise = rng.normal(size=(RUNS, EPISODES))
    y = noise * 1e-3 + (noise[:, :1] if which == "runs" else noise[:1])
    half = half_widths(TwoWay([Grid(y)]).spread([1.0]))[0]
    student = t_interval(y.mean(axis=1 if which == "runs" else 0))
    assert half >= (student.high - student.low) / 2 * (1 - 1e-12)
    assert half == pytest.approx((student.high - student.low) / 2, rel=0.01)


def test_a_fixed_policy_has_students_interval_over_episodes():
    spread = TwoWay([Grid(Y[0])]).spread([1.0])
    student = t_interval(Y[0])
    assert half_widths(spread)[0] == pytest.approx((student.high - student.low) / 2, rel=1e-12)
    assert spread.runs[0] == spread.interaction[0] == 0.0


def test_runs_with_episodes_of_their_own_have_students_interval():
    """Their means hold the luck of the episodes, also where learners name the same ones."""
    means = Y.mean(axis=1)
    grids = [Grid(means[:, None], "same", who, nested=True) for who in ("one", "two")]
    spread = TwoWay(grids).spread(np.array([[1.0, 0.0], [1.0, -1.0]]))
    interval = t_interval(means)
    assert half_widths(spread)[0] == pytest.approx((interval.high - interval.low) / 2.0)
    assert spread.runs[1] == pytest.approx(2.0 * spread.runs[0])
    assert not spread.episodes.any()
    assert not spread.interaction.any()


def test_differences_are_paired_by_episodes_and_add_runs():
    other, fixed = rng.normal(size=(RUNS + 2, EPISODES)) + Y[0], rng.normal(size=EPISODES)
    grids = [Grid(Y, "e"), Grid(other, "e"), Grid(fixed, "e")]
    two_way = TwoWay(grids)
    forms = [[1, -1, 0], [1, 0, -1], [0, 1, -1]]
    spread = two_way.spread(forms)
    parts = [slow(Y.tolist()), slow(other.tolist()), (fixed.mean(), 0.0, 0.0, 0.0)]
    for k, (i, j) in enumerate(((0, 1), (0, 2), (1, 2))):
        series = grids[i].matrix.mean(axis=0) - grids[j].matrix.mean(axis=0)
        v_r = parts[i][1] + parts[j][1]
        squares = [
            parts[s][1] ** 2 / (len(grids[s].matrix) - 1) for s in (i, j) if not grids[s].fixed
        ]
        df = v_r**2 / sum(squares)
        assert spread.episodes[k] == pytest.approx(np.var(series, ddof=1) / EPISODES, rel=1e-10)
        assert spread.runs[k] == pytest.approx(v_r)
        assert spread.runs_df[k] == pytest.approx(df)
        assert spread.interaction[k] == pytest.approx(parts[i][3] + parts[j][3])
        expected = rule(v_r, df, spread.episodes[k], EPISODES - 1, spread.interaction[k], 0.025)
        assert half_widths(spread)[k] == pytest.approx(expected)


def test_p_is_the_level_at_which_the_interval_touches_zero():
    two_way = TwoWay([Grid(Y + shift) for shift in (0.3, 1.0, 4.0, 0.0)])
    two_way.means[3] = 0.0
    spread = two_way.spread(np.eye(4))
    levels = p_values(two_way.means, spread)
    for k in range(3):
        touching = optimize.brentq(
            lambda p, k=k: rule(*(part[k] for part in spread), p / 2) - abs(two_way.means[k]),
            1e-12,
            1 - 1e-9,
            xtol=1e-15,
        )
        assert levels[k] == pytest.approx(touching, rel=1e-6)
    assert levels[3] == 1.0
    assert np.all(np.diff(levels[:3]) < 0) == np.all(np.diff(np.abs(two_way.means[:3])) > 0)
    assert one_sided(two_way.means, spread)[2] == pytest.approx(levels[2] / 2)
    assert one_sided(-two_way.means, spread)[2] == pytest.approx(1 - levels[2] / 2)


def test_p_of_a_fixed_policy_is_students():
    x, y = rng.normal(size=30), rng.normal(0.4, 1.0, size=30)
    two_way = TwoWay([Grid(x, "e"), Grid(y, "e")])
    form = np.array([[1.0, -1.0]])
    expected = stats.ttest_rel(x, y).pvalue
    assert p_values(two_way.estimates(form), two_way.spread(form))[0] == pytest.approx(expected)


def test_groups_add_tasks_and_pool_degrees_of_freedom():
    grids = [
        Grid(rng.normal(size=(r, e)) + rng.normal(size=(r, 1)))
        for r, e in ((4, 7), (6, 9), (5, 30))
    ]
    weights = mean_weights(np.zeros(3))
    spread = TwoWay(grids).spread(weights)
    parts = np.array([slow(g.values.tolist())[1:] for g in grids]) / 9.0
    runs, episodes = np.array([4, 6, 5]), np.array([7, 9, 30])
    assert [spread.runs[0], spread.episodes[0], spread.interaction[0]] == pytest.approx(
        parts.sum(axis=0).tolist()
    )
    assert spread.runs_df[0] == pytest.approx(
        parts[:, 0].sum() ** 2 / np.sum(parts[:, 0] ** 2 / (runs - 1))
    )
    assert spread.episodes_df[0] == pytest.approx(
        parts[:, 1].sum() ** 2 / np.sum(parts[:, 1] ** 2 / (episodes - 1))
    )


def test_tasks_on_the_same_episodes_and_runs_are_summed_first():
    one, two = Y, 2.0 * Y + rng.normal(size=Y.shape)
    weights = np.array([0.5, 0.25])
    two_way = TwoWay([Grid(one, "seeds", "runs"), Grid(two, "seeds", "runs")])
    spread, total = two_way.spread(weights), 0.5 * one + 0.25 * two
    _, v_r, v_e, v_i = slow(total.tolist())
    assert (spread.runs[0], spread.episodes[0], spread.interaction[0]) == pytest.approx(
        (v_r, v_e, v_i)
    )
    assert (spread.runs_df[0], spread.episodes_df[0]) == (RUNS - 1, EPISODES - 1)
    apart = TwoWay([Grid(one), Grid(two)]).spread(weights)
    assert apart.episodes[0] < spread.episodes[0]  # they share their luck


def test_strata_count_only_the_variance_within():
    labels = np.array([0, 1, 0, 1, 1, 0, 1, 0])
    effects = rng.normal(size=(4, 8))
    y = effects + 10.0 * labels
    spread = TwoWay([Grid(y, strata=labels)]).spread([1.0])
    expected = v_i = 0.0
    for label in (0, 1):
        part = y[:, labels == label]
        expected += 4 * np.var(part.mean(axis=0), ddof=1) / 8**2
        v_i += slow(part.tolist())[3] * 4**2 / 8**2
    assert spread.episodes[0] == pytest.approx(expected)
    assert spread.interaction[0] == pytest.approx(v_i)
    assert spread.episodes_df[0] == pytest.approx(6)
    assert spread.episodes[0] < TwoWay([Grid(y)]).spread([1.0]).episodes[0] / 5
    both = TwoWay([Grid(y, "e", strata=labels), Grid(y * 2, "e")])
    parts = both.spread(np.eye(2)).episodes
    assert parts[0] == pytest.approx(expected)  # each grid has the strata of its own game
    assert parts[1] == pytest.approx(4 * TwoWay([Grid(y)]).spread([1.0]).episodes[0])
    sum_of_both = both.spread([1.0, 1.0]).episodes[0]  # and they covary within these strata
    assert parts.sum() < sum_of_both < np.sqrt(parts).sum() ** 2
    alone = np.array([0, 0, 0, 0, 0, 0, 0, 1])
    assert np.isnan(half_widths(TwoWay([Grid(y, strata=alone)]).spread([1.0]))[0])


@pytest.mark.parametrize("tasks", [1, 2, 3, 4, 5, 8, 13])
def test_weights_reproduce_the_statistics(tasks):
    means = rng.normal(0.8, 0.5, size=tasks)
    assert mean_weights(means) @ means == pytest.approx(means.mean())
    assert trimmed_weights(means) @ means == pytest.approx(iqm(means[None]))
    assert median_weights(means) @ means == pytest.approx(np.median(means))
    above = np.mean(means >= 1.0)
    assert gap_weights(means) @ means + (1 - above) == pytest.approx(
        1 - np.minimum(means, 1).mean()
    )
    samples = rng.normal(0.8, 0.5, size=(3, tasks))
    for weights in (mean_weights, trimmed_weights, median_weights, gap_weights):
        assert np.array_equal(weights(samples), [weights(sample) for sample in samples])


def test_few_runs_and_episodes_are_refused():
    for values in (Y[:2], Y[:1], Y[:, :1]):
        two_way = TwoWay([Grid(values), Grid(Y)])
        spread = two_way.spread([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
        assert np.isnan(half_widths(spread)).tolist() == [True, False, True]
        assert np.isnan(p_values(two_way.estimates(np.eye(2)), two_way.spread(np.eye(2)))[0])


@pytest.mark.parametrize(
    ("grids", "message"),
    [
        ([Grid(np.array([[1.0, np.nan], [1.0, 2.0]]))], "grid 0 has missing"),
        ([Grid(np.ma.masked_less(Y, Y[0, 1]))], "grid 0 has missing"),
        ([Grid(np.zeros((0, 3)))], r"grid 0 has shape \(0, 3\)"),
        ([Grid(np.zeros((3, 2)), "e"), Grid(np.zeros((3, 4)), "e")], "grid 1 has 4 episodes"),
        ([Grid(Y, runs="r"), Grid(Y[:3], runs="r")], "grid 1 has 3 runs"),
        ([Grid(Y, strata=np.zeros(3))], r"allowed is \(7,\)"),
        ([Grid(Y, nested=True)], "grid 0 is nested"),
    ],
)
def test_what_is_not_crossed_is_refused(grids, message):
    with pytest.raises(ValueError, match=message):
        TwoWay(grids)


@pytest.mark.parametrize("level", [0.0, 46266.819949874385, 1e-9, -3.3])
def test_what_does_not_vary_has_no_width_and_no_p(level):
    still = Grid(np.full((5, 9), level), "e")
    two_way = TwoWay([still, Grid(np.full(9, level + 1), "e")])
    form = np.array([[1.0, -1.0], [1.0, 0.0]])
    spread = two_way.spread(form)
    assert half_widths(spread).tolist() == [0.0, 0.0]
    assert np.isnan(p_values(two_way.estimates(form), spread)[0])


def test_equal_play_differs_by_nothing():
    y = rng.normal(1e4, 3.0, size=(5, 9))
    two_way = TwoWay([Grid(y[0], "e"), Grid(y[0].copy(), "e"), Grid(y[0] + 2.0, "e")])
    forms = [[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]
    spread = two_way.spread(forms)
    assert half_widths(spread).tolist() == [0.0, 0.0]  # their difference does not vary
    assert two_way.estimates(forms).tolist() == pytest.approx([0.0, -2.0])


def test_undefined_episodes_keep_the_means_of_the_runs():
    y = Y.copy()
    y[1, 2] = y[3, 4] = np.nan
    y[:, 6] = np.nan
    grid = complete_grid(y)
    assert grid.shape == (RUNS, EPISODES - 1)
    assert grid.mean(axis=1) == pytest.approx(np.nanmean(y, axis=1))
    single = np.array([1.0, np.nan, 3.0, np.inf])
    assert complete_grid(single).tolist() == [1.0, 3.0]
    assert np.array_equal(complete_grid(Y), Y)
    assert complete_grid(np.full(3, np.nan)).size == 0


def test_the_variance_of_a_mean_over_defined_episodes_is_that_of_a_ratio():
    """Against many samples: a metric that is undefined in a third of the episodes."""
    chances, means, variances = np.random.default_rng(5), [], []
    for _ in range(2000):
        y = chances.normal(size=(4, 60)) + chances.normal(size=60)
        y[chances.uniform(size=y.shape) < 1 / 3] = np.nan
        two_way = TwoWay([Grid(complete_grid(y))])
        spread = two_way.spread([1.0])
        means.append(two_way.means[0])
        variances.append((spread.runs + spread.episodes - spread.interaction)[0])
    assert np.mean(variances) == pytest.approx(np.var(means), rel=0.1)


def test_runs_are_matched_by_their_names():
    """Of three tasks the second lacks the first run, and a third is of other runs."""
    rng = np.random.default_rng(8)
    skill, names = rng.normal(0.0, 2.0, (6, 1)), np.arange(6)
    whole, part = skill + rng.normal(size=(6, 30)), skill[1:] + rng.normal(size=(5, 30))
    other = rng.normal(size=(4, 30))
    grids = [
        Grid(whole, runs="a", names=names),
        Grid(part, runs="a", names=names[1:]),
        Grid(other, runs="a", names=names[:4] + 10),
    ]
    spread = TwoWay(grids).spread(np.full(3, 1.0 / 3.0))
    means = [values.mean(axis=1) for values in (whole, part, other)]
    first, second = (row - row.mean() for row in means[:2])
    scale = np.sqrt(6 / 5 * 5 / 4)
    shared = 2.0 * np.sum(first[1:] * second) * scale / 30
    variances = [np.var(row, ddof=1) / len(row) for row in means]
    assert spread.runs[0] == pytest.approx((sum(variances) + shared) / 9)
    pair = variances[0] + variances[1] + shared, variances[2]
    df = sum(pair) ** 2 / (pair[0] ** 2 / 4 + pair[1] ** 2 / 3)
    assert spread.runs_df[0] == pytest.approx(df)
    turned = [Grid(whole, runs="a", names=names), Grid(whole[::-1], runs="a", names=names[::-1])]
    apart = TwoWay(turned).spread(np.array([1.0, -1.0]))
    assert apart.runs[0] == 0.0
    for wrong, what in ((None, "names of both or of none"), (names[:2], "names of shape")):
        with pytest.raises(ValueError, match=what):
            TwoWay([turned[0], Grid(whole, runs="a", names=wrong)])


def test_the_iqm_matches_runs_by_their_names():
    """Tasks in another order of runs, and one that lacks a run far out."""
    rng = np.random.default_rng(9)
    skill, names = rng.normal(0.0, 2.0, (9, 1)), np.arange(9)
    values = [skill + rng.normal(0.0, 0.1, (9, 40)) for _ in range(3)]
    same = iqm_of_runs([Grid(v, runs="a", names=names) for v in values])[1]
    by_row = iqm_of_runs([Grid(v, runs="a") for v in values])[1]
    assert same.runs[0] == by_row.runs[0]
    turned = [Grid(v[::-1], runs="a", names=names[::-1]) for v in values[1:]]
    moved = iqm_of_runs([Grid(values[0], runs="a", names=names), *turned])[1]
    assert moved.runs[0] == pytest.approx(same.runs[0])
    kept = np.delete(names, int(np.argmax(skill)))
    fewer = [Grid(values[0][kept], runs="a", names=kept)]
    fewer += [Grid(v, runs="a", names=names) for v in values[1:]]
    assert iqm_of_runs(fewer)[1].runs[0] > 0.6 * same.runs[0]


def test_episodes_are_matched_by_their_seeds():
    """Tasks share the luck of a seed, however many others each has; others are independent."""
    luck = rng.normal(size=40)
    one, few, far = np.arange(40), np.arange(10, 40)[::-1], np.arange(40, 80)
    forms = np.full(3, 1 / 3)
    parts = [("x", luck, one), ("x", luck[few], few), ("x", luck, far)]
    spread = TwoWay([Grid(values, label, seeds=seeds) for label, values, seeds in parts]).spread(
        forms
    )
    first, second = luck - luck.mean(), luck[few] - luck[few].mean()
    variances = np.var(luck, ddof=1) / 40, np.var(luck[few], ddof=1) / 30
    shared = np.sum(first[few] * second) / (40 * 30) * np.sqrt(40 / 39 * 30 / 29)
    expected = (2 * variances[0] + variances[1] + 2 * shared) / 9
    assert spread.episodes[0] == pytest.approx(expected)
    pair = (variances[0] + variances[1] + 2 * shared) / 9, variances[0] / 9
    freedom = sum(pair) ** 2 / (pair[0] ** 2 / 29 + pair[1] ** 2 / 39)
    assert spread.episodes_df[0] == pytest.approx(freedom)
    alike = [Grid(luck, "x", seeds=one), Grid(luck, "x", seeds=one)]
    plain = [Grid(luck, "x"), Grid(luck, "x")]
    assert TwoWay(alike).spread([0.5, 0.5]) == TwoWay(plain).spread([0.5, 0.5])
    for seeds, what in ((None, "seeds of both or of none"), (few, "has seeds of shape")):
        with pytest.raises(ValueError, match=what):
            TwoWay([alike[0], Grid(luck, "x", seeds=seeds)])


def test_the_iqm_of_runs_is_the_pooled_one():
    """Of four tasks far apart the runs of the middle two count, those of the others not at all."""
    grids = [Grid(rng.normal(9.0 * k, 0.3, size=(8, 1)) + rng.normal(size=50)) for k in range(4)]
    value, spread = iqm_of_runs(grids)
    means = np.stack([g.values.mean(axis=1) for g in grids], axis=1)
    assert value == iqm(means)
    parts = np.var(means[:, 1:3], axis=0, ddof=1) * 8 / 16**2
    assert spread.runs[0] == pytest.approx(parts.sum())
    assert spread.runs_df[0] == pytest.approx(parts.sum() ** 2 / np.sum(parts**2 / 7))
    middle = TwoWay(grids).spread([0.0, 0.5, 0.5, 0.0])
    assert spread.episodes == pytest.approx(middle.episodes)
    with pytest.raises(ValueError, match="fixed policy"):
        iqm_of_runs([Grid(Y[0])])


def test_the_iqm_of_runs_that_play_all_tasks_varies_as_their_sums():
    ability = rng.normal(size=(8, 1))
    tasks = [ability + 0.1 * rng.normal(size=(8, 40)) for _ in range(6)]
    shared = iqm_of_runs([Grid(values, runs="models") for values in tasks])[1]
    means = np.stack([values.mean(axis=1) for values in tasks], axis=1)
    low, high = np.sort(means.ravel())[[12, 35]]
    sums = np.clip(means, low, high).sum(axis=1)
    assert shared.runs[0] == pytest.approx(np.var(sums, ddof=1) * 8 / 24**2)
    assert shared.runs_df[0] == pytest.approx(7)
    assert shared.runs[0] > 4 * iqm_of_runs([Grid(values) for values in tasks])[1].runs[0]


def test_binomial_interval_is_exact():
    for count, hits in ((5, 5), (10, 10), (10, 0), (7, 3)):
        exact = stats.binomtest(hits, count).proportion_ci(0.95, method="exact")
        assert binomial_interval(hits, count) == pytest.approx((exact.low, exact.high))
    assert binomial_interval(5, 5)[0] == pytest.approx(0.478, abs=5e-4)
    with pytest.raises(ValueError, match="6 of 5"):
        binomial_interval(6, 5)


def test_runs_far_below_the_best_of_their_task():
    assert runs_behind_best(np.array([0.9, 0.66, 0.64, 0.1]), 0.25) == 2


def test_intervals_apart_are_those_of_each_grid_alone():
    strata = np.arange(60) % 4
    draws = [rng.normal(size=shape) for shape in ((60,), (60,), (10, 60), (10, 60), (60, 10))]
    draws[-1] = draws[-1].T  # sums have another order
    grids = [Grid(values, strata=labels) for values in draws for labels in (None, strata, strata)]
    grids += [Grid(rng.normal(size=(5, 1)), nested=True), Grid(np.ones(60), strata=strata)]
    alone = [half_widths(TwoWay([grid]).spread([1.0]), 0.9)[0] for grid in grids]
    np.testing.assert_array_equal(half_widths_apart(grids, 0.9), alone)


def test_many_metrics_stand_alone():
    with pytest.raises(ValueError, match="of many metrics"):
        TwoWay([Grid(Y), Grid(Y[None], many=True)])
