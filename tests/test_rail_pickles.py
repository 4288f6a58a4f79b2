"""Files of flatland-rl: the same instance as a recording's, and nothing executed on the way."""

import functools
import pickle
import struct
import sys
from collections import namedtuple
from enum import IntEnum
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import rail_recordings as recordings
from golden_folders import unpacked

from coopbench.cli.main import app
from coopbench_envs.arrays import unpack
from coopbench_envs.engine import Engine
from coopbench_envs.rail import importing, pickles
from coopbench_envs.rail.saved import read_saved

FOLDER = unpacked("rail")
GRID4, AGENTS = "flatland.core.grid.grid4", "flatland.envs.agents"
HEADINGS = f"c{GRID4}\nGrid4TransitionsEnum\n".encode()  # pushes this class
NAME = "g02_sp_30x30_n7_malf_4speeds"


# The fields of flatland-rl 4.3.0.
FIELDS = "initial_position initial_direction direction targets moving earliest_departure"
FIELDS += " latest_arrival handle position arrival_time old_direction old_position speed_counter"
FIELDS += " action_saver state_machine malfunction_handler waypoints waypoints_earliest_departure"
FIELDS += " waypoints_latest_arrival target_position target_direction"
Agent = namedtuple("Agent", FIELDS)
Malfunction = namedtuple("Malfunction", "malfunction_rate min_duration max_duration")


class Grid4TransitionsEnum(IntEnum):
    NORTH = 0
    EAST = 1
    SOUTH = 2
    WEST = 3


class Waypoint:
    def __init__(self, position, direction):
        self.position, self.direction = position, direction


class Speed:
    def __init__(self, speed):
        self.speed = self.max_speed = speed
        self.distance, self.is_cell_entry = Fraction(0), True


@pytest.fixture
def flatland(monkeypatch):
    """Let the classes of this file have the names of flatland-rl's, for as long as they pickle."""
    kinds = {GRID4: [Grid4TransitionsEnum], AGENTS: [Agent, Waypoint, Speed, Malfunction]}
    for name in ("flatland", "flatland.core", "flatland.core.grid", GRID4, "flatland.envs", AGENTS):
        module = ModuleType(name)
        for kind in kinds.get(name, ()):
            monkeypatch.setattr(kind, "__module__", name)
            setattr(module, kind.__name__, kind)
        monkeypatch.setitem(sys.modules, name, module)


def environment(arrays, rate=0.01, seed=5):
    """Return what flatland-rl would save of a recorded environment before its first step."""
    name, words, *rest = np.random.RandomState(seed).get_state()
    return {
        "grid": arrays["grid"].tolist(),
        "level_free_positions": {tuple(cell) for cell in arrays["level_free"].tolist()},
        "agents": [agent(arrays, a) for a in range(len(arrays["init_dir"]))],
        "malfunction": Malfunction(rate, 20, 50),
        "malfunction_cached_random_state": None,
        "malfunction_rand_idx": 0,
        "max_episode_steps": int(arrays["max_episode_steps"]),
        "elapsed_steps": 0,
        "np_random_state": (name, tuple(words.tolist()), *rest),
        "dones": {0: False, "__all__": False},
    }


def agent(arrays, a):
    cell, target = (tuple(arrays[name][a].tolist()) for name in ("init_pos", "target"))
    over, under = arrays["max_speed"][a].tolist()
    headings = np.flatnonzero(arrays["target_dirs"][a]).tolist()
    departure, due = (int(arrays[name][a]) for name in ("earliest_departure", "latest_arrival"))
    # Every form in which releases of flatland-rl hold these.
    speed = [Fraction(over, under), over / under, round(over / under, 2)][a % 3]
    heading = int(arrays["init_dir"][a])
    return Agent(
        cell,
        [heading, Grid4TransitionsEnum(heading), np.int64(heading)][a % 3],
        heading,
        target if a == 0 else {(target, heading) for heading in headings},
        *(False, departure, due, a, None, None, None, None, Speed(speed), None, None, None),
        [[Waypoint(cell, heading)], [Waypoint(target, None)]],
        [departure, None],
        [None, due],
        target,
        None,
    )


