"""Logs of TensorBoard, read by its own reader: the scalars of a tag, a run for each folder."""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from coopbench.episodes.names import one_line
from coopbench.exchange.runs import Evaluation, Options, Reading, Run, labels_of, visible
from coopbench_envs.parameters import named

_SHOWN = 3  # folders that a message names
FILES, _KINDS = "*tfevents*", ("scalars", "tensors")
_NUMBERS = (  # kinds of tensors
    *("HALF", "BFLOAT16", "FLOAT", "DOUBLE", "BOOL"),
    *("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"),
)


def read_events(folder: Path, options: Options) -> Reading:
    """Read the tag ``metric`` in all folders with event files, up to the first damaged record.

    What a later session of a run replaces is left out and counted, and so are folders in that of a
    run, such as those of hyperparameters. Raises ``ModuleNotFoundError``
    without tensorboard, and ``ValueError`` for an unknown tag or a folder unlike the pattern.
    """
    tags, runs, top, metric = dict[str, None](), list[Run](), folder.resolve(), options.metric
    files, left_out = visible(top, FILES)
    places = {file.parent for file in files}
    for place in sorted(places):
        if (places - {top}).intersection(place.parents):
            left_out.append(f"{place}, which lies in the folder of another run")
            continue
        written, points = _points(place, metric, tags, False), dict[int, list[float]]()
        for step, value in _points(place, metric, tags, True):
            if points and step < next(reversed(points)):  # a session that does not say its start
                points = {at: values for at, values in points.items() if at < step}
            if math.isfinite(value) and step >= 0:
                points.setdefault(step, []).append(value)
        lost = len(written) - sum(map(len, points.values()))
        if lost or not points:
            lacking = "not finite, before step 0, or replaced by a later session"
            reason = lacking if lost else "it has no others"
            left_out.append(f"{lost} points of {metric} in {place}: {reason}")
        if points:
            name = place.relative_to(top if place != top else top.parent).as_posix()
            algorithm, task, run = labels_of(name, options.folders, one_line(top.name))
            parts = tuple(Evaluation(at, {metric: np.array(v)}) for at, v in points.items())
            runs.append(Run(one_line(top.name), task, algorithm, run, parts, {}, str(place)))
    try:
        named("metric", metric, tags, f"the scalars of {folder}")
    except ValueError as error:
        unread = f" Not read: {'; '.join(left_out[:_SHOWN])}." if left_out else ""
        raise ValueError(f"{error}{unread}") from None
    return Reading(tuple(runs), tuple(left_out), last=True)


def _points(place: Path, tag: str, tags: dict[str, None], purge: bool) -> list[tuple[int, float]]:
    """Return steps and values of a tag as they were written, and add all scalar tags to ``tags``.

    Tensors of other tags, such as text and histograms, are not decoded.
    """
    try:
        from google.protobuf.message import DecodeError
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from tensorboard.compat.proto.types_pb2 import DataType
        from tensorboard.util.tensor_util import make_ndarray
    except ModuleNotFoundError:
        raise ModuleNotFoundError("Event files need tensorboard: pip install tensorboard") from None
    try:
        log = EventAccumulator(str(place), dict.fromkeys(_KINDS, 0), purge_orphaned_data=purge)
        with _silent(logging.getLogger("tensorboard")):  # notes tell what a session replaces
            found = log.Reload().Tags()
    except (DecodeError, MemoryError) as error:
        raise ValueError(f"The event files in {place} are damaged: {error!r}.") from None
    except IsADirectoryError:  # tensorboard takes a path with this word for that of a file
        raise ValueError(
            f"The folder {place} cannot be read: its path contains 'tfevents'; rename it."
        ) from None
    numbers = {DataType.Value(f"DT_{name}") for name in _NUMBERS}

    def is_scalar(name: str) -> bool:
        tensors = [event.tensor_proto for event in log.Tensors(name)]
        sizes = [dim.size for tensor in tensors for dim in tensor.tensor_shape.dim]
        return {tensor.dtype for tensor in tensors} <= numbers and set(sizes) <= {1}

    scalars = [name for name in found["tensors"] if is_scalar(name)]  # as TensorFlow 2 writes them
    tags.update(dict.fromkeys(one_line(name) for name in (*found["scalars"], *scalars)))
    if tag in found["scalars"]:
        return [(event.step, event.value) for event in log.Scalars(tag)]
    tensors = log.Tensors(tag) if tag in scalars else []
    return [(event.step, make_ndarray(event.tensor_proto).item()) for event in tensors]


@contextmanager
def _silent(logger: logging.Logger) -> Iterator[None]:
    """Within the context, a logger writes nothing."""
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
