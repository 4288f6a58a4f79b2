"""The sections of a report, in its order: a file of this folder for each, and its line below.

Other packages name a ``ReportSection`` in the entry-point group ``coopbench.sections``.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from coopbench.analysis.findings import Findings, Part
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.blocks import Block
from coopbench.report.plots.style import Picture
from coopbench.report.section import Place, ReportSection, Shown
from coopbench_envs.packages import installed
from coopbench_envs.parameters import named

_GROUP = "coopbench.sections"  # of entry points
_NAMES = (
    "outside",
    "aggregates",
    "ranks",
    "estimates",
    "registered",
    "missing",
    "comparisons",
    "profiles",
    "improvements",
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
    "checklist",
    "cards",
)


@cache
def sections() -> Mapping[str, ReportSection]:
    """Return all sections by name: those of this package, then those of other packages."""
    own = {name: import_module(f"{__name__}.{name}").SECTION for name in _NAMES}
    return own | installed(_GROUP, ReportSection, own)


def parts() -> dict[str, Part[Any]]:
    """Return all parts of a report by name: those that sections share, then those of each.

    Raises ``ValueError`` where two have the same name, because each is a CSV file.
    """
    owners = {part.name: "Findings" for part in vars(Findings).values() if isinstance(part, Part)}
    every = {name: getattr(Findings, name) for name in owners}
    for name, section in sections().items():
        for part in section.parts:
            if part.name in every:
                raise ValueError(
                    f"The part {part.name!r} of the section {name!r} has the name of a part of "
                    f"{owners[part.name]}; allowed: a name that no other part has, because its "
                    f"rows are {part.name}.csv. Rename it."
                )
            every[part.name], owners[part.name] = part, f"the section {name!r}"
    return every


def blocks(findings: Findings, place: Place) -> Iterator[Block]:
    """Iterate over what sections show in a place."""
    for section in sections().values():
        if place in section.shows:
            yield from _several(section.shows[place](findings))


def of_task(findings: Findings, task: Task) -> Iterator[Block]:
    """Iterate over what sections show of a task."""
    for section in sections().values():
        yield from _several(section.of_task(findings, task))


def _several(shown: Shown) -> Iterable[Block]:
    if shown is None:
        return ()
    return shown if isinstance(shown, Iterable) else (shown,)


def pictures(findings: Findings, task: Task | None = None) -> tuple[Picture, ...]:
    """Return the pictures of all sections: those of a task, or without one those over tasks."""
    made = (
        section.pictures(findings) if task is None else section.task_pictures(findings, task)
        for section in sections().values()
    )
    return tuple(itertools.chain.from_iterable(made))


def readings() -> list[str]:
    """Return the templates of how to read the report."""
    return [section.reading for section in sections().values()]


def further_json(findings: Findings) -> dict[str, Any]:
    """Return what sections add to report.json, by key.

    Raises ``ValueError`` where a key is that of another section, or of its rows.
    """
    made: dict[str, Any] = {}
    every = parts()
    for name, section in sections().items():
        others = {*made, *every} - {part.name for part in section.parts}
        for key, make in section.json.items():
            if key in others:
                raise ValueError(
                    f"The section {name!r} writes {key!r} to report.json, which another part of "
                    f"the report writes; allowed: a key of its own. Rename it."
                )
            made[key] = make(findings)
    return made


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
