"""Plans of battles: for every step and agent an order of preference over the choices.

A plan observes nothing but the number of the step. Played with masks, an agent takes the first of
its preferences that is legal; played without, it takes the first, which does nothing if it is
illegal.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coopbench.baselines.game import Game

__all__ = ["BattlePlan", "packed_plan", "unpacked_plan"]


class BattlePlan:
    """Plays a plan; after its last step, the last step again."""

    def __init__(self, ranks: np.ndarray, *, masks: bool) -> None:
        """Take ``ranks`` (steps, agents, choices) uint8, the preferred choice with the highest."""
        self._ranks, self.uses_masks = ranks, masks
        self._first = ranks.argmax(axis=2)

    def initial(self, game: Game, seeds: np.ndarray) -> np.ndarray:
        """Return the steps played: none."""
        return np.zeros(len(seeds), np.int64)

    def act(
        self, observations: np.ndarray, memory: np.ndarray, masks: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (lanes, agents) actions."""
        steps = np.minimum(memory, len(self._ranks) - 1)
        if masks is None:
            return self._first[steps], memory + 1
        # Ranks begin with 0; one more leaves illegal choices below all others.
        preferred = (self._ranks[steps].astype(np.int16) + 1) * masks
        return preferred.argmax(axis=2), memory + 1


def packed_plan(ranks: np.ndarray, *, masks: bool) -> list[list[str]]:
    """Return a plan as text: for every agent its runs of equal steps, "steps:choice choice ...".

    Choices stand in the order of preference. Without ``masks`` only the first is written.
    """
    order = np.argsort(-ranks.astype(np.int16), axis=2, kind="stable")
    order = order if masks else order[:, :, :1]
    plan = []
    for agent in range(order.shape[1]):
        rows = order[:, agent]
        ends = [*np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)) + 1, len(rows)]
        starts = [0, *ends[:-1]]
        runs = zip(starts, ends, strict=True)
        plan.append([f"{end - at}:{' '.join(map(str, rows[at]))}" for at, end in runs])
    return plan


def unpacked_plan(plan: Sequence[Sequence[str]], choices: int) -> np.ndarray:
    """Return the ranks (steps, agents, choices) of what ``packed_plan`` has written.

    Choices that are not written come after all others. Raises ``ValueError`` for any other text.
    """
    agents = [np.concatenate([_run(text, choices) for text in runs]) for runs in plan]
    return np.stack(agents, axis=1)


def _run(text: str, choices: int) -> np.ndarray:
    """Return the ranks (steps, choices) of one run."""
    steps, _, order = text.partition(":")
    places = [int(word) for word in order.split()]
    if len(set(places)) < len(places) or not set(places) <= set(range(choices)):
        raise ValueError(
            f"A plan has the run {text!r}; allowed: 'STEPS:CHOICE CHOICE ...' with different "
            f"choices from 0 to {choices - 1}."
        )
    ranks = np.zeros(choices, np.uint8)
    ranks[places] = np.arange(choices, choices - len(places), -1) - 1
    return np.tile(ranks, (int(steps), 1))


def plan_of(certificate: Mapping[str, Any], *, masks: bool, choices: int) -> np.ndarray:
    """Return the ranks of the plan of one battle's certificate."""
    return unpacked_plan(certificate["plans"]["masked" if masks else "unmasked"], choices)
