"""Global planners of pathfinding: ways over cells, PIBT rounds, RRT* paths, and whole episodes."""

from functools import cache

import builders
import numpy as np
import pytest
from episodes import begun, measure, played
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbench.baselines.planners.pibt import AFTER, NEXT
from coopbench_envs.engine import DISABLED
from coopbench_envs.pathfinding.maps.common import ABSENT

PLANNERS = ("astar_pibt", "prioritised_rrt_star")
# Corridors that have room for one agent, but for a bay; and a room at one end.
BAY = ["########", "###.####", "#......#", "########"]
DEAD_END = ["#######", "#...###", "#.....#", "#...###", "#######"]


def _pair(rows, one, other):
    """Two agents on a map that have to trade places."""
    places = {"agent_idx": (one, other), "goal_idx": (other, one)}
    text = {"map_str": "\n".join(rows), "add_border": False}
    return {"num_agents": 2, "map": "string_grid", "map_params": text | places, "horizon": 400}


OPEN = {
    "num_agents": 6,
    "map_params": {"num_rows": 8, "num_cols": 8, "obstacle_density": 0.2},
    "horizon": 400,
}

CROWD = {
    "num_agents": 16,
    "map_params": {"num_rows": 6, "num_cols": 6, "obstacle_density": 0.1},
    "horizon": 100,
}


@cache
def _planned(policy, lanes):
    """Engine and player after the first call of the policy, not to be played on."""
    engine = builders.begun("coopbench/Routing-v0", lanes, **OPEN)
    player = begun(engine, policy)
    player.act(engine.control.obs, engine.view())
    return engine, player


def _first_ways(lanes):
    """Distances of the agents from their goals over cells, in fifths of a cell; 65535: none."""
    engine, player = _planned("astar_pibt", lanes)
    gaps = engine.state.agent_pos[:, :, None] - engine.constants.map.centres
    cells = np.linalg.norm(gaps, axis=3).argmin(2)
    return np.take_along_axis(player._memory.team.ways, cells[..., None], 2)[..., 0]


def _steps(engine, lane, cell):
    """Cells that the largest agent reaches straight from a cell, with the lengths of the steps."""
    c, state = engine.constants, engine.state
    walls = state.landmark_pos[lane][state.landmark_pos[lane, :, 0] != ABSENT]
    row, column = divmod(cell, c.map.columns)
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            target = (row + down) * c.map.columns + column + right
            inside = 0 <= row + down < len(c.map.centres) // c.map.columns
            if (down or right) and inside and 0 <= column + right < c.map.columns:
                line = np.linspace(c.map.centres[cell], c.map.centres[target], 41)
                gaps = np.linalg.norm(line[:, None] - walls, axis=2)
                if gaps.min() >= c.map.landmark_rad + c.map.agent_rad_high - 1e-9:
                    yield target, 7 if down and right else 5


def test_distances_are_those_of_a_plain_search():
    engine, player = _planned("astar_pibt", lanes=3)
    ways = player._memory.team.ways
    c, far = engine.constants, np.iinfo(ways.dtype).max
    for lane in range(2):
        graph = [list(_steps(engine, lane, k)) for k in range(len(c.map.centres))]
        for agent in range(2):
            gaps = np.linalg.norm(c.map.centres - engine.state.goal_pos[lane, agent], axis=1)
            expected = {int(gaps.argmin()): 0}
            border = list(expected)
            while border:  # relax until nothing changes
                k = border.pop()
                for target, length in graph[k]:
                    if expected[k] + length < expected.get(target, far):
                        expected[target] = expected[k] + length
                        border.append(target)
            distances = {k: int(v) for k, v in enumerate(ways[lane, agent]) if v != far}
            assert distances == expected
            assert len(distances) > 10


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_rounds_keep_agents_apart(seed):
    """No two agents get closer than their radii allow, on cells and on the way between them."""
    engine = builders.begun("coopbench/Routing-v0", seed=seed, **CROWD)
    player = begun(engine, "astar_pibt:1")
    rounds = set()
    for _ in range(60):
        engine.step(player.act(engine.control.obs, engine.view()), DISABLED)
        cell = player._memory.team.cell[0]
        rounds.add(tuple(map(tuple, cell.tolist())))
    assert len(rounds) > 3
    centres, side = (
        engine.constants.map.centres,
        engine.constants.map.width / engine.constants.map.columns,
    )
    for cells in rounds:
        pairs = np.array(cells)
        assert len(set(pairs[:, NEXT])) == len(pairs)
        for share in np.linspace(0.0, 1.0, 11):
            at = (1 - share) * centres[pairs[:, NEXT]] + share * centres[pairs[:, AFTER]]
            gaps = np.linalg.norm(at[:, None] - at, axis=2)[~np.eye(len(at), dtype=bool)]
            assert gaps.min() > 2 * engine.constants.map.agent_rad_high
        moved = centres[pairs[:, AFTER]] - centres[pairs[:, NEXT]]
        assert abs(moved).max() < 1.01 * side
    assert measure(engine, "coordination")[0] == 1.0


