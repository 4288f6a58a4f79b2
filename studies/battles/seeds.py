"""Plans from which searches begin: walk, then attack the enemies in turn, in many variants."""

from collections.abc import Iterator
from itertools import product

import numpy as np

_STOP, _FIRST_MOVE, _FIRST_TARGET = 1, 2, 6
_WALKS = (1, 2, 3, 4, 5)  # stop, north, south, east, west


def pushed(ranks: np.ndarray, choice: int | np.ndarray, place: int) -> np.ndarray:
    """Return ranks (..., choices) with ``choice`` at rank ``place``, the others in their order."""
    chosen = np.broadcast_to(choice, ranks.shape[:-1])[..., None]
    old = np.take_along_axis(ranks, chosen, axis=-1)
    moved = ranks - (ranks > old)
    moved += moved >= place
    np.put_along_axis(moved, chosen, np.uint8(place), axis=-1)
    return moved


def _orders(agents: int, targets: int) -> Iterator[np.ndarray]:
    """Yield (agents, targets) orders of attack: all alike, or each from another enemy on."""
    up = np.arange(targets)
    yield np.tile(up, (agents, 1))
    yield np.tile(up[::-1], (agents, 1))
    offsets = np.arange(agents)[:, None] * targets // agents
    yield (up + offsets) % targets
    yield np.tile(np.roll(up, -(targets // 2)), (agents, 1))


def _ranked(order: np.ndarray, choices: int) -> np.ndarray:
    """Return ranks (agents, choices) with the targets first, moves behind them, then to stop."""
    agents = len(order)
    ranks = np.tile(np.arange(choices, dtype=np.uint8)[::-1], (agents, 1))
    for choice in (_STOP, 0):
        ranks = pushed(ranks, choice, 0)
    for place, column in enumerate(order.T):
        ranks = pushed(ranks, _FIRST_TARGET + column, choices - 1 - place)
    ranks = pushed(ranks, _STOP, 1)
    return pushed(ranks, 0, 0)


def masked_plans(steps: int, agents: int, targets: int, choices: int) -> list[np.ndarray]:
    """Return plans (steps, agents, choices) that attack whom the mask allows, and else walk.

    They walk in one direction, or in one and then in another; some walk first and attack later,
    some step back in every second or third step.
    """
    plans = []
    behind = _FIRST_TARGET - 1
    for order in _orders(agents, targets):
        attack = np.tile(_ranked(order, choices), (steps, 1, 1))
        plans += [pushed(attack, walk, behind) for walk in _WALKS]
        for first, later in product(_WALKS, _WALKS):
            if first == later:
                continue
            for turn in (4, 8, 16):
                plan = pushed(attack, later, behind)
                plan[:turn] = pushed(attack[:turn], first, behind)
                plans.append(plan)
        for walk, turn in product(_WALKS, (2, 4, 8)):
            plan = pushed(attack, _STOP, behind)
            plan[:turn] = pushed(plan[:turn], walk, choices - 1)
            plans.append(plan)
        for walk, period in product(_WALKS[1:], (2, 3)):
            plan = pushed(attack, _STOP, behind)
            plan[::period] = pushed(plan[::period], walk, choices - 1)
            plans.append(plan)
    return plans


def unmasked_plans(steps: int, agents: int, targets: int, choices: int) -> list[np.ndarray]:
    """Return plans that walk for some steps and then attack each enemy for some steps in turn.

    After the last enemy they begin again with the first.
    """
    plans = []
    for order in list(_orders(agents, targets))[:3]:
        base = np.tile(_ranked(order, choices), (steps, 1, 1))
        for walk, turn, hold in product(_WALKS, (0, 2, 4, 6, 8, 12), (1, 2, 4, 8)):
            turns = (np.arange(steps) - turn).clip(0) // hold % targets
            plan = pushed(base, _FIRST_TARGET + order[:, turns].T, choices - 1)
            plan[:turn] = pushed(plan[:turn], walk, choices - 1)
            plans.append(plan)
    return plans
