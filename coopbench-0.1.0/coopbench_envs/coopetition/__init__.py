"""Coopetition games: agents that invest in common ventures, and trust each other more or less."""
