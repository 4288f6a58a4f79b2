"""Protocols: what is played, on which seeds, and how it is reported."""
