"""Runs of MLflow: the folder ``mlruns`` of its file store, with a file for each metric."""

from pathlib import Path

import numpy as np

from coopbench.episodes.names import one_line
from coopbench.exchange.curves import Curve, check_distinct, curve_of, runs_of
from coopbench.exchange.runs import LABELS, Options, Reading, read_import
from coopbench_envs.parameters import named


def has_mlflow(place: Path) -> bool:
    """Whether a folder has a run: a folder ``metrics`` next to a ``meta.yaml``."""
    return place.is_dir() and bool(_runs(place))


def _runs(place: Path) -> list[Path]:
    return sorted(
        folder.parent
        for folder in place.rglob("metrics")
        if folder.is_dir() and (folder.parent / "meta.yaml").is_file()
    )


def read_mlflow(place: Path, options: Options) -> Reading:
    """Read a metric of all runs; ``columns`` name the parameter or tag with each label.

    They are "params.NAME", "tags.NAME", "run_name" and "experiment". Raises ``ValueError`` for a
    label that a run lacks, a metric that none has, two runs with the same labels, and a file of
    another form.
    """
    columns = {"algorithm": "params.algorithm", "task": "experiment", "run": "params.seed"}
    columns |= options.columns
    curves, measured, left_out = list[Curve](), dict[str, None](), list[str]()
    labels = list[tuple[str, tuple[str, str, str]]]()
    for run in _runs(place):
        metrics = {
            file.relative_to(run / "metrics").as_posix(): file
            for file in sorted((run / "metrics").rglob("*"))
            if file.is_file()
        }
        measured |= dict.fromkeys(map(one_line, metrics))
        if options.metric not in metrics:
            left_out.append(f"the run {run.name}, which has no {options.metric}")
            continue
        facts = _facts(run)
        where = f"the run {run.name} of {place}"
        algorithm, task, name = (
            str(named("column", columns[label], facts, f"{where}; name it with --columns"))
            for label in LABELS
        )
        labels.append((run.name, (algorithm, task, name)))
        curves.append(curve_of(labels[-1][1], *_points(metrics[options.metric])))
    named("metric", options.metric, measured, f"the metrics of {place}")
    check_distinct(labels, place, "tell them apart with --columns, such as run=run_id")
    reading = runs_of(curves, place.resolve().name, options.metric)
    return reading._replace(left_out=(*left_out, *reading.left_out))


def _facts(run: Path) -> dict[str, str]:
    """Return what is known of a run besides its metrics, by the names of MLflow's tables."""
    facts = {"run_id": run.name}
    for kind in ("params", "tags"):
        for file in sorted((run / kind).glob("*")) if (run / kind).is_dir() else ():
            text = read_import(file).decode("utf-8", "replace")
            facts[f"{kind}.{file.name}"] = one_line(text.strip())
    facts["run_name"] = facts.get("tags.mlflow.runName", run.name)
    facts["experiment"] = _name(run.parent / "meta.yaml") or run.parent.name
    return facts


def _name(file: Path) -> str:
    """Return the name in a ``meta.yaml``; empty if there is none."""
    if not file.is_file():
        return ""
    for line in read_import(file).decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        if key == "name":
            return one_line(value.strip().strip("'\""))
    return ""


def _points(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps and values of a metric: lines of time, value and step."""
    try:
        rows = [line.split() for line in read_import(file).decode("utf-8").splitlines() if line]
        steps = np.array([int(row[2]) for row in rows], np.int64)
        values = np.array([float(row[1]) for row in rows], np.float64)
    except (ValueError, IndexError, OverflowError) as error:
        raise ValueError(f"{file} is no metric of MLflow: {error}.") from None
    return steps, values
