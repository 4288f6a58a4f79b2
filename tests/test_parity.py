"""One game, many faces: all of them give the same bits."""

import pickle
from functools import cache
from pathlib import Path

import gymnasium
import numpy as np
import pettingzoo
import pytest
from builders import run_python
from gymnasium.vector import AutoresetMode

import coopbench_envs
from coopbench_envs import Engine, targets
from coopbench_envs.drivers import MANY_LANES

LANES, STEPS, SEED = 3, 40, 7
IDS = coopbench_envs.ids()  # with the toys of conftest.py
SHORT = {"horizon": 13}  # several episodes in one run


@pytest.fixture(scope="module")
def reference():
    """Trajectories of single environments, by id: the truth that every other face must meet."""
    cache = {}

    def of(env_id):
        if env_id not in cache:
            cache[env_id] = [_single(env_id, SEED + lane, lane) for lane in range(LANES)]
        return cache[env_id]

    return of


@cache
def _actions(env_id, lanes=LANES):
    """Actions (steps, lanes, agents, ...) that every face plays; further lanes play the first's."""
    env = gymnasium.make(env_id, **SHORT).unwrapped
    env.action_space.seed(11)
    drawn = np.array([[env.action_space.sample() for _ in range(LANES)] for _ in range(STEPS)])
    return np.concatenate([drawn, np.repeat(drawn[:, :1], lanes - LANES, axis=1)], axis=1)


def _single(env_id, seed, lane):
    """Play episode after episode; the step after an end is the reset, as in NEXT_STEP."""
    env = gymnasium.make(env_id, **SHORT).unwrapped
    actions = _actions(env_id)
    obs, _ = env.reset(seed=seed)
    nothing = (np.zeros(len(env.engine.agents)), False, False, 0.0)
    rows, done = [(obs, *nothing)], False
    for t in range(STEPS):
        if done:
            rows.append((env.reset()[0], *nothing))
            done = False
            continue
        obs, reward, terminated, truncated, info = env.step(actions[t, lane])
        rows.append((obs, info["rewards"], terminated, truncated, reward))
        done = terminated or truncated
    return rows


def _same(row, lane, stepped):
    """What a vector environment returned for one lane is a row of the single environment."""
    obs, reward, terminated, truncated, infos = stepped
    np.testing.assert_array_equal(row[0], obs[lane])
    np.testing.assert_array_equal(row[1], infos["rewards"][lane])
    assert row[2:] == (terminated[lane], truncated[lane], reward[lane])


def _same_infos(infos, lane, info):
    """So are the parts of its infos."""
    for name in {"alive", "action_mask", "invalid_actions", "state"} & info.keys():
        np.testing.assert_array_equal(infos[name][lane], info[name], err_msg=name)


@pytest.mark.parametrize(("extra", "threads"), [(0, 2), (70, 3)])
def test_vector_next_step(env_id, reference, sharing, extra, threads):
    """Whatever the number of lanes and threads, lane i is the environment seeded s + i."""
    many = gymnasium.make_vec(env_id, num_envs=LANES + extra, threads=threads, **SHORT)
    actions = _actions(env_id, LANES + extra)
    obs, _ = many.reset(seed=SEED)
    for lane in range(LANES):
        np.testing.assert_array_equal(reference(env_id)[lane][0][0], obs[lane])
    for t in range(STEPS):
        stepped = many.step(actions[t])
        for lane in range(LANES):
            _same(reference(env_id)[lane][t + 1], lane, stepped)


def test_vector_same_step(kind_id):
    """SAME_STEP returns the next episode's first observation and keeps the last one aside."""
    how = SHORT | {"global_state": True}
    many = gymnasium.make_vec(kind_id, num_envs=LANES + 70, autoreset_mode="SameStep", **how)
    actions = _actions(kind_id, LANES + 70)
    _, infos = many.reset(seed=SEED)
    singles = [gymnasium.make(kind_id, **how).unwrapped for _ in range(LANES)]
    for lane, env in enumerate(singles):
        _same_infos(infos, lane, env.reset(seed=SEED + lane)[1])
    ended = 0
    for t in range(STEPS):
        obs, _, terminated, truncated, infos = many.step(actions[t])
        for lane, env in enumerate(singles):
            expected, _, *over, info = env.step(actions[t, lane])
            np.testing.assert_array_equal(infos["rewards"][lane], info["rewards"])
            assert [terminated[lane], truncated[lane]] == over
            if any(over):
                ended += 1
                np.testing.assert_array_equal(infos["final_obs"][lane], expected)
                final = infos["final_info"]
                _same_infos(final, lane, info)
                assert {k: final["metrics"][k][lane] for k in info["metrics"]} == info["metrics"]
                expected, info = env.reset()
            np.testing.assert_array_equal(obs[lane], expected)
            _same_infos(infos, lane, info)
    assert ended >= LANES


