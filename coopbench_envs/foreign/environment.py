"""Environments of other packages as data: the ``EnvSpec`` that everything downstream reads."""

import json
import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from operator import attrgetter
from typing import Any, NamedTuple, NoReturn

import gymnasium as gym

from coopbench_envs.choices import LEVELS, choices_of
from coopbench_envs.core import EnvSpec, Kernels
from coopbench_envs.foreign.codec import Codec
from coopbench_envs.foreign.loading import make_world
from coopbench_envs.foreign.worlds import World
from coopbench_envs.foreign_names import (
    HOWS,
    IMPORTED,
    How,
    Keywords,
    check_permitted,
    function_of,
    parse_foreign,
)
from coopbench_envs.layouts import Part

__all__ = ["LONGEST", "Constants", "foreign_spec"]

LONGEST = 1000  # steps of an episode of an environment that does not say how long it may be


class Constants(NamedTuple):
    """What an environment says of itself once it has been made."""

    name: str
    horizon: int  # steps after which an episode is truncated
    stated: bool  # whether the environment itself says how long it may be
    agents: tuple[str, ...]
    codec: Codec
    hows: Mapping[str, How]  # metrics from ``info``


def foreign_spec(
    name: str, metrics: Mapping[str, How] | None = None, steps: int | None = None
) -> EnvSpec:
    """Describe the environment of a name; it is made when its constants are needed.

    ``metrics`` are taken from ``info`` in this way, and ``steps`` is the longest that an episode
    may take; None: what the environment says, or ``LONGEST``.
    """
    parse_foreign(name)
    return EnvSpec(
        id=name,
        module=f"{__name__}:{name}",
        kernels=Kernels(partial(_not_compiled, name), *[None] * 4),
        params=Keywords,
        constants=partial(_constants, name, metrics or {}, steps),
        agents=attrgetter("agents"),  # and no lambdas: engines are pickled with their EnvSpec
        observation_space=_observation_space,
        action_space=_action_space,
        layout=_layout,
        metrics=_measured(name, metrics or {}),
        source=f"an environment of another package, {name}",
    )


def _observation_space(constants: Constants, seat: int) -> Any:
    return constants.codec.observation_spaces[seat]


def _action_space(constants: Constants, seat: int) -> Any:
    return constants.codec.action_spaces[seat]


def _measured(name: str, metrics: Mapping[str, How]) -> dict[str, str]:
    """Return the metrics of an environment that takes these from ``info``, {name: meaning}."""
    if parse_foreign(name).kind == IMPORTED:
        return dict.fromkeys(("return", *metrics), "as the imported file has it")
    meanings = {
        name: f"{HOWS[how]} of {name!r} in info, mean over the agents that have it"
        for name, how in metrics.items()
    }
    return {"return": "sum over agents and steps of the rewards"} | meanings


def _layout(constants: Constants) -> dict[str, Part]:
    """Return the one part of observations that are stacked vectors; none of any others."""
    codec = constants.codec
    if not codec.stacked or not codec.observation_spaces[0].shape:
        return {}
    size = math.prod(codec.observation_spaces[0].shape)
    return {"observation": Part(0, size, codec.observation_spaces[0].shape)}


def _constants(
    name: str, metrics: Mapping[str, How], steps: int | None, parameters: Keywords
) -> Constants:
    check_permitted(name)
    keywords = parameters._asdict()
    levels = keywords.pop(LEVELS, None)
    agents, codec, limit = _made(name, repr(Keywords(name, keywords)), function_of(name))
    if levels is not None:
        choices = choices_of(name, levels, codec.action_spaces)
        codec = Codec(agents, codec.observation_spaces, codec.action_spaces, choices)
    longest = min(n for n in (steps, limit or (None if steps else LONGEST)) if n is not None)
    return Constants(name, longest, limit is not None, agents, codec, metrics)


@cache
def _made(
    name: str, keywords: str, function: Callable[..., Any] | None
) -> tuple[tuple[str, ...], Codec, int | None]:
    """Return what an environment says once it is made; it is made once for this.

    ``function`` is what makes it if that is one of this process: another one may get its name.
    """
    world = make_world(name, json.loads(keywords))
    try:
        codec = _codec(name, world)
        return world.agents, codec, world.limit
    finally:
        world.close()


def _is_of_numbers(space: gym.Space[Any]) -> bool:
    """Whether every value of a space is the same count of numbers."""
    if isinstance(space, gym.spaces.Dict):
        return all(map(_is_of_numbers, space.spaces.values()))
    if isinstance(space, gym.spaces.Tuple):
        return all(map(_is_of_numbers, space.spaces))
    kinds = gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiBinary, gym.spaces.MultiDiscrete
    return isinstance(space, kinds)


def _codec(name: str, world: World) -> Codec:
    """Return the codec of an environment; ``ValueError`` for actions that no array can hold."""
    for agent, space in zip(world.agents, world.action_spaces, strict=True):
        if not _is_of_numbers(space):
            raise ValueError(
                f"The actions of {agent!r} in {name}, {space}, are no fixed count of numbers, so "
                f"that they cannot be stored. Allowed: Box, Discrete, MultiBinary, MultiDiscrete, "
                f"and Dict and Tuple of them; wrap the environment."
            )
    return Codec(world.agents, world.observation_spaces, world.action_spaces)


def _not_compiled(name: str, constants: Constants, lanes: int) -> NoReturn:
    raise ValueError(
        f"{name} is an environment of another package, which is not compiled; allowed: evaluate, "
        f"train, coopbench_envs.make_vec, coopbench_envs.sb3_vec_env."
    )
