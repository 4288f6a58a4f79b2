"""Reading files of unknown origin: only regular files, and never more of them than is allowed."""

import os
import stat
from pathlib import Path

__all__ = ["read_regular"]


def read_regular(path: Path, limit: int, *, links: bool = True) -> bytes:
    """Return the content of a regular file of at most ``limit`` bytes.

    Devices and pipes are refused before they are opened, and again afterwards: they may have been
    exchanged in between. With ``links=False`` a symbolic link is refused, too. The content never
    becomes part of a message.

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
        status = os.fstat(file.fileno())
        _check(status, path, limit)
        content = file.read(status.st_size + 1)  # as many bytes are allocated, whatever there is
    if len(content) > status.st_size:
        raise ValueError(f"{path} grew while it was read.")
    return content


def _check(status: os.stat_result, path: Path, limit: int) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise ValueError(f"{path} is a link; only regular files are read.")
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} is not a file.")
    if status.st_size > limit:
        raise ValueError(f"{path} is larger than {limit:,} bytes.")
