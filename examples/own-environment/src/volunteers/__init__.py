"""Volunteers: an environment for coopbench."""
