"""Exports: the formats in which results can be written for other programs, one file for each."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

from coopbench.analysis.findings import Findings
from coopbench.exchange.episodes_csv import save_episodes_csv
from coopbench.exchange.flat_json import save_flat
from coopbench.exchange.marl_eval_export import save_marl_eval
from coopbench_envs.packages import installed
from coopbench_envs.parameters import named

_GROUP = "coopbench.exporters"  # of entry points
# (report, path, {policy: name in the file}, metrics) -> notes on what was written. None: all
# policies, and the metrics that the exporter chooses.
Exporter: TypeAlias = Callable[
    [Findings, Path, Mapping[str, str] | None, Sequence[str] | None], tuple[str, ...]
]
# By the name of the file, or by its ending.
EXPORTERS: dict[str, Exporter] = {
    "results.json": save_flat,
    ".json": save_marl_eval,
    ".csv": save_episodes_csv,
}


@cache
def all_exporters() -> dict[str, Exporter]:
    """Return the exporters of this package and of other installed ones, by file or ending."""
    return EXPORTERS | installed(_GROUP, Callable, EXPORTERS)


def exporter_of(path: Path) -> Exporter:
    """Return what writes a file; raise ``ValueError`` for an ending that none has."""
    table = all_exporters()
    if path.name.lower() in table:
        return table[path.name.lower()]
    exporter: Exporter = named("ending of a file to export", path.suffix.lower(), table)
    return exporter
