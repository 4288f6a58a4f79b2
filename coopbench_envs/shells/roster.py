"""Agents by name: what both PettingZoo interfaces need of one game."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
from gymnasium.utils import seeding

from coopbench_envs.direct import SAMPLED
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
from coopbench_envs.shells.facts import OF_AGENTS, Facts, handed_out

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
        self._nobody: dict[str, bool] = {}  # which of them is done, after most steps
        self._seats: dict[str, int] = {}  # their numbers
        self.rewards: dict[str, float] = {}
        self.terminations: dict[str, bool] = {}
        self.truncations: dict[str, bool] = {}
        self.infos: dict[str, Info] = {}
        self._keep = dead_agents == "keep"
        self._present = [False] * len(self.names)  # who sees the state, where the dead are kept
        self._facts = Facts(self.engine, OF_AGENTS)
        self._plain = not (self._keep or self._facts)  # infos are empty until the end
        self._shape = self.engine.actions.shape[2:]
        self._sampled = SAMPLED[self.engine.discrete]
        self._joint = np.zeros_like(self.engine.actions[0])
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
        self._present = self.engine.present()[0].tolist()
        self._admit([agent for agent, acts in zip(self.names, alive, strict=True) if acts])
        self.infos = self._infos()

    @cached_property
    def _rows(self) -> dict[str, np.ndarray]:
        """Views of what each agent does in the next step."""
        return {agent: self._joint[k, ...] for k, agent in enumerate(self.names)}

    @cached_property
    def _views(self) -> dict[str, Callable[[], np.ndarray]]:
        """Functions that return a copy of what each agent sees."""
        return dict(zip(self.names, self.engine.single.views, strict=True))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out views, which would become arrays of their own."""
        return {k: value for k, value in self.__dict__.items() if k not in ("_rows", "_views")}

    def put(self, agent: str, action: Any) -> None:
        """Set what ``agent`` does in the next step; raises ``ValueError`` if it is no action."""
        kind = type(action)
        if kind is np.ndarray:  # what spaces sample is known in less time than others take
            usual = action.dtype is self._sampled and action.shape == self._shape
        else:
            usual = kind is np.int64 and self.engine.discrete
        if not usual:
            action = checked_actions(self.engine, action, self._shape, agent)
        self._rows[agent][...] = action

    def put_all(self, actions: Mapping[str, Any]) -> None:
        """Set what all do who act in the next step; raises ``ValueError`` if an action is missing.

        Like ``put`` it raises ``ValueError`` for what is no action.
        """
        put = self.put
        for agent in self.live:
            if agent not in actions:
                names = ", ".join(map(str, actions)) or "none"
                raise ValueError(f"No action for {agent!r}; given for {names}.")
            put(agent, actions[agent])

    def _admit(self, agents: list[str]) -> None:
        """Let these agents, and no others, act in the next step."""
        self.live, self._nobody = agents, dict.fromkeys(agents, False)
        self._seats = {agent: self.index[agent] for agent in agents}

    def check_names(self, actions: Iterable[str]) -> None:
        """Raise ``ValueError`` if one of ``actions`` is that of no agent of the game."""
        for agent in actions:
            if agent not in self.index:
                raise ValueError(unknown("agent", agent, self.names, self.engine.spec.id))

    def check_finite(self, agent: str) -> None:
        """Raise ``ValueError`` if the action that was put for ``agent`` is not finite."""
        action = self._rows[agent]
        if not (self.engine.discrete or all(map(isfinite, action.tolist()))):
            raise ValueError(
                f"The action of {agent!r} in {self.engine.spec.id} must be finite; given {action}."
            )

    def play(self) -> None:
        """Play the step that has been put together; agents that were not put do 0."""
        game, acted = self.engine.single, self.live
        if not game.play(self._joint, DISABLED):
            self.engine.step(self._joint[None], DISABLED)
        paid = game.paid()
        self.rewards = {agent: paid[seat] for agent, seat in self._seats.items()}
        done, alive = game.done(), game.alive()
        late = done and game.truncated()
        some_left = not self._keep and False in alive
        if done and self._keep and game.ended():  # together
            self.terminations = dict.fromkeys(acted, True)
        elif some_left:
            self.terminations = {a: not alive[seat] for a, seat in self._seats.items()}
        else:
            self.terminations = self._nobody.copy()
        self.truncations = dict.fromkeys(acted, True) if late else self._nobody.copy()
        if self._keep:
            self._look_around(done and game.ended())
        self.infos = self._infos()
        if done:
            for info in self.infos.values():
                info["metrics"] = self.engine.metrics()
            self.live = []
        elif some_left:
            self._admit([a for a in acted if not self.terminations[a]])
            self._joint.fill(0)  # what those did who have left

    def observations(self, agents: list[str]) -> dict[str, np.ndarray]:
        """Return copies of what these agents see, by name."""
        if self._keep:
            return {agent: self.observation(agent) for agent in agents}
        views = self._views
        if len(agents) == len(views):
            return {agent: copy() for agent, copy in views.items()}
        return {agent: views[agent]() for agent in agents}

    def observation(self, agent: str) -> np.ndarray:
        """Copy of what ``agent`` sees; zeros for a dead one that is kept."""
        observation = self._views[agent]()
        if self._keep and not self._present[self.index[agent]]:
            observation[...] = 0.0
        return observation

    def _infos(self) -> dict[str, Info]:
        """Return what those are told who act, or have just acted."""
        if self._plain:
            return {agent: {} for agent in self._seats}
        infos = handed_out(self._facts.single(), list(self._seats.values()))
        if self._keep:
            self._tell_who_lives(infos)
        return dict(zip(self._seats, infos, strict=True))

    def _look_around(self, together: bool) -> None:
        """Note who sees the state after a step, which may have ended the game for all together.

        Then that are all who were left; without a kernel ``present`` all who took part in the step.
        """
        if not together:
            self._present = self.engine.single.alive()
        elif self.engine.falling:
            self._present = self.engine.present()[0].tolist()

    def _tell_who_lives(self, infos: list[Info]) -> None:
        """Add to every agent's info whether it lives; the dead have their first choice left."""
        for info, seat in zip(infos, self._seats.values(), strict=True):
            info["alive"] = self._present[seat]
            if not self._present[seat] and "action_mask" in info:
                info["action_mask"][...] = 0
                info["action_mask"][0] = 1
