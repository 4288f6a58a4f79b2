"""Maps of Routing: what they read, what they draw, what they refuse."""

import builders
import numpy as np
import pytest
from scipy.ndimage import label

from coopbench_envs import Engine
from coopbench_envs.pathfinding import routing
from coopbench_envs.pathfinding.maps import labmaze_grid, mazes, movingai

ID = routing.SPEC.id
ROOM = "....\n.##.\n....\n"
PUBLISHED = {
    "height": 21,
    "width": 21,
    "room_min_size": 4,
    "room_max_size": 9,
    "extra_connection_probability": 0.65,
    "max_free_pos": 50,
}


def make(name, lanes=1, num_agents=3, **map_params):
    return Engine(ID, lanes, num_agents=num_agents, map=name, map_params=map_params)


def cells_of(c, places):
    return np.abs(c.map.centres - places[..., None, :]).sum(-1).argmin(-1)


@pytest.fixture
def octile(tmp_path):
    def write(rows, name="one", head=None):
        text = head or f"type octile\nheight {len(rows)}\nwidth {len(rows[0])}\nmap\n"
        (tmp_path / f"{name}.map").write_text(text + "\n".join(rows) + "\n", encoding="utf-8")
        return str(tmp_path / f"{name}.map")

    return write


# -- drawing -------------------------------------------------------------------------------------

# -- reading -------------------------------------------------------------------------------------


def test_texts_and_files_may_begin_with_a_byte_order_mark(octile):
    """As editors of Windows save them."""
    for kind, plain, marked in (
        ("string_grid", {"map_str": ROOM}, {"map_str": "\ufeff" + ROOM}),
        (
            "movingai",
            {"path": octile(["...", "..@", "..."]), "height": 9, "width": 9},
            {
                "path": octile(
                    ["...", "..@", "..."],
                    "two",
                    "\ufefftype octile\nheight 3\nwidth 3\nmap\n",
                ),
                "height": 9,
                "width": 9,
            },
        ),
    ):
        first, second = (make(kind, **given).constants.map for given in (plain, marked))
        np.testing.assert_array_equal(first.discs, second.discs)


def test_string_grid_has_row_zero_at_the_bottom_and_a_border():
    engine = make("string_grid", map_str="\n  ..#\n\n  ...\n")
    c = engine.constants
    assert (c.map.width, c.map.height) == pytest.approx((0.5, 0.4))
    inner = mazes.wall_cells(c.map).reshape(4, 5)[1:-1, 1:-1]
    assert inner.tolist() == [[False, False, True], [False, False, False]]
    assert c.map.num_landmarks == 14 + 1
    assert (c.map.agent_rad_low, c.map.goal_rad_low) == pytest.approx((0.03, 0.012))


def test_explicit_and_fixed_cells():
    engine = make(
        "string_grid", 5, map_str=ROOM, agent_idx=[[0, 0], [0, 3], [2, 1]], random_goals=False
    )
    engine.reset(np.arange(5))
    assert (cells_of(engine.constants, engine.state.agent_pos) == [7, 10, 20]).all()
    goals = cells_of(engine.constants, engine.state.goal_pos)
    assert (goals == goals[0]).all()
    assert len(set(goals[0])) == 3


def test_free_pos_str_and_max_free_pos_keep_cells():
    c = make("string_grid", map_str=ROOM, free_pos_str="...#\n####\n####\n").constants
    assert c.map.free.tolist() == [[7, 8, 9]]
    c = make("string_grid", map_str=ROOM, max_free_pos=4).constants
    assert len(set(c.map.free[0])) == 4
    assert not mazes.wall_cells(c.map)[0, c.map.free[0]].any()


def test_dug_mazes_are_connected_deterministic_and_follow_their_parameters():
    opened = []
    for probability in (0.0, 0.5, 1.0):
        p = labmaze_grid.Params(height=25, width=31, extra_connection_probability=probability)
        total = 0
        for number in range(8):
            walls, rooms = labmaze_grid.dig(p, number)
            again = labmaze_grid.dig(p, number)
            assert (walls == again[0]).all()
            assert walls[[0, -1]].all()
            assert walls[:, [0, -1]].all()
            assert len(rooms) > 60
            assert not walls.ravel()[rooms].any()
            assert label(~walls)[1] == 1
            total += int((~walls).sum())
        opened.append(total)
    assert opened[0] < opened[1] < opened[2]
    few = labmaze_grid.Params(height=25, width=31, max_rooms=1)
    assert len(labmaze_grid.dig(few, 3)[1]) <= 25


