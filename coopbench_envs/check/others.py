"""Others: faults of environments of other packages, which are Python objects."""

from collections.abc import Iterator
from typing import Any

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
from coopbench_envs.foreign.worlds import digest_of

__all__ = ["foreign_faults"]


def foreign_faults(name: str, parameters: dict[str, Any]) -> Iterator[Fault]:
    """Play three episodes with random actions, the first seed twice."""
    try:
        engine = ForeignEngine(foreign_spec(name), 1, **parameters)
        codec = engine.codec
        engine.reset(np.zeros(1, np.uint64))
        states = streams(np.zeros((1, 1), np.uint64), np.arange(len(engine.agents))[None, :])
        yield from _in_spaces(engine, name)
        while not engine.control.done.all():
            masks: np.ndarray = engine.control.masks.astype(np.bool_)
            legal = np.asarray(masks.any(axis=2))
            if codec.form == CHOICES and (engine.control.alive & ~legal).any():
                yield Fault(name, "an action_mask leaves no legal choice; leave at least one.")
                return
            actions = codec.sampled(states, masks)
            engine.step(codec.encoded(actions, 1, "random"), DISABLED)
            if found := list(_in_spaces(engine, name)):
                yield from found
                break
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
    if digests[0] != digests[2]:
        yield Fault(name, "reset(seed=0) after another episode begins otherwise; reset all state.")
    world.close()
    engine.close()


def _in_spaces(engine: ForeignEngine, name: str) -> Iterator[Fault]:
    """Yield observations that are not in the space of their agent."""
    for seat, agent in enumerate(engine.agents):
        space = engine.codec.observation_spaces[seat]
        if engine.codec.stacked:
            seen = engine.control.obs[0, seat] if engine.control.alive[0, seat] else None
        else:
            seen = engine.control.obs[0].get(agent)
        if seen is not None and not space.contains(seen):
            yield Fault(
                name,
                f"{agent!r} observes {seen!r} in step {engine.state.time[0]}, which is not in "
                f"{space}; correct the space, or the value and its type.",
            )
            return
