"""Agents by name: what both PettingZoo interfaces need of one game."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium.utils import seeding

from coopbench_envs.engine import DISABLED, Engine, checked_actions
from coopbench_envs.parameters import unknown
from coopbench_envs.shells.common import (
    RENDER_MODES,
    check_options,
    draw_seed,
    limited,
    on_cpu,
    seed_of,
)

__all__ = ["Roster"]

Info = dict[str, Any]


class Roster:
    """One game whose agents come and go by name.

    ``live`` lists the agents that act in the next step. After ``play``, ``rewards``,
    ``terminations``, ``truncations`` and ``infos`` describe the step for all agents that acted in
    it; they are new dictionaries at every step. ``begun`` tells whether there was a reset. See
    ``ParallelEnv`` for ``dead_agents`` and ``max_cycles``.
    """

    def __init__(
        self, env_id: str, dead_agents: str, max_cycles: int | None, parameters: dict[str, Any]
    ) -> None:
        if dead_agents not in ("remove", "keep"):
            raise ValueError(
                f"Parameter 'dead_agents' was {dead_agents!r}; allowed: 'remove', 'keep'."
            )
        self.engine = Engine(env_id, **on_cpu(limited(parameters, "max_cycles", max_cycles)))
        self.names = list(self.engine.agents)
        self.index = {agent: k for k, agent in enumerate(self.names)}
        self.live: list[str] = []
        self.rewards: dict[str, float] = {}
        self.terminations: dict[str, bool] = {}
        self.truncations: dict[str, bool] = {}
        self.infos: dict[str, Info] = {}
        self._keep = dead_agents == "keep"
        beside = self._keep or self.engine.discrete or self.engine.spec.info
        self._plain = not beside  # infos are empty until the end
        self._shape = self.engine.actions.shape[2:]
        self._joint = np.zeros_like(self.engine.actions)
        self._zeros = np.zeros(self._shape)  # times anything finite it is zero
        self.begun = False

    def metadata(self) -> dict[str, Any]:
        """Metadata as PettingZoo wants them."""
        return {
            "name": self.engine.spec.name,
            "render_modes": ["human", *RENDER_MODES],
            "render_fps": 10,
            "is_parallelizable": True,
        }

    def begin(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Begin an episode; seeds and ``options["state"]`` as in the Gymnasium environment."""
        if seed is None and not self.begun:
            seed = draw_seed(seeding.np_random()[0])
        state = check_options(options)
        self.engine.reset(None if seed is None else seed_of(seed), state=state)
        self.begun = True
        self._joint.fill(0)
        control = self.engine.control
        alive = control.alive[0] | self._keep
        if control.done[0]:  # a state may be that of the end of an episode
            alive[:] = False
        self.live = [agent for agent, acts in zip(self.names, alive, strict=True) if acts]
        self.infos = self._infos(self.live)

    def put(self, agent: str, action: Any) -> None:
        """Set what ``agent`` does in the next step; raises ``ValueError`` if it is no action."""
        array = checked_actions(self.engine, action, self._shape, agent)
        self._joint[0, self.index[agent]] = array

    def check_names(self, actions: Iterable[str]) -> None:
        """Raise ``ValueError`` if one of ``actions`` is that of no agent of the game."""
        for agent in actions:
            if agent not in self.index:
                raise ValueError(unknown("agent", agent, self.names, self.engine.spec.id))

    def check_finite(self, agent: str) -> None:
        """Raise ``ValueError`` if the action that was put for ``agent`` is not finite."""
        action = self._joint[0, self.index[agent]]
        if not self.engine.discrete and np.vdot(action, self._zeros) != 0.0:
            raise ValueError(
                f"The action of {agent!r} in {self.engine.spec.id} must be finite; given {action}."
            )

    def play(self) -> None:
        """Play the step that has been put together; agents that were not put do 0."""
        self.engine.step(self._joint, DISABLED)
        self._joint.fill(0)
        control, acted = self.engine.control, self.live
        earned = dict(zip(self.names, control.rewards[0].tolist(), strict=True))
        self.rewards = earned if len(acted) == len(earned) else {a: earned[a] for a in acted}
        over = bool(control.done[0])
        self.terminations = self._ended(acted, over)
        self.truncations = dict.fromkeys(acted, bool(control.truncated[0]))
        self.infos = self._infos(acted)
        if over:
            for info in self.infos.values():
                info["metrics"] = self.engine.metrics()
            self.live = []
        elif True in self.terminations.values():
            self.live = [a for a in acted if not self.terminations[a]]

    def _ended(self, acted: list[str], over: bool) -> dict[str, bool]:
        """Which of the agents that acted are terminated; kept agents end together."""
        if self._keep:
            return dict.fromkeys(acted, bool(self.engine.control.ended[0]))
        alive = self.engine.control.alive[0].tolist()
        if False not in alive:
            return dict.fromkeys(acted, False)
        return {a: not alive[self.index[a]] for a in acted}

    def observation(self, agent: str) -> np.ndarray:
        """Copy of what ``agent`` sees; zeros for a dead one that is kept."""
        control, index = self.engine.control, self.index[agent]
        observation: np.ndarray = control.obs[0, index].copy()
        if self._keep and not control.alive[0, index]:
            observation[...] = 0.0
        return observation

    def _infos(self, agents: list[str]) -> dict[str, Info]:
        if self._plain:
            return {agent: {} for agent in agents}
        beside = self.engine.info()
        return {agent: self._info(self.index[agent], beside) for agent in agents}

    def _info(self, index: int, beside: dict[str, np.ndarray]) -> Info:
        control = self.engine.control
        alive = bool(control.alive[0, index])
        info: Info = {"alive": alive} if self._keep else {}
        if self.engine.discrete:
            mask = control.masks[0, index].copy()
            if self._keep and not alive:
                mask[...] = 0
                mask[0] = 1
            info |= {"action_mask": mask, "invalid_actions": int(control.invalid[0, index])}
        for name, values in beside.items():
            part = values[0, index]
            info[name] = part.copy() if part.ndim else part.item()
        return info