def test_published_mazes_have_their_published_numbers_of_walls():
    for probability, walls in ((0.4, 170), (0.65, 158), (1.0, 140)):
        settings = {**PUBLISHED, "extra_connection_probability": probability}
        assert make("labmaze_grid", **settings).constants.map.num_landmarks == walls
    later = make("labmaze_grid", **PUBLISHED, seed=5).constants
    first = make("labmaze_grid", **PUBLISHED).constants
    assert (later.map.free[0] == first.map.free[5]).all()


def test_movingai_reads_scales_and_outlines(octile, tmp_path):
    rows = ["..........", ".@@@@@@@@."] + [".@@@@@@@@."] * 7 + [".....TWGS."]
    path = octile(rows)
    walls = movingai.is_wall(movingai.read_octile(tmp_path / "one.map", "map"), "@")
    assert walls.sum() == 64
    c = make("movingai", path=path, height=20, width=30).constants
    assert (c.map.width, c.map.height) == pytest.approx((2.8, 1.8))
    cells = mazes.wall_cells(c.map).reshape(18, 28)
    assert cells[8, 1:3].all()  # both sides of the left edge, which is at column 3
    assert not cells[8, 4:23].any()  # the inside is hollow
    free = set(c.map.free[0])
    assert 8 * 28 + 12 not in free  # but nobody begins there
    assert 0 in free
    octile(["...", ".@.", "..."], "two")
    both = make("movingai", path=str(tmp_path), height=20, width=30, only_edges=False).constants
    assert len(both.map.discs) == 2
    assert (
        mazes.wall_cells(both.map)[0].reshape(18, 28)[8]
        == ([False] * 2 + [True] * 24 + [False] * 2)
    ).all()


def test_wide_maps_are_scaled_in_both_directions(octile):
    path = octile(["....@@@@"] * 4)
    c = make("movingai", path=path, height=8, width=16, only_edges=False).constants
    assert mazes.wall_cells(c.map).reshape(6, 14).tolist() == [[False] * 7 + [True] * 7] * 6


def test_sobel_against_convolution():
    from scipy.signal import convolve2d

    solid = np.random.default_rng(1).random((15, 22)) < 0.4
    kernel = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    gx, gy = (convolve2d(solid.astype(float), k, "same") for k in (kernel, kernel.T))
    expected = np.sqrt(gx**2 + gy**2) > 3.7
    np.testing.assert_array_equal(movingai.outlines(solid, 3.7), expected)


# -- instances -----------------------------------------------------------------------------------


def test_instances_of_mazes():
    c = make("labmaze_grid", num_agents=2, **PUBLISHED).constants
    arrays = {"map_index": np.array([3, 9], np.int8)}
    arrays |= {
        name: c.map.free[[3, 9], :2].astype(np.int16) for name in ("agent_cell", "goal_cell")
    }
    fields = routing.instances(c, arrays)
    np.testing.assert_array_equal(fields["landmark_pos"], c.map.discs[[3, 9]])
    assert fields["on_goal"].all()
    for changes, words in (
        ({"map_index": np.array([3, 10])}, ("'map_index'", "[0, 9]", "3 to 10")),
        ({"map_index": np.array([[3], [9]])}, ("'map_index'", "(episodes,)")),
        ({"map_index": np.array([3])}, ("number of episodes", "2, 2 and 1")),
        ({"goal_cell": np.zeros((2, 2), int)}, ("'goal_cell'", "episode 0", "agent 0", "a wall")),
        ({"agent_cell": np.full((2, 2), 441)}, ("'agent_cell'", "[0, 440]")),
    ):
        with builders.refused("labmaze_grid", *words):
            routing.instances(c, arrays | changes)
    del arrays["map_index"]
    with pytest.raises(ValueError, match="map_index"):
        routing.instances(c, arrays)


