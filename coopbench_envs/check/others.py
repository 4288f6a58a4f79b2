"""Others: faults of environments of other packages, which are Python objects."""

from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from coopbench_envs.check.faults import Fault
from coopbench_envs.choices import without_levels
from coopbench_envs.core import streams
from coopbench_envs.engine import DISABLED
from coopbench_envs.foreign.codec import CHOICES
from coopbench_envs.foreign.engine import ForeignEngine
from coopbench_envs.foreign.environment import foreign_spec
from coopbench_envs.foreign.loading import make_world
from coopbench_envs.foreign.seeds import reset_seed
from coopbench_envs.foreign.worlds import PARTS, digest_of

__all__ = ["foreign_faults"]


def foreign_faults(name: str, parameters: dict[str, Any]) -> Iterator[Fault]:
    """Play an episode with random actions, and the same again after itself and after a reset."""
    try:
        engine = ForeignEngine(foreign_spec(name), 1, **parameters)
        codec = engine.codec
        engine.reset(np.zeros(1, np.uint64))
        states = streams(np.zeros((1, 1), np.uint64), np.arange(len(engine.agents))[None, :])
        found = [*_named(engine, name, engine.control.alive[0]), *_in_spaces(engine, name)]
        while not (found or engine.control.done.all()):
            masks: np.ndarray = engine.control.masks.astype(np.bool_)
            legal = np.asarray(masks.any(axis=2))
            if codec.form == CHOICES and (engine.control.alive & ~legal).any():
                yield Fault(name, "an action_mask leaves no legal choice; leave at least one.")
                return
            actions, acted = codec.sampled(states, masks), engine.control.alive[0].copy()
            engine.step(codec.encoded(actions, 1, "random"), DISABLED)
            found = [*_named(engine, name, acted), *_in_spaces(engine, name)]
        yield from found
    except ValueError as error:
        yield Fault(name, str(error))
        return
    if not engine.constants.stated and engine.state.time[0] >= engine.horizon:
        yield Fault(
            name,
            f"an episode has no end within {engine.horizon} steps, and the environment does not say"
            f" how long it may be; set max_episode_steps or max_cycles, or 'steps' of a task.",
        )
    if not engine.repeats():
        yield Fault(
            name,
            "a seed does not determine an episode; draw all random numbers from a generator that "
            "reset(seed=...) makes, for instance self.np_random of Gymnasium.",
        )
        return
    world = make_world(name, without_levels(parameters))
    digests = [digest_of(world.reset(reset_seed(seed, 0))) for seed in (0, 1, 0)]
    world.close()
    if digests[0] != digests[2] or not engine.repeats(times=2):
        yield Fault(
            name,
            "an episode differs after another one; reset(seed=...) must reset all state.",
        )
    engine.close()


def _named(engine: ForeignEngine, name: str, acted: np.ndarray) -> Iterator[Fault]:
    """Yield names that are no agents, and what agents that ``acted`` (agents,) are not told."""
    turn, who = engine.turn(0), ", ".join(engine.agents)
    begins = engine.state.time[0] == 0
    for said, kind in zip(turn.said, PARTS, strict=False):
        for other in set(said) - set(engine.agents):
            yield Fault(name, f"{kind} are given to {other!r}, which is no agent; agents: {who}.")
            return
        due = engine.control.alive[0] if kind == "observations" else acted & (not begins)
        for seat in np.flatnonzero(due):
            if engine.agents[seat] not in said:
                text = f"{engine.agents[seat]!r} has no {kind} in step {engine.state.time[0]}"
                yield Fault(name, f"{text}; give every agent that takes part its own.")
                return


def _in_spaces(engine: ForeignEngine, name: str) -> Iterator[Fault]:
    """Yield observations that are not in the space of their agent, as they were told."""
    turn = engine.turn(0)
    for seat, agent in enumerate(engine.agents):
        space, seen = engine.codec.observation_spaces[seat], turn.observations[seat]
        if seen is None or not engine.control.alive[0, seat]:
            continue
        if not space.contains(_of_type(space, seen)):
            yield Fault(
                name,
                f"{agent!r} observes {seen!r} in step {engine.state.time[0]}, which is not in "
                f"{space}; correct the space, or the value and its type.",
            )
            return


def _of_type(space: gym.Space[Any], seen: Any) -> Any:
    """Return an observation of Boxes in their types, if nothing but rounding of floats is lost."""
    if isinstance(space, gym.spaces.Dict) and isinstance(seen, Mapping):
        return {k: _of_type(space[k], v) if k in space.spaces else v for k, v in seen.items()}
    if isinstance(space, gym.spaces.Tuple) and isinstance(seen, tuple | list):
        fits = len(seen) == len(space.spaces)
        return tuple(map(_of_type, space.spaces, seen)) if fits else seen
    if not isinstance(space, gym.spaces.Box):
        return seen
    with np.errstate(invalid="ignore", over="ignore"):
        exact = np.asarray(seen)
        cast = exact.astype(space.dtype) if exact.dtype.kind in "biuf" else exact
    floats = cast.dtype.kind == "f"
    return cast if floats or np.array_equal(cast, exact) else exact
