"""Policies that play in evaluations and as partners; one file each, found by their names."""
