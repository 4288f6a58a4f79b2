"""Leaderboard: verified results folders of one protocol, ranked on one static page.

Every folder is verified first. Scores are estimated anew over all policies at once; reports in the
folders are not used.
"""

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from coopbench.analysis.findings import Findings
from coopbench.baselines.registry import entry_of
from coopbench.episodes.table import Cell, EpisodeTable
from coopbench.files import write_text
from coopbench.playing.bars import CellProgress
from coopbench.playing.plan import check_units
from coopbench.playing.recording import check_place
from coopbench.protocol.schema import Protocol
from coopbench.report.leaderboard import Row, Source, Standings, document
from coopbench.report.numbers import finite
from coopbench.report.page import as_html
from coopbench.results import store
from coopbench.results.folder import table_of
from coopbench.results.packed_scores import arrays_of
from coopbench.results.protocol_file import check_is_folder
from coopbench.workflows.verdicts import BY_INTERVAL, CLOSE, MISSING, REPLAYED, Check, printable
from coopbench.workflows.verification import Examined, checking_runner, examine
from coopbench_envs.parameters import named

SCHEMA = 1
_UNVERIFIED = {"refuse": False, "mark": True}  # whether such a folder may take part


class Leaderboard(Standings):
    """Result of ``coopbench.leaderboard``; ``save`` writes the page."""

    def to_json(self) -> str:
        """Return everything as JSON; null where undefined."""
        content = {
            "schema": SCHEMA,
            "protocol": self.protocol.name,
            "digest": self.protocol.digest,
            "rows": [finite(dataclasses.asdict(row)) for row in self.rows],
            "sources": [dataclasses.asdict(source) for source in self.sources],
            "notes": self.notes,
        }
        return json.dumps(content, indent=1, allow_nan=False) + "\n"

    def to_html(self) -> str:
        """Return a page that needs nothing else and runs no script."""
        return as_html(document(self))

    def save(self, path: str | Path) -> tuple[Path, Path]:
        """Write the page, and the same content as JSON next to it; return both files."""
        page = Path(path)
        check_page(page)
        write_text(page, self.to_html())
        write_text(page.with_suffix(".json"), self.to_json())
        return page, page.with_suffix(".json")


def check_page(page: Path) -> None:
    """Raise ``ValueError`` if no page can be written there; call it before long work."""
    check_place(page)
    check_place(page.with_suffix(".json"))
    if page.suffix != ".html":
        raise ValueError(f"The file of a leaderboard has to end in .html; given {page}.")


def leaderboard(
    folders: str | Path | Sequence[str | Path],
    unverified: str = "refuse",
    backend: str = "auto",
    workers: int | None = None,
    progress: CellProgress | None = None,
) -> Leaderboard:
    """Verify results folders of one protocol and merge them into one table.

    The first folder decides the protocol, so it must pass. Any other folder is left out if a cell
    differs, if it holds no results, or if it has another protocol. A folder without a manifest, or
    without cells that its manifest lists, is refused, or with ``unverified="mark"`` marked. A
    policy with the name of an earlier one is left out. Notes give the reasons. A policy with
    results in several folders counts once if they are the same; if they differ, it counts once for
    each folder, under a name with the folder's digest.

    Raises:
        ValueError: the first folder cannot take part; the message says why.
        FileNotFoundError: there is no such folder, or the first holds no results.
    """
    admits = named("way with unverified folders", unverified, _UNVERIFIED)
    folders = [folders] if isinstance(folders, str | Path) else list(folders)
    if not folders:
        raise ValueError("No folders for a leaderboard: name at least one with results.")
    for folder in folders:  # before the first is played again
        check_is_folder(Path(folder))
    runner = checking_runner(backend, workers, progress)
    examined, notes = list[Examined](), list[str]()
    for folder in folders:
        try:
            one = examine(folder, runner)
        except FileNotFoundError as error:
            if not examined:  # the one that decides
                raise
            notes.append(printable(f"left out: {error}"))
            continue
        reason = _refusal(one, admits, examined[0].protocol if examined else None)
        text = printable(f"{one.verification.folder} {reason}")
        if reason and not examined:  # another one must not decide in its place, unnoticed
            raise ValueError(
                f"The first folder has to verify, because the page has its protocol; name another "
                f"one first. {text}"
            )
        if reason:
            notes.append(f"left out: {text}")
        else:
            examined.append(one)
    protocol = examined[0].protocol
    assert protocol is not None  # a folder without one is refused
    entrants = _entrants(protocol, examined, notes)
    cells = [stored for entrant in entrants.values() for stored in entrant.renamed()]
    table = table_of(cells)
    notes += [printable(entrant.note) for entrant in entrants.values() if entrant.note]
    return Leaderboard(
        protocol,
        tuple(_rows(protocol, table, entrants)),
        tuple(map(_source, examined)),
        (*notes, *_unranked(protocol, table, list(entrants))),
    )


