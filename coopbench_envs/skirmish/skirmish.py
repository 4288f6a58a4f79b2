"""Skirmish: small armies fight under SMAC's interface and the rules of SMAClite.

Every agent is one unit; the enemies walk to a point and attack what they meet. The team shares one
reward for damage, kills and victory. A victory is that no enemy is left.
Rules, maps and what may be claimed: docs/environments/skirmish.md. Source: SMAC, SMAClite.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete

from coopbench_envs.core import POLICY, EnvSpec, Kernels, MapFiles, kernel
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.parameters import Allowed, between, one_of
from coopbench_envs.skirmish import features
from coopbench_envs.skirmish import picture as pictures
from coopbench_envs.skirmish.army import Army, Rewards, State, army_of, views, words
from coopbench_envs.skirmish.combat import DEALT, KILLS, TAKEN
from coopbench_envs.skirmish.dynamics import muster, play
from coopbench_envs.skirmish.features import TARGET_RANGE, Shown, sizes, state_size
from coopbench_envs.skirmish.opposing import SIDES, opponent_of, turned
from coopbench_envs.skirmish.scenario import (
    Scenario,
    bundled,
    bundled_maps,
    read_scenario,
    unit_files,
)
from coopbench_envs.skirmish.scene import scene
from coopbench_envs.skirmish.targets import OPPONENTS

WHERE = "coopbench/Skirmish-v0"


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    map: Annotated[str, one_of(bundled_maps(), "map of this package")] = "3m"
    map_file: Annotated[
        str | None, Allowed("JSON file of a map of your own, which then takes the place of map")
    ] = None
    horizon: Annotated[
        int | None, between(1, 1_000_000, "steps of an episode; none: the map's limit")
    ] = None
    opponent: Annotated[
        str, one_of(OPPONENTS, "what the enemies do, or a policy that plays them", prefix=POLICY)
    ] = "attack_move"
    side: Annotated[
        str, one_of(SIDES, "whom the agents are; enemies: the map is turned by 180 degrees")
    ] = "allies"
    obs_all_health: Annotated[bool, Allowed("observe health and shields of others")] = True
    obs_own_health: Annotated[bool, Allowed("observe one's own health and shield")] = True
    obs_last_action: Annotated[bool, Allowed("observe the last actions of allies")] = False
    obs_timestep_number: Annotated[bool, Allowed("observe the share of time that is over")] = False
    obs_pathing_grid: Annotated[bool, Allowed("observe where 8 points can be walked on")] = False
    obs_terrain_height: Annotated[bool, Allowed("observe the height of 9 points")] = False
    state_last_action: Annotated[bool, Allowed("last actions are in the global state")] = True
    state_timestep_number: Annotated[bool, Allowed("the time is in the global state")] = False
    reward_sparse: Annotated[bool, Allowed("1 for a victory, -1 for a defeat, 0 else")] = False
    reward_only_positive: Annotated[bool, Allowed("pay nothing for losses of agents")] = True
    reward_death_value: Annotated[float, between(0, 1e6, "for each enemy killed")] = 10.0
    reward_win: Annotated[float, between(0, 1e6, "for a victory")] = 200.0
    reward_defeat: Annotated[float, between(-1e6, 1e6, "for a defeat")] = 0.0
    reward_negative_scale: Annotated[
        float, between(0, 1e6, "share of own losses that is subtracted if they count")
    ] = 0.5
    reward_scale: Annotated[bool, Allowed("scale rewards by the most that a map pays")] = True
    reward_scale_rate: Annotated[
        float, between(0, 1e6, "return of a perfect episode if scaled", above=True)
    ] = 20.0
    smac_quirks: Annotated[
        bool, Allowed("number enemies' types and scale sparse rewards as SMAC does, by mistake")
    ] = False
    free_orders: Annotated[bool, Allowed("orders to attack or heal are legal at any distance")] = (
        False
    )


class Constants(NamedTuple):
    """Numbers and arrays of one task, as the kernels read them."""

    horizon: int
    order_range: float  # cells within which orders to attack or heal are legal
    army: Army
    shown: Shown
    rewards: Rewards


def constants(p: Params) -> Constants:
    """Return the constants, from the checked map.

    Raises:
        ValueError: the map's file is missing or wrong, or lacks what a parameter needs.
    """
    return constants_of(p, *scenario_of(p))


def constants_of(p: Params, scenario: Scenario, where: str) -> Constants:
    """Return the constants of a map, which errors call ``where``; see ``constants``."""
    horizon = p.horizon if p.horizon is not None else scenario.limit
    if horizon is None:
        raise ValueError(
            f"{where} has no 'limit', the number of steps of an episode; add one to the file, or "
            f"give the parameter 'horizon'."
        )
    if p.obs_terrain_height and scenario.heights is None:
        raise ValueError(
            f"Parameter 'obs_terrain_height' was True, but {where} has no heights; leave "
            f"the parameter out, or play a map file of your own with 'terrain_height'."
        )
    if p.reward_scale and _best(scenario, p) == 0:
        raise ValueError(
            "Parameter 'reward_scale' was True, but with these rewards a perfect "
            "episode pays nothing; set 'reward_win' above 0, or 'reward_scale' to False."
        )
    rewards = Rewards(
        sparse=p.reward_sparse,
        only_positive=p.reward_only_positive,
        death=p.reward_death_value,
        win=p.reward_win,
        defeat=p.reward_defeat,
        negative=p.reward_negative_scale,
        scale=1.0,
    )
    army = army_of(
        scenario,
        heights=p.obs_terrain_height,
        rewards=rewards,
        opponent=OPPONENTS.index(rule_of(p.opponent)),
        obeys=p.opponent.startswith(POLICY),
    )
    scale = p.reward_scale_rate / army.max_reward if is_scaled(p) else 1.0
    return Constants(
        horizon=int(horizon),
        order_range=math.inf if p.free_orders else TARGET_RANGE,
        army=army,
        shown=_shown(p, scenario),
        rewards=rewards._replace(scale=scale),
    )


def is_scaled(p: Params) -> bool:
    """Return whether rewards are scaled; sparse ones are as a mistake of SMAC alone."""
    return p.reward_scale and (not p.reward_sparse or p.smac_quirks)


def rule_of(opponent: str) -> str:
    """Return what enemies do that no policy plays."""
    return OPPONENTS[0] if opponent.startswith(POLICY) else opponent


def scenario_of(p: Params) -> tuple[Scenario, str]:
    """Return the map that is played, from the agents' side, and how errors call it."""
    if p.map_file is None:
        scenario, where = bundled(p.map), f"The map {p.map!r}"
    else:
        scenario, where = read_scenario(Path(p.map_file)), f"The map file {p.map_file!r}"
    return (scenario if p.side == SIDES[0] else turned(scenario)), where


