"""Doctor: what this installation consists of, and whether it can compile, store and play."""

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

import coopbench
import coopbench_envs
from coopbench.provenance import commit, machine, versions
from coopbench_envs import store
from coopbench_envs.compiling import is_python
from coopbench_envs.lowering import TESTED, is_tested, lowered
from coopbench_envs.objects import emitted, loaded
from coopbench_envs.packing import packed, words_of
from coopbench_envs.targets import initialized, usable

__all__ = ["examine"]

# What is installed on demand, with the extra that installs it; "" for a package without an extra.
OPTIONAL = {
    "stable-baselines3": "train",
    "torch": "train",
    "tensorboard": "train",
    "pandas": "pandas",
    "ray": "ray",
    "pygame": "",
}


def examine() -> Iterator[tuple[str, str, bool]]:
    """Yield what was examined, what was seen, and whether it is in order, one after the other.

    A package that is installed on demand is in order also if it is absent.
    """
    yield "coopbench", f"{coopbench.__version__} in {Path(coopbench.__file__).parent}", True
    if commit() is not None:
        yield "commit", str(commit()), True
    yield "python", f"{sys.version.split()[0]}, {sys.executable}", sys.version_info >= (3, 11)
    yield "platform", sys.platform, True
    for name, number in versions().items():
        if name not in ("coopbench", "python"):
            yield name, number, True
    for name, extra in OPTIONAL.items():
        yield name, _optional(name, extra), True
    computer = machine()
    yield "processor", f"{computer['cpu']}, cores that may be used: {computer['cores']}", True
    memory = computer["memory"]
    yield "memory", "unknown" if memory is None else f"{memory / 2**30:.1f} GiB", True
    yield "GPU", _gpu(computer["gpu"]), True
    checks = {"threads": _threads, "compiler": _compiler, "cache": _cache, "kernels": _kernels}
    for name, check in checks.items():
        yield name, *_checked(check)


def _checked(check: Callable[[], str]) -> tuple[str, bool]:
    """Return what a check says, or the error that it ends with, and whether it has passed."""
    try:
        return check(), True
    except Exception as error:  # whatever is wrong with an installation is what this reports
        return f"{type(error).__name__}: {error}", False


def _optional(name: str, extra: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        command = f'pip install ".[{extra}]"' if extra else f"pip install {name}"
        return f"not installed ({command})"


def _gpu(models: list[str] | None) -> str:
    """Return the names of the GPUs; environments and fixed policies use none."""
    return f"{', '.join(models or ['none'])} (environments use none; learners of torch can)"


def _threads() -> str:
    return f"{os.cpu_count()} of this machine; environments use one unless they are told to"


def _compiler() -> str:
    """Compile a function and run it."""
    if is_python():
        return "switched off by NUMBA_DISABLE_JIT: everything runs as plain Python"
    first, beyond = (".".join(map(str, number)) for number in TESTED)
    doubled = np.array([21])
    function = lowered(_double, (doubled,))
    made = emitted(function, 0, usable()[0])
    words = packed(words_of(doubled))
    loaded(made, 0)(words.ctypes.data)
    if doubled[0] != 42:
        raise ValueError(f"a compiled function returned {doubled[0]} instead of 42")
    llvm = ".".join(map(str, initialized().llvm_version_info))
    range_of = "" if is_tested() else f"; tested are numba {first} up to below {beyond}"
    return f"LLVM {llvm} for {usable()[0].name}{range_of}"


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
        raise OSError(f"{damaged[0]} is damaged; it is compiled anew where it is needed")
    return f"{whole} functions, {size / 2**20:.1f} MiB, in {folder}"


def _kernels() -> str:
    """Say how many environments are played from code of the package, of the cache, or of none."""
    if is_python():
        return "none are used"
    counts = Counter(_origin(env_id) for env_id in coopbench_envs.ids())
    return ", ".join(f"{count} environments {origin}" for origin, count in sorted(counts.items()))


def _origin(env_id: str) -> str:
    """Return where the code of an environment comes from, as it is by default."""
    folder = coopbench_envs.Engine(env_id).origin()
    if folder is None:
        return "to be compiled"
    return "from the package" if folder == store.PACKAGED else "from the cache"
