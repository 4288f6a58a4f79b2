"""Fireflies: everybody gains from flashing together; with a scene of its own, ``fireflies.js``.

A firefly can flash when it is charged, which takes a few steps that differ by chance. It earns the
share of the others that flash in the same step. To watch it::

    recording = coopbench.play_episode("examples/scenes/fireflies.py:SPEC", "random", seed=1)
    recording.to_html("fireflies.html")
"""

from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete

from coopbench_envs.core import EnvSpec, Kernels, integer, kernel
from coopbench_envs.layouts import consecutive
from coopbench_envs.parameters import between
from coopbench_envs.scenes import Scripted
from coopbench_envs.states import array, state

WAIT, FLASH = range(2)
FULL = 4  # charge from which a firefly can flash


class Params(NamedTuple):
    """Parameters of one task."""

    num_agents: Annotated[int, between(2, 64, "fireflies")] = 8
    horizon: Annotated[int, between(1, 10_000, "steps of an episode")] = 40


State = state(
    __name__,
    charge=array("0 after a flash, FULL when charged", "num_agents", dtype=np.int64),
    lit=array("flashed in the last step", "num_agents", dtype=np.bool_, start=False),
    together=array("running sum of the shares of pairs that flashed together", start=0),
)


@kernel
def reset(p, s, i, rng):
    for a in range(p.num_agents):
        s.charge[i, a] = integer(rng, i, FULL + 1)


@kernel
def step(p, s, i, rng, actions, rewards, terminated):
    flashes = 0
    for a in range(p.num_agents):
        s.lit[i, a] = actions[i, a] == FLASH
        flashes += s.lit[i, a]
    for a in range(p.num_agents):
        rewards[i, a] = (flashes - 1) / (p.num_agents - 1) if s.lit[i, a] else 0.0
        s.together[i] += rewards[i, a] / p.num_agents
        charge = min(FULL, s.charge[i, a] + integer(rng, i, 2))
        s.charge[i, a] = 0 if s.lit[i, a] else charge
        terminated[i, a] = False


@kernel
def mask(p, s, i, masks):
    for a in range(p.num_agents):
        masks[i, a, WAIT] = 1
        masks[i, a, FLASH] = s.charge[i, a] == FULL


@kernel
def observe(p, s, i, obs):
    for a in range(p.num_agents):
        for b in range(p.num_agents):
            obs[i, a, b] = s.charge[i, (a + b) % p.num_agents] / FULL


@kernel
def measure(p, s, i, measures):
    measures[i, 0] = s.together[i] / max(1, s.time[i])


def scene(p, s, lane):
    """Return what ``fireflies.js`` draws: places that stay, charges and flashes that change."""
    turn = 2 * np.pi * np.arange(p.num_agents) / p.num_agents
    arrays = {
        "places": np.stack([np.cos(turn), np.sin(turn)], axis=1),
        "charge": s.charge[lane] / FULL,
        "lit": s.lit[lane],
    }
    return Scripted(
        script=Path(__file__).with_name("fireflies.js"),
        arrays=arrays,
        legend="A ring fills while a firefly charges; a bright disc flashes.",
    )


SPEC = EnvSpec(
    id="example/Fireflies-v0",
    module=__name__,
    kernels=Kernels(State, step, observe, measure, reset, mask=mask),
    params=Params,
    constants=lambda p: p,
    agents=lambda p: tuple(f"firefly_{a}" for a in range(p.num_agents)),
    observation_space=lambda p, a: Box(0, 1, (p.num_agents,), np.float32),
    action_space=lambda p, a: Discrete(2),
    layout=lambda p: consecutive({"own_charge": 1, "others_charges": p.num_agents - 1}),
    metrics={"together": "share of pairs of fireflies that flash together, mean over steps"},
    scene=scene,
)
