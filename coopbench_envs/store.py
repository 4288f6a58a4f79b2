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
from coopbench_envs.reading import read_regular

__all__ = [
    "PACKAGED",
    "cache_folder",
    "examined",
    "find",
    "keep",
    "keep_file",
    "kept_file",
    "refusal",
]

PACKAGED = Path(__file__).with_name("kernels")
_FORMAT = b"coopbench kernel 1\n"
_ENDING = ".kernel"
_LARGEST = 1 << 30  # bytes of a file
_OTHERS = 0o022  # permission to write for a group and for everybody


def file_name(name: str, digest: str, target: str) -> str:
    """Return the name of the file of a function."""
    return f"{name}-{digest}.{target}{_ENDING}"


def cache_folder(
    name: str = "coopbench-kernels", variable: str = "COOPBENCH_KERNELS"
) -> Path | None:
    """Folder of code that was compiled here; None for a user without a home.

    It is what the ``variable`` says, else the folder ``name`` below NUMBA_CACHE_DIR or the user's
    folder of caches.
    """
    chosen = os.environ.get(variable)
    caches = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(chosen or f"{caches}/{name}").expanduser()
    except RuntimeError:
        return None


def refusal(folder: Path) -> str:
    """Return why code in a folder cannot be trusted; empty where it can, or where nothing is yet.

    A user who may write there could have this one execute anything, and so could the owner of a
    folder in which a relative path begins.
    """
    if not folder.is_absolute():
        return (
            f"{folder} is not an absolute path; make COOPBENCH_KERNELS, NUMBA_CACHE_DIR, "
            f"XDG_CACHE_HOME and HOME absolute"
        )
    try:
        status = folder.stat()
    except OSError:
        return ""
    if status.st_uid != os.getuid():
        return f"{folder} belongs to another user; remove it, or set NUMBA_CACHE_DIR"
    if status.st_mode & _OTHERS:
        return f"others may write to {folder}; forbid it by: chmod go-w '{folder}'"
    return ""


def folders() -> Iterator[Path]:
    """Yield the folders that compiled functions are looked up in, in order."""
    yield PACKAGED
    cache = cache_folder()
    if cache is not None and not _is_refused(cache):
        yield cache


def _is_refused(folder: Path) -> bool:
    """Tell whether a folder cannot be trusted, and warn of it."""
    reason = refusal(folder)
    if reason:
        warnings.warn(f"Compiled code is not kept: {reason}.", stacklevel=3)
    return bool(reason)


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
    """Return what a file holds; None if there is no such file, or if it is damaged.

    A link, a pipe and a folder of that name are no files. Those who install the package may link.
    """
    content = _content(file, links=file.parent == PACKAGED)
    return None if content is None else unpacked(content, {"digest": digest, "target": target})


def _content(file: Path, links: bool = False) -> bytes | None:
    try:
        return read_regular(file, _LARGEST, links=links)
    except (OSError, ValueError):
        return None


def keep(made: Object, name: str, digest: str, target: str) -> bool:
    """Write a function to the user's folder; return whether that went."""
    content = packed(made, {"digest": digest, "target": target})
    return keep_file(cache_folder(), file_name(name, digest, target), content)


def keep_file(folder: Path | None, name: str, content: bytes) -> bool:
    """Write a file to a folder of code, as a whole or not at all; return whether that went.

    A folder that must not be written to, or that others may write to, and a full disk take nothing.
    """
    if folder is None or refusal(folder):
        return False
    # Unlike a file of tempfile, others who share the cache may read it, if umask lets them.
    part = folder / f".{name}.{uuid4().hex}.tmp"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.write_bytes(content)
        os.replace(part, folder / name)
    except OSError:
        with suppress(OSError):
            part.unlink()
        return False
    return True


def kept_file(folder: Path | None, name: str) -> bytes | None:
    """Return what ``keep_file`` has written; None for what others may have written."""
    if folder is None or _is_refused(folder):
        return None
    return _content(folder / name)


def examined(folder: Path) -> tuple[int, list[Path], int]:
    """Return the number of whole files in a folder, the damaged ones, and the bytes of all.

    Whatever is not a file but has the name of one counts as damaged.
    """
    whole, damaged, size = 0, [], 0
    for file in sorted(folder.glob(f"*{_ENDING}")):
        content = _content(file) or b""
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
