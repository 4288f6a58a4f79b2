"""Policies on the other side of battles, which see them from there."""

import copy
import pickle

import builders
import gymnasium
import numpy as np
import pytest
from episodes import begun

import coopbench_envs
from coopbench_envs import Engine
from coopbench_envs.shells.aec_env import AECEnv
from coopbench_envs.shells.parallel_env import ParallelEnv

V0, V1 = "coopbench/Skirmish-v0", "coopbench/Skirmish-v1"
BOTH = pytest.mark.parametrize("battle", [V0, V1])


def size_of(engine):
    rows, columns = engine.constants.army.terrain.shape
    return np.array([columns, rows])


def places(engine):
    return np.stack([engine.state.x, engine.state.y], axis=2)


def play(engine, player):
    engine.step(player.act(engine.control.obs, engine.view(), engine.control.masks))


def start_of(engine):
    return engine.constants.army.start if engine.spec.id == V0 else engine.constants.rules.start


@BOTH
@pytest.mark.parametrize("name", ["3m", "MMM", "27m_vs_30m"])
def test_the_other_side_of_a_map_is_the_map_turned(name, battle):
    engine, other = Engine(battle, map=name), Engine(battle, map=name, side="enemies")
    n, army, turned = len(engine.agents), engine.constants.army, other.constants.army
    seats = np.roll(np.arange(len(army.stats)), -n)
    assert len(other.agents) == len(seats) - n
    np.testing.assert_array_equal(army.stats[seats], turned.stats)
    np.testing.assert_array_equal(army.terrain[::-1, ::-1], turned.terrain)
    start = size_of(engine) - start_of(engine)[seats]
    np.testing.assert_allclose(start_of(other), start, atol=1e-5)
    if battle == V0:  # where units take turns
        np.testing.assert_array_equal(seats[turned.order], army.order)


@pytest.mark.parametrize("name", ["MMM"])
@pytest.mark.parametrize(
    ("battle", "options", "places_within"), [(V0, {}, 1e-2), (V1, {"jitter": False}, 1e-6)]
)
def test_a_battle_is_the_same_from_both_sides(name, battle, options, places_within):
    """Also in the order of turns, which version 0 draws; its places are rounded to float32."""
    parameters = {"map": name, **options}
    engine = builders.begun(battle, 4, opponent="policy:kite", **parameters)
    other = builders.begun(battle, 4, opponent="policy:focus_fire", side="enemies", **parameters)
    player, n = begun(engine, "focus_fire"), len(engine.agents)
    against = begun(other, "kite")
    other.restore(engine._opponent._reflected())
    seats = np.roll(np.arange(engine.state.x.shape[1]), -n)
    for _ in range(12):
        play(engine, player)
        play(other, against)
        image = size_of(engine) - places(engine)[:, seats]
        np.testing.assert_allclose(places(other), image, atol=places_within)
        np.testing.assert_allclose(other.state.hp, engine.state.hp[:, seats])
    assert engine.state.taken.sum() > 0
    np.testing.assert_allclose(other.state.dealt, engine.state.taken)


@BOTH
@pytest.mark.parametrize("policy", ["random", "smac_heuristic"])  # both remember
def test_battles_depend_on_seed_and_episode_alone(policy, battle):
    engine = builders.begun(battle, 3, horizon=12, opponent=f"policy:{policy}", seed=5)
    rows, twins = [], []
    for step in range(26):  # two episodes and their resets
        if step == 6:
            twins = [copy.deepcopy(engine), pickle.loads(pickle.dumps(engine))]
        for each in (engine, *twins):
            each.step(np.ones((3, 3), np.int64))
            np.testing.assert_array_equal(each.state.x, engine.state.x)
        rows.append(engine.state.x.copy())
    alone = builders.begun(battle, horizon=12, opponent=f"policy:{policy}", seed=6)
    alone.reset()  # its second episode
    for row in rows[13:25]:
        alone.step(np.ones((1, 3), np.int64))
        np.testing.assert_array_equal(alone.state.x[0], row[1])


@BOTH
@pytest.mark.parametrize("policy", ["random", "smac_heuristic"])
def test_battles_go_on_from_a_state_whatever_was_played_before(policy, battle):
    engine = builders.begun(battle, opponent=f"policy:{policy}", seed=1)
    stop = np.ones((1, 3), np.int64)
    for _ in range(4):
        engine.step(stop)
    state = engine.get_state()
    courses = []
    for seed, steps in ((1, 4), (5, 0), (9, 4), (9, 2)):  # 4: the time of the state
        other = engine
        if (seed, steps) != (1, 4):
            other = builders.begun(battle, opponent=f"policy:{policy}", seed=seed)
            for _ in range(steps):
                other.step(stop)
        other.reset(state=state)
        courses.append([])
        for _ in range(6):
            other.step(stop)
            courses[-1].append(places(other))
    for course in courses[1:]:
        np.testing.assert_array_equal(course, courses[0])


@BOTH
def test_an_opponent_of_ones_own_plays_until_another_one_comes(battle):
    env = gymnasium.make(battle, opponent="policy:random").unwrapped
    env.reset(seed=1)
    env.set_opponent(lambda observations: np.ones(observations.shape[:2], np.int64))  # stop
    before = env.engine.state.x[0].copy()
    env.step(np.ones(3, np.int64))
    np.testing.assert_array_equal(env.engine.state.x[0], before)
    env.set_opponent("attack_nearest")
    env.step(np.ones(3, np.int64))
    assert (env.engine.state.x[0, 3:] != before[3:]).any()
    np.testing.assert_array_equal(env.engine.state.x[0, :3], before[:3])


@BOTH
@pytest.mark.parametrize("order", [-3, 8, 99])  # 8: an attack on a unit that is too far away
def test_illegal_orders_do_nothing(order, battle):
    options = {"start": "fixed"} if battle == V1 else {}
    engine = Engine(battle, opponent="policy:random", **options)
    engine.set_opponent(lambda observations: np.full(observations.shape[:2], order))
    engine.reset(np.zeros(1, np.uint64))
    before = places(engine)
    engine.step(np.ones((1, 3), np.int64))
    np.testing.assert_array_equal(places(engine), before)


@pytest.mark.parametrize(
    ("opponent", "message"),
    [
        ("policy:focus_fier", "Did you mean 'focus_fire'"),
        ("policy:", r"one of 'attack_move', .*, 'policy:NAME'"),
        ("attak_move", "Did you mean 'attack_move'"),
        ("policy:tit_for_tat", "cannot play coopbench/Skirmish-v[01]"),
    ],
)
@BOTH
def test_an_opponent_that_cannot_play_is_named(opponent, message, battle):
    with pytest.raises(ValueError, match=message):
        Engine(battle, opponent=opponent)


def test_who_plays_by_a_rule_is_not_replaced():
    engine = Engine(V1, opponent="kite")
    with pytest.raises(ValueError, match="opponent='policy:NAME'"):
        engine.set_opponent("focus_fire")
    made = [gymnasium.make("coopbench/TrustDilemma-v1").unwrapped, ParallelEnv(V1, map="3m")]
    for env in (*made, AECEnv(V1, map="3m"), coopbench_envs.pymarl(V1, map="3m")):
        with pytest.raises(ValueError, match="made without a policy"):
            env.set_opponent("random")
