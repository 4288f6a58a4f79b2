"""Rail: recordings of flatland-rl bit for bit, networks, deadlocks and bad input."""

import csv
import json
from collections import namedtuple
from types import SimpleNamespace

import builders
import numpy as np
import pytest
import rail_networks
import rail_recordings as recordings
from golden_folders import unpacked

from coopbench_envs.arrays import unpack
from coopbench_envs.engine import DISABLED, Engine
from coopbench_envs.parameters import resolve
from coopbench_envs.rail import importing, instances, motion, rail
from coopbench_envs.rail.cells import FORWARD, TYPES, follow, steps
from coopbench_envs.rail.distances import distances_at
from coopbench_envs.rail.rewards import NEVER, NO_VISIT, pay_stops
from coopbench_envs.rail.trains import ARRIVED, BROKEN_OFF_MAP, GRANTED

FOLDER = unpacked("rail")
RAIL = "coopbench/Rail-v0"
EPISODES = sorted(path.stem for path in FOLDER.glob("g*.npz"))
OBSERVED = sorted(path.stem for path in (FOLDER / "obs").glob("*.npz"))
SPEEDS = {"1": 0.4, "1/2": 0.2, "1/3": 0.2, "1/4": 0.2}
SHORT = {"num_agents": 6, "malfunction_rate": 0.02, "malfunction_duration": (2, 6)}


def loaded(name, **parameters):
    """Return an engine at the start of a recorded episode, and the recording."""
    arrays, meta = recordings.load(FOLDER / f"{name}.npz")
    engine = Engine(RAIL, **recordings.parameters(arrays, meta, **parameters))
    start(engine, recordings.instance(arrays))
    return engine, arrays


def start(engine, instance):
    fields = engine.spec.instances(engine.constants, instance, reachable=False)
    first = {name: values[0] for name, values in fields.items()}
    engine.reset(np.arange(engine.lanes), state=first)


def recorded_actions(arrays, t):
    return np.where(arrays["action_given"][t], arrays["actions"][t], 0)[None].astype(np.int64)


