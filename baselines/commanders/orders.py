"""What the commanders share: whom units can attack or heal, and how they walk there."""

from typing import Any

import numpy as np

from coopbench.baselines.policy import Game
from coopbench_envs.skirmish.army import FLIES, HEALS, HITS_AIR, HITS_GROUND, HP, Army

__all__ = ["Orders"]

_NO_OP, _HALT, _FIRST_TARGET = 0, 1, 6
_NORTH, _SOUTH, _EAST, _WEST = range(2, 6)


class Orders:
    """Turns targets into actions of the agents of one game.

    Raises:
        ValueError: the game is not a battle.
    """

    def __init__(self, game: Game, policy: str) -> None:
        army = getattr(game.constants, "army", None)
        if not isinstance(army, Army):
            raise ValueError(
                f"Policy {policy!r} cannot play {game.env_id}: it commands units that fight, as "
                f"in coopbench/Skirmish-v0."
            )
        self.army, self.num_agents = army, army.num_agents
        traits, agents = army.traits, army.num_agents
        self.heals = traits[:agents, HEALS] == 1
        is_agent = np.arange(len(traits)) < agents
        hits = np.where(
            traits[None, :, FLIES] == 1,
            traits[:agents, None, HITS_AIR] == 1,
            traits[:agents, None, HITS_GROUND] == 1,
        )
        # (agents, units): fighters attack enemies that they can hit, healers heal other kinds.
        patients = is_agent & (traits[:, HEALS] == 0)
        self._can_target = np.where(self.heals[:, None], patients, hits & ~is_agent)
        self._first = np.where(self.heals, 0, agents)  # unit that the first target action means

    def offsets(self, state: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the way from every agent to every unit along x and y, (lanes, agents, units)."""
        x, y = state.x.astype(np.float64), state.y.astype(np.float64)
        n = self.num_agents
        return x[:, None, :] - x[:, :n, None], y[:, None, :] - y[:, :n, None]

    def candidates(self, state: Any) -> np.ndarray:
        """Return whom agents may aim at, bool (lanes, agents, units): healers at the hurt alone."""
        hurt = (state.hp < self.army.stats[:, HP])[:, None, :]
        candidates: np.ndarray = self._can_target & state.living[:, None, :]
        candidates &= hurt | ~self.heals[:, None]
        return candidates

    def patients(self, state: Any) -> np.ndarray:
        """Return whom healers may accompany, hurt or not, bool (lanes, agents, units)."""
        patients: np.ndarray = state.living[:, None, :] & self._can_target & self.heals[:, None]
        patients &= state.living[:, : self.num_agents, None]
        return patients

    def legal(self, masks: np.ndarray) -> np.ndarray:
        """Return whom agents can aim at from where they are, bool (lanes, agents, units)."""
        legal = np.zeros((*masks.shape[:2], len(self.army.traits)), np.bool_)
        n, targets = self.num_agents, masks[:, :, _FIRST_TARGET:] == 1
        fighters, healers = np.flatnonzero(~self.heals), np.flatnonzero(self.heals)
        legal[:, fighters, n:] = targets[:, fighters, : self.army.num_enemies]
        width = min(n, targets.shape[2])
        legal[:, healers, :width] = targets[:, healers, :width]
        return legal

    def nearest(self, state: Any, among: np.ndarray) -> np.ndarray:
        """Return the nearest unit of each agent ``among`` (lanes, agents, units); -1 for none."""
        dx, dy = self.offsets(state)
        return self.least(dx**2 + dy**2, among)

    @staticmethod
    def least(values: np.ndarray, among: np.ndarray) -> np.ndarray:
        """Return the unit with the least value for each agent, the first of equal ones; or -1."""
        best = np.where(among, values, np.inf).argmin(axis=2)
        return np.where(among.any(axis=2), best, -1)

    def actions(self, state: Any, targets: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """Return actions that attack or heal ``targets``, or walk there; without one, stop.

        Those that have fallen do nothing, the only choice that they have.
        """
        units = np.maximum(targets, 0)[:, :, None]
        in_range = np.take_along_axis(self.legal(masks), units, axis=2)[:, :, 0]
        attack = _FIRST_TARGET + targets - self._first
        moves = self.walk(state, targets, masks)
        actions = np.where(targets < 0, _HALT, np.where(in_range, attack, moves))
        return np.where(state.living[:, : self.num_agents], actions, _NO_OP)

    def walk(
        self, state: Any, targets: np.ndarray, masks: np.ndarray, *, away: bool = False
    ) -> np.ndarray:
        """Return moves towards ``targets`` or away from them, along the axis of the longer way.

        If that is blocked, along the other axis; if both are, stop.
        """
        units = np.maximum(targets, 0)[:, :, None]
        dx, dy = (np.take_along_axis(w, units, axis=2)[:, :, 0] for w in self.offsets(state))
        if away:
            dx, dy = -dx, -dy
        along_x = np.where(dx > 0, _EAST, _WEST)
        along_y = np.where(dy > 0, _NORTH, _SOUTH)
        first = np.where(np.abs(dx) > np.abs(dy), along_x, along_y)
        second = np.where(np.abs(dx) > np.abs(dy), along_y, along_x)
        open_first, open_second = (
            np.take_along_axis(masks, way[:, :, None], axis=2)[:, :, 0] == 1
            for way in (first, second)
        )
        return np.where(open_first, first, np.where(open_second, second, _HALT))
