"""Leaderboard: verified results folders of one protocol, ranked on one static page.

Every folder is verified first. Scores are estimated anew over all policies at once; nothing is
taken from anybody's report.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coopbench.analysis import rankings
from coopbench.analysis.aggregates import aggregates
from coopbench.analysis.standings import Row, Source, Standings
from coopbench.baselines.registry import entry_of
from coopbench.episodes.table import Cell, EpisodeTable
from coopbench.files import write_text
from coopbench.playing.plan import check_units
from coopbench.playing.runner import CellProgress
from coopbench.protocol.schema import Protocol
from coopbench.report.leaderboard import as_html
from coopbench.results import store
from coopbench.results.folder import table_of
from coopbench.workflows.verdicts import CLOSE, MISSING, RERUN, Check, printable
from coopbench.workflows.verification import Examined, checking_runner, examine
from coopbench_envs.parameters import named

__all__ = ["Leaderboard", "leaderboard"]

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
            "rows": [_finite(dataclasses.asdict(row)) for row in self.rows],
            "sources": [dataclasses.asdict(source) for source in self.sources],
            "notes": self.notes,
        }
        return json.dumps(content, indent=1, allow_nan=False) + "\n"

    def to_html(self) -> str:
        """Return a page that needs nothing else and runs no script."""
        return as_html(self)

    def save(self, path: str | Path) -> tuple[Path, Path]:
        """Write the page, and the same as JSON beside it; return both files."""
        page = Path(path)
        if page.suffix != ".html":
            raise ValueError(f"{page} is to be a page; end its name in .html.")
        write_text(page, self.to_html())
        write_text(page.with_suffix(".json"), self.to_json())
        return page, page.with_suffix(".json")


def leaderboard(
    folders: Sequence[str | Path],
    unverified: str = "refuse",
    backend: str = "serial",
    workers: int | None = None,
    progress: CellProgress | None = None,
) -> Leaderboard:
    """Verify results folders of one protocol and merge them into one table.

    A folder in which something differs never takes part. One that has no manifest, or lacks cells
    that it lists, is not verified: it is refused, or with ``unverified="mark"`` marked.
    A policy that stands in several folders counts once if its results are the same; if they differ,
    each is named after its folder.

    Raises:
        ValueError: a folder is refused, the protocols are not the same, or have no agreed bounds.
        FileNotFoundError: a folder holds no results.
    """
    admits = named("way with unverified folders", unverified, _UNVERIFIED)
    if not folders:
        raise ValueError("No folders for a leaderboard: name at least one with results.")
    runner = checking_runner(backend, workers, progress)
    found = [examine(folder, runner) for folder in folders]
    for each in found:
        _check(each, admits)
    protocol = _common(found)
    entrants = list(_entrants(found))
    names = [each.name for each in entrants]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(f"Two policies are called {printable(repeated[0])}; leave one folder out.")
    table = table_of(stored for each in entrants for stored in each.renamed())
    check_units(block.cell for block in table)
    notes = [printable(each.note) for each in entrants if each.note]
    return Leaderboard(
        protocol,
        tuple(_rows(protocol, table, {each.name: each for each in entrants})),
        tuple(map(_source, found)),
        (*notes, *_unranked(protocol, table, names)),
    )


# --- who takes part -------------------------------------------------------------------------------


def _check(found: Examined, admits: bool) -> None:
    """Raise ``ValueError`` if a folder must not take part."""
    folder = found.verification.folder
    bad = [check for check in found.verification.checks if not check.holds]
    worse = [check for check in bad if check.verdict != MISSING]
    if worse:
        reasons = "; ".join(reason.removesuffix(".") for reason in worse[0].reasons)
        raise ValueError(f"{folder} is not what it claims to be: {worse[0].what}: {reasons}.")
    if bad and not admits:
        raise ValueError(
            f"{folder} is not verified: {_lacking(bad)}. Complete it, or mark it with "
            f"--unverified mark."
        )
    if not any(stored.episodes for _, stored in found.cells.values()):
        raise ValueError(f"{folder} holds no finished cells; leave it out.")


def _lacking(checks: Sequence[Check]) -> str:
    return "; ".join(f"{check.what} is missing" for check in checks if check.verdict == MISSING)


def _common(found: Sequence[Examined]) -> Protocol:
    """Return the one protocol of all folders."""
    first = found[0]
    if first.protocol is None:
        raise ValueError(f"{first.verification.folder} has no protocol.")
    for other in found[1:]:
        if other.verification.digest != first.verification.digest:
            one, two = (
                f"{v.folder} has {v.protocol} (digest {v.digest[:12]})"
                for v in (first.verification, other.verification)
            )
            raise ValueError(f"Folders of two protocols: {one}, {two}. Make a page for each.")
    if first.protocol.ad_hoc:
        raise ValueError("An ad-hoc evaluation has no agreed bounds, hence no leaderboard.")
    return first.protocol


def _source(found: Examined) -> Source:
    facts = found.verification
    reasons = tuple(map(printable, facts.departures))
    return Source(facts.folder, facts.results, _lacking(facts.checks), reasons)


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
        """Cells under the name of the table."""
        return [_called(stored, self.name) for stored in self.cells.values()]


def _called(stored: store.Stored, name: str) -> store.Stored:
    """A cell as that of a policy called ``name``."""
    parts = (stored.episodes, stored.progress, stored.failure)
    episodes, progress, failure = (
        None if part is None else replace(part, cell=replace(part.cell, policy=name))
        for part in parts
    )
    changed = {"episodes": episodes, "progress": progress, "failure": failure}
    return stored._replace(**changed)  # type: ignore[arg-type]


def _entrants(found: Sequence[Examined]) -> Iterator[_Entrant]:
    """Yield every policy of all folders: once if its results agree, else once for each folder."""
    by_policy: dict[str, list[_Entrant]] = {}
    for each in found:
        checks = {check.what: check for check in each.verification.checks}
        for policy in dict.fromkeys(cell.policy for cell, _ in each.cells.values()):
            cells = {cell: there for cell, there in each.cells.values() if cell.policy == policy}
            own = {cell: checks[cell.folder] for cell in cells}
            one = _Entrant(policy, policy, cells, own, (each,))
            _join(by_policy.setdefault(policy, []), one)
    for entrants in by_policy.values():
        if len(entrants) == 1:
            yield entrants[0]
            continue
        for entrant in entrants:
            facts = entrant.folders[0].verification
            name = f"{entrant.policy} ({facts.results[:8] or facts.folder})"
            note = f"{name}: results of {entrant.policy} differ from folder to folder"
            yield replace(entrant, name=name, note=note)


def _join(entrants: list[_Entrant], new: _Entrant) -> None:
    """Add an entrant; one whose cells contain the other's, with the same results, is the same."""
    for number, old in enumerate(entrants):
        more, less = (old, new) if len(old.cells) >= len(new.cells) else (new, old)
        if all(c in more.cells and _same(less.cells[c], more.cells[c]) for c in less.cells):
            entrants[number] = replace(more, folders=(*old.folders, *new.folders))
            return
    entrants.append(new)


