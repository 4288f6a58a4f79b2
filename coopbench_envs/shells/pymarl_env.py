"""PyMARL's interface: one game of choices, with the methods of its ``MultiAgentEnv``."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from coopbench_envs.core import EnvSpec
from coopbench_envs.engine import DISABLED
from coopbench_envs.lanes import Lanes, lanes_of, of_user
from coopbench_envs.parameters import named
from coopbench_envs.shells.common import (
    Closing,
    check_options,
    check_render_mode,
    draw_seed,
    rendered,
    seed_of,
)
from coopbench_envs.shells.seats import Opposed

__all__ = ["PyMARLEnv", "pymarl"]

_STYLES = {"epymarl": None, "pymarl": None}
_SUMS = {"sum": np.sum, "mean": np.mean}


def pymarl(env: str | EnvSpec | Callable[..., Any], **options: Any) -> "PyMARLEnv":
    """Make an environment for PyMARL, EPyMARL and other users of their ``MultiAgentEnv``.

    ``env`` is the id of a registered environment with choices as actions, or one of another
    package: a name, whose code is executed, or a function or class that makes one. See
    ``PyMARLEnv`` for the options; all others are parameters of the environment. EPyMARL finds it
    after ``envs.REGISTRY["coopbench"] = coopbench_envs.pymarl``.
    """
    return PyMARLEnv(of_user(env), **options)


class PyMARLEnv(Opposed, Closing):
    """One game with the methods of EPyMARL's ``MultiAgentEnv``.

    With ``style="pymarl"``, ``reset`` returns (observations, state) and ``step`` (reward,
    terminated, info), where an episode that is over by time alone is terminated, too, and
    ``info["episode_limit"]`` says so. The reward is that of the team, or, where agents have rewards
    of their own, their ``reward_scalarisation``, "sum" or "mean"; with ``common_reward=False`` a
    list with one for every agent. ``seed`` is that of the first episode; every later ``reset``
    begins the next one.
    """

    def __init__(
        self,
        env_id: str | EnvSpec,
        *,
        style: str = "epymarl",
        seed: int | None = None,
        common_reward: bool = True,
        reward_scalarisation: str = "sum",
        render_mode: str = "rgb_array",
        **parameters: Any,
    ) -> None:
        named("style", style, _STYLES)
        self._scalar = named("reward_scalarisation", reward_scalarisation, _SUMS)
        self.engine: Lanes = lanes_of(env_id, 1, **parameters)
        if not self.engine.discrete:
            raise ValueError(
                f"PyMARL has choices as actions, and {self.engine.spec.id} has vectors "
                f"({self.engine.action_spaces[0]}); allowed: environments with Discrete "
                f"actions, and all others with the parameter action_levels."
            )
        self._old, self._common = style == "pymarl", common_reward
        self._seed, self._render_mode = seed, check_render_mode(render_mode)
        self._begun = False
        self._finished: list[dict[str, float]] = []  # metrics of all episodes so far
        self.n_agents = len(self.engine.agents)
        self.episode_limit = self.engine.horizon

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode; return observations and info, in PyMARL's style observations and state.

        ``options={"state": {field: array}}`` starts from a given state.
        """
        if seed is None and not self._begun:
            seed = draw_seed(np.random.default_rng()) if self._seed is None else self._seed
        state = check_options(options)
        self.engine.reset(None if seed is None else seed_of(seed), state=state)
        self._begun = True
        return self.get_obs(), self.get_state() if self._old else {}

    def step(self, actions: Any) -> Any:
        """Play one step with one choice per agent.

        Returns (observations, reward, terminated, truncated, info), in PyMARL's style (reward,
        terminated, info). On the last step ``info`` has the metrics of the episode. Raises
        ``ResetNeeded`` before the first reset and after the end.
        """
        engine, control = self.engine, self.engine.control
        if not self._begun or control.done[0]:
            raise gym.error.ResetNeeded("No episode is running: call reset() before step().")
        choices = np.asanyarray(actions)
        if choices.size != self.n_agents:
            raise ValueError(
                f"Actions of {engine.spec.id} must be {self.n_agents} choices, one per agent; "
                f"given an array of shape {choices.shape}."
            )
        engine.step(choices.reshape(1, self.n_agents), DISABLED)
        ended, truncated = bool(control.ended[0]), bool(control.truncated[0])
        info: dict[str, Any] = {}
        if ended or truncated:
            info |= engine.metrics()
            self._finished.append(dict(info))
        if truncated:
            info["episode_limit"] = True
        if self._old:
            return self._reward(), ended or truncated, info
        return self.get_obs(), self._reward(), ended, truncated, info

    def _reward(self) -> Any:
        control = self.engine.control
        if not self._common:
            return control.rewards[0].tolist()
        if self.engine.spec.common_reward:
            return float(control.team[0])
        return float(self._scalar(control.rewards[0]))

    def get_obs(self) -> list[np.ndarray]:
        """Return the observations of all agents, float32 (features,) each."""
        return list(self.engine.control.obs[0].copy())

    def get_obs_agent(self, agent_id: int) -> np.ndarray:
        """Return the observation of the agent with this number."""
        return self.get_obs()[agent_id]

    def get_obs_size(self) -> int:
        """Return the number of features of an observation."""
        return int(self.engine.observation_spaces[0].shape[0])

    def get_state(self) -> np.ndarray:
        """Return the global state, float32 (size,)."""
        state: np.ndarray = self.engine.global_state()[0]
        return state

    def get_state_size(self) -> int:
        """Return the size of the global state."""
        return int(self.engine.state_space.shape[0])

    def get_avail_actions(self) -> list[list[int]]:
        """Return 1 for every legal choice of every agent, else 0."""
        masks: list[list[int]] = self.engine.control.masks[0].astype(int).tolist()
        return masks

    def get_avail_agent_actions(self, agent_id: int) -> list[int]:
        """Return the same of the agent with this number."""
        return self.get_avail_actions()[agent_id]

    def get_total_actions(self) -> int:
        """Return the number of choices, of the agent that has most."""
        return int(self.engine.control.masks.shape[2])

    def get_env_info(self) -> dict[str, Any]:
        """Return what learners size their networks by."""
        return {
            "state_shape": self.get_state_size(),
            "obs_shape": self.get_obs_size(),
            "n_actions": self.get_total_actions(),
            "n_agents": self.n_agents,
            "episode_limit": self.episode_limit,
        }

    def get_stats(self) -> dict[str, float]:
        """Return the means of all metrics over the episodes that have finished."""
        names: Sequence[str] = list(self._finished[0]) if self._finished else ()
        return {name: float(np.mean([row[name] for row in self._finished])) for name in names}

    def seed(self, seed: int | None = None) -> int | None:
        """Set the seed that the next ``reset`` begins with, if one is given; return it."""
        if seed is not None:
            self._seed, self._begun = seed, False
        return self._seed

    def render(self, mode: str | None = None) -> Any:
        """Return a picture ("rgb_array") or a text ("ansi") of the present state."""
        return rendered(self.engine, check_render_mode(mode) or self._render_mode)

    def save_replay(self) -> None:
        """Raise ``NotImplementedError``: episodes are recorded by ``coopbench replay``."""
        raise NotImplementedError(
            "Record episodes with coopbench.play_episode or 'coopbench replay'."
        )
