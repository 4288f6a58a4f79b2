"""Seats: which agents a Gymnasium environment lets its user control; policies play the others."""

import importlib
from typing import Any

import gymnasium as gym
import numpy as np

from coopbench_envs.engine import check_finite, checked_actions
from coopbench_envs.lanes import Lanes
from coopbench_envs.parameters import is_whole

__all__ = ["Opposed", "Seated", "Seats", "joint_spaces"]

_PARTNER = "random"  # the default of every shell


class Seats:
    """Which agents the outside controls: all of them (joint), or ``ego`` with a partner policy.

    The partner's random numbers depend on the seed and the episode of its lane alone, so a focal
    environment reproduces like any other.
    """

    def __init__(self, engine: Lanes, control: str, ego: int, partner: Any) -> None:
        if control not in ("joint", "focal"):
            raise ValueError(f"Parameter 'control' was {control!r}; allowed: 'joint', 'focal'.")
        if control == "focal" and not (is_whole(ego) and 0 <= ego < len(engine.agents)):
            raise ValueError(
                f"Parameter 'ego' of {engine.spec.id} was {ego!r}; allowed: 0 to "
                f"{len(engine.agents) - 1} ({', '.join(engine.agents)})."
            )
        if control == "joint" and not (
            ego == 0 and isinstance(partner, str) and partner == _PARTNER
        ):
            raise ValueError(
                f"'ego' and 'partner' of {engine.spec.id} need control='focal'; given ego={ego!r} "
                f"and partner={partner!r} under joint control, where they have no effect."
            )
        self.engine, self.ego = engine, ego if control == "focal" else None
        if self.ego is not None:
            self.set_partner(partner)

    def set_partner(self, partner: Any) -> None:
        """Let ``partner`` (a name, a callable or a policy object) play with the ego agent."""
        if self.ego is None:
            raise ValueError(
                "A partner needs control='focal'; this environment is under joint control."
            )
        # The baselines import this package: they are imported by name, when needed.
        players = importlib.import_module("coopbench.baselines.player")
        self.player = players.seated(partner, self.engine)
        self._episode = np.full(self.engine.lanes, -1, np.int64)

    def complete(self, actions: Any) -> Any:
        """Return the actions of all agents, from those (lanes, ...) of the ego or of all."""
        if self.ego is None:
            return actions
        engine, agent = self.engine, self.engine.agents[self.ego]
        # Before the partner acts: what is refused must not change its memory.
        shape = (engine.lanes, *engine.actions.shape[2:])
        chosen = checked_actions(engine, actions, shape, agent).astype(engine.actions.dtype)
        if not engine.discrete:
            check_finite(engine.spec.id, [agent], chosen[:, None])
        control = engine.control
        fresh = control.episode != self._episode
        if fresh.any():
            self.player.begin(control.seed, control.episode, fresh)
            self._episode = control.episode.copy()
        joint: np.ndarray = self.player.act(control.obs, engine.view(), control.masks)
        joint[:, self.ego] = chosen
        return joint

    def restart(self, lanes: Any = slice(None)) -> None:
        """Forget the episodes of ``lanes``: their partner restarts at the next action."""
        if self.ego is not None:
            self._episode[lanes] = -1

    def spaces(self) -> tuple[Any, Any]:
        """Observation and action space of one lane, as the outside sees them."""
        if self.ego is not None:
            engine = self.engine
            return engine.observation_spaces[self.ego], engine.action_spaces[self.ego]
        return joint_spaces(self.engine)

    def view(self, per_agent: np.ndarray) -> np.ndarray:
        """Copy of the outside's part of an array (lanes, agents, ...)."""
        return per_agent.copy() if self.ego is None else per_agent[:, self.ego].copy()

    def seen(self) -> np.ndarray:
        """Copy of the outside's observation in the first lane."""
        obs = self.engine.first.obs
        return obs.copy() if self.ego is None else obs[self.ego].copy()

    def earned(self) -> float:
        """The outside's reward in the first lane."""
        first = self.engine.first
        return float(first.team.item() if self.ego is None else first.rewards.item(self.ego))

    def reward(self) -> np.ndarray:
        """The outside's reward in every lane: the ego's, or the team's."""
        control = self.engine.control
        return (control.team if self.ego is None else control.rewards[:, self.ego]).copy()


class Opposed:
    """What all environments share: the exchange of the policy that plays against the agents."""

    engine: Lanes

    def set_opponent(self, policy: Any) -> None:
        """Let a policy, also as a callable or an object, play against the agents.

        Raises ``ValueError`` for an environment that was not made with ``opponent="policy:..."``.
        """
        self.engine.set_opponent(policy)


class Seated(Opposed):
    """What environments with ``seats`` share: the exchange of the policies that play with them."""

    seats: Seats

    def set_partner(self, partner: Any) -> None:
        """Let a policy play with the ego agent: a name, a callable or an object with ``act``."""
        self.seats.set_partner(partner)


def joint_spaces(engine: Lanes) -> tuple[Any, Any]:
    """Spaces of joint control: observations (agents, features), actions (agents, dim)."""
    obs, act = engine.observation_spaces, engine.action_spaces
    observation = gym.spaces.Box(
        np.stack([s.low for s in obs]), np.stack([s.high for s in obs]), dtype=np.float32
    )
    if engine.discrete:
        return observation, gym.spaces.MultiDiscrete([s.n for s in act])
    low, high = engine.action_bounds()
    return observation, gym.spaces.Box(low, high, dtype=np.float32)
