"""Flat JSON: means by task and policy, as the script published with Coopetition-Gym writes them."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from coopbench import __version__
from coopbench.analysis.findings import Findings
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Episodes
from coopbench.exchange.names import chosen_algorithms
from coopbench.files import write_text


def save_flat(
    findings: Findings,
    path: str | Path,
    policies: Mapping[str, str] | None = None,
    metrics: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Write an object for each task and policy; the object alone if there is one, else a list.

    Its keys are ``environment``, ``task``, ``algorithm``, ``mean_return``, ``std_return`` (of the
    episodes, with their number as divisor), ``mean_length``, ``mean_METRIC`` of the protocol's
    other metrics or of ``metrics``, ``episodes``, ``seeds`` (of the episodes), ``training_seeds``,
    ``timestamp`` and ``version``. Episodes of all training runs count alike; a mean is null where a
    metric is undefined in all of them. Returns a note where training runs are pooled.
    """
    table, report = findings.episodes, findings.protocol.report
    algorithms = chosen_algorithms(table, policies)
    written, now = [], datetime.now(UTC).isoformat(timespec="seconds")
    for task in findings.protocol.task:
        names = dict.fromkeys(("return", "length", *(metrics or report.metrics_of(task))))
        for policy, name in algorithms.items():
            blocks = list(table.runs(task.id, policy))
            if blocks:
                row = {"environment": task.env.rpartition("/")[2], "task": task.id}
                written.append(
                    {**row, "algorithm": name, **_summary(blocks, list(names))}
                    | {"timestamp": now, "version": __version__}
                )
    if not written:
        raise ValueError("Nothing to export: no policy that was asked for has played a task.")
    content = written[0] if len(written) == 1 else written
    write_text(Path(path), json.dumps(content, indent=2, allow_nan=False) + "\n")
    pooled = any(len(row["training_seeds"]) > 1 for row in written)
    return ("episodes of all training runs count alike, so std_return is not over runs",) * pooled


def _summary(blocks: Sequence[Episodes], names: Sequence[str]) -> dict[str, Any]:
    """Return the means of some metrics over the episodes of all runs, and what they are of."""
    row: dict[str, Any] = {}
    for name in names:
        sample = np.concatenate([values(block, name) for block in blocks])
        defined = sample[np.isfinite(sample)]
        row[f"mean_{name}"] = float(defined.mean()) if len(defined) else None
        if name == "return":
            row["std_return"] = float(defined.std()) if len(defined) else None
    return row | {
        "episodes": sum(len(block) for block in blocks),
        "seeds": blocks[0].seeds.tolist(),
        "training_seeds": [block.cell.run for block in blocks if block.cell.run is not None],
    }
