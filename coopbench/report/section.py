"""A section of a report: one statement, with its rows, its table, its pictures and its words.

Every file of ``coopbench/report/sections`` holds one; whatever shows a report iterates over them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from coopbench.analysis.findings import Findings, Part
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.blocks import Block
from coopbench.report.plots.style import Picture
from coopbench.report.tables.model import Table

# Where the table of a section stands: at the top of the report, or in the summary, which a terminal
# shows as well; under "All tasks"; or there, with rows for every task, so that it is folded where
# these are many.
Place = Literal["top", "summary", "overall", "by task"]


def _no_table(findings: Findings) -> Table | None:
    return None


def _no_blocks(findings: Findings, task: Task) -> Iterable[Block]:
    return ()


def _no_pictures(findings: Findings) -> Iterable[Picture]:
    return ()


def _nothing_asked(protocol: Protocol) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class ReportSection:
    """One statement of a report; what it does not name, it does not have.

    ``table`` returns None, and ``pictures`` nothing, where a report has nothing to show. ``asked``
    returns what a protocol asks of the section as {label: text}, for the protocol's description; it
    raises ``ValueError`` where the section cannot give it.
    """

    parts: tuple[Part[Any], ...] = ()  # its rows, each with the name of its CSV file
    table: Callable[[Findings], Table | None] = _no_table
    place: Place = "overall"
    pictures: Callable[[Findings], Iterable[Picture]] = _no_pictures  # under "Charts"
    of_task: Callable[[Findings, Task], Iterable[Block]] = _no_blocks  # at the end of every task
    reading: str = ""  # a template of how to read it, see ``explanations``
    asked: Callable[[Protocol], Mapping[str, str]] = _nothing_asked