def test_sb3_rows(kind_id):
    """A row is an agent of a lane; rewards are rounded to float32, and nothing else is."""
    pytest.importorskip("stable_baselines3")
    rows = coopbench_envs.sb3_vec_env(kind_id, LANES, **SHORT)
    actions, agents, ended = _actions(kind_id), len(rows.engine.agents), 0
    assert rows.num_envs == LANES * agents
    singles = [gymnasium.make(kind_id, **SHORT).unwrapped for _ in range(LANES)]
    rows.seed(SEED)
    first = rows.reset()
    for lane, env in enumerate(singles):
        part = slice(lane * agents, (lane + 1) * agents)
        np.testing.assert_array_equal(first[part], env.reset(seed=SEED + lane)[0])
    alive = [env.engine.control.alive[0].tolist() for env in singles]
    for t in range(STEPS):
        obs, rewards, dones, infos = rows.step(
            actions[t].reshape(rows.num_envs, *rows.action_space.shape)
        )
        assert (obs.dtype, rewards.dtype, dones.dtype) == (np.float32, np.float32, np.bool_)
        for lane, env in enumerate(singles):
            part = slice(lane * agents, (lane + 1) * agents)
            last, _, terminated, truncated, info = env.step(actions[t, lane])
            np.testing.assert_array_equal(rewards[part], info["rewards"].astype(np.float32))
            if env.engine.falling:  # who was present before the step
                assert [one["alive"] for one in infos[part]] == alive[lane]
                alive[lane] = env.engine.control.alive[0].tolist()
            assert dones[part].tolist() == [terminated or truncated] * agents
            if terminated or truncated:
                ended += 1
                control = env.engine.control
                for agent, one in enumerate(infos[part]):
                    np.testing.assert_array_equal(one["terminal_observation"], last[agent])
                    assert one["metrics"] == info["metrics"]
                    length, total = int(env.engine.state.time[0]), control.returns[0, agent]
                    assert one["episode"] == {"r": total, "l": length}
                    cut = truncated and not control.terminated[0, agent]
                    assert one["TimeLimit.truncated"] == cut
                last = env.reset()[0]
                alive[lane] = env.engine.control.alive[0].tolist()
            np.testing.assert_array_equal(obs[part], last)
    assert ended >= LANES
    state = singles[0].get_state()
    assert set(rows.get_state()) == set(state)
    rows.set_options({"state": state})
    np.testing.assert_array_equal(rows.reset()[:agents], singles[0].engine.control.obs[0])
    assert rows.env_is_wrapped(object) == [False] * rows.num_envs
    assert len(rows.get_attr("engine", [0, 1])) == 2


def test_vector_disabled_and_reset_mask(kind_id, reference):
    """Nothing begins anew by itself, and a mask restarts only the lanes that it names."""
    many = gymnasium.make_vec(kind_id, num_envs=LANES, autoreset_mode="Disabled", **SHORT)
    assert many.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    actions = _actions(kind_id)
    many.reset(seed=SEED)
    for t in range(STEPS):
        over = many.unwrapped.engine.control.done.copy()
        if over.any():
            break
        before, *_ = stepped = many.step(actions[t])
        for lane in range(LANES):
            _same(reference(kind_id)[lane][t + 1], lane, stepped)
    with pytest.raises(gymnasium.error.ResetNeeded):
        many.step(actions[t])
    mask = np.arange(LANES) == np.flatnonzero(over)[0]
    after, _ = many.reset(options={"reset_mask": mask})
    np.testing.assert_array_equal(after[~mask], before[~mask])
    single = gymnasium.make(kind_id, **SHORT).unwrapped
    single.reset(seed=SEED + int(np.flatnonzero(mask)[0]))
    np.testing.assert_array_equal(after[mask][0], single.reset()[0])  # its second episode
    fresh, _ = many.reset(seed=[3, 1, 4])
    for lane, seed in enumerate([3, 1, 4]):
        np.testing.assert_array_equal(fresh[lane], single.reset(seed=seed)[0])


