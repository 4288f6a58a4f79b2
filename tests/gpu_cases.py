"""Tests of engines on a fake GPU, for a process in which kernels run as Python.

    NUMBA_ENABLE_CUDASIM=1 NUMBA_DISABLE_JIT=1 pytest tests/gpu_cases.py

``test_gpu.py`` runs them so; without the first name kernels run outside numba.cuda's simulator.
"""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from fake_gpu import FakeGpu, compare, differences, random_actions

import coopbench_envs
from coopbench_envs import engine
from coopbench_envs.cuda import dlpack
from coopbench_envs.cuda.buffers import DeviceArray
from coopbench_envs.cuda.gpu import BLOCK
from coopbench_envs.engine import DISABLED, NEXT_STEP, SAME_STEP

pytestmark = pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
PUBLISHED = [name for name in coopbench_envs.ids() if name.startswith("coopbench/")]
GAME, CHOICES = "TrustDilemma-v1", "Rail-v1"


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    """Every GPU is this one."""
    gpu = FakeGpu()
    monkeypatch.setattr(engine, "open_gpu", lambda ordinal: gpu)
    return gpu


def pair(name=GAME, lanes=3, **parameters):
    """Engines on the CPU and on the GPU, reset with the same seeds."""
    games = [engine.Engine(name, lanes, device=d, **parameters) for d in ("cpu", "cuda")]
    for game in games:
        game.reset(np.arange(lanes, dtype=np.uint64))
    return games


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
@pytest.mark.parametrize("env_id", PUBLISHED)
def test_same_bits_as_on_the_cpu(env_id, mode):
    assert compare(env_id, mode, horizon=4) is None


@pytest.mark.parametrize("order", ["C", "F"])
def test_more_lanes_than_a_block_and_finished_lanes_that_rest(order):
    cpu, gpu = pair(lanes=BLOCK + 3, horizon=3, order=order)
    rng = np.random.default_rng(0)
    for _ in range(5):
        actions = random_actions(cpu, rng)
        cpu.step(actions, DISABLED)
        gpu.step(actions, DISABLED)
    assert differences(cpu, gpu) == []
    chosen = np.arange(cpu.lanes) % 2 == 0
    for game in (cpu, gpu):
        game.reset(chosen=chosen)
        game.step(actions, DISABLED)
    assert differences(cpu, gpu) == []


def test_a_snapshot_goes_on_there_and_back():
    cpu, gpu = pair(horizon=9)
    rng = np.random.default_rng(1)
    moves = [random_actions(cpu, rng) for _ in range(6)]
    for actions in moves[:3]:
        cpu.step(actions)
    gpu.reset(state=cpu.get_state())
    for actions in moves[3:]:
        cpu.step(actions)
        gpu.step(actions)
    last, copied = cpu.get_state(), gpu.get_state()
    assert all(np.array_equal(last[name], copied[name]) for name in last)
    assert gpu.lane_state(1)["returns"].tobytes() == last["returns"][1].tobytes()
    back, _ = pair(horizon=9)
    back.reset(state=copied)
    for game in (cpu, back):
        game.step(moves[0])
    assert back.control.obs.tobytes() == cpu.control.obs.tobytes()


def test_a_step_neither_waits_nor_copies_to_the_host(fake):
    _, gpu = pair(CHOICES)
    moves = fake_array(fake, np.ones(gpu.actions.shape, np.int64))
    gpu.step(moves)
    del fake.calls[:]
    gpu.step(moves, SAME_STEP)
    assert fake.calls == ["take_choices", "play", "keep", "play"]
    assert len(fake.memory) == 2  # the engine's and the actions'


def fake_array(fake, array, order="C"):
    """Put an array into the fake GPU's memory."""
    from coopbench_envs.cuda.buffers import Slab

    slab = Slab(fake, array.nbytes)
    placed = DeviceArray(slab, slab.address, array.shape, array.dtype, order, 1)
    placed.write_from(np.asarray(array, order=order))
    return placed


