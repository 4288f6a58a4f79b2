"""Skirmish-v0: illegal actions, orders of commanders, and maps that are refused."""

import json
import re
from functools import partial
from itertools import product

import builders
import numpy as np
import pytest
from battles import FIRST, WEST, begun, map_of, play

import coopbench_envs
from coopbench.baselines.game import Game
from coopbench.baselines.registry import make_policy
from coopbench_envs import Engine, pictures
from coopbench_envs.skirmish.picture import HEADER

ID = "coopbench/Skirmish-v0"


@pytest.fixture
def battle(tmp_path):
    return partial(begun, tmp_path, ID)


def test_illegal_actions_and_those_of_the_dead_do_nothing():
    engine = Engine(ID, map="3m", opponent="hold")
    engine.reset(np.array([0]), state={"living": np.array([1, 1, 0, 1, 1, 1], np.bool_)})
    x, y = engine.state.x.copy(), engine.state.y.copy()
    play(engine, FIRST, 0, 99)
    np.testing.assert_array_equal(engine.state.x, x)
    np.testing.assert_array_equal(engine.state.y, y)
    assert engine.control.invalid[0].tolist() == [1, 1, 0]
    assert engine.control.masks[0, 2].tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert (engine.control.obs[0, 2] == 0).all()


def test_smacs_heuristic_orders_from_afar_if_it_may():
    """Its first orders are to attack where these are legal from the start, else to walk."""
    attacks = {}
    for name, free in product(("smac_heuristic", "smac_heuristic_free"), (False, True)):
        engine = builders.begun(ID, map="3s_vs_5z", free_orders=free)
        game = Game.of(engine)
        if not free and name == "smac_heuristic_free":
            with pytest.raises(ValueError, match=r"cannot play .* with free_orders=True alone"):
                make_policy(name, game)
            continue
        policy = make_policy(name, game)
        memory = policy.initial(game, np.zeros(1, np.uint64))
        first, _ = policy.act(engine.control.obs, memory, engine.view(), engine.control.masks == 1)
        attacks[name, free] = (first >= FIRST).tolist()
    assert attacks == {
        ("smac_heuristic", False): [[False] * 3],
        ("smac_heuristic", True): [[True] * 3],
        ("smac_heuristic_free", True): [[True] * 3],
    }


def test_heights_that_a_map_does_not_have_are_refused():
    with pytest.raises(ValueError, match=r"obs_terrain_height.* The map '3m' has no heights"):
        Engine(ID, map="3m", obs_terrain_height=True)


def ordered(engine, name):
    """Return what a commander orders in the first lane."""
    policy = make_policy(name, Game.of(engine))
    control = engine.control
    actions, _ = policy.act(control.obs, None, engine.view(), control.masks == 1)
    return actions[0].tolist()


def test_commanders_that_focus_their_fire_count_shields(battle):
    engine = battle([("MARINE", 10, 16)], [("STALKER", 12, 15), ("STALKER", 12, 17)])
    engine.reset(state={"hp": np.array([45.0, 60, 80]), "shield": np.array([0.0, 80, 0])})
    assert ordered(engine, "focus_fire") == [FIRST + 1]


@pytest.mark.parametrize(("enemy", "order"), [("MARINE", FIRST), ("ZEALOT", WEST)])
def test_commanders_that_kite_step_back_from_those_of_less_reach(battle, enemy, order):
    engine = battle([("MARINE", 10, 16)], [(enemy, 12, 16)])
    engine.reset(state={"cooldown": np.array([0.5, 0.0])})
    assert ordered(engine, "kite") == [order]


# --- maps that are refused ------------------------------------------------------------------------

