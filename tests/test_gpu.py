"""Engines with device="cuda": on a stand-in here, and what is said where there is no GPU."""

import ctypes.util
import sys
from enum import IntEnum
from types import SimpleNamespace

import numpy as np
import pytest
from builders import run_python

from coopbench_envs.cuda.arguments import Packed
from coopbench_envs.cuda.engine import CudaEngine
from coopbench_envs.cuda.gpu import Gpu, open_gpu, ordinal_of, stream_of
from coopbench_envs.cuda.ptx import parameter_bytes
from studies.checks.folders import ROOT


@pytest.mark.parametrize(
    "chosen",
    [
        "not same_bits or TrustDilemma-v1",
        pytest.param("same_bits", marks=pytest.mark.slow("plays every environment as Python")),
    ],
)
def test_engines_on_a_stand_in_for_a_gpu(chosen):
    """In a process of its own, in which kernels run as Python."""
    options = ["-q", "-p", "no:cacheprovider", "-k", chosen]
    words = ("-m", "pytest", *options, "studies/checks/on_gpu.py")
    run_python(*words, cwd=ROOT, NUMBA_DISABLE_JIT="1", PYTEST_ADDOPTS="")


def test_names_of_devices():
    assert [ordinal_of(name) for name in ("cuda", "cuda:1")] == [0, 1]
    for name in ("gpu", "cuda:", "cuda:x", "cpu", None):
        with pytest.raises(ValueError, match="allowed: 'cuda', 'cuda:1'"):
            ordinal_of(name)


def test_without_numba_cuda_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba_cuda", None)
    with pytest.raises(ModuleNotFoundError, match=r"extra 'cuda' of coopbench"):
        CudaEngine("TrustDilemma-v1")


class Result(IntEnum):
    """Errors of the driver."""

    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_INVALID_IMAGE = 200
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


def driver(gpus=1, version=12090):
    """Return the part of the driver's interface that a GPU asks first; its memory is full."""
    attributes = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=9,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=0,
    )
    return SimpleNamespace(
        CUdevice_attribute=attributes,
        cuInit=lambda flags: (0,),
        cuDeviceGetCount=lambda: (0, gpus),
        cuDriverGetVersion=lambda: (0, version),
        cuDeviceGet=lambda ordinal: (0, ordinal),
        cuDeviceGetName=lambda size, device: (0, b"A GPU\0\0\0"),
        cuDeviceGetAttribute=lambda attribute, device: (0, attribute),
        cuDevicePrimaryCtxRetain=lambda device: (0, object()),
        cuCtxPushCurrent=lambda context: (0,),
        cuCtxPopCurrent=lambda: (0, None),
        cuMemAlloc=lambda size: (Result.CUDA_ERROR_OUT_OF_MEMORY, None),
    )


def test_what_a_gpu_is_asked_first():
    gpu = Gpu(driver(), 0)
    assert (gpu.name, gpu.arch, gpu.version) == ("A GPU", (9, 0), 12090)
    with pytest.raises(MemoryError, match="A GPU has no 512 MiB left for these lanes"):
        gpu.allocate(2**29)
    gpu._driver.cuMemAlloc = lambda size: (Result.CUDA_ERROR_ILLEGAL_ADDRESS, None)
    with pytest.raises(RuntimeError, match="cuMemAlloc of the driver reports CUDA_ERROR_ILLEGAL"):
        gpu.allocate(8)  # a kernel has crashed before
    with pytest.raises(RuntimeError, match=r"the driver sees 2 GPU\(s\)"):
        Gpu(driver(gpus=2), 2)


def test_an_old_driver_refuses_many_parameters(monkeypatch):
    text = ".visible .entry run(\n" + ",\n".join(f".param .u64 p{k}" for k in range(600)) + "\n)"
    monkeypatch.setattr("coopbench_envs.cuda.gpu.ptx_of", lambda *arguments, **options: text)
    with pytest.raises(RuntimeError, match=r"4,800 bytes of parameters.*Drivers from 530 on"):
        Gpu(driver(version=12000), 0).load(None)


def test_parameters_are_aligned_to_their_sizes():
    kinds = ("u8", "u64", "f32", "u64")
    text = ",\n".join(f".param .{kind} p{k}" for k, kind in enumerate(kinds))
    assert parameter_bytes(f".visible .entry run(\n{text}\n)") == 32  # 1 + 7, 8, 4 + 4, 8


def test_streams_by_number():
    assert [stream_of(stream) for stream in (0, 1, 3, np.int64(94))] == [1, 1, 3, 94]
    for stream in (-1, 2):
        with pytest.raises(ValueError, match="allowed: 1 or 0, the default stream"):
            stream_of(stream)


def test_without_a_driver_what_lacks_is_said():
    """Where numba-cuda is installed without a GPU."""
    pytest.importorskip("numba_cuda", reason="the extra 'cuda' is not installed")
    if ctypes.util.find_library("cuda"):
        pytest.skip("a driver is installed")
    with pytest.raises(RuntimeError, match="device='cpu' gives the same results"):
        open_gpu(0)


def test_numbers_are_packed_by_their_types():
    packed = Packed((True, 3, 2.5, np.float32(1.5), np.int8(-1), (np.uint64(7),)))
    assert [value.value for value in packed.values] == [1, 3, 2.5, 1.5, -1, 7]
    assert packed.sizes == [1, 8, 8, 4, 1, 8]
    with pytest.raises(TypeError, match="given str"):
        Packed(("x",))


def test_a_capsule_may_live_until_the_process_ends():
    """It is destroyed after the modules that it came from."""
    code = (
        "import sys, numpy; from coopbench_envs.cuda.dlpack import Tensor, capsule_of;"
        "tensor = Tensor(4096, (2, 3), (12, 4), numpy.dtype('f4'), 0);"
        "sys.held = [capsule_of(tensor, None)]; sys.held.append(sys.held)"
    )
    run_python("-c", code)