def test_who_has_no_way_to_its_goal_has_the_lowest_priority():
    """Others would give way to it for ever: priorities rise with every round off the goal."""
    engine = builders.begun("coopbench/Routing-v0", 4, **OPEN)
    player = begun(engine, "astar_pibt")
    for _ in range(40):
        engine.step(player.act(engine.control.obs, engine.view()), DISABLED)
    team = player._memory.team
    away = np.take_along_axis(team.ways, team.cell[..., NEXT, None], 2)[..., 0]
    lost = away == np.iinfo(team.ways.dtype).max
    assert 0 < lost.sum() < lost.size
    assert team.rank[lost].max() < 1.0
    assert team.rank[~lost & (away > 0)].max() >= 1.0


@pytest.mark.parametrize(
    "task", [_pair(BAY, (2, 1), (2, 6)), _pair(DEAD_END, (2, 4), (2, 5))], ids=["bay", "dead end"]
)
def test_agents_trade_places_where_there_is_little_room(task):
    engine = played("Routing-v0", "greedy", 1, **task)
    assert measure(engine, "success_rate")[0] == 0.0
    engine = played("Routing-v0", "astar_pibt", 1, **task)
    assert engine.control.ended[0]
    assert measure(engine, "coordination")[0] == 1.0


@pytest.mark.parametrize(
    ("policy", "coordination"), [("astar_pibt", 1.0), ("prioritised_rrt_star", 0.95)]
)
def test_all_that_can_arrive_do(policy, coordination):
    engine = played("Routing-v0", policy, 4, **OPEN)
    reachable = _first_ways(4) < 65535
    assert engine.state.on_goal[reachable].mean() > 0.95
    assert measure(engine, "coordination").min() >= coordination


def test_teams_wait_for_agents_whose_forces_are_rounded():
    """Choices miss places by more than a planner takes for late where cells are small."""
    caves = {"num_rows": 40, "num_cols": 40, "agent_rad_range": (0.03, 0.03)}
    task = {"num_agents": 8, "map": "caves_cont", "map_params": caves}
    engine = played("Routing-v1", "astar_pibt", 4, action_levels=5, **task)
    assert measure(engine, "success_rate").min() == 1.0
    assert measure(engine, "wall_contacts").max() == 0.0


def test_rounded_forces_do_not_slow_teams_where_there_is_room():
    grid = {"num_rows": 10, "num_cols": 10, "obstacle_density": 0.1}
    task = {"num_agents": 8, "map": "random_grid", "map_params": grid, "horizon": 200}
    engine = played("Routing-v1", "astar_pibt", 8, action_levels=3, **task)
    assert measure(engine, "success_rate").mean() > 0.95


def test_paths_are_clear_and_short():
    """Lengths are near those over cells, which eight directions make up to 8 % too long."""
    engine, player = _planned("prioritised_rrt_star", lanes=4)
    memory, first, c = player._memory, _first_ways(4), engine.constants
    side, ratios = c.map.width / c.map.columns, []
    for lane in range(4):
        for agent in np.flatnonzero(memory.planned[lane]):
            path = memory.plan[lane, agent].astype(float)
            line = np.concatenate([path[:-1] + s * np.diff(path, axis=0) for s in (0, 0.5)])
            gaps = np.linalg.norm(line[:, None] - engine.state.landmark_pos[lane], axis=2)
            assert gaps.min() > c.map.landmark_rad + c.map.agent_rad_high
            length = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
            cells = first[lane, agent] * side / 5
            ratios.append(length / cells)
            np.testing.assert_allclose(path[-1], engine.state.goal_pos[lane, agent], atol=1e-6)
    assert len(ratios) > 15
    assert np.mean(ratios) < 1.05
    assert max(ratios) < 1.5  # who plans late goes around those before


@pytest.mark.parametrize("policy", PLANNERS)
def test_new_goals_are_planned_for(policy):
    engine = played("Routing-v1", policy, 2, on_goal="lifelong", **OPEN)
    assert (engine.state.arrivals.sum(1) > 2 * OPEN["num_agents"]).all()