def _same(one: store.Stored, two: store.Stored) -> bool:
    """Whether two cells hold the same results."""
    return _sum(one) == _sum(two)


def _sum(stored: store.Stored) -> str:
    if stored.episodes is None:
        return f"failed: {stored.failure}"
    return hashlib.sha256(store.lines(stored.episodes)).hexdigest()


# --- the table ------------------------------------------------------------------------------------


def _rows(
    protocol: Protocol, table: EpisodeTable, entrants: Mapping[str, _Entrant]
) -> Iterator[Row]:
    """Yield the rows of every group, the best first."""
    ranked = {(row.group, row.policy): row for row in rankings.ranks(protocol, table)}
    found = [row for row in aggregates(protocol, table) if row.statistic == "iqm"]
    groups = list(protocol.groups)
    for row in sorted(found, key=lambda row: (groups.index(row.group), -row.estimate)):
        rank, entrant = ranked.get((row.group, row.policy)), entrants[row.policy]
        tasks = {task.id for task in protocol.groups[row.group]}
        digests = (each.verification.results for each in entrant.folders)
        entry = entry_of(entrant.policy)
        yield Row(
            group=row.group,
            policy=printable(row.policy),
            iqm=row.estimate,
            low=row.low,
            high=row.high,
            first=math.nan if rank is None else rank.low,
            last=math.nan if rank is None else rank.high,
            unit=row.unit,
            count=row.count,
            method=row.method,
            flag=row.flag,
            acts_on="" if entry is None else entry.information,
            verified=_verified(entrant, tasks),
            results=tuple(dict.fromkeys(filter(None, digests))),
        )


def _verified(entrant: _Entrant, tasks: set[str]) -> str:
    """How the cells of a policy in a group were verified, in words."""
    checks = [check for cell, check in entrant.checks.items() if cell.task in tasks]
    checks = [check for check in checks if check.episodes]
    played, total = sum(c.played for c in checks), sum(c.episodes for c in checks)
    whole = all(check.how == RERUN for check in checks)
    text = "all episodes" if whole else f"{played:,} of {total:,} episodes"
    close = ", within tolerance" if any(check.verdict == CLOSE for check in checks) else ""
    if all(_lacking(each.verification.checks) for each in entrant.folders):
        return f"unverified folder; {text}{close}"
    return text + close


def _unranked(protocol: Protocol, table: EpisodeTable, names: Sequence[str]) -> Iterator[str]:
    """Yield why policies are left out of a group, and which runs failed."""
    for group, tasks in protocol.groups.items():
        for name in names:
            lacking = [task.id for task in tasks if not table.runs(task.id, name)]
            if lacking:
                where = f" of {group}" if group else ""
                yield printable(f"{name} lacks tasks{where}: {', '.join(lacking)}")
    for failure in table.failures:
        cell = failure.cell
        yield printable(f"run {cell.run} of {cell.policy} on {cell.task}: {failure.reason}")


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """A row with None for every number that is not finite."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }
