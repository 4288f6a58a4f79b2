"""Routing: recorded trajectories, lists of neighbours that change no bit, instances and errors."""

import dataclasses
import json
import math
from pathlib import Path

import builders
import numpy as np
import pytest
from golden_folders import unpacked

import coopbench_envs
from coopbench_envs import Engine
from coopbench_envs.drivers import DISABLED
from coopbench_envs.parameters import describe
from coopbench_envs.pathfinding import contacts, dynamics, routing
from coopbench_envs.pathfinding.maps.common import ABSENT

ID = routing.SPEC.id
FOLDER = unpacked("routing")
RECORDINGS = sorted(file.stem for file in FOLDER.glob("*.npz"))
# Where one agent sees two objects in another order, or one instead of the other, at first.
TIED = ("labmaze_h21_w21_a8_c0.65", "diffdrive_8x8_a8")
SMALL = {"num_agents": 6, "map_params": {"num_rows": 5, "num_cols": 6, "obstacle_density": 0.2}}


@pytest.fixture(scope="module", params=RECORDINGS)
def recording(request):
    with np.load(FOLDER / f"{request.param}.npz") as file:
        arrays = {name: file[name] for name in file.files}
    still = np.zeros(arrays["agent_pos"].shape[:2])  # without heading
    return {"name": request.param, "agent_angle": still, **arrays}


def parameters(recording):
    return json.loads(str(recording["parameters"]))


def before(recording):
    """Recorded state before each step, lane by lane."""
    fixed = ("goal_pos", "landmark_pos", "agent_rad", "goal_rad")
    moving = ("agent_pos", "agent_vel", "agent_angle", "on_goal", "time_to_reach_goal")
    moving = [name for name in (*moving, "num_collisions") if name in recording]
    steps = len(recording["actions"])
    state = {
        name: np.broadcast_to(recording[name], (steps, *recording[name].shape)) for name in fixed
    }
    return state | {name: recording[name][:-1] for name in moving} | {"time": np.arange(steps)}


def close(value, recorded, tolerance):
    np.testing.assert_allclose(value, recorded, rtol=0, atol=tolerance)


# -- the published model -------------------------------------------------------------------------


def test_every_recorded_step_from_its_recorded_start(recording):
    steps = len(recording["actions"])
    engine = builders.begun(ID, steps, state=before(recording), **parameters(recording))
    engine.step(recording["actions"], DISABLED)
    state, control = engine.state, engine.control
    close(state.agent_pos, recording["agent_pos"][1:], 1e-5)
    close(state.agent_vel, recording["agent_vel"][1:], 5e-5)
    close(state.agent_angle, recording["agent_angle"][1:], 1e-5)
    close(control.rewards, recording["rewards"], 1e-5)
    close(state.time_to_reach_goal, recording["time_to_reach_goal"][1:], 1e-5)
    np.testing.assert_array_equal(state.on_goal, recording["on_goal"][1:])
    np.testing.assert_array_equal(state.collided, recording["collided"])
    np.testing.assert_array_equal(state.num_collisions, recording["num_collisions"][1:])
    np.testing.assert_array_equal(control.done, recording["done"])
    seen = len(recording["obs"]) - 1
    close(control.obs[:seen], recording["obs"][1:], 1e-5)


def test_initial_observations_with_their_ties(recording):
    first = {name: value[0] for name, value in before(recording).items()}
    engine = builders.begun(ID, state=first, **parameters(recording))
    off = np.abs(engine.control.obs[0] - recording["obs"][0]).max(-1) > 1e-5
    # One agent sees others of two landmarks that float32 cannot tell apart than the published code.
    objects = np.concatenate([recording["agent_pos"][0], recording["landmark_pos"]])
    for a in np.flatnonzero(off):
        distance = np.sort(np.hypot(*(objects - recording["agent_pos"][0, a]).T))
        nearest = engine.constants.rules.max_obs
        assert np.diff(distance[1 : nearest + 2]).min() < 1e-6
    assert off.sum() == (recording["name"] in TIED)


def test_final_metrics(recording):
    steps = len(recording["actions"])
    last = {name: value[-1] for name, value in before(recording).items()}
    engine = builders.begun(ID, state=last, **parameters(recording))
    engine.step(recording["actions"][-1:], DISABLED)
    assert engine.state.time[0] == steps
    np.testing.assert_allclose(list(engine.metrics().values()), recording["final"], rtol=1e-6)


