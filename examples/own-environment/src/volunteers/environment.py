"""Volunteers: everybody gains if at least one agent acts, and acting costs.

Diekmann (1985), Volunteer's dilemma. The kernels ``step``, ``observe`` and ``measure`` are
compiled; each of them works on the game in lane ``i``.
"""

from typing import Annotated, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete

from coopbench_envs.core import EnvSpec, Kernels, kernel
from coopbench_envs.layouts import consecutive
from coopbench_envs.parameters import between
from coopbench_envs.states import array, state

WAIT, ACT = range(2)


class Params(NamedTuple):
    """Parameters of one task."""

    num_agents: Annotated[int, between(2, 16, "agents")] = 3
    horizon: Annotated[int, between(1, 10_000, "steps of an episode")] = 20
    benefit: Annotated[float, between(0, 100, "what everybody gains if one acts")] = 2.0
    cost: Annotated[float, between(0, 100, "what acting costs")] = 1.0


State = state(
    __name__,
    choice=array("last choice, -1 before any", "num_agents", dtype=np.int64, start=-1),
    helped=array("steps in which somebody acted", dtype=np.int64, start=0),
)


@kernel
def step(p, s, i, rng, actions, rewards, terminated):
    acting = 0
    for a in range(p.num_agents):
        s.choice[i, a] = actions[i, a]
        acting += actions[i, a] == ACT
    s.helped[i] += acting > 0
    for a in range(p.num_agents):
        gain = p.benefit if acting > 0 else 0.0
        rewards[i, a] = gain - (p.cost if actions[i, a] == ACT else 0.0)
        terminated[i, a] = False


@kernel
def observe(p, s, i, obs):
    for a in range(p.num_agents):
        for b in range(p.num_agents):
            obs[i, a, b] = s.choice[i, (a + b) % p.num_agents]


@kernel
def measure(p, s, i, measures):
    measures[i, 0] = s.helped[i] / max(1, s.time[i])


SPEC = EnvSpec(
    id="example/Volunteers-v0",
    module=__name__,
    kernels=Kernels(State, step, observe, measure),
    params=Params,
    constants=lambda p: p,
    agents=lambda p: tuple(f"agent_{a}" for a in range(p.num_agents)),
    observation_space=lambda p, a: Box(-1, 1, (p.num_agents,), np.float32),
    action_space=lambda p, a: Discrete(2),
    layout=lambda p: consecutive({"own_choice": 1, "others_choices": p.num_agents - 1}),
    metrics={"help_rate": "share of steps in which somebody acted"},
    source="Diekmann 1985, Volunteer's dilemma",
)
