"""Tests that need a GPU: `make cuda`. They hold its results against the CPU's.

python -m pytest -n 8 tests/on_gpu.py
"""

import gc
import os

import numpy as np
import pytest
from fake_gpu import compare, differences, engines, random_actions

import coopbench_envs
from coopbench_envs.cuda.gpu import open_gpu
from coopbench_envs.engine import DISABLED, NEXT_STEP, SAME_STEP, Engine

PUBLISHED = [name for name in coopbench_envs.ids() if name.startswith("coopbench/")]
GAME = "TrustDilemma-v1"


# Else jax takes three quarters of the memory, in every worker.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


@pytest.fixture(autouse=True)
def gpu():
    """The GPU; without one these tests fail, since somebody has asked for them.

    After a kernel that has crashed nothing works in this process: its tests end there.
    """
    opened = open_gpu(0)
    yield opened
    try:
        opened.wait(1)
    except RuntimeError as error:
        pytest.exit(f"the GPU cannot be used any more: {error}")


def torch_on_a_gpu():
    """Return torch; skip the test where it is not installed, or built without CUDA."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("torch is built without CUDA")
    return torch


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
@pytest.mark.parametrize("env_id", PUBLISHED)
def test_same_bits_as_on_the_cpu(env_id, mode):
    """1,024 lanes and 300 steps; the first step and the arrays that differ are the message."""
    case = {"lanes": 1024, "steps": 300, "horizon": 70}
    if compare(env_id, mode, **case, every=25) is not None:
        assert compare(env_id, mode, **case) is None


@pytest.mark.parametrize("env_id", [GAME, "Routing-v1", "Rail-v1", "Skirmish-v1"])
def test_three_runs_of_the_same_seeds_are_equal(env_id):
    outcomes = set()
    for _ in range(3):
        game, rng = Engine(env_id, 512, device="cuda", horizon=40), np.random.default_rng(0)
        game.reset(np.arange(512))
        for _ in range(100):
            game.step(random_actions(game, rng))
        outcomes.add(game.control.obs.numpy().tobytes() + game.control.returns.numpy().tobytes())
    assert len(outcomes) == 1


@pytest.mark.parametrize("env_id", [GAME, "Routing-v1", "Rail-v1", "Skirmish-v1"])
def test_a_snapshot_goes_on_there_and_back(env_id):
    cpu, game = engines(env_id, 64, horizon=50)
    rng = np.random.default_rng(1)
    cpu.reset(np.arange(64))
    game.reset(np.arange(64) + 1000)
    for target, source in ((game, cpu), (cpu, game)):
        for _ in range(20):
            source.step(random_actions(cpu, rng))
        target.reset(state=source.get_state())
        actions = random_actions(cpu, rng)
        for side in (cpu, game):
            side.step(actions)
        assert cpu.control.obs.tobytes() == np.asarray(game.control.obs).tobytes()


@pytest.mark.parametrize("kind", ["float64", "float32", "int32", "int64"])
def test_torch_shares_arrays_and_gives_actions(kind):
    torch = torch_on_a_gpu()
    cpu, game = engines(GAME, 256)
    actions = torch.zeros((512, *cpu.actions.shape[1:]), dtype=getattr(torch, kind), device="cuda")
    actions += 1
    for side in (cpu, game):
        side.reset(np.arange(256))
    view = game.control.obs.as_torch()
    assert view.data_ptr() == game.control.obs.address
    assert tuple(view.shape) == game.control.obs.shape
    for _ in range(5):
        game.step(actions[::2])
        cpu.step(actions[::2].cpu().numpy())
    assert differences(cpu, game) == []
    assert view.cpu().numpy().tobytes() == cpu.control.obs.tobytes()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):  # waits for the engine by DLPack's handshake
        total = torch.from_dlpack(game.control.obs).sum()
    side.synchronize()
    assert total.item() == pytest.approx(float(cpu.control.obs.sum()), rel=1e-4)


@pytest.mark.parametrize("env_id", [GAME, "Skirmish-v1"])
def test_rows_of_tensors_lie_on_the_gpu(env_id):
    pytest.importorskip("stable_baselines3", reason="the extra 'train' is not installed")
    torch = torch_on_a_gpu()
    arrays, tensors = (
        coopbench_envs.sb3_vec_env(env_id, 64, rows=rows, device=device, horizon=20)
        for rows, device in (("numpy", "cpu"), ("torch", "cuda"))
    )
    for rows in (arrays, tensors):
        rows.seed(3)
    rng = np.random.default_rng(2)
    assert tensors.reset().cpu().numpy().tobytes() == arrays.reset().tobytes()
    for _ in range(50):
        actions = random_actions(arrays.engine, rng).reshape(arrays.num_envs, -1)
        *left, infos = arrays.step(actions)
        *right, facts = tensors.step(torch.as_tensor(actions, device="cuda"))
        assert all(tensor.is_cuda for tensor in right)
        for array, tensor in zip(left, right, strict=True):
            assert tensor.cpu().numpy().tobytes() == array.tobytes()
        assert str(infos) == str(facts)


def test_jax_shares_arrays_and_gives_actions():
    jax = pytest.importorskip("jax", reason="jax is not installed")
    cpu, game = engines(GAME, 256)
    for side in (cpu, game):
        side.reset(np.arange(256))
    view = game.control.obs.as_jax()
    assert view.unsafe_buffer_pointer() == game.control.obs.address
    game.step(jax.numpy.ones(cpu.actions.shape, "float32"))
    cpu.step(np.ones(cpu.actions.shape))
    assert differences(cpu, game) == []


def test_actions_that_are_not_finite_are_refused_and_told_later():
    game = Engine(GAME, 128, device="cuda")
    game.reset(np.arange(128))
    actions = np.zeros(game.actions.shape)
    actions[5] = np.inf
    game.step(actions)
    with pytest.raises(ValueError, match="the first of them lane 5"):
        game.check()
    assert game.get_state()["time"].sum() == 127


def test_memory_is_freed(gpu, monkeypatch):
    held, allocate, free = set(), gpu.allocate, gpu.free

    def allocated(size):
        held.add(address := allocate(size))
        return address

    def freed(address):
        held.discard(address)
        free(address)

    monkeypatch.setattr(gpu, "allocate", allocated)
    monkeypatch.setattr(gpu, "free", freed)
    for _ in range(3):
        Engine(GAME, 65536, device="cuda").reset(np.arange(65536))
    assert held
    gc.collect()
    assert not held
