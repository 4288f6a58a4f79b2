"""Verification: play a results folder again and check whether every part can be reproduced.

A folder is only read, and nothing in it is trusted: files are data of bounded size, links are not
followed, and every problem of a file is a line of the result.
"""

import dataclasses
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import coopbench_envs
from coopbench.analysis.departures import departures
from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench.baselines.registry import entries
from coopbench.episodes.names import imitations
from coopbench.episodes.table import Cell
from coopbench.errors import DamagedResultError, OtherProtocolError, ProtocolError
from coopbench.files import UNREADABLE, digest_of, parsed, read_bounded
from coopbench.playing.bars import CellProgress
from coopbench.playing.runner import Event, Runner
from coopbench.protocol.differences import are_same, differing_keys, differing_wording
from coopbench.protocol.loading import load_protocol, protocol_files
from coopbench.protocol.schema import Protocol
from coopbench.protocol.selection import is_part
from coopbench.protocol.user_maps import are_replaced
from coopbench.report.data import as_json
from coopbench.report.loading import report_of
from coopbench.results import store
from coopbench.results.folder import table_of
from coopbench.results.manifest import NAME, Manifest, cell_folders, read_manifest
from coopbench.results.protocol_file import read_protocol
from coopbench.results.registration import read_registration
from coopbench.workflows.foreign_cells import permit_environments, unplayable, with_code
from coopbench.workflows.likeness import likenesses
from coopbench.workflows.reference_check import Included, included_runs, played_again
from coopbench.workflows.resimulation import CheckJob
from coopbench.workflows.verdicts import (
    ABSOLUTE,
    DIFFERENT,
    FAILED,
    IDENTICAL,
    MISSING,
    RELATIVE,
    UNVERIFIABLE,
    Check,
    Finding,
    concluded,
    elsewhere,
    printable,
)
from coopbench_envs.arrays import pack, unpack

__all__ = ["Examined", "Verification", "checking_runner", "examine", "verify"]

SCHEMA = 1
_FEWEST = 12  # first digits of a digest that name some code
_REPORT = "report.json"
# Parts of a report that say how it was made; they cannot follow from the episodes.
_WORDS = ("versions", "notes")


Cells: TypeAlias = dict[str, tuple[Cell, store.Stored]]  # cells that could be read, by folder


@dataclass(frozen=True)
class Verification:
    """The result of verifying a results folder."""

    folder: str
    protocol: str  # its name; empty if it cannot be read
    digest: str  # of the protocol
    results: str  # digest of the results, as the manifest states it; empty without one
    checks: tuple[Check, ...]  # protocol.json, manifest.json, every cell, and report.json
    departures: tuple[str, ...]  # why its report is not standard; empty if it is

    @property
    def identical(self) -> bool:
        """Whether everything that could be played again is the same as stored, bit for bit."""
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
    """A verification, with the protocol and the cells that were read for it."""

    verification: Verification
    protocol: Protocol | None
    cells: Cells


def verify(
    folder: str | Path,
    backend: str = "serial",
    workers: int | None = None,
    progress: CellProgress | None = None,
    trust: Sequence[str] = (),
    play_reference: bool = False,
    env: Sequence[str] = (),
) -> Verification:
    """Verify a results folder: protocol, digests, every cell, and the report.

    Registered policies, and trained ones whose weights the results hold, play all of their episodes
    again. The episodes of any other policy are played again from its stored actions. Code that the
    results have stored is not executed, unless ``trust`` names the SHA-256 digest of its source, by
    12 or more of its first digits: it then plays all of its episodes. Only trust what you have
    read: it runs with your rights. Reference runs that ship with this package and are part of the
    report are compared by their digest; with ``play_reference`` they are played again as well.
    Environments of other packages are made, with the parameters that the results state, only if
    ``env`` names them; their cells are not verifiable otherwise. A registered environment that is
    not installed is named by its file, FILE.py:SPEC.
    ``backend`` and ``workers`` are those of ``evaluate``.

    Raises ``FileNotFoundError`` if there is no such folder, or no ``protocol.json`` in it.
    """
    runner = checking_runner(backend, workers, progress)
    return examine(folder, runner, trust, play_reference, env).verification


