"""What both versions of Skirmish share: parameters, what follows from them, the specification."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete

from coopbench_envs.core import POLICY, EnvSpec, Kernels, MapFiles, kernel
from coopbench_envs.layouts import Part
from coopbench_envs.parameters import Allowed, between, one_of, positive
from coopbench_envs.skirmish import picture as pictures
from coopbench_envs.skirmish.army import Army, Rewards, army_of, words
from coopbench_envs.skirmish.features import Shown, state_size
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


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    map: Annotated[str, one_of(bundled_maps(), "map of this package")] = "3m"
    map_file: Annotated[str | None, Allowed("JSON file of your own map, which replaces map")] = None
    horizon: Annotated[
        int | None, between(1, 1_000_000, "steps of an episode; none: the map's limit")
    ] = None
    opponent: Annotated[
        str, one_of(OPPONENTS, "what the enemies do, or a policy that plays them", prefix=POLICY)
    ] = "attack_move"
    side: Annotated[
        str, one_of(SIDES, "which side the agents are; enemies: the map is turned by 180 degrees")
    ] = "allies"
    obs_all_health: Annotated[bool, Allowed("observe health and shields of others")] = True
    obs_own_health: Annotated[bool, Allowed("observe own health and shield")] = True
    obs_last_action: Annotated[bool, Allowed("observe the last actions of allies")] = False
    obs_timestep_number: Annotated[bool, Allowed("observe the elapsed share of the episode")] = (
        False
    )
    obs_pathing_grid: Annotated[
        bool, Allowed("observe which of 8 points around can be walked on")
    ] = False
    obs_terrain_height: Annotated[bool, Allowed("observe the height of the ground at 9 points")] = (
        False
    )
    state_last_action: Annotated[bool, Allowed("last actions are in the global state")] = True
    state_timestep_number: Annotated[bool, Allowed("the time is in the global state")] = False
    reward_sparse: Annotated[bool, Allowed("1 for a victory, -1 for a defeat, otherwise 0")] = False
    reward_only_positive: Annotated[bool, Allowed("pay nothing for losses of agents")] = True
    reward_death_value: Annotated[float, between(0, 1e6, "for each enemy killed")] = 10.0
    reward_win: Annotated[float, between(0, 1e6, "for a victory")] = 200.0
    reward_defeat: Annotated[float, between(-1e6, 1e6, "for a defeat")] = 0.0
    reward_negative_scale: Annotated[
        float, between(0, 1e6, "share of own losses that is subtracted if they count")
    ] = 0.5
    reward_scale: Annotated[bool, Allowed("scale rewards by the largest return of the map")] = True
    reward_scale_rate: Annotated[
        float, positive(1e6, "return of a perfect episode with reward_scale")
    ] = 20.0
    smac_quirks: Annotated[
        bool, Allowed("number enemies' types and scale sparse rewards as SMAC does, by mistake")
    ] = False
    free_orders: Annotated[bool, Allowed("orders to attack or heal are legal at any distance")] = (
        False
    )


class Basics(NamedTuple):
    """The constants of either version."""

    horizon: int
    army: Army
    shown: Shown
    rewards: Rewards


def basics_of(p: Any, scenario: Scenario, where: str) -> Basics:
    """Return the constants of a map, which errors call ``where``.

    Raises:
        ValueError: the map lacks what a parameter needs.
    """
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
    if p.reward_scale and army.max_reward == 0:
        raise ValueError(
            "Parameter 'reward_scale' was True, but with these rewards a perfect "
            "episode pays nothing; set 'reward_win' above 0, or 'reward_scale' to False."
        )
    scale = p.reward_scale_rate / army.max_reward if is_scaled(p) else 1.0
    return Basics(
        horizon=int(horizon),
        army=army,
        shown=_shown(p, scenario),
        rewards=rewards._replace(scale=scale),
    )


def is_scaled(p: Any) -> bool:
    """Return whether rewards are scaled; sparse ones are as a mistake of SMAC alone."""
    return p.reward_scale and (not p.reward_sparse or p.smac_quirks)


def rule_of(opponent: str) -> str:
    """Return what enemies do that no policy plays."""
    return OPPONENTS[0] if opponent.startswith(POLICY) else opponent


def scenario_of(p: Any) -> tuple[Scenario, str]:
    """Return the map that is played, from the agents' side, and its name in error messages."""
    if p.map_file is None:
        scenario, where = bundled(p.map), f"The map {p.map!r}"
    else:
        scenario, where = read_scenario(_map_file(p.map_file)), f"The map file {p.map_file!r}"
    return facing(scenario, p.side), where


def facing(scenario: Scenario, side: str) -> Scenario:
    """Return the map as the side sees it that the agents play."""
    return scenario if side == SIDES[0] else turned(scenario)


def _shown(p: Any, scenario: Scenario) -> Shown:
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
def present(c, s, i, alive):
    """Write which agents have not fallen."""
    for a in range(c.army.num_agents):
        alive[i, a] = s.living[i, a]


def agents(c: Any) -> tuple[str, ...]:
    """Return the names of the agents: the kind of the unit, and the number in the team."""
    team = words(c.army)[: c.army.num_agents]
    return tuple(f"{word}_{a}" for a, word in enumerate(team))


def _paths(parameters: Mapping[str, Any]) -> list[Path]:
    if parameters.get("map_file") is None:
        return []
    path = _map_file(str(parameters["map_file"]))
    return [path, *unit_files(path)]


def _map_file(name: str) -> Path:
    """Return the path of a map of a user; raise ``ValueError`` where there is no file."""
    if not os.path.isfile(name):  # a method of Path raises OSError for names that are too long
        raise ValueError(
            f"Parameter 'map_file' was {name!r}, which is not a file or cannot be read; allowed: "
            f"the path of a JSON file with a map."
        )
    return Path(name)


FILES = MapFiles(
    condition="map_file",
    bundled="maps of SMAC",
    paths=_paths,
    place=lambda parameters: parameters.get("map_file"),
    moved=lambda parameters, place: {**parameters, "map_file": place},
)


def battle(
    *,
    kernels: Kernels,
    layout: Callable[[Any], Mapping[str, Part]],
    agents: Callable[[Any], tuple[str, ...]] = agents,
    **own: Any,
) -> EnvSpec:
    """Return the specification of a version; ``own`` are fields that the other does not share."""

    def observation_space(c: Any, agent: int) -> Box:
        width = max(part.stop for part in layout(c).values())
        return Box(-1.0, 1.0, (width,), np.float32)

    return EnvSpec(
        kernels=kernels._replace(present=present),
        agents=agents,
        observation_space=observation_space,
        action_space=lambda c, agent: Discrete(c.army.choices),
        layout=layout,
        picture=pictures.picture,
        text=pictures.text,
        scene=scene,
        global_state_space=lambda c: Box(-1.0, 1.0, (state_size(c.army, c.shown),), np.float32),
        common_reward=True,
        files=FILES,
        opponent=opponent_of,
        held_out="map",
        **own,
    )
