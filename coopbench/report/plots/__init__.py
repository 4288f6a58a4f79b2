"""Plots of a report, one module per kind."""
