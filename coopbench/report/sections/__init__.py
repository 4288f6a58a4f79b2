"""The sections of a report, in its order: a file of this folder for each, and its line below.

Other packages name a ``ReportSection`` in the entry-point group ``coopbench.sections``.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from coopbench.analysis.findings import Findings, Part
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.blocks import Block
from coopbench.report.plots.style import Picture
from coopbench.report.section import Place, ReportSection
from coopbench.report.tables.model import Table
from coopbench_envs.packages import installed
from coopbench_envs.parameters import named

_GROUP = "coopbench.sections"  # of entry points
_NAMES = (
    "outside",
    "registered",
    "missing",
    "agents",
    "contexts",
    "models",
    "charts",
    "learning",
    "medians",
    "sensitivity",
    "published_return",
    "certificates",
    "anarchy",
    "interquartile",
    "summary",
)


@cache
def sections() -> Mapping[str, ReportSection]:
    """Return all sections by name: those of this package, then those of other packages."""
    own = {name: import_module(f"{__name__}.{name}").SECTION for name in _NAMES}
    return own | installed(_GROUP, ReportSection, own)


def parts() -> dict[str, Part[Any]]:
    """Return all parts of a report by name: those that sections share, then those of each."""
    shared = [part for part in vars(Findings).values() if isinstance(part, Part)]
    own = [part for section in sections().values() for part in section.parts]
    return {part.name: part for part in (*shared, *own)}


def tables(findings: Findings, place: Place) -> list[Table]:
    """Return the tables that a report has in a place."""
    made = (one.table(findings) for one in sections().values() if one.place == place)
    return [table for table in made if table is not None]


def pictures(findings: Findings) -> Iterator[Picture]:
    """Iterate over the pictures of all sections."""
    for section in sections().values():
        yield from section.pictures(findings)


def of_task(findings: Findings, task: Task) -> Iterator[Block]:
    """Iterate over what sections show at the end of a task."""
    for section in sections().values():
        yield from section.of_task(findings, task)


def lacking(protocol: Protocol) -> list[str]:
    """Return the names of sections that a protocol asks for and that are not installed here."""
    return [name for name in protocol.report.reproduces.sections if name not in sections()]


def asked(protocol: Protocol) -> dict[str, str]:
    """Return what a protocol asks of sections, {label: text}.

    Raises ``ValueError`` where it names a section that is not installed, or asks for what one
    cannot give.
    """
    for name in protocol.report.reproduces.sections:
        named("section", name, sections(), "[report.reproduces]")
    return {k: v for section in sections().values() for k, v in section.asked(protocol).items()}
