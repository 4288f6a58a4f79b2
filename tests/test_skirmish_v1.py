"""Skirmish-v1 by hand: the clock, blows at once, contacts, ways, drawn starts, sight, rewards."""

import copy
import math
from functools import partial
from itertools import product

import numba
import numpy as np
import pytest
from battles import EAST, FIRST, NORTH, STOP, WEST, begun, play
from scipy.ndimage import label
from scipy.sparse.csgraph import shortest_path

from coopbench.baselines.game import Game
from coopbench.baselines.registry import make_policy
from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED
from coopbench_envs.skirmish.army import words
from coopbench_envs.skirmish.paths import ground_of, piece_of
from coopbench_envs.skirmish.scenario import bundled_maps
from coopbench_envs.skirmish.teams import RACES

ID = "coopbench/Skirmish-v1"


@pytest.fixture
def battle(tmp_path):
    """Begin a battle in which nothing is left to chance."""
    return partial(begun, tmp_path, ID, start="fixed", jitter=False)


def games(lanes, **parameters):
    """Play one episode per lane, in which agents do what enemies do; return the engine."""
    engine = Engine(ID, lanes, **parameters)
    engine.constants = engine.constants._replace(
        rules=engine.constants.rules._replace(scripted=True)
    )
    engine.reset(np.arange(lanes))
    while not engine.control.done.all():
        engine.step(np.full((lanes, len(engine.agents)), STOP), DISABLED)
    return engine


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


@pytest.mark.parametrize(
    ("kind", "ticks"),
    [("MARINE", 14), ("MARAUDER", 24), ("STALKER", 30), ("ZEALOT", 19), ("ZERGLING", 11)],
)
def test_cooldowns_are_whole_ticks_of_the_native_clock(battle, kind, ticks):
    victim = ("COLOSSUS", {"ZEALOT": 10.55, "ZERGLING": 10.4}.get(kind, 12), 16)
    engine = battle([(kind, 9, 16)], [victim])
    play(engine, FIRST)
    assert engine.state.cooldown[0, 0] == ticks - 7  # the attack falls in the first of 8 ticks
    jittered = battle([(kind, 9, 16)], [victim], lanes=64, jitter=True)
    play(jittered, FIRST)
    assert set(jittered.state.cooldown[:, 0]) == {ticks - 7.0 + k for k in (-1, 0, 1, 2)}


def test_speeds_are_those_of_the_native_clock(battle):
    for kind, speed in (("MARINE", 2.25), ("STALKER", 2.9531), ("BANELING", 2.5)):
        engine = battle([(kind, 9, 16)], [("MARINE", 25, 16)])
        assert play(engine, NORTH).y[0, 0] == pytest.approx(16 + speed / 2)


def test_blows_fall_at_once_and_an_exchange_is_no_victory(battle):
    engine = battle([("MARINE", 9, 16)], [("MARINE", 12, 16)])
    engine.reset(np.array([0]), state={"hp": np.full((1, 2), 6.0)})
    play(engine, FIRST)
    assert not engine.state.living.any()
    assert engine.control.ended[0]
    measures = dict(zip(engine.spec.metrics, engine.control.measures[0], strict=True))
    assert (measures["win"], measures["dead_allies"], measures["dead_enemies"]) == (0, 1, 1)
    assert engine.control.rewards[0, 0] == pytest.approx((6 + 10) / (45 + 10 + 200) * 20)


def test_orders_on_the_dead_waste_nothing(battle):
    engine = battle([("MARINE", 9, 16)], [("MARINE", 12, 16), ("MARINE", 12, 20)])
    engine.reset(np.array([0]), state={"hp": np.array([[45.0, 6.0, 45.0]])})
    first = 6 + int(np.flatnonzero(engine.state.hp[0, 1:] == 6.0)[0])
    play(engine, first)
    assert engine.state.living[0].sum() == 2
    assert engine.state.cooldown[0, 0] == 14 - 7
    play(engine, first, steps=2)
    assert engine.state.cooldown[0, 0] == 0
    assert engine.control.invalid[0, 0] == 2


