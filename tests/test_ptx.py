"""The code of a GPU: compiled without one, with the operations of the CPU and its results.

    COOPBENCH_PTX=all python -m pytest -s tests/test_ptx.py -k "operations or play"

checks all environments, and prints what ptxas says of each: `make cuda-ptx`.
"""

import importlib.util
import os
import re
import subprocess

import numpy as np
import pytest

from coopbench_envs import ids
from coopbench_envs.cuda import engine
from coopbench_envs.cuda.arguments import Packed
from coopbench_envs.cuda.assembling import assembler, machine_code
from coopbench_envs.cuda.buffers import DeviceArray
from coopbench_envs.cuda.gpu import BLOCK
from coopbench_envs.cuda.programs import Program
from coopbench_envs.cuda.ptx import entry_name, parameter_bytes, parameters, ptx_of
from studies.checks import on_gpu
from studies.checks.fake_gpu import FakeGpu
from studies.checks.ptx_in_c import COMPILER, PtxGpu

pytestmark = [
    pytest.mark.slow("compiles for a GPU"),
    pytest.mark.skipif(
        importlib.util.find_spec("numba_cuda") is None or not assembler(),
        reason="the extra 'cuda' is not installed",
    ),
]
SM_80, SM_90 = (8, 0), (9, 0)
# Whether ptxas assembles it, too: for the longer ones it takes minutes.
CASES = (
    ("TrustDilemma-v1", SM_80, True),
    ("TrustDilemma-v1", SM_90, True),
    ("PlatformEcosystem-v1", SM_90, True),
    ("Routing-v0", SM_90, False),
    ("Rail-v1", SM_90, False),
    ("Skirmish-v1", SM_90, False),
)
ALL = os.environ.get("COOPBENCH_PTX") == "all"
if ALL:
    CASES = [(name, SM_90, True) for name in ids() if name.startswith("coopbench/")]
# As small as the environment allows; the code is the same.
SMALL = {"Routing-v0": {"num_agents": 2}, "Routing-v1": {"num_agents": 2}}
FORBIDDEN = {
    "fma": r"\bfma\.rn\.f\d+",  # contracted, or a function of a mathematical library
    "approximate": r"\b\w+\.approx\.\S+",
    # Between variables these differ from Python's beside a NaN and between zeros; where one is a
    # number of the code, the compiler has seen that the result is that of compare and select.
    "minmax": r"\b(?:min|max)\.f\d+ [^;]*, %f\w+;",
    "call": r"\bcall\b",
    "inexact": r"\b(?:div|sqrt|add|sub|mul)\.(?:full|ftz|rz|rm|rp)\S*",
}


class Compiler(FakeGpu):
    """A GPU that compiles what it is to load, and launches nothing."""

    def __init__(self, arch):
        super().__init__()
        self.arch, self.texts = arch, {}

    def load(self, program):
        text = ptx_of(program, self.arch)
        self.texts[program.template.__name__] = text
        assert parameters(text) == Packed(program.arguments).sizes
        return text, program

    def launch(self, function, lanes, parameters, stream):
        pass


@pytest.mark.parametrize(("env_id", "arch", "assembled"), CASES)
def test_programs_have_the_operations_of_the_cpu(env_id, arch, assembled, tmp_path, monkeypatch):
    """No contraction, no function of a library, no min or max that differs from Python's."""
    compiler = Compiler(arch)
    monkeypatch.setattr(engine, "open_gpu", lambda ordinal: compiler)
    engine.CudaEngine(env_id, 64, **SMALL.get(env_id.split("/")[-1], {}))
    assert set(compiler.texts) == {"play", "keep"}
    for name, text in compiler.texts.items():
        found = {kind: re.findall(pattern, text) for kind, pattern in FORBIDDEN.items()}
        assert not any(found.values()), found
        assert parameter_bytes(text) < 32764
        assert sum(map(int, re.findall(r"\.local[^;]*\[(\d+)\];", text))) <= 256
        assert entry_name(text) == "run"
        assert f".target sm_{arch[0]}{arch[1]}" in text
        if assembled:
            said = said_by_ptxas(text, arch, tmp_path)
            print(env_id, name, *re.findall(r"Used \d+ registers|\d+ bytes spill stores", said))
            assert ALL or "0 bytes spill stores" in said