def checking_runner(backend: str, workers: int | None, progress: CellProgress | None) -> Runner:
    """Return a runner for ``examine``; names of policies are shown as one printable line."""
    if progress is None:
        return Runner(backend, workers)

    def tell(job: CheckJob, share: float, event: Event) -> None:
        progress(replace(job.cell, policy=printable(job.cell.policy)), share, event)

    return Runner(backend, workers, tell)


def examine(
    folder: str | Path,
    runner: Runner,
    trust: Sequence[str] = (),
    play_reference: bool = False,
    env: Sequence[str] = (),
) -> Examined:
    """Verify a results folder and return its protocol and cells as well; see ``verify``."""
    root = Path(folder)
    if not (root / "protocol.json").is_file():
        raise FileNotFoundError(f"{root} holds no results: there is no protocol.json in it.")
    for name in env:
        coopbench_envs.spec(name)  # registers that of a file
    try:
        protocol = read_protocol(root)
    except ProtocolError as error:
        check = concluded("protocol.json", [Finding(str(error))])
        return Examined(Verification(str(root), "", "", "", (check,), ()), None, {})
    places = cell_folders(root)
    manifest, chain = _manifest(root, protocol)
    permit_environments(protocol, env)
    checks, cells = _cell_checks(root, protocol, runner, trust, env)
    lacking = [Check(c, MISSING, (f"{NAME} lists it",)) for c in manifest.cells if c not in places]
    parts = [
        _protocol_check(protocol),
        _manifest_check(root, places, manifest, chain),
        *checks.values(),
        *lacking,
    ]
    deviations: tuple[str, ...] = ()
    played = any(stored.episodes for _, stored in cells.values())
    if played and all(check.holds for check in checks.values()):
        try:
            shipped = included_runs(root / _REPORT, protocol, [cell for cell, _ in cells.values()])
            table = table_of(stored for _, stored in (*cells.values(), *shipped.cells))
            alike = (printable(f"{what} {why}") for what, why in likenesses(protocol, cells))
            deviations = (*departures(protocol, table), *alike)
        except (DamagedResultError, *UNREADABLE) as error:
            reason = f"its cells cannot be put into one report: {type(error).__name__}: {error}"
            parts.append(concluded(_REPORT, [Finding(reason)]))
        else:
            parts += _report_checks(root, protocol, list(cells.values()), shipped)
            if play_reference:
                parts += played_again(protocol, shipped, runner)
    facts = str(root), protocol.name, protocol.digest, manifest.results
    return Examined(Verification(*facts, tuple(parts), deviations), protocol, cells)


def _cell_checks(
    root: Path, protocol: Protocol, runner: Runner, trust: Sequence[str], env: Sequence[str]
) -> tuple[dict[str, Check], Cells]:
    """Read all cells and play them again; return their checks and those that could be read."""
    cells: Cells = {}
    checks = {place: _read(root, protocol, place, cells) for place in cell_folders(root)}
    played = [(cell, stored) for cell, stored in cells.values() if stored.episodes]
    trusted = _trusted(trust, [stored for _, stored in played])
    checks |= unplayable(protocol, cells, env)
    jobs = [
        CheckJob(protocol, cell, stored, trusted)
        for cell, stored in played
        if checks[cell.folder].verdict != UNVERIFIABLE
    ]
    with runner.run(jobs) as finished:
        checks |= {
            job.cell.folder: with_code(protocol, job.cell, job.stored, check)
            for job, check in finished
        }
    findings = (
        *(*_look_alikes(cells), *_other_sources(cells)),
        *(*_other_trainings(protocol, cells), *_repeated_runs(cells)),
    )
    for place, reason in findings:
        check = checks[place]
        reasons = (printable(reason), *check.reasons)
        checks[place] = replace(check, verdict=DIFFERENT, reasons=reasons)
    return checks, cells


