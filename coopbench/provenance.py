"""Provenance: the software and the machine that results were made with, for their metadata."""

import math
import os
import platform
import time
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

_PACKAGES = ("coopbench", "numpy", "numba", "gymnasium", "pettingzoo", "scipy")
_DRIVER = Path("/proc/driver/nvidia/gpus")  # a folder for each GPU that NVIDIA's driver has
_DEVICES = Path("/dev")  # where they are in containers that hide the driver
_GROUPS, _OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_MOST = 65_536  # bytes read of any file of the system


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}


def usable_cores() -> int:
    """Count the cores that this process may occupy: those it may run on, and within its quota.

    A control group may have a share of the time of its cores, as containers do; a part of a core
    counts as one.
    """
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # not everywhere
        cores = len(os.sched_getaffinity(0))
    return max(1, min(cores, math.ceil(min(cores, _quota()))))


def _quota() -> float:
    """Return how many cores' time the control groups of this process may take; inf if any."""
    lines = _text(_OWN_GROUPS).splitlines()
    own = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    groups = [_GROUPS / own, *(_GROUPS / own).parents]
    texts = [_text(group / "cpu.max") for group in groups if group.is_relative_to(_GROUPS)]
    names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")  # of the first version of control groups
    texts.append(" ".join(_text(_GROUPS / "cpu" / name).strip() for name in names))
    limits = [text.split() for text in texts]
    return min(
        (
            int(limit[0]) / int(limit[1])
            for limit in limits
            if len(limit) == 2 and all(text.isdecimal() and int(text) > 0 for text in limit)
        ),
        default=math.inf,
    )


def now() -> str:
    """Return the time in UTC, to the second, as results and registrations have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def elapsed(start: float) -> float:
    """Return the seconds since ``time.perf_counter()`` was ``start``; 0 if it has been set back."""
    return max(0.0, time.perf_counter() - start)


def machine() -> dict[str, Any]:
    """Return cpu (model), cores (that may be used), memory (bytes) and gpu (models).

    What cannot be determined is None. Only NVIDIA's GPUs are looked for. Every call returns a new
    dictionary.
    """
    return dict(_machine())


@cache
def _machine() -> dict[str, Any]:
    return {"cpu": _cpu(), "cores": usable_cores(), "memory": _memory(), "gpu": _gpu()}


@cache
def commit() -> str | None:
    """Return the commit of the checkout that this package is run from; None if it is installed.

    Uncommitted changes are not reflected.
    """
    git = Path(__file__).resolve().parent.parent / ".git"
    pointer = _text(git) if git.is_file() else ""  # of a worktree or a submodule
    if pointer.startswith("gitdir:"):
        git = git.parent / pointer.removeprefix("gitdir:").strip()
    shared = git / _text(git / "commondir").strip()  # of a worktree: where branches are
    head = _text(git / "HEAD").strip()
    name = head.removeprefix("ref:").strip()
    if name == head:
        return head or None
    loose = _text(git / name) or _text(shared / name)
    return loose.strip() or _packed(_text(shared / "packed-refs", 64 * _MOST), name)


def _packed(text: str, name: str) -> str | None:
    """Return the commit of a branch from git's table of packed branches."""
    lines = (line.partition(" ") for line in text.splitlines())
    return next((sha for sha, _, branch in lines if branch == name), None)


def _cpu() -> str | None:
    lines = (line.partition(":") for line in _text(Path("/proc/cpuinfo")).splitlines())
    named = (value.strip() for key, _, value in lines if key.strip() == "model name")
    return next(named, "") or platform.processor() or platform.machine() or None


def _memory() -> int | None:
    if not {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= set(getattr(os, "sysconf_names", {})):
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _gpu() -> list[str] | None:
    lines = [
        line.partition(":")
        for file in sorted(_DRIVER.glob("*/information"))
        for line in _text(file).splitlines()
    ]
    models = [value.strip() for key, _, value in lines if key.strip() == "Model"]
    unnamed = ["NVIDIA, model unknown" for _ in _DEVICES.glob("nvidia[0-9]*")]
    return models or unnamed or None


def _text(file: Path, most: int = _MOST) -> str:
    """Return the beginning of a file; "" if it is unreadable, which must not stop an evaluation."""
    try:
        with file.open("rb") as opened:
            return opened.read(most).decode("utf-8", "replace")
    except OSError:
        return ""
