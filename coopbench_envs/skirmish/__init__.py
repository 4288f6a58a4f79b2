"""Skirmish: battles of small armies under the interface of SMAC."""
