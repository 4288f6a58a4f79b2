"""Shards: an evaluation in independent parts, and the merging of their folders."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coopbench.episodes.table import Cell
from coopbench.errors import OtherProtocolError
from coopbench.playing.bars import CellProgress, with_bars
from coopbench.playing.contestants import PolicyArguments, check_distinct
from coopbench.playing.plan import Planned, check_units
from coopbench.playing.runner import Runner, by_cell
from coopbench.protocol.loading import find_protocol
from coopbench.protocol.registration import Registration, read_registration, write_registration
from coopbench.protocol.schema import Protocol
from coopbench.report.loading import load_report
from coopbench.report.report import Report
from coopbench.results import store
from coopbench.results.folder import stored_cells, write_protocol
from coopbench.results.manifest import write_manifest
from coopbench.results.protocol_file import read_protocol
from coopbench.workflows.evaluation import job_of, planned, play_cells, write_report

_MOST = 100_000  # shards


@dataclass(frozen=True)
class Shard:
    """Result of ``play_shard``."""

    cells: tuple[Cell, ...]  # of this part; all of them are finished
    finished: int  # cells of any part that the folder holds now
    total: int  # cells of all parts
    notes: tuple[str, ...]  # damaged results that were redone


def play_shard(
    protocol: str | Path | Protocol,
    policies: PolicyArguments,
    shard: tuple[int, int],
    out: str | Path,
    backend: str = "auto",
    progress: CellProgress | bool | None = None,
    workers: int | None = None,
    *,
    reference: bool = True,
) -> Shard:
    """Play shard i of n, ``shard = (i, n)`` with i from 1, of what ``evaluate`` would play.

    Which cells belong to it depends on protocol and policies alone, not on what is finished. They
    are written to the folder ``out`` as by ``evaluate``; shards may share that folder. The shipped
    runs of required learners are among them, unless ``reference`` is False.
    ``merge`` makes report and manifest when all shards are finished.
    """
    checked = find_protocol(protocol)
    cells, _ = planned(checked, policies, reference=reference)
    mine = part(checked, cells, shard)
    with with_bars(progress, len(mine)) as tell:
        _, notes = play_cells(checked, mine, out, Runner(backend, workers, by_cell(tell)))
    finished = sum((Path(out) / cell.folder / "meta.json").is_file() for cell, _ in cells)
    return Shard(tuple(cell for cell, _ in mine), finished, len(cells), notes)


def part(protocol: Protocol, cells: Sequence[Planned], shard: tuple[int, int]) -> list[Planned]:
    """Return part i of n of the cells of a plan, ``shard = (i, n)``, in their order.

    The largest remaining cell goes to the part with the least work so far (Graham 1969, longest
    processing time first), so the largest part is at most 4/3 of the smallest possible maximum.
    """
    number, count = shard
    if not 1 <= number <= count:
        raise ValueError(f"'shard' was {number} of {count}; allowed: i of n with 1 <= i <= n.")
    if count > _MOST:
        raise ValueError(f"'shard' was one of {count:,}; allowed: up to {_MOST:,}.")
    jobs = [job_of(protocol, cell, contestant, None) for cell, contestant in cells]
    costs, mine = [0.0] * count, set()
    for job in sorted(jobs, key=lambda job: (-job.cost, job.cell.folder)):
        least = costs.index(min(costs))
        costs[least] += job.cost
        if least == number - 1:
            mine.add(job.cell)
    return [(cell, contestant) for cell, contestant in cells if cell in mine]


def merge(folders: Sequence[str | Path], out: str | Path) -> Report:
    """Copy the cells of results folders of one protocol into ``out`` and write the report on all.

    Every checksum is verified; damaged cells are left out and named in the report's notes. A cell
    that several folders hold with the same results counts once. Cells that ``out`` already holds
    are included; it may be one of the folders. Nothing is written if there is an error.

    Raises:
        FileNotFoundError: a folder holds no results, or all of them no finished cell.
        OtherProtocolError: the folders are not of one protocol.
        ValueError: two folders hold different results of a cell, or different registrations, a
            policy has training runs in some cells and none in others, or two names differ by case
            alone.
    """
    root = Path(out)
    sources = [Path(folder) for folder in folders]
    if not sources:
        raise ValueError("No folders to merge: name at least one with results.")
    if (root / "protocol.json").is_file():
        others = [source for source in sources if source.resolve() != root.resolve()]
        sources = [root, *others]
    protocol = _common_protocol(sources)
    notes: list[str] = []
    results: dict[Cell, tuple[Path, Any]] = {}  # the folder that holds a cell, and its result
    for source in sources:
        for cell, stored in stored_cells(source, protocol, notes):
            other, result = results.setdefault(cell, (source, _result(stored)))
            if result != _result(stored):
                raise ValueError(_conflict(other / cell.folder, source / cell.folder))
    if not results:
        reasons = " ".join(notes) or "Run the evaluations again to resume them."
        raise FileNotFoundError(f"There are no finished cells to merge. {reasons}")
    check_units(results)
    check_distinct((c.policy for c in results), "evaluate one of them again under another name")
    study = _common_registration(sources)
    write_protocol(root, protocol)
    if study is not None and read_registration(root) is None:
        write_registration(root, study)
    for cell, (source, _) in results.items():
        if source != root:
            store.copy(source, root, cell)
    write_manifest(root, protocol)
    loaded = load_report(root)
    report = replace(loaded, notes=tuple(dict.fromkeys((*notes, *loaded.notes))))
    write_report(report, root)
    return report


def _common_protocol(sources: Sequence[Path]) -> Protocol:
    protocol = read_protocol(sources[0])
    for source in sources[1:]:
        other = read_protocol(source)
        if other.digest != protocol.digest:
            raise OtherProtocolError(
                f"{sources[0]} holds results of {protocol.name} with digest "
                f"{protocol.digest[:12]}, {source} of {other.name} with digest "
                f"{other.digest[:12]}. Merge folders of one protocol only."
            )
    return protocol


def _common_registration(sources: Sequence[Path]) -> Registration | None:
    studies = {read_registration(source) for source in sources} - {None}
    if len(studies) > 1:
        raise ValueError("The folders hold different registrations; merge those of one study only.")
    return next(iter(studies), None)


def _result(stored: store.Stored) -> tuple[Any, ...]:
    """Return the part of a stored cell that does not depend on where and when it was played."""
    return stored.meta["status"], stored.meta.get("sha256"), stored.failure


def _conflict(one: Path, two: Path) -> str:
    return (
        f"{one} and {two} hold different results of the same cell. One of them was played by "
        f"another policy, with other versions or on another platform (their meta.json say which), "
        f"or was changed: remove the wrong one and merge again."
    )
