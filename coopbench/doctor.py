"""Doctor: what this installation consists of, and whether it can compile, store and play."""

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

import coopbench
import coopbench_envs
from coopbench.provenance import commit, machine, versions
from coopbench_envs import store
from coopbench_envs.compiling import is_python
from coopbench_envs.lowering import TESTED, is_tested, lowered, merging_absent
from coopbench_envs.objects import emitted, loaded
from coopbench_envs.packing import packed, words_of
from coopbench_envs.targets import initialized, usable

# What is installed on demand -> what to install.
OPTIONAL = {
    "stable-baselines3": '".[train]"',
    "torch": '".[train]"',
    "tensorboard": '".[train]"',
    "pandas": '".[pandas]"',
    "ray": '".[ray]"',
    "numba-cuda": '".[cuda]"',
    "pygame": "pygame",
}


def examine() -> Iterator[tuple[str, str, bool]]:
    """Yield what was examined, what was seen, and whether it is as it should be, one by one.

    A package that is installed on demand may be absent.
    """
    computer = machine()
    memory = computer["memory"]
    facts = {
        "coopbench": f"{coopbench.__version__} in {Path(coopbench.__file__).parent}",
        "commit": commit(),
        "python": f"{sys.version.split()[0]}, {sys.executable}",
        "platform": sys.platform,
        **{k: v for k, v in versions().items() if k not in ("coopbench", "python")},
        **{name: _optional(name, what) for name, what in OPTIONAL.items()},
        "processor": f"{computer['cpu']}, cores that may be used: {computer['cores']}",
        "memory": "unknown" if memory is None else f"{memory / 2**30:.1f} GiB",
        "GPU": f'{", ".join(computer["gpu"] or ["none"])}; used by device="cuda" and by torch',
    }
    for name, text in facts.items():
        if text is not None:
            yield name, text, name != "python" or sys.version_info >= (3, 11)
    for name, check in {"compiler": _compiler, "cache": _cache, "kernels": _kernels}.items():
        try:
            yield name, check(), True
        except Exception as error:  # whatever is wrong with an installation is what this reports
            yield name, f"{type(error).__name__}: {error}", False


def _optional(name: str, what: str) -> str:
    """Return the version of a package, or how to install it."""
    try:
        return version(name)
    except PackageNotFoundError:
        return f"not installed (pip install {what})"


def _compiler() -> str:
    """Compile a function and run it."""
    if is_python():
        return "switched off by NUMBA_DISABLE_JIT: everything runs as plain Python"
    doubled = np.array([21])
    words = packed(words_of(doubled))
    loaded(emitted(lowered(_double, (doubled,)), 0, usable()[0]), 0).call(words.ctypes.data)
    if doubled[0] != 42:
        raise ValueError(f"a compiled function returned {doubled[0]} instead of 42")
    llvm = ".".join(map(str, initialized().llvm_version_info))
    first, beyond = (".".join(map(str, number)) for number in TESTED)
    range_of = "" if is_tested() else f"; tested are numba {first} up to below {beyond}"
    absent = merging_absent()
    without = f"; kernels are merged by numba itself, which takes twice as long: {absent}"
    return f"LLVM {llvm} for {usable()[0].name}{range_of}{without if absent else ''}"


def _double(numbers: np.ndarray) -> None:
    numbers[0] *= 2


def _cache() -> str:
    """Say where compiled code is kept; raise ``OSError`` if others could have written it."""
    folder = store.cache_folder()
    if folder is None:
        return "none, because this user has no home; COOPBENCH_KERNELS names a folder"
    reason = store.refusal(folder)
    if reason:
        raise OSError(reason)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return f"none, because {folder} cannot be written ({error.strerror})"
    whole, damaged, size = store.examined(folder)
    if damaged:
        raise OSError(
            f"{damaged[0]} is damaged or no regular file; its function is compiled anew where it is"
            f" needed. Remove it"
        )
    return f"{whole} functions, {size / 2**20:.1f} MiB, in {folder}"


def _kernels() -> str:
    """Say how many environments are played from code of the package, of the cache, or of none."""
    if is_python():
        return "none are used"
    texts = {None: "to be compiled", store.PACKAGED: "from the package"}
    origins = (coopbench_envs.Engine(env_id).origin() for env_id in coopbench_envs.ids())
    counts = Counter(texts.get(folder, "from the cache") for folder in origins)
    return ", ".join(f"{count} environments {origin}" for origin, count in sorted(counts.items()))
