"""Gymnasium: one environment, under joint control of all agents or focal control of one."""

from typing import Any

import gymnasium as gym
import numpy as np

from coopbench_envs.engine import DISABLED, Engine
from coopbench_envs.shells.common import (
    RENDER_MODES,
    Closing,
    check_has_choices,
    check_options,
    check_render_mode,
    draw_seed,
    on_cpu,
    rendered,
    seed_of,
)
from coopbench_envs.shells.facts import Facts
from coopbench_envs.shells.seats import Seated, Seats

__all__ = ["GymnasiumEnv"]


class GymnasiumEnv(Seated, Closing, gym.Env):
    """One game as an ordinary Gymnasium environment.

    Joint control (default): the action is (agents, dim) or MultiDiscrete, the observation
    (agents, features), the reward the sum over agents. Focal control: one learner ``ego`` with a
    ``partner`` policy by name, with that agent's own spaces and reward. ``info["rewards"]`` holds
    every agent's reward (float64, a fresh copy) at every step, ``info["metrics"]`` the episode's
    metrics on the last one; discrete environments add ``action_mask`` and ``invalid_actions``,
    those whose agents may fall ``alive``, (agents,) bool, and ``global_state=True`` adds ``state``.
    What else the environment tells its agents comes by name, (agents, ...) under joint control and
    the ego's under focal control. A common reward counts once. An episode terminates when all
    agents are done, also under focal control.
    """

    # gymnasium.make looks here before there is an environment
    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 10}
    engine: Engine

    def __init__(
        self,
        env_id: str,
        render_mode: str | None = None,
        *,
        control: str = "joint",
        ego: int = 0,
        partner: Any = "random",
        **parameters: Any,
    ) -> None:
        self.render_mode = check_render_mode(render_mode, "human")
        self.engine = Engine(env_id, **on_cpu(parameters))
        self.seats = Seats(self.engine, control, ego, partner)
        self.observation_space, self.action_space = self.seats.spaces()
        self._facts = Facts(self.engine, ego=self.seats.ego)
        self._bare = not self._facts  # info has nothing but rewards and metrics
        self._shape = self.action_space.shape
        self._seeded = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode.

        With ``seed``: the first episode of that seed. Without: the next one (of a seed drawn from
        the operating system if there never was one). ``options={"state": {field: array}}`` starts
        from a given state.
        """
        seeds = None if seed is None else seed_of(seed)
        super().reset(seed=None if seeds is None else int(seeds[0]))
        if seeds is None and not self._seeded:
            seeds = seed_of(draw_seed(self.np_random))
        state = check_options(options)
        self.engine.reset(seeds, state=state)
        self._seeded = True
        self.seats.restart()
        return self.seats.seen(), self._info()

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Play one step.

        Raises ``ResetNeeded`` after the end of the episode, and ``ValueError`` for an action that
        is not finite or not of the shape of ``action_space``.
        """
        game = self.engine.single
        if game.done():
            raise gym.error.ResetNeeded("The episode is over: call reset() before the next step().")
        joint = self.seats.ego is None
        if not (joint and game.play(action, DISABLED)):
            self._play(action)
        info = {} if self._bare else self._info()
        info["rewards"] = game.rewards()
        ended = truncated = False
        if game.done():
            info["metrics"] = self.engine.metrics()
            ended, truncated = game.ended(), game.truncated()
        if joint:
            return game.obs(), game.team(), ended, truncated, info
        return self.seats.seen(), self.seats.earned(), ended, truncated, info

    def _play(self, action: Any) -> None:
        """Play a step with an action that is no usual one, or with a partner."""
        array = np.asanyarray(action)  # a mask stays one, which is refused
        if array.shape != self._shape:
            raise ValueError(
                f"An action of {self.engine.spec.id} must have shape {self._shape}, that of "
                f"action_space; given {array.shape}."
            )
        self.engine.step(self.seats.complete(array[None]), DISABLED)

    def _info(self) -> dict[str, Any]:
        return {name: values.copy() for name, values in self._facts.single().items()}

    def action_masks(self) -> np.ndarray:
        """Return legal choices as sb3-contrib's MaskablePPO reads them, bool.

        Under joint control those of all agents one after the other, under focal control the ego's.
        Raises ``ValueError`` for an environment whose actions are no choices.
        """
        engine = self.engine
        check_has_choices(engine)
        seats = range(len(engine.agents)) if self.seats.ego is None else [self.seats.ego]
        masks = engine.first.masks
        legal = [masks[seat, : engine.action_spaces[seat].n] for seat in seats]
        return np.concatenate(legal).astype(np.bool_)

    def get_state(self) -> dict[str, np.ndarray]:
        """Copy of everything the game goes on from; ``reset(options={"state": ...})`` takes it."""
        return self.engine.lane_state()

    def state(self) -> np.ndarray:
        """Global state as one float32 vector."""
        vector: np.ndarray = self.engine.global_state()[0]
        return vector

    def render(self) -> Any:
        """Picture (uint8, height x width x 3) or text of the present state."""
        return rendered(self.engine, self.render_mode)
