"""Compiled functions: what their digests follow, the store on disk, and what cannot be trusted."""

import gc
import importlib
import os
import pickle
import sys
import threading
import time
import types
import warnings
import weakref
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from builders import PATIENCE, run_python

import coopbench_envs
from coopbench import doctor
from coopbench_envs import compiling, lowering, marks, objects, store, targets
from coopbench_envs.compiling import compiled
from coopbench_envs.core import kernel, subroutine
from coopbench_envs.digests import digest
from coopbench_envs.drivers import DISABLED
from coopbench_envs.packing import Packer, types_of

SOURCE = """
import math
import numpy as np
from coopbench_envs.core import kernel, routine

GAIN, WEIGHTS = 2.0, np.array([1.0, 2.0])

@kernel
def grown(x):
    return GAIN * x + WEIGHTS[0]

@routine
def bounded(x):
    return min(math.floor(x), 5.0)

def fill(out, lowest=0.0):
    "Fill an array."
    for k in range(len(out)):
        # one after the other
        out[k] = max(bounded(grown(out[k])), lowest)
"""


def made_from(source):
    module = types.ModuleType("made")
    exec(compile(source, f"/some/folder/{hash(source)}.py", "exec"), module.__dict__)
    return module.fill


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("GAIN, WEIGHTS = 2.0", "GAIN, WEIGHTS = 2.5"),
        ("[1.0, 2.0]", "[1.0, 2.5]"),
        ("GAIN * x + WEIGHTS", "GAIN * x - WEIGHTS"),
        ("@routine", "@kernel"),
        ("math.floor", "math.ceil"),
        ("bounded(grown(out[k]))", "grown(bounded(out[k]))"),
        ("lowest=0.0", "lowest=1.0"),
        (", 5.0)", ", 6.0)"),
    ],
)
def test_a_digest_follows_everything_that_a_function_reaches(before, after):
    assert SOURCE.count(before) == 1
    assert digest(made_from(SOURCE.replace(before, after))) != digest(made_from(SOURCE))


def test_a_digest_follows_nothing_else():
    other = SOURCE.replace("# one after", "\n\n        # one by").replace("Fill an", "Change an")
    other += "UNUSED = 5\n\ndef unused(x):\n    return GAIN\n"
    assert digest(made_from(other)) == digest(made_from(SOURCE))
    assert digest(made_from(SOURCE), ("f8",)) != digest(made_from(SOURCE), ("f4",))


def test_functions_of_one_name_are_told_apart():
    """Also where both have been reached before: drivers bind parts of a step to one name."""
    source = SOURCE + "\nfirst, second = grown, bounded\n\ndef again(x):\n    return first(x)\n"
    source = source.replace("out[k] = max(", "out[k] = again(0.0) + max(")
    swapped = source.replace("first, second = grown, bounded", "second, first = grown, bounded")
    assert digest(made_from(swapped)) != digest(made_from(source))


def test_a_value_that_compiled_code_cannot_have_is_named():
    with pytest.raises(TypeError, match="WEIGHTS, which grown reads, is a list; compiled code"):
        digest(made_from(SOURCE.replace("np.array([1.0, 2.0])", "[1.0, 2.0]")))


class Inputs(NamedTuple):
    numbers: np.ndarray
    shift: float
    small: np.float32
    negative: int
    flag: bool
    nested: tuple[int, np.ndarray]


@kernel
def shifted(inputs, k):
    return inputs.numbers[k] + inputs.shift + inputs.small + inputs.negative


@subroutine
def chosen(inputs, k):
    value = shifted(inputs, k)
    return value if inputs.flag else -value


@compiled
def fill(inputs, out):
    """Use an argument of every kind."""
    for k in range(len(out)):
        out[k] = chosen(inputs, k) + inputs.nested[0] * inputs.nested[1][k, 1]


@compiled
def fail(out):
    if out[0] > 0.0:
        raise ValueError("too much")
    out[0] = 1.0