def _best(scenario: Scenario, p: Params) -> float:
    enemies = scenario.kinds[scenario.num_allies :]
    points = sum(kind.hp + kind.shield for kind in enemies)
    return points + len(enemies) * p.reward_death_value + p.reward_win


def _shown(p: Params, scenario: Scenario) -> Shown:
    kinds = {kind.name for kind in scenario.kinds}
    return Shown(
        all_health=p.obs_all_health,
        own_health=p.obs_own_health,
        last_action=p.obs_last_action,
        timestep=p.obs_timestep_number,
        pathing_grid=p.obs_pathing_grid,
        terrain_height=p.obs_terrain_height,
        state_last_action=p.state_last_action,
        state_timestep=p.state_timestep_number,
        reversed_types=p.smac_quirks and kinds == {"STALKER", "ZEALOT"},
    )


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
def present(c, s, i, alive):
    for a in range(c.army.num_agents):
        alive[i, a] = s.living[i, a]


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


def agents(c: Constants) -> tuple[str, ...]:
    """Return the names of the agents: the kind of the unit, and the number in the team."""
    team = words(c.army)[: c.army.num_agents]
    return tuple(f"{word}_{a}" for a, word in enumerate(team))


def layout(c: Constants) -> Mapping[str, Part]:
    """Return the parts of an observation."""
    return consecutive(sizes(c.army, c.shown))


def _width(c: Constants) -> int:
    return max(part.stop for part in layout(c).values())


FILES = MapFiles(
    condition="map_file",
    bundled="maps of SMAC",
    paths=lambda parameters: _paths(parameters),
    place=lambda parameters: parameters.get("map_file"),
    moved=lambda parameters, place: {**parameters, "map_file": place},
)


def _paths(parameters: Mapping[str, Any]) -> list[Path]:
    if parameters.get("map_file") is None:
        return []
    path = Path(str(parameters["map_file"]))
    return [path, *unit_files(path)]


SPEC = EnvSpec(
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
        present=present,
    ),
    params=Params,
    constants=constants,
    agents=agents,
    observation_space=lambda c, agent: Box(-1.0, 1.0, (_width(c),), np.float32),
    action_space=lambda c, agent: Discrete(c.army.choices),
    layout=layout,
    metrics={
        "win": "1 if no enemy is left, else 0",
        "dead_allies": "agents that have fallen",
        "dead_enemies": "enemies that have fallen",
        "damage_dealt": "health and shields that enemies have lost, grown ones counted again",
        "damage_taken": "health and shields that agents have lost, grown ones counted again",
        "shots_at_dead": "attacks of agents on units that had fallen in the same step",
        "first_contact": "steps before the first damage; the limit if there was none",
    },
    picture=pictures.picture,
    text=pictures.text,
    scene=scene,
    global_state_space=lambda c: Box(-1.0, 1.0, (state_size(c.army, c.shown),), np.float32),
    common_reward=True,
    files=FILES,
    opponent=opponent_of,
    held_out="map",
    source="Samvelyan et al. 2019, SMAC; Michalski et al. 2023, SMAClite, with its NumPy back-end",
)
