"""Routing-v1: what it promises beyond version 0, against independent computations."""

from types import SimpleNamespace

import builders
import numpy as np
import pytest
from episodes import measure

from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED
from coopbench_envs.pathfinding import routing, routing_v1
from coopbench_envs.pathfinding.dynamics import DIFFDRIVE, HOLONOMIC
from coopbench_envs.pathfinding.maps.common import ABSENT

ID = "coopbench/Routing-v1"
ROOMS = "......\n.##.#.\n.#..#.\n.####.\n......"
MAPS = {
    "open": {"num_agents": 6, "map_params": {"num_rows": 8, "num_cols": 8, "obstacle_density": 0}},
    "dense": {"num_agents": 8, "map_params": {"num_rows": 9, "num_cols": 7}},
    "very dense": {"num_agents": 2, "map_params": {"obstacle_density": 0.5}},
    "sizes": {"num_agents": 8, "map_params": {"agent_rad_range": (0.03, 0.09)}},
    "maze": {"map": "labmaze_grid", "num_agents": 8},
    "caves": {"map": "caves_cont", "num_agents": 8, "map_params": {"num_rows": 40, "num_cols": 40}},
    "rooms": {"map": "string_grid", "num_agents": 4, "map_params": {"map_str": ROOMS}},
    "city": {"map": "movingai", "num_agents": 4},
}


def play(engine, actions, steps=1):
    for _ in range(steps):
        engine.step(actions, DISABLED)


def metrics(engine, lane=0):
    return dict(zip(engine.spec.metrics, engine.control.measures[lane].tolist(), strict=True))


def present(engine, lane):
    landmarks = engine.state.landmark_pos[lane]
    return landmarks[landmarks[:, 0] != ABSENT]


def apart(one, other):
    return np.linalg.norm(one[:, None] - other, axis=-1)


@pytest.mark.parametrize("name", MAPS)
def test_agents_start_clear_and_can_reach_their_goals(name):
    engine = builders.begun(ID, 6, **MAPS[name])
    c, s = engine.constants, engine.state
    assert (measure(engine, "solvable") == 1).all()
    others = ~np.eye(c.num_agents, dtype=bool)
    for lane in range(6):
        start, goal, rad = s.agent_pos[lane], s.goal_pos[lane], s.agent_rad[lane]
        walls = present(engine, lane)
        assert (apart(start, walls) >= (rad + c.map.landmark_rad)[:, None] - 1e-9).all()
        touching = rad[:, None] + rad
        assert (apart(start, start) >= touching)[others].all()
        assert (apart(goal, goal) >= touching)[others].all()
        assert (np.linalg.norm(start - goal, axis=1) >= rad + s.goal_rad[lane]).all()
        part, cells = s.floor[lane], [apart(p, c.map.centres).argmin(1) for p in (start, goal)]
        assert (part[cells[0]] > 0).all()
        np.testing.assert_array_equal(part[cells[0]], part[cells[1]])


def test_a_goal_that_cannot_be_reached_shows():
    cells = {"agent_idx": ((0, 0), (4, 5)), "goal_idx": ((2, 2), (0, 5))}
    for rooms, share in ((ROOMS, 1.0), (ROOMS.replace(".##.#.", ".####."), 0.5)):
        map_params = {"map_str": rooms, **cells}
        engine = builders.begun(ID, map="string_grid", num_agents=2, map_params=map_params)
        assert metrics(engine)["solvable"] == share
    assert engine.state.reachable.tolist() == [[False, True]]
    # Nothing but the straight way bounds the way to a goal without one.
    straight = np.linalg.norm(engine.state.goal_pos - engine.state.agent_pos, axis=-1)[0, 0]
    assert engine.state.shortest[0, 0] == pytest.approx(straight - engine.state.goal_rad[0, 0])


@pytest.mark.parametrize("name", ["sizes", "maze", "caves", "rooms", "city"])
def test_the_way_left_bounds_the_straight_one_and_follows_from_the_state(name):
    engine, again = (builders.begun(ID, 4, **MAPS[name], on_goal="stay") for _ in range(2))
    rng = np.random.default_rng(2)
    for _ in range(60):
        engine.step(rng.uniform(-1, 1, engine.actions.shape), DISABLED)
    s = engine.state
    straight = np.linalg.norm(s.goal_pos - s.agent_pos, axis=-1) - s.goal_rad
    assert (s.way_left >= 0.985 * straight - 1e-9).all()  # diagonals count as 1.4 sides
    again.reset(np.arange(4), state=engine.get_state())
    np.testing.assert_array_equal(again.state.way_left, s.way_left)
    actions = rng.uniform(-1, 1, engine.actions.shape)
    for e in (engine, again):
        e.step(actions, DISABLED)
    np.testing.assert_array_equal(again.control.rewards, engine.control.rewards)


@pytest.mark.parametrize("on_goal", ["stay", "stop"])
def test_who_begins_on_its_goal_has_arrived(on_goal):
    engine = builders.begun(ID, on_goal=on_goal, **MAPS["open"])
    engine.reset(np.zeros(1), state={"goal_pos": engine.state.agent_pos.copy()})
    play(engine, np.zeros((1, 6, 2)))
    reached = metrics(engine)
    assert reached["success_rate"] == reached["ever_arrived"] == reached["spl"] == 1.0
    assert reached["makespan"] == reached["flowtime"] == reached["shortest_time"] == 0.0


# -- what is seen and measured -------------------------------------------------------------------


def test_official_instances_are_taken_as_they_are():
    engine = Engine(ID, 3, **MAPS["rooms"])
    width = engine.constants.map.columns
    arrays = {
        "agent_cell": np.array([[width + 1, width + 2, width + 3, width + 4]] * 3),
        "goal_cell": np.array([[width + 1, width + 2, width + 4, width + 3]] * 3),
    }
    engine.reset(np.arange(3), state=routing.placed(engine.constants, arrays))
    assert engine.state.on_goal.tolist() == [[True, True, False, False]] * 3
    np.testing.assert_allclose(
        engine.state.shortest[0], [0, 0, 0.1 - 0.012, 0.1 - 0.012], atol=1e-12
    )
    assert (engine.state.reachable).all()
    assert width == 8


def test_a_map_with_exactly_enough_room_is_played():
    wide = {"map": "string_grid", "map_params": {"map_str": ROOMS}}
    with pytest.raises(ValueError, match=r"num_agents was 60; allowed: num_agents <= \d+") as error:
        Engine(ID, num_agents=60, **wide)
    most = int(str(error.value).partition("num_agents <= ")[2].partition(",")[0])
    assert Engine(ID, num_agents=most, **wide).agents
    with pytest.raises(ValueError, match=f"allowed: num_agents <= {most},"):
        Engine(ID, num_agents=most + 1, **wide)


def test_the_top_speed_of_a_vehicle_is_the_larger_of_both_directions():
    numbers = {
        "code": [DIFFDRIVE, DIFFDRIVE, HOLONOMIC],
        "slowest": [-3.0, -1.0, 0.0],
        "fastest": [1.0, 2.0, 0.0],
        "accel": [0.0, 0.0, 8.0],
        "impulse": [1.0, 1.0, 1.0],
        "retained": [0.5, 0.5, 0.5],
        "max_speed": [-1.0, -1.0, 6.0],
    }
    drive = SimpleNamespace(**{name: np.array(row) for name, row in numbers.items()}, substeps=1)
    speeds = routing_v1.top_speeds(SimpleNamespace(drive=drive, horizon=10))
    assert speeds.tolist() == [3.0, 2.0, 6.0]