def inputs(flag=True, numbers=(0.5, 1.5, 2.5)):
    table = np.arange(6, dtype=np.int32).reshape(3, 2)
    return Inputs(np.array(numbers), 10.0, np.float32(0.25), -3, flag, (2, table[:, ::-1]))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty folder of compiled code, which nothing has been loaded from."""
    folder = tmp_path / "kernels"
    monkeypatch.setenv("COOPBENCH_KERNELS", str(folder))
    for function in (fill, fail):
        monkeypatch.setattr(function, "_functions", {})
    return folder


def filled(values):
    out = np.zeros(3)
    fill(values, out)
    return out


def anew(monkeypatch):
    """Forget what this process has loaded, and count what is compiled from now on."""
    monkeypatch.setattr(fill, "_functions", {})
    calls = []
    monkeypatch.setattr(lowering, "lowered", lambda *given: calls.append(given) or LOWERED(*given))
    return calls


LOWERED = lowering.lowered


def test_compiled_functions_take_all_kinds_of_arguments(cache, monkeypatch):
    for flag in (True, False):
        values = inputs(flag)
        expected = np.zeros(3)
        fill.py_func(values, expected)
        np.testing.assert_array_equal(filled(values), expected)
    (file,) = cache.iterdir()
    assert file.name.startswith("fill_test_compiling-")
    calls = anew(monkeypatch)
    filled(inputs(numbers=(1.0, 2.0, 3.0)))
    assert not calls
    with pytest.raises(TypeError, match="Compiled code takes numbers, arrays of numpy and tuples"):
        fill(inputs()._replace(shift="10"), np.zeros(3))


def test_tuples_are_packed_once_and_arrays_every_time():
    packer, table = Packer(), np.zeros((2, 3))
    values = inputs()
    first = packer.pack((values, table))
    assert packer.pack((values, table)) == first
    other = packer.pack((inputs(), table[:, 1:]))
    assert other[0][0] == first[0][0] == types_of(values)
    assert (first[0][1], other[0][1]) == ("<f8[2C]", "<f8[2A]")
    assert other[1][-4:] == [2, 2, 24, 8]


def test_an_error_of_compiled_code_is_not_silent(cache):
    out = np.zeros(1)
    fail(out)
    assert out[0] == 1.0
    with pytest.raises(RuntimeError, match="fail_test_compiling has raised an error"):
        fail(out)


@pytest.mark.parametrize("damage", ["cut", "longer", "other", "empty", "text", "changed"])
def test_a_damaged_file_is_compiled_anew(cache, monkeypatch, damage):
    expected = filled(inputs())
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    changed = whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]
    contents = {"cut": whole[: len(whole) // 2], "longer": whole + b"x", "empty": b""}
    contents |= {"text": b"<html>", "changed": changed}
    contents["other"] = whole.replace(b'"target": "', b'"target": "other-', 1)
    file.write_bytes(contents[damage])
    calls = anew(monkeypatch)
    np.testing.assert_array_equal(filled(inputs()), expected)
    assert len(calls) == 1
    assert file.read_bytes()[:200] == whole[:200]
    calls = anew(monkeypatch)
    filled(inputs())
    assert not calls
    assert [path.name for path in cache.iterdir()] == [file.name]


def test_a_package_with_kernels_compiles_nothing(cache, monkeypatch):
    expected = filled(inputs())
    monkeypatch.setattr(store, "PACKAGED", cache)
    monkeypatch.setenv("COOPBENCH_KERNELS", str(cache.parent / "unused"))
    calls = anew(monkeypatch)
    np.testing.assert_array_equal(filled(inputs()), expected)
    assert not calls
    assert not (cache.parent / "unused").exists()


@pytest.mark.parametrize("why", ["others may write to", "belongs to another user"])
def test_code_that_others_may_have_written_is_not_executed(cache, monkeypatch, why):
    expected = filled(inputs())
    (file,) = cache.iterdir()
    before = file.stat().st_mtime_ns
    if why.startswith("others"):
        cache.chmod(0o777)
    else:
        monkeypatch.setattr(os, "getuid", lambda: cache.stat().st_uid + 1)
    calls = anew(monkeypatch)
    with pytest.warns(UserWarning, match=f"Compiled code is not kept: .*{why}"):
        np.testing.assert_array_equal(filled(inputs()), expected)
    assert len(calls) == 1
    assert file.stat().st_mtime_ns == before


@pytest.mark.parametrize("why", ["full", "forbidden", "no home"])
def test_a_cache_that_cannot_be_written_stops_nothing(cache, monkeypatch, why):
    def fail_to_write(*_):
        raise OSError(28, "No space left on device")

    if why == "full":
        monkeypatch.setattr(os, "replace", fail_to_write)
    elif why == "forbidden":
        cache.parent.joinpath("kernels").touch()
    else:
        for name in ("COOPBENCH_KERNELS", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert filled(inputs())[0] == pytest.approx(0.5 + 10.0 + 0.25 - 3.0 + 2.0 * 0.0)
    assert not list(cache.parent.rglob("*.tmp"))


@pytest.mark.parametrize("is_stored", [False, True])
def test_what_takes_long_is_named_where_it_is_compiled_only(cache, is_stored, monkeypatch, capsys):
    """A slow disk is no reason to tell users that something is compiled again."""
    if is_stored:
        filled(inputs())
        monkeypatch.setattr(fill, "_functions", {})
    slowed = "loaded" if is_stored else "emitted"
    real = getattr(compiling, slowed)
    monkeypatch.setattr(compiling, slowed, lambda *given: time.sleep(0.3) or real(*given))
    monkeypatch.setattr(compiling, "PATIENCE", 0.02)
    filled(inputs())
    assert capsys.readouterr().err.startswith("Compiling fill_test_compiling ") is not is_stored


@pytest.fixture
def stock(cache, monkeypatch):
    """Functions that are compiled anew, into an empty folder."""
    expected = filled(inputs())
    lowering._merging.cache_clear()
    for function in (shifted, chosen):
        monkeypatch.delitem(function.__dict__, "dispatcher", raising=False)
    monkeypatch.setenv("COOPBENCH_KERNELS", str(cache.parent / "stock"))
    monkeypatch.setattr(fill, "_functions", {})
    yield expected
    lowering._merging.cache_clear()
    for function in (shifted, chosen):
        function.__dict__.pop("dispatcher", None)


def test_numba_that_is_not_tested_compiles_as_it_does_by_itself(stock, monkeypatch):
    number = tuple(map(int, version("numba").split(".")[:2]))
    monkeypatch.setattr(lowering, "TESTED", ((0, 1), number))
    with pytest.warns(UserWarning, match="is tested with numba 0.1 up to below") as told:
        np.testing.assert_array_equal(filled(inputs()), stock)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        filled(inputs()._replace(negative=np.int32(-3)))


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("numba.core.ir_utils", "resolve_func_from_module"),
        ("numba.core.typed_passes", "NopythonRewrites"),
    ],
)
def test_a_release_without_a_private_name_compiles_by_itself(stock, monkeypatch, place, name):
    monkeypatch.delattr(importlib.import_module(place), name)
    monkeypatch.delitem(sys.modules, "coopbench_envs.merging", raising=False)
    monkeypatch.delattr(coopbench_envs, "merging", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(filled(inputs()), stock)
    assert f"cannot import name {name!r} from {place!r}" in doctor._compiler()


@pytest.mark.parametrize("is_stored", [True, False])
def test_threads_that_need_one_function_compile_it_once(cache, is_stored, monkeypatch):
    """The pause within a compilation is one in which the other thread could begin its own."""
    calls, both, results = anew(monkeypatch), threading.Barrier(2), []
    count = lowering.lowered

    def slowly(*given):
        with suppress(threading.BrokenBarrierError):
            both.wait(0.3)
        return count(*given)

    monkeypatch.setattr(lowering, "lowered", slowly)
    if not is_stored:
        monkeypatch.setattr(store, "keep", lambda *_: False)
    workers = [threading.Thread(target=lambda: results.append(filled(inputs()))) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
    np.testing.assert_array_equal(results[0], results[1])
    assert len(calls) == 1


def test_a_reader_finds_a_whole_file_while_another_is_written(cache, monkeypatch):
    """The pauses are within the writing: nothing, or what was there, is seen until its end."""
    write, seen = Path.write_bytes, []

    def slowly(path, content):
        for part in (content[:4], content):
            write(path, part)
            seen.append(store.kept_file(cache, "a.ptx"))

    monkeypatch.setattr(Path, "write_bytes", slowly)
    assert store.keep_file(cache, "a.ptx", b"first code")
    assert store.keep_file(cache, "a.ptx", b"second code")
    assert seen == [None, None, b"first code", b"first code"]
    assert store.kept_file(cache, "a.ptx") == b"second code"


def test_two_processes_that_write_one_file_do_not_meet(cache, monkeypatch):
    """The pause is before the first renames its file: the second writes its own meanwhile."""
    replace = os.replace

    def later(*names):
        monkeypatch.setattr(os, "replace", replace)
        assert store.keep_file(cache, "a.ptx", b"code of the second")
        replace(*names)

    monkeypatch.setattr(os, "replace", later)
    assert store.keep_file(cache, "a.ptx", b"code of the first")
    assert store.kept_file(cache, "a.ptx") == b"code of the first"
    assert [path.name for path in cache.iterdir()] == ["a.ptx"]


@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "link to it"])
def test_what_has_the_name_of_a_kernel_but_is_no_file_is_compiled_anew(cache, monkeypatch, kind):
    expected = filled(inputs())
    (file,) = cache.iterdir()
    if kind == "link to it":
        file.rename(cache.parent / "elsewhere")
        file.symlink_to(cache.parent / "elsewhere")
    else:
        file.unlink()
        make = {"pipe": os.mkfifo, "folder": os.mkdir}
        make.get(kind, lambda path: os.symlink("/dev/zero", path))(file)
    with pytest.raises(OSError, match="is damaged or no regular file"):
        doctor._cache()
    calls = anew(monkeypatch)
    np.testing.assert_array_equal(filled(inputs()), expected)
    assert len(calls) == 1
    assert file.is_dir() if kind == "folder" else not file.is_symlink()


@pytest.mark.parametrize("name", ["COOPBENCH_KERNELS", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"])
def test_a_folder_that_depends_on_where_one_stands_holds_no_code(cache, monkeypatch, name):
    for each in ("COOPBENCH_KERNELS", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, "here")
    monkeypatch.chdir(cache.parent)
    monkeypatch.setattr(fill, "_functions", {})
    with pytest.warns(UserWarning, match="is not kept: here.* is not an absolute path; make COOP"):
        filled(inputs())
    assert not list(cache.parent.glob("here*"))
    with pytest.raises(OSError, match="is not an absolute path"):
        doctor._cache()
    assert not store.keep_file(Path("here"), "a.ptx", b"code")


def test_code_of_gpus_is_kept_like_that_of_processors(tmp_path):
    folder = tmp_path / "coopbench-ptx"
    assert store.keep_file(folder, "a.ptx", b"code")
    assert (folder.stat().st_mode & 0o777, store.kept_file(folder, "a.ptx")) == (0o700, b"code")
    folder.chmod(0o777)
    with pytest.warns(UserWarning, match="Compiled code is not kept: others may write to"):
        assert store.kept_file(folder, "a.ptx") is None
    assert not store.keep_file(folder, "b.ptx", b"code")


def test_code_for_wheels_is_made_for_their_levels(cache, monkeypatch):
    monkeypatch.setenv("COOPBENCH_WHEEL", "1")
    if targets.SHIPPED not in targets.usable():
        with pytest.raises(RuntimeError, match="Code for wheels is made on x86-64-v3 alone"):
            filled(inputs())
        return
    monkeypatch.setattr(fill, "_wide", True)
    filled(inputs())
    assert {file.name.split(".")[-2] for file in cache.iterdir()} == {"x86-64-v3", "x86-64-v4"}


def test_marked_functions_run_as_python_and_are_pickled_by_name():
    assert shifted(inputs(), 0) == 0.5 + 10.0 + 0.25 - 3.0
    assert pickle.loads(pickle.dumps(shifted)) is shifted
    assert pickle.loads(pickle.dumps(fill)) is fill


STEP = 1.0


@kernel
def stepped(x):
    return x + STEP


@kernel
def doubled(x):
    return 2.0 * stepped(x)


def test_marked_functions_read_other_values_where_they_are_bound_anew():
    bound = marks.rebound((doubled, stepped, shifted), {"STEP": 3.0})
    assert (bound[0](1.0), bound[1](1.0), doubled(1.0)) == (8.0, 4.0, 4.0)
    assert bound[2] is shifted  # which reads no such name
    assert digest(bound[0]) != digest(doubled)


def test_variables_of_enclosing_functions_are_bound_anew_like_globals():
    (bound,) = marks.rebound((closing_over(stepped),), {"STEP": 3.0})
    assert (bound(1.0), closing_over(stepped)(1.0)) == (8.0, 4.0)
    (other,) = marks.rebound((closing_over(stepped),), {"function": shifted})
    assert other.py_func.__closure__[0].cell_contents is shifted


def closing_over(function):
    @kernel
    def closed(x):
        return 2.0 * function(x)

    return closed


def test_levels_of_processors_run_what_they_have(monkeypatch):
    class Features(dict):
        def flatten(self):
            return ",".join(f"+{name}" for name, has in self.items() if has)

    binding = types.SimpleNamespace(
        get_process_triple=lambda: "x86_64-unknown-linux-gnu",
        get_host_cpu_name=lambda: "nehalem",
        get_host_cpu_features=lambda: has,
    )
    monkeypatch.setattr(targets, "initialized", lambda: binding)
    monkeypatch.delenv("NUMBA_CPU_NAME", raising=False)
    cases = ((targets._V4, ["x86-64-v4", "x86-64-v3"]), (targets._V3, ["x86-64-v3"]))
    for names, levels in cases:
        has = Features(dict.fromkeys(names, True))
        assert [level.name for level in targets.usable.__wrapped__()] == levels
    has = Features(dict.fromkeys(targets._V3, True) | {"avx2": False})
    (only,) = targets.usable.__wrapped__()
    assert (only.cpu, only.features) == ("nehalem", has.flatten())
    assert only.name.startswith("nehalem-")
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    assert targets.usable.__wrapped__() == (targets.Target("generic", "generic", ""),)


def test_what_this_process_lacks_is_not_called():
    with pytest.raises(ValueError, match="it calls no_such_function, which this process does not"):
        objects.loaded(objects.Object(b"", ("memset", "no_such_function")), 0)


@compiled
def note(numbers):
    numbers[0] += 1


def test_compiled_code_is_a_builtin_function_that_keeps_what_it_reads():
    """It checks its arguments before it runs, and owns the packed words and their arrays."""
    numbers = np.zeros(1, np.int64)
    launch, alive = note.with_arrays((numbers,), 0, "note"), weakref.ref(numbers)
    assert isinstance(launch, types.BuiltinFunctionType)
    del numbers
    gc.collect()
    assert launch() in (0, 1)
    assert alive()[0] == 1
    del launch
    gc.collect()
    assert alive() is None


def test_arguments_of_compiled_code_are_whole_numbers_of_64_bits():
    engine = coopbench_envs.Engine("coopbench/TrustDilemma-v1", 2)
    engine.reset(np.arange(2, dtype=np.uint64))
    before = engine.get_state()
    for wrong, error in (
        ((DISABLED, 0), TypeError),
        ((DISABLED, 0, 2, 0), TypeError),
        ((DISABLED, 0.0, 2), TypeError),
        ((DISABLED, "0", 2), TypeError),
        ((DISABLED, 0, 2**63), OverflowError),
    ):
        with pytest.raises(error):
            engine._launch(*wrong)
    assert all(np.array_equal(engine.get_state()[name], now) for name, now in before.items())
    assert engine._launch(DISABLED, 0, np.int64(2)) == 1


def test_other_threads_run_while_compiled_code_does():
    """The trampoline releases the interpreter's lock: a call of seconds would stop all others."""
    engine = coopbench_envs.Engine("coopbench/TrustDilemma-v1", 20_000)
    engine.reset(np.arange(20_000, dtype=np.uint64))
    stop, counted = threading.Event(), 0
    worker = threading.Thread(
        target=lambda: [engine._launch(DISABLED, 0, 20_000) for _ in range(300)] and stop.set()
    )
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60.0)  # nobody is asked to hand the lock over
    try:
        worker.start()
        while not stop.wait(1e-4):
            counted += 1
    finally:
        sys.setswitchinterval(interval)
        worker.join(PATIENCE)
    assert counted > 10


