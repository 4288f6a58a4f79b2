"""Machine: what results were made on, for their metadata; whatever cannot be known is None."""

import os
import platform
from functools import cache
from pathlib import Path
from typing import Any

from coopbench.playing.backends import usable_cores

__all__ = ["commit", "describe"]

_DRIVER = Path("/proc/driver/nvidia/gpus")  # a folder for each GPU that NVIDIA's driver has
_DEVICES = Path("/dev")  # where they are in containers that hide the driver
_MOST = 65_536  # bytes read of any file of the system


def describe() -> dict[str, Any]:
    """Return cpu (model), cores (that may be used), memory (bytes) and gpu (models, or None).

    Only NVIDIA's GPUs are looked for. The result is the caller's own.
    """
    return dict(_described())


@cache
def _described() -> dict[str, Any]:
    return {"cpu": _cpu(), "cores": usable_cores(), "memory": _memory(), "gpu": _gpu()}


@cache
def commit() -> str | None:
    """Return the commit of the checkout that this package is run from; None if it is installed.

    Changes that have not been committed do not show in it.
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
    """Commit of a branch in git's table of branches."""
    lines = (line.partition(" ") for line in text.splitlines())
    return next((sha for sha, _, branch in lines if branch == name), None)


def _cpu() -> str | None:
    lines = (line.partition(":") for line in _text(Path("/proc/cpuinfo")).splitlines())
    named = (value.strip() for key, _, value in lines if key.strip() == "model name")
    return next(named, "") or platform.processor() or platform.machine() or None


def _memory() -> int | None:
    known = getattr(os, "sysconf_names", {})
    if not {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= set(known):
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
    """Begin of a file; nothing if it cannot be read, since none of this may stop an evaluation."""
    try:
        with file.open("rb") as opened:
            return opened.read(most).decode("utf-8", "replace")
    except OSError:
        return ""
