"""Engines on a GPU, held against those of the CPU.

    python -m pytest -n 8 studies/checks/on_gpu.py

needs a GPU: `make cuda`. Under NUMBA_DISABLE_JIT=1 the stand-in of ``fake_gpu.py`` takes its
place, and kernels run as Python; so ``test_gpu.py`` runs these tests.
"""

import copy
import gc
import os
import pickle
from functools import partial

import gymnasium
import numpy as np
import pettingzoo
import pytest

import coopbench_envs
from coopbench_envs.cuda import dlpack, engine
from coopbench_envs.cuda.buffers import DeviceArray, Slab
from coopbench_envs.cuda.engine import CudaEngine
from coopbench_envs.cuda.gpu import BLOCK, open_gpu
from coopbench_envs.engine import DISABLED, NEXT_STEP, SAME_STEP, Engine
from coopbench_envs.memory import Finals
from studies.checks.fake_gpu import FakeGpu

FAKE = os.environ.get("NUMBA_DISABLE_JIT") == "1"
# Tests of one environment run in one process, which compiles it once; the longest begin.
PUBLISHED = [
    pytest.param(name, marks=pytest.mark.xdist_group(name))
    for name in sorted(coopbench_envs.ids(), key=lambda name: "/R" not in name and "/S" not in name)
    if name.startswith("coopbench/")
]
GAME, CHOICES = "TrustDilemma-v1", "Rail-v1"
# What takes long as Python is played shortly, or in one game alone, on the stand-in.
MODES = (NEXT_STEP, SAME_STEP) if FAKE else (NEXT_STEP, SAME_STEP, DISABLED)
KINDS = (GAME,) if FAKE else (GAME, "Routing-v1", "Rail-v1", "Skirmish-v1")
LANES = 4 if FAKE else 256
pytestmark = pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")

# Else jax takes three quarters of the memory, in every worker.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    """The GPU; without one these tests fail, since somebody has asked for them."""
    if FAKE:
        opened = FakeGpu()
        monkeypatch.setattr(engine, "open_gpu", lambda ordinal: opened)
    else:
        opened = open_gpu(0)
    yield opened
    opened.wait(1)  # what a kernel has broken is told by the test that has launched it


@pytest.fixture
def fake(gpu):
    """The stand-in, which tells what is asked of it."""
    if not FAKE:
        pytest.skip("a GPU does not tell its calls")
    return gpu