GROUP = {"x": 9, "y": 16, "faction": "ALLY", "units": {"MARINE": 2}}
ENEMY = {"x": 23, "y": 16, "faction": "ENEMY", "units": {"MARINE": 2}}
BAD = {
    "a unit in a wall": ({"groups": [GROUP | {"y": 3}, ENEMY]}, "group 0: the MARINE .* in a wall"),
    "a unit outside": (
        {"groups": [GROUP | {"x": 99}, ENEMY]},
        "group 0: .* outside the map of 32 x 32 cells; move the group",
    ),
    "a group of nobody knows what": (
        {"groups": [GROUP | {"units": {"M" * 300: 1}}, ENEMY]},
        "Unknown unit 'MMM.*group 0",
    ),
    "too large a number": ({"attack_point": [10**400, 3]}, "a number of more than 50 digits"),
    "too many walls": (
        {"terrain_preset": None, "terrain": ["_C" * 50, "C_" * 50] * 50},
        "makes 5,000 walls; allowed: up to 1,000",
    ),
    "overlapping groups": (
        {"groups": [GROUP, ENEMY | {"x": 9.2}]},
        "group 1: the MARINE .* overlaps the MARINE .* of group 0; move the groups apart",
    ),
    "an unknown unit": (
        {"groups": [GROUP | {"units": {"MARINES": 2}}, ENEMY]},
        "Unknown unit 'MARINES' in .*group 0.*Did you mean 'MARINE'",
    ),
    "an unknown word": (
        {"groups": [GROUP | {"faction": "ALLIES"}, ENEMY]},
        "Unknown word 'ALLIES' in 'faction' of .*group 0.*Did you mean 'ALLY'",
    ),
    "an unknown entry": ({"attack_points": [1, 2]}, "Unknown entry 'attack_points'.*attack_point"),
    "more healers than targets": (
        {"groups": [GROUP | {"units": {"MEDIVAC": 2, "MARINE": 1}}, ENEMY]},
        "ALLY has 2 units that heal, in group 0, and 1 that they can heal",
    ),
    "a unit in small letters": (
        {"groups": [GROUP | {"units": {"marine": 2}}, ENEMY]},
        "Unknown unit 'marine' in .*group 0.* Write 'MARINE', in capitals",
    ),
    "too few types": (
        {"groups": [GROUP | {"units": {"MARINE": 2, "ZEALOT": 1}}, ENEMY], "num_unit_types": 1},
        "'num_unit_types' was 1; allowed: at least 2, because units of a side",
    ),
    "a ragged terrain": (
        {"terrain_preset": None, "terrain": ["_" * 32] * 31 + ["_" * 31]},
        "'terrain' is ragged, row 0 has 32 cells and row 31 has 31",
    ),
    "an empty terrain": ({"terrain_preset": None, "terrain": []}, "a list of 1 to 256 rows"),
    "an unknown terrain": ({"terrain_preset": "SIMPEL"}, "Did you mean 'SIMPLE'"),
    "a side without units": ({"groups": [GROUP]}, "ENEMY has no units; add a group"),
    "NaN": ({"attack_point": [float("nan"), 3]}, "'attack_point': 'x' was nan"),
    "an attack point outside": (
        {"attack_point": [16, 33]},
        r"'attack_point': 'y' was 33; allowed: a number in \[0, 32\]",
    ),
    "an attack point outside a small terrain": (
        {"terrain_preset": None, "terrain": ["_" * 28] * 20, "attack_point": [28.5, 16]},
        r"'attack_point': 'x' was 28.5; allowed: a number in \[0, 28\]",
    ),
    "a wrong count": ({"num_enemy_units": 5}, "'num_enemy_units' was 5; allowed: 2"),
    "no limit": ({"limit": None}, "has no 'limit', .* give the parameter 'horizon'"),
    "a limit of 0": ({"limit": 0}, "'limit' was 0; allowed"),
    "too few kinds": ({"num_unit_types": 2, "unit_type_ids": {"ZEALOT": 1}}, "also MARINE"),
    "negative units": ({"groups": [GROUP | {"units": {"MARINE": -1}}, ENEMY]}, "'MARINE' was -1"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_map_is_refused_before_the_first_step(case, tmp_path):
    changes, message = BAD[case]
    content = {"groups": [GROUP, ENEMY], "attack_point": [9, 16], "terrain_preset": "SIMPLE"}
    content |= {"limit": 60} | changes
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({k: v for k, v in content.items() if v is not None}))
    with pytest.raises(ValueError, match=message) as error:
        Engine(ID, map_file=str(file))
    assert case == "too few kinds" or "mine.json" in str(error.value)


def test_files_that_cannot_be_maps_are_refused(tmp_path):
    file = tmp_path / "mine.json"
    for content, message in (("[]", "a JSON object"), ("{", "not valid JSON"), ("{}", "'groups'")):
        file.write_text(content)
        with pytest.raises(ValueError, match=message):
            Engine(ID, map_file=str(file))
    for content, message in (
        ('{"groups": [], "groups": []}', "has the entry 'groups' twice; keep one"),
        ('{"limit": ' + "9" * 5000 + "}", "has a number of too many digits"),
    ):
        file.write_text(content)
        with pytest.raises(ValueError, match=message):
            Engine(ID, map_file=str(file))
    with pytest.raises(ValueError, match="cannot be read"):
        Engine(ID, map_file=str(tmp_path / "none.json"))
    with pytest.raises(ValueError, match="is not a file"):
        Engine(ID, map_file=str(tmp_path))


@pytest.mark.parametrize("name", ["", ".", "a\0b", "m" * 5000])
def test_a_map_file_that_is_no_file_is_named_with_its_parameter(name):
    message = f"Parameter 'map_file' was {name!r}, which is not a file or cannot be read; allowed: "
    with pytest.raises(ValueError, match=re.escape(message)):
        Engine(ID, map_file=name)
    with pytest.raises(ValueError, match=re.escape(message)):
        coopbench_envs.spec(ID).files.paths({"map_file": name})


def test_maps_and_units_may_begin_with_a_byte_order_mark(tmp_path):
    """As editors of Windows save them."""
    content = map_of([("scout", 10, 16)], [("MARINE", 20, 16)])
    file = tmp_path / "mine.json"
    for path, text in ((file, content), (tmp_path / "scout.json", SCOUT)):
        path.write_text("\ufeff" + json.dumps(text), encoding="utf-8")
    assert Engine(ID, map_file=str(file)).agents == ("scout_0",)


SCOUT = {"hp": 10, "armor": 0, "damage": 1, "cooldown": 0.5, "speed": 1, "attack_range": 2}
SCOUT |= {"size": 1, "attributes": ["LIGHT"], "valid_targets": ["GROUND"]}


def test_units_of_a_user_are_read_beside_the_map(tmp_path):
    (tmp_path / "scout.json").write_text(json.dumps(SCOUT))
    content = map_of([("scout", 10, 16)], [("MARINE", 20, 16)])
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(content))
    engine = Engine(ID, map_file=str(file))
    assert engine.agents == ("scout_0",)
    assert engine.constants.army.stats[0, 0] == 10
    assert [f.name for f in engine.spec.files.paths({"map_file": str(file)})] == [
        "mine.json",
        "scout.json",
    ]
    for entry, value, message in (
        ("hp", 0, "'hp' was 0; allowed"),
        ("speed", float("inf"), "'speed' was inf"),
        ("plane", "SEA", "Unknown word 'SEA'"),
        ("mana", 3, "Unknown entry 'mana'"),
    ):
        (tmp_path / "scout.json").write_text(json.dumps(SCOUT | {entry: value}))
        with pytest.raises(ValueError, match=message):
            Engine(ID, map_file=str(file))