def as_recorded(engine):
    """Return the state of a lane under the names and in the units of a recording."""
    c, s = engine.constants, engine.state
    on_map = (s.status[0] > BROKEN_OFF_MAP) & (s.status[0] < ARRIVED)
    cell = s.place[0] >> 2
    positions = np.stack([cell // c.map.columns - 1, cell % c.map.columns - 1], axis=-1)
    return {
        "state": s.status[0],
        "pos": np.where(on_map[:, None], positions, -1),
        "dir": np.where(on_map, s.place[0] & 3, -1),
        "malf_counter": s.broken[0],
        "cell_entry": s.fresh[0],
        "stopped": s.verdict[0] != GRANTED,
        "deadlocked": s.swapping[0],
        "arrival": s.arrival[0],
        "rewards": engine.control.rewards[0],
        "done_all": engine.control.done[0],
        "action_required": engine.info()["action_required"][0],
    }


# --- recordings ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EPISODES)
def test_recorded_episodes_are_reproduced_bit_for_bit(name):
    engine, arrays = loaded(name)
    unit = engine.constants.drive.unit
    for t in range(len(arrays["actions"])):
        engine.step(recorded_actions(arrays, t), DISABLED)
        for field, values in as_recorded(engine).items():
            np.testing.assert_array_equal(values, arrays[field][t], err_msg=f"{field}, step {t}")
        for field in ("speed", "distance"):
            over, under = arrays[field][t].T
            units = getattr(engine.state, field)[0]
            np.testing.assert_array_equal(units * under, over * unit, err_msg=f"{field}, {t}")
        if not arrays["done_all"][t]:
            arrived = engine.state.status[0] == ARRIVED
            np.testing.assert_array_equal(arrived, arrays["dones"][t], err_msg=f"dones, {t}")
            np.testing.assert_array_equal(arrived, ~engine.control.alive[0].astype(bool))
    assert engine.control.done[0]


@pytest.mark.parametrize("name", EPISODES)
def test_distance_maps_equal_the_recorded_ones(name):
    engine, arrays = loaded(name)
    c, s = engine.constants, engine.state
    maps = s.distances[0][s.map_of[0][:, None] + s.numbers[0]]
    maps = maps.reshape(-1, c.map.height + 2, c.map.width + 2, 4)
    np.testing.assert_array_equal(maps[:, 1:-1, 1:-1], arrays["distance_map"])
    stations = {(*t, *d) for t, d in zip(*targets(arrays), strict=True)}
    assert s.map_of.max() == len(stations) * s.row_length[0]


def test_distances_that_have_no_room_are_searched_when_they_are_asked_for(monkeypatch):
    parameters = {"num_agents": 8, "height": 40, "width": 40, "cities": 4, "line_length": 3}
    whole = builders.begun(RAIL, lanes=2, **parameters)
    monkeypatch.setattr(rail, "room", lambda trains, cells: 3 * int(whole.state.row_length.min()))
    short = builders.begun(RAIL, lanes=2, **parameters)
    assert (short.state.map_of == 0).any(axis=1).all()
    for t in range(20):
        np.testing.assert_array_equal(short.control.obs, whole.control.obs, err_msg=str(t))
        for engine in (short, whole):
            engine.step(np.full((2, 8), FORWARD))
    with pytest.raises(ValueError, match="room for distances to at most 1 of its targets; train"):
        distances_at(short.state, short.state.place)


def targets(arrays):
    return arrays["target"].tolist(), arrays["target_dirs"].tolist()


@pytest.mark.parametrize("name", OBSERVED)
@pytest.mark.parametrize("observation", ["tree_raw", "tree", "global"])
def test_recorded_observations_are_reproduced_bit_for_bit(name, observation):
    with np.load(FOLDER / "obs" / f"{name}.npz") as stored:
        observed = {key: stored[key] for key in stored.files}
    meta = json.loads(str(observed["meta"]))
    engine, arrays = loaded(meta["source"], observation=observation, tree_depth=meta["depth"])
    field = {"tree_raw": "obs", "tree": "obs_norm", "global": "global_obs"}[observation]
    times = observed["global_t" if observation == "global" else "t"].tolist()
    for t in range(max(times) + 1):
        if t in times:
            expected = observed[field][times.index(t)]
            seen = engine.control.obs[0]
            if observation == "global":
                seen = picture_of(engine, arrays["grid"])
            np.testing.assert_array_equal(seen, expected, err_msg=f"step {t}")
        engine.step(recorded_actions(arrays, t), DISABLED)


def picture_of(engine, grid):
    """Return the channels of trains and targets; those of rails must be the bits of the cells."""
    parts = {name: part.view(engine.control.obs[0]) for name, part in engine.layout.items()}
    bits = (grid[..., None] >> np.arange(15, -1, -1)) & 1
    np.testing.assert_array_equal(parts["rails"], np.broadcast_to(bits, parts["rails"].shape))
    return np.concatenate([parts["trains"], parts["targets"]], axis=-1)


# The fields of a state that motion needs, of one lane with 16 trains.
Claims = namedtuple("Claims", "held claim verdict swapping holder winner order")


def test_motion_cases():
    with np.load(FOLDER / "motion_cases.npz") as stored:
        cases = {name: stored[name] for name in stored.files}
    trains = [np.zeros((1, 16), np.int64) for _ in range(4)]
    order = np.arange(16)[None].copy()
    claims = Claims(*trains, *(np.full((1, 64), -1) for _ in range(2)), order)
    for first, last in zip(cases["ptr"], cases["ptr"][1:], strict=False):
        n, rows = last - first, slice(first, last)
        claims.held[0, :n], claims.claim[0, :n] = cases["cur"][rows], cases["new"][rows]
        motion.resolve_claims(claims, 0, n)
        denied = claims.verdict[0, :n] != GRANTED
        np.testing.assert_array_equal(denied, cases["stopped"][rows])
        np.testing.assert_array_equal(claims.swapping[0, :n], cases["deadlocked"][rows])
        assert (claims.holder == -1).all()
        assert (claims.winner == -1).all()


def test_action_table():
    with (FOLDER / "action_table.csv").open() as file:
        rows = [{key: int(value) for key, value in row.items()} for row in csv.DictReader(file)]
    assert {row["cell"] for row in rows} == set(TYPES)
    delta, middle = steps(5), 12
    for row in rows:
        rail = np.full((1, 25), 0b1000_0100_0010_0001)  # can be entered with every heading
        rail[0, middle] = row["cell"]
        ahead = follow(rail, 0, delta, 4 * middle + row["dir"], row["action"])
        assert (ahead >= 0) == bool(row["applied_ok_if_next_cell_enterable"]), row
        if ahead >= 0:
            assert ahead == 4 * (middle + delta[row["new_dir"]]) + row["new_dir"], row
            assert ((ahead & 1) == row["dir"] & 1) == bool(row["straight"]), row


# --- networks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", rail_networks.SIZES)
def test_networks_keep_what_the_page_promises(size):
    engine = builders.begun(RAIL, 300, observation="none", **rail_networks.SIZES[size])
    rail_networks.check(engine)
    engine.state.rail[7, engine.state.target[7, 0]] = 0  # what leads there lacks its counterpart
    with pytest.raises(AssertionError, match="counterpart"):
        rail_networks.check(engine)


@pytest.mark.parametrize("cities", [0, 4])
def test_a_grid_has_as_many_cities_as_asked(cities):
    size = {"height": 42, "width": 21, "cities": cities, "line_length": max(2, cities)}
    engine = builders.begun(RAIL, grid_mode=True, **size)
    assert len(engine.constants.plan.grid_centres) == cities
    if cities:
        rail_networks.check(engine)
    seen = engine.control.obs.copy()
    engine.restore(engine.get_state())
    np.testing.assert_array_equal(engine.control.obs, seen)


# --- rules ---------------------------------------------------------------------------------------


def test_deadlocks_agree_with_a_search_in_python():
    engine, arrays = loaded("g05_spnoise_30x30_n20_deadlocks")
    values = set()
    for t in range(len(arrays["actions"])):
        engine.step(recorded_actions(arrays, t), DISABLED)
        on_map = np.isin(engine.state.status[0], (3, 4, 5)).sum()
        stuck = rail_networks.stuck_trains(engine.constants, engine.lane_state()).sum()
        assert engine.metrics()["deadlocked"] == pytest.approx(stuck / max(on_map, 1))
        values.add(int(stuck))
    assert len(values) > 2


def test_illegal_actions_equal_doing_nothing_in_all_states_of_40_episodes():
    """One engine hands illegal actions to the kernel, the other does nothing instead."""
    parameters = SHORT | {"num_agents": 12, "speeds": SPEEDS, "level_free": 1.0}
    free, masked = (builders.begun(RAIL, 40, observation="none", **parameters) for _ in range(2))
    rng, illegal = np.random.default_rng(0), 0
    while not masked.control.done.all():
        actions = rng.choice(5, size=(40, 12), p=[0.1, 0.2, 0.4, 0.2, 0.1])
        legal = np.take_along_axis(masked.control.masks, actions[..., None], axis=2)[..., 0] == 1
        illegal += int((~legal & ~masked.control.done[:, None]).sum())
        free.control.masks[:] = 1
        free.step(actions, DISABLED)
        masked.step(np.where(legal, actions, 0), DISABLED)
        np.testing.assert_array_equal(free.control.rewards, masked.control.rewards)
        for name in free.fields:
            values = getattr(free.state, name, None)
            if values is not None:
                np.testing.assert_array_equal(values, getattr(masked.state, name), err_msg=name)
    assert illegal > 2_000
    assert (free.control.invalid == 0).all()


# --- interfaces ----------------------------------------------------------------------------------


@pytest.mark.parametrize("observation", ["tree", "tree_raw", "global", "short", "none"])
def test_observations_lie_in_their_space(observation):
    engine = builders.begun(RAIL, observation=observation, seed=2, **SHORT)
    rng = np.random.default_rng(2)
    for _ in range(40):
        for space, seen in zip(engine.observation_spaces, engine.control.obs[0], strict=True):
            assert space.contains(seen)
        engine.step(rng.choice([1, 2, 2, 2, 3], size=(1, 6)), DISABLED)


# --- bad input -----------------------------------------------------------------------------------


def damaged(name, index, value):
    arrays, _ = recordings.load(FOLDER / "g01_sp_25x25_n5.npz")
    instance = {key: np.array(array) for key, array in recordings.instance(arrays).items()}
    instance[name][index] = value
    return instance


@pytest.mark.parametrize(
    ("name", "index", "value", "words"),
    [
        ("grid", (8, 5), 7, r"cell \(8, 5\) has the code 7"),
        ("grid", (9, 0), 0, "without a counterpart"),
        ("init_pos", 0, (0, 0), r"train 0 starts at \(0, 0\), where there is no rail"),
        ("init_dir", 0, 0, "which that cell does not have"),
        ("target", 2, (0, 0), r"the target of train 2, \(0, 0\), is off the rails"),
        ("target_dirs", 2, (1, 0, 0, 0), "is reached with headings"),
        ("max_speed", 1, (2, 1), "train 1 has the max_speed 2/1"),
        ("max_speed", 1, (1, 7), "no multiple of 1/12"),
        ("max_episode_steps", (), 44, "its limit is 44 steps; allowed: 1 to 43"),
        ("max_episode_steps", (), 0, "its limit is 0 steps; allowed: 1"),
        ("latest_arrival", 1, -5, "train 1 is due at step -5; allowed: 0"),
    ],
)
def test_bad_instances(name, index, value, words):
    engine, _ = loaded("g01_sp_25x25_n5")
    with pytest.raises(ValueError, match=words):
        engine.spec.instances(engine.constants, damaged(name, index, value))


ROW = [0, 1, 8, 5, 0, -1, -1]  # train, stop, row, column, heading, departure, arrival


@pytest.mark.parametrize(
    ("leading", "changes", "words"),
    [
        (True, {"max_episode_steps": np.array([[43, 43]])}, r"'max_episode_steps' must .*\(2,\)"),
        (True, {"init_dir": np.zeros(1, int)}, "'init_dir' must be whole numbers with 1 axes"),
        (True, {"grid": np.zeros((2, 25, 25), int)}, r"'init_pos' .*\(1, 5, 2\), 'grid' \(2, 25"),
        (False, {"init_speed": np.ones((4, 2), int)}, r"\(5, 2\); given .* shape \(4, 2\)"),
        (False, {"grid": np.full((25, 25), 0.5)}, r"'grid' must be .*\(25, 25\); given float64"),
        (False, {"waypoints": np.array([ROW[:5]])}, r"\(1, 7\); given .* shape \(1, 5\)"),
        (False, {"level_free": np.array([[8, 5, 0]])}, r"\(1, 2\); given .* shape \(1, 3\)"),
        (False, {"waypoints": np.array([[0, -1, *ROW[2:]], ROW])}, "train 0 has a stop -1; allow"),
    ],
)
def test_arrays_of_other_forms_are_refused_as_instances(leading, changes, words):
    """With an axis of episodes or, for one of them, without it."""
    recording, meta = recordings.load(FOLDER / "g01_sp_25x25_n5.npz")
    chosen = recordings.parameters(recording, meta)
    constants = rail.SPEC.constants(resolve(rail.SPEC.params, chosen, RAIL))
    instance = recordings.instance(recording)
    assert len(rail.SPEC.instances(constants, instance)["limit"]) == 1
    if leading:
        instance = {name: np.asarray(array)[None] for name, array in instance.items()}
    with pytest.raises(ValueError, match=words):
        rail.SPEC.instances(constants, instance | changes)


def test_stops_are_numbered_from_the_start_of_a_line():
    """Both ends of a line may be listed; they are no intermediate stops."""
    recording, meta = recordings.load(FOLDER / "g01_sp_25x25_n5.npz")
    chosen = recordings.parameters(recording, meta, line_length=3)
    constants = rail.SPEC.constants(resolve(rail.SPEC.params, chosen, RAIL))
    instance = recordings.instance(recording)
    (row, column), heading = instance["init_pos"][0].tolist(), int(instance["init_dir"][0])
    rows = [[0, stop, row, column, heading, -1, -1] for stop in range(3)]
    fields = rail.SPEC.instances(constants, instance | {"waypoints": np.array(rows)})
    assert fields["stop_place"].shape == (1, 5, 1, 4)
    assert (fields["stop_place"] >= 0).sum() == 1
    assert fields["stop_place"][0, 0, 0, 0] == fields["start"][0, 0]


@pytest.mark.parametrize(("env", "kept"), [(RAIL, [5, 9]), ("coopbench/Rail-v1", [5, 7, 9])])
def test_strikes_on_a_broken_train_are_left_out_unless_play_decides_where_it_is(env, kept):
    recording, meta = recordings.load(FOLDER / "g01_sp_25x25_n5.npz")
    settings = recordings.parameters(
        recording, meta, malfunction_rate=0.1, malfunction_duration=(2, 6)
    )
    for name in () if env == RAIL else ("acceleration", "braking", "line_length"):
        del settings[name]
    engine = Engine(env, **settings)
    strikes = np.array([[9, 0, 2], [5, 0, 4], [7, 0, 3]])  # step, train, length
    instance = recordings.instance(recording) | {"strikes": strikes}
    fields = engine.spec.instances(engine.constants, instance)
    times = fields["strike_time"][0, 0]
    assert times[: len(kept) + 1].tolist() == [*kept, instances.FAR]


def test_bad_strikes_trains_and_ways():
    engine, arrays = loaded("g01_sp_25x25_n5")
    instance = recordings.instance(arrays)
    with pytest.raises(ValueError, match="strikes train 9 at step 3; there are 5 trains"):
        engine.spec.instances(engine.constants, instance | {"strikes": np.array([[3, 9, 2]])})
    with pytest.raises(ValueError, match="train 0 has more than 0 malfunctions"):
        engine.spec.instances(engine.constants, instance | {"strikes": np.array([[3, 0, 2]])})
    few = Engine(
        RAIL,
        **recordings.parameters(*recordings.load(FOLDER / "g01_sp_25x25_n5.npz"), num_agents=4),
    )
    with pytest.raises(ValueError, match="it has 5 trains; num_agents of the task is 4"):
        few.spec.instances(few.constants, instance)
    with pytest.raises(ValueError, match="need the array 'grid'"):
        engine.spec.instances(engine.constants, {})
    fuzz, arrays = loaded("gf00_fuzz")
    with pytest.raises(ValueError, match=r"train 0 starts at \(4, 4\) and cannot reach its target"):
        fuzz.spec.instances(fuzz.constants, recordings.instance(arrays))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"speeds": {"1": 0.5}}, "shares add up to 0.5"),
        ({"speeds": {"fast": 1.0}}, "a fraction above 0"),
        ({"height": 25, "width": 25, "rail_pairs_in_city": 3}, "only 1 would fit on 25 x 25"),
        ({"cities": 50}, "'cities' of coopbench/Rail was 50, but only 4 would fit on 30 x 30"),
        ({"line_length": 3}, "line_length"),
    ],
)
def test_bad_parameters(parameters, words):
    with pytest.raises(ValueError, match=words):
        Engine(RAIL, **parameters)


