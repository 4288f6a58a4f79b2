"""Probe: bootstrap of four aggregate scores by rliable; a step is one resample.

10 runs of 26 tasks: mean, median, interquartile mean and optimality gap of each resample.
"""

import numpy as np
from rliable import library, metrics
from stopwatch import Stopwatch

RESAMPLES = 200
scores = {"policy": np.random.default_rng(0).random((10, 26))}


def aggregates(values: np.ndarray) -> np.ndarray:
    """Return the four aggregates of scores."""
    return np.array(
        [
            metrics.aggregate_mean(values),
            metrics.aggregate_median(values),
            metrics.aggregate_iqm(values),
            metrics.aggregate_optimality_gap(values),
        ]
    )


watch = Stopwatch()
while watch.running:
    with watch:
        library.get_interval_estimates(scores, aggregates, reps=RESAMPLES)
    watch.steps += RESAMPLES
watch.report("rliable", "numpy", "arch")
