"""Impulsive: a policy for coopbench."""
