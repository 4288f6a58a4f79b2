"""The engine: team rewards, agents that fall, limits by lane, global state, memory, threads."""

import copy
import os
import pickle
import signal
import time
from operator import attrgetter
from types import SimpleNamespace

import builders
import gymnasium
import numpy as np
import pettingzoo
import pytest
import toy_squad

import coopbench
from coopbench.episodes.metrics import known_metrics, missing_metric, values
from coopbench.protocol.loading import ad_hoc
from coopbench_envs import Engine, threads
from coopbench_envs.drivers import settle
from coopbench_envs.engine import DISABLED, NEXT_STEP, SAME_STEP

SQUAD, APART = "test/Squad-v0", "test/Freelancers-v0"
LANES = 16


def played(env_id, steps=30, mode=NEXT_STEP, lanes=LANES, each=lambda engine: None, **how):
    """An engine after some random steps; ``each`` is called after every one."""
    engine = builders.begun(env_id, lanes, **how)
    draws = np.random.default_rng(5)
    for _ in range(steps):
        if engine.discrete:
            actions = draws.integers(0, engine.action_spaces[0].n, engine.actions.shape)
        else:
            low, high = engine.action_bounds()
            actions = draws.uniform(low, high, engine.actions.shape)
        engine.step(actions, mode)
        each(engine)
    return engine


# --- one reward for the team ----------------------------------------------------------------------


def test_a_common_reward_is_everybodys_and_counts_once():
    seen = []

    def check(engine):
        control = engine.control
        np.testing.assert_array_equal(control.rewards, np.tile(control.team[:, None], (1, 4)))
        np.testing.assert_array_equal(control.returns, np.tile(control.returns[:, :1], (1, 4)))
        seen.append((control.team[:, None] > 0) & ~control.alive & ~control.terminated)

    played(SQUAD, each=check)
    assert np.any(seen)  # agents that have fallen are paid, too


def test_without_it_the_team_earns_the_sum_and_the_fallen_earn_nothing():
    fallen = [np.zeros((LANES, 4), np.bool_)]

    def check(engine):
        control = engine.control
        np.testing.assert_array_equal(control.team, control.rewards.sum(axis=1))
        went_on = fallen[-1] & (engine.state.time > 0)[:, None]
        assert (control.rewards[went_on] == 0).all()
        fallen.append(~control.alive)

    played(APART, each=check)
    assert np.any(fallen)


def test_the_dead_earn_nothing_whatever_the_game_pays_them():
    control = SimpleNamespace(
        alive=np.array([[True, False]]),
        rewards=np.array([[0.5, 4.0]]),
        terminated=np.zeros((1, 2), np.bool_),
        returns=np.array([[1.0, 2.0]]),
        ended=np.zeros(1, np.bool_),
        team=np.zeros(1),
    )
    settle.py_func(control, 0, 1, False, False)
    assert control.rewards.tolist() == [[0.5, 0.0]]
    assert control.returns.tolist() == [[1.5, 2.0]]
    assert control.team.tolist() == [0.5]


def test_the_return_of_a_team_is_its_reward_once_and_fairness_is_not_offered(tmp_path):
    """Also after it is read back."""
    report = coopbench.evaluate(ad_hoc(SQUAD, episodes=6), ["random"], tmp_path)
    again = coopbench.load_report(tmp_path)
    for block in (*report.episodes, *again.episodes):
        np.testing.assert_array_equal(values(block, "return"), block.returns[:, 2])
        np.testing.assert_array_equal(values(block, "own_return"), block.returns[:, 0])
    (columns,) = again.episodes.columns()
    assert columns["return"] == columns["return_hand_0"]
    assert not {"fairness", "gini"} & set(known_metrics(SQUAD))
    assert {"fairness", "gini"} <= set(known_metrics(APART))
    with pytest.raises(ValueError, match=r"no metric 'gini' in task .* same team reward"):
        values(block, "gini")
    assert "it compares what agents earn" in missing_metric(SQUAD, "fairness", "task 'squad'")
    assert "Did you mean 'gini'" in missing_metric(APART, "ginni", "task 'apart'")


# --- agents that fall -----------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", [SQUAD, APART])
def test_absent_agents_see_nothing_choose_nothing_and_are_not_terminated(env_id):
    seen = []

    def check(engine):
        control = engine.control
        expected = (engine.state.health > 0) & ~control.terminated
        np.testing.assert_array_equal(control.alive, expected)
        left = control.ended[:, None] & (engine.state.health > 0)  # they see how it ends
        gone = ~control.alive & ~left
        assert (control.obs[gone] == 0).all()
        assert (control.obs[left] > 0).any(axis=1).all()
        assert (control.obs[~gone] > 0).any(axis=1).all()
        assert (control.masks[gone] == [1, 0, 0]).all()
        seen.append((gone & ~control.terminated).any())

    engine = played(env_id, each=check)
    assert all(seen)
    invalid, health = engine.control.invalid.copy(), engine.state.health.copy()
    gone = ~engine.control.alive & ~engine.control.done[:, None]
    engine.step(np.full(engine.actions.shape, 99), DISABLED)
    assert gone.any()
    np.testing.assert_array_equal(engine.control.invalid[gone], invalid[gone])
    np.testing.assert_array_equal(engine.state.health[gone], health[gone])