def test_overkill_is_counted(battle):
    engine = battle([("MARINE", 9, 15), ("MARINE", 9, 17)], [("MARINE", 12, 16)])
    engine.reset(np.array([0]), state={"hp": np.array([[45.0, 45.0, 4.0]])})
    play(engine, FIRST, FIRST)
    measures = dict(zip(engine.spec.metrics, engine.control.measures[0], strict=True))
    assert measures["overkill"] == 8
    assert measures["damage_dealt"] == 4
    assert measures["win"] == 1


def test_shields_grow_after_ten_seconds(battle):
    engine = battle([("STALKER", 9, 16)], [("MARINE", 25, 16)])
    engine.reset(
        np.array([0]), state={"shield": np.array([[70.0, 0.0]]), "wait": np.array([[12.0, 0.0]])}
    )
    assert play(engine, STOP).shield[0, 0] == 70.0
    assert play(engine, STOP).shield[0, 0] == 70.0 + 5 * 2 / 16  # in the ticks 12 to 16


def test_healing_costs_a_third_of_its_points(battle):
    engine = battle([("MARINE", 9, 16), ("MEDIVAC", 11, 16)], [("MARINE", 25, 16)])
    marine = engine.agents.index("marine_0") if "marine_0" in engine.agents else 1
    medivac = 1 - marine
    hp = np.where(np.arange(3) == marine, 20.0, engine.state.hp[0])
    engine.reset(np.array([0]), state={"hp": hp[None]})
    before = float(engine.state.energy[0, medivac])
    actions = [STOP, STOP]
    actions[medivac] = FIRST + marine
    state = play(engine, *actions)
    assert state.hp[0, marine] == pytest.approx(20 + 8 * 9 / 16)
    grown = 8 * 0.5625 / 16
    assert state.energy[0, medivac] == pytest.approx(before + grown - 8 * 9 / 16 / 3)


def test_a_side_of_healers_alone_is_beaten(battle):
    engine = battle(
        [("MARINE", 9, 16), ("MARINE", 9, 18)], [("MARINE", 12, 16), ("MEDIVAC", 14, 16)]
    )
    marine = int(
        np.flatnonzero(engine.constants.rules.kinds.traits[engine.state.kind[0], 1] == 0)[-1]
    )
    hp = np.where(np.arange(4) == marine, 6.0, engine.state.hp[0])
    engine.reset(np.array([0]), state={"hp": hp[None]})
    play(engine, FIRST + marine - 2, FIRST + marine - 2)
    assert engine.control.ended[0]
    assert engine.control.measures[0, 0] == 1


def test_only_units_that_move_are_pushed(battle):
    engine = battle([("MARINE", 9, 16), ("MARINE", 10, 16.05)], [("MARINE", 25, 16)])
    state = play(engine, EAST, STOP)
    assert (state.x[0, 1], state.y[0, 1]) == (np.float32(10), np.float32(16.05))
    apart = math.hypot(state.x[0, 1] - state.x[0, 0], state.y[0, 1] - state.y[0, 0])
    assert apart >= 0.75 - 1e-9


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


def test_enemies_wait_before_they_attack_a_new_target(battle):
    lost = []
    for reaction in (0, 7, 8):
        engine = battle([("MARINE", 9, 16)], [("MARINE", 12, 16)], reaction=reaction)
        lost.append(45 - play(engine, STOP).hp[0, 0])
    assert lost == [6, 6, 0]


def test_regained_points_lower_the_reward(battle):
    engine = battle([("MARINE", 9, 16)], [("ZERGLING", 12, 16)])
    engine.reset(np.array([0]), state={"hp": np.array([[45.0, 20.0]])})
    play(engine, FIRST)
    scale = 20 / (35 + 10 + 200)
    assert engine.control.rewards[0, 0] == pytest.approx((6 - 8 * 0.2734 / 16) * scale)
    play(engine, STOP)
    assert engine.control.rewards[0, 0] == 0.0
    literal = battle([("MARINE", 9, 16)], [("ZERGLING", 12, 16)], reward_abs_bug=True)
    literal.reset(np.array([0]), state={"hp": np.array([[45.0, 20.0]])})
    play(literal, STOP)
    assert literal.control.rewards[0, 0] == pytest.approx(8 * 0.2734 / 16 * scale)