@pytest.mark.parametrize("protocol", [4, 5])
def test_a_saved_environment_becomes_the_recorded_instance(flatland, tmp_path, capsys, protocol):
    arrays, _ = recordings.load(FOLDER / f"{NAME}.npz")
    saved_one = environment(arrays)
    (tmp_path / "Level_0.pkl").write_bytes(pickle.dumps(saved_one, protocol))
    out = tmp_path / "instances.npz"
    app(["rail", "import", str(tmp_path), "--out", str(out)], standalone_mode=False)
    assert "1 instance." in capsys.readouterr().out.replace("\n", " ")
    imported = unpack(out)
    for name, values in recordings.instance(arrays).items():
        if name not in ("strikes", "waypoints", "max_speed", "init_speed"):
            np.testing.assert_array_equal(imported[name][0], values, err_msg=name)
    over, under = imported["max_speed"][0].T
    np.testing.assert_array_equal(
        over * arrays["max_speed"][:, 1], under * arrays["max_speed"][:, 0]
    )
    assert_strikes_are_drawn_as_in_flatland(imported["strikes"][0], arrays)
    engine = Engine("coopbench/Rail-v0", **importing.task_of(imported), observation="none")
    engine.spec.instances(engine.constants, imported)


def assert_strikes_are_drawn_as_in_flatland(strikes, arrays):
    """Draw them one by one, in the order of flatland-rl 4.3.0."""
    random = np.random.RandomState(5)
    uniforms, k, expected = random.rand(1_000_000), 0, []
    for step in range(1, int(arrays["max_episode_steps"]) + 1):
        for train in range(len(arrays["init_dir"])):
            k += 1
            if uniforms[k] < 1 - np.exp(-0.01):
                expected.append((step, train, random.randint(20, 51) + 1))
    assert len(expected) > 5
    np.testing.assert_array_equal(strikes, expected)


@pytest.mark.parametrize("state", ["tuple", "array"])
def test_malfunctions_go_on_after_an_episode(flatland, state):
    """Numbers were drawn ahead, of which seven were used; durations come from the present state."""
    arrays, _ = recordings.load(FOLDER / f"{NAME}.npz")
    name, words, *rest = np.random.RandomState(8).get_state()
    ahead = (name, words if state == "array" else tuple(words.tolist()), *rest)
    after = {"malfunction_cached_random_state": ahead, "malfunction_rand_idx": 7}
    content = pickle.dumps(environment(arrays, np.float64(0.01)) | after)
    read = read_saved(content)
    assert (read.malfunction_rate, read.malfunction_duration) == (0.01, (20, 50))
    trains, limit = len(arrays["init_dir"]), int(arrays["max_episode_steps"])
    hits = np.random.RandomState(8).rand(8 + trains * limit)[8:] < 1 - np.exp(-0.01)
    places = np.flatnonzero(hits)
    lengths = np.random.RandomState(5).randint(20, 51, len(places)) + 1
    expected = np.stack([places // trains + 1, places % trains, lengths], axis=1)
    np.testing.assert_array_equal(read.arrays["strikes"], expected)


def test_what_a_file_does_not_hold_is_named(flatland):
    arrays, _ = recordings.load(FOLDER / f"{NAME}.npz")
    lacking = environment(arrays)
    del lacking["np_random_state"], lacking["max_episode_steps"]
    first, second = (read_saved(pickle.dumps(lacking | {"random_seed": k})) for k in range(2))
    assert [text.partition(":")[0] for text in first.assumed] == [
        *("no limit of steps", "no random numbers")
    ]
    assert first.arrays["strikes"].tolist() != second.arrays["strikes"].tolist()


class OrderedSet(dict):
    """Pickles as a call without arguments and members, as an ordered dictionary does."""

    def __reduce__(self):
        return OrderedSet, (), None, None, iter([((2, 3), None), ("text", 1)])


def test_observations_that_are_saved_with_an_environment_are_skipped(flatland, monkeypatch):
    arrays, _ = recordings.load(FOLDER / f"{NAME}.npz")
    module = ModuleType("flatland.utils.ordered_set")
    monkeypatch.setattr(OrderedSet, "__module__", module.__name__)
    module.OrderedSet = OrderedSet
    monkeypatch.setitem(sys.modules, module.__name__, module)
    content = pickle.dumps(environment(arrays) | {"dev_obs_dict": {0: OrderedSet()}})
    assert pickles.read(content)["dev_obs_dict"][0] == {"text": 1}
    assert read_saved(content).arrays["strikes"].shape[1] == 3


def packed(value):
    """Return a value as MessagePack."""
    if value is False:
        return b"\xc2"
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, int):
        return bytes([value]) if value < 128 else b"\xcd" + struct.pack(">H", value)
    if isinstance(value, str | bytes):
        text = value.encode() if isinstance(value, str) else value
        return (
            (b"\xda" if isinstance(value, str) else b"\xc5") + struct.pack(">H", len(text)) + text
        )
    if isinstance(value, dict):
        members = b"".join(packed(part) for item in value.items() for part in item)
        return b"\xde" + struct.pack(">H", len(value)) + members
    return b"\xdc" + struct.pack(">H", len(value)) + b"".join(map(packed, value))


def early():
    """Return what flatland-rl 2 saved: two trains on a line of eight cells with dead ends."""
    grid = [[0x0004, *[0x0401] * 6, 0x0100]]
    two = {b"nd": False, b"type": "<i8", b"data": struct.pack("<q", 2)}
    speeds = {"position_fraction": 0.0, "speed": 0.33}
    return {
        "grid": grid,
        "agents_static": [
            [[0, two], 1, [0, 6], 0, speeds, {"malfunction": 0}],
            [[0, 5], 3, [0, 1]],
        ],
        "agents": [],
    }


def test_early_releases_saved_trains_without_timetable():
    content = packed(early())
    read = read_saved(content)
    assert [text.partition(":")[0] for text in read.assumed] == [
        *("no limit of steps", "no timetable")
    ]
    arrays = read.arrays
    assert arrays["init_pos"].tolist() == [[0, 2], [0, 5]]
    assert arrays["max_speed"].tolist() == arrays["init_speed"].tolist() == [[1, 3], [1, 1]]
    assert arrays["target_dirs"].tolist() == [[0, 1, 0, 1]] * 2
    assert arrays["latest_arrival"].tolist() == [100, 100] == [int(arrays["max_episode_steps"])] * 2
    for k in range(len(content)):
        with pytest.raises(ValueError, match="it is"):
            read_saved(content[:k])


def test_an_episode_that_has_begun_is_refused(flatland):
    arrays, _ = recordings.load(FOLDER / f"{NAME}.npz")
    begun = environment(arrays) | {"elapsed_steps": 3}
    with pytest.raises(ValueError, match="its episode has begun"):
        read_saved(pickle.dumps(begun))


class Call:
    """Pickles as a call of any function."""

    def __init__(self, function, *arguments):
        self.reduced = function, arguments

    def __reduce__(self):
        return self.reduced


@pytest.mark.parametrize(
    "function", [exec, eval, setattr, open, print, Path.touch, np.load, np.frombuffer, type]
)
def test_no_other_name_is_looked_up(function, tmp_path):
    trace = tmp_path / "trace"
    content = pickle.dumps({"grid": Call(function, f"open({str(trace)!r}, 'w')")})
    with pytest.raises(ValueError, match=r"it names .*; allowed: names of flatland and numbers"):
        read_saved(content)
    assert not trace.exists()


def attribute(name, kind=HEADINGS, more=b""):
    """Return a pickle that calls ``getattr``, as Python 3.11.2 writes members of enumerations."""
    text = pickle.SHORT_BINUNICODE + bytes([len(name)]) + name.encode()
    return b"\x80\x04cbuiltins\ngetattr\n(" + kind + text + more + b"tR."


@pytest.mark.parametrize("content", [attribute("SOUTH"), b"\x80\x04" + HEADINGS + b"K\x02\x85R."])
def test_both_forms_of_a_member_are_the_same_record(content):
    record = pickles.read(content)
    assert (record.name, record.args) == (f"{GRID4}.Grid4TransitionsEnum", (2,))


@pytest.mark.parametrize(
    "content",
    [
        *map(attribute, ("__subclasses__", "__class__", "name", "args", "mro", "NORTH.value", "")),
        attribute("NORTH", b"cflatland.x\nT\n"),  # an enumeration that is not in the table
        attribute("NORTH", HEADINGS[:-1] + b".NORTH\n"),
        attribute("NORTH", HEADINGS + b")R"),  # a record, no class
        attribute("__self__", b"cbuiltins\ngetattr\n"),
        attribute("real", b"K\x01"),
    ],
)
def test_getattr_finds_members_alone(content):
    with pytest.raises(ValueError, match=r"it takes an attribute of .*; allowed: members of"):
        pickles.read(content)


def test_old_protocols_that_call_types_are_refused():
    with pytest.raises(ValueError, match=r"it names .*set"):
        pickles.read(pickle.dumps([{1}], 2))


def test_a_name_of_flatland_is_never_imported(monkeypatch):
    class Trap(ModuleType):
        def __getattr__(self, name):
            raise AssertionError(name)

    monkeypatch.setitem(sys.modules, "flatland", Trap("flatland"))
    monkeypatch.setitem(sys.modules, "flatland.evil", Trap("flatland.evil"))
    record = pickles.read(b"\x80\x04cflatland.evil\nrun\n\x8c\x02rm\x85R.")
    assert (record.name, record.args) == ("flatland.evil.run", ("rm",))


def test_the_name_of_a_module_only_begins_like_flatland():
    with pytest.raises(ValueError, match=r"it names flatlandish\.run"):
        pickles.read(b"\x80\x04cflatlandish\nrun\n.")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80",
        b"no pickle",
        b"\x80\x04.",
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",  # a bytearray of 2**63 - 1 bytes
        b"\x80\x02\x82\x01.",  # a registered extension
        b"\x80\x02Pid\n.",  # a persistent object
        b"\x80\x02(i__main__\nrun\n.",  # an instance of an old class
        b"\x80\x04N}b.",  # a state for None
        b"\x80\x04}}\x8c\x03getK\x01sb.",  # a state for a dictionary
        b"\xc7\x01\x01a",  # MessagePack with an extension
        b"\xdd\xff\xff\xff\xff\x01",  # a list longer than the file
        b"\x81\x90\x01",  # a list as a key
        b"\x91" * 100_000,
        b"\x80\x04]}\x8c\x01a]sb.",  # a state for a list
        b"\x80\x04cflatland.a\nb\n}\x8c\x04nameK\x01sb.",  # a state for a type
        b"\x80\x04K\x01)R.",  # a call of a number
        attribute("NORTH", more=b"N"),  # getattr with a default
        b"\x80\x04cbuiltins\ngetattr\n}\x8c\x04nameK\x01sb.",  # a state for getattr
        b"\x80\x04X\xff\xff\xff\xffabc.",  # a text longer than the file
        b"\x80\x04h\x07.",  # a memory that was never written
    ],
)
def test_damaged_pickles_are_errors(content):
    with pytest.raises(ValueError, match="it "):
        read_saved(content)