def _trusted(trust: Sequence[str], cells: Sequence[store.Stored]) -> tuple[str, ...]:
    """Return the digests of stored code that beginnings of digests name.

    Raises ``ValueError`` for a beginning that is too short, or that no code here has.
    """
    digests = {str(stored.meta["code"]["sha256"]) for stored in cells if stored.source is not None}
    for text in trust:
        if len(text) < _FEWEST or not any(digest.startswith(text) for digest in digests):
            raise ValueError(
                f"No code in these results has the digest {text!r}; allowed: {_FEWEST} or more "
                f"first digits of {', '.join(sorted(digests)) or 'none, as they hold no code'}."
            )
    return tuple(d for d in sorted(digests) if any(d.startswith(text) for text in trust))


def _look_alikes(cells: Cells) -> Iterator[tuple[str, str]]:
    """Yield cells of policies with names that a reader takes for others, with the reason."""
    alike = imitations((cell.policy for cell, _ in cells.values()), entries())
    for place, (cell, _) in cells.items():
        if cell.policy in alike:
            other = alike[cell.policy]
            yield place, f"the policy is called almost like {other!r}: {cell.policy!r}"


def _other_sources(cells: Cells) -> Iterator[tuple[str, str]]:
    """Yield cells of policies that have another source in an earlier cell, with the reason."""
    seen: dict[str, tuple[str, bytes | None]] = {}
    for place, (cell, stored) in cells.items():
        first, source = seen.setdefault(cell.policy, (place, stored.source))
        if source != stored.source and stored.episodes is not None:
            yield place, f"its policy has another source than in {first}, or none: two policies"


def _other_trainings(protocol: Protocol, cells: Cells) -> Iterator[tuple[str, str]]:
    """Yield cells of training runs that a policy of another training played, with the reason.

    The training of a run is the one in the cell of the task that the run was trained on.
    """
    trained_on = {task.id: task.trained_on or task.id for task in protocol.task}
    for place, (cell, stored) in cells.items():
        task = protocol.family(cell.policy)[1] or trained_on[cell.task]
        home = replace(cell, task=task).folder
        trained = cells[home][1] if home in cells else None
        if stored.policy is None or cell.run is None or trained is None or home == place:
            continue
        same = trained.policy is not None and trained.policy.pack() == stored.policy.pack()
        if not same or trained.meta["training"] != stored.meta["training"]:
            yield place, f"it was played by another policy than was trained in {home}"


def _repeated_runs(cells: Cells) -> Iterator[tuple[str, str]]:
    """Yield cells of training runs with the weights of another run, with the reason.

    Runs of two seeds do not end with equal weights.
    """
    seen: dict[tuple[str, str, str], str] = {}
    for place, (cell, stored) in cells.items():
        if cell.run is not None and stored.policy is not None:
            first = seen.setdefault((cell.task, cell.policy, _weights(stored.policy)), place)
            if first != place:
                yield place, f"it repeats {first}; runs of two training seeds differ"


def _weights(policy: TrainedPolicy) -> str:
    """Return the digest of a trained policy without what its file says of itself."""
    arrays = {name: values for name, values in unpack(policy.pack()).items() if name != "header"}
    return digest_of(pack(arrays, compressed=False))


# --- the protocol ---------------------------------------------------------------------------------


