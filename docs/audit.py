"""Tables of docs/validity.md and docs/validity-tables.md about the version 1 games.

They are those of ``python -m studies.validity games``, group by group, from certificates.
"""

from collections.abc import Iterator

import checkout  # noqa: F401

from coopbench.protocol.loading import load_protocol
from coopbench.report.markdown import rows_table
from studies.certificates import PROTOCOL
from studies.validity import games


def parts() -> dict[str, str]:
    """Return every generated part of the page."""
    certificates = games.stored()
    tables = {"classes": games.group_rows(certificates), "returns": games.return_rows(certificates)}
    for group in load_protocol(PROTOCOL).groups:
        tables[group.replace("-", "_")] = games.score_rows(certificates, group)
    return {name: table(rows) for name, rows in tables.items()}


def table(rows: Iterator[list[str]]) -> str:
    """Write rows as Markdown, the head first."""
    return rows_table(next(rows), rows)