CLOSED = {
    "vector": lambda: gymnasium.make_vec("test/Pennies-v0", num_envs=LANES, **SHORT),
    "single": lambda: gymnasium.make("test/Pennies-v0", **SHORT),
    "focal": lambda: gymnasium.make("test/Pennies-v0", control="focal", **SHORT),
    "parallel": lambda: pettingzoo.make("parallel", "test/Pennies-v0", **SHORT),
    "aec": lambda: pettingzoo.make("aec", "test/Pennies-v0", **SHORT),
    "sb3": lambda: coopbench_envs.sb3_vec_env("test/Pennies-v0", LANES, **SHORT),
    "pymarl": lambda: coopbench_envs.pymarl("test/Pennies-v0", **SHORT),
}


@pytest.mark.parametrize("kind", CLOSED)
def test_nothing_is_played_after_close(kind):
    """Neither in the episode that had begun, nor in a new one; a copy is as closed."""
    env = CLOSED[kind]()
    env.reset()
    env.close()
    env.close()
    for closed in (env, pickle.loads(pickle.dumps(env))):
        for call in (closed.reset, lambda env=closed: env.step(None)):
            with pytest.raises(gymnasium.error.ClosedEnvironmentError, match="make a new environ"):
                call()


@pytest.mark.parametrize("dead_agents", ["remove", "keep"])
def test_pettingzoo_parallel(kind_id, reference, dead_agents):
    env = pettingzoo.make("parallel", kind_id, dead_agents=dead_agents, **SHORT)
    actions = _actions(kind_id)
    obs, _ = env.reset(seed=SEED)
    alive = set(env.agents)
    for t in range(STEPS):
        if not env.agents:
            break
        live = list(env.agents)
        index = {a: k for k, a in enumerate(env.possible_agents)}
        obs, rewards, terminated, truncated, infos = env.step(
            {a: actions[t, 0, index[a]] for a in live}
        )
        row = reference(kind_id)[0][t + 1]
        assert {"metrics" in info for info in infos.values()} == {bool(row[2] or row[3])}
        for a in live:
            assert rewards[a] == row[1][index[a]]
            if a in alive:
                if not infos[a].get("alive", True):
                    alive.discard(a)
                else:
                    np.testing.assert_array_equal(obs[a], row[0][index[a]])
            if terminated[a]:
                alive.discard(a)
        assert row[3] == all(truncated.values())
    assert not env.agents


def test_state_moves_between_faces_and_goes_on_bit_for_bit(env_id):
    actions = _actions(env_id)
    env = gymnasium.make(env_id, **SHORT).unwrapped
    env.reset(seed=SEED)
    for t in range(3):
        env.step(actions[t, 0])
    state = env.get_state()
    parallel = pettingzoo.make("parallel", env_id, dead_agents="keep", **SHORT).unwrapped
    many = gymnasium.make_vec(env_id, num_envs=2, **SHORT).unwrapped
    turns = pettingzoo.make("aec", env_id, **SHORT)
    turns.reset(seed=99, options={"state": state})
    np.testing.assert_equal(turns.get_state(), state)
    assert set(parallel.get_state()) == set(many.get_state()) == set(state)
    parallel.reset(seed=99, options={"state": state})
    many.reset(seed=99, options={"state": state})
    for t in range(3, STEPS):
        if env.engine.control.done[0]:
            env.reset()
            parallel.reset()
            many.reset()
            continue
        expected = env.step(actions[t, 0])
        rewards = parallel.step(
            {a: actions[t, 0, k] for k, a in enumerate(parallel.possible_agents)}
        )[1]
        obs, _, _, _, infos = many.step(np.stack([actions[t, 0]] * 2))
        assert list(rewards.values()) == expected[4]["rewards"].tolist()
        for lane in range(2):
            np.testing.assert_array_equal(obs[lane], expected[0])
            np.testing.assert_array_equal(infos["rewards"][lane], expected[4]["rewards"])


def test_reset_forgets_everything(env_id):
    """After any play, reset(seed) is the same as in a fresh environment."""
    used = gymnasium.make(env_id, **SHORT).unwrapped
    used.action_space.seed(3)
    used.reset(seed=1)
    for _ in range(5):
        if used.engine.control.done[0]:
            used.reset()
        used.step(used.action_space.sample())
    used.reset(seed=SEED)
    fresh = gymnasium.make(env_id, **SHORT).unwrapped
    fresh.reset(seed=SEED)
    np.testing.assert_equal(used.get_state(), fresh.get_state())


