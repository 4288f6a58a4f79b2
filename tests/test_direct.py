"""The short ways into a step and out of it: the same results, infos and errors as the long ones."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pettingzoo
import pytest

import coopbench_envs
from coopbench_envs.direct import never

IDS = [
    f"coopbench/{name}"
    for name in ("TrustDilemma-v0", "TrustDilemma-v1", "Routing-v1", "Skirmish-v1")
]
MODES = ("NextStep", "SameStep", "Disabled")
STEPS = 120


def long_way(env):
    """Take the short ways from an environment."""
    engine = env.unwrapped.engine
    engine._direct = never
    engine.single = engine.single._replace(play=never)
    return env


def outcome(call, *given, **options):
    """Return what a call returns or raises, down to types and bits."""
    try:
        return plainly(call(*given, **options))
    except Exception as error:
        return type(error), str(error)


def plainly(value):
    if isinstance(value, dict):
        return [(name, plainly(part)) for name, part in value.items()]
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.dtype == object):
        return [plainly(part) for part in value]
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return type(value), value


def unusual(action, rng):
    """Return an action as users give them: mostly as it is, else in another form or wrong."""
    odd = action.astype(np.float64)
    odd.flat[rng.integers(odd.size)] = rng.choice([np.nan, np.inf, 1e300, -5.0, 1e6])
    forms = (
        action.tolist(),
        odd,
        odd.astype(np.float32),
        np.abs(np.nan_to_num(odd, posinf=0.0)).clip(0, 9).astype(np.uint8),
        action > 0,
        np.ma.array(action),
        np.ma.array(action, mask=np.arange(action.size).reshape(action.shape) == 0),
        np.asfortranarray(action),
        action[..., None],
        action[:-1],
        action.astype(str),
        action.astype(complex),
        None,
    )
    k = rng.integers(4 * len(forms))
    return forms[k] if k < len(forms) else action


@pytest.mark.parametrize("env_id", IDS)
def test_a_single_game_is_the_same_by_both_ways(env_id):
    rng, short, long = np.random.default_rng(0), gym.make(env_id), gym.make(env_id)
    ends = errors = 0
    if env_id != "coopbench/TrustDilemma-v0":  # which always begins alike
        assert outcome(short.reset) != outcome(short.reset)
    for env in (short, long_way(long)):
        env.action_space.seed(1)
        env.reset(seed=3)
    for _ in range(STEPS):
        action = unusual(short.action_space.sample(), rng)
        now, then = outcome(short.unwrapped.step, action), outcome(long.unwrapped.step, action)
        assert now == then
        errors += isinstance(now, tuple)
        if short.unwrapped.engine.control.done[0]:
            ends += 1
            message = outcome(short.unwrapped.step, action)
            assert message == outcome(long.unwrapped.step, action)
            assert message[0] is gym.error.ResetNeeded
            assert outcome(short.reset) == outcome(long.reset)
    assert errors > 5
    assert ends or env_id != IDS[1]


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("interface", ["parallel", "aec"])
def test_agents_by_name_play_the_same_by_both_ways(env_id, interface):
    rng = np.random.default_rng(1)
    short, long = (pettingzoo.make(interface, env_id) for _ in range(2))
    for env in (short, long_way(long)):
        env.reset(seed=3)
        for agent in env.possible_agents:
            env.action_space(agent).seed(1)
    errors = 0
    for _ in range(STEPS):
        if not short.agents:
            assert outcome(short.reset) == outcome(long.reset)
        if interface == "parallel":
            drawn = {
                agent: np.asarray(short.action_space(agent).sample()) for agent in short.agents
            }
            given = {agent: unusual(action.reshape(-1), rng) for agent, action in drawn.items()}
            if any(action is None for action in given.values()) or rng.random() < 0.7:
                given = drawn
        else:
            agent = short.agent_selection
            over = short.terminations[agent] or short.truncations[agent]
            sample = np.asarray(short.action_space(agent).sample())
            given = None if over else sample
            if sample.ndim and not over:
                given = unusual(sample, rng)
        now, then = outcome(short.step, given), outcome(long.step, given)
        assert now == then
        errors += isinstance(now, tuple)
        assert short.agents == long.agents
        if interface == "aec" and short.agents:
            assert outcome(short.last) == outcome(long.last)
            assert plainly(short.rewards) == plainly(long.rewards)
    assert errors or interface == "aec"


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("mode", MODES)
def test_a_batch_is_the_same_by_both_ways(env_id, mode):
    rng = np.random.default_rng(2)
    short, long = (coopbench_envs.make_vec(env_id, 3, autoreset_mode=mode) for _ in range(2))
    for env in (short, long_way(long)):
        env.action_space.seed(1)
        env.reset(seed=3)
    for _ in range(STEPS):
        action = unusual(short.action_space.sample(), rng)
        now = outcome(short.step, action)
        assert now == outcome(long.step, action)
        if isinstance(now, tuple) and now[0] is gym.error.ResetNeeded:
            options = {"reset_mask": short.engine.control.done.copy()}
            assert outcome(short.reset, options=options) == outcome(long.reset, options=options)


@pytest.mark.parametrize("interface", ["gymnasium", "focal", "parallel", "aec", "batch"])
def test_copies_and_pickles_go_their_own_ways(interface):
    """Functions that are looked up once are those of the copy's own arrays."""
    env_id = IDS[1]
    make = {
        "gymnasium": lambda: gym.make(env_id),
        "focal": lambda: gym.make(env_id, control="focal", partner="random"),
        "parallel": lambda: pettingzoo.make("parallel", env_id),
        "aec": lambda: pettingzoo.make("aec", env_id),
        "batch": lambda: coopbench_envs.make_vec(env_id, 2),
    }

    def play(env, share):
        if interface == "parallel":
            given = dict.fromkeys(env.agents, np.full(1, share, np.float32))
        elif interface == "aec":
            given = np.full(1, share, np.float32)
        else:
            given = np.full(env.action_space.shape, share, np.float32)
        env.step(given)
        return plainly(env.unwrapped.engine.get_state())

    env = make[interface]()
    env.reset(seed=0)
    play(env, 1.0)
    if interface == "aec":
        assert env.agent_selection == env.agents[1]  # in the middle of a round
    twins = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    before = plainly(env.unwrapped.engine.get_state())
    states = [play(twin, 2.0) for twin in twins]
    assert plainly(env.unwrapped.engine.get_state()) == before
    assert states == [play(env, 2.0)] * 2
    assert states[0] != before
