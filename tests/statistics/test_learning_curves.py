import numpy as np
import pytest

from coopbench.statistics import area_under_curve, steps_to_threshold

STEPS = np.array([10_000.0, 20_000.0, 50_000.0, 60_000.0])


def test_areas_average_the_heights_over_true_steps():
    values = np.random.default_rng(0).uniform(-10.0, 10.0, (3, 4))
    areas = area_under_curve(values, STEPS)
    dense = np.linspace(STEPS[0], STEPS[-1], 5001)
    heights = [np.interp(dense, STEPS, curve).mean() for curve in values]
    assert areas == pytest.approx(heights, abs=0.01)
    assert area_under_curve(values, np.tile(STEPS, (3, 1)) + 5.0) == pytest.approx(areas)


def test_thresholds_are_reached_at_evaluations_or_never():
    values = np.array([[0.0, 0.5, 0.4, 0.9], [0.6, 0.0, 0.0, 0.0], [0.0, 0.1, 0.2, 0.3]])
    assert steps_to_threshold(values, STEPS, 0.5).tolist() == [20_000.0, 10_000.0, np.inf]
    own = np.stack([STEPS, STEPS + 7.0, STEPS])
    assert steps_to_threshold(values, own, 0.5).tolist() == [20_000.0, 10_007.0, np.inf]


def test_wrong_curves_are_named():
    curves = np.zeros((4, 2, 4))
    missing = curves.copy()
    missing[3, 1, 2] = np.nan
    with pytest.raises(ValueError, match=r"curves has nan at \(3, 1, 2\)"):
        area_under_curve(missing, STEPS)
    with pytest.raises(ValueError, match="steps has shape"):
        area_under_curve(curves, STEPS[:3])
    with pytest.raises(ValueError, match="increase"):
        steps_to_threshold(curves, STEPS[::-1], 0.5)
    with pytest.raises(ValueError, match="1 point"):
        area_under_curve(curves[..., :1], STEPS[:1])
    with pytest.raises(ValueError, match="curves has 0 points; allowed are at least 1"):
        steps_to_threshold(curves[..., :0], STEPS[:0], 0.5)