# --- importing -----------------------------------------------------------------------------------


def test_a_folder_of_recordings_becomes_instances_that_play_alike(tmp_path):
    names = ("g20_make_simple_rail", "g22_make_simple_rail2")
    for name in names:
        (tmp_path / f"{name}.npz").write_bytes((FOLDER / f"{name}.npz").read_bytes())
    out = tmp_path / "instances" / "rail.npz"
    out.parent.mkdir()
    importing.import_railways(tmp_path, out)
    first = out.read_bytes()
    importing.import_railways(tmp_path, out)  # an earlier result is no railway
    assert out.read_bytes() == first
    arrays = unpack(out)
    engine = Engine(RAIL, **importing.task_of(arrays), observation="none")
    fields = engine.spec.instances(engine.constants, arrays)
    for k, name in enumerate(names):
        engine.reset(np.zeros(1), state={key: values[k] for key, values in fields.items()})
        recording, _ = recordings.load(FOLDER / f"{name}.npz")
        for t in range(len(recording["actions"])):
            engine.step(recorded_actions(recording, t), DISABLED)
            np.testing.assert_array_equal(engine.control.rewards[0], recording["rewards"][t])
        assert engine.control.done[0]


def test_import_refuses_what_it_cannot_play(tmp_path):
    with pytest.raises(ValueError, match=r"no \.npz, \.pkl, \.mpk files"):
        importing.read_folder(tmp_path)
    recording, meta = recordings.load(FOLDER / "g20_make_simple_rail.npz")
    file = tmp_path / "a.npz"
    np.savez(file, meta=json.dumps(meta | {"remove_agents_at_target": False}), **recording)
    with pytest.raises(ValueError, match=r"a\.npz: its trains stay at their targets"):
        importing.read_folder(tmp_path)
    np.savez(file, **{name: values for name, values in recording.items() if name != "target"})
    with pytest.raises(ValueError, match=r"a\.npz: it has no array 'target'"):
        importing.read_folder(tmp_path)
    np.savez(file, grid=np.array([{}], object))
    with pytest.raises(ValueError, match=r"a\.npz: .*pickle"):
        importing.read_folder(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("grid", np.int64(0), "'grid' must be whole numbers with 2 axes"),
        ("grid", np.full((2, 2), 0.5), "'grid' must be whole numbers"),
        ("max_episode_steps", np.array([5, 5]), "'max_episode_steps' must be"),
        (
            "max_speed",
            np.array([[2, 1]] * 3),
            "train 0 has the max_speed 2/1; allowed: above 0, up",
        ),
        ("latest_arrival", np.array([-5] * 3), "train 0 is due at step -5"),
        ("strikes", np.array([[0, 0, 3]]), "train 0 has a malfunction at step 0"),
        ("meta", np.array("[1]"), "'meta' must be a JSON object"),
        ("max_episode_steps", np.array(0), "its limit is 0 steps; allowed: 1 and more"),
        ("init_dir", np.zeros(0, int), "it has no trains; allowed: 1 and more"),
        ("init_speed", np.ones((2, 2), int), r"'init_speed' must be .*\(3, 2\); given .*\(2, 2\)"),
        ("waypoints", np.array([[0, -2, *[0] * 5]]), "train 0 has a stop -2; allowed: 0"),
    ],
)
def test_damaged_arrays_are_errors_that_name_the_file(name, value, words, tmp_path):
    recording, meta = recordings.load(FOLDER / "g20_make_simple_rail.npz")
    np.savez(tmp_path / "a.npz", **{"meta": json.dumps(meta), **recording, name: value})
    with pytest.raises(ValueError, match=rf"a\.npz: .*{words}"):
        importing.import_railways(tmp_path, tmp_path / "out.npz")


