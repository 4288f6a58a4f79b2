"""Loading: the report of stored results, made anew from their episodes."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from coopbench.analysis.environments import action_notes, environment_notes
from coopbench.baselines.registry import parse_name
from coopbench.episodes.names import names_given, one_line
from coopbench.episodes.table import Cell
from coopbench.playing.plan import check_units
from coopbench.protocol.registration import Registration, read_registration
from coopbench.protocol.schema import Protocol
from coopbench.report.report import Report
from coopbench.report.sections import lacking
from coopbench.results.folder import LEFT_OUT, table_of
from coopbench.results.manifest import results_digest
from coopbench.results.packed_scores import reported_cells
from coopbench.results.protocol_file import read_protocol
from coopbench.results.store import Stored

_MOVING = (
    "0 and 1 of normalized scores are the lowest and the highest episode of this report: these "
    "scores change when policies are added, and cannot be compared with those of other reports."
)


def load_report(folder: str | Path, first: Sequence[str] | None = None) -> Report:
    """Make the report of a results folder from its episodes.

    The policies ``first`` come first, the others by name. Without ``first``, the policies that the
    protocol does not require come before those that it requires, as in a report of ``evaluate``.

    Raises ``FileNotFoundError`` if it holds no results, and ``ValueError`` if a policy has training
    runs in some cells and none in others. Damaged cells are left out and named, and so are policies
    that are different code in some of their cells.
    """
    root = Path(folder)
    protocol = read_protocol(root)
    notes: list[str] = []
    cells = list(reported_cells(root, protocol, notes))
    if not any(stored.episodes or stored.failure for _, stored in cells):
        further = [f"And {len(notes) - 3} more."] if len(notes) > 3 else []
        reasons = " ".join(notes[:3] + further) or "Run the evaluation again to resume it."
        raise FileNotFoundError(f"{root} holds no finished cells. {reasons}")
    check_units(cell for cell, _ in cells)
    leading = names_given(first)
    if first is None:
        leading = tuple(_required_last(protocol, {cell.policy for cell, _ in cells}))
    return report_of(
        protocol,
        cells,
        leading,
        tuple(notes),
        registration=read_registration(root),
        results="" if any(map(_is_omission, notes)) else results_digest(root, protocol),
    )


def _is_omission(note: str) -> bool:
    """Whether a note says that something in the folder is not in its report."""
    return note.startswith(LEFT_OUT)


def _required_last(protocol: Protocol, policies: Iterable[str]) -> list[str]:
    """Return policies by name, then the required baselines and the required learners."""
    settings = protocol.report
    required = [*settings.fixed, *settings.learned]
    own = sorted(name for name in policies if parse_name(name).kind not in settings.learned)
    return [*(name for name in own if name not in required), *required]


def report_of(
    protocol: Protocol,
    cells: Sequence[tuple[Cell, Stored]],
    first: Sequence[str],
    notes: tuple[str, ...] = (),
    *,
    registration: Registration | None = None,
    results: str = "",
) -> Report:
    """Make the report of cells of a protocol; the policies ``first`` come first, in this order.

    ``registration`` and ``results``, a digest, are those of the results folder.
    """
    tasks, policies = [task.id for task in protocol.task], list(first)

    def place(item: tuple[Cell, Stored]) -> tuple[int, int, str, int]:
        cell, _ = item
        rank = policies.index(cell.policy) if cell.policy in policies else len(policies)
        return tasks.index(cell.task), rank, cell.policy, cell.run or 0

    ordered = [stored for _, stored in sorted(cells, key=place)]
    metadata = {s.episodes.cell: s.meta for s in ordered if s.episodes is not None}
    table = table_of(ordered)
    notes = (*notes, *environment_notes(protocol, table.blocks), *action_notes(table.blocks))
    if protocol.report.normalisation == "minmax":
        notes = (*notes, _MOVING)
    missing = lacking(protocol)
    if missing:
        notes = (*notes, f"Sections that are not installed here are missing: {', '.join(missing)}.")
    notes = tuple(map(one_line, notes))
    return Report(protocol, table, notes, metadata, registration, results)