@pytest.mark.parametrize("name", ["random_grid", "caves_cont"])
def test_nobody_begins_or_ends_on_an_obstacle(name):
    small = {"num_rows": 14, "num_cols": 14}
    c = make(name, num_agents=2, **small).constants
    cells = np.arange(c.map.num_obstacles + 4)
    arrays = {"agent_cell": cells[:2], "goal_cell": cells[2:4], "obstacle_cell": cells[4:]}
    arrays = {key: np.stack([each, each]) for key, each in arrays.items()}
    routing.instances(c, arrays)
    for key in ("agent_cell", "goal_cell"):
        wrong = arrays[key].copy()
        wrong[1, 0] = 6
        with pytest.raises(ValueError, match=f"'{key}' of map '{name}' .* episode 1 .* agent 0"):
            routing.instances(c, arrays | {key: wrong})


# -- errors --------------------------------------------------------------------------------------


def in_room(**parameters):
    return {"map_str": ROOM, **parameters}


WALLED = [[0, 0], [1, 1], [0, 1]]
REFUSED = {
    "string_grid": [
        ({}, ("'map_str'", "missing")),
        ({"map_str": " \n"}, ("no rows",)),
        ({"map_str": "...\n\n..\n"}, ("ragged", "line 3 has 2", "line 1 has 3")),
        ({"map_str": "##\n##"}, ("0 free cells", "num_agents was 3")),
        ({"map_str": "..\n##"}, ("2 free cells", "num_agents <= 2")),
        (in_room(max_free_pos=2), ("max_free_pos keeps 2",)),
        (in_room(free_pos_str="..."), ("1 rows of 3", "3 rows of 4")),
        (in_room(goal_idx=WALLED), ("'goal_idx'", "entry 1, row 1, column 1", "a wall")),
        (in_room(agent_idx=[[0, 0], [3, 9], [0, 1]]), ("'agent_idx'", "outside of the map")),
        (in_room(agent_idx=[[0, 0]]), ("'agent_idx'", "3 agents")),
        ({"map_str": "..", "remove_border": True}, ("1 x 2", "3 x 3")),
    ],
    "batched_string_grid": [
        ({}, ("'map_str_batch'", "no map")),
        ({"map_str_batch": [ROOM, "...\n..."]}, ("entry 1", "4 x 5", "5 x 6")),
        ({"map_str_batch": [ROOM], "free_pos_str_batch": [ROOM] * 2}, ("2 entries", "allowed: 1")),
    ],
    "labmaze_grid": [
        ({"room_min_size": 7}, ("'room_min_size'", "7 and 5")),
        ({"max_rooms": 0}, ("maze 0", "0 free cells")),
    ],
    "caves_cont": [({"free_ratio": 0.6}, ("free_ratio=0.6", "landmark_low_ratio=0.55"))],
    "movingai": [({"path": "nowhere.map"}, ("'nowhere.map'", "Nothing is downloaded"))],
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_name_the_map_and_the_reason(name):
    for parameters, words in REFUSED[name]:
        with builders.refused(name, *words):
            make(name, **parameters)


@pytest.mark.parametrize(("count", "size"), [(1, (1 << 24) + 1), (17, 1 << 24)])
def test_folders_of_too_many_bytes_are_refused(tmp_path, count, size):
    for k in range(count):
        with open(tmp_path / f"{k}.map", "wb") as file:
            file.truncate(size)
    with pytest.raises(ValueError, match=f"has {count} maps of {count * size:,} bytes"):
        make("movingai", path=str(tmp_path))


@pytest.mark.parametrize(
    ("rows", "head", "words"),
    [
        (["...", ".X.", "..."], None, ("line 6, column 2", ". G S W @ O T * #")),
        (["...", "..", "..."], None, ("ragged", "line 6 has 2", "allowed: 3")),
        (["..."] * 3, "type octile\nheight 4\nwidth 3\nmap\n", ("3 rows", "allowed: 4")),
        (["..."] * 3, "type octile\nheight x\nwidth 3\nmap\n", ("line 2", "'height' and a number")),
        (["..."] * 3, "height 3\nwidth 3\nmap\n", ("line 1", "'type'")),
        (["@@@"] * 3, None, ("0 free cells",)),
    ],
)
def test_errors_in_files_name_the_line(octile, rows, head, words):
    path = octile(rows, head=head)
    with builders.refused("movingai", "one.map", *words):
        make("movingai", path=path, height=9, width=9, only_edges=False)