def test_who_is_terminated_takes_no_further_part():
    engine = builders.begun(SQUAD, goal=1)
    engine.step(np.full((1, 4), toy_squad.WORK))
    assert engine.control.ended[0]
    assert not engine.control.alive.any()


def test_a_restored_state_says_who_is_present():
    engine = builders.begun(SQUAD, state={"health": np.array([0, 2, 0, 1])})
    assert engine.control.alive[0].tolist() == [False, True, False, True]
    assert (engine.control.obs[0, 0] == 0).all()


def test_pettingzoo_removes_the_fallen_once_or_keeps_them():
    removed, single = pettingzoo.make("parallel", SQUAD), gymnasium.make(SQUAD)
    kept = pettingzoo.make("parallel", SQUAD, dead_agents="keep")
    fallen = 0
    for seed in range(20):
        before = single.reset(seed=seed)[1]["alive"]
        for env in (removed, kept):
            env.reset(seed=seed)
        assert set(removed.agents) == {f"hand_{a}" for a in np.flatnonzero(before)}
        while True:
            _, _, ended, cut, info = single.step(np.ones(4, np.int64))
            flags, others = (
                env.step(dict.fromkeys(env.agents, toy_squad.WORK))[2] for env in (removed, kept)
            )
            if ended or cut:
                break
            fell = {f"hand_{a}" for a in np.flatnonzero(before & ~info["alive"])}
            assert {agent for agent, flag in flags.items() if flag} == fell
            assert not any(others.values())
            assert set(removed.agents) == {f"hand_{a}" for a in np.flatnonzero(info["alive"])}
            assert len(kept.agents) == 4
            before = info["alive"]
            fallen += len(fell)
        assert not kept.agents
    assert fallen


# --- limits by lane -------------------------------------------------------------------------------


def test_every_lane_ends_at_its_own_limit_and_none_after_the_horizon():
    engine = builders.begun(SQUAD, LANES, goal=1000, horizon=9, state={"health": np.full(4, 3)})
    limit = np.minimum(engine.state.limit, 9)
    assert len(set(limit.tolist())) > 3
    for t in range(1, 12):
        engine.step(np.zeros((LANES, 4), np.int64), DISABLED)
        np.testing.assert_array_equal(engine.control.truncated, t >= limit)
        np.testing.assert_array_equal(engine.control.done, t >= limit)
    assert not engine.control.terminated.any()
    np.testing.assert_array_equal(engine.state.time, limit)


# --- global state ---------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", [SQUAD, APART, "coopbench/TrustDilemma-v1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_driver_writes_the_global_state_when_asked(env_id, order):
    plain = []
    played(env_id, each=lambda e: plain.append(e.global_state()), horizon=9)
    kept = []

    def check(engine):
        np.testing.assert_array_equal(engine.control.state, engine.global_state())
        kept.append(engine.global_state())

    played(env_id, each=check, horizon=9, global_state=True, order=order)
    np.testing.assert_array_equal(kept, plain)
    space = Engine(env_id, horizon=9).state_space
    assert all(space.contains(row) for row in kept[-1])


def test_looking_at_the_global_state_changes_nothing():
    engine = played(SQUAD)
    before = [array.copy() for array in (*engine.control, *engine.state)]
    engine.global_state()
    for old, now in zip(before, (*engine.control, *engine.state), strict=True):
        np.testing.assert_array_equal(old, now)


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", [SQUAD, "coopbench/TrustDilemma-v1"])
def test_the_lane_may_lie_innermost_in_memory(env_id):
    one, other, usual = (
        played(env_id, 12, SAME_STEP, order=order, horizon=5) for order in ("C", "F", None)
    )
    for engine in (other, usual):
        for name in ("control.obs", "control.masks", "control.rewards", "finals.obs"):
            ours, theirs = (attrgetter(name)(e) for e in (one, engine))
            np.testing.assert_array_equal(ours, theirs, err_msg=name)
        np.testing.assert_array_equal(one.finals.returns, engine.finals.returns)
        np.testing.assert_equal(engine.get_state(), one.get_state())
    for array in (*other.state, *other.control, other.actions):
        assert array.flags.f_contiguous
    for array in (*one.state, *one.control, one.actions, usual.control.obs):
        assert array.flags.c_contiguous
    for engine in (other, usual):
        twin = pickle.loads(pickle.dumps(engine))
        twin.step(np.zeros(twin.actions.shape, twin.actions.dtype))
        engine.step(np.zeros(twin.actions.shape, twin.actions.dtype))
        np.testing.assert_array_equal(twin.control.obs, engine.control.obs)
        np.testing.assert_array_equal(twin.global_state(), engine.global_state())


