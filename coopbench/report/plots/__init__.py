"""Plots of a report: drawings whose ``svg`` is the text of a file, and which notebooks show."""

from coopbench.report.plots.drawing import Sheet as Sheet
from coopbench.report.plots.learning import efficiency as efficiency
from coopbench.report.plots.learning import learning_curves as learning_curves
from coopbench.report.plots.overall import chart as chart
from coopbench.report.plots.overall import heat_map as heat_map
from coopbench.report.plots.overall import improvements as improvements
from coopbench.report.plots.overall import profiles as profiles
