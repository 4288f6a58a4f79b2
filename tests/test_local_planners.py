"""Local planners of pathfinding: potential_field and orca, and the geometry that orca rests on."""

import numpy as np
import pytest
from episodes import begun
from hypothesis import given
from hypothesis import strategies as st

from coopbench.baselines.game import Game
from coopbench.baselines.planners.goal_pull import Pull
from coopbench.baselines.planners.potential_field import Objects
from coopbench.baselines.planners.velocity_obstacles import closest, exit_of, least_harm
from coopbench.baselines.registry import make_policy
from coopbench_envs import Engine
from coopbench_envs.drivers import DISABLED

PLANNERS = ("orca", "potential_field")
OBSTACLES = {"obstacle_density": 0.15, "grain_factor": 3}
GRID = np.stack(np.meshgrid(*[np.linspace(-1, 1, 81)] * 2), -1).reshape(-1, 2)
GRID = GRID[(GRID**2).sum(1) <= 1.0]

number = st.floats(-1.0, 1.0)
angle = st.floats(0.0, 2 * np.pi)


def _planes(drawn):
    return np.array([(np.cos(a), np.sin(a), b) for a, b in drawn]).reshape(-1, 3)


def _missing(planes, velocities):
    """By how much velocities (..., 2) violate the worst of the half-planes; 0: all hold."""
    return (planes[:, 2] - velocities @ planes[:, :2].T).max(-1, initial=0.0)


@given(st.lists(st.tuples(angle, number), max_size=8), number, number)
def test_closest_velocity_against_all_on_a_grid(drawn, x, y):
    planes, target = _planes(drawn), np.array([1.3 * x, 1.3 * y])
    done, *velocity = closest(planes, len(planes), 1.0, *target)
    held = planes[:done]
    assert _missing(held, np.array(velocity)) <= 1e-8
    assert np.hypot(*velocity) <= 1.0 + 1e-12
    allowed = GRID[_missing(held, GRID) <= 0.0]
    best = np.hypot(*(allowed - target).T).min(initial=np.inf)
    assert np.hypot(*(velocity - target)) <= best + 1e-8
    if done < len(planes):
        assert (_missing(planes[: done + 1], GRID) > 0.0).all()


@given(
    st.lists(st.tuples(angle, st.floats(-1.0, 0.0)), max_size=4),
    st.lists(st.tuples(angle, st.floats(0.0, 1.5)), min_size=1, max_size=6),
    number,
    number,
)
def test_least_harm_against_all_on_a_grid(walls, agents, x, y):
    planes = _planes(walls + agents)
    done, *velocity = closest(planes, len(planes), 1.0, x, y)
    assert done >= len(walls)  # what allows standing still can always be met
    velocity = np.array(
        least_harm(planes, np.zeros((12, 3)), len(walls), done, len(planes), 1.0, *velocity)
    )
    assert _missing(planes[: len(walls)], velocity) <= 1e-8
    assert np.hypot(*velocity) <= 1.0 + 1e-12
    allowed = GRID[_missing(planes[: len(walls)], GRID) <= 0.0]
    rest = planes[len(walls) :]
    assert _missing(rest, velocity) <= _missing(rest, allowed).min(initial=np.inf) + 1e-5


def _meets(p, v, reach, ahead):
    """Tell whether discs at distance ``p`` come together within ``ahead`` at velocity ``v``."""
    time = np.clip(v @ p / max(v @ v, 1e-300), 0.0, ahead)
    return np.hypot(*(p - v * time)) < reach


@given(st.floats(0.11, 1.0), angle, number, number, angle, st.floats(0.01, 0.99))
def test_exit_is_the_shortest_way_out_of_the_velocity_obstacle(far, direction, x, y, other, share):
    p, v = far * np.array([np.cos(direction), np.sin(direction)]), np.array([x, y])
    nx, ny, outside = exit_of(*p, *v, 0.1, 1.5, 0.16)
    normal = np.array([nx, ny])
    np.testing.assert_allclose(np.hypot(nx, ny), 1.0)
    inside = outside < 0.0
    if abs(outside) > 1e-6:
        assert _meets(p, v, 0.1, 1.5) == inside
        elsewhere = v + share * abs(outside) * np.array([np.cos(other), np.sin(other)])
        assert _meets(p, elsewhere, 0.1, 1.5) == inside
    beyond = v - (outside + np.array([[1e-6], [-1e-6]])) * normal
    assert _meets(p, beyond[0], 0.1, 1.5)
    assert not _meets(p, beyond[1], 0.1, 1.5)


def _begun(policy, lanes, state=None, seed=0, **parameters):
    engine = Engine("Routing-v0", lanes, **parameters)
    engine.reset(np.arange(seed, seed + lanes), state=state)
    return engine, begun(engine, policy)


def _act(engine, player):
    return player.act(engine.control.obs, engine.view())


