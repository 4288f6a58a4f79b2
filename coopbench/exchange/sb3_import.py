"""Logs of Stable-Baselines3: ``evaluations.npz`` of EvalCallback, ``monitor.csv`` of Monitor."""

import csv
import io
import json
import math
from pathlib import Path

import numpy as np

from coopbench.exchange.curves import Curve, labels_of, runs_of
from coopbench.exchange.runs import Options, Reading, read_import
from coopbench_envs.arrays import proportional, unpack
from coopbench_envs.parameters import named

_EVALUATIONS = {"return": "results", "length": "ep_lengths", "success": "successes"}
_MONITORED = {"return": "r", "length": "l"}
_LONGEST = 1_000_000_000  # steps of an episode


def files_below(place: Path, pattern: str) -> list[Path]:
    """Return a file, or the files of a folder and its folders that fit a pattern, by name."""
    if not place.is_dir():
        return [place]
    return sorted(place.rglob(pattern))


def names_below(place: Path, files: list[Path]) -> list[str]:
    """Return how runs are called: the path of their folder in ``place``.

    Of a single file it is the path of up to three folders.
    """
    if not place.is_dir():
        return ["/".join(place.resolve().parent.parts[1:][-3:])]
    folders = [file.parent.relative_to(place) for file in files]
    return [folder.as_posix() if folder.name else place.resolve().name for folder in folders]


def has_evaluations(place: Path) -> bool:
    """Whether a file is ``evaluations.npz``, or a folder has one."""
    if place.is_dir():
        return any(place.rglob("evaluations.npz"))
    return place.suffix == ".npz"


def read_evaluations(place: Path, options: Options) -> Reading:
    """Read the episodes of every evaluation; ``metric`` is return, length or success.

    Raises ``ValueError`` for a file of another form, and for runs whose names do not fit.
    """
    files = files_below(place, "evaluations.npz")
    metric = named("metric", options.metric, _EVALUATIONS, "evaluations.npz")
    labels = labels_of(names_below(place, files), options.names, place)
    curves = []
    for file, label in zip(files, labels, strict=True):
        content = read_import(file)
        try:
            arrays = unpack(content, proportional(content))
            steps, values = (named("array", name, arrays) for name in ("timesteps", metric))
            rows = values.reshape(len(values), -1).astype(np.float64)
        except (ValueError, TypeError) as error:
            reason = str(error).rstrip(".")
            raise ValueError(f"{file} is no evaluations.npz: {reason}.") from None
        if steps.ndim != 1 or steps.dtype.kind not in "iu" or len(steps) != len(rows):
            raise ValueError(f"{file}: timesteps do not count the evaluations.")
        finite = np.isfinite(rows).all(axis=1) & (rows.shape[1] > 0)
        finite &= np.diff(steps, prepend=-1) > 0
        curves.append(Curve(*label, steps[finite].astype(np.int64), tuple(rows[finite])))
    return runs_of(curves, place.resolve().name, options.metric)


def is_monitor(place: Path) -> bool:
    """Whether a file begins as ``monitor.csv`` does, with a line of JSON."""
    if place.suffix != ".csv" or not place.is_file():
        return False
    with place.open("rb") as file:
        return file.read(3) == b'#{"'


def has_monitors(place: Path) -> bool:
    """Whether a file is a ``monitor.csv``, or a folder has one."""
    if place.is_dir():
        return any(is_monitor(file) for file in place.rglob("*monitor.csv"))
    return is_monitor(place)


def read_monitors(place: Path, options: Options) -> Reading:
    """Read the episodes of the training; all files of a folder are games of one run.

    ``metric`` is return, length, or a column that ``info_keywords`` has added. Raises
    ``ValueError`` for a file of another form, and for runs whose names do not fit.
    """
    files = [file for file in files_below(place, "*monitor.csv") if is_monitor(file)]
    names = names_below(place, files)
    episodes: dict[str, list[tuple[float, float, float]]] = {}
    for file, name in zip(files, names, strict=True):
        episodes.setdefault(name, []).extend(_episodes(file, options.metric))
    labels = labels_of(list(episodes), options.names, place)
    curves = []
    for label, rows in zip(labels, episodes.values(), strict=True):
        ended = np.array(sorted(rows)).reshape(-1, 3)
        steps = ended[:, 1].cumsum().astype(np.int64)
        curves.append(Curve(*label, steps, tuple(ended[:, 2:])))
    return runs_of(curves, place.resolve().name, options.metric)


def _episodes(file: Path, metric: str) -> list[tuple[float, float, float]]:
    """Return of each episode the time at which it ended, its length, and the metric."""
    try:
        first, _, rest = read_import(file).decode("utf-8").partition("\n")
        started = float(json.loads(first[1:])["t_start"])
        reader = csv.DictReader(io.StringIO(rest))
        column = _MONITORED.get(metric, metric)
        named("metric", column, dict.fromkeys(reader.fieldnames or ()))
        rows = [(started + float(row["t"]), float(row["l"]), float(row[column])) for row in reader]
    except (UnicodeDecodeError, csv.Error, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{file} is no monitor.csv: {error!r}.") from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    for row in rows:
        if not all(map(math.isfinite, row)) or not 0 <= row[1] <= _LONGEST:
            raise ValueError(
                f"{file} has an episode of {row[1]:g} steps with {metric} {row[2]:g}; allowed: "
                f"finite numbers, and lengths of 0 to {_LONGEST:,} steps."
            )
    return rows
