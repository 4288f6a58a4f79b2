"""Doctor: what this installation consists of, and whether it can compile, store and play."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import coopbench
from coopbench.provenance import commit, machine, versions

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
    for name, check in (("threads", _threads), ("compiler", _compiler), ("cache", _cache)):
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
    import numba

    return f"{numba.config.NUMBA_NUM_THREADS} for compiled code"


def _compiler() -> str:
    """Compile a function and run it."""
    import llvmlite.binding as binding
    import numba

    if numba.config.DISABLE_JIT:
        return "switched off by NUMBA_DISABLE_JIT: everything runs as plain Python"
    result = numba.njit(lambda number: 2 * number)(21)
    if result != 42:
        raise ValueError(f"a compiled function returned {result} instead of 42")
    return f"LLVM {'.'.join(map(str, binding.llvm_version_info))} for {binding.get_host_cpu_name()}"


def _cache() -> str:
    """Say where compiled code is kept; raise ``OSError`` if the folder cannot be written."""
    import numba

    folder = numba.config.CACHE_DIR
    place = Path(folder) if folder else Path(coopbench.__file__).parent.parent / "coopbench_envs"
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        if folder:
            raise
        return f"in the user's cache folder, because {place} cannot be written ({error.strerror})"
    files = [file for file in place.rglob("*.nbc") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    return f"{len(files)} compiled files, {size / 2**20:.1f} MiB, in {place}"
