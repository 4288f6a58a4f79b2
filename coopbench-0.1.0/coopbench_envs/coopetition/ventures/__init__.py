"""Ventures: the coopetition games of version 1."""
