"""Logs of TensorBoard, read by its own reader: the scalars of a tag, a run for each folder."""

import math
from pathlib import Path

import numpy as np

from coopbench.episodes.names import one_line
from coopbench.exchange.runs import Evaluation, FoundRun, Options, Reading, labels_of
from coopbench_envs.parameters import named

FILES = "*tfevents*"


def read_events(folder: Path, options: Options) -> Reading:
    """Read the tag ``metric`` in all folders with event files, up to the first damaged record.

    What a later session of a run replaces is left out and counted. Raises ``ModuleNotFoundError``
    without tensorboard, and ``ValueError`` for an unknown tag or a folder unlike the pattern.
    """
    tags, runs, left_out, top = dict[str, None](), list[FoundRun](), list[str](), folder.resolve()
    for place in sorted({file.parent for file in top.rglob(FILES)}):
        written = _points(place, options.metric, tags, purge=False)
        points = dict[int, list[float]]()
        for step, value in _points(place, options.metric, tags, purge=True):
            if points and step < max(points):  # a session that has not said where it begins
                points = {at: values for at, values in points.items() if at < step}
            if math.isfinite(value):
                points.setdefault(step, []).append(value)
        lost = len(written) - sum(map(len, points.values()))
        if lost or not points:
            reason = "not finite, or replaced by a later session" if lost else "it has no others"
            left_out.append(f"{lost} points of {options.metric} in {place}: {reason}")
        if points:
            name = place.relative_to(top if place != top else top.parent).as_posix()
            algorithm, task, run = labels_of(name, options.folders, one_line(top.name))
            parts = [Evaluation(at, {options.metric: np.array(v)}) for at, v in points.items()]
            labels = one_line(top.name), task, algorithm, run
            runs.append(FoundRun(*labels, tuple(parts), {}, str(place)))
    named("metric", options.metric, tags, f"the scalars of {folder}")
    return Reading(tuple(runs), tuple(left_out), last=True)


def _points(
    place: Path, tag: str, tags: dict[str, None], *, purge: bool
) -> list[tuple[int, float]]:
    """Return steps and values of a tag in the order of writing, and add all tags to ``tags``."""
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from tensorboard.util.tensor_util import make_ndarray
    except ModuleNotFoundError:
        raise ModuleNotFoundError("Event files need tensorboard: pip install tensorboard") from None
    everything = {"scalars": 0, "tensors": 0}
    log = EventAccumulator(str(place), everything, purge_orphaned_data=purge).Reload()
    found = log.Tags()
    tags.update(dict.fromkeys(one_line(name) for kind in everything for name in found[kind]))
    if tag in found["scalars"]:
        return [(event.step, event.value) for event in log.Scalars(tag)]
    tensors = log.Tensors(tag) if tag in found["tensors"] else []  # as TensorFlow 2 writes them
    return [(event.step, make_ndarray(event.tensor_proto).item()) for event in tensors]