def test_a_reset_of_some_lanes_leaves_the_others_alone():
    engine = builders.begun("TrustDilemma-v0", 3)
    engine.reset(chosen=np.array([False, True, True]))
    trust = np.full((3, 2, 2), 0.25)
    engine.reset(np.full(3, 9), chosen=np.array([False, True, False]), state={"trust": trust})
    assert engine.control.seed.tolist() == [0, 9, 2]
    assert engine.control.episode.tolist() == [0, 0, 1]
    assert (engine.state.trust == 0.25).all(axis=(1, 2)).tolist() == [False, True, False]


def test_episodes_without_a_seed_count_from_0():
    engine = Engine("TrustDilemma-v0", 2)
    for episode in (0, 1):
        engine.reset()
        assert engine.control.episode.tolist() == [episode, episode]


def test_a_saved_state_stays_as_it_was():
    engine = builders.begun("TrustDilemma-v0", seed=1)
    saved = engine.get_state()
    before = {name: value.copy() for name, value in saved.items()}
    engine.step(np.full(engine.actions.shape, 30.0))
    assert engine.state.time[0] == 1
    np.testing.assert_equal(saved, before)


def test_numbers_of_a_state_have_squares_in_single_precision():
    engine = builders.begun("TrustDilemma-v0", seed=1)
    engine.restore({"payoff": np.full((1, 2), -1e18)})
    for wrong in (1.1e18, -1e30, np.inf):
        with pytest.raises(ValueError, match=r"finite numbers of up to 1e\+18 in size"):
            engine.restore({"payoff": np.full((1, 2), wrong)})


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("done", 2, "'done' of .* must hold True or False; given int64 with values that are not"),
        ("rng", -1, "'rng' .* must hold whole numbers from 0 to 18446744073709551615; given int64"),
        ("time", 0.5, "'time' of .* must hold whole numbers from -9223372036854775808 to"),
        ("trust", "high", "'trust' of .* must have shape"),
        ("time", "late", "'time' of .* must hold whole numbers .* given <U4 that is not"),
    ],
)
def test_what_a_field_of_a_state_holds_is_named(field, value, message):
    with pytest.raises(ValueError, match=message):
        builders.begun("TrustDilemma-v0", seed=1).restore({field: value})


def test_an_unknown_order_is_refused():
    with pytest.raises(ValueError, match="order was 'K'; allowed: 'C'"):
        Engine(SQUAD, order="K")


# --- threads --------------------------------------------------------------------------------------


def test_threads_are_kept_and_change_no_bits(sharing):
    pools = []
    many = played(SQUAD, threads=3, each=lambda e: pools.append(e._lane_pool._pool))
    assert pools[2] is not None
    assert all(pool is pools[2] for pool in pools[2:])
    np.testing.assert_equal(many.get_state(), played(SQUAD).get_state())
    many.close()
    many.step(np.zeros((LANES, 4), np.int64))
    assert many._lane_pool._pool is not pools[2]


def test_closing_a_vector_environment_ends_its_threads(sharing):
    many = gymnasium.make_vec(SQUAD, num_envs=4, threads=2)
    many.reset(seed=0)
    for _ in range(3):
        many.step(many.action_space.sample())
    lane_pool = many.unwrapped.engine._lane_pool
    assert lane_pool._pool is not None
    many.close()
    assert lane_pool._pool is None


def test_engines_with_threads_are_copied_and_pickled(sharing):
    engine = played(SQUAD, threads=2)
    twins = [copy.deepcopy(engine), pickle.loads(pickle.dumps(engine))]
    for each in (engine, *twins):
        each.step(np.ones((LANES, 4), np.int64))
    for twin in twins:
        np.testing.assert_array_equal(twin.control.obs, engine.control.obs)
        assert twin._lane_pool._pool is not engine._lane_pool._pool


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_makes_threads_of_its_own(sharing):
    engine = played(SQUAD, threads=2)
    child = os.fork()
    if child == 0:
        engine.step(np.ones((LANES, 4), np.int64))
        os._exit(0)
    until, status = time.monotonic() + 60, None
    while status is None and time.monotonic() < until:
        ended, code = os.waitpid(child, os.WNOHANG)
        status = code if ended else time.sleep(0.01)
    if status is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, os.WNOHANG)
    assert status == 0, "the child hangs"


def test_work_is_shared_only_where_there_is_much(monkeypatch):
    numbers = sum(array.size for array in Engine(SQUAD, 4).control)
    for more, number in ((0, 2), (1, 1)):
        monkeypatch.setattr(threads, "WORTH_SHARING", numbers + more)
        assert Engine(SQUAD, 4, threads=2)._lane_pool.threads == number
    assert Engine(SQUAD, 4)._lane_pool.threads == 1


def test_actions_that_are_not_finite_are_refused_before_anything_changes(sharing):
    for count in (1, 2):
        engine = played("coopbench/TrustDilemma-v1", 3, threads=count)
        before = engine.get_state()
        actions = np.full(engine.actions.shape, 0.5)
        actions[-1, 1, 0] = np.inf
        with pytest.raises(ValueError, match=r"must be finite; lane 15, agent 'firm_1' gave inf"):
            engine.step(actions)
        np.testing.assert_equal(engine.get_state(), before)
