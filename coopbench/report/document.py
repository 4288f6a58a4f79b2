"""The document of a report: its blocks, in the order in which every format shows them."""

from collections.abc import Iterable, Iterator

from coopbench.analysis.findings import Findings
from coopbench.protocol.task import Task
from coopbench.report.blocks import (
    ALWAYS,
    FILES,
    PAGE,
    Block,
    Code,
    Deferred,
    Details,
    Document,
    Facts,
    Items,
    Pictures,
    Section,
    Text,
)
from coopbench.report.explanations import explanations
from coopbench.report.facts import (
    NOT_STANDARD,
    identity,
    provenance,
    registration_text,
    task_facts,
    verdict,
)
from coopbench.report.plots.policies import looks_of
from coopbench.report.replays import replays
from coopbench.report.sections import blocks, of_task, pictures
from coopbench.report.tables.entries import is_long, played_tasks
from coopbench.report.tables.model import Table

_DIGEST = (
    "The digest is the SHA-256 of the parts of this protocol that determine what is trained and "
    "played. A protocol read from this text has the same digest (Protocol.digest in Python)."
)
_FOOTER = "All numbers in full precision: report.json and the .csv files in the same folder."


def document(findings: Findings) -> Document:
    """Return everything that a report shows; plots and episodes are made when rendered."""
    protocol, alone = findings.protocol, len(findings.protocol.task) == 1
    explained, charts = (Facts(explanations(findings)),), pictures(findings)
    registered = {"Registration": registration_text(findings)}
    told = Facts(identity(findings), FILES), Facts(provenance(findings))
    whole = (Text(_DIGEST), Code(protocol.model_dump_json(indent=1)))
    every: tuple[Block, ...] = (
        verdict(findings),
        *blocks(findings, "top"),
        *(() if findings.registration is None else (Facts(registered, FILES),)),
        *_sections("Summary", blocks(findings, "summary"), "summary", ALWAYS),
        *_sections("All tasks", _overall(findings), "all-tasks"),
        *_sections("Comparisons over groups", blocks(findings, "pairs"), "pairs"),
        *_sections("Charts", [Pictures(charts)] if charts else (), "charts"),
        *(_folded_tasks(findings) if is_long(findings) else _tasks(findings, alone)),
        Section("Episodes to watch", (Deferred(lambda: replays(findings)),), "replays", PAGE),
        Section("How to read it", explained, "reading"),
        *_sections("Checklist", blocks(findings, "checklist"), "checklist"),
        *_sections("Policies", blocks(findings, "policies"), "policies"),
        Section(
            "Protocol", (Details(f"All of {protocol.name}", whole, "whole"),), "protocol", PAGE
        ),
        Section("Training, seeds and versions", told, "provenance"),
        *_sections("Notes", [Items(findings.notes)] if findings.notes else (), "notes", ALWAYS),
    )
    title = protocol.protocol.description if protocol.ad_hoc else protocol.name
    return Document(title, every, looks=looks_of(findings), footer=_FOOTER)


def paper(findings: Findings) -> Document:
    """Return the tables for a paper: aggregates, and the score on every task."""
    protocol = findings.protocol
    facts = {"coopbench report": f"{protocol.name}, SHA-256 {protocol.digest}"}
    standing = "" if findings.is_standard else f" {NOT_STANDARD}."
    return Document(
        protocol.name,
        (
            Facts(facts),
            verdict(findings),
            *blocks(findings, "top"),
            *blocks(findings, "paper"),
        ),
        footer=f"Protocol {protocol.name} (SHA-256 {protocol.digest[:12]}).{standing}",
    )


def _overall(findings: Findings) -> Iterator[Block]:
    """Iterate over what is over all tasks; tables with a row for every task fold if many."""
    yield from blocks(findings, "overall")
    for block in blocks(findings, "by task"):
        if isinstance(block, Table) and is_long(findings):
            yield Details(block.title, (block,))
        else:
            yield block


def _sections(
    title: str, made: Iterable[Block], anchor: str, shown: str = FILES
) -> Iterator[Section]:
    """Iterate over the section of some blocks; there is none without them."""
    every = tuple(made)
    if every:
        yield Section(title, every, anchor, shown)


def _tasks(findings: Findings, alone: bool) -> Iterator[Section]:
    """Iterate over a section for every played task, by number.

    A terminal shows one that is alone, unless a summary says what matters of it.
    """
    for number, task in enumerate(played_tasks(findings), start=1):
        shown = ALWAYS if alone and not findings.aggregates else FILES
        yield Section(task.id, tuple(_task(findings, task)), f"task-{number}", shown)


def _folded_tasks(findings: Findings) -> Iterator[Section]:
    """Iterate over the overview and the groups, in which every played task is folded."""
    played = played_tasks(findings)
    yield from _sections("Every task", blocks(findings, "every task"), "tasks")
    for number, (name, tasks) in enumerate(findings.protocol.groups.items(), start=1):
        made = (
            Details(task.id, tuple(_task(findings, task)), "task")
            for task in tasks
            if task in played
        )
        title = f"Tasks of {name}" if name else "Task by task"
        yield from _sections(title, made, f"group-{number}")


def _task(findings: Findings, task: Task) -> Iterator[Block]:
    yield Facts(task_facts(findings, task))
    yield from of_task(findings, task)
