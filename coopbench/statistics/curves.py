"""Summaries of learning curves: areas, and steps to a threshold.

The horizontal axis is the true number of steps at each evaluation.
"""

import numpy as np

from coopbench.statistics.scores import floats


def area_under_curve(curves: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Average each curve over the steps it spans (trapezoids over the true steps).

    ``curves`` is (..., points) and ``steps`` (points,) or of the shape of ``curves``. Returns
    (...,) in the units of the scores: the area divided by the last step minus the first.

    Raises:
        ValueError: for missing values, fewer than two points, or steps that do not increase.
    """
    values, x = _with_steps(curves, steps, 2)
    heights = (values[..., 1:] + values[..., :-1]) / 2.0
    result: np.ndarray = np.sum(heights * np.diff(x, axis=-1), axis=-1) / (x[..., -1] - x[..., 0])
    return result


def steps_to_threshold(curves: np.ndarray, steps: np.ndarray, threshold: float) -> np.ndarray:
    """Give the steps of the first evaluation at or above the threshold; inf where there is none.

    ``curves`` is (..., points) and ``steps`` (points,) or of the shape of ``curves``; returns
    (...,). Nothing is interpolated between evaluations: what was not observed is not claimed.

    Raises:
        ValueError: for missing values, no points, or steps that do not increase.
    """
    values, x = _with_steps(curves, steps, 1)
    reached = values >= threshold
    first = np.take_along_axis(
        np.broadcast_to(x, values.shape), reached.argmax(axis=-1)[..., None], axis=-1
    )[..., 0]
    return np.where(reached.any(axis=-1), first, np.inf)


def _with_steps(
    curves: np.ndarray, steps: np.ndarray, fewest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return curves of at least ``fewest`` points and their steps as floats, checked."""
    values, x = floats(curves), floats(steps)
    if values.ndim == 0 or x.shape not in (values.shape, values.shape[-1:]):
        wanted = f"{values.shape[-1:]} or {values.shape}"
        raise ValueError(f"steps has shape {x.shape}; allowed is {wanted}, as the curves")
    points = values.shape[-1]
    if points < fewest:
        text = f"{points} point{'' if points == 1 else 's'}"
        raise ValueError(f"curves has {text}; allowed are at least {fewest}")
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        raise ValueError(f"curves has {values[where]} at {where}; allowed are finite numbers")
    if not np.all(np.isfinite(x)) or np.any(np.diff(x, axis=-1) <= 0.0):
        raise ValueError(f"steps is {x}; allowed are finite numbers that increase along a curve")
    return values, x
