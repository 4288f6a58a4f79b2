"""JSON lines: a line for each episode, with its task, policy, training seed, seed and metrics."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from coopbench.exchange.names import chosen_algorithms
from coopbench.report.report import Report


def save_jsonl(
    report: Report,
    path: Path,
    policies: Mapping[str, str] | None = None,
    metrics: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Write the episodes of some policies, {policy: name in the file}; undefined numbers are null.

    ``metrics`` are all if not given. Returns notes for the user: here none.
    """
    names = chosen_algorithms(report.episodes, policies)
    labels = ("task", "policy", "run", "episode", "seed")
    with path.open("w", encoding="utf-8") as file:
        for row in report.episodes.rows():
            if row["policy"] in names:
                kept = [name for name in row if name in (*labels, *(metrics or row))]
                line = {name: _plain(row[name]) for name in kept}
                file.write(json.dumps(line | {"policy": names[row["policy"]]}) + "\n")
    return ()


def _plain(value: object) -> object:
    """Return a value as JSON can hold it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