@pytest.mark.skipif(COMPILER is None and "CI" not in os.environ, reason="no C compiler here")
def test_choices_are_translated_as_the_cpu_does(tmp_path, monkeypatch):
    gpu = PtxGpu(tmp_path)
    monkeypatch.setattr(engine, "open_gpu", lambda ordinal: gpu)
    on_gpu.test_choices_are_translated_as_on_the_cpu("F")


@pytest.mark.skipif(COMPILER is None and "CI" not in os.environ, reason="no C compiler here")
@pytest.mark.parametrize("env_id", dict.fromkeys(case[0] for case in CASES))
def test_programs_play_as_the_cpu_does(env_id, tmp_path, monkeypatch):
    """The code of a GPU, rewritten in C, gives every array of the CPU's engine."""
    gpu = PtxGpu(tmp_path)
    monkeypatch.setattr(engine, "open_gpu", lambda ordinal: gpu)
    for mode in on_gpu.MODES:
        assert on_gpu.compare(env_id, mode, lanes=BLOCK + 6, steps=60, horizon=25) is None


def said_by_ptxas(text, arch, folder):
    source = folder / "program.ptx"
    source.write_text(text, encoding="ascii")
    target = f"-arch=sm_{arch[0]}{arch[1]}"
    words = [assembler(), "-v", target, source, "-o", source.with_suffix(".cubin")]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout + done.stderr


def _remainders(out, x):
    out[0] = x[0] % x[1]
    out[1] = x[2] % 0.3


def compiled(kind=np.float64):
    """PTX of a short program, from an empty cache that the test has set."""
    arrays = [DeviceArray(None, 0, (3,), kind, "C", 1) for _ in range(2)]
    return ptx_of(Program(_remainders, {}, (*arrays,), "remainders"), SM_90)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_remainders_of_floats_are_exact(kind, cache):
    """By fmod, as on the CPU; the compiler takes the floor of a rounded quotient."""
    assert not re.findall(r"\bcvt\.rmi\b|\bcall\b", compiled(kind))


def test_compiling_leaves_the_settings_of_numba_cuda_as_they_were(cache):
    from numba.cuda import dispatcher
    from numba.cuda.cudadrv import nvvm
    from numba.cuda.descriptor import cuda_target

    def settings():
        selectors = [cuda_target.target_context._defns[function] for function in (min, max)]
        return nvvm.compile_ir, dispatcher.get_current_device, [s.versions for s in selectors]

    compiled()  # which loads them
    before = settings()
    compiled(np.float32)
    assert settings() == before
    assert len([*cache.rglob("_remainders-*.ptx")]) == 2


def test_cached_code_is_that_which_was_compiled(cache):
    text = compiled()
    (file,) = cache.rglob("*.ptx")
    file.write_text(text + "// from the cache\n")
    assert compiled() == text + "// from the cache\n"


def test_machine_code_is_assembled_once(cache):
    text = compiled()
    code = machine_code(text, SM_90)
    assert code[:4] == b"\x7fELF"
    assert machine_code(text, SM_90, registers=32)
    files = list(cache.rglob("run-sm_90-*.cubin"))
    assert len(files) == 2
    for file in files:
        file.write_bytes(b"from the cache")
    assert machine_code(text, SM_90) == b"from the cache"
    with pytest.raises(RuntimeError, match="ptxas does not assemble the code"):
        machine_code(text.replace("ld.param", "ld.nothing"), SM_90)
    # What a newer compiler has written is left to the driver.
    assert machine_code(re.sub(r"\.version \d+", ".version 99", text), SM_90) is None
