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
SM_80, SM_90 = (8, 0), (9, 0)
# Whether ptxas assembles it, too: for the longer ones it takes minutes, see `make cuda-ptx`.
CASES = (
    ("TrustDilemma-v1", SM_90, True),
    ("TrustDilemma-v1", SM_80, True),
    ("PlatformEcosystem-v1", SM_90, True),
    ("Routing-v0", SM_90, False),
    ("Rail-v1", SM_90, False),
)


@pytest.mark.parametrize(("env_id", "arch", "assembled"), CASES)
def test_programs_have_the_operations_of_the_cpu(env_id, arch, assembled, tmp_path):
    """No contraction, no function of a library, no min or max that differs from Python's.

    That the parameters are those which an engine packs is checked where they are compiled.
    """
    texts = ptx.texts_of(env_id, arch, **ptx.SMALL.get(env_id, {}))
    assert set(texts) == {"play", "keep"}
    for text in texts.values():
        counts = ptx.facts(text)
        assert counts.pop("parameter_bytes") < 32764
        assert counts.pop("local_bytes") <= 256
        assert not any(counts.values()), counts
        assert entry_name(text) == "run"
        assert f".target sm_{arch[0]}{arch[1]}" in text
        if assembled:
            assert ptx.assembled(text, arch, tmp_path)["spilled"] == 0


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
