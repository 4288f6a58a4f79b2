"""Coopetition games: agents that invest in each other, trust each other, and are tempted."""
