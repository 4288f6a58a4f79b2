"""Every registered environment passes the checkers of the frameworks. Nothing here names one."""

import copy
import importlib
import pickle
import warnings
from functools import partial

import gymnasium
import numpy as np
import pettingzoo
import pytest
from gymnasium.utils.env_checker import check_env
from kinds import IDS, KINDS
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, render_test, seed_test
from pettingzoo.test.state_test import state_test

import coopbench_envs
from coopbench_envs.registration import specs_of

CYCLES = 40  # more than one short episode
SHORT = {"horizon": 15}
others = pytest.mark.slow("a shell passes the checkers for all environments or for none")
checked = pytest.mark.parametrize(
    "env_id", [pytest.param(i, marks=() if i in KINDS else others, id=i.split("/")[1]) for i in IDS]
)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        # The checkers advise on style (symmetric boxes, infinite bounds) by warning.
        warnings.simplefilter("ignore", UserWarning)
        yield


@checked
@pytest.mark.parametrize("control", ["joint", "focal"])
def test_checkers_of_single_environments(env_id, control):
    check_env(gymnasium.make(env_id, control=control, **SHORT).unwrapped)
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(gymnasium.make(env_id, control=control, **SHORT), warn=False)


@checked
def test_pettingzoo_parallel(env_id):
    parallel_api_test(pettingzoo.make("parallel", env_id, **SHORT), num_cycles=CYCLES)
    parallel_seed_test(lambda: pettingzoo.make("parallel", env_id, **SHORT), num_cycles=CYCLES)


@checked
def test_pettingzoo_aec(env_id):
    def aec(**further):
        return pettingzoo.make("aec", env_id, **SHORT, **further)

    api_test(aec(), num_cycles=CYCLES)
    seed_test(aec, num_cycles=CYCLES)
    render_test(aec)
    state_test(aec(), pettingzoo.make("parallel", env_id, **SHORT))


@pytest.mark.parametrize("version", ["v0", "v1"])
@pytest.mark.parametrize("prefix", ["", "coopbench_envs:"])
def test_no_version_of_ours_is_called_out_of_date(prefix, version):
    """Whatever filters of warnings a user has."""
    env_id = f"coopbench/TrustDilemma-{version}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = (
            gymnasium.make(prefix + env_id, render_mode="rgb_array"),
            gymnasium.make_vec(prefix + env_id, num_envs=2, render_mode="ansi"),
        )
    assert [env.unwrapped.engine.spec.id for env in made] == [env_id, env_id]


def test_versions_of_other_packages_are_still_compared():
    with pytest.warns(DeprecationWarning, match="CartPole-v0 is out of date"):
        gymnasium.make("CartPole-v0")


def test_a_name_without_a_version_is_no_game():
    with pytest.raises(gymnasium.error.NameNotFound, match=r"Did you mean: `TrustDilemma-v\d`"):
        gymnasium.make("coopbench/TrustDilemma")


def test_make_vec_is_native_and_spec_round_trips(kind_id):
    many = gymnasium.make_vec(kind_id, num_envs=3)
    assert isinstance(many.unwrapped, gymnasium.vector.VectorEnv)
    assert type(many.unwrapped).__module__.startswith("coopbench_envs")
    spec = gymnasium.make(kind_id, **SHORT).spec
    remade = type(spec).from_json(spec.to_json()).make()
    assert remade.unwrapped.engine.horizon == SHORT["horizon"]


def test_the_scan_of_the_sources_finds_what_the_modules_define():
    # Other tests may have registered variants of toys by hand.
    ids = [env_id for env_id in coopbench_envs.ids() if env_id.startswith("coopbench/")]
    for env_id in ids:
        assert coopbench_envs.spec(env_id).id == env_id
    modules = {coopbench_envs.spec(env_id).module for env_id in ids}
    specs = [s for m in modules for s in specs_of(importlib.import_module(m))]
    assert sorted(s.id for s in specs) == ids
    assert all(pickle.loads(pickle.dumps(s.params())) == s.params() for s in specs)


