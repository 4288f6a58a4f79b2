"""PettingZoo: the Parallel environment is native; AEC is PettingZoo's own conversion of it."""

from typing import Any

import numpy as np
from gymnasium.utils import seeding
from pettingzoo import ParallelEnv as PettingZooParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec_wrapper
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from coopbench_envs.engine import DISABLED, Engine
from coopbench_envs.shells.common import RENDER_MODES, check_options, draw_seed, rendered, seed_of

__all__ = ["ParallelEnv", "aec_env"]


class ParallelEnv(PettingZooParallelEnv):
    """One game in which every agent acts at every step.

    ``dead_agents="remove"`` (PettingZoo's rule): an agent that is done is reported once and leaves
    ``agents``. ``"keep"``: all agents stay until the joint end, dead ones with zero observations,
    an empty action mask but for its first entry, and ``info["alive"]`` False. ``info["metrics"]``
    comes with the last step. ``max_cycles`` is PettingZoo's word for ``horizon``.
    """

    def __init__(
        self,
        env_id: str,
        render_mode: str | None = None,
        *,
        dead_agents: str = "remove",
        max_cycles: int | None = None,
        **parameters: Any,
    ) -> None:
        if dead_agents not in ("remove", "keep"):
            raise ValueError(
                f"Parameter 'dead_agents' was {dead_agents!r}; allowed: 'remove', 'keep'."
            )
        if max_cycles is not None:
            parameters["horizon"] = max_cycles
        self.engine = Engine(env_id, **parameters)
        self.metadata = {
            "name": self.engine.spec.name,
            "render_modes": ["human", *RENDER_MODES],
            "render_fps": 10,
            "is_parallelizable": True,
        }
        self.render_mode = render_mode
        self._keep = dead_agents == "keep"
        self.possible_agents = list(self.engine.agents)
        self.agents: list[str] = []
        self._index = {agent: k for k, agent in enumerate(self.possible_agents)}
        self.observation_spaces = dict(
            zip(self.possible_agents, self.engine.observation_spaces, strict=True)
        )
        self.action_spaces = dict(zip(self.possible_agents, self.engine.action_spaces, strict=True))
        self.state_space = self.engine.state_space
        self._shape = self.engine.actions.shape[2:]
        self._seeded = False

    def observation_space(self, agent: str) -> Any:
        """Space of one agent's observations; always the same object."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """Space of one agent's actions; always the same object."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        """Begin an episode; seeds and ``options["state"]`` as in the Gymnasium environment."""
        if seed is None and not self._seeded:
            seed = draw_seed(seeding.np_random()[0])
        state = check_options(options)
        self.engine.reset(None if seed is None else seed_of(seed), state=state)
        self._seeded = True
        alive = self.engine.control.alive[0]
        self.agents = [a for k, a in enumerate(self.possible_agents) if self._keep or alive[k]]
        return self._observations(), {agent: self._info(agent) for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        """Play one step with the actions of all agents that are alive."""
        if not self.agents:
            raise RuntimeError("The episode is over: call reset() before the next step().")
        self.engine.step(self._joint(actions), DISABLED)
        control, live = self.engine.control, self.agents
        over = bool(control.done[0])
        rewards = {a: float(control.rewards[0, self._index[a]]) for a in live}
        ended = {a: bool(control.terminated[0, self._index[a]]) for a in live}
        if self._keep:
            ended = dict.fromkeys(live, over and all(ended.values()))
        truncations = {a: bool(control.truncated[0]) for a in live}
        infos = {agent: self._info(agent) for agent in live}
        if over:
            for info in infos.values():
                info["metrics"] = self.engine.metrics()
        observations = self._observations()
        self.agents = [a for a in live if not (ended[a] or truncations[a])]
        return observations, rewards, ended, truncations, infos

    def _joint(self, actions: dict[str, Any]) -> np.ndarray:
        joint = np.zeros_like(self.engine.actions)
        for agent in self.agents:
            if agent not in actions:
                raise ValueError(f"No action for {agent!r}; given for {', '.join(actions)}.")
            action = np.asarray(actions[agent])
            if action.shape != self._shape:
                raise ValueError(
                    f"The action of {agent!r} in {self.engine.spec.id} must have shape "
                    f"{self._shape}; given {action.shape}."
                )
            joint[0, self._index[agent]] = action
        return joint

    def _observations(self) -> dict[str, np.ndarray]:
        control = self.engine.control
        seen = {a: control.obs[0, self._index[a]].copy() for a in self.agents}
        if self._keep:
            for agent, observation in seen.items():
                if not control.alive[0, self._index[agent]]:
                    observation[...] = 0.0
        return seen

    def _info(self, agent: str) -> dict[str, Any]:
        control, index = self.engine.control, self._index[agent]
        info: dict[str, Any] = {}
        if self._keep:
            info["alive"] = bool(control.alive[0, index])
        if self.engine.discrete:
            mask = control.masks[0, index].copy()
            if self._keep and not control.alive[0, index]:
                mask[...] = 0
                mask[0] = 1
            info |= {"action_mask": mask, "invalid_actions": int(control.invalid[0, index])}
        return info

    def get_state(self) -> dict[str, np.ndarray]:
        """Copy of everything the game goes on from; ``reset(options={"state": ...})`` takes it."""
        return self.engine.lane_state()

    def state(self) -> np.ndarray:
        """Global state as one float32 vector."""
        return self.engine.global_state()[0]

    def render(self) -> Any:
        """Picture, text, or (``human``) print the text of the present state."""
        return rendered(self.engine, self.render_mode)

    def close(self) -> None:
        """Nothing to release."""


class AECEnv(parallel_to_aec_wrapper):
    """PettingZoo's own conversion of the Parallel environment, which also tells its state."""

    def get_state(self) -> dict[str, np.ndarray]:
        """Copy of the state after the last full round; actions of the present one are not in it."""
        return self.env.get_state()


def aec_env(env_id: str, **kwargs: Any) -> Any:
    """Make the environment in PettingZoo's agent-environment-cycle form."""
    return OrderEnforcingWrapper(AECEnv(ParallelEnv(env_id, **kwargs)))
