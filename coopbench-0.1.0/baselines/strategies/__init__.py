"""Strategies: investments by rule, in the coopetition games."""
