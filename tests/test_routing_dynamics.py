"""Routing: angles, long steps, blocks of agents that move alike, and what its errors say."""

import math

import builders
import numpy as np
import pytest

from coopbench.baselines.game import Game
from coopbench.baselines.planners.greedy import Greedy
from coopbench_envs import Engine
from coopbench_envs.drivers import DISABLED
from coopbench_envs.pathfinding import angles, routing

ID = routing.SPEC.id
EMPTY = {"num_rows": 10, "num_cols": 10, "obstacle_density": 0.0}
DRIVE = {"linear_speed": [-0.2, 0.6], "angular_speed": [-1.0, 3.0]}
BLOCKS = [
    {"dynamics": "holonomic", "count": 2, "dynamics_params": {"accel": 10.0, "damping": 0.5}},
    {"dynamics": "diffdrive", "count": 2, "dynamics_params": DRIVE},
    {"dynamics": "holonomic", "count": 1, "dynamics_params": {"mass": 4.0}},
]


def close(value, expected, tolerance=1e-12):
    np.testing.assert_allclose(value, expected, rtol=0, atol=tolerance)


def mixed(blocks, num_agents=5, **more):
    return {
        "num_agents": num_agents,
        "dynamics": "mixed",
        "dynamics_params": {"blocks": blocks},
        "map_params": EMPTY,
        "frameskip": 0,
        **more,
    }


def placed(pos, angle, **parameters):
    """One game with agents far from walls at rest."""
    state = {"agent_pos": np.array(pos, float), "agent_angle": np.array(angle, float)}
    return builders.begun(ID, state=state, **parameters)


# -- angles --------------------------------------------------------------------------------------


def test_angles_are_exact_to_fifteen_digits():
    x = np.concatenate([np.linspace(-10, 10, 4001), np.pi / 4 * np.arange(-9, 10), [1e-12]])
    ours = np.array([angles.sine_cosine(value) for value in x])
    close(ours, np.stack([np.sin(x), np.cos(x)], -1), 1e-15)
    rng = np.random.default_rng(0)
    way = rng.normal(size=(2000, 2)) * 10.0 ** rng.integers(-9, 9, (2000, 2))
    ours = [angles.heading(dx, dy) for dx, dy in way]
    close(ours, np.arctan2(way[:, 1], way[:, 0]), 1e-15)
    assert [angles.heading(dx, dy) for dx, dy in ((0.0, 0.0), (-1.0, 0.0))] == [0.0, math.pi]
    ours = np.array([angles.wrapped(value) for value in x])
    assert (ours >= -math.pi).all()
    assert (ours < math.pi).all()
    close(np.exp(1j * ours), np.exp(1j * x), 1e-14)


def test_angles_within_a_turn_stay_as_they_are():
    x = np.concatenate([np.linspace(-np.pi, 3.14159, 1001), [-0.0, np.nextafter(-np.pi, 0)]])
    assert [angles.wrapped(value) for value in x] == list(x)


@pytest.mark.parametrize("dynamics", ["holonomic", "diffdrive"])
@pytest.mark.parametrize("speed", [1.0, 9.0])
def test_a_long_step_has_the_bits_of_many_short_ones(dynamics, speed):
    """Agents without contacts move alone, those with some together; fast ones need new lists."""
    ways = {"holonomic": {"accel": 5.0 * speed}, "diffdrive": {"linear_speed": [-speed, speed]}}
    parameters = {"num_agents": 24, "dynamics": dynamics, "dynamics_params": ways[dynamics]}
    long, short = (Engine(ID, 4, frameskip=k, horizon=500, **parameters) for k in (20, 0))
    start = builders.begun(ID, 4, **parameters)
    names = ("agent_pos", "agent_vel", "agent_angle", "goal_pos", "landmark_pos")
    state = {name: value for name, value in start.get_state().items() if name in names}
    for engine in (long, short):
        engine.reset(np.arange(4), state=state)
    rng = np.random.default_rng(0)
    for _ in range(8):
        actions = rng.uniform(-1, 1, long.actions.shape)
        long.step(actions, DISABLED)
        for _ in range(21):
            short.step(actions, DISABLED)
        for name in names:
            np.testing.assert_array_equal(long.get_state()[name], short.get_state()[name])
    assert long.get_state()["num_collisions"].sum() > 100


