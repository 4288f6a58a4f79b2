"""PettingZoo's Parallel interface: all agents act at once."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pettingzoo import ParallelEnv as PettingZooParallelEnv
from pettingzoo.utils.env_logger import EnvLogger

from coopbench_envs.shells.named_agents import NamedAgents

__all__ = ["ParallelEnv"]


class ParallelEnv(NamedAgents, PettingZooParallelEnv[str, np.ndarray, Any]):
    """One game in which every agent acts at every step.

    ``dead_agents="remove"`` (PettingZoo's rule): an agent that is done, or falls while the episode
    goes on, is reported as terminated once and leaves ``agents``. ``"keep"``: all agents stay until
    the joint end, dead ones with zero observations, an empty action mask but for its first entry,
    and ``info["alive"]`` False. ``info["metrics"]`` comes with the last step. ``max_cycles`` is
    PettingZoo's word for ``horizon``.
    """

    def _set_up(self) -> None:
        self.agents: list[str] = []

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        """Begin an episode; seeds and ``options["state"]`` as in the Gymnasium environment."""
        self._roster.begin(seed, options)
        self.agents = self._roster.live.copy()
        return self._roster.observations(self.agents), self._roster.infos

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[
        dict[str, np.ndarray],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Play one step with the actions of all agents that are alive.

        Those of agents that are not alive have no effect; names of no agent raise ``ValueError``.
        When the episode is over, ``step({})`` returns empty dictionaries, as in PettingZoo.
        """
        roster = self._roster
        if not roster.begun:
            EnvLogger.error_step_before_reset()
        if not (self.agents or actions):  # wrappers of several environments do so
            return {}, {}, {}, {}, {}
        if not self.agents:
            raise RuntimeError("The episode is over: call reset() before the next step().")
        if not (type(actions) is dict or isinstance(actions, Mapping)):  # which takes longer
            raise ValueError(
                f"Actions must be a mapping from names of agents; given {type(actions).__name__}."
            )
        roster.put_all(actions)
        if len(actions) > len(roster.live):
            roster.check_names(actions)
        acted = roster.live
        roster.play()
        self.agents = roster.live.copy()
        return (
            roster.observations(acted),
            roster.rewards,
            roster.terminations,
            roster.truncations,
            roster.infos,
        )
