"""Skirmish-v0 against recordings of SMAClite with its NumPy back-end: sizes, steps, episodes."""

import gzip
import json

import builders
import numpy as np
import pytest
from battles import map_of
from golden_folders import unpacked

from coopbench.baselines.game import Game
from coopbench.baselines.registry import make_policy
from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED
from coopbench_envs.skirmish.scenario import bundled, bundled_maps
from coopbench_envs.skirmish.terrain import presets, walls_of

ID, FOLDER = "coopbench/Skirmish-v0", unpacked("skirmish")
# map: agents, enemies, limit, actions, entries of an observation and of the state, enemies' points
TABLE = {
    "2s3z": (5, 5, 120, 11, 80, 120, 770),
    "3s5z": (8, 8, 150, 14, 128, 216, 1230),
    "1c3s5z": (9, 9, 180, 15, 162, 270, 1580),
    "5m_vs_6m": (5, 6, 70, 12, 55, 98, 270),
    "10m_vs_11m": (10, 11, 150, 17, 105, 243, 495),
    "27m_vs_30m": (27, 30, 180, 36, 285, 1170, 1350),
    "3s5z_vs_3s6z": (8, 9, 170, 15, 136, 230, 1380),
    "MMM2": (10, 12, 180, 18, 176, 322, 885),
    "2s_vs_1sc": (2, 1, 300, 7, 17, 27, 300),
    "3s_vs_5z": (3, 5, 250, 11, 48, 68, 750),
    "6h_vs_8z": (6, 8, 150, 14, 78, 140, 1200),
    "bane_vs_bane": (24, 24, 200, 30, 336, 984, 820),
    "2c_vs_64zg": (2, 64, 400, 70, 332, 342, 2240),
    "corridor": (6, 24, 400, 30, 156, 282, 840),
    "3m": (3, 3, 60, 9, 30, 48, 135),
    "8m": (8, 8, 120, 14, 80, 168, 360),
    "25m": (25, 25, 150, 31, 250, 950, 1125),
    "8m_vs_9m": (8, 9, 120, 15, 85, 179, 405),
    "MMM": (10, 10, 150, 16, 160, 290, 715),
}
STATE = ("x", "y", "vx", "vy", "hp", "shield", "wait", "energy", "healing", "cooldown", "target")
STEPS = ("10m_vs_11m", "27m_vs_30m", "2c_vs_64zg", "2s3z", "2s_vs_1sc", "3s5z", "MMM2")
STEPS += ("bane_vs_bane", "corridor")
EPISODES = ("2s3z", "3s5z", "5m_vs_6m", "MMM2", "corridor", "bane_vs_bane")


@pytest.mark.parametrize("name", TABLE)
def test_sizes_are_those_of_smac(name):
    agents, enemies, limit, actions, width, size, points = TABLE[name]
    engine = Engine(ID, map=name)
    army = engine.constants.army
    assert (len(engine.agents), army.num_enemies, engine.horizon) == (agents, enemies, limit)
    assert engine.action_spaces[0].n == actions
    assert engine.observation_spaces[0].shape == (width,)
    assert engine.state_space.shape == (size,)
    assert army.max_reward == 10 * enemies + 200 + points


def test_every_map_of_the_package_is_in_the_table():
    assert set(bundled_maps()) == set(TABLE)


def test_agents_are_named_by_kind():
    assert Engine(ID, map="2s3z").agents == (
        *("stalker_0", "stalker_1"),
        *("zealot_2", "zealot_3", "zealot_4"),
    )


def test_walls_are_those_of_the_reference():
    walls = json.loads((FOLDER / "walls.json").read_text())
    for name, rectangles in walls.items():
        np.testing.assert_array_equal(walls_of(presets()[name.upper()]), rectangles)


@pytest.mark.parametrize(
    "name", ["2s3z", "3s5z", "5m_vs_6m", "MMM2", "corridor", "2c_vs_64zg", "bane_vs_bane"]
)
def test_the_first_state_is_that_of_the_reference(name):
    recorded = np.load(FOLDER / "initial.npz")
    engine = builders.begun(ID, map=name, global_state=True, seed=3)
    state, units = engine.state, recorded[f"{name}__units"][0]
    for k, field in enumerate(("hp", "shield", "energy", "cooldown", "x", "y")):
        np.testing.assert_allclose(getattr(state, field)[0], units[:, k], atol=1e-6)
    assert [kind.name for kind in bundled(name).kinds] == recorded[f"{name}__types"].tolist()
    control = engine.control
    np.testing.assert_allclose(control.obs, recorded[f"{name}__obs"], atol=1e-6)
    np.testing.assert_allclose(control.state, recorded[f"{name}__state"], atol=1e-6)
    np.testing.assert_array_equal(control.masks, recorded[f"{name}__avail"])


