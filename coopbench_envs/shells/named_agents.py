"""What both PettingZoo interfaces have in common: the constructor, spaces, state and rendering."""

from typing import Any

import gymnasium as gym
import numpy as np

from coopbench_envs.parameters import named
from coopbench_envs.shells.common import Closing, check_render_mode, rendered
from coopbench_envs.shells.roster import Roster
from coopbench_envs.shells.seats import Opposed

__all__ = ["NamedAgents"]

_LISTED = 6  # agents that are named where an environment is printed


class NamedAgents(Opposed, Closing):
    """One game whose agents have names; a base class of both PettingZoo interfaces.

    See ``ParallelEnv`` for the parameters.
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
        self.render_mode = check_render_mode(render_mode, "human")
        self.possible_agents = names = list(engine.agents)
        self.observation_spaces = dict(zip(names, engine.observation_spaces, strict=True))
        self.action_spaces = dict(zip(names, engine.action_spaces, strict=True))
        self.state_space = engine.state_space
        self._set_up()

    def _set_up(self) -> None:
        """Set the attributes that an interface has in addition before its first ``reset``."""

    def __repr__(self) -> str:
        names = self.possible_agents
        listed = names if len(names) <= _LISTED else [*names[: _LISTED - 1], "..."]
        who = f"{len(names)} agent{'s' if len(names) > 1 else ''}: {', '.join(listed)}"
        return f"<{type(self).__name__} {self.engine.spec.id}, {who}>"

    def observation_space(self, agent: str) -> gym.Space[Any]:
        """Return the space of an agent's observations, the same object at every call."""
        space: gym.Space[Any] = named("agent", agent, self.observation_spaces)
        return space

    def action_space(self, agent: str) -> gym.Space[Any]:
        """Return the space of an agent's actions, the same object at every call."""
        space: gym.Space[Any] = named("agent", agent, self.action_spaces)
        return space

    def get_state(self) -> dict[str, np.ndarray]:
        """Return a copy of the fields of the state, for ``reset(options={"state": ...})``.

        In the AEC interface this is the state after the last complete round: actions of the present
        round are not in it.
        """
        return self.engine.lane_state()

    def state(self) -> np.ndarray:
        """Return the global state as one float32 vector."""
        vector: np.ndarray = self.engine.global_state()[0]
        return vector

    def render(self) -> Any:
        """Return a picture or a text of the present state, or print the text (``human``)."""
        return rendered(self.engine, self.render_mode)