def test_soft_plus_is_exact_to_fourteen_digits():
    x = np.concatenate([[0.0], np.geomspace(1e-12, 100, 4000), np.linspace(0, 45, 4001)])
    ours = np.array([contacts.softplus(value) for value in x])
    reference = np.array([value + math.log1p(math.exp(-value)) for value in x])
    np.testing.assert_allclose(ours, reference, rtol=1e-14)


# -- lists of neighbours --------------------------------------------------------------------------


def scattered(engine, spread, seed):
    """Random states over the middle part of the world, or beyond its walls, with random speeds."""
    rng = np.random.default_rng(seed)
    c, shape = engine.constants, engine.state.agent_pos.shape
    half = 0.5 * spread * np.array([c.map.width, c.map.height])
    engine.reset(
        np.arange(engine.lanes),
        state={
            "agent_pos": rng.uniform(-1.1, 1.1, shape) * half,
            "agent_vel": rng.normal(0, 0.3, shape),
            "agent_angle": np.pi * np.sin(np.arange(shape[1]) + np.arange(shape[0])[:, None]),
        },
    )
    return rng.uniform(-1, 1, shape)


def narrowed(c, changes):
    """Return the constants with other bins."""
    return c._replace(bins=c.bins._replace(**changes))


def variant(name, **changes):
    """Register Routing with other bins, which must not change a bit."""
    changed = dataclasses.replace(
        routing.SPEC,
        id=f"test/{name}-v0",
        constants=lambda p: narrowed(routing.constants(p), changes),
    )
    coopbench_envs.register(changed)
    return changed.id


BLOCKS = [
    {"count": 4},
    {"dynamics": "diffdrive", "count": 3, "dynamics_params": {"linear_speed": [-0.1, 0.4]}},
    {"count": 3, "dynamics_params": {"accel": 9.0, "max_speed": 0.1, "mass": 2.0}},
]
MOVES = [{}, {"dynamics": "mixed", "dynamics_params": {"blocks": BLOCKS}}]


@pytest.mark.parametrize(
    "changes",
    [{"room": 3}, {"skin": 0.0}, {"skin": 1.5}, {"per_length": 9.0, "along_x": 40, "along_y": 30}],
    ids=["no room", "no skin", "thick skin", "fine bins"],
)
@pytest.mark.parametrize("moves", MOVES, ids=["holonomic", "mixed"])
def test_lists_change_no_bit(changes, moves):
    """Recordings say which pairs meet; without room, all pairs are looked at."""
    name = "".join(word.capitalize() for word in "_".join([*changes, *moves]).split("_"))
    fills = "room" in changes or changes.get("skin") == 1.5
    other = variant(f"Routing{name}{round(10 * next(iter(changes.values())))}", **changes)
    runs = []
    for env_id in (ID, other):
        engine = Engine(env_id, 8, **{**SMALL, "num_agents": 10, **moves})
        actions = scattered(engine, 0.6, 9)
        assert engine.state.crowded.any() == (fills and env_id == other)
        hashes = []
        for _ in range(12):
            engine.step(actions, DISABLED)
            hashes.append((engine.state.agent_pos.tobytes(), engine.control.obs.tobytes()))
        runs.append(hashes)
    assert runs[0] == runs[1]


