"""Reports and tables as Markdown."""

from collections.abc import Iterable, Mapping, Sequence

from coopbench.analysis.findings import Findings
from coopbench.report.card import cards
from coopbench.report.facts import identity, provenance, task_facts
from coopbench.report.plots.style import Picture
from coopbench.report.reading import reading
from coopbench.report.tables.aggregates import aggregate_table
from coopbench.report.tables.checklist import checklist_table
from coopbench.report.tables.groups import group_tables
from coopbench.report.tables.model import Table
from coopbench.report.tables.overall import extra_tables, overview_table
from coopbench.report.tables.tasks import agent_table, comparison_table, task_table
from coopbench.report.tables.words import NO_AGGREGATE, NO_COMPARISON, is_long

__all__ = ["as_markdown", "bullet_facts", "escaped", "markdown_table", "rows_table"]


def as_markdown(findings: Findings, pictures: Sequence[Picture] = ()) -> str:
    """Return the report as Markdown; ``pictures`` are linked as files of the folder ``plots``."""
    standing = "Standard report." if findings.is_standard else "**Not a standard report:**"
    parts = [f"# {escaped(findings.protocol.name)}", standing]
    if findings.departures:
        parts.append(_bullets(findings.departures))
    parts.append(bullet_facts(identity(findings)))
    overall = aggregate_table(findings)
    charts = [picture for picture in pictures if picture.kind == "chart"]
    others = [picture for picture in pictures if picture.kind != "chart"]
    parts += ["## All tasks", *_images(others, None)]
    parts.append(markdown_table(overall) if overall is not None else NO_AGGREGATE)
    parts += map(markdown_table, extra_tables(findings))
    parts += map(markdown_table, group_tables(findings))
    parts += ["## Charts", *_images(charts, None)] if charts else []
    if is_long(findings):
        parts.append(markdown_table(overview_table(findings)))
    for task in findings.protocol.task:
        compared, agents = comparison_table(findings, task), agent_table(findings, task)
        parts += [
            f"## {escaped(task.id)}",
            bullet_facts(task_facts(findings, task)),
            markdown_table(task_table(findings, task)),
            *_images(pictures, task.id),
            markdown_table(compared) if compared is not None else NO_COMPARISON,
            *([markdown_table(agents)] if agents is not None else []),
        ]
    parts += ["## How to read it", bullet_facts(reading(findings)), _policies(findings)]
    parts += ["## Seeds and versions", bullet_facts(provenance(findings))]
    parts += ["## Notes", _bullets(findings.notes or ("none",))]
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    """Return a table as Markdown, with its notes beneath."""
    names = [table.kind] if table.grouped else []
    names += [escaped(column.name) for column in table.columns]
    sides = ([":---"] if table.grouped else []) + [
        "---:" if column.numeric else ":---" for column in table.columns
    ]
    lines = [f"**{escaped(table.title)}**", "", _line(names), _line(sides)]
    for group in table.groups:
        for row in group.rows:
            cells = [escaped("; ".join(entry.lines)) for entry in row]
            cells = [
                f"**{cell}**" if entry.strong else cell
                for cell, entry in zip(cells, row, strict=True)
            ]
            lines.append(_line(([escaped(group.name)] if table.grouped else []) + cells))
    return "\n".join([*lines, "", _bullets(table.notes)])


def rows_table(heads: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Write heads and rows of cells as a Markdown table."""
    lines = [list(heads), ["---"] * len(heads), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def escaped(text: str) -> str:
    """Escape the characters that mean something in Markdown."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>|#" else char for char in text)


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {escaped(line)}" for line in lines)


def bullet_facts(facts: Mapping[str, str]) -> str:
    """Return facts as a Markdown list."""
    return "\n".join(f"- **{escaped(label)}:** {escaped(text)}" for label, text in facts.items())


def _images(pictures: Sequence[Picture], task: str | None) -> list[str]:
    return [
        f"![{escaped(picture.caption)}](plots/{picture.name}.svg)"
        for picture in pictures
        if picture.task == task
    ]


def _policies(findings: Findings) -> str:
    """Return the checklist and the cards of all policies as Markdown."""
    parts = [
        "## Reproducibility checklist",
        markdown_table(checklist_table(findings)),
        "## Policies",
    ]
    for name, facts in cards(findings).items():
        parts += [f"### {escaped(name)}", bullet_facts(facts)]
    return "\n\n".join(parts)
