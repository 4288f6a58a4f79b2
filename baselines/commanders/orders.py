"""What the commanders share: which units can be attacked or healed, and how to walk there."""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Game
from coopbench_envs.skirmish.army import (
    FLIES,
    HEALS,
    HITS_AIR,
    HITS_GROUND,
    HP,
    KIND,
    Army,
)

__all__ = ["Orders", "Roles"]

_NO_OP, _HALT, _FIRST_TARGET = 0, 1, 6
_NORTH, _SOUTH, _EAST, _WEST = range(2, 6)


class Roles(NamedTuple):
    """What the units of battles are and do."""

    kinds: np.ndarray  # (lanes, units) int64, rows of the tables of kinds
    heals: np.ndarray  # (lanes, agents) bool
    can_target: np.ndarray  # (lanes, agents, units) bool, units that agents may attack or heal
    full: np.ndarray  # (lanes, units) health that nothing has hurt


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
        teams = getattr(game.constants, "teams", None)
        self._is_drawn = teams is not None and teams.is_drawn
        self._first_of = np.unique(army.traits[:, KIND], return_index=True)[1]
        self._usual = self._roles(army.traits[None, :, KIND])

    def _roles(self, kinds: np.ndarray) -> Roles:
        """Return the roles of units of ``kinds`` (lanes, units)."""
        traits, stats = self.army.traits[self._first_of], self.army.stats[self._first_of]
        n, units = self.num_agents, kinds.shape[1]
        heals = traits[kinds, HEALS] == 1
        is_agent = np.arange(units) < n
        hits = np.where(
            traits[kinds, FLIES][:, None, :] == 1,
            traits[kinds[:, :n], HITS_AIR][:, :, None] == 1,
            traits[kinds[:, :n], HITS_GROUND][:, :, None] == 1,
        )
        # Fighters attack enemies that they can hit, healers heal other kinds.
        patients = (is_agent & ~heals)[:, None, :]
        return Roles(
            kinds=kinds,
            heals=heals[:, :n],
            can_target=np.where(heals[:, :n, None], patients, hits & ~is_agent),
            full=stats[kinds, HP],
        )

    def roles(self, state: Any) -> Roles:
        """Return what units are and do; the axis of lanes has one entry if all lanes agree."""
        return self._roles(state.kind) if self._is_drawn else self._usual

    def offsets(self, state: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the way from every agent to every unit along x and y, (lanes, agents, units)."""
        x, y = state.x.astype(np.float64), state.y.astype(np.float64)
        n = self.num_agents
        return x[:, None, :] - x[:, :n, None], y[:, None, :] - y[:, :n, None]

    def candidates(self, state: Any) -> np.ndarray:
        """Return what agents may aim at, bool (lanes, agents, units): healers at hurt ones."""
        roles = self.roles(state)
        hurt = (state.hp < roles.full)[:, None, :]
        candidates: np.ndarray = roles.can_target & state.living[:, None, :]
        candidates &= hurt | ~roles.heals[:, :, None]
        return candidates

    def patients(self, state: Any) -> np.ndarray:
        """Return which units healers may accompany, hurt or not, bool (lanes, agents, units)."""
        roles = self.roles(state)
        patients: np.ndarray = state.living[:, None, :] & roles.can_target
        patients &= roles.heals[:, :, None] & state.living[:, : self.num_agents, None]
        return patients

    def legal(self, state: Any, masks: np.ndarray) -> np.ndarray:
        """Return what agents can aim at from where they are, bool (lanes, agents, units)."""
        heals = self.roles(state).heals[:, :, None]
        legal = np.zeros((*masks.shape[:2], len(self.army.traits)), np.bool_)
        n, targets = self.num_agents, masks[:, :, _FIRST_TARGET:] == 1
        legal[:, :, n:] = targets[:, :, : self.army.num_enemies] & ~heals
        width = min(n, targets.shape[2])
        legal[:, :, :width] = targets[:, :, :width] & heals
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
        in_range = np.take_along_axis(self.legal(state, masks), units, axis=2)[:, :, 0]
        # The first target action of a healer means an agent, that of others an enemy.
        first = np.where(self.roles(state).heals, 0, self.num_agents)
        attack = _FIRST_TARGET + targets - first
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
