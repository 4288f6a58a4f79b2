from functools import partial

import numpy as np
import pytest

from coopbench.statistics import (
    CurveBootstrap,
    align_curves,
    area_interval,
    area_under_curve,
    bootstrap_interval,
    curve_interval,
    iqm,
    mean,
    median,
    optimality_gap,
    steps_to_threshold,
    threshold_interval,
)

STEPS = np.array([10_000.0, 20_000.0, 50_000.0, 60_000.0])


@pytest.fixture
def curves():
    """Scores (10 runs, 3 tasks, 4 points); a good run is good throughout."""
    rng = np.random.default_rng(4)
    level = rng.random((10, 3, 1))
    return level + np.array([0.0, 0.3, 0.5, 0.6]) + 0.01 * rng.normal(size=(10, 3, 4))


def test_areas_average_the_heights_over_true_steps():
    values = np.random.default_rng(0).uniform(-10.0, 10.0, (3, 4))
    areas = area_under_curve(values, STEPS)
    dense = np.linspace(STEPS[0], STEPS[-1], 5001)
    assert areas == pytest.approx(align_curves(values, STEPS, dense).mean(axis=1), abs=0.01)
    assert area_under_curve(values, np.tile(STEPS, (3, 1)) + 5.0) == pytest.approx(areas)


def test_thresholds_are_reached_at_evaluations_or_never():
    values = np.array([[0.0, 0.5, 0.4, 0.9], [0.6, 0.0, 0.0, 0.0], [0.0, 0.1, 0.2, 0.3]])
    assert steps_to_threshold(values, STEPS, 0.5).tolist() == [20_000.0, 10_000.0, np.inf]
    own = np.stack([STEPS, STEPS + 7.0, STEPS])
    assert steps_to_threshold(values, own, 0.5).tolist() == [20_000.0, 10_007.0, np.inf]


def test_curves_are_read_off_at_common_steps_and_not_beyond():
    own = np.stack([STEPS, STEPS + 1_000.0])
    grid = np.array([11_000.0, 35_000.0, 60_000.0])
    aligned = align_curves(own / 1_000.0, own, grid)
    assert aligned == pytest.approx(np.tile(grid / 1_000.0, (2, 1)))
    with pytest.raises(ValueError, match=r"grid spans 10000.0.*allowed is 11000.0 to 60000.0"):
        align_curves(own, own, np.array([10_000.0, 20_000.0]))


@pytest.mark.parametrize("method", ["percentile", "expanded"])
def test_a_band_is_the_interval_of_every_point(curves, method):
    options = {"method": method, "reps": 500, "seed": 2}
    for statistic in (mean, median, iqm, partial(optimality_gap, gamma=0.7)):
        band = curve_interval(curves, statistic, **options)
        for point in range(4):
            alone = bootstrap_interval(curves[:, :, point], statistic, **options)
            assert band.estimate[point] == alone.estimate
            assert (band.low[point], band.high[point]) == pytest.approx((alone.low, alone.high))


def test_whole_runs_are_resampled(curves):
    # For the mean, the area under the mean curve is the mean of the areas of the runs.
    for method in ("percentile", "bca", "t", "expanded"):
        interval = area_interval(curves, STEPS, mean, method=method, reps=5_000)
        alone = bootstrap_interval(area_under_curve(curves, STEPS), mean, method=method, reps=5_000)
        assert interval.estimate == pytest.approx(alone.estimate)
        assert (interval.low, interval.high) == pytest.approx((alone.low, alone.high), abs=2e-3)
    # Points drawn separately would average the luck of a run away.
    separate = bootstrap_interval(curves.reshape(10, -1), mean, reps=5_000)
    assert interval.high - interval.low > 1.5 * (separate.high - separate.low)


def test_steps_to_a_threshold_have_ends_where_evaluations_took_place(curves):
    interval = threshold_interval(curves, STEPS, 0.75, mean, reps=1_000)
    assert {interval.estimate, interval.low, interval.high} <= {*STEPS, np.inf}
    assert interval.low <= interval.estimate <= interval.high
    assert interval != threshold_interval(curves, STEPS, 1.0, mean, reps=1_000)
    never = threshold_interval(curves, STEPS, 99.0, reps=100)
    assert (never.estimate, never.low, never.high) == (np.inf, np.inf, np.inf)
    unsure = threshold_interval(curves[:3], STEPS, float(mean(curves[:3, :, -1])), mean, reps=500)
    assert np.isfinite(unsure.low)
    assert unsure.high == np.inf
    assert "3 runs" in unsure.warnings[0]
    assert "expanded" not in unsure.warnings[0]  # there is no such remedy for it


def test_all_questions_about_a_curve_share_one_draw(curves):
    drawn, half = CurveBootstrap(curves, reps=400, seed=3), partial(optimality_gap, gamma=0.5)
    options = {"reps": 400, "seed": 3}
    for statistic in (iqm, half, mean, optimality_gap):
        band, alone = drawn.band(statistic), curve_interval(curves, statistic, **options)
        assert np.array_equal([band.low, band.high], [alone.low, alone.high])
        area = drawn.area(STEPS, statistic, method="expanded")
        assert area == area_interval(curves, STEPS, statistic, method="expanded", **options)
        reached = drawn.threshold(STEPS, 0.6, statistic)
        assert reached == threshold_interval(curves, STEPS, 0.6, statistic, **options)
    bands = CurveBootstrap(curves, resample="hierarchical", reps=400, seed=3).band(mean)
    alone = bootstrap_interval(curves[:, :, 2], mean, resample="hierarchical", reps=400, seed=3)
    assert (bands.low[2], bands.high[2]) == pytest.approx((alone.low, alone.high))


def test_runs_may_differ_in_number_between_tasks(curves):
    ragged = [curves[:, 0], curves[:6, 1], curves[:8, 2]]
    band = curve_interval(ragged, mean, reps=300)
    assert band.estimate == pytest.approx(np.mean([task.mean(axis=0) for task in ragged], axis=0))
    assert "6 runs" in band.warnings[0]
    alone = curve_interval(curves[:, 0], mean, reps=300)
    same = curve_interval(curves[:, :1], mean, reps=300)
    assert np.array_equal(alone.low, same.low)


def test_wrong_curves_are_named(curves):
    missing = curves.copy()
    missing[3, 1, 2] = np.nan
    with pytest.raises(ValueError, match=r"curves has nan at \(3, 1, 2\)"):
        area_under_curve(missing, STEPS)
    with pytest.raises(ValueError, match="curves, point 2, has nan at run 3, task 1"):
        curve_interval(missing)
    with pytest.raises(ValueError, match="steps has shape"):
        area_under_curve(curves, STEPS[:3])
    with pytest.raises(ValueError, match="increase"):
        steps_to_threshold(curves, STEPS[::-1], 0.5)
    with pytest.raises(ValueError, match="1 point"):
        area_under_curve(curves[..., :1], STEPS[:1])
    with pytest.raises(ValueError, match="curves has shapes"):
        curve_interval([curves[:, 0], curves[:, 1, :3]])
    with pytest.raises(TypeError, match="statistic is"):
        curve_interval(curves, np.mean)
    with pytest.raises(ValueError, match="reps is 0"):
        CurveBootstrap(curves, reps=0)
    with pytest.raises(ValueError, match="method is 'normal'"):
        CurveBootstrap(curves).band(method="normal")
    with pytest.raises(ValueError, match="confidence is 95"):
        CurveBootstrap(curves).threshold(STEPS, 0.5, confidence=95)