OPEN = {
    "map": "string_grid",
    "map_params": {"map_str": ("." * 20 + "\n") * 20, "add_border": False},
}
UNIT = {"accel": 1.0, "damping": 1.0, "mass": 1.0, "dt": 0.1, "max_speed": 0.1}
ANGLES = np.linspace(0, 2 * np.pi, 200)
DIRECTIONS = np.stack((np.cos(ANGLES), np.sin(ANGLES)), axis=1)[:, None]
EXTREMES = {
    "the limit is the speed that forces reach": (
        {"frameskip": 0, "dynamics_params": UNIT},
        {},
        1.0,
    ),
    "at the limit without damping": (
        {"window": 1.0, "dynamics_params": {"damping": 0.0, "max_speed": 1.0}},
        {"agent_vel": np.broadcast_to([1.0, 0.0], (200, 1, 2))},
        1e-9,
    ),
    "where positions are coarse": (
        {"num_agents": 2, "dynamics_params": {"max_speed": 0.11}},
        {
            "agent_pos": [[2.0**43, 0.0], [2.0**43 + 50 * 2.0**-9, 0.0]],
            "agent_vel": [[0.1, 0.0], [-0.1, 0.0]],
            "agent_rad": [0.03, 0.03],
        },
        np.array([[[0.5, 0.0], [-0.5, 0.0]]]),
    ),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_agents_alone_move_as_together(name):
    """Without a skin no agent moves alone."""
    given_parameters, state, size = EXTREMES[name]
    other = variant("RoutingTogether" + "".join(filter(str.isalpha, name.title())), skin=0.0)
    runs = []
    for env_id in (ID, other):
        engine = Engine(env_id, 200, **{"num_agents": 1, **OPEN, **given_parameters})
        engine.reset(np.arange(200), state=state)
        for _ in range(3):
            engine.step(DIRECTIONS * size, DISABLED)
        fields = (engine.state.agent_pos, engine.state.agent_vel, engine.state.num_collisions)
        runs.append([np.ascontiguousarray(field).tobytes() for field in fields])
    assert runs[0] == runs[1]


def test_an_absent_landmark_pushes_nobody_in_a_crowded_lane():
    walls = ("." * 20 + "\n") * 19 + "." * 20
    maps = {"map_str_batch": [walls, walls.replace(".", "#", 12)], "add_border": False}
    engine = Engine(ID, 2, num_agents=64, window=1.0, map="batched_string_grid", map_params=maps)
    engine.reset(np.arange(2))
    places = np.random.default_rng(0).uniform(-0.03, 0.03, engine.state.agent_pos.shape)
    places[:, 0] = ABSENT + 0.01, ABSENT
    engine.reset(np.arange(2), state={"agent_pos": places})
    assert engine.state.crowded.all()
    engine.step(np.zeros(places.shape), DISABLED)
    assert (engine.state.landmark_pos[:, :, 0] == ABSENT).any()
    assert not engine.state.hit_wall[:, 0].any()


# -- instances, episodes -------------------------------------------------------------------------


def test_landmarks_are_where_the_recordings_have_them(recording):
    """Rebuilds the recorded instance from its cells: order of discs and walls, up to float32."""
    engine = Engine(ID, **parameters(recording))
    c = engine.constants

    def cell(points):
        nearest = [np.abs(c.map.centres - point).sum(-1).argmin() for point in points]
        return np.array(nearest, int)[None]

    start, landmarks = recording["agent_pos"][0], recording["landmark_pos"].copy()
    landmarks[landmarks[:, 0] == -100] = ABSENT  # where the published code puts discs aside
    arrays = {
        "agent_cell": cell(start),
        "goal_cell": cell(recording["goal_pos"]),
        "agent_rad": recording["agent_rad"][None],
        "goal_rad": recording["goal_rad"][None],
    }
    if len(c.map.outline):
        arrays["obstacle_cell"] = cell(landmarks[: c.map.num_obstacles] - c.map.outline[0])
    else:
        arrays["map_index"] = np.abs(c.map.discs - landmarks).max((1, 2)).argmin()[None]
        drawn_from = set(c.map.free[arrays["map_index"][0]])
        assert {*arrays["agent_cell"][0], *arrays["goal_cell"][0]} <= drawn_from
    fields = routing.instances(c, arrays)
    close(fields["agent_pos"][0], start, 1e-6)
    close(fields["goal_pos"][0], recording["goal_pos"], 1e-6)
    close(fields["landmark_pos"][0], landmarks, 1e-6)
    assert c.drive.step_dt * (c.horizon - 1) == c.rules.max_time
    close(c.rules.max_time, recording["time_to_reach_goal"][0], 1e-5)


@pytest.mark.parametrize(
    ("env_id", "given_parameters", "words"),
    [
        (ID, {"num_agents": 200}, ("num_agents was 200", "400 cells", "num_agents <= 160")),
        (ID, {"map_params": {"obstacle_density": 0.99}}, ("obstacle_density=0.99", "<= 0.96")),
        (ID, {"map_params": {"grain": 3}}, ("'grain'", "map 'random_grid'", "grain_factor")),
        (
            ID,
            {"map_params": {"agent_rad_range": (0.1, 0.05)}},
            ("'agent_rad_range'", "0 < low <= high"),
        ),
        (ID, {"window": 0.05}, ("'window'", "was 0.05", "radius up to 0.05")),
        ("Routing-v1", {"max_obs": 3}, ("'max_obs'", "Routing-v1", "max_obstacles")),
        (
            "Routing-v1",
            {
                "map": "string_grid",
                "map_params": {"map_str": "...\n...\n...", "agent_rad_range": (0.06, 0.06)},
            },
            ("map 'string_grid' has 1 free cells", "radius 0.06", "num_agents <= 1"),
        ),
    ],
)
def test_errors_say_what_was_given_and_what_is_allowed(env_id, given_parameters, words):
    with builders.refused(*words, kind=(ValueError, TypeError)):
        Engine(env_id, **given_parameters)


@pytest.mark.parametrize(
    ("env_id", "chosen", "allowed"),
    [
        (ID, {"map_params": {"obstacle_density": 1.0}}, "Allowed: obstacle_density <= 0.96, or"),
        (ID, {"num_agents": 300}, "Allowed: num_agents <= 160, or more rows"),
        (
            ID,
            {"num_agents": 300, "map_params": {"obstacle_density": 1.0}},
            "Allowed: more rows and columns",
        ),
        (
            ID,
            {"map": "caves_cont", "map_params": {"free_ratio": 0.0}},
            "allowed: more free cells",
        ),
        (
            "Routing-v1",
            {
                "map": "string_grid",
                "map_params": {"map_str": "...\n...\n...", "agent_rad_range": (0.16, 0.16)},
            },
            "allowed: a smaller 'agent_rad_range', or a wider map",
        ),
    ],
)
def test_errors_allow_nothing_that_does_not_help(env_id, chosen, allowed):
    with pytest.raises(ValueError, match=allowed) as error:
        Engine(env_id, **chosen)
    assert "<= 0," not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"agent_cell": None}, ("'agent_cell'", "goal_cell, obstacle_cell")),
        ({"agent_cell": np.zeros((2, 3), int)}, ("'agent_cell'", "(episodes, 6)", "(2, 3)")),
        ({"goal_cell": np.full((2, 6), 30)}, ("'goal_cell'", "[0, 29]", "30 to 30")),
        ({"obstacle_cell": np.zeros((3, 6), int)}, ("number of episodes", "2, 2 and 3")),
    ],
)
def test_instance_errors(changes, words):
    arrays = {name: np.zeros((2, 6), int) for name in ("agent_cell", "goal_cell", "obstacle_cell")}
    arrays = {name: value for name, value in (arrays | changes).items() if value is not None}
    with builders.refused("random_grid", *words):
        routing.instances(Engine(ID, **SMALL).constants, arrays)


