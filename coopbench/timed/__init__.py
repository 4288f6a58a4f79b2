"""Timed play: one episode at a time with time limits, scored like the Flatland challenge."""
