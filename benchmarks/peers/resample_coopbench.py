"""Probe: bootstrap of four aggregate scores of this package; a step is one resample.

10 runs of 26 tasks: mean, median, interquartile mean and optimality gap of each resample.
"""

import numpy as np
from stopwatch import Stopwatch

from coopbench.statistics import bootstrap_intervals, iqm, mean, median, optimality_gap

RESAMPLES = 2000
scores = np.random.default_rng(0).random((10, 26))
statistics = (mean, median, iqm, optimality_gap)
bootstrap_intervals(scores, statistics, reps=RESAMPLES)
watch = Stopwatch()
while watch.running:
    with watch:
        bootstrap_intervals(scores, statistics, reps=RESAMPLES)
    watch.steps += RESAMPLES
watch.report("coopbench", "numpy", "numba")
