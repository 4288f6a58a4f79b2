"""Plots of a report, which can be drawn on axes of your own."""

from coopbench.report.plots.courses import curves, scores
from coopbench.report.plots.learning import efficiency, learning_curves, medians, tasks_led
from coopbench.report.plots.overall import aggregate, chart, heat_map, improvements, profiles

__all__ = [
    "aggregate",
    "chart",
    "curves",
    "efficiency",
    "heat_map",
    "improvements",
    "learning_curves",
    "medians",
    "profiles",
    "scores",
    "tasks_led",
]
