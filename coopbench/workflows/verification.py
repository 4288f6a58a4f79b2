"""Verification: play a results folder again and say, part by part, whether it is what it claims.

A folder is read and never written to, and nothing in it is believed: files are data of bounded
size, links are not followed, and whatever is wrong with a file is a line of the answer.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from coopbench.analysis.departures import departures
from coopbench.episodes.table import Cell
from coopbench.errors import DamagedResultError, OtherProtocolError, ProtocolError
from coopbench.files import read_bounded
from coopbench.playing.runner import CellProgress, Event, Runner
from coopbench.protocol.loading import load_protocol, protocol_files
from coopbench.protocol.schema import Protocol
from coopbench.protocol.user_maps import are_replaced
from coopbench.report.loading import report_of
from coopbench.results import store
from coopbench.results.folder import table_of
from coopbench.results.manifest import NAME, Manifest, cell_folders, read_manifest
from coopbench.workflows.resimulation import (
    ABSOLUTE,
    DIFFERENT,
    FAILED,
    IDENTICAL,
    MISSING,
    RELATIVE,
    Check,
    CheckJob,
    Finding,
    concluded,
    elsewhere,
    printable,
)

__all__ = ["Examined", "Verification", "examine", "show", "verify"]

SCHEMA = 1
_REPORT = "report.json"
# Of a report: where and how it was made, in words, not what it found.
_WORDS = ("versions", "notes", "checklist", "cards")
_LONG = 40  # cells beyond which those that are identical share a line


@dataclass(frozen=True)
class Verification:
    """What became of verifying a results folder."""

    folder: str
    protocol: str  # its name; empty if it cannot be read
    digest: str  # of the protocol
    results: str  # digest of the results, as the manifest states it; empty without one
    checks: tuple[Check, ...]  # protocol.json, manifest.json, every cell, report.json if there
    departures: tuple[str, ...]  # why it holds no standard report; empty if it does

    @property
    def identical(self) -> bool:
        """Whether everything came out as stored, to the bit, as far as it could be played again."""
        return all(check.verdict in (IDENTICAL, FAILED) for check in self.checks)

    @property
    def holds(self) -> bool:
        """Whether nothing differs beyond tolerance and nothing is missing."""
        return all(check.holds for check in self.checks)

    @property
    def cells(self) -> tuple[Check, ...]:
        """The checks of cells alone."""
        return tuple(check for check in self.checks if "/" in check.what)

    def to_json(self) -> str:
        """Return everything as JSON."""
        content = {
            "schema": SCHEMA,
            "holds": self.holds,
            "identical": self.identical,
            **dataclasses.asdict(self),
        }
        return json.dumps(content, indent=1) + "\n"


class Examined(NamedTuple):
    """A verification, with what was read for it."""

    verification: Verification
    protocol: Protocol | None
    cells: dict[str, tuple[Cell, store.Stored]]  # by folder; those that could be read


def verify(
    folder: str | Path,
    backend: str = "serial",
    workers: int | None = None,
    progress: CellProgress | None = None,
) -> Verification:
    """Verify a results folder: protocol, digests, every cell, and the report.

    Cells of policies that are known by name are played again whole; of other policies the recorded
    episodes are. ``backend`` and ``workers`` are those of ``evaluate``.

    Raises ``FileNotFoundError`` if there is no such folder, or no ``protocol.json`` in it.
    """
    return examine(folder, checking_runner(backend, workers, progress)).verification


def checking_runner(backend: str, workers: int | None, progress: CellProgress | None) -> Runner:
    """Return a runner for ``examine``; names of policies are shown as one printable line."""
    if progress is None:
        return Runner(backend, workers)

    def tell(job: CheckJob, share: float, event: Event) -> None:
        progress(replace(job.cell, policy=printable(job.cell.policy)), share, event)

    return Runner(backend, workers, tell)


def examine(folder: str | Path, runner: Runner) -> Examined:
    """Verify a results folder and return also what is in it; see ``verify``."""
    root = Path(folder)
    if not (root / "protocol.json").is_file():
        raise FileNotFoundError(f"{root} holds no results: there is no protocol.json in it.")
    try:
        protocol = store.read_protocol(root / "protocol.json")
    except ProtocolError as error:
        check = concluded("protocol.json", [Finding(str(error))])
        return Examined(Verification(str(root), "", "", "", (check,), ()), None, {})
    places = cell_folders(root)
    manifest, chain = _manifest(root, protocol)
    cells: dict[str, tuple[Cell, store.Stored]] = {}
    checks = {place: _read(root, protocol, place, cells) for place in places}
    jobs = [CheckJob(protocol, found) for _, found in cells.values() if found.episodes]
    with runner.run(jobs) as finished:
        checks |= {job.cell.folder: check for job, check in finished}
    for place, finding in _strangers(protocol, cells):
        found = checks[place]
        told = (printable(finding), *found.reasons)
        checks[place] = replace(found, verdict=DIFFERENT, reasons=told)
    lacking = [Check(c, MISSING, (f"{NAME} lists it",)) for c in manifest.cells if c not in places]
    parts = [_whose(protocol), _listed(root, places, manifest, chain), *checks.values(), *lacking]
    reasons: tuple[str, ...] = ()
    if jobs and all(check.holds for check in checks.values()):
        table = table_of(found for _, found in cells.values())
        reasons = departures(protocol, table)
        parts += _reported(root, protocol, list(cells.values()))
    facts = str(root), protocol.name, protocol.digest, manifest.results
    return Examined(Verification(*facts, tuple(parts), reasons), protocol, cells)


def _strangers(
    protocol: Protocol, cells: Mapping[str, tuple[Cell, store.Stored]]
) -> Iterator[tuple[str, str]]:
    """Cells of training runs that another policy has played than that of their own training.

    That lies in the cell of the task which the run was trained on.
    """
    own = {task.id: task.trained_on or task.id for task in protocol.task}
    for place, (cell, found) in cells.items():
        home = replace(cell, task=protocol.family(cell.policy)[1] or own[cell.task]).folder
        trained = cells[home][1] if home in cells else None
        if found.policy is None or cell.run is None or trained is None or home == place:
            continue
        same = trained.policy is not None and trained.policy.pack() == found.policy.pack()
        if not same or trained.meta["training"] != found.meta["training"]:
            yield place, f"it was played by another policy than was trained in {home}"


# --- the protocol ---------------------------------------------------------------------------------


def _whose(protocol: Protocol) -> Check:
    """Whether a protocol that bears the name of one of this package is that one."""
    name, what = protocol.name, "protocol.json"
    files = protocol_files()
    shipped = load_protocol(protocol.protocol.name) if protocol.protocol.name in files else None
    if shipped is None or shipped.name != name:
        return Check(what, IDENTICAL, (f"{name} is not a protocol of this package",))
    if shipped.digest == protocol.digest:
        return Check(what, IDENTICAL, (f"it is the {name} of this package",))
    if are_replaced(shipped, protocol):
        return Check(what, IDENTICAL, (f"it is the {name} of this package on other maps",))
    return concluded(what, [Finding(f"it is not the {name} of this package, though called so")])


# --- the manifest ---------------------------------------------------------------------------------


def _manifest(root: Path, protocol: Protocol) -> tuple[Manifest, Check]:
    """What the manifest lists, and whether its chain holds."""
    if not (root / NAME).exists():
        reason = "the evaluation was not finished, or is of an older version; evaluate again"
        return Manifest({}, ""), Check(NAME, MISSING, (reason,))
    try:
        return read_manifest(root, protocol.digest), Check(NAME, IDENTICAL)
    except DamagedResultError as error:
        return Manifest({}, ""), concluded(NAME, [Finding(str(error))])


def _listed(root: Path, places: list[str], manifest: Manifest, chain: Check) -> Check:
    """Whether the manifest lists what is there, with its sums."""
    if not chain.holds:
        return chain
    findings = [
        Finding(f"{place} is not listed") for place in places if place not in manifest.cells
    ]
    for place in (place for place in places if place in manifest.cells):
        try:
            content = read_bounded(root / place / "meta.json")
        except DamagedResultError as error:
            findings.append(Finding(str(error)))
            continue
        if hashlib.sha256(content).hexdigest() != manifest.cells[place]:
            findings.append(
                Finding(f"{place}/meta.json was changed: its sum is not the listed one")
            )
    return concluded(NAME, findings)


# --- cells ----------------------------------------------------------------------------------------


def _read(
    root: Path, protocol: Protocol, place: str, cells: dict[str, tuple[Cell, store.Stored]]
) -> Check:
    """Read a cell into ``cells``; what is returned holds until it has been played again."""
    try:
        _check_links(root, place)
        cell = store.cell_of(root / place / "meta.json")
        found = store.read(root, protocol, cell)
        if cell.folder != place or found is None:
            raise DamagedResultError(f"It is the cell of the folder {cell.folder}.")
        if cell.task not in (task.id for task in protocol.task):
            raise DamagedResultError(f"The protocol has no task {cell.task!r}.")
        if found.episodes is not None:
            content = read_bounded(root / place / "results.jsonl")
            if content != store.lines(found.episodes):
                raise DamagedResultError("results.jsonl is not written as it would be here.")
    except OtherProtocolError:
        return concluded(place, [Finding("it was played with another protocol than protocol.json")])
    except (DamagedResultError, OSError) as error:
        return concluded(place, [Finding(str(error))])
    cells[place] = cell, found
    if found.failure is not None:
        return Check(place, FAILED, (printable(found.failure.reason),))
    return Check(place, DIFFERENT, ("it has not been played again",))


def _check_links(root: Path, place: str) -> None:
    folder = root / place
    for path in (folder, *folder.iterdir()):
        if path.is_symlink():
            raise DamagedResultError(f"{path} is a link; results are files of their own.")


# --- the report -----------------------------------------------------------------------------------


def _reported(
    root: Path, protocol: Protocol, cells: list[tuple[Cell, store.Stored]]
) -> Iterator[Check]:
    """Whether the stored report, if there is one, is what its episodes come to."""
    from coopbench.report.data import as_json

    file = root / _REPORT
    if not file.exists():
        return
    try:
        stored = json.loads(read_bounded(file))
        order = list(dict.fromkeys(row["policy"] for row in stored["estimates"]))
        played = {cell.policy for cell, found in cells if found.episodes is not None}
        left_out = played - set(order)  # it is about some of the policies only
        chosen = [each for each in cells if each[0].policy not in left_out]
        again = json.loads(as_json(report_of(protocol, chosen, order)))
        findings = list(_apart(stored, again, ""))
        other = [f"{n} {v}" for n, v in again["versions"].items() if stored["versions"].get(n) != v]
    except (
        DamagedResultError,
        LookupError,
        TypeError,
        AttributeError,
        ValueError,
        RecursionError,
    ) as error:
        findings, other = [Finding(f"it cannot be compared with its episodes: {error}")], []
    there = [elsewhere(found.meta) for _, found in cells if found.episodes is not None]
    yield concluded(_REPORT, findings, ", ".join(other) or next(filter(None, there), ""))


def _apart(stored: Any, again: Any, where: str) -> Iterator[Finding]:
    """Differences between two values of JSON."""
    if isinstance(stored, dict) and isinstance(again, dict):
        for key in {**again, **stored}:
            if not where and key in _WORDS:
                continue
            if key not in stored or key not in again:
                what = "missing" if key not in stored else "not part of it"
                yield Finding(f"{where}{key} is {what}")
            else:
                yield from _apart(stored[key], again[key], f"{where}{key}.")
    elif isinstance(stored, list) and isinstance(again, list):
        if len(stored) != len(again):
            yield Finding(f"{where[:-1]} has {len(stored)} entries; its episodes give {len(again)}")
        for k, (one, two) in enumerate(zip(stored, again, strict=False)):
            yield from _apart(one, two, f"{where}{k}.")
    elif stored != again or type(stored) is not type(again):
        close = _sentence(stored, again, where)  # another version may say it otherwise
        if isinstance(stored, float) and isinstance(again, float):
            close = math.isclose(stored, again, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
        text = f"{where[:-1]} is {stored!r}; its episodes give {again!r}"
        yield Finding(text, close=close)


def _sentence(stored: Any, again: Any, where: str) -> bool:
    """Whether both are a reason in words: of a number, or why the report is not a standard one."""
    words = isinstance(stored, str) and isinstance(again, str) and bool(stored and again)
    return words and (where.endswith(".flag.") or where.startswith("departures."))


# --- terminal -------------------------------------------------------------------------------------


def show(found: Verification, console: Any) -> None:
    """Print a verification on a rich console: a line for each part, then what is wrong.

    Where there are many cells, those that are identical share a line.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    differ = any(check.step is not None or check.differing for check in found.checks)
    grid.add_column("Part", overflow="fold")
    for name in ("Verdict", "Played again", *(["First step", "Episodes"] if differ else [])):
        grid.add_column(name)
    for check in _shown(found):
        again = f"{check.played:,} of {check.episodes:,}" if check.episodes else ""
        step = "" if check.step is None else f"{check.step:,}"
        apart = " ".join(map(str, check.differing))
        style = "" if check.holds else "bold red"
        where = [step, apart] if differ else []
        grid.add_row(Text(check.what), Text(check.verdict, style), again, *where)
    console.print(grid)
    if differ:
        console.print(Text("First step, Episodes: the first that differ.", style="dim"))
    for check in found.checks:
        for reason in check.reasons:
            console.print(Text(f"{check.what}: {reason}", style="" if check.holds else "red"))
    for line in _conclusion(found):
        console.print(Text(line), soft_wrap=True)


def _shown(found: Verification) -> Iterator[Check]:
    """Yield a check for every line."""
    same = [check for check in found.cells if check.verdict == IDENTICAL]
    together = len(same) > _LONG
    yield from (check for check in found.checks if not (together and check in same))
    if together:
        sums = sum(check.episodes for check in same), sum(check.played for check in same)
        yield Check(f"{len(same):,} cells", IDENTICAL, episodes=sums[0], played=sums[1])


def _conclusion(found: Verification) -> Iterator[str]:
    """Sentences that say what a verification amounts to."""
    played = sum(check.played for check in found.cells)
    total = sum(check.episodes for check in found.cells)
    yield f"Digest of the results: {found.results or 'none stated'}"
    for reason in found.departures:
        yield f"Not a standard report: {reason}"
    rest = "" if played == total else "; nothing but their digests speaks for the others"
    yield f"{played:,} of {total:,} episodes were played again{rest}."
    if not found.holds:
        count = sum(not check.holds for check in found.checks)
        yield f"NOT VERIFIED: {count} of {len(found.checks)} parts are different or missing."
    else:
        yield "Verified: " + ("identical." if found.identical else "equal within tolerance.")
