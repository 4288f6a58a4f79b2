"""Statistics of repeated experiments: point estimates, intervals, tests, fairness, rankings.

Arrays in, values out: nothing here reads files or knows environments. Scores are (runs, tasks).
Importing is cheap; scipy and numba are loaded by the first function that needs them.
"""

from coopbench.statistics.bootstrap import (
    bootstrap_distribution,
    bootstrap_interval,
    bootstrap_intervals,
)
from coopbench.statistics.corrections import (
    benjamini_hochberg,
    benjamini_yekutieli,
    bonferroni,
    hochberg,
    holm,
    holm_sidak,
)
from coopbench.statistics.crossed import (
    Crossed,
    Grid,
    Spread,
    complete_grid,
    half_widths,
    one_sided,
    p_values,
)
from coopbench.statistics.curves import (
    CurveBootstrap,
    align_curves,
    area_interval,
    area_under_curve,
    curve_interval,
    steps_to_threshold,
    threshold_interval,
)
from coopbench.statistics.effects import a12, cliffs_delta, cohens_d, hedges_g
from coopbench.statistics.estimates import (
    iqm,
    mean,
    median,
    normalise,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
)
from coopbench.statistics.fairness import equality, gini, jain, mixed_signs, nash_welfare
from coopbench.statistics.forms import (
    gap_weights,
    iqm_of_runs,
    mean_weights,
    median_weights,
    trimmed_weights,
)
from coopbench.statistics.groups import (
    alexander_govern,
    anova,
    average_ranks,
    friedman,
    kruskal,
)
from coopbench.statistics.intervals import published_curve_interval, t_interval
from coopbench.statistics.power import detectable, power, runs_needed
from coopbench.statistics.ranking import (
    NashAverage,
    Ranking,
    alpha_rank,
    bradley_terry,
    nash_average,
    rank_intervals,
)
from coopbench.statistics.resampling import difference_of
from coopbench.statistics.results import Comparison, Interval
from coopbench.statistics.scores import drop_missing
from coopbench.statistics.shares import improvement_interval, profile_interval
from coopbench.statistics.tests import (
    brunner_munzel,
    kolmogorov_smirnov,
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
from coopbench.statistics.unseen import (
    binomial_interval,
    runs_behind_best,
    survives_unseen,
    unseen_interval,
    unseen_share,
)

__all__ = [
    "Comparison",
    "Crossed",
    "CurveBootstrap",
    "Grid",
    "Interval",
    "NashAverage",
    "Ranking",
    "Spread",
    "a12",
    "alexander_govern",
    "align_curves",
    "alpha_rank",
    "anova",
    "area_interval",
    "area_under_curve",
    "average_ranks",
    "benjamini_hochberg",
    "benjamini_yekutieli",
    "binomial_interval",
    "bonferroni",
    "bootstrap_distribution",
    "bootstrap_interval",
    "bootstrap_intervals",
    "bradley_terry",
    "brunner_munzel",
    "cliffs_delta",
    "cohens_d",
    "complete_grid",
    "curve_interval",
    "detectable",
    "difference_of",
    "drop_missing",
    "equality",
    "friedman",
    "gap_weights",
    "gini",
    "half_widths",
    "hedges_g",
    "hochberg",
    "holm",
    "holm_sidak",
    "improvement_interval",
    "iqm",
    "iqm_of_runs",
    "jain",
    "kolmogorov_smirnov",
    "kruskal",
    "mann_whitney",
    "mean",
    "mean_weights",
    "median",
    "median_weights",
    "mixed_signs",
    "nash_average",
    "nash_welfare",
    "normalise",
    "one_sided",
    "optimality_gap",
    "p_values",
    "paired_t",
    "paired_tost",
    "performance_profile",
    "permutation_test",
    "power",
    "probability_of_improvement",
    "profile_interval",
    "published_curve_interval",
    "rank_intervals",
    "runs_behind_best",
    "runs_needed",
    "sign_flip",
    "steps_to_threshold",
    "student",
    "survives_unseen",
    "t_interval",
    "threshold_interval",
    "tost",
    "trimmed_weights",
    "unseen_interval",
    "unseen_share",
    "welch",
    "wilcoxon",
]