# --- who takes part -------------------------------------------------------------------------------


def _refusal(folder: Examined, admits: bool, protocol: Protocol | None) -> str:
    """Say why a folder must not take part with those of a ``protocol``; empty if it may.

    Folders that are not verified take part only if it ``admits`` them.
    """
    failed = [check for check in folder.verification.checks if not check.holds]
    differing = [check for check in failed if check.verdict != MISSING]
    if differing:
        reasons = "; ".join(reason.removesuffix(".") for reason in differing[0].reasons)
        return f"did not pass verification: {differing[0].what}: {reasons}."
    if failed and not admits:
        lacking = _lacking(failed)
        return f"is not verified: {lacking}. Complete it, or mark it with --unverified mark."
    played = [cell for cell, stored in folder.cells.values() if stored.episodes]
    if folder.protocol is None or not played:
        return "holds no finished cells."
    if folder.protocol.ad_hoc:
        return "is an ad-hoc evaluation, which has no agreed bounds."
    if protocol is not None and folder.protocol.digest != protocol.digest:
        names = (f"{p.name} (digest {p.digest[:12]})" for p in (folder.protocol, protocol))
        return f"has {' and not '.join(names)}. Make a page for each."
    try:
        check_units(played)
    except ValueError as error:
        return f"cannot be ranked: {error}"
    return ""


def _lacking(checks: Sequence[Check]) -> str:
    """Say which parts of a folder are missing; empty if none is."""
    return "; ".join(f"{check.what} is missing" for check in checks if check.verdict == MISSING)


def _source(folder: Examined) -> Source:
    facts = folder.verification
    reasons = tuple(map(printable, facts.deviations))
    return Source(printable(facts.folder), facts.results, _lacking(facts.checks), reasons)


@dataclass(frozen=True)
class _Entrant:
    """One policy with its cells from one folder, or the same from several."""

    name: str  # in the table
    policy: str
    cells: Mapping[Cell, store.Stored]
    checks: Mapping[Cell, Check]
    folders: tuple[Examined, ...]
    note: str = ""

    def renamed(self) -> list[store.Stored]:
        """Return the cells under the name in the table."""
        return [_called(stored, self.name) for stored in self.cells.values()]


def _called(stored: store.Stored, name: str) -> store.Stored:
    """Return a cell as that of a policy called ``name``."""
    parts = (stored.episodes, stored.progress, stored.failure)
    episodes, progress, failure = (
        None if part is None else replace(part, cell=replace(part.cell, policy=name))
        for part in parts
    )
    changed = {"episodes": episodes, "progress": progress, "failure": failure}
    return stored._replace(**changed)  # type: ignore[arg-type]


def _entrants(
    protocol: Protocol, examined: Sequence[Examined], notes: list[str]
) -> dict[str, _Entrant]:
    """Return every policy of all folders: once if its results agree, else once for each folder.

    Of two with the same name the later one is left out, with a note.
    """
    entrants: dict[str, _Entrant] = {}
    for same in _by_policy(protocol, examined).values():
        for entrant in same if len(same) == 1 else map(_named_after_folder, same):
            if entrant.name in entrants:
                place = entrant.folders[0].verification.folder
                text = f"left out: {entrant.name} of {place}, called like another policy"
                notes.append(printable(text))
            else:
                entrants[entrant.name] = entrant
    return entrants


def _by_policy(protocol: Protocol, examined: Sequence[Examined]) -> dict[str, list[_Entrant]]:
    """Return the entrants of each policy; those with the same results are one."""
    by_policy: dict[str, list[_Entrant]] = {}
    for folder in examined:
        checks = {check.what: check for check in folder.verification.checks}
        for policy in dict.fromkeys(cell.policy for cell, _ in folder.cells.values()):
            cells = {c: stored for c, stored in folder.cells.values() if c.policy == policy}
            checked = {cell: checks[cell.folder] for cell in cells}
            entrant = _Entrant(policy, policy, cells, checked, (folder,))
            _join(protocol, by_policy.setdefault(policy, []), entrant)
    return by_policy