def test_regained_points_are_not_paid_again(battle):
    engine = battle([("MARINE", 9, 16)], [("ZERGLING", 12, 16)])
    scale = 20 / (35 + 10 + 200)
    play(engine, FIRST)
    play(engine, STOP, steps=20)
    regained = float(engine.state.regained[0])
    assert regained > 2.0
    play(engine, FIRST)
    assert engine.control.rewards[0, 0] == pytest.approx(
        (6 - regained - 8 * 0.2734 / 16) * scale, abs=1e-9
    )
    assert engine.state.regained[0] == 0.0


@pytest.mark.parametrize(
    "options",
    [
        {"map": "2s3z"},
        {"map": "MMM2", "start": "shifted"},
        {"teams": "drawn", "race": "zerg", "num_agents": 10, "num_enemies": 5},
        {"teams": "drawn", "race": "protoss", "num_agents": 10, "num_enemies": 3},
    ],
)
def test_every_point_is_paid_once(options):
    engine = games(16, **options)
    rules, state = engine.constants.rules, engine.state
    full = rules.kinds.stats[state.kind[:, rules.num_agents :], :2].sum(axis=2) + 10
    theirs = (state.hp + state.shield + 10) * state.living
    lost = full.sum(axis=1) - theirs[:, rules.num_agents :].sum(axis=1)
    won = engine.control.measures[:, 0]
    paid = (lost + state.regained + 200 * won) * 20 / (full.sum(axis=1) + 200)
    np.testing.assert_allclose(engine.control.returns[:, 0], paid)
    assert (paid <= 20 + 1e-9).all()
    empty = ~state.living[:, rules.num_agents :].any(axis=1) & (won == 1)
    np.testing.assert_allclose(engine.control.returns[empty, 0], 20.0)


@pytest.mark.parametrize(
    ("ranges", "zealot", "stalker"),
    # From edge to edge, at least 2 cells between centres; 6 + 0.625 + 0.375 for the Stalker.
    [("unit", 2.0, 7.0), ("smacv2", 2.0, 6.0), ("smac", 6.0, 6.0)],
)
def test_legal_targets_follow_from_the_kind(battle, ranges, zealot, stalker):
    for kind, limit in {"ZEALOT": zealot, "STALKER": stalker}.items():
        for distance, is_legal in ((limit - 0.01, True), (limit + 0.01, False)):
            engine = battle([(kind, 9, 16)], [("MARINE", 9 + distance, 16)], ranges=ranges)
            assert engine.control.masks[0, 0, FIRST] == is_legal


def test_who_can_be_struck_without_a_step_is_a_legal_target(battle):
    for distance, strikes in ((5.74, True), (5.76, False)):
        engine = battle([("MARINE", 9, 16)], [("MARINE", 9 + distance, 16)], opponent="hold")
        assert engine.control.masks[0, 0, FIRST] == strikes
        played = battle(
            [("MARINE", 9, 16)],
            [("MARINE", 9 + distance, 16)],
            opponent="hold",
            free_orders=True,
        )
        assert (play(played, FIRST).x[0, 0] == 9) == strikes


def test_free_orders_are_legal_from_afar_and_lead_there(battle):
    engine = battle([("ZEALOT", 9, 16)], [("MARINE", 20, 16)], free_orders=True)
    assert engine.control.masks[0, 0, FIRST] == 1
    assert play(engine, FIRST, steps=2).x[0, 0] == pytest.approx(9 + 2 * 2.25 / 2)


def test_a_field_of_view_hides_what_is_behind(battle):
    engine = battle([("MARINE", 9, 16)], [("MARINE", 12, 16)], field_of_view=90)
    assert engine.control.masks[0, 0, FIRST] == 1
    play(engine, WEST)
    assert engine.control.masks[0, 0, FIRST] == 0
    enemies = engine.layout["enemies"]
    assert not engine.control.obs[0, 0, enemies.start : enemies.stop].any()


def test_places_are_observed():
    engine = Engine(ID, map="3m", start="fixed")
    engine.reset(np.array([0]))
    part = engine.layout["place"]
    x, y = engine.control.obs[0, :, part.start : part.stop].T
    np.testing.assert_allclose(x, (engine.state.x[0, :3] - 16) / 16, atol=1e-6)
    np.testing.assert_allclose(y, (engine.state.y[0, :3] - 16) / 16, atol=1e-6)


