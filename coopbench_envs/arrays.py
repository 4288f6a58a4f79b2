"""Arrays in npz files: numbers only, never pickled, of bounded size, the same bytes every time."""

import io
import math
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from coopbench_envs.reading import open_regular

__all__ = ["LIMIT", "of_weights", "pack", "proportional", "unpack", "write"]

LIMIT = 1 << 30  # bytes, packed or unpacked; a larger file is not one of ours
_SMALL, _RATIO = 1 << 25, 128  # bytes of any file, and further bytes per packed byte
_WEIGHTS, _WEIGHTS_RATIO = 1 << 18, 8  # the same of a network: its weights are all but random
_BEGIN, _EMPTY = b"PK\x03\x04", b"PK\x05\x06"
_MEMBER, _MEMBERS = b"PK\x01\x02", 10_000  # sign of an array in the list of all, and how many
_UNIX, _SIZES = 3, 18  # system that made an array's header, and where its sizes stand there
_PART = 1 << 20  # bytes of a file that are searched at once
_LONGEST_HEADER = 1 << 10  # bytes of one of our arrays in a file in addition to its numbers
_HEADER = re.compile(
    rb"\{'descr': '([<|][biuf]\d)', 'fortran_order': False, 'shape': \(([\d, ]*)\), \}\s*"
)


def proportional(content: bytes) -> int:
    """Return the bytes to which a packed file of measured numbers may unpack.

    Zeros can be packed a thousandfold, so that a small file could fill the memory.
    """
    return _SMALL + _RATIO * len(content)


def of_weights(content: bytes) -> int:
    """Return the bytes to which a packed file of a network may unpack: how long it takes to play.

    A small file of zeros could be a network of any width.
    """
    return _WEIGHTS + _WEIGHTS_RATIO * len(content)


def pack(
    arrays: Mapping[str, np.ndarray],
    *,
    compressed: bool = True,
    limit: Callable[[bytes], int] = proportional,
) -> bytes:
    """Return the content of an npz file.

    What could be packed to less than a reader unpacks, who has this ``limit``, is not packed.
    """
    buffer = io.BytesIO()
    write(buffer, arrays, compressed=compressed)
    content = buffer.getvalue()
    size = sum(_LONGEST_HEADER + np.asarray(values).nbytes for values in arrays.values())
    if compressed and size > limit(content):
        return pack(arrays, compressed=False)
    return content


class _Entry(zipfile.ZipInfo):
    """An array in the list of a file; its header has the same bytes with every Python.

    Releases before 3.11.4 name another version, and sizes twice: in the header and its extension.
    """

    def FileHeader(self, zip64: bool | None = None) -> bytes:  # noqa: N802
        self.create_version = self.extract_version = zipfile.ZIP64_VERSION
        header = super().FileHeader(zip64)
        return header[:_SIZES] + b"\xff" * 8 + header[_SIZES + 8 :]


def write(file: BinaryIO, arrays: Mapping[str, np.ndarray], *, compressed: bool) -> None:
    """Write an npz file, one array after the other, without a copy of all of them."""
    packing = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w") as archive:
        for name, values in arrays.items():
            entry = _Entry(f"{name}.npy")
            entry.compress_type, entry.create_system = packing, _UNIX
            with archive.open(entry, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(values, order="C"), allow_pickle=False)


def unpack(source: bytes | Path, limit: int = LIMIT) -> dict[str, np.ndarray]:
    """Return the arrays of an npz file, given its content or its place.

    They take up to ``limit`` bytes, of which there are never more than ``LIMIT``.

    Raises ``ValueError`` for anything that ``pack`` does not write.
    """
    try:
        content = io.BytesIO(source) if isinstance(source, bytes) else open_regular(source, LIMIT)
        with content as file, zipfile.ZipFile(_checked(file)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > min(limit, LIMIT):
                raise ValueError(f"it unpacks to more than {min(limit, LIMIT):,} bytes")
            arrays = {m.filename.removesuffix(".npy"): _array(archive, m) for m in members}
            if len(arrays) < len(members):  # readers differ in which of them they take
                raise ValueError("it has a name twice")
            return arrays
    except (
        zipfile.BadZipFile,
        zlib.error,
        OSError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        TypeError,
        OverflowError,
        MemoryError,
    ) as error:
        raise ValueError(str(error)) from None


def _checked(file: BinaryIO) -> BinaryIO:
    """Return a file with few entries: each takes up memory before it can be checked."""
    begin = file.read(len(_BEGIN))
    count, rest = begin.count(_MEMBER), begin[1 - len(_MEMBER) :]
    while part := file.read(_PART):
        count += (rest + part).count(_MEMBER)
        rest = (rest + part)[1 - len(_MEMBER) :]
    if count > _MEMBERS:
        raise ValueError(f"it has more than {_MEMBERS:,} arrays")
    if begin not in (_BEGIN, _EMPTY):
        raise ValueError("it is not a zip file, or something stands before its begin")
    return file


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One array of numbers, in the only form in which ``pack`` writes them."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member.filename} is packed in another way")
    content = archive.read(member)
    start = 10 + int.from_bytes(content[8:10], "little")
    header = _HEADER.fullmatch(content[10:start])
    if content[:8] != b"\x93NUMPY\x01\x00" or header is None:
        raise ValueError(f"{member.filename} is not an array of numbers in the known form")
    kind = np.dtype(header[1].decode())
    shape = tuple(map(int, re.findall(rb"\d+", header[2])))
    if math.prod(shape) * kind.itemsize != len(content) - start:
        raise ValueError(f"{member.filename} does not hold {shape} of {kind}")
    return np.frombuffer(content, kind, offset=start).reshape(shape).copy()