def test_endings_of_files_may_be_in_capitals_and_others_are_refused(tmp_path):
    file = tmp_path / "a.NPZ"
    file.write_bytes((FOLDER / "g20_make_simple_rail.npz").read_bytes())
    for place in (file, tmp_path):
        assert importing.is_railway(place)
        assert importing.files_of(place) == [file]
    assert importing.read_folder(file)["grid"].shape[0] == 1
    assert importing.is_railway(tmp_path / "b.PKL")
    other = tmp_path / "a.zip"
    other.write_bytes(b"")
    with pytest.raises(ValueError, match=r"a\.zip has the ending '\.zip'; allowed: \.npz, \.pkl, "):
        importing.files_of(other)


def test_an_import_does_not_replace_what_it_reads(tmp_path):
    file = tmp_path / "a.npz"
    file.write_bytes((FOLDER / "g20_make_simple_rail.npz").read_bytes())
    for place, out in ((file, file), (file, tmp_path / "a.txt")):
        with pytest.raises(ValueError, match=r"another file that ends in \.npz"):
            importing.import_railways(place, out)
    with pytest.raises(ValueError, match=r"there is only .*, which is to be written"):
        importing.import_railways(tmp_path, file)
    assert [*tmp_path.iterdir()] == [file]


def test_files_are_taken_in_the_order_of_their_numbers(tmp_path):
    names = ("Test_02/Level_3.npz", "Test_02/Level_10.npz", "Test_10/Level_0.npz")
    for name in reversed(names):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert [file.relative_to(tmp_path).as_posix() for file in importing.files_of(tmp_path)] == [
        *names
    ]


