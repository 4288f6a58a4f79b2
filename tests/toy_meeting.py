"""Meeting: a discrete toy for the tests of learners; two who choose the same place earn its worth.

There are three places, worth 0.2, 0.6 and 1. Who goes to different places earns nothing.
"""

from typing import Annotated, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete

from coopbench_envs.core import EnvSpec, Kernels, kernel
from coopbench_envs.layouts import consecutive
from coopbench_envs.parameters import between
from coopbench_envs.scenes import Grid
from coopbench_envs.states import array, state

PLACES = 3


class Params(NamedTuple):
    num_agents: Annotated[int, between(2, 2, "walkers")] = 2
    horizon: Annotated[int, between(1, 100, "steps")] = 4


State = state(
    __name__, places=array("last choices, -1 before any", "num_agents", dtype=np.int64, start=-1)
)


@kernel
def step(p, s, i, rng, actions, rewards, terminated):
    met = actions[i, 0] == actions[i, 1] and actions[i, 0] >= 0
    for a in range(p.num_agents):
        s.places[i, a] = actions[i, a]
        rewards[i, a] = 0.2 + 0.4 * actions[i, a] if met else 0.0
        terminated[i, a] = False


@kernel
def observe(p, s, i, obs):
    for a in range(p.num_agents):
        for b in range(p.num_agents):
            obs[i, a, b] = s.places[i, (a + b) % p.num_agents]


@kernel
def measure(p, s, i, measures):
    measures[i, 0] = s.places[i, 0] == s.places[i, 1]


def scene(p, s, lane):
    """A street of three places with a wall behind them and a flag that is taken after two steps."""
    places = np.maximum(s.places[lane], 0)
    return Grid(
        ground=np.array([[1] * PLACES, [0] * PLACES]),
        grounds=("street", "wall"),
        places=np.stack([np.ones(p.num_agents), places], axis=1),
        things=np.array([[1.0, 1.0] if s.time[lane] < 2 else [-1.0, -1.0]]),
        kinds=("flag",),
        numbers=np.array([*s.places[lane], 7]),
        marked=s.places[lane] == 2,
    )


SPEC = EnvSpec(
    id="test/Meeting-v0",
    module=__name__,
    kernels=Kernels(State, step, observe, measure),
    params=Params,
    constants=lambda p: p,
    agents=lambda p: tuple(f"walker_{a}" for a in range(p.num_agents)),
    observation_space=lambda p, a: Box(-1, PLACES - 1, (p.num_agents,), np.float32),
    action_space=lambda p, a: Discrete(PLACES),
    layout=lambda p: consecutive({"own_place": 1, "other_place": 1}),
    metrics={"met": "whether the last choices were the same"},
    scene=scene,
)
