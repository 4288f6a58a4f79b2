"""Event files of TensorBoard: the scalars of a tag, read without TensorBoard.

A file is a sequence of records: a length of 8 bytes, its checksum of 4, an ``Event``, and its
checksum. An ``Event`` is a message of Protocol Buffers with a step (2) and a summary (5), whose
values (1) have a tag (1) and a number (2) or, since TensorFlow 2, a tensor (8). Other content,
pictures and graphs, is skipped.
"""

import math
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from coopbench.episodes.names import one_line
from coopbench.exchange.curves import curve_of, labels_of, runs_of
from coopbench.exchange.runs import Options, Reading, read_import
from coopbench.exchange.sb3_import import files_below, names_below
from coopbench_envs.parameters import named

_FLOAT, _DOUBLE = 1, 2  # types of a tensor


def is_events(place: Path) -> bool:
    """Whether a file is named as TensorBoard names event files."""
    return ".tfevents." in place.name and place.is_file()


def has_events(place: Path) -> bool:
    """Whether a file is an event file, or a folder has one."""
    if place.is_dir():
        return any(place.rglob("*.tfevents.*"))
    return is_events(place)


def read_events(place: Path, options: Options) -> Reading:
    """Read the scalars of the tag ``metric``; all files of a folder are one run.

    A file that ends within a record, as one does that is still written, is read up to there.
    Raises ``ValueError`` for a damaged file, a tag that no run has, and for runs whose names do not
    fit.
    """
    files = files_below(place, "*.tfevents.*")
    runs: dict[str, list[tuple[int, float]]] = {}
    tags: dict[str, None] = {}
    for file, name in zip(files, names_below(place, files), strict=True):
        points = runs.setdefault(name, [])
        for step, tag, value in scalars(file):
            tags[one_line(tag)] = None
            if tag == options.metric:
                points.append((step, value))
    named("metric", options.metric, tags, f"the scalars of {place}")
    runs = {name: points for name, points in runs.items() if points}
    labels = labels_of(list(runs), options.names, place)
    curves = []
    for label, points in zip(labels, runs.values(), strict=True):
        steps, values = zip(*points, strict=True)
        curves.append(curve_of(label, np.array(steps, np.int64), np.array(values, np.float64)))
    return runs_of(curves, place.resolve().name, options.metric)


def scalars(file: Path) -> Iterator[tuple[int, str, float]]:
    """Yield step, tag and value of every scalar of an event file."""
    content, place = read_import(file), 0
    try:
        while place + 12 <= len(content):
            (size,) = struct.unpack_from("<Q", content, place)
            end = place + 12 + size
            if end > len(content):
                return
            yield from _event(content[place + 12 : end])
            place = end + 4
    except (IndexError, struct.error, UnicodeDecodeError, TypeError, OverflowError) as error:
        raise ValueError(f"{file} is no event file of TensorBoard: {error}.") from None


def _event(event: bytes) -> Iterator[tuple[int, str, float]]:
    step, summaries = 0, list[bytes]()
    for number, value in _fields(event):
        if number == 2 and isinstance(value, int):
            step = value
        elif number == 5 and isinstance(value, bytes):
            summaries.append(value)
    if step >= 1 << 63:
        return  # a negative one
    for summary in summaries:
        for number, value in _fields(summary):
            if number == 1 and isinstance(value, bytes):
                tag, scalar = _value(value)
                if not math.isnan(scalar):
                    yield step, tag, scalar


def _value(message: bytes) -> tuple[str, float]:
    """Return the tag and the number of a value; nan if it is no scalar."""
    tag, scalar = "", math.nan
    for number, value in _fields(message):
        if number == 1 and isinstance(value, bytes):
            tag = value.decode("utf-8")
        elif number == 2 and isinstance(value, bytes) and len(value) == 4:
            (scalar,) = struct.unpack("<f", value)
        elif number == 8 and isinstance(value, bytes):
            scalar = _tensor(value)
    return tag, scalar


def _tensor(message: bytes) -> float:
    """Return the number in a tensor of one number; nan of any other."""
    kind, numbers = 0, b""
    for number, value in _fields(message):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number in (4, 5, 6) and isinstance(value, bytes):  # its bytes, or a list of numbers
            numbers = value
    layout = {_FLOAT: "<f", _DOUBLE: "<d"}.get(kind)
    if layout is None or len(numbers) != struct.calcsize(layout):
        return math.nan
    return float(struct.unpack(layout, numbers)[0])


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message: their number, and a whole number or bytes."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, place = _varint(message, place)
            yield number, value
            continue
        if kind == 2:
            size, place = _varint(message, place)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise IndexError(f"a field of the unknown kind {kind}")
        if place + size > len(message):
            raise IndexError("a field is longer than its message")
        yield number, message[place : place + size]
        place += size


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Return a whole number, of which every byte holds seven bits, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise IndexError("a whole number is too long")
