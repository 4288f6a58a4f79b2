"""Skirmish 1: small armies fight on StarCraft II's own clock, from starts drawn for every episode.

Every agent is one unit; the enemies walk to where the agents began and attack what they meet. All
blows of a tick fall at once, units find ways round walls, and cooldowns vary by chance. The team
shares one reward for damage, kills and victory.
Rules, maps and what may be claimed: docs/environments/skirmish_v1.md.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.core import POLICY, Kernels, kernel, routine
from coopbench_envs.elementary import cosine
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.parameters import Allowed, between, joined, one_of
from coopbench_envs.skirmish import sight, tasks
from coopbench_envs.skirmish.army import HEALS, HP, LISTED, SHIELD, Army, Rewards, army_of
from coopbench_envs.skirmish.features import MEANINGS, Shown
from coopbench_envs.skirmish.force import Rules, State, views
from coopbench_envs.skirmish.native import RANGES, kinds_of, native, ordered
from coopbench_envs.skirmish.opposing import SIDES
from coopbench_envs.skirmish.paths import ground_of, piece_of
from coopbench_envs.skirmish.scenario import Scenario
from coopbench_envs.skirmish.sight import seen
from coopbench_envs.skirmish.starts import FIXED, NEAR, SPREAD, Starts, muster_drawn, starts_of
from coopbench_envs.skirmish.strikes import DEALT, OVERKILL, TAKEN
from coopbench_envs.skirmish.targets import OPPONENTS
from coopbench_envs.skirmish.tasks import basics_of, battle, facing, is_scaled, rule_of, scenario_of
from coopbench_envs.skirmish.teams import RACES, SIZES, Teams, draw_teams, drawn_scenario, teams_of
from coopbench_envs.skirmish.tick import muster, play

POINTS, FIGHTERS, UNITS = range(3)  # what ``standing`` returns
_USUAL_SIZE = 5  # units of a drawn team
_SLACK = 0.5  # cells that contacts may move a unit by before lists of neighbours are made anew
_FULL = 0.9  # least share of ground in its rectangle where starts are reflected or surrounded


class Own(NamedTuple):
    """Parameters that version 0 does not have."""

    start: Annotated[
        str,
        one_of(
            ("drawn", "shifted", "fixed"),
            "where units start: drawn; where drawn never puts them; or as published",
        ),
    ] = "drawn"
    teams: Annotated[
        str, one_of(("published", "drawn"), "units of the map, or drawn units, which ignore map")
    ] = "published"
    race: Annotated[str | None, one_of(RACES, "race of drawn teams; none: protoss")] = None
    num_agents: Annotated[int | None, between(*SIZES, "agents of drawn teams; none: 5")] = None
    num_enemies: Annotated[
        int | None, between(*SIZES, "enemies of drawn teams; none: as many as agents")
    ] = None
    reaction: Annotated[int, between(0, 100, "ticks before an enemy attacks a new target")] = 0
    jitter: Annotated[bool, Allowed("cooldowns vary by -1 to 2 ticks")] = True
    ranges: Annotated[
        str, one_of(RANGES, "sight and legal targets: by kind of unit, as SMACv2, or 9 and 6 cells")
    ] = "unit"
    field_of_view: Annotated[
        float, between(1, 360, "angle that agents see around their last move or attack, degrees")
    ] = 360.0
    reward_abs_bug: Annotated[bool, Allowed("pay what enemies regain, as SMAC does by mistake")] = (
        False
    )


Params = joined(__name__, tasks.Params, Own)


class Constants(NamedTuple):
    """Numbers and arrays of one task, as the kernels read them."""

    horizon: int  # steps of an episode
    army: Army
    rules: Rules
    starts: Starts
    teams: Teams
    shown: Shown
    rewards: Rewards
    abs_bug: bool  # pay what enemies regain, as SMAC does by mistake


def constants(p: Any) -> Constants:
    """Return the constants, from the checked map.

    Raises:
        ValueError: the map's file is missing or wrong, or lacks what a parameter needs.
    """
    written, where = _scenario_of(p)
    checked = basics_of(p, written, where)
    race = (p.race or RACES[0]) if p.teams == "drawn" else None
    scenario = native(written)
    # Drawn units keep the order in which they are drawn: their numbers do not tell their kinds.
    scenario = scenario if race else _on_one_piece(ordered(scenario), where)
    army = army_of(
        scenario,
        heights=p.obs_terrain_height,
        rewards=checked.rewards,
        opponent=OPPONENTS.index(rule_of(p.opponent)),
    )
    rules = _rules(p, scenario, army, where)
    return Constants(
        horizon=checked.horizon,
        army=army,
        rules=rules,
        starts=starts_of(
            scenario.terrain,
            _mode(p.start, scenario.terrain),
            rules.max_radius,
            shifted=p.start == "shifted",
        ),
        teams=teams_of(
            scenario,
            race=race,
            rate=p.reward_scale_rate if is_scaled(p) else 0.0,
        ),
        shown=checked.shown,
        rewards=checked.rewards,
        abs_bug=p.reward_abs_bug,
    )


def _scenario_of(p: Any) -> tuple[Scenario, str]:
    _check_teams(p)
    if p.teams == "drawn":
        size = p.num_agents or _USUAL_SIZE
        scenario = drawn_scenario(p.race or RACES[0], size, p.num_enemies or size)
        where = f"The map {scenario.name!r} of drawn teams"
        return facing(scenario, p.side), where
    return scenario_of(p)


def _check_teams(p: Any) -> None:
    """Raise ``ValueError`` for a parameter that these teams do not read."""
    unread: dict[str, Any]
    if p.teams == "drawn":
        usual = Params._field_defaults["map"]
        unread = {"map_file": p.map_file, "map": None if p.map == usual else p.map}
        remedy = "leave out one of them: drawn teams take the place of a map"
    else:
        unread = {"race": p.race, "num_agents": p.num_agents, "num_enemies": p.num_enemies}
        remedy = "leave it out, or set teams='drawn'"
    for name, value in unread.items():
        if value is not None:
            raise ValueError(
                f"Parameter {name!r} of {SPEC.id} was {value!r}, which teams={p.teams!r} does not "
                f"read; {remedy}."
            )


def _mode(start: str, terrain: np.ndarray) -> int:
    if start == "fixed":
        return FIXED
    return SPREAD if _is_field(terrain) else NEAR


def _on_one_piece(scenario: Scenario, where: str) -> Scenario:
    """Return the map without ground that cannot be reached from where its first walker stands."""
    cells = scenario.positions.astype(int)
    walkers = [u for u, kind in enumerate(scenario.kinds) if not kind.flies]
    if not walkers:
        return scenario
    column, row = cells[walkers[0]]
    piece = piece_of(scenario.terrain, row, column)
    if not piece[cells[walkers, 1], cells[walkers, 0]].all():
        raise ValueError(
            f"{where} has units that cannot reach each other on the ground; version 1 finds ways "
            f"between all of them. Open a way, or play it in version 0."
        )
    return replace(scenario, terrain=piece)


def _rules(p: Any, scenario: Scenario, army: Army, where: str) -> Rules:
    kinds = kinds_of(scenario, army, ranges=p.ranges, free=p.free_orders)
    different = list(dict.fromkeys(scenario.kinds))
    radius = max(kind.radius for kind in different)
    speed = max(kind.speed for kind in different)
    return Rules(
        num_agents=scenario.num_allies,
        num_enemies=scenario.num_enemies,
        kinds=kinds,
        ground=ground_of(scenario.terrain, where),
        kind=np.array([different.index(kind) for kind in scenario.kinds]),
        start=scenario.positions.astype(np.float64),
        max_radius=radius,
        nearby=2 * radius + 2 * LISTED * speed + _SLACK,
        opponent=OPPONENTS.index(rule_of(p.opponent)),
        follows=scenario.follow and p.side == SIDES[0],
        march_x=float(scenario.attack_point[0]),
        march_y=float(scenario.attack_point[1]),
        reaction=int(p.reaction),
        jitter=bool(p.jitter),
        has_splash=army.has_splash,
        obeys=p.opponent.startswith(POLICY),
        scripted=False,
        faces=p.field_of_view < 360,
        half_cosine=float(cosine(math.pi / 360.0 * p.field_of_view)),
    )


def _is_field(terrain: np.ndarray) -> bool:
    """Return whether a map is one open field, its own image in the middle line."""
    rows, columns = np.nonzero(terrain)
    box = terrain[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    is_whole = all((np.diff(line.astype(int)) != 0).sum() <= 2 for line in (*box, *box.T))
    return bool(is_whole and box.mean() >= _FULL and (box == box[:, ::-1]).all())


@kernel
def reset(c, s, i, rng):
    draw_teams(c.teams, c.rules, s, i, rng)
    muster(c.rules, s, i)
    muster_drawn(c.starts, c.rules, s, i, rng)


@kernel
def step(c, s, i, rng, actions, rewards, terminated):
    r, sums = c.rules, s.sums[i]
    mine, theirs = standing(c, s, i, True), standing(c, s, i, False)
    play(r, views(s, i), rng, i, actions)
    s.dealt[i] += sums[DEALT]
    s.taken[i] += sums[TAKEN]
    s.overkill[i] += sums[OVERKILL]
    if s.contact[i] < 0 and sums[DEALT] + sums[TAKEN] > 0.0:
        s.contact[i] = s.time[i]
    mine_now, theirs_now = standing(c, s, i, True), standing(c, s, i, False)
    won = theirs_now[FIGHTERS] == 0.0 and mine_now[FIGHTERS] > 0.0
    over = theirs_now[FIGHTERS] == 0.0 or mine_now[FIGHTERS] == 0.0
    beaten = over and not won and mine_now[UNITS] + theirs_now[UNITS] > 0.0
    gained, lost = theirs[POINTS] - theirs_now[POINTS], mine[POINTS] - mine_now[POINTS]
    if c.rewards.only_positive and not c.abs_bug:
        # Points that enemies had regained were paid for when they lost them first.
        owed = s.regained[i] - gained
        gained, s.regained[i] = max(0.0, -owed), max(0.0, owed)
    rewards[i, 0] = pay(c, lost, gained, won, beaten) * _scale(c, s, i)
    for a in range(r.num_agents):
        terminated[i, a] = over


@kernel
def standing(c, s, i, allied):
    """Return what a side still has: its points, its units that fight, and all its units."""
    begin = 0 if allied else c.rules.num_agents
    end = c.rules.num_agents if allied else begin + c.rules.num_enemies
    traits = c.rules.kinds.traits
    return tally(s.living[i], s.hp[i], s.shield[i], s.kind[i], traits, c.rewards.death, begin, end)


@routine
def tally(living, hp, shield, kind, traits, death, begin, end):
    """Count the units from ``begin`` to ``end``.

    Their points are health, shields and what a death counts. A side of which only units that heal
    are left is beaten.
    """
    points, fighters, units = 0.0, 0.0, 0.0
    for u in range(begin, end):
        if living[u]:
            points += hp[u] + shield[u] + death
            units += 1.0
            if traits[kind[u], HEALS] == 0:
                fighters += 1.0
    return points, fighters, units


@kernel
def pay(c, mine, theirs, won, beaten):
    """Return the reward of a step, not scaled: of the points that both sides lost, and the end."""
    r = c.rewards
    if r.sparse:
        reward = 1.0 if won else -1.0 if beaten else 0.0
    else:
        reward = theirs
        if not r.only_positive:
            reward -= r.negative * mine
        elif c.abs_bug:
            reward = abs(reward)
        if won:
            reward += r.win
        elif beaten:
            reward += r.defeat
    return reward


@kernel
def _scale(c, s, i):
    """Return what rewards are multiplied by; for drawn teams it follows from the enemies."""
    scale = c.rewards.scale
    if c.teams.is_drawn and c.teams.rate > 0.0:
        n = c.rules.num_agents
        most = c.rewards.win
        for u in range(n, n + c.rules.num_enemies):
            stats = c.rules.kinds.stats[s.kind[i, u]]
            most += stats[HP] + stats[SHIELD] + c.rewards.death
        scale = c.teams.rate / most
    return scale


@kernel
def mask(c, s, i, masks):
    sight.mask(c.army, c.rules, seen(s), i, masks)


@kernel
def observe(c, s, i, obs):
    sight.observe(c.army, c.rules, c.shown, seen(s), i, c.horizon, obs)


@kernel
def global_state(c, s, i, out):
    sight.write_state(c.army, c.rules, c.shown, seen(s), i, c.horizon, out)


@kernel
def measure(c, s, i, measures):
    r = c.rules
    mine, theirs = standing(c, s, i, True), standing(c, s, i, False)
    measures[i, 0] = theirs[FIGHTERS] == 0.0 and mine[FIGHTERS] > 0.0
    measures[i, 1] = r.num_agents - mine[UNITS]
    measures[i, 2] = r.num_enemies - theirs[UNITS]
    measures[i, 3] = s.dealt[i]
    measures[i, 4] = s.taken[i]
    measures[i, 5] = s.overkill[i]
    measures[i, 6] = s.contact[i] if s.contact[i] >= 0 else c.horizon


def agents(c: Constants) -> tuple[str, ...]:
    """Return the names of the agents; a unit whose kind is drawn is called ``unit``."""
    named = tasks.agents(c)
    return tuple(f"unit_{a}" for a in range(len(named))) if c.teams.is_drawn else named


def layout(c: Constants) -> Mapping[str, Part]:
    """Return the parts of an observation."""
    return consecutive(sight.parts(c.army, c.shown), MEANINGS)


SPEC = battle(
    id="coopbench/Skirmish-v1",
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
    agents=agents,
    layout=layout,
    metrics={
        "win": "1 if the agents have fighting units left and the enemies none, else 0",
        "dead_allies": "agents that have fallen",
        "dead_enemies": "enemies that have fallen",
        "damage_dealt": "health and shields that attacks have taken from enemies",
        "damage_taken": "health and shields that attacks have taken from agents",
        "overkill": "damage of agents beyond what their victims had left",
        "first_contact": "steps before the first damage; the limit if there was none",
    },
    source="Samvelyan et al. 2019, SMAC; Ellis et al. 2023, SMACv2; rules of SMAClite, corrected",
)
