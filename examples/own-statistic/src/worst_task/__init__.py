"""Worst task: a statistic for coopbench."""