@pytest.mark.parametrize("name", STEPS)
def test_one_step_from_a_full_state_is_that_of_the_reference(name):
    recorded = np.load(FOLDER / f"onestep_{name}.npz")
    steps, alive = len(recorded["reward"]), recorded["after_alive"]
    engine = Engine(ID, steps, map=name, global_state=True)
    state = {field: recorded[f"before_{field}"] for field in STATE}
    state |= {"living": recorded["before_alive"], "turns": recorded["turns"]}
    engine.reset(np.zeros(steps, np.uint64), state=state)
    control = engine.control
    np.testing.assert_array_equal(control.masks, recorded["masks"])
    engine.step(recorded["actions"].astype(np.int64), DISABLED)
    assert (control.invalid == 0).all()
    np.testing.assert_allclose(control.rewards[:, 0], recorded["reward"], atol=1e-4)
    np.testing.assert_array_equal(control.ended, recorded["done"])
    same = engine.state.living == alive
    for field in STATE:
        near = np.abs(getattr(engine.state, field) - recorded[f"after_{field}"]) <= 1e-4
        same &= near | ~alive
    assert same.mean() >= 0.998
    np.testing.assert_array_equal(control.masks, recorded["masks_after"])
    for mine, theirs in ((control.obs, "obs_after"), (control.state, "state_after")):
        near = (np.abs(mine - recorded[theirs]) <= 1e-4).reshape(steps, -1).all(axis=1)
        assert near.mean() >= 0.97


@pytest.mark.parametrize("kind", ["script", "random"])
@pytest.mark.parametrize("name", EPISODES)
def test_episodes_follow_the_reference_up_to_the_first_contact(name, kind):
    recorded = np.load(FOLDER / f"ep_{name}_{kind}_s0_numpy.npz")
    units = recorded["units"]
    changed = np.abs(np.diff(units[:, :, :2].sum(axis=2), axis=0)).max(axis=1) > 1e-9
    engine = builders.begun(ID, map=name, seed=1)
    steps = int(np.flatnonzero(changed)[0])
    for t in range(steps):
        np.testing.assert_array_equal(engine.control.masks[0], recorded["avail"][t])
        engine.step(recorded["actions"][None, t].astype(np.int64), DISABLED)
        assert engine.control.rewards[0, 0] == pytest.approx(recorded["rewards"][t], abs=1e-6)
        for k, field in ((4, "x"), (5, "y")):
            np.testing.assert_allclose(
                getattr(engine.state, field)[0], units[t + 1, :, k], atol=1e-3
            )
    assert steps > 0


@pytest.mark.parametrize("name", EPISODES)
def test_attack_nearest_is_the_script_of_the_recordings(name):
    recorded = np.load(FOLDER / f"ep_{name}_script_s0_numpy.npz")
    steps, units = len(recorded["rewards"]), recorded["units"][:-1]
    engine = Engine(ID, steps, map=name)
    fields = ("hp", "shield", "energy", "cooldown", "x", "y")
    state = {field: units[:, :, k] for k, field in enumerate(fields)}
    state |= {field: state[field].astype(np.float32) for field in ("x", "y")}
    engine.reset(np.zeros(steps, np.uint64), state=state | {"living": units[:, :, 6] > 0})
    control = engine.control
    np.testing.assert_array_equal(control.masks, recorded["avail"][:steps])
    policy = make_policy("attack_nearest", Game.of(engine))
    actions, _ = policy.act(control.obs, None, engine.view(), control.masks == 1)
    np.testing.assert_array_equal(actions, recorded["actions"])


def duels():
    with gzip.open(FOLDER / "duels.json.gz") as file:
        return [duel for duel in json.load(file) if duel["rng_independent"]]


@pytest.mark.parametrize("duel", duels(), ids=lambda d: f"{d['ally']}-{d['enemy']}-{d['dist']}")
def test_duels_end_as_in_the_reference(duel, tmp_path):
    """In some order of turns: who acts first decides about a tick of regeneration."""
    ally, enemy = (duel["ally"], 12, 16), (duel["enemy"], 12 + duel["dist"], 16.3)
    content = map_of([ally], [enemy], attack_point=[12, 16])
    file = tmp_path / "duel.json"
    file.write_text(json.dumps(content))
    lanes = 16
    engine = builders.begun(ID, lanes, map_file=str(file), horizon=1000)
    assert engine.constants.army.max_reward == duel["max_reward"]
    state, same = engine.state, np.ones(lanes, np.bool_)
    for t, (action, reward) in enumerate(zip(duel["actions"], duel["rewards"], strict=True)):
        engine.step(np.full((lanes, 1), action), DISABLED)
        units = np.array(duel["units"][t + 1])
        alive = units[:, 6] > 0
        same &= np.abs(engine.control.rewards[:, 0] - reward) < 1e-4
        same &= (state.living == alive).all(axis=1)
        for k, field in enumerate(("hp", "shield", "energy", "cooldown", "x", "y")):
            near = np.abs(getattr(state, field) - units[:, k]) < 1e-3
            same &= (near | ~alive).all(axis=1)
    assert same.any()
    assert (engine.control.ended[same] == duel["done"]).all()
    assert (engine.control.measures[same, 0] == duel["win"]).all()
