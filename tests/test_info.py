"""Named arrays per agent in ``info``: every interface shows the same."""

from dataclasses import replace

import gymnasium
import numpy as np
import pettingzoo
import pytest
import toy_pennies
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import SyncVectorEnv

import coopbench_envs
from coopbench_envs import Engine
from coopbench_envs.registration import register

SPEC = toy_pennies.TOLD
PARAMETERS = {"num_agents": 3, "horizon": 9}
NAMES = ("pennies", "rich", "shares")


@pytest.fixture(autouse=True, scope="module")
def toys():
    register(SPEC)


def expected(engine, lane=0):
    """What the agents of one lane are told, from the state."""
    held = engine.state.pennies[lane].copy()
    return {"pennies": held, "rich": held > 2, "shares": held[:, None] / np.array([1.0, 2.0])}


def same(info, arrays):
    for name, values in arrays.items():
        np.testing.assert_array_equal(info[name], values)
        assert np.asarray(info[name]).dtype == values.dtype


def played(env, steps, seed=0):
    """Yield the info of every call of a single environment under random actions."""
    env.action_space.seed(seed)
    yield env.reset(seed=seed)[1]
    for _ in range(steps):
        if env.unwrapped.engine.control.done[0]:
            yield env.reset()[1]
        else:
            yield env.step(env.action_space.sample())[4]


def test_gymnasium_joint_and_focal():
    joint = gymnasium.make(SPEC.id, **PARAMETERS).unwrapped
    for info in played(joint, 30):
        same(info, expected(joint.engine))
    focal = gymnasium.make(SPEC.id, control="focal", ego=1, **PARAMETERS).unwrapped
    for info in played(focal, 30):
        same(info, {name: values[1] for name, values in expected(focal.engine).items()})
    check_env(joint)


def test_an_agent_alone_plays_its_seat_and_is_told_how_the_episode_ends():
    options = {"control": "focal", "ego": 1, "partner": "constant:0.5", "horizon": 2}
    env = gymnasium.make("coopbench/TrustDilemma-v0", **options).unwrapped
    env.reset(seed=0)
    ends = [env.step(np.array([10.0], np.float32))[2:4] for _ in range(2)]
    assert env.engine.state.last_action[0].tolist() == [50.0, 10.0]
    assert ends == [(False, False), (False, True)]


def test_the_step_that_begins_an_episode_has_no_rewards():
    many = gymnasium.make_vec("coopbench/TrustDilemma-v0", num_envs=2, horizon=2)
    many.reset(seed=0)
    told = [many.step(many.action_space.sample())[4]["_rewards"].tolist() for _ in range(4)]
    assert told == [[True, True], [True, True], [False, False], [True, True]]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("control", ["joint", "focal"])
def test_vectors_are_laid_out_as_gymnasium_does(mode, control):
    """Against Gymnasium's own vector of single environments: arrays, masks, final infos."""
    options = {"control": control, **PARAMETERS}
    many = gymnasium.make_vec(SPEC.id, num_envs=3, autoreset_mode=mode, **options)
    singles = [lambda: gymnasium.make(SPEC.id, **options).unwrapped for _ in range(3)]
    sync = SyncVectorEnv(singles, autoreset_mode=mode)
    many.action_space.seed(4)
    (first, infos), (expected, others) = many.reset(seed=2), sync.reset(seed=2)
    np.testing.assert_array_equal(first, expected)
    ended = 0
    for _ in range(40):
        for name in NAMES:
            np.testing.assert_array_equal(infos[name], others[name])
            np.testing.assert_array_equal(infos[f"_{name}"], others[f"_{name}"])
        if "final_info" in others:
            where = others["_final_info"]
            ended += where.sum()
            for name in NAMES:
                final, theirs = infos["final_info"][name], others["final_info"][name]
                np.testing.assert_array_equal(final[where], theirs[where])
                np.testing.assert_array_equal(infos["final_info"][f"_{name}"], where)
        actions = many.action_space.sample()
        (*ours, infos), (*theirs, others) = many.step(actions), sync.step(actions)
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(mine, other)
    assert ended or mode == "NextStep"


@pytest.mark.parametrize("dead_agents", ["remove", "keep"])
def test_pettingzoo_tells_each_agent_its_own(dead_agents):
    options = {"dead_agents": dead_agents, "num_agents": 3, "horizon": 30}
    parallel, turns = (pettingzoo.make(kind, SPEC.id, **options) for kind in ("parallel", "aec"))
    rng = np.random.default_rng(0)
    _, infos = parallel.reset(seed=3)
    turns.reset(seed=3)
    while parallel.agents:
        arrays = expected(parallel.engine)
        for agent, info in infos.items():
            index = parallel.possible_agents.index(agent)
            same(info, {name: values[index] for name, values in arrays.items()})
        assert data_equivalence(turns.infos, {a: infos[a] for a in turns.infos})
        choices = {agent: int(rng.integers(3)) for agent in parallel.agents}
        infos = parallel.step(choices)[4]
        for agent in choices:
            turns.step(choices[agent])
        while turns.agents and turns.terminations[turns.agent_selection]:
            turns.step(None)


def test_rows_of_stable_baselines_are_told_their_own_from_the_first_step_on():
    pytest.importorskip("stable_baselines3")
    rows = coopbench_envs.sb3_vec_env(SPEC.id, 2, **PARAMETERS)
    rows.seed(7)
    rows.reset()
    for infos in (rows.reset_infos, rows.step(np.zeros(6, np.int64))[3]):
        for lane, agent in np.ndindex(2, 3):
            arrays = expected(rows.engine, lane)
            told = {name: values[agent] for name, values in arrays.items()}
            same(infos[3 * lane + agent], told)


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ({"rewards": np.zeros((2, 3))}, r"calls a part of its info 'rewards'; another meaning"),
        ({"_mask": np.zeros((2, 3))}, r"names that begin with '_'"),
        (
            {"speed": np.zeros(3)},
            r"'speed' of test/Wrong-v1 must have shape \(2, 3\).*given \(3,\)",
        ),
    ],
)
def test_what_cannot_be_told(info, message):
    register(replace(SPEC, id="test/Wrong-v1", info=lambda c, s: info))
    with pytest.raises(ValueError, match=message):
        Engine("test/Wrong-v1", 2, **PARAMETERS)


def test_environments_without_it_show_nothing_more():
    assert Engine("test/Pennies-v0").info() == {}
    assert not set(NAMES) & set(gymnasium.make("test/Pennies-v0").reset(seed=0)[1])


def test_numbers_of_one_agent_are_plain_ones():
    info = pettingzoo.make("parallel", SPEC.id, **PARAMETERS).reset(seed=1)[1]["player_0"]
    assert [type(info[name]) for name in ("pennies", "rich")] == [int, bool]
