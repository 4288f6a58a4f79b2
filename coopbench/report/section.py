"""A section of a report: one statement, with its rows, its table, its pictures and its words.

Every file of ``coopbench/report/sections`` holds one; whatever shows a report iterates over them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from coopbench.analysis.findings import Findings, Part
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.blocks import Block
from coopbench.report.plots.style import Picture

# Where blocks of a section stand: at the top; in the summary, which a terminal shows as well; under
# "All tasks"; there, too, but folded where there are many tasks, because tables have a row for
# each; under "Comparisons over groups"; above many tasks; in parts of their own near the end; in
# the tables for a paper.
Place = Literal[
    "top",
    "summary",
    "overall",
    "by task",
    "pairs",
    "every task",
    "checklist",
    "policies",
    "paper",
]
Shown = Block | Iterable[Block] | None  # what a section has to show: one block, several, nothing


def _nothing(*_: Any) -> Any:
    return {}


@dataclass(frozen=True)
class ReportSection:
    """One statement of a report; what it does not name, it does not have.

    ``asked`` returns what a protocol asks of the section as {label: text}, for the protocol's
    description; it raises ``ValueError`` where the section cannot give it.
    """

    parts: tuple[Part[Any], ...] = ()  # its rows, each with the name of its CSV file
    shows: Mapping[Place, Callable[[Findings], Shown]] = field(default_factory=dict)
    of_task: Callable[[Findings, Task], Shown] = _nothing  # below the facts of every task
    pictures: Callable[[Findings], Iterable[Picture]] = _nothing  # under "Charts"
    task_pictures: Callable[[Findings, Task], Iterable[Picture]] = _nothing  # beside its results
    reading: str = ""  # a template of how to read it, see ``explanations``
    asked: Callable[[Protocol], Mapping[str, str]] = _nothing
    # Values of report.json by key: further ones, or a part's rows in another form.
    json: Mapping[str, Callable[[Findings], Any]] = field(default_factory=dict)