def test_the_pull_of_a_goal_nearby_ends_on_it_after_one_step():
    """At the speed at which the force and the damping balance."""
    shares = np.array([0.4, 0.8])
    engine = Engine("Routing-v0", 1, num_agents=2, map_params={"obstacle_density": 0.0})
    c, starts = engine.constants, np.array([[-0.5, 0.0], [0.5, 0.0]])
    speeds = shares * c.drive.accel * c.drive.impulse / (1.0 - c.drive.retained)
    velocities = np.stack([0.0 * speeds, speeds], axis=1)
    goals = starts + velocities * c.drive.step_dt
    engine.reset(
        np.zeros(1), state={"agent_pos": starts, "agent_vel": velocities, "goal_pos": goals}
    )
    directions, efforts, _ = Pull(Game.of(engine), "test")(engine.control.obs)
    np.testing.assert_allclose(efforts[0, :, 0], shares, rtol=1e-5)
    engine.step(directions * efforts, DISABLED)
    np.testing.assert_allclose(engine.state.agent_pos[0], goals, atol=1e-7)


@pytest.mark.parametrize("policy", PLANNERS)
def test_two_agents_head_on_pass_without_contact(policy):
    ends = np.array([[[-0.6, 0.0], [0.6, 0.0]]])
    state = {"agent_pos": ends, "goal_pos": ends[:, ::-1]}
    map_params = {"obstacle_density": 0.0}
    engine, player = _begun(policy, 1, state, num_agents=2, map_params=map_params, horizon=150)
    while not engine.control.done.all():
        engine.step(_act(engine, player), DISABLED)
    assert engine.state.on_goal.all()
    assert engine.state.num_collisions.sum() == 0


@pytest.mark.parametrize("policy", PLANNERS)
def test_the_mirror_image_is_played_in_the_mirror(policy):
    """Away from ties, where one of two equal sides has to be taken."""
    mirror = np.array([-1.0, 1.0])
    settings = {"num_agents": 16, "map_params": {**OBSTACLES, "num_rows": 12, "num_cols": 12}}
    engine, _ = _begun(policy, 20, **settings)
    rng = np.random.default_rng(5)
    state = {
        "agent_pos": engine.state.agent_pos + rng.uniform(-0.05, 0.05, (20, 16, 2)),
        "agent_vel": rng.uniform(-0.2, 0.2, (20, 16, 2)),
        "goal_pos": engine.state.goal_pos + rng.uniform(-0.05, 0.05, (20, 16, 2)),
        "landmark_pos": engine.state.landmark_pos.copy(),
    }
    mirrored = {name: values * mirror for name, values in state.items()}
    one, other = (_act(*_begun(policy, 20, which, **settings)) for which in (state, mirrored))
    np.testing.assert_allclose(one, other * mirror, atol=1e-6)
    assert len(np.unique(one.round(6))) > 300  # not all straight to the goal, nor all at rest


@pytest.mark.parametrize("policy", PLANNERS)
def test_agents_on_their_goals_stay_there(policy):
    engine, _ = _begun(policy, 3, map_params=OBSTACLES, num_agents=32)
    state = {"goal_pos": engine.state.agent_pos.copy()}
    engine, player = _begun(policy, 3, state, map_params=OBSTACLES, num_agents=32)
    np.testing.assert_array_equal(_act(engine, player), 0.0)


def test_ways_around_are_taken_where_repulsion_exceeds_the_hold():
    taken = {}
    for parameters in ("hold=0.4", "hold=1000", "circulation=0"):
        policy = f"potential_field:{parameters}"
        taken[parameters] = _act(*_begun(policy, 3, map_params=OBSTACLES, num_agents=32))
    np.testing.assert_array_equal(taken["hold=1000"], taken["circulation=0"])
    assert (taken["hold=0.4"] != taken["circulation=0"]).any()


@pytest.mark.parametrize("policy", ["greedy", *PLANNERS, "astar_pibt", "prioritised_rrt_star"])
def test_other_games_are_refused(policy):
    for game in (Game.at("Routing-v0", dynamics="diffdrive"), Game.at("TrustDilemma-v0")):
        with pytest.raises(ValueError, match=f"'{policy}' cannot play {game.env_id}"):
            make_policy(policy, game)


def test_both_versions_show_the_same_closeness():
    """An obstacle 0.2 from touch, along x; the last one is out of sight."""
    old, new = Game.at("Routing-v0"), Game.at("Routing-v1")
    c = old.constants
    distance = 0.2 + c.map.agent_rad_high + c.map.landmark_rad
    first = np.zeros((1, 1, old.layout["objects"].stop), np.float32)
    length = (1.0 - (c.rules.window + c.map.landmark_rad) / distance) / (
        c.rules.window - c.map.agent_rad_high
    )
    first[0, 0, old.layout["objects"].start] = distance * length
    second = np.zeros((1, 1, new.layout["obstacles"].stop), np.float32)
    reach = c.rules.window + c.map.agent_rad_high + c.map.landmark_rad
    second[0, 0, new.layout["obstacles"].index][:3] = distance / reach, 0.0, 1.0
    for game, seen in ((old, first), (new, second)):
        away, closeness = Objects(game)(seen)
        k = closeness[0, 0, :, 0].argmax()
        np.testing.assert_allclose(closeness[0, 0, k], 1.0 - 0.2 / 0.25, rtol=1e-5)
        np.testing.assert_allclose(away[0, 0, k], (-1.0, 0.0), atol=1e-6)
        assert (np.delete(closeness[0, 0, :, 0], k) == 0.0).all()
