"""Export as CSV: a row for each episode of the evaluation."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from coopbench.analysis.findings import Findings
from coopbench.files import write_text
from coopbench.report.serialise import columns_as_csv


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