_STEP = """
import sys
import numpy as np
import toy_pair
import coopbench_envs
coopbench_envs.register(toy_pair.SPEC)
engine = coopbench_envs.Engine(toy_pair.SPEC.id, 1)
engine.reset(np.zeros(1, np.uint64))
engine.step(np.zeros(engine.actions.shape, engine.actions.dtype))
print("numba" in sys.modules)
"""


RESHAPES = """
import sys
import numpy as np
from coopbench_envs.compiling import compiled

@compiled
def turn(numbers, out):
    table = numbers[:4].reshape(2, 2)
    for k in range(2):
        out[k] = table[1, k]

out = np.zeros(2)
turn(np.arange(4.0), out)
print(out.tolist())
"""


@pytest.mark.parametrize(
    ("script", "first", "second"),
    [
        (_STEP, "True", "False"),
        (RESHAPES, "[2.0, 3.0]", "[2.0, 3.0]"),  # the second provides what ``reshape`` calls
    ],
    ids=["a game", "reshape"],
)
def test_stored_code_is_run_without_numba(script, first, second, tmp_path):
    """Of two processes the first compiles; only code for ``reshape`` needs numba afterwards."""
    file = tmp_path / "script.py"
    file.write_text(script, encoding="utf-8")
    environment = {"COOPBENCH_KERNELS": str(tmp_path / "kernels")}
    environment["PYTHONPATH"] = str(Path(__file__).parent)
    for printed in (first, second):
        assert run_python(file, **environment).strip() == printed
