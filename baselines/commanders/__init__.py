"""Commanders: rules by which teams fight, in battles."""