@pytest.mark.parametrize("name", bundled_maps())
def test_drawn_starts_are_on_the_ground_and_clear(name):
    engine = Engine(ID, 16, map=name)
    engine.reset(np.arange(16))
    state, rules = engine.state, engine.constants.rules
    assert rules.ground.walkable[state.y.astype(int), state.x.astype(int)].all()
    assert len(np.unique(state.x[:, 0])) == 16
    radius, layer = rules.kinds.stats[state.kind, 9], rules.kinds.layer[state.kind]
    gap = np.hypot(state.x[:, :, None] - state.x[:, None], state.y[:, :, None] - state.y[:, None])
    touch = gap < radius[:, :, None] + radius[:, None] - 1e-9
    touch &= layer[:, :, None] == layer[:, None]
    touch &= ~np.eye(len(rules.kind), dtype=bool)
    assert touch.mean() < 0.01


@pytest.mark.parametrize(
    ("race", "weights"),
    [
        ("protoss", {"stalker": 0.45, "zealot": 0.45, "colossus": 0.1}),
        ("terran", {"marine": 0.45, "marauder": 0.45, "medivac": 0.1}),
        ("zerg", {"zergling": 0.45, "baneling": 0.1, "hydralisk": 0.45}),
    ],
)
def test_teams_are_drawn_with_the_weights_of_smacv2(race, weights):
    lanes, n, m = 1000, 5, 6
    options = {"teams": "drawn", "race": race, "num_agents": n, "num_enemies": m}
    engine = Engine(ID, lanes, **options)
    engine.reset(np.arange(lanes))
    rules, kinds = engine.constants.rules, engine.state.kind
    word_of = dict(zip(rules.kind.tolist(), words(engine.constants.army), strict=True))
    for kind, word in word_of.items():
        # 4 standard errors; a team is drawn again if it has no unit that may be alone.
        assert abs((kinds[:, :n] == kind).mean() - weights[word]) < 4 * np.sqrt(0.25 / lanes / n)
    np.testing.assert_array_equal(kinds[:, n : 2 * n], kinds[:, :n])
    extra = {word_of[kind] for kind in kinds[:, -1].tolist()}
    assert extra == set(weights) - {"medivac", "baneling"}
    alone = [kind for kind, word in word_of.items() if word in ("medivac", "baneling")]
    assert not np.isin(kinds[:, :n], alone).all(axis=1).any()
    again = Engine(ID, 3, **options)
    again.reset(np.array([999, 0, 5]))
    np.testing.assert_array_equal(again.state.kind, kinds[[999, 0, 5]])
    np.testing.assert_array_equal(engine.state.hp, rules.kinds.stats[kinds, 0])


@pytest.mark.parametrize(
    ("race", "start"), [("protoss", "drawn"), ("terran", "shifted"), ("zerg", "fixed")]
)
def test_drawn_units_see_their_kinds(race, start):
    engine = Engine(ID, 4, teams="drawn", race=race, num_agents=10, num_enemies=11, start=start)
    engine.reset(np.arange(4))
    assert engine.agents[:2] == ("unit_0", "unit_1")
    assert engine.horizon == 200
    rules, kinds, part = engine.constants.rules, engine.state.kind, engine.layout["own"]
    types = rules.kinds.traits[kinds[:, :10], 6]
    own = engine.control.obs[:, :, part.start : part.stop]
    np.testing.assert_array_equal(own[:, :, -3:].argmax(axis=2), types)
    np.testing.assert_array_equal(own[:, :, -3:].sum(axis=2), 1)
    assert set(np.unique(types)) == {0, 1, 2}
    fields = {name: field[0] for name, field in engine.state._asdict().items()}
    assert engine.spec.picture(engine.constants, fields, engine.agents).shape[2] == 3


@pytest.mark.parametrize("other", [{"map_file": "map.json"}, {"map": "8m"}])
def test_drawn_teams_and_a_map_exclude_each_other(other):
    with pytest.raises(ValueError, match="leave out one of them"):
        Engine(ID, teams="drawn", **other)


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
        engine = Engine(ID, 4, **options)
        engine.reset(np.arange(4))
        policy = make_policy(name, Game.of(engine))
        memory = policy.initial(Game.of(engine), np.zeros(4))
        for _ in range(10):
            state = engine.view()
            actions, memory = policy.act(
                engine.control.obs, memory, state, engine.control.masks == 1
            )
            engine.step(actions, DISABLED)
        assert (engine.control.invalid == 0).all()
