"""Statistics of repeated experiments: point estimates, intervals, tests, power, fairness.

Arrays in, values out: nothing here reads files or knows environments. Scores are (runs, tasks).
Importing is cheap; scipy is loaded by the first function that needs it.
"""

from coopbench.statistics.bootstrap import bootstrap_interval, bootstrap_intervals
from coopbench.statistics.curves import area_under_curve, steps_to_threshold
from coopbench.statistics.estimates import (
    iqm,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
)
from coopbench.statistics.fairness import equality, gini, jain, mixed_signs, nash_welfare
from coopbench.statistics.improvement_and_profile import improvement_interval, profile_interval
from coopbench.statistics.intervals import Interval, t_interval
from coopbench.statistics.linear_statistics import (
    gap_weights,
    iqm_of_runs,
    mean_weights,
    median_weights,
    trimmed_weights,
)
from coopbench.statistics.power import detectable, power, runs_needed
from coopbench.statistics.two_samples import cohens_d, hedges_g, holm, welch
from coopbench.statistics.two_way import (
    Grid,
    Spread,
    TwoWay,
    complete_grid,
    half_widths,
    one_sided,
    p_values,
)
from coopbench.statistics.unobserved_failures import (
    binomial_interval,
    runs_behind_best,
    unseen_interval,
    unseen_p,
    unseen_share,
)

__all__ = [
    "Grid",
    "Interval",
    "Spread",
    "TwoWay",
    "area_under_curve",
    "binomial_interval",
    "bootstrap_interval",
    "bootstrap_intervals",
    "cohens_d",
    "complete_grid",
    "detectable",
    "equality",
    "gap_weights",
    "gini",
    "half_widths",
    "hedges_g",
    "holm",
    "improvement_interval",
    "iqm",
    "iqm_of_runs",
    "jain",
    "mean",
    "mean_weights",
    "median",
    "median_weights",
    "mixed_signs",
    "nash_welfare",
    "one_sided",
    "optimality_gap",
    "p_values",
    "performance_profile",
    "power",
    "probability_of_improvement",
    "profile_interval",
    "runs_behind_best",
    "runs_needed",
    "steps_to_threshold",
    "t_interval",
    "trimmed_weights",
    "unseen_interval",
    "unseen_p",
    "unseen_share",
    "welch",
]
