"""The code of a GPU: compiled without one, with the operations of the CPU and no others."""

import re

import numpy as np
import ptx
import pytest

from coopbench_envs.cuda.assembling import machine_code
from coopbench_envs.cuda.buffers import DeviceArray
from coopbench_envs.cuda.programs import Program
from coopbench_envs.cuda.ptx import entry_name, ptx_of

pytestmark = pytest.mark.skipif(bool(ptx.missing()), reason=ptx.missing() or "never")
CASES = (("TrustDilemma-v1", (9, 0)), ("TrustDilemma-v1", (8, 0)), ("TrustDilemma-v0", (9, 0)))


@pytest.mark.parametrize(("env_id", "arch"), CASES)
def test_programs_have_the_operations_of_the_cpu(env_id, arch, tmp_path):
    """No contraction, no function of a library, no min or max that differs from Python's.

    That the parameters are those which an engine packs is checked where they are compiled.
    """
    texts = ptx.texts_of(env_id, arch)
    assert set(texts) == {"play", "keep"}
    for text in texts.values():
        counts = ptx.facts(text)
        assert counts.pop("parameter_bytes") < 32764
        assert counts.pop("local_bytes") <= 256
        assert not any(counts.values()), counts
        assert entry_name(text) == "run"
        assert f".target sm_{arch[0]}{arch[1]}" in text
        assert ptx.assembled(text, arch, tmp_path)["spilled"] == 0


def test_compiling_leaves_the_settings_of_numba_cuda_as_they_were(tmp_path, monkeypatch):
    from numba.cuda import dispatcher
    from numba.cuda.cudadrv import nvvm
    from numba.cuda.descriptor import cuda_target

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # nothing is cached there
    selectors = [cuda_target.target_context._defns[function] for function in (min, max)]
    before = nvvm.compile_ir, dispatcher.get_current_device, [s.versions for s in selectors]
    texts = ptx.texts_of("TrustDilemma-v1")
    after = nvvm.compile_ir, dispatcher.get_current_device, [s.versions for s in selectors]
    assert after == before
    cached = sorted(file.name.split("-")[0] for file in tmp_path.rglob("*.ptx"))
    assert cached == sorted(texts)


def test_cached_code_is_that_which_was_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    first = ptx.texts_of("TrustDilemma-v1")
    for file in tmp_path.rglob("keep-*.ptx"):
        file.write_text(first["keep"] + "// from the cache\n")
    assert ptx.texts_of("TrustDilemma-v1")["keep"].endswith("// from the cache\n")


def test_machine_code_is_assembled_once(tmp_path, monkeypatch):
    text = ptx.texts_of("TrustDilemma-v1")["keep"]
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    code = machine_code(text, (9, 0))
    assert code[:4] == b"\x7fELF"
    assert machine_code(text, (9, 0), registers=32)
    files = list(tmp_path.rglob("run-sm_90-*.cubin"))
    assert len(files) == 2
    for file in files:
        file.write_bytes(b"from the cache")
    assert machine_code(text, (9, 0)) == b"from the cache"
    with pytest.raises(RuntimeError, match="ptxas does not assemble the code"):
        machine_code(text.replace("ld.param", "ld.nothing"), (9, 0))


def _remainders(out, x):
    out[0] = x[0] % x[1]
    out[1] = x[2] % 0.3


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_remainders_of_floats_are_exact(kind, tmp_path, monkeypatch):
    """By fmod, as on the CPU; the compiler takes the floor of a rounded quotient."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    arrays = [DeviceArray(None, 0, (3,), kind, "C", 1) for _ in range(2)]
    text = ptx_of(Program(_remainders, {}, (*arrays,), "remainders"), (9, 0))
    assert not re.findall(r"\bcvt\.rmi\b|\bcall\b", text)
