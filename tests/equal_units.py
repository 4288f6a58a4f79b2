"""Battles in which units of one kind and side have exchanged their numbers."""

import numpy as np


def permuted(is_ally, kinds, draws):
    """Return a permutation of the units that only exchanges units of one kind and side."""
    seats = np.arange(len(kinds))
    groups = np.stack([is_ally, kinds], axis=1)
    for group in np.unique(groups, axis=0):
        members = np.flatnonzero((groups == group).all(axis=1))
        seats[members] = draws.permutation(members)
    return seats


def renumbered(seats, numbers):
    """Return numbers of units, -1 for none, after the units have changed their seats."""
    return np.append(np.argsort(seats), -1)[numbers]


def reordered(seats, heals, actions):
    """Return the actions (lanes, agents) that do the same after the units have changed their seats.

    ``heals`` is (agents,) bool: those whose targets are agents, not enemies.
    """
    n = len(heals)
    actions, first = actions[:, seats[:n]], np.where(heals, 0, n) - 6
    targets = renumbered(seats, np.clip(actions + first, -1, len(seats) - 1)) - first
    return np.where(actions >= 6, targets, actions)
