"""Skirmish: small armies fight under SMAC's interface and the rules of SMAClite.

Every agent is one unit; the enemies walk to a point and attack what they meet. The team shares one
reward for damage, kills and victory. A victory is that no enemy is left.
Rules, maps and what may be claimed: docs/environments/skirmish.md. Source: SMAC, SMAClite.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from coopbench_envs.core import Kernels, kernel
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.skirmish import features
from coopbench_envs.skirmish.army import Army, Rewards, State, views
from coopbench_envs.skirmish.combat import DEALT, KILLS, TAKEN
from coopbench_envs.skirmish.dynamics import muster, play
from coopbench_envs.skirmish.features import MEANINGS, TARGET_RANGE, Shown, sizes
from coopbench_envs.skirmish.tasks import Params, basics_of, battle, scenario_of


class Constants(NamedTuple):
    """Numbers and arrays of one task, as the kernels read them."""

    horizon: int  # steps of an episode
    order_range: float  # cells within which orders to attack or heal are legal
    army: Army
    shown: Shown
    rewards: Rewards


def constants(p: Params) -> Constants:
    """Return the constants, from the checked map.

    Raises:
        ValueError: the map's file is missing or wrong, or lacks what a parameter needs.
    """
    order_range = math.inf if p.free_orders else TARGET_RANGE
    return Constants(order_range=order_range, **basics_of(p, *scenario_of(p))._asdict())


@kernel
def reset(c, s, i, rng):
    muster(c.army, s, i)


@kernel
def step(c, s, i, rng, actions, rewards, terminated):
    army, sums = c.army, s.sums[i]
    before = 0
    for a in range(army.num_agents):
        before += s.living[i, a]
    s.wasted[i] += play(army, views(s, i), rng, i, actions)
    allies, enemies = 0, 0
    for u in range(army.num_agents + army.num_enemies):
        if u < army.num_agents:
            allies += s.living[i, u]
        else:
            enemies += s.living[i, u]
    if s.contact[i] < 0 and sums[DEALT] + sums[TAKEN] > 0.0:
        s.contact[i] = s.time[i]
    s.dealt[i] += sums[DEALT]
    s.taken[i] += sums[TAKEN]
    rewards[i, 0] = pay(c.rewards, sums, before - allies, allies, enemies)
    for a in range(army.num_agents):
        terminated[i, a] = allies == 0 or enemies == 0


@kernel
def pay(r, sums, fallen, allies, enemies):
    """Return the reward of a step: of its damage, its deaths, and the end of the battle."""
    if r.sparse:
        reward = 1.0 if enemies == 0 else -1.0 if allies == 0 else 0.0
    else:
        reward = sums[DEALT] + r.death * sums[KILLS]
        if not r.only_positive:
            reward -= r.negative * (sums[TAKEN] + r.death * fallen)
        if enemies == 0:
            reward += r.win
        elif allies == 0:
            reward += r.defeat
    return reward * r.scale


@kernel
def mask(c, s, i, masks):
    features.mask(c.army, s, i, c.order_range, masks)


@kernel
def observe(c, s, i, obs):
    features.observe(c.army, c.shown, s, i, c.horizon, obs)


@kernel
def global_state(c, s, i, out):
    features.write_state(c.army, c.shown, s, i, c.horizon, out)


@kernel
def measure(c, s, i, measures):
    army = c.army
    allies, enemies = 0, 0
    for u in range(army.num_agents + army.num_enemies):
        if not s.living[i, u]:
            if u < army.num_agents:
                allies += 1
            else:
                enemies += 1
    measures[i, 0] = enemies == army.num_enemies
    measures[i, 1] = allies
    measures[i, 2] = enemies
    measures[i, 3] = s.dealt[i]
    measures[i, 4] = s.taken[i]
    measures[i, 5] = s.wasted[i]
    measures[i, 6] = s.contact[i] if s.contact[i] >= 0 else c.horizon


def layout(c: Constants) -> Mapping[str, Part]:
    """Return the parts of an observation."""
    return consecutive(sizes(c.army, c.shown), MEANINGS)


SPEC = battle(
    id="coopbench/Skirmish-v0",
    module=__name__,
    kernels=Kernels(
        state=State,
        reset=reset,
        step=step,
        observe=observe,
        measure=measure,
        mask=mask,
        global_state=global_state,
    ),
    params=Params,
    constants=constants,
    layout=layout,
    metrics={
        "win": "1 if no enemy is left, else 0",
        "dead_allies": "agents that have fallen",
        "dead_enemies": "enemies that have fallen",
        "damage_dealt": "health and shields that enemies lost, including regained ones",
        "damage_taken": "health and shields that agents lost, including regained ones",
        "shots_at_dead": "attacks of agents on units that had fallen in the same step",
        "first_contact": "steps before the first damage; the limit if there was none",
    },
    source="Samvelyan et al. 2019, SMAC; Michalski et al. 2023, SMAClite, with its NumPy back-end",
)
