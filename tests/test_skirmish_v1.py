"""Skirmish-v1: an exchange of last blows, ways, drawn teams, and flyers at the edge of a map."""

import copy
from functools import partial
from itertools import product
from types import SimpleNamespace

import builders
import episodes
import numba
import numpy as np
import pytest
from battles import FIRST, begun, play
from scipy.ndimage import label
from scipy.sparse.csgraph import shortest_path

from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED
from coopbench_envs.skirmish import tick
from coopbench_envs.skirmish.native import GROUND
from coopbench_envs.skirmish.paths import ground_of, piece_of
from coopbench_envs.skirmish.scenario import bundled_maps
from coopbench_envs.skirmish.teams import RACES

ID = "coopbench/Skirmish-v1"


@pytest.fixture
def battle(tmp_path):
    """Begin a battle in which nothing is left to chance."""
    return partial(begun, tmp_path, ID, start="fixed", jitter=False)


@pytest.mark.parametrize(
    ("ally", "enemy", "shield", "lost"),
    [
        ("MARAUDER", "STALKER", 5, (5, 20 - 5 - 1)),  # bonus; armour only behind the shield
        ("MARAUDER", "MARINE", 0, (0, 10)),
        ("STALKER", "MARAUDER", 0, (0, 13 + 5 - 1)),
        ("ZEALOT", "MARINE", 0, (0, 8 + 8)),
        ("ZEALOT", "STALKER", 3, (3, (8 - 3 - 1) + (8 - 1))),  # armour counts for each blow
        ("COLOSSUS", "HYDRALISK", 0, (0, 2 * (10 + 5))),
    ],
)
def test_one_attack(battle, ally, enemy, shield, lost):
    engine = battle([(ally, 9, 16)], [(enemy, 11 if ally == "COLOSSUS" else 10.2, 16)])
    hp = float(engine.state.hp[0, 1])
    state = {"shield": np.array([[0.0, shield]]), "wait": np.full((1, 2), 100.0)}
    engine.reset(np.array([0]), state=state)
    regained = 0.2734 / 2 if enemy == "HYDRALISK" else 0.0
    state = play(engine, FIRST)
    assert shield - state.shield[0, 1] == pytest.approx(lost[0])
    assert hp - state.hp[0, 1] == pytest.approx(lost[1], abs=regained + 1e-9)


def test_blows_fall_at_once_and_an_exchange_is_no_victory(battle):
    engine = battle([("MARINE", 9, 16)], [("MARINE", 12, 16)])
    engine.reset(np.array([0]), state={"hp": np.full((1, 2), 6.0)})
    play(engine, FIRST)
    assert not engine.state.living.any()
    assert engine.control.ended[0]
    measures = dict(zip(engine.spec.metrics, engine.control.measures[0], strict=True))
    assert (measures["win"], measures["dead_allies"], measures["dead_enemies"]) == (0, 1, 1)
    assert engine.control.rewards[0, 0] == pytest.approx((6 + 10) / (45 + 10 + 200) * 20)


@pytest.mark.parametrize("seed", range(3))
def test_ways_are_shortest_and_walls_belong_to_the_nearest_ground(seed):
    numbers = np.random.default_rng(seed)
    terrain = numbers.random(numbers.integers(5, 12, 2)) < 0.7
    ground = ground_of(terrain, "The map")
    rows, columns = np.nonzero(terrain)
    for y, x in np.ndindex(terrain.shape):
        assert ground.cell[y, x] == ((rows - y) ** 2 + (columns - x) ** 2).argmin()
    dy, dx = rows - rows[:, None], columns - columns[:, None]
    touch = (np.abs(dx) <= 1) & (np.abs(dy) <= 1) & (dx * dx + dy * dy > 0)
    touch &= terrain[rows[:, None], columns] & terrain[rows, columns[:, None]]
    far = shortest_path(touch, unweighted=True)
    for to, at in np.ndindex(far.shape):
        nearer = [
            k
            for k, (step_x, step_y) in enumerate(ground.steps)
            for beside in np.flatnonzero((dx[at] == step_x) & (dy[at] == step_y) & touch[at])
            if far[beside, to] < far[at, to]
        ]
        assert ground.way[to, at] == (nearer[0] if nearer else -1)
    pieces = label(terrain)[0]
    for k, (row, column) in enumerate(zip(rows, columns, strict=True)):
        piece = piece_of(terrain, row, column)
        np.testing.assert_array_equal(piece, pieces == pieces[row, column])
        np.testing.assert_array_equal(np.isfinite(far[k]), piece[rows, columns])