def _protocol_check(protocol: Protocol) -> Check:
    """Check that a protocol with the name of one of this package is that protocol."""
    name, what = protocol.name, "protocol.json"
    files = protocol_files()
    shipped = load_protocol(protocol.protocol.name) if protocol.protocol.name in files else None
    if shipped is None or shipped.name != name:
        return Check(what, IDENTICAL, (f"{name} is not a protocol of this package",))
    if are_same(shipped, protocol):
        reasons = [f"it is the {name} of this package"]
        wording = differing_wording(shipped, protocol)
        if wording:
            reasons.append(f"only its wording differs: {wording}")
        return Check(what, IDENTICAL, tuple(reasons))
    if are_replaced(shipped, protocol):
        return Check(what, IDENTICAL, (f"it is the {name} of this package on other maps",))
    if is_part(shipped, protocol):
        tasks = f"{len(protocol.task)} of the {len(shipped.task)} tasks"
        return Check(what, IDENTICAL, (f"it has {tasks} of the {name} of this package",))
    keys = differing_keys(shipped, protocol)
    reason = f"it is not the {name} of this package, though called so: it differs in {keys}"
    return concluded(what, [Finding(printable(reason))])


# --- the manifest ---------------------------------------------------------------------------------


def _manifest(root: Path, protocol: Protocol) -> tuple[Manifest, Check]:
    """Return what the manifest lists, and the check of its chain of digests."""
    if not (root / NAME).exists():
        reason = "the evaluation was not finished, or is of an older version; evaluate again"
        return Manifest({}, ""), Check(NAME, MISSING, (reason,))
    try:
        return read_manifest(root, protocol.digest), Check(NAME, IDENTICAL)
    except DamagedResultError as error:
        return Manifest({}, ""), concluded(NAME, [Finding(str(error))])


def _manifest_check(root: Path, places: list[str], manifest: Manifest, chain: Check) -> Check:
    """Check that the manifest lists every cell of the folder, with its checksum."""
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
        if digest_of(content) != manifest.cells[place]:
            findings.append(
                Finding(f"{place}/meta.json was changed: its sum is not the listed one")
            )
    return concluded(NAME, findings)


# --- cells ----------------------------------------------------------------------------------------


def _read(root: Path, protocol: Protocol, place: str, cells: Cells) -> Check:
    """Read a cell into ``cells``; return its check as long as it has not been played again."""
    try:
        _check_links(root, place)
        cell = store.cell_of(root / place / "meta.json")
        stored = store.read(root, protocol, cell)
        if cell.folder != place or stored is None:
            raise DamagedResultError(f"It is the cell of the folder {cell.folder}.")
        if cell.task not in (task.id for task in protocol.task):
            raise DamagedResultError(f"The protocol has no task {cell.task!r}.")
        _check_files(root / place, stored)
        episodes = stored.episodes
        if episodes is not None and store.read_lines(root / place, stored) != store.lines(episodes):
            raise DamagedResultError("Its lines are not formatted as this version does it.")
    except OtherProtocolError:
        return concluded(place, [Finding("it was played with another protocol than protocol.json")])
    except (DamagedResultError, OSError) as error:
        return concluded(place, [Finding(str(error))])
    cells[place] = cell, stored
    if stored.failure is not None:
        return Check(place, FAILED, (printable(stored.failure.reason),))
    return Check(place, DIFFERENT, ("it has not been played again",))


def _check_links(root: Path, place: str) -> None:
    folder = root / place
    for path in (folder, *folder.iterdir()):
        if path.is_symlink():
            raise DamagedResultError(f"{path} is a link; results must be regular files.")


def _check_files(folder: Path, stored: store.Stored) -> None:
    """Raise ``DamagedResultError`` for files that no checksum of the cell covers.

    The state of its training is no result, and a write that was cut off leaves a hidden file.
    """
    files = {"meta.json", "training"}
    files |= set() if stored.episodes is None else set(store.files_of(stored.meta))
    names = {path.name for path in folder.iterdir() if path.suffix != ".tmp"}
    for name in sorted({*names, *stored.meta.get("sha256", ())} - files):
        raise DamagedResultError(f"{folder} holds {name!r}, which is no file of its cell.")


# --- the report -----------------------------------------------------------------------------------


