"""The AEC interface behaves, call for call, as PettingZoo's conversion of the Parallel one."""

import copy
import pickle

import numpy as np
import pettingzoo
import pytest
import toy_lift
from gymnasium.utils.env_checker import data_equivalence
from pettingzoo.utils.conversions import parallel_to_aec

from coopbench_envs.registration import register

PENNIES, LIFT, SQUAD = "test/Pennies-v0", "test/Lift-v0", "test/Squad-v0"
TRUST = "coopbench/TrustDilemma-v1"
GAMES = [
    (PENNIES, {"num_agents": 4, "horizon": 20}),
    (LIFT, {"num_agents": 8, "lives": 2, "horizon": 30}),
    (LIFT, {"num_agents": 3, "lives": 2, "horizon": 30, "dead_agents": "keep"}),
    (SQUAD, {"num_agents": 5}),
    (SQUAD, {"num_agents": 5, "dead_agents": "keep"}),
    (TRUST, {"horizon": 5}),
]


@pytest.fixture(autouse=True, scope="module")
def toy():
    register(toy_lift.SPEC)


def _both(env_id, parameters):
    return (
        pettingzoo.make("aec", env_id, **parameters),
        parallel_to_aec(pettingzoo.make("parallel", env_id, **parameters)),
    )


def _same(native, converted):
    """All that can be seen without moving on, in the order of the dictionaries too."""
    assert native.agents == converted.agents
    assert native.num_agents == converted.num_agents
    for name in ("rewards", "terminations", "truncations", "infos", "_cumulative_rewards"):
        one, other = getattr(native, name), getattr(converted, name)
        assert list(one) == list(other), name
        assert data_equivalence(one, other), name
    np.testing.assert_array_equal(native.state(), converted.state())
    np.testing.assert_equal(converted.env.env.get_state(), native.get_state())


@pytest.mark.parametrize(("env_id", "parameters"), GAMES)
def test_every_call_gives_what_the_conversion_gives(env_id, parameters):
    native, converted = _both(env_id, parameters)
    rng, turns, dead = np.random.default_rng(0), 0, 0
    for episode in range(4):
        seed = 5 if episode in (0, 2) else None
        native.reset(seed=seed)
        converted.reset(seed=seed)
        _same(native, converted)
        for one, other in zip(native.agent_iter(), converted.agent_iter(), strict=True):
            assert one == other == native.agent_selection
            mine, theirs = native.last(), converted.last()
            assert data_equivalence(mine, theirs)
            assert [type(value) for value in mine[2:]] == [type(value) for value in theirs[2:]]
            assert native.last(observe=False)[0] is None
            for agent in native.agents:
                np.testing.assert_array_equal(native.observe(agent), converted.observe(agent))
            action = None
            if mine[2] or mine[3]:
                dead += 1
            elif native.engine.discrete:
                action = int(rng.integers(-1, 4))
            else:
                action = rng.uniform(0.0, 1.0, native.action_space(one).shape)
            native.step(action)
            converted.step(action)
            _same(native, converted)
            turns += 1
        assert not native.agents
        assert turns > len(native.possible_agents)
    assert dead


def test_a_reset_among_the_dead_begins_anew():
    env, fresh = (pettingzoo.make("aec", LIFT, num_agents=4, lives=1) for _ in range(2))
    env.reset(seed=1)
    for agent in env.agent_iter():
        if env.terminations[agent]:
            break
        env.step(np.zeros(1))
    for one in (env, fresh):
        one.reset(seed=2)
    for mine, theirs in zip(env.agent_iter(40), fresh.agent_iter(40), strict=True):
        assert mine == theirs
        assert data_equivalence(env.last(), fresh.last())
        action = None if env.terminations[mine] else np.ones(1)
        env.step(action)
        fresh.step(action)


def _outcome(env, name):
    try:
        value = getattr(env, name)
        return value(*CALLS[name]) if name in CALLS else value
    except Exception as error:
        return type(error), str(error)


CALLS = {"render": (), "step": (0,), "observe": ("player_0",), "state": (), "last": ()}
CALLS |= {"agent_iter": ()}
ATTRIBUTES = ("agents", "agent_selection", "rewards", "terminations", "truncations", "infos")


@pytest.mark.parametrize("name", [*CALLS, *ATTRIBUTES, "num_agents"])
def test_what_is_asked_before_reset(name):
    native, converted = _both(PENNIES, {})
    outcomes = [_outcome(env, name) for env in (native, converted)]
    assert outcomes[0] == outcomes[1]
    assert "reset" in outcomes[0][1]


def test_agent_iter_ends_after_so_many_turns_and_goes_on():
    env = pettingzoo.make("aec", PENNIES, num_agents=3)
    env.reset(seed=0)
    acted = []
    for most in (2, 3):
        for agent in env.agent_iter(most):
            acted.append(agent)
            env.step(0)
    assert acted == ["player_0", "player_1", "player_2", "player_0", "player_1"]


def test_a_loop_without_steps_and_steps_after_the_end():
    env = pettingzoo.make("aec", PENNIES, horizon=1)
    env.reset(seed=0)
    with pytest.raises(AssertionError, match=r"need to call step\(\) or reset\(\) in a loop"):
        list(env.agent_iter())
    env.reset(seed=0)
    for agent in env.agent_iter():
        env.step(None if env.truncations[agent] else 0)
    assert env.step(0) is None  # as the conversion does, which only warns
    assert list(env.agent_iter()) == []


@pytest.mark.parametrize(
    ("env_id", "action", "message"),
    [
        (PENNIES, [0, 1], r"'player_0' in test/Pennies-v0 must have shape \(\); given \(2,\)"),
        (PENNIES, 0.5, "must be integers; given 0.5"),
        (PENNIES, None, "must be integers; given None"),
        (LIFT, 0.5, r"must have shape \(1,\); given \(\)"),
        (LIFT, [np.nan], r"'carrier_0' in test/Lift-v0 must be finite; given \[nan\]"),
        (LIFT, ["a"], "must be numbers; given an array of <U1"),
    ],
)
def test_wrong_actions_leave_the_turn_where_it_is(env_id, action, message):
    env = pettingzoo.make("aec", env_id)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        env.step(action)
    assert env.agent_selection == env.possible_agents[0]
    for _ in env.possible_agents:
        env.step(env.action_space(env.agent_selection).sample())
    assert env.get_state()["time"] == 1


def test_the_dead_can_only_do_nothing():
    env = pettingzoo.make("aec", LIFT, lives=1)
    env.reset(seed=0)
    for _ in range(2):
        env.step(np.ones(1))
    assert env.terminations == {"carrier_0": True, "carrier_1": False}
    with pytest.raises(ValueError, match="the only valid action is None"):
        env.step(np.ones(1))
    env.step(None)
    assert env.agents == ["carrier_1"]


def test_actions_of_an_unfinished_round_are_copied_but_are_no_state():
    env = pettingzoo.make("aec", TRUST, horizon=4)
    env.reset(seed=3)
    before = env.get_state()
    env.step(np.array([0.25]))
    np.testing.assert_equal(env.get_state(), before)
    twins = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    env.step(np.array([0.75]))
    for twin in twins:
        assert twin.agent_selection == twin.possible_agents[1]
        twin.step(np.array([0.75]))
        assert twin.rewards == env.rewards
        np.testing.assert_array_equal(twin.last()[0], env.last()[0])
