"""Workflows: what a user starts, one file each."""
