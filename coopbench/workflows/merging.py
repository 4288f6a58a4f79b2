"""Merging: the results folders of shards, or of several evaluations, become one."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from coopbench.episodes.names import check_case
from coopbench.episodes.table import Cell
from coopbench.errors import OtherProtocolError
from coopbench.playing.plan import check_units
from coopbench.protocol.registration import Registration, read_registration, write_registration
from coopbench.protocol.schema import Protocol
from coopbench.protocol.variants import differing_keys
from coopbench.report.loading import load_report
from coopbench.report.report import Report
from coopbench.results import store
from coopbench.results.folder import stored_cells, write_protocol
from coopbench.results.manifest import write_manifest
from coopbench.results.packed_scores import referenced, write_reference
from coopbench.results.protocol_file import read_protocol
from coopbench.workflows.evaluation import write_report


def merge(folders: str | Path | Sequence[str | Path], out: str | Path) -> Report:
    """Copy the cells of results folders of one protocol into ``out`` and write the report on all.

    The first folder, which is ``out`` if that holds results, decides what the digest of a protocol
    leaves out, such as bounds; the notes name where others differ. Every checksum is verified;
    damaged cells are left out and named in the report's notes. A cell that several folders hold
    with the same results counts once. Shipped scores belong to ``out`` if they belong to one of the
    folders. Cells that ``out`` already holds are included; it may be one of the folders. Nothing is
    written if there is an error.

    Raises:
        FileNotFoundError: a folder holds no results, or all of them no finished cell.
        OtherProtocolError: the folders are not of one protocol.
        ValueError: two folders hold different results of a cell, or different registrations, a
            policy has training runs in some cells and none in others, or is other code in some of
            them, or two names differ by case alone.
    """
    root = Path(out)
    given = (folders,) if isinstance(folders, str | Path) else folders
    sources = [Path(folder) for folder in given]
    if not sources:
        raise ValueError("No folders to merge: name at least one with results.")
    if (root / "protocol.json").is_file():
        others = [source for source in sources if source.resolve() != root.resolve()]
        sources = [root, *others]
    notes: list[str] = []
    protocol = _common_protocol(sources, notes)
    results = _collected(sources, protocol, notes)
    if not results:
        reasons = " ".join(notes) or "Run the evaluations again to resume them."
        raise FileNotFoundError(f"There are no finished cells to merge. {reasons}")
    check_units(results)
    advice = "evaluate one of them again under another name"
    check_case("The policies", (cell.policy for cell in results), advice)
    study = _common_registration(sources)
    shipped = {name for source in sources for name in referenced(source, protocol)}
    write_protocol(root, protocol)
    if study is not None and read_registration(root) is None:
        write_registration(root, study)
    for cell, source in results.items():
        if source != root:
            store.copy(source, root, cell)
    write_reference(root, protocol, shipped)
    write_manifest(root, protocol)
    loaded = load_report(root)
    report = replace(loaded, notes=tuple(dict.fromkeys((*notes, *loaded.notes))))
    return write_report(report, root)


def _collected(sources: Sequence[Path], protocol: Protocol, notes: list[str]) -> dict[Cell, Path]:
    """Return the cells of all folders, each with the first that holds it."""
    results: dict[Cell, tuple[Path, Any]] = {}  # the folder that holds a cell, and its result
    codes: dict[str, tuple[Path, str | None]] = {}  # a cell of each policy, and its code
    for source in sources:
        for cell, stored in stored_cells(source, protocol, notes):
            place = source / cell.folder
            other, result = results.setdefault(cell, (source, _result(stored)))
            if result != _result(stored):
                raise ValueError(_conflict(other / cell.folder, place))
            if stored.episodes is None:
                continue
            first, code = codes.setdefault(cell.policy, (place, store.source_of(stored)))
            if code != store.source_of(stored):
                raise ValueError(_two_policies(cell.policy, first, place))
    return {cell: source for cell, (source, _) in results.items()}


def _common_protocol(sources: Sequence[Path], notes: list[str]) -> Protocol:
    """Return the protocol of the first folder; note in what those of the others differ."""
    protocol = read_protocol(sources[0])
    for source in sources[1:]:
        other = read_protocol(source)
        if other.digest != protocol.digest:
            raise OtherProtocolError(
                f"{sources[0]} holds results of {protocol.name} with digest "
                f"{protocol.digest[:12]}, {source} of {other.name} with digest "
                f"{other.digest[:12]}. Merge folders of one protocol only."
            )
        if keys := differing_keys(protocol, other):
            notes.append(
                f"The protocol of {source} differs in {keys}; that of {sources[0]} is used."
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


def _two_policies(name: str, one: Path, two: Path) -> str:
    return (
        f"{one} and {two} were played by different code that is called {name!r}: two policies. "
        f"Play one of them again under another name, or all tasks with the same code, and merge "
        f"again."
    )
