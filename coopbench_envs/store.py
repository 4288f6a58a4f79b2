"""Store: compiled functions on disk, found by the digest of what they were made of.

They lie in this package, which holds them in wheels, and in a folder of the user's. A file begins
with a line that names the format and a line of JSON with its facts, among them the length and a
checksum of the object file that follows.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from coopbench_envs.objects import Object

__all__ = ["PACKAGED", "cache_folder", "examined", "find", "keep", "refusal"]

PACKAGED = Path(__file__).with_name("kernels")
_FORMAT = b"coopbench kernel 1\n"
_ENDING = ".kernel"
_OTHERS = 0o022  # permission to write for a group and for everybody


def file_name(name: str, digest: str, target: str) -> str:
    """Return the name of the file of a function."""
    return f"{name}-{digest}.{target}{_ENDING}"


def cache_folder() -> Path | None:
    """Folder of what was compiled here; None for a user without a home.

    It is COOPBENCH_KERNELS, else a folder below NUMBA_CACHE_DIR or the user's folder of caches.
    """
    chosen = os.environ.get("COOPBENCH_KERNELS")
    caches = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(chosen or f"{caches}/coopbench-kernels").expanduser()
    except RuntimeError:
        return None


def refusal(folder: Path) -> str:
    """Return why code in a folder cannot be trusted; empty where it can, or where nothing is yet.

    A user who may write there could have this one execute anything. So could the author of the
    folder in which Python is started, where a relative one would lie.
    """
    if not folder.is_absolute():
        return f"{folder} is relative; set COOPBENCH_KERNELS to an absolute folder"
    try:
        status = folder.stat()
    except OSError:
        return ""
    if status.st_uid != os.getuid():
        return f"{folder} belongs to another user; remove it, or set COOPBENCH_KERNELS"
    if status.st_mode & _OTHERS:
        return f"others may write to {folder}; forbid it by: chmod go-w '{folder}'"
    return ""


def folders() -> Iterator[Path]:
    """Yield the folders that compiled functions are looked up in, in order."""
    yield PACKAGED
    cache = cache_folder()
    if cache is not None:
        reason = refusal(cache)
        if reason:
            warnings.warn(f"Compiled code is not kept: {reason}.", stacklevel=2)
        else:
            yield cache


def find(name: str, digest: str, targets: Iterable[str]) -> tuple[Object, Path] | None:
    """Return a function as it is stored for the first of the ``targets``, and its folder.

    None where it is stored for none, or where its files are damaged.
    """
    for target in targets:
        for folder in folders():
            found = read(folder / file_name(name, digest, target), digest, target)
            if found is not None:
                return found, folder
    return None


def read(file: Path, digest: str, target: str) -> Object | None:
    """Return what a file holds; None if there is no such file, or if it is damaged."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    return unpacked(content, {"digest": digest, "target": target})


def keep(made: Object, name: str, digest: str, target: str) -> bool:
    """Write a function to the user's folder, as a whole or not at all; return whether that went.

    A folder that must not be written to and a full disk take nothing.
    """
    folder = cache_folder()
    if folder is None or refusal(folder):
        return False
    file = folder / file_name(name, digest, target)
    part = file.with_name(f".{file.name}.{uuid4().hex}.tmp")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.write_bytes(packed(made, {"digest": digest, "target": target}))
        os.replace(part, file)
    except OSError:
        with suppress(OSError):
            part.unlink()
        return False
    return True


def examined(folder: Path) -> tuple[int, list[Path], int]:
    """Return the number of whole files in a folder, the damaged ones, and the bytes of all."""
    whole, damaged, size = 0, [], 0
    for file in sorted(folder.glob(f"*{_ENDING}")):
        content = file.read_bytes()
        unique, _, target = file.name.removesuffix(_ENDING).partition(".")
        digest = unique.rpartition("-")[2]
        size += len(content)
        if unpacked(content, {"digest": digest, "target": target}) is None:
            damaged.append(file)
        else:
            whole += 1
    return whole, damaged, size


def packed(made: Object, facts: dict[str, str]) -> bytes:
    """Return the content of a file."""
    content = made.content
    sums = {"length": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    head = json.dumps({**facts, "calls": made.calls, **sums})
    return _FORMAT + head.encode() + b"\n" + content


def unpacked(content: bytes, facts: dict[str, str]) -> Object | None:
    """Return what a file holds; None if it is not whole, or is not that of these ``facts``."""
    if not content.startswith(_FORMAT):
        return None
    head, _, code = content[len(_FORMAT) :].partition(b"\n")
    try:
        told: Any = json.loads(head)
        calls = tuple(map(str, told.pop("calls")))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    sums = {"length": len(code), "sha256": hashlib.sha256(code).hexdigest()}
    return Object(code, calls) if told == {**facts, **sums} else None