class Interfaced:
    """An array of a library that knows only the older protocol, and of every second row."""

    def __init__(self, placed, stream=None):
        self.placed = placed
        self.__cuda_array_interface__ = placed.__cuda_array_interface__ | {
            "shape": (placed.shape[0] // 2, *placed.shape[1:]),
            "strides": (2 * placed.strides[0], *placed.strides[1:]),
            "stream": stream,
        }


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_actions_may_lie_on_the_gpu(fake, kind, order):
    cpu, gpu = pair(lanes=4)
    rng = np.random.default_rng(2)
    wide = np.repeat(random_actions(cpu, rng), 2, axis=0).astype(kind)
    fortran = fake_array(fake, np.ascontiguousarray(wide[::2]), order)
    cpu.step(wide[::2].astype(np.float64))
    gpu.step(fortran)
    assert differences(cpu, gpu) == []
    cpu.step(wide[::2].astype(np.float64))
    gpu.step(Interfaced(fake_array(fake, wide), stream=77))
    assert differences(cpu, gpu) == []
    assert fake.followed[-1] == (1, 77)


def test_actions_that_do_not_fit_change_nothing(fake):
    cpu, gpu = pair(CHOICES)
    for actions in (
        np.zeros((2, 2), np.int64),
        np.zeros(gpu.actions.shape),
        fake_array(fake, np.zeros(gpu.actions.shape)),
        fake_array(fake, np.zeros((3, 7, 1), np.int64)),
    ):
        with pytest.raises(ValueError, match="must be integers of shape"):
            gpu.step(actions)
    elsewhere = fake_array(FakeGpu(1), np.zeros(gpu.actions.shape, np.int64))
    with pytest.raises(ValueError, match="must lie on cuda:0"):
        gpu.step(elsewhere)
    with pytest.raises(ValueError, match="allowed: NEXT_STEP"):
        gpu.step(cpu.actions, 7)
    assert differences(cpu, gpu) == []


def test_actions_that_are_not_finite_are_refused_and_told_later():
    cpu, gpu = pair()
    actions = random_actions(cpu, np.random.default_rng(3))
    before = gpu.get_state()
    bad = actions.copy()
    bad[1, 0] = np.nan
    gpu.step(bad)
    gpu.step(bad)
    with pytest.raises(
        ValueError, match=r"2 step\(s\) .* in 1 lane\(s\), the first of them lane 1"
    ):
        gpu.metrics()
    gpu.check()  # told once
    after = gpu.get_state()
    assert all(np.array_equal(after[name][1], before[name][1]) for name in after)
    assert after["time"].tolist() == [2, 0, 2]


def test_views_and_numbers_are_those_of_the_cpu():
    cpu, gpu = pair(horizon=5)
    actions = random_actions(cpu, np.random.default_rng(4))
    for game in (cpu, gpu):
        game.step(actions)
    assert gpu.metrics(2) == cpu.metrics(2)
    assert gpu.global_state().tobytes() == cpu.global_state().tobytes()
    assert np.array_equal(gpu.view().time, cpu.view().time)
    assert not gpu.view().time.flags.writeable


def test_arrays_share_their_memory_by_both_protocols(fake):
    _, gpu = pair()
    obs = gpu.control.obs
    interface = obs.__cuda_array_interface__
    assert interface["data"] == (obs.address, False)
    assert interface["strides"] == gpu._host.control.obs.strides
    tensor = dlpack.tensor_in(obs.__dlpack__(stream=1))
    place = (obs.address, obs.shape, obs.strides, obs.dtype, 0)
    assert tensor == place
    assert fake.followed == []
    obs.__dlpack__(stream=5)
    assert fake.followed == [(5, 1)]
    turned = obs.transposed()
    assert turned.strides == np.empty(turned.shape, turned.dtype).strides
    with pytest.raises(BufferError):
        obs.__dlpack__(copy=True)
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(obs, copy=False)
    assert np.asarray(obs, np.float64).dtype == np.float64
    assert (len(obs), obs.ndim, obs.device) == (3, 3, "cuda:0")
    assert repr(obs) == f"<DeviceArray {obs.shape} float32 on cuda:0>"


def test_memory_lives_as_long_as_a_capsule_of_it(fake):
    _, gpu = pair()
    capsule = gpu.control.masks.__dlpack__()
    other = gpu.control.obs.copy()
    assert other.numpy().tobytes() == gpu.control.obs.numpy().tobytes()
    del gpu, other
    assert len(fake.memory) == 1
    del capsule
    assert fake.memory == {}


def test_a_capsule_is_freed_while_an_error_is_raised(fake):
    _, gpu = pair()
    obs = gpu.control.obs
    with pytest.raises(ZeroDivisionError):
        [obs.__dlpack__(), 1 / 0]
    del gpu, obs
    assert fake.memory == {}


def test_actions_with_a_mask_or_on_another_gpu_are_refused(fake):
    _, gpu = pair(lanes=2)
    placed = fake_array(fake, np.zeros((4, *gpu.actions.shape[1:])))
    masked, elsewhere = Interfaced(placed), Interfaced(placed)
    masked.__cuda_array_interface__["mask"] = masked
    with pytest.raises(ValueError, match="without a mask"):
        gpu.step(masked)
    fake.elsewhere.add(placed.address)
    with pytest.raises(ValueError, match="given an array on cuda:1"):
        gpu.step(elsewhere)


def test_an_engine_on_a_gpu_is_neither_copied_nor_pickled():
    _, gpu = pair()
    for way in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="get_state"):
            way(gpu)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_vector_environments_agree(mode):
    options = {"num_envs": 3, "autoreset_mode": mode, "horizon": 3}
    cpu = gymnasium.make_vec("coopbench/TrustDilemma-v1", **options)
    gpu = gymnasium.make_vec("coopbench/TrustDilemma-v1", device="cuda", **options)
    rng = np.random.default_rng(6)
    left, right = cpu.reset(seed=4)[0], gpu.reset(seed=4)[0]
    assert left.tobytes() == np.ascontiguousarray(right).tobytes()
    for _ in range(3 if mode == "Disabled" else 7):
        actions = rng.uniform(0, 1, cpu.action_space.shape)
        *left, infos = cpu.step(actions)
        *right, facts = gpu.step(actions)
        for a, b in zip((*left, infos["rewards"]), (*right, facts["rewards"]), strict=True):
            assert a.tobytes() == np.asarray(b).tobytes(order="C")
        if "final_obs" in infos:
            assert np.stack(infos["final_obs"]).tobytes() == facts["final_obs"].numpy().tobytes("C")
    assert cpu.get_state()["rng"].tobytes() == gpu.get_state()["rng"].tobytes()
    assert set(gpu.metrics()) == set(cpu.unwrapped.engine.spec.metrics)


