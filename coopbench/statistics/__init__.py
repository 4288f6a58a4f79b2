"""Statistics of repeated experiments: point estimates, intervals, tests, fairness.

Arrays in, values out: nothing here reads files or knows environments. Scores are (runs, tasks).
Importing is cheap; scipy is loaded by the first function that needs it.
"""

from coopbench.statistics.bootstrap import bootstrap_intervals as bootstrap_intervals
from coopbench.statistics.constant import constant_half_width as constant_half_width
from coopbench.statistics.constant import constant_p as constant_p
from coopbench.statistics.constant import nearest_spread as nearest_spread
from coopbench.statistics.counts import binomial_interval as binomial_interval
from coopbench.statistics.counts import runs_behind_best as runs_behind_best
from coopbench.statistics.curves import area_under_curve as area_under_curve
from coopbench.statistics.curves import steps_to_threshold as steps_to_threshold
from coopbench.statistics.estimates import iqm as iqm
from coopbench.statistics.estimates import mean as mean
from coopbench.statistics.estimates import median as median
from coopbench.statistics.estimates import optimality_gap as optimality_gap
from coopbench.statistics.estimates import performance_profile as performance_profile
from coopbench.statistics.estimates import probability_of_improvement as probability_of_improvement
from coopbench.statistics.fairness import gini as gini
from coopbench.statistics.fairness import jain as jain
from coopbench.statistics.improvement_and_profile import (
    improvement_interval as improvement_interval,
)
from coopbench.statistics.improvement_and_profile import profile_interval as profile_interval
from coopbench.statistics.intervals import Interval as Interval
from coopbench.statistics.intervals import moments as moments
from coopbench.statistics.intervals import t_interval as t_interval
from coopbench.statistics.linear_statistics import iqm_of_runs as iqm_of_runs
from coopbench.statistics.linear_statistics import mean_weights as mean_weights
from coopbench.statistics.linear_statistics import trimmed_weights as trimmed_weights
from coopbench.statistics.two_samples import cohens_d as cohens_d
from coopbench.statistics.two_samples import hedges_g as hedges_g
from coopbench.statistics.two_samples import holm as holm
from coopbench.statistics.two_samples import welch as welch
from coopbench.statistics.two_way import Grid as Grid
from coopbench.statistics.two_way import Spread as Spread
from coopbench.statistics.two_way import TwoWay as TwoWay
from coopbench.statistics.two_way import complete_grid as complete_grid
from coopbench.statistics.two_way import half_widths as half_widths
from coopbench.statistics.two_way import half_widths_apart as half_widths_apart
from coopbench.statistics.two_way import one_sided as one_sided
from coopbench.statistics.two_way import p_values as p_values