def test_instances_need_radii_that_the_map_would_draw():
    sizes = {"num_rows": 7, "num_cols": 4, "agent_rad_range": (0.02, 0.15)}
    constants = Engine(ID, **{**SMALL, "map_params": sizes}).constants
    arrays = {name: np.zeros((1, 6), int) for name in ("agent_cell", "goal_cell")}
    arrays["obstacle_cell"] = np.full((1, constants.map.num_obstacles), 20)
    with pytest.raises(ValueError, match="agent_rad"):
        routing.instances(constants, arrays)


def test_page_documents_the_parameters_of_maps_and_dynamics():
    folder = Path(__file__).parents[1] / "docs/environments"
    page = "".join((folder / name).read_text("utf-8") for name in ("routing.md", "routing_maps.md"))
    maps = [generator.params for generator in routing.MAPS.values()]
    for params in (*maps, *routing.DYNAMICS.values(), dynamics.Block):
        for name, (_, default, allowed) in describe(params).items():
            assert f"| `{name}` | `{default}` |" in page
            assert f"| {allowed.text} |" in page


# -- pictures ------------------------------------------------------------------------------------


def test_the_text_shows_the_state():
    engine = Engine(ID, **SMALL)
    scattered(engine, 0.2, 1)
    engine.step(np.zeros((1, 6, 2)))
    page = engine.spec.text(engine.constants, engine.lane_state(), engine.agents)
    assert page.startswith("step 1 / 1000")
    assert "x" in page.split("\n", 1)[1]
    assert page.count("#") > 20