def test_a_time_limit_of_gymnasium_leaves_the_game_its_horizon():
    """In vectors it is the horizon, of which the time in observations and the metrics tell."""
    name, agents = "coopbench/TrustDilemma-v1", 2
    cut = gymnasium.make(name, max_episode_steps=5)
    short = gymnasium.make_vec(name, num_envs=1, max_episode_steps=5)
    whole = gymnasium.make(name, horizon=5)
    actions = np.full((agents, 1), 0.5, np.float32)
    for env in (cut, short, whole):
        env.reset(seed=0)
    for _ in range(5):
        told = cut.step(actions)
        vectors, expected = short.step(actions[None]), whole.step(actions)
    assert told[3]
    assert "metrics" not in told[4]
    assert cut.unwrapped.engine.horizon == 100
    np.testing.assert_array_equal(vectors[0][0], expected[0])
    assert vectors[4]["metrics"]["length"] == expected[4]["metrics"]["length"] == 5


def test_the_action_that_is_ignored_must_be_finite():
    env = gymnasium.make_vec("coopbench/TrustDilemma-v1", num_envs=2, horizon=2)
    env.reset(seed=0)
    actions = np.full((2, 2, 1), 0.5)
    for _ in range(2):
        last = env.step(actions)[0]
    wrong = np.array([[[0.5], [np.nan]], [[0.5], [0.5]]])
    with pytest.raises(ValueError, match="must be finite; lane 0, agent 'firm_1' gave nan"):
        env.step(wrong)
    np.testing.assert_array_equal(env.unwrapped.engine.control.obs, last)
    assert not np.array_equal(env.step(actions)[0], last)


def test_rows_are_copied_restored_and_used_after_an_error():
    pytest.importorskip("stable_baselines3", reason="the extra 'train' is not installed")
    rows = coopbench_envs.sb3_vec_env("coopbench/TrustDilemma-v1", 16, horizon=4)
    for wrong in (partial(rows.seed, -1), partial(rows.set_options, {"state": 3})):
        wrong()
        with pytest.raises(ValueError, match="must"):
            rows.reset()
        rows.reset()
    with pytest.raises(ValueError, match="made without a policy"):
        rows.set_opponent("random")
    actions = np.full((32, 1), 50.0)
    rows.step(actions)[3][0]["mine"] = 1
    twins = [copy.deepcopy(rows), pickle.loads(pickle.dumps(rows))]
    rows.set_options({"state": rows.get_state()})
    rows.reset()
    for _ in range(3):
        expected = rows.step(actions)
        assert "mine" not in expected[3][0]
        for twin in twins:
            np.testing.assert_equal(twin.step(actions), expected)
    assert expected[3][0]["episode"]["l"] == 4


@pytest.mark.parametrize("name", ["TrustDilemma-v1", "Skirmish-v0"])
def test_rows_of_tensors_are_those_of_arrays(name):
    pytest.importorskip("stable_baselines3", reason="the extra 'train' is not installed")
    torch = pytest.importorskip("torch")
    arrays, tensors = (
        coopbench_envs.sb3_vec_env(f"coopbench/{name}", 2, rows=rows, horizon=3)
        for rows in ("numpy", "torch")
    )
    for rows in (arrays, tensors):
        rows.seed(3)
    earlier = [(arrays.reset(), tensors.reset())]
    arrays.action_space.seed(0)
    for _ in range(7):
        actions = np.stack([arrays.action_space.sample() for _ in range(arrays.num_envs)])
        *left, infos = arrays.step(actions)
        *right, facts = tensors.step(torch.as_tensor(actions))
        assert str(infos) == str(facts)
        assert [tensor.dtype for tensor in right] == [torch.float32, torch.float32, torch.bool]
        earlier += zip(left, right, strict=True)
    for array, tensor in earlier:  # copies: later steps leave them alone
        assert tensor.is_contiguous()
        assert tensor.numpy().tobytes() == array.tobytes()
    with pytest.raises(ValueError, match="'torch'"):
        coopbench_envs.sb3_vec_env("coopbench/TrustDilemma-v1", 2, rows="torhc")
    with pytest.raises(ValueError, match=r"shape \(4, 1\), a row per agent; given \(3, 1\)"):
        coopbench_envs.sb3_vec_env("coopbench/TrustDilemma-v1", 2).step(np.zeros((3, 1)))
