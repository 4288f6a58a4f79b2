"""Plots of a report: drawings whose ``svg`` is the text of a file, and which notebooks show."""

from coopbench.report.plots.drawing import Sheet as Sheet