# -- blocks --------------------------------------------------------------------------------------


def test_only_driving_agents_of_a_mixture_have_a_heading():
    engine = builders.begun(ID, 9, **mixed(BLOCKS))
    assert (engine.state.agent_angle[:, [0, 1, 4]] == 0).all()
    way = engine.state.goal_pos - engine.state.agent_pos
    bearing = np.arctan2(way[..., 1], way[..., 0])
    close(engine.state.agent_angle[:, 2:4], bearing[:, 2:4])
    cells = {
        name: np.arange(5)[None] + first for name, first in (("agent_cell", 0), ("goal_cell", 50))
    }
    cells["obstacle_cell"] = np.zeros((1, 0), int)
    fields = routing.instances(engine.constants, cells)
    close(fields["agent_angle"][0], [0, 0, math.pi / 2, math.pi / 2, 0])


def test_lists_look_ahead_as_far_as_the_fastest_block_goes():
    slow = {"dynamics": "diffdrive", "dynamics_params": {"linear_speed": [-0.7, 0.1]}}
    engine = Engine(ID, **mixed([{"count": 4}, slow], frameskip=3))
    assert engine.constants.bins.skin == pytest.approx(2 * 0.7 * 0.04)


def test_greedy_pushes_each_block_as_hard_as_it_needs():
    gentle = {"count": 2, "dynamics_params": {"accel": 0.05}}
    game = Game.at(ID, **mixed([{"count": 3}, gentle], frameskip=15))
    near = np.zeros((1, 5, len(game.agents) + 3))
    near[..., 0] = 0.05
    forces, _ = Greedy(game, None).act(near, None)
    assert (forces[0, :3, 0] < 1).all()
    assert (forces[0, 3:, 0] == 1).all()
    with pytest.raises(ValueError, match=r"greedy.*holonomic"):
        Greedy(Game.at(ID, **mixed(BLOCKS)), None)


def test_picture_shows_where_driving_agents_look():
    pictures = []
    for angle in (0.0, 2.0):
        engine = placed(np.zeros((1, 2)), [angle], **mixed([{"dynamics": "diffdrive"}], 1))
        engine.reset(np.zeros(1), state={"agent_angle": np.full((1, 1), angle)})
        pictures.append(engine.spec.picture(engine.constants, engine.lane_state(), engine.agents))
    assert 5 < (pictures[0] != pictures[1]).any(-1).sum() < 400


# -- errors --------------------------------------------------------------------------------------


WRONG_BLOCKS = [
    ([], ("'blocks'", "dynamics 'mixed'", "[]", "num_agents=5")),
    ([{"count": 2}, {"count": 2}], ("[2, 2]", "together 4", "num_agents=5")),
    (3, ("'blocks'", "dynamics 'mixed'", "was 3", "a list")),
    ([{"dynamics": "mixed", "count": 5}], ("blocks[0]", "'mixed'", "diffdrive, holonomic")),
    ([{"count": 5, "dynamics_params": 4}], ("blocks[0]", "'dynamics_params'", "a mapping")),
]
WRONG_SECOND_BLOCKS = [
    ({"speed": 1}, ("blocks[1]", "diffdrive", "'speed'", "linear_speed")),
    ({"mass": -1}, ("blocks[1]", "diffdrive", "'mass'", "was -1")),
    ({"dt": 0.02}, ("blocks[1]", "'dt'", "0.02", "0.01", "blocks[0]")),
]
WRONG = [
    *((mixed(blocks), words) for blocks, words in WRONG_BLOCKS),
    *(
        (mixed([{"count": 4}, {"dynamics": "diffdrive", "dynamics_params": given}]), words)
        for given, words in WRONG_SECOND_BLOCKS
    ),
    (
        {"dynamics": "diffdrive", "dynamics_params": {"linear_speed": (1, -1)}},
        ("'linear_speed'", "dynamics 'diffdrive'", "(1, -1)", "lowest <= highest"),
    ),
]


@pytest.mark.parametrize(("parameters", "words"), WRONG)
def test_errors_name_the_block_and_the_dynamics(parameters, words):
    with builders.refused(*words, kind=(ValueError, TypeError)):
        Engine(ID, **parameters)