def test_vector_environments_with_choices_and_copies():
    gpu = gymnasium.make_vec(
        f"coopbench/{CHOICES}", num_envs=2, device="cuda", copy=True, render_mode="ansi"
    )
    obs, infos = gpu.reset(seed=1)
    assert {"action_mask", "invalid_actions"} <= set(infos)
    first = obs.numpy()
    after, *_ = gpu.step(np.ones(gpu.action_space.shape, np.int64))
    assert after.address != obs.address
    assert obs.numpy().tobytes() == first.tobytes()
    assert len(gpu.render()) == 2
    assert set(gpu.info()) == set(gpu.unwrapped.engine.info())
    with pytest.raises(ValueError, match="reset_mask"):
        gpu.reset(options={"reset_mask": np.zeros(2, np.bool_)})


def test_single_environments_and_focal_control_refuse_a_gpu():
    for make in (
        lambda: gymnasium.make("coopbench/TrustDilemma-v1", device="cuda"),
        lambda: __import__("pettingzoo").make("parallel", "coopbench/SLCD-v1", device="cuda"),
    ):
        with pytest.raises(ValueError, match="a single game would wait"):
            make()
    assert gymnasium.make("coopbench/TrustDilemma-v1", device="cpu").reset(seed=0)
    with pytest.raises(ValueError, match="needs device='cpu'"):
        gymnasium.make_vec("coopbench/TrustDilemma-v1", device="cuda", control="focal")
    with pytest.raises(gymnasium.error.ResetNeeded):
        gymnasium.make_vec("coopbench/TrustDilemma-v1", device="cuda").step(None)


@pytest.mark.parametrize("env_id", [GAME, CHOICES, "Skirmish-v0"])
def test_rows_of_stable_baselines3_agree(env_id):
    pytest.importorskip("stable_baselines3", reason="the extra 'train' is not installed")
    envs = [
        coopbench_envs.sb3_vec_env(env_id, 2, horizon=3, device=device)
        for device in ("cpu", "cuda")
    ]
    rng = np.random.default_rng(7)
    for env in envs:
        env.seed(3)
    first, second = (env.reset() for env in envs)
    assert first.tobytes() == second.tobytes()
    for _ in range(5):
        actions = random_actions(envs[0].engine, rng).reshape(envs[0].num_envs, -1)
        left, right = (env.step(actions) for env in envs)
        for a, b in zip(left[:3], right[:3], strict=True):
            assert a.tobytes() == b.tobytes()
        assert str(left[3]) == str(right[3])