def test_a_unit_of_a_user_has_no_name_of_a_unit_of_this_package(tmp_path):
    """Version 1 and the kinds of observations go by the name."""
    own = SCOUT | {"damage": 50, "speed": 1}
    file = tmp_path / "mine.json"
    for name in ("BANELING", "my_b"):
        (tmp_path / f"{name}.json").write_text(json.dumps(own))
        for groups in ([(f"{name}.json", 10, 16)], [("MARINE", 8, 16), (f"{name}.json", 10, 16)]):
            file.write_text(json.dumps(map_of(groups, [("MARINE", 20, 16)])))
            if name == "BANELING":
                with pytest.raises(ValueError, match=r"the unit 'BANELING.json' has the name of"):
                    Engine("coopbench/Skirmish-v1", map_file=str(file))
                continue
            kinds = Engine("coopbench/Skirmish-v1", map_file=str(file)).constants.rules.kinds
            assert kinds.stats[len(groups) - 1, 7] * 16 == pytest.approx(1 / 1.4)
            assert kinds.harm[len(groups) - 1, 0] == 50
    file.write_text(json.dumps(map_of([("BANELING", 10, 16)], [("MARINE", 20, 16)])))
    kinds = Engine("coopbench/Skirmish-v1", map_file=str(file)).constants.rules.kinds
    assert kinds.harm[0].tolist() == [16, 16 + 19]  # Marines are light


@pytest.mark.parametrize(("name", "cells"), [("2s3z", (18, 32)), ("6h_vs_8z", (16, 18))])
def test_pictures_show_the_ground_with_a_cell_around_it(name, cells):
    """Rows and columns: the ground of 2s3z is 16 rows high and as wide as the map."""
    engine = builders.begun("Skirmish-v0", map=name)
    height, width = pictures.picture(engine).shape[:2]
    scale = 720 / max(cells)
    assert abs(height - HEADER - 28 - cells[0] * scale) <= 1
    assert abs(width - 28 - cells[1] * scale) <= 1
