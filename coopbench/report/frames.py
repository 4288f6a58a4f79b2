"""Frames: the parts of a report as pandas data frames."""

from dataclasses import asdict, fields
from typing import Any

import numpy as np

from coopbench.analysis.findings import Findings, row_types
from coopbench.episodes.table import EpisodeTable, Progress
from coopbench_envs.parameters import named

# Columns of a row per episode that do not depend on the game; see ``EpisodeTable.rows``.
EPISODE_COLUMNS = (
    "task",
    "policy",
    "run",
    "episode",
    "seed",
    "length",
    "terminated",
    "seats",
    "return",
)


def frame(findings: Findings, what: str = "episodes") -> Any:
    """Return a part of a report as a pandas ``DataFrame``.

    ``what`` is "episodes" (a row per evaluation episode, as ``save_episodes_csv`` writes it),
    "progress" (a row per episode of every checkpoint) or one of the report's tables, for instance
    "estimates".
    Undefined numbers are nan.

    Raises:
        ModuleNotFoundError: pandas is not installed.
        ValueError: for another ``what``.
    """
    try:
        import pandas
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            'A frame needs pandas, the extra "pandas": pip install ".[pandas]" in a checkout.',
            name="pandas",
        ) from None

    makers = {"episodes": _episode_frame, "progress": _progress_frame}
    if what in makers:
        return makers[what](pandas, findings.episodes)
    kind = named("table", what, {**makers, **row_types()}, "a report")
    rows = [asdict(row) for row in getattr(findings, what)]
    return pandas.DataFrame(rows, columns=[field.name for field in fields(kind)])


def _episode_frame(pandas: Any, table: EpisodeTable) -> Any:
    # One block at a time: rows as dictionaries take ten times the memory of a frame.
    frames = [pandas.DataFrame(list(EpisodeTable((block,)).rows())) for block in table]
    if not frames:
        return pandas.DataFrame(columns=list(EPISODE_COLUMNS))
    return pandas.concat([part.astype({"run": "Int64"}) for part in frames], ignore_index=True)


def _progress_frame(pandas: Any, table: EpisodeTable) -> Any:
    parts = [pandas.DataFrame(progress_columns(progress)) for progress in table.progress]
    cells, counts = [progress.cell for progress in table.progress], [len(part) for part in parts]
    labels = {
        "task": pandas.Categorical([cell.task for cell in cells]).repeat(counts),
        "policy": pandas.Categorical([cell.policy for cell in cells]).repeat(counts),
        "run": pandas.array([cell.run for cell in cells], dtype="Int64").repeat(counts),
    }
    empty = pandas.DataFrame(columns=["step", "episode", "return"])
    frame = pandas.concat(parts or [empty], ignore_index=True)
    for place, (name, label) in enumerate(labels.items()):
        frame.insert(place, name, label)
    return frame


def progress_columns(progress: Progress) -> dict[str, np.ndarray]:
    """Return the checkpoints and episodes of a run as columns of equal length."""
    checkpoints, episodes = progress.metrics["return"].shape
    columns = {
        "step": np.repeat(progress.steps, episodes),
        "episode": np.tile(np.arange(episodes), checkpoints),
    }
    return columns | {name: sample.ravel() for name, sample in progress.metrics.items()}