def _named_after_folder(entrant: _Entrant) -> _Entrant:
    facts = entrant.folders[0].verification
    name = f"{entrant.policy} ({facts.results[:8] or printable(facts.folder)})"
    note = f"{name}: results of {entrant.policy} differ from folder to folder"
    return replace(entrant, name=name, note=note)


def _join(protocol: Protocol, entrants: list[_Entrant], new: _Entrant) -> None:
    """Add an entrant; one whose cells contain the other's, with the same results, is the same."""
    for number, old in enumerate(entrants):
        larger, smaller = (old, new) if _size(old) >= _size(new) else (new, old)
        if all(
            cell in larger.cells and _agree(protocol, stored, larger.cells[cell])
            for cell, stored in smaller.cells.items()
        ):
            entrants[number] = replace(larger, folders=(*old.folders, *new.folders))
            return
    entrants.append(new)


def _size(entrant: _Entrant) -> tuple[int, int]:
    """Return how many cells an entrant has, and how many of them are more than shipped scores."""
    blocks = [stored.episodes for stored in entrant.cells.values()]
    return len(blocks), sum(block is None or block.trace is not None for block in blocks)


def _agree(protocol: Protocol, one: store.Stored, two: store.Stored) -> bool:
    """Whether two cells hold the same results; of shipped scores, as far as these go."""
    if one.episodes is None or two.episodes is None:
        return one.episodes is two.episodes and one.failure == two.failure
    blocks = one.episodes, two.episodes
    if all(block.trace is not None for block in blocks):
        first, second = map(store.results_sum, blocks)
        return first == second
    task = protocol.task_of(one.episodes.cell.task)
    scores, others = (arrays_of(protocol, task, [block]) for block in blocks)
    return all(np.array_equal(scores[name], others[name], equal_nan=True) for name in scores)


# --- the table ------------------------------------------------------------------------------------


def _rows(
    protocol: Protocol, table: EpisodeTable, entrants: Mapping[str, _Entrant]
) -> Iterator[Row]:
    """Yield the rows of every group, the best first."""
    findings = Findings(protocol, table)
    ranked = {(row.group, row.policy): row for row in findings.ranks}
    rows, trimmed = (findings.aggregates_of(name) for name in ("mean", "trimmed_mean"))
    middle = {(row.group, row.policy): row.estimate for row in trimmed}
    groups = list(protocol.groups)
    for row in sorted(rows, key=lambda row: (groups.index(row.group), -row.estimate)):
        rank, entrant = ranked.get((row.group, row.policy)), entrants[row.policy]
        tasks = {task.id for task in protocol.groups[row.group]}
        digests = (folder.verification.results for folder in entrant.folders)
        entry = entry_of(entrant.policy)
        yield Row(
            group=row.group,
            policy=printable(row.policy),
            mean=row.estimate,
            low=row.low,
            high=row.high,
            trimmed_mean=middle[row.group, row.policy],
            tie="" if rank is None else rank.tie,
            first=math.nan if rank is None else rank.low,
            last=math.nan if rank is None else rank.high,
            unit=row.unit,
            count=row.count,
            flag=row.flag,
            acts_on="" if entry is None else entry.acts_on,
            verified=_verified(entrant, tasks),
            results=tuple(dict.fromkeys(filter(None, digests))),
        )


def _verified(entrant: _Entrant, tasks: set[str]) -> str:
    """Say how the cells of a policy in a group were verified."""
    checks = [check for cell, check in entrant.checks.items() if cell.task in tasks]
    checks = [check for check in checks if check.episodes]
    played, total = sum(c.played for c in checks), sum(c.episodes for c in checks)
    text = "all episodes" if played == total else f"{played:,} of {total:,} episodes"
    if any(check.how == REPLAYED for check in checks):
        text += ", from stored actions"
    verdicts = {check.verdict for check in checks} & {CLOSE, BY_INTERVAL}
    close = "".join(f", {verdict}" for verdict in sorted(verdicts))
    if all(_lacking(folder.verification.checks) for folder in entrant.folders):
        return f"unverified folder; {text}{close}"
    return text + close


def _unranked(protocol: Protocol, table: EpisodeTable, names: Sequence[str]) -> Iterator[str]:
    """Yield why policies are left out of a group, and which runs failed."""
    for group, tasks in protocol.groups.items():
        for name in names:
            lacking = [task.id for task in tasks if not table.has_begun(task.id, name)]
            if lacking:
                where = f" of {group}" if group else ""
                yield printable(f"{name} lacks tasks{where}: {', '.join(lacking)}")
    for failure in table.failures:
        cell = failure.cell
        yield printable(f"run {cell.run} of {cell.policy} on {cell.task}: {failure.reason}")