def test_an_instance_that_cannot_be_played_is_named_by_its_file(tmp_path):
    recording, meta = recordings.load(FOLDER / "g20_make_simple_rail.npz")
    for name, departure in (("a", 0), ("b", 10_000)):
        early = np.full_like(recording["earliest_departure"], departure)
        parts = recording | {"earliest_departure": early, "meta": json.dumps(meta)}
        np.savez(tmp_path / f"{name}.npz", **parts)
    with pytest.raises(ValueError, match=r"b\.npz: train 0 departs at step 10000"):
        importing.import_railways(tmp_path, tmp_path / "out.npz")


def test_a_stop_is_paid_for_the_best_visit_of_all_its_alternatives():
    """Two stops with two alternatives each; the second one of the second stop does not exist."""
    shape = (1, 1, 2, 2)
    state = SimpleNamespace(
        stop_place=np.array([[[[5, 7], [9, -1]]]]),
        stop_served=np.zeros(shape, np.bool_),
        stop_best=np.full(shape, NO_VISIT),
        stop_since=np.full(shape, NEVER),
        stop_due=np.full(shape, 10),
    )
    paid = SimpleNamespace(not_served_penalty=3.0, late_factor=0.5)
    constants = SimpleNamespace(rules=SimpleNamespace(num_stops=2), rewards=paid)
    visits = (  # stop, alternative, its best visit that has ended, begin of the present one, total
        (0, 1, -2.0, NEVER, -2.0 - 3.0),
        (0, 0, -1.0, NEVER, -1.0 - 3.0),
        (1, 0, -8.0, 14, -1.0 - 0.5 * 4),
        (0, 1, -2.0, 11, -0.5 - 0.5 * 4),
    )
    assert pay_stops(constants, state, 0, 0) == -6.0
    for stop, alternative, best, since, total in visits:
        where = 0, 0, stop, alternative
        state.stop_served[where], state.stop_best[where] = True, best
        state.stop_since[where] = since
        assert pay_stops(constants, state, 0, 0) == total