def torch_on_a_gpu():
    """Return torch; skip the test where it is not installed, or built without CUDA."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if FAKE or not torch.cuda.is_available():
        pytest.skip("torch has no GPU")
    return torch


def pair(name=GAME, lanes=LANES, **parameters):
    """Return engines on the CPU and on the GPU, reset with the same seeds."""
    games = [kind(name, lanes, global_state=True, **parameters) for kind in (Engine, CudaEngine)]
    for game in games:
        game.reset(np.arange(lanes))
    return games


def random_actions(game, rng):
    """Return actions of every lane, some of them illegal."""
    if game.discrete:
        choices = max(space.n for space in game.action_spaces)
        return rng.integers(0, choices, game.actions.shape)
    low, high = game.action_bounds()
    return rng.uniform(low, high, game.actions.shape)


def differences(cpu, gpu):
    """Return the arrays in which two engines differ in a bit: how many elements, and the first."""
    twin, state = gpu.fetched()[0], gpu.view()
    # Where no lane is done, the CPU leaves out what SAME_STEP does second, and two lists with it.
    seen = [name for name in twin._fields if name not in ("chosen", "moved")]
    pairs = {name: (getattr(cpu.control, name), getattr(twin, name)) for name in seen}
    pairs |= {f"state.{n}": (getattr(cpu.state, n), getattr(state, n)) for n in state._fields}
    for name in Finals._fields:
        pairs[f"final_{name}"] = tuple(
            np.asarray(getattr(game.finals, name)) for game in (cpu, gpu)
        )
    return [
        f"{name}: {first_difference(left, right)}"
        for name, (left, right) in pairs.items()
        if left.tobytes() != right.tobytes()
    ]


def first_difference(left, right):
    """Say in how many elements two arrays differ in a bit, and where first, with both values."""
    if (left.shape, left.dtype) != (right.shape, right.dtype):
        return f"{left.dtype} {left.shape} on the CPU, {right.dtype} {right.shape} on the GPU"
    sides = [np.ascontiguousarray(side).reshape(-1) for side in (left, right)]
    words = [side.view(np.uint8).reshape(side.size, -1) for side in sides]
    places = np.flatnonzero((words[0] != words[1]).any(1))
    where = tuple(map(int, np.unravel_index(places[0], left.shape)))
    values = [side[places[0]].item() for side in sides]
    exact = [value.hex() if isinstance(value, float) else repr(value) for value in values]
    return f"{places.size} of {left.size}, first {where}: {exact[0]} on the CPU, {exact[1]}"


def compare(env_id, mode, *, lanes, steps, horizon, every=1):
    """Play one environment on both; return the first step and what differs then, or None.

    The arrays are held against each other after ``every`` so many steps, and after the last.
    """
    cpu, gpu = pair(env_id, lanes, horizon=horizon)
    rng = np.random.default_rng(5)
    for step in range(steps + 1):
        names = differences(cpu, gpu) if step % every == 0 or step == steps else []
        if names:
            return step, names
        actions = random_actions(cpu, rng)
        for game in (cpu, gpu):
            game.step(actions, mode)
    return None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("env_id", PUBLISHED)
def test_same_bits_as_on_the_cpu(env_id, mode):
    """The first step and the arrays that differ are the message."""
    if FAKE:
        assert compare(env_id, mode, lanes=2, steps=6, horizon=4) is None
        return
    case = {"lanes": 1024, "steps": 300, "horizon": 70}
    if compare(env_id, mode, **case, every=25) is not None:
        assert compare(env_id, mode, **case) is None


@pytest.mark.parametrize("order", ["C", "F"])
def test_choices_are_translated_as_on_the_cpu(order):
    cpu, gpu = pair(horizon=4, order=order, action_levels=3)
    rng = np.random.default_rng(6)
    for _ in range(6):
        choices = rng.integers(-1, 4, cpu.actions.shape)  # some of them illegal
        for game in (cpu, gpu):
            game.step(choices)
        assert differences(cpu, gpu) == []
        assert np.array_equal(cpu.actions, np.asarray(gpu.actions))
    assert cpu.control.invalid.any()


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


@pytest.mark.parametrize("env_id", KINDS)
def test_a_snapshot_goes_on_there_and_back(env_id):
    cpu, gpu = pair(env_id, horizon=50)
    gpu.reset(np.arange(LANES) + 1000)
    rng = np.random.default_rng(1)
    for target, source in ((gpu, cpu), (cpu, gpu)):
        for _ in range(5):
            source.step(random_actions(cpu, rng))
        target.reset(state=source.get_state())
        actions = random_actions(cpu, rng)
        for game in (cpu, gpu):
            game.step(actions)
        last, copied = cpu.get_state(), gpu.get_state()
        assert all(last[name].tobytes() == copied[name].tobytes() for name in last)
        assert cpu.control.obs.tobytes() == np.asarray(gpu.control.obs).tobytes()
    assert gpu.lane_state(1)["returns"].tobytes() == last["returns"][1].tobytes()


def test_views_and_numbers_are_those_of_the_cpu():
    cpu, gpu = pair(horizon=5)
    actions = random_actions(cpu, np.random.default_rng(4))
    for game in (cpu, gpu):
        game.step(actions)
    assert gpu.metrics(2) == cpu.metrics(2)
    assert gpu.global_state().tobytes() == cpu.global_state().tobytes()
    assert np.array_equal(gpu.view().time, cpu.view().time)
    assert not gpu.view().time.flags.writeable


def test_an_engine_on_a_gpu_is_neither_copied_nor_pickled():
    _, gpu = pair()
    for way in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="get_state"):
            way(gpu)


# --- actions --------------------------------------------------------------------------------------


def placed(gpu, array, order="C"):
    """Put an array into the memory of a GPU."""
    slab = Slab(gpu, array.nbytes)
    copied = DeviceArray(slab, slab.address, array.shape, array.dtype, order, 1)
    copied.write_from(np.asarray(array, order=order))
    return copied


class Interfaced:
    """An array of a library that knows only the older protocol, and of every second row."""

    def __init__(self, array, stream=None):
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__ | {
            "shape": (array.shape[0] // 2, *array.shape[1:]),
            "strides": (2 * array.strides[0], *array.strides[1:]),
            "stream": stream,
        }


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_actions_may_lie_on_the_gpu(fake, kind, order):
    cpu, gpu = pair()
    rng = np.random.default_rng(2)
    wide = np.repeat(random_actions(cpu, rng), 2, axis=0).astype(kind)
    fortran = placed(fake, np.ascontiguousarray(wide[::2]), order)
    for given in (fortran, Interfaced(placed(fake, wide), stream=77)):
        cpu.step(wide[::2].astype(np.float64))
        gpu.step(given)
        assert differences(cpu, gpu) == []
    assert fake.followed[-1] == (1, 77)


def test_actions_that_do_not_fit_change_nothing(fake):
    cpu, gpu = pair(CHOICES)
    shape = gpu.actions.shape
    integers = "must be integers of shape"
    masked, elsewhere = (Interfaced(placed(fake, np.zeros((8, *shape[1:])))) for _ in range(2))
    masked.__cuda_array_interface__["mask"] = masked
    fake.elsewhere.add(elsewhere.array.address)
    for actions, reason in (
        (np.zeros((2, 2), np.int64), integers),
        (np.zeros(shape), integers),
        (placed(fake, np.zeros(shape)), integers),
        (placed(fake, np.zeros((*shape, 1), np.int64)), integers),
        (placed(FakeGpu(1), np.zeros(shape, np.int64)), "must lie on cuda:0"),
        (masked, "without a mask"),
        (elsewhere, "given an array on cuda:1"),
    ):
        with pytest.raises(ValueError, match=reason):
            gpu.step(actions)
    with pytest.raises(ValueError, match="allowed: NEXT_STEP"):
        gpu.step(cpu.actions, 7)
    assert differences(cpu, gpu) == []


def test_actions_that_are_not_finite_are_refused_and_told_later():
    cpu, gpu = pair()
    actions = random_actions(cpu, np.random.default_rng(3))
    before = gpu.get_state()
    actions[1, 0] = np.nan
    gpu.step(actions)
    gpu.step(actions)
    told = r"2 step\(s\) .* in 1 lane\(s\), the first of them lane 1"
    with pytest.raises(ValueError, match=told):
        gpu.metrics()
    gpu.check()  # told once
    after = gpu.get_state()
    assert all(np.array_equal(after[name][1], before[name][1]) for name in after)
    assert after["time"].tolist() == [2, 0] + [2] * (LANES - 2)


def test_a_step_neither_waits_nor_copies_to_the_host(fake):
    gpu = CudaEngine(CHOICES, 3)
    gpu.reset(np.arange(3))
    moves = placed(fake, np.ones(gpu.actions.shape, np.int64))
    gpu.step(moves)
    del fake.calls[:]
    gpu.step(moves, SAME_STEP)
    assert fake.calls == ["take_choices", "play", "keep", "play"]
    assert len(fake.memory) == 2  # the engine's and the actions'


# --- shared memory --------------------------------------------------------------------------------


def test_arrays_share_their_memory_by_both_protocols(fake):
    _, gpu = pair()
    obs = gpu.control.obs
    interface = obs.__cuda_array_interface__
    assert interface["data"] == (obs.address, False)
    assert interface["strides"] == gpu._host.control.obs.strides
    tensor = dlpack.tensor_in(obs.__dlpack__(stream=1))
    assert tensor == (obs.address, obs.shape, obs.strides, obs.dtype, 0)
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
    assert (len(obs), obs.ndim, obs.device) == (LANES, 3, "cuda:0")
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


def test_memory_is_freed(gpu, monkeypatch):
    allocated, freed, allocate, free = [], [], gpu.allocate, gpu.free

    def noted(size):
        allocated.append(allocate(size))
        return allocated[-1]

    monkeypatch.setattr(gpu, "allocate", noted)
    monkeypatch.setattr(gpu, "free", lambda address: (freed.append(address), free(address)))
    for _ in range(3):
        pair(lanes=LANES if FAKE else 65536)
    gc.collect()
    assert len(allocated) >= 3
    assert sorted(freed) == sorted(allocated)


@pytest.mark.parametrize("kind", ["float64", "float32", "int32", "int64"])
def test_torch_shares_arrays_and_gives_actions(kind):
    torch = torch_on_a_gpu()
    cpu, gpu = pair()
    shape = (2 * LANES, *cpu.actions.shape[1:])
    actions = torch.ones(shape, dtype=getattr(torch, kind), device="cuda")
    view = gpu.control.obs.as_torch()
    assert view.data_ptr() == gpu.control.obs.address
    assert tuple(view.shape) == gpu.control.obs.shape
    for _ in range(5):
        gpu.step(actions[::2])
        cpu.step(actions[::2].cpu().numpy())
    assert differences(cpu, gpu) == []
    assert view.cpu().numpy().tobytes() == cpu.control.obs.tobytes()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):  # waits for the engine by DLPack's handshake
        total = torch.from_dlpack(gpu.control.obs).sum()
    side.synchronize()
    assert total.item() == pytest.approx(float(cpu.control.obs.sum()), rel=1e-4)


def test_jax_shares_arrays_and_gives_actions():
    jax = pytest.importorskip("jax", reason="jax is not installed")
    if FAKE:
        pytest.skip("jax has no GPU")
    cpu, gpu = pair()
    view = gpu.control.obs.as_jax()
    assert view.unsafe_buffer_pointer() == gpu.control.obs.address
    gpu.step(jax.numpy.ones(cpu.actions.shape, "float32"))
    cpu.step(np.ones(cpu.actions.shape))
    assert differences(cpu, gpu) == []


# --- interfaces -----------------------------------------------------------------------------------


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


def test_what_cannot_be_on_a_gpu_is_refused():
    for make in (gymnasium.make, partial(pettingzoo.make, "parallel")):
        with pytest.raises(ValueError, match="a single game would wait"):
            make("coopbench/TrustDilemma-v1", device="cuda")
    with pytest.raises(ValueError, match="needs device='cpu'"):
        gymnasium.make_vec("coopbench/TrustDilemma-v1", device="cuda", control="focal")
    with pytest.raises(gymnasium.error.ResetNeeded):
        gymnasium.make_vec("coopbench/TrustDilemma-v1", device="cuda").step(None)


@pytest.mark.parametrize("rows", ["numpy", "torch"])
@pytest.mark.parametrize("env_id", [GAME, "Skirmish-v1"])
def test_rows_of_stable_baselines3_agree(env_id, rows):
    pytest.importorskip("stable_baselines3", reason="the extra 'train' is not installed")
    torch = torch_on_a_gpu() if rows == "torch" else None
    cpu, gpu = (
        coopbench_envs.sb3_vec_env(env_id, LANES // 2, rows=kind, device=device, horizon=3)
        for kind, device in (("numpy", "cpu"), (rows, "cuda"))
    )

    def on_the_host(values):
        assert torch is None or values.is_cuda
        return values if torch is None else values.cpu().numpy()

    for env in (cpu, gpu):
        env.seed(3)
    assert on_the_host(gpu.reset()).tobytes() == cpu.reset().tobytes()
    rng = np.random.default_rng(2)
    for _ in range(5):
        rows_of_agents = cpu.num_envs, *cpu.action_space.shape
        actions = random_actions(cpu.engine, rng).reshape(rows_of_agents)
        *left, infos = cpu.step(actions)
        *right, facts = gpu.step(actions if torch is None else torch.tensor(actions).cuda())
        for array, values in zip(left, right, strict=True):
            assert on_the_host(values).tobytes() == array.tobytes()
        assert str(infos) == str(facts)