def test_a_name_makes_one_type():
    texts = [pickle.SHORT_BINUNICODE + bytes([len(part)]) + part for part in (b"flatland.x", b"T")]
    name = b"".join(texts) + pickle.STACK_GLOBAL
    first, second = pickles.read(pickle.MARK + 2 * name + pickle.TUPLE + pickle.STOP)
    assert first is second


def test_a_pickle_that_could_fill_the_memory_is_not_read(tmp_path):
    (tmp_path / "large.pkl").write_bytes(pickle.EMPTY_LIST * (1 << 24))
    with pytest.raises(ValueError, match=r"large.pkl.* larger than 8,388,608 bytes"):
        importing.read_folder(tmp_path)


def test_keys_are_not_hashed_however_deep_they_are():
    deep = b"\x80\x04})" + b"\x85" * 200_000 + b"K\x01s."
    assert pickles.read(deep) == {}
    assert len(pickles.read(b"\x80\x04\x8f()" + b"\x85" * 200_000 + b"\x90.")) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"grid": []}, "rows and columns"),
        ({"grid": [[1], [1, 2]]}, "another length"),
        ({"grid": [[1 << 16]]}, "16 bits"),
        ({"np_random_state": ("MT19937", (1,) * 3, 0)}, "random numbers is damaged"),
        ({"np_random_state": ("MT19937", (1,) * 624, 625)}, "random numbers is damaged"),
        ({"malfunction": (0.1, 5, 1 << 30)}, "malfunctions"),
        ({"max_episode_steps": 1 << 39}, "malfunctions"),
        ({"malfunction": (1e9, 5, 6), "max_episode_steps": 1 << 21}, "malfunctions; allowed"),
        ({"grid": [[functools.reduce(lambda x, _: [x, x], range(60), 0)]]}, "list should be"),
        ({"max_episode_steps": functools.reduce(lambda x, _: [x], range(90), 0)}, "list should"),
    ],
)
def test_bad_values_are_errors(flatland, changes, words):
    arrays, _ = recordings.load(FOLDER / f"{NAME}.npz")
    with pytest.raises(ValueError, match=words):
        read_saved(pickle.dumps(environment(arrays) | changes))


def test_an_error_names_the_file(tmp_path):
    (tmp_path / "bad.pkl").write_bytes(pickle.dumps(Call(print, "x")))
    with pytest.raises(ValueError, match=r"bad\.pkl: it names builtins\.print"):
        importing.read_folder(tmp_path)
