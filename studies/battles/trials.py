"""Plays many plans in the same episodes of one battle."""

from typing import Any

import numpy as np

from coopbench_envs.engine import DISABLED, Engine


class Trials:
    """A battle in which plans are compared: all of a call meet the same episodes.

    ``played`` counts episodes, ``steps`` those of their steps.
    """

    def __init__(self, env_id: str, parameters: dict[str, Any], *, masks: bool, lanes: int) -> None:
        self._masks, self._lanes = masks, lanes
        self._engine = Engine(env_id, lanes, **parameters)
        self.horizon = self._engine.horizon
        self.agents = len(self._engine.agents)
        self.choices = self._engine.control.masks.shape[2]
        constants: Any = self._engine.constants
        self.targets = int(constants.army.num_enemies)
        self.played = self.steps = 0

    def outcomes(self, plans: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Return (plans, episodes, 3): victory, return and length.

        ``plans`` are ranks (plans, steps, agents, choices), as ``BattlePlan`` takes them.
        """
        pairs = np.arange(len(plans) * len(seeds))
        parts = [
            self._outcomes(plans, pairs[at : at + self._lanes] // len(seeds), seeds, pairs[at])
            for at in range(0, len(pairs), self._lanes)
        ]
        table = np.concatenate(parts)
        self.played += len(table)
        self.steps += int(table[:, 2].sum())
        return table.reshape(len(plans), len(seeds), 3)

    def _outcomes(
        self, plans: np.ndarray, played: np.ndarray, seeds: np.ndarray, first: int
    ) -> np.ndarray:
        """Play plan ``played[k]`` in lane k; unused lanes repeat the last one."""
        count = len(played)
        lanes = np.minimum(np.arange(self._lanes), count - 1)
        numbers = played[lanes]
        engine, control = self._engine, self._engine.control
        engine.reset(seeds[(first + lanes) % len(seeds)])
        blocks = np.unique(numbers, return_inverse=True)
        lengths = np.zeros(self._lanes)
        for t in range(self.horizon):
            running = control.done == 0
            running[count:] = False
            if not running.any():
                break
            lengths += running
            ranks = plans[blocks[0], min(t, plans.shape[1] - 1)][blocks[1]]
            if self._masks:
                ranks = (ranks + np.uint8(1)) * control.masks.view(np.uint8)
            engine.step(ranks.argmax(axis=2), DISABLED)
        returns = control.returns.mean(axis=1)
        return np.stack([control.measures[:, 0], returns, lengths], axis=1)[:count]
