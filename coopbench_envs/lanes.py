"""Lanes: many episodes of one environment of any origin, advanced by one call.

``Engine`` plays environments of this project, as compiled code, and ``ForeignEngine`` those of
other packages, as Python objects. Matches, learners and interfaces know ``Lanes`` only.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from coopbench_envs.core import EnvSpec
from coopbench_envs.drivers import Control
from coopbench_envs.engine import Engine
from coopbench_envs.foreign.engine import ForeignEngine
from coopbench_envs.foreign.environment import foreign_spec
from coopbench_envs.foreign_names import is_foreign, name_of_function, permit
from coopbench_envs.layouts import Part
from coopbench_envs.memory import Finals
from coopbench_envs.registration import spec

__all__ = ["Lanes", "Readable", "Share", "lanes_of", "of_user"]

# Options of compiled environments, and their defaults.
_COMPILED = {"threads": 1, "order": None, "device": "cpu"}


class Readable(Protocol):
    """What can be read of lanes while they are played: an engine, or a share of one."""

    spec: EnvSpec
    lanes: int
    constants: Any
    agents: tuple[str, ...]
    horizon: int
    state: Any
    control: Control
    actions: np.ndarray


class Share:
    """Neighbouring lanes of an engine, to be read as if they were an engine of their own.

    Its arrays are views: they follow the engine.
    """

    def __init__(self, engine: Readable, lanes: slice) -> None:
        self.spec, self.constants = engine.spec, engine.constants
        self.agents, self.horizon = engine.agents, engine.horizon
        self.state = type(engine.state)(*(array[lanes] for array in engine.state))
        self.control = Control(*(array[lanes] for array in engine.control))
        self.actions = engine.actions[lanes]
        self.lanes = len(self.actions)


class Lanes(Protocol):
    """``lanes`` episodes side by side: lane i seeded s is the single environment seeded s.

    All arrays belong to the engine and are overwritten by the next call: copy what you keep.
    """

    spec: EnvSpec
    lanes: int
    device: str
    parameters: Any
    constants: Any
    agents: tuple[str, ...]
    layout: dict[str, Part]  # named parts of one agent's observation
    observation_spaces: list[Any]  # of every agent
    action_spaces: list[Any]
    discrete: bool  # actions are choices (lanes, agents), else vectors (lanes, agents, dim)
    falling: bool  # agents may be absent from an episode that goes on
    horizon: int  # steps after which an episode is truncated
    state: Any  # a NamedTuple of arrays, with the field ``time``
    control: Control
    actions: np.ndarray  # of the latest step
    finals: Finals  # kept by SAME_STEP of finished episodes, as is what they told last
    final_info: dict[str, np.ndarray]

    @property
    def state_space(self) -> gym.spaces.Box:
        """The space of the global state."""

    @property
    def first(self) -> Control:
        """The arrays of ``control`` of lane 0."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the arrays that ``get_state`` returns."""

    def reset(
        self,
        seeds: np.ndarray | None = None,
        *,
        chosen: np.ndarray | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin an episode in every ``chosen`` lane: of new seeds, or the next one."""

    def step(self, actions: Any, mode: int = ...) -> None:
        """Play one step; ``mode`` is what finished lanes do: NEXT_STEP, SAME_STEP or DISABLED."""

    def metrics(self, lane: int = 0, *, final: bool = False) -> dict[str, float]:
        """Return the metrics of the episode in ``lane`` so far, or of the one just ended."""

    def info(self) -> dict[str, np.ndarray]:
        """Return what agents are told besides their observations, (lanes, agents, ...)."""

    def present(self, *, final: bool = False) -> np.ndarray:
        """Return who takes part in the state that is shown, or in that of an episode's end."""

    def view(self) -> Any:
        """Return the state of all lanes, lane first: read-only arrays that follow the game."""

    def get_state(self) -> dict[str, np.ndarray]:
        """Return a copy of all that ``reset(state=...)`` needs to go on."""

    def lane_state(self, lane: int = 0) -> dict[str, np.ndarray]:
        """Return the same of one lane, without the lane axis."""

    def global_state(self) -> np.ndarray:
        """Return the global state of every lane, float32 (lanes, size)."""

    def action_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper bounds of actions, both float32 (agents, dim)."""

    def check(self) -> None:
        """Raise ``ValueError`` if a GPU has refused actions since the last check."""

    def fetched(self, *names: str) -> tuple[Control, Any]:
        """Return ``control`` and what SAME_STEP keeps, as numpy arrays."""

    def set_opponent(self, policy: Any) -> None:
        """Let a policy play against the agents."""

    def close(self) -> None:
        """Release threads and environments."""


def of_user(env: str | EnvSpec | Callable[..., Any], steps: int | None = None) -> str | EnvSpec:
    """Return what ``lanes_of`` takes for an environment that a user names or hands over.

    Its code may be executed from then on. ``steps`` is the longest that an episode of an
    environment of another package may take.
    """
    if isinstance(env, EnvSpec):
        if not is_foreign(env.id) and spec(env.id) != env:
            raise ValueError(
                f"This EnvSpec of {env.id} is not the one that is registered under its id, which "
                "would be played; register it under an id of its own."
            )
        return env if is_foreign(env.id) else env.id
    name = env if isinstance(env, str) else name_of_function(env)
    if not is_foreign(name):
        return spec(name).id
    permit(name)
    return foreign_spec(name, steps=steps)


def lanes_of(
    env: str | EnvSpec, lanes: int = 1, /, *, global_state: bool = False, **parameters: Any
) -> Engine | ForeignEngine:
    """Return the engine that plays an environment, for learners and interfaces.

    ``parameters`` are those of the environment, and for compiled ones the options of ``Engine``.
    Raises ``ValueError`` for options of ``Engine`` that another package's environment cannot have.
    """
    described = spec(env) if isinstance(env, str) else env
    if not is_foreign(described.id):
        return Engine(described.id, lanes, global_state=global_state, **parameters)
    for option, default in _COMPILED.items():
        if parameters.pop(option, default) != default:
            raise ValueError(
                f"{option} goes with compiled environments; {described.id} is Python objects that "
                f"are stepped in turn. Leave it out."
            )
    return ForeignEngine(described, lanes, vectors=True, global_state=global_state, **parameters)
