"""Reading files of unknown origin: only regular files, and never more of them than is allowed."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["open_regular", "read_regular"]


def read_regular(path: Path, limit: int, *, links: bool = True) -> bytes:
    """Return the content of a regular file of at most ``limit`` bytes; see ``open_regular``.

    The content never becomes part of a message.
    """
    with open_regular(path, limit, links=links) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(size + 1)  # as many bytes are allocated, whatever there is
    if len(content) > size:
        raise ValueError(f"{path} grew while it was read.")
    return content


@contextmanager
def open_regular(path: Path, limit: int, *, links: bool = True) -> Iterator[BinaryIO]:
    """Open a regular file of at most ``limit`` bytes for reading.

    Devices and pipes are refused before they are opened, and again afterwards: they may have been
    exchanged in between. With ``links=False`` a symbolic link is refused, too.

    Raises:
        ValueError: it is not a regular file, or it is too large.
        OSError: it is missing or cannot be read.
    """
    before = path.stat() if links else path.lstat()
    _check(before, path, limit)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not links:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    with open(os.open(path, flags), "rb") as file:
        _check(os.fstat(file.fileno()), path, limit)
        yield file


def _check(status: os.stat_result, path: Path, limit: int) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise ValueError(
            f"{path} is a link; only regular files are read. Put a copy in its place: cp -rL "
            f"copies a folder with what its links name."
        )
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} is not a file.")
    if status.st_size > limit:
        raise ValueError(f"{path} is larger than {limit:,} bytes.")
