"""PettingZoo's Parallel interface: all agents act at once."""

from typing import Any

import numpy as np
from pettingzoo import ParallelEnv as PettingZooParallelEnv

from coopbench_envs.shells.common import rendered
from coopbench_envs.shells.roster import Roster

__all__ = ["ParallelEnv"]


class ParallelEnv(PettingZooParallelEnv[str, np.ndarray, Any]):
    """One game in which every agent acts at every step.

    ``dead_agents="remove"`` (PettingZoo's rule): an agent that is done, or falls while the episode
    goes on, is reported as terminated once and leaves ``agents``. ``"keep"``: all agents stay until
    the joint end, dead ones with zero observations, an empty action mask but for its first entry,
    and ``info["alive"]`` False. ``info["metrics"]`` comes with the last step. ``max_cycles`` is
    PettingZoo's word for ``horizon``.
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
        self._roster = Roster(env_id, dead_agents, max_cycles, parameters)
        self.engine = engine = self._roster.engine
        self.metadata = self._roster.metadata()
        self.render_mode = render_mode
        self.possible_agents = list(engine.agents)
        self.agents: list[str] = []
        names = self.possible_agents
        self.observation_spaces = dict(zip(names, engine.observation_spaces, strict=True))
        self.action_spaces = dict(zip(names, engine.action_spaces, strict=True))
        self.state_space = engine.state_space

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
        self._roster.begin(seed, options)
        self.agents = self._roster.live.copy()
        return {a: self._roster.observation(a) for a in self.agents}, self._roster.infos

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[
        dict[str, np.ndarray],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Play one step with the actions of all agents that are alive."""
        if not self.agents:
            raise RuntimeError("The episode is over: call reset() before the next step().")
        roster = self._roster
        for agent in roster.live:
            if agent not in actions:
                raise ValueError(f"No action for {agent!r}; given for {', '.join(actions)}.")
            roster.put(agent, actions[agent])
        acted = roster.live
        roster.play()
        self.agents = roster.live.copy()
        observations = {agent: roster.observation(agent) for agent in acted}
        return (
            observations,
            roster.rewards,
            roster.terminations,
            roster.truncations,
            roster.infos,
        )

    def get_state(self) -> dict[str, np.ndarray]:
        """Copy of everything the game goes on from; ``reset(options={"state": ...})`` takes it."""
        return self.engine.lane_state()

    def state(self) -> np.ndarray:
        """Global state as one float32 vector."""
        vector: np.ndarray = self.engine.global_state()[0]
        return vector

    def render(self) -> Any:
        """Picture, text, or (``human``) print the text of the present state."""
        return rendered(self.engine, self.render_mode)

    def close(self) -> None:
        """Nothing to release."""