def _short_play(env_id):
    """Observations, rewards and final state of a few steps, by name.

    An episode ends on the way. In blocks of lanes a step after the last one is played, too, which
    without a compiler raises IndexError where it leaves the arrays.
    """
    lanes = MANY_LANES if coopbench_envs.spec(env_id).vectorized else 2
    engine = Engine(env_id, lanes, horizon=3)
    engine.reset(SEED + np.arange(lanes, dtype=np.uint64))
    low_high = np.random.default_rng(0)
    values = {"obs_0": engine.control.obs.copy()}
    for t in range(1, 6):
        if engine.discrete:
            actions = low_high.integers(0, engine.action_spaces[0].n, engine.actions.shape)
        else:
            low = np.stack([space.low for space in engine.action_spaces])
            high = np.stack([space.high for space in engine.action_spaces])
            actions = low_high.uniform(low, high, engine.actions.shape)
        engine.step(actions)
        values[f"obs_{t}"] = engine.control.obs.copy()
        values[f"rewards_{t}"] = engine.control.rewards.copy()
        values[f"measures_{t}"] = engine.control.measures.copy()
    return values | engine.get_state()


@pytest.fixture(scope="session")
def played_as_python(tmp_path_factory):
    """A folder with the ``_short_play`` of every environment, of a process without a compiler.

    One process for all of them: it takes longer to start than to play.
    """
    folder = tmp_path_factory.mktemp("python")
    script = (
        "import sys, warnings; warnings.simplefilter('ignore'); sys.path.insert(0, sys.argv[1]);"
        "import coopbench_envs, numba, numpy as np; assert numba.config.DISABLE_JIT;"
        "from kinds import IDS; from test_parity import _short_play;"
        "[np.savez(f'{sys.argv[2]}/{k}.npz', **_short_play(name)) for k, name in enumerate(IDS)]"
    )
    run_python("-c", script, Path(__file__).parent, folder, NUMBA_DISABLE_JIT="1")
    return folder


def test_compiled_equals_python(env_id, played_as_python):
    """The kernels mean the same without numba: the compiler invents and drops nothing."""
    python = np.load(played_as_python / f"{IDS.index(env_id)}.npz")
    compiled = _short_play(env_id)
    assert set(python.files) == set(compiled)
    for name, value in compiled.items():
        # Python computes powers by its library, which may differ in the last digit.
        np.testing.assert_allclose(python[name], value, rtol=1e-9, atol=1e-9, err_msg=name)


def _processors():
    """Processors that this one runs the code of, by name, with their features."""
    binding = targets.initialized()
    native = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    levels = [(level.cpu, level.features) for level in targets.usable()]
    return dict([("generic", ""), native, *levels])


@pytest.mark.slow("compiles in another process, for another processor")
@pytest.mark.parametrize("processor", _processors())
def test_another_processor_gives_the_same_bits(tmp_path, processor):
    """Code without the extensions of this processor, of the level of wheels, and for this one."""
    env_id, target = "coopbench/TrustDilemma-v1", tmp_path / "played.npz"
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import numpy as np;"
        "from test_parity import _short_play, targets; level, = targets.usable();"
        "assert level.cpu == sys.argv[4]; np.savez(sys.argv[2], **_short_play(sys.argv[3]))"
    )
    chosen = {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": _processors()[processor]}
    run_python("-c", script, Path(__file__).parent, target, env_id, processor, **chosen)
    np.testing.assert_equal(dict(np.load(target)), _short_play(env_id))


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_focal_vector_equals_focal_single(kind_id, mode):
    """Beside partners that draw, who draw the same in every interface."""
    how = {"control": "focal", "ego": 1, "partner": "random"} | SHORT
    many = gymnasium.make_vec(kind_id, num_envs=2, autoreset_mode=mode, **how)
    singles = [gymnasium.make(kind_id, **how).unwrapped for _ in range(2)]
    many.action_space.seed(1)
    obs, _ = many.reset(seed=SEED)
    for lane, env in enumerate(singles):
        np.testing.assert_array_equal(obs[lane], env.reset(seed=SEED + lane)[0])
    for _ in range(STEPS):
        actions = many.action_space.sample()
        obs, rewards, *_ = many.step(actions)
        for lane, env in enumerate(singles):
            if mode == "NextStep" and env.engine.control.done[0]:
                expected, reward = env.reset()[0], 0.0
            else:
                expected, reward, *_ = env.step(actions[lane])
            if mode == "SameStep" and env.engine.control.done[0]:
                expected = env.reset()[0]
            np.testing.assert_array_equal(obs[lane], expected)
            assert rewards[lane] == reward


def test_zero_copy_only_when_asked(kind_id):
    own = gymnasium.make_vec(kind_id, num_envs=2).unwrapped
    first, _ = own.reset(seed=0)
    assert not np.shares_memory(first, own.engine.control.obs)
    bare = gymnasium.make_vec(kind_id, num_envs=2, copy=False).unwrapped
    assert np.shares_memory(bare.reset(seed=0)[0], bare.engine.control.obs)
