"""A policy on the other side of a battle: it sees it from there, as if it were the agents.

The enemies' side of a map is the map turned by 180 degrees with its teams exchanged, on which the
enemies are the agents. A second engine holds that battle, so that whatever plays the environment
can play against it: a policy gets its own side's observations, masks and state.
"""

import importlib
from dataclasses import replace
from typing import Any

import numpy as np

from coopbench_envs.core import POLICY
from coopbench_envs.skirmish.dynamics import FIRST_MOVE, FIRST_TARGET, NO_OP
from coopbench_envs.skirmish.scenario import Scenario

__all__ = ["SIDES", "Opponent", "opponent_of", "turned"]

SIDES = "allies", "enemies"
_STREAM = 1000  # of random numbers; policies that play the agents have the first ones


def turned(scenario: Scenario) -> Scenario:
    """Return the map turned by 180 degrees, with both teams exchanged."""
    n = scenario.num_allies
    rows, columns = scenario.terrain.shape
    size = np.array([columns, rows], scenario.positions.dtype)
    seats = np.roll(np.arange(len(scenario.kinds)), -n)
    allies, enemies = scenario.shields
    heights = scenario.heights
    return replace(
        scenario,
        kinds=tuple(scenario.kinds[u] for u in seats),
        num_allies=len(scenario.kinds) - n,
        positions=size - scenario.positions[seats],
        order=(scenario.order - n) % len(scenario.kinds),
        # ``attack_point`` stays: allies that are scripted walk to its image.
        terrain=scenario.terrain[::-1, ::-1].copy(),
        heights=None if heights is None else heights[::-1, ::-1].copy(),
        shields=(enemies, allies),
        type_ids=scenario.type_ids[seats],
    )


def opponent_of(engine: Any) -> "Opponent | None":
    """Return who plays the enemies of an engine; None if they follow a rule.

    Raises:
        ValueError: the parameter ``opponent`` names no policy, or one that cannot play.
    """
    name = engine.parameters.opponent
    return Opponent(engine, name.removeprefix(POLICY)) if name.startswith(POLICY) else None


class Opponent:
    """Plays a policy as the enemies of an engine.

    The policy's memory of a lane restarts with an episode, and with a state that was restored.
    """

    def __init__(self, engine: Any, policy: str) -> None:
        parameters = engine.parameters._asdict()
        parameters |= {"opponent": "attack_move", "side": _OTHER_SIDE[parameters["side"]]}
        self._engine = engine
        self._mirror = type(engine)(engine.spec.id, engine.lanes, **parameters)
        self._last = self._mirror.state.last.copy()
        self.seat(policy)

    def seat(self, policy: Any) -> None:
        """Let a policy (a name, a callable or an object) play from now on."""
        # The baselines import this package: they are imported by name, when needed.
        players = importlib.import_module("coopbench.baselines.player")
        self._player = players.seated(policy, self._mirror)
        self._time = np.full(self._engine.lanes, -1, np.int64)  # at which a lane goes on

    def restart(self, lanes: np.ndarray) -> None:
        """Forget what was in these lanes: their states have been replaced."""
        self._time[lanes] = -1

    def act(self) -> None:
        """Write the orders of the coming step into the engine's state."""
        engine, mirror = self._engine, self._mirror
        fresh = (engine.state.time != self._time) | (engine.state.time == 0)
        self._last[fresh] = -1
        mirror.restore(self._reflected())
        if fresh.any():
            control = engine.control
            self._player.begin(control.seed, control.episode, fresh, _STREAM)
        masks = mirror.control.masks
        actions = self._player.act(mirror.control.obs, mirror.view(), masks)
        choices = actions.clip(0, masks.shape[2] - 1)
        legal = np.take_along_axis(masks, choices[:, :, None], axis=2)[:, :, 0] == 1
        actions = np.where(legal & (choices == actions), actions, NO_OP)
        self._last, self._time = actions, engine.state.time + 1
        moves = (actions >= FIRST_MOVE) & (actions < FIRST_TARGET)
        engine.state.orders[...] = np.where(moves, actions ^ 1, actions)  # north for south

    def _reflected(self) -> dict[str, np.ndarray]:
        """Return the state of the engine's battles as the other side has it."""
        state, n = self._engine.state, len(self._engine.agents)
        rows, columns = self._engine.constants.army.terrain.shape
        seats = np.roll(np.arange(state.x.shape[1]), -n)
        names = {*_PER_UNIT, *_DIRECTIONS, *_NUMBERS} & {*self._engine.fields}
        fields = {
            name: values[:, seats] for name, values in state._asdict().items() if name in names
        }
        places = np.append(np.argsort(seats), -1)  # of every unit on the other side, and of none
        fields |= {name: places[fields[name]] for name in _NUMBERS if name in fields}
        fields |= {name: -fields[name] for name in _DIRECTIONS if name in fields}
        fields |= {"x": columns - fields["x"], "y": rows - fields["y"]}
        if "march" in state._fields:
            fields["march"] = np.array([columns, rows]) - state.march[:, ::-1]
        if "kind" in fields and not self._engine.constants.teams.is_drawn:
            # Both number the kinds of their units anew.
            fields["kind"] = np.broadcast_to(self._mirror.constants.rules.kind, state.kind.shape)
        control = self._engine.control
        fields |= {name: getattr(control, name) for name in ("seed", "episode", "done")}
        fields |= {"time": state.time, "last": self._last}
        return fields | {"dealt": state.taken, "taken": state.dealt}


_OTHER_SIDE = dict(zip(SIDES, reversed(SIDES), strict=True))
# Fields of either version.
_PER_UNIT = (
    *("x", "y", "hp", "shield", "wait", "energy", "healing", "cooldown", "kind"),
    *("living", "aiming"),
)
_DIRECTIONS = "vx", "vy", "face_x", "face_y"
_NUMBERS = "target", "patient"