def _report_checks(
    root: Path,
    protocol: Protocol,
    cells: list[tuple[Cell, store.Stored]],
    shipped: Included,
) -> Iterator[Check]:
    """Check that the stored report, if there is one, follows from the episodes."""
    file = root / _REPORT
    if not file.exists():
        return
    if shipped.missing:
        yield Check(_REPORT, MISSING, (printable(shipped.missing),))
        return
    played = [(cell, stored) for cell, stored in cells if stored.episodes is not None]
    try:
        report = parsed(read_bounded(file))
        order = list(dict.fromkeys(row["policy"] for row in report["estimates"]))
        left_out = {cell.policy for cell, _ in played} - set(order)
        chosen = [(cell, stored) for cell, stored in cells if cell.policy not in left_out]
        study = read_registration(root)
        made = report_of(protocol, chosen, order, reference=bool(shipped.cells), registration=study)
        again = json.loads(as_json(made))
        is_same = report["schema"] == again["schema"]
        if is_same:
            findings = list(_differences(report, again, ""))
        else:
            findings = list(_differences(_lasting(report), _lasting(again), ""))
        versions = report["versions"]
        other = [f"{n} {v}" for n, v in again["versions"].items() if versions.get(n) != v]
    except (DamagedResultError, *UNREADABLE) as error:
        findings, other = [Finding(f"it cannot be compared with its episodes: {error}")], []
        is_same = True
    platforms = [elsewhere(stored.meta) for _, stored in played]
    made_on = ", ".join(other) or next(filter(None, platforms), "")
    check = concluded(_REPORT, findings, made_on)
    if check.holds and not is_same:
        check = replace(check, verdict=UNVERIFIABLE, reasons=_OLD)
    yield check


# Rules for intervals, aggregates and tests are others in each schema.
_OLD = (
    "it is of another schema, of which this version cannot make aggregates, comparisons and ranks "
    "again; 'coopbench report' writes one of this version",
)


# Of a part of report.json the columns that mean the same in every schema; None: all of them.
_LASTING: dict[str, tuple[str, ...] | None] = {
    "estimates": ("task", "policy", "metric", "count", "mean", "std", "unit"),
    "agents": ("task", "policy", "agent", "metric", "count", "mean", "std", "unit"),
    "missing_runs": None,
    "published": None,
    "late": None,
    "curves": None,
}


def _lasting(report: dict[str, Any]) -> dict[str, Any]:
    """Return what a report of another schema must have in common with one of this version."""
    facts = {name: report[name] for name in ("name", "digest", "standard", "protocol")}
    parts = {}
    for part, columns in _LASTING.items():
        rows = report[part]
        parts[part] = rows if columns is None else [{key: r[key] for key in columns} for r in rows]
    return facts | parts


def _differences(stored: Any, again: Any, where: str) -> Iterator[Finding]:
    """Yield the differences between two JSON values, at the path ``where``."""
    if isinstance(stored, dict) and isinstance(again, dict):
        for key in {**again, **stored}:
            if not where and key in _WORDS:
                continue
            if key not in stored or key not in again:
                problem = "missing" if key not in stored else "not part of it"
                yield Finding(f"{where}{key} is {problem}")
            else:
                yield from _differences(stored[key], again[key], f"{where}{key}.")
    elif isinstance(stored, list) and isinstance(again, list):
        if len(stored) != len(again):
            yield Finding(f"{where[:-1]} has {len(stored)} entries; its episodes give {len(again)}")
        for k, (one, two) in enumerate(zip(stored, again, strict=False)):
            yield from _differences(one, two, f"{where}{k}.")
    elif stored != again or type(stored) is not type(again):
        numbers = isinstance(stored, float) and isinstance(again, float)
        close = numbers and math.isclose(stored, again, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
        text = f"{where[:-1]} is {stored!r}; its episodes give {again!r}"
        yield Finding(text, close=close)