@pytest.mark.parametrize("other", [{"map_file": "map.json"}, {"map": "8m"}])
def test_drawn_teams_and_a_map_exclude_each_other(other):
    with pytest.raises(ValueError, match="leave out one of them"):
        Engine(ID, teams="drawn", **other)


def test_neither_side_of_drawn_teams_consists_of_healers_alone():
    """The enemies are of the kinds of the first agents: these make a team, too."""
    engine = builders.begun(ID, 5000, teams="drawn", race="terran", num_agents=10, num_enemies=3)
    fights = engine.constants.teams.is_alone
    assert fights.tolist().count(False) == 1
    sides = fights[engine.state.kind[:, :10]], fights[engine.state.kind[:, 10:]]
    assert [side.any(axis=1).all() for side in sides] == [True, True]
    assert [side.all() for side in sides] == [False, False]


def test_images_of_shifted_starts_lie_across_the_middle_of_the_ground():
    """Those of columns and of rows have middles of their own where the ground is not square."""
    engine = builders.begun(ID, 200, map="6h_vs_8z", start="shifted")
    ground, agents = engine.constants.starts, engine.constants.army.num_agents
    assert ground.left + ground.right != ground.bottom + ground.top
    (x, image_x), (y, image_y) = (
        (places[:, :agents], places[:, agents : 2 * agents])
        for places in (engine.state.x, engine.state.y)
    )
    beside, below = y == image_y, x == image_x
    assert min(beside.sum(), below.sum()) > 100
    np.testing.assert_allclose((x + image_x)[beside], ground.left + ground.right)
    np.testing.assert_allclose((y + image_y)[below], ground.bottom + ground.top)


@pytest.mark.parametrize("name", ["race", "num_agents", "num_enemies"])
def test_what_only_drawn_teams_read_is_refused_elsewhere(name):
    value = "zerg" if name == "race" else 5
    with pytest.raises(ValueError, match=f"'{name}' of {ID} .*leave it out, or set teams='drawn'"):
        Engine(ID, map="8m", **{name: value})


def test_one_driver_serves_all_maps():
    types = set()
    for name, start in product(bundled_maps(), ("drawn", "shifted", "fixed")):
        constants = Engine(ID, map=name, start=start).constants
        types |= {numba.typeof(constants), numba.typeof(copy.deepcopy(constants))}
    types |= {numba.typeof(Engine(ID, teams="drawn", race=race).constants) for race in RACES}
    assert len(types) == 1


def test_commanders_play_by_the_mask():
    drawn = {"teams": "drawn", "race": "terran", "num_agents": 10, "num_enemies": 11}
    for name, options in product(
        ("attack_nearest", "smac_heuristic", "focus_fire", "kite"), ({"map": "MMM2"}, drawn)
    ):
        engine = builders.begun(ID, 4, **options)
        player = episodes.begun(engine, name)
        for _ in range(10):
            actions = player.act(engine.control.obs, engine.view(), engine.control.masks)
            engine.step(actions, DISABLED)
        assert (engine.control.invalid == 0).all()


@pytest.mark.parametrize(("place", "held"), [((99, 99), (7, 3)), ((-9, -9), (0, 0))])
def test_flyers_stay_on_a_map_that_is_not_square(place, held):
    units = SimpleNamespace(
        roll=[1, 0],
        moving=[True, True],
        row=[0, 1],
        x=np.array([place[0], 2.5]),
        y=np.array([place[1], 1.5]),
        old_x=np.array([2.5, 2.5]),
        old_y=np.array([1.5, 1.5]),
    )
    ground = SimpleNamespace(walkable=np.ones((3, 7), np.bool_))
    kinds = SimpleNamespace(layer=[GROUND + 1, GROUND])
    tick._stay_on_ground.py_func(SimpleNamespace(ground=ground, kinds=kinds), units, 2)
    np.testing.assert_allclose([units.x[0], units.y[0]], held, atol=0.01)
    assert (units.x[1], units.y[1]) == (2.5, 1.5)
