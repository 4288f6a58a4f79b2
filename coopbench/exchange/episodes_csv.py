"""Export as CSV: a row for each episode, of the evaluation or of all checkpoints."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coopbench.analysis.findings import Findings
from coopbench.episodes.table import EpisodeTable, Progress
from coopbench.files import write_text
from coopbench.report.frames import progress_columns
from coopbench.report.serialise import columns_as_csv

_LABELS = ("task", "policy", "run", "step", "episode")  # columns of checkpoints before the metrics


def save_episodes_csv(
    findings: Findings,
    path: str | Path,
    policies: Mapping[str, str] | None = None,
    metrics: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Write every episode of a report as CSV: a row each, as in a data frame.

    Metrics are columns, floats in full precision, and a field is empty where one is undefined.
    There are no notes. Raises ``ValueError`` if policies or metrics are chosen: all are written.
    """
    if policies or metrics:
        raise ValueError("A .csv file has all policies and metrics: omit --policy and --metric.")
    write_text(Path(path), columns_as_csv(findings.episodes.columns()))
    return ()


def progress_csv(table: EpisodeTable) -> str:
    """Return all checkpoints as CSV: a line per task, policy, run, step and episode.

    Metrics are columns, floats in full precision, and a field is empty where one is undefined.
    """
    header: dict[str, list[Any]] = {name: [] for name in _LABELS}
    return columns_as_csv([header, *map(_labelled, table.progress)])


def _labelled(progress: Progress) -> dict[str, list[Any]]:
    columns, cell = progress_columns(progress), progress.cell
    labels = {"task": cell.task, "policy": cell.policy, "run": cell.run}
    count = len(columns["step"])
    parts = {name: [label] * count for name, label in labels.items()}
    return parts | {name: column.tolist() for name, column in columns.items()}
