"""Files: writing in one atomic step, and reading no more than a file of results may hold."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from coopbench.errors import DamagedResultError
from coopbench_envs.reading import read_regular

# Bytes that a file of results may have at most, packed, by its name or else its suffix.
LIMITS = {
    "meta.json": 1 << 22,
    "manifest.json": 1 << 24,
    "protocol.json": 1 << 23,
    ".json": 1 << 26,
    ".npz": 1 << 28,
    ".txt": 1 << 20,
}

# What using a content of unknown origin can raise.
UNREADABLE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    OSError,
)
# What file managers leave in every folder that they show, and synchronization in those it copies.
_STRAYS = {
    *(".DS_Store", ".AppleDouble", ".localized", "__MACOSX", "Icon\r"),
    *("Thumbs.db", "desktop.ini", "$RECYCLE.BIN"),
    *(".directory", "@eaDir", ".dropbox", ".dropbox.attr"),
}
_VALUES = 4_000_000  # of a JSON file; in memory they take up to 100 bytes each
_LEVELS = 50  # of a JSON file; functions that call themselves for each of them have to end


def parsed(content: bytes, values: int = _VALUES) -> Any:
    """Return what JSON of unknown origin holds.

    Raises ``ValueError`` if it is not JSON, is nested too deep, has a key twice, or holds more than
    about so many ``values``: two bytes of a file can become a hundred in memory.
    """
    if sum(map(content.count, (b",", b"[", b"{"))) > values:
        raise ValueError(f"it holds more than {values:,} values")
    try:
        value = json.loads(content, object_pairs_hook=_distinct)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    level = [value]
    for _ in range(_LEVELS):
        level = [part for outer in level for part in _parts(outer)]
    if level:
        raise ValueError(f"it is nested too deep; allowed: {_LEVELS} levels")
    return value


def _parts(value: Any) -> Iterable[Any]:
    """Return the values directly inside of a value of JSON."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; readers differ in which value of a repeated key they take."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("it has a key twice")
    return content


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of a content, in hex digits."""
    return hashlib.sha256(content).hexdigest()


def is_stray(name: str) -> bool:
    """Whether file managers and synchronization leave files of such a name in every folder."""
    return name.startswith("._") or name in _STRAYS


def read_bounded(path: Path) -> bytes:
    """Return the content of a file of a results folder; its size is limited by ``LIMITS``.

    Raises ``DamagedResultError`` if it is missing, is a link, is not a regular file, or is too
    large.
    """
    limit = LIMITS.get(path.name) or LIMITS[path.suffix]
    try:
        return read_regular(path, limit, links=False)
    except ValueError as error:
        raise DamagedResultError(str(error)) from None
    except FileNotFoundError:
        raise DamagedResultError(f"{path} is missing.") from None
    except OSError as error:
        raise DamagedResultError(f"{path} cannot be read: {error.strerror}.") from None


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, like ``write_bytes``."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, like ``write_file``."""
    write_file(path, lambda file: file.write(content))


def write_file(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Have a file filled under a temporary name and rename it: it is never visible half written."""
    # Processes on machines that share the folder can have the same number, and a name that is as
    # long as the system allows has no room for more.
    temporary = path.with_name(f".{uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as file:
            fill(file)
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):  # a folder that cannot be written holds no temporary file
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):  # a full disk names no file
            error.filename = str(path)
        raise


def make_folder(folder: Path) -> None:
    """Make a folder for results, and those above it, unless it is there.

    Raises ``ValueError`` if that is not possible; call it before long work.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"The folder {folder} cannot be made ({error.strerror}); name another one."
        ) from None


def check_no_folder(option: str, file: Path, example: str) -> None:
    """Raise ``ValueError`` if an option that names a file names a folder; say to write another one.

    ``example`` is the name of a file that could be written in the folder.
    """
    if file.is_dir():
        raise ValueError(
            f"{option} takes a file, and {file} is a folder; name a file, for instance "
            f"{file / example}"
        )


def make_below(root: Path, place: str | Path) -> Path:
    """Make a folder below a folder of results, unless it is there, and return it.

    Raises ``ValueError`` for a link on the way: a stranger's folder may hold one, through which
    files would be written or replaced somewhere else.
    """
    folder = root
    for part in Path(place).parts:
        folder /= part
        if folder.is_symlink():
            raise ValueError(f"{folder} is a link, through which nothing is written; remove it.")
        folder.mkdir(exist_ok=True)
    return folder


def write_all(folder: Path, contents: Mapping[str, str | bytes], main: str) -> dict[str, Path]:
    """Write files, {path below ``folder``: content}, each in one atomic step; return {key: file}.

    The renderings of ``main`` are returned under their suffix (``report.html`` under html, if
    ``main`` is "report"), files in a subfolder under their path, others under their stem
    (``estimates.csv`` under estimates).
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        path = folder / name
        make_below(folder, Path(name).parent)
        write_bytes(path, content.encode() if isinstance(content, str) else content)
    return {_key(name, main): folder / name for name in contents}


def _key(name: str, main: str) -> str:
    if "/" in name:
        return name
    stem, _, suffix = name.rpartition(".")
    return suffix if stem == main else stem
