"""Learners: what trains a policy."""
