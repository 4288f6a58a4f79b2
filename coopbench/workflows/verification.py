"""Verification: play a results folder again and check whether every part can be reproduced.

A folder is only read, and nothing in it is trusted: files are data of bounded size, links are not
followed, and every problem of a file is a line of the result.
"""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import coopbench_envs
from coopbench.analysis.deviations import deviations
from coopbench.errors import (
    DamagedResultError,
    OtherProtocolError,
    ProtocolError,
    UnregisteredError,
)
from coopbench.files import UNREADABLE, is_stray
from coopbench.playing.bars import CellProgress
from coopbench.playing.groups import groups_of
from coopbench.playing.runner import Event, Runner
from coopbench.protocol.loading import load_protocol, protocol_files
from coopbench.protocol.schema import Protocol
from coopbench.protocol.variants import (
    are_replaced,
    are_same,
    differing_keys,
    differing_wording,
    is_part,
)
from coopbench.results import store
from coopbench.results.folder import read_cell, table_of
from coopbench.results.manifest import (
    NAME,
    SHIPPED,
    Manifest,
    cell_folders,
    entries,
    entry_sum,
    link_on_the_way,
    read_manifest,
)
from coopbench.results.protocol_file import PROTOCOL, read_protocol
from coopbench.workflows.foreign_cells import permit_environments, unplayable, with_code
from coopbench.workflows.identities import Cells, mistaken
from coopbench.workflows.report_check import REPORT, report_checks
from coopbench.workflows.resimulation import CheckGroup, CheckJob
from coopbench.workflows.shipped_check import shipped_checks
from coopbench.workflows.verdicts import (
    DIFFERENT,
    FAILED,
    IDENTICAL,
    MISSING,
    UNVERIFIABLE,
    Check,
    Discrepancy,
    concluded,
    printable,
)
from coopbench.workflows.verified import Verification

_FEWEST = 12  # first digits of a digest that name some code


class Examined(NamedTuple):
    """A verification, with the protocol and the cells that were read for it."""

    verification: Verification
    protocol: Protocol | None
    cells: Cells


def verify(
    folder: str | Path,
    backend: str = "auto",
    workers: int | None = None,
    progress: CellProgress | None = None,
    trust: Sequence[str] = (),
    env: Sequence[str] = (),
    key: int | None = None,
    *,
    play_shipped: bool = False,
) -> Verification:
    """Verify a results folder: protocol, digests, every cell, and the report.

    Registered policies, and trained ones whose weights the results hold, play all of their episodes
    again. The episodes of any other policy are played again from its stored actions. Code that the
    results have stored is not executed, unless ``trust`` names the SHA-256 digest of its source, by
    12 or more of its first digits; it then plays all of its episodes. Trust only code that you have
    read: it runs with your rights. Environments of other packages are made, with the parameters
    that the results state, only if ``env`` names them; their cells are not verifiable otherwise. A
    registered environment that is not installed is named by its file, FILE.py:SPEC. Policies that
    this package does not ship get random numbers that follow from ``key`` (a whole number >= 0;
    None: a random one), not from the seeds; if their episodes then differ, their mean score is
    compared by an interval. Scores that a folder has from this package are compared with those that
    the package has; with ``play_shipped`` the runs that have scored them play all episodes again:
    30 s of one core for each run of coopetition-standard. ``backend`` and ``workers`` are those of
    ``evaluate``.

    Raises ``FileNotFoundError`` if there is no such folder, or no ``protocol.json`` in it.
    """
    runner = checking_runner(backend, workers, progress)
    return examine(folder, runner, trust, env, key, play_shipped).verification


def checking_runner(backend: str, workers: int | None, progress: CellProgress | None) -> Runner:
    """Return a runner for ``examine``; names of policies are shown as one printable line."""
    if progress is None:
        return Runner(backend, workers)

    def tell(group: CheckGroup, share: float, event: Event) -> None:
        for cell in group.cells:
            progress(replace(cell, policy=printable(cell.policy)), share, event)

    return Runner(backend, workers, tell)


def examine(
    folder: str | Path,
    runner: Runner,
    trust: Sequence[str] = (),
    env: Sequence[str] = (),
    key: int | None = None,
    play_shipped: bool = False,
) -> Examined:
    """Verify a results folder and return its protocol and cells as well; see ``verify``."""
    root = Path(folder)
    for name in env:
        coopbench_envs.spec(name)  # registers that of a file
    try:
        protocol = read_protocol(root)
    except ProtocolError as error:
        reason = printable(" ".join(str(error).split()))
        check = concluded(PROTOCOL, [Discrepancy(reason)])
        if isinstance(error, UnregisteredError):
            check = Check(PROTOCOL, UNVERIFIABLE, (f"not verifiable: {reason}",))
        return Examined(Verification(str(root), "", "", "", (check,), ()), None, {})
    places = entries(root)
    manifest, listed = _manifest(root, protocol, places)
    permit_environments(protocol, env)
    checks, cells = _cell_checks(root, protocol, runner, trust, env, key)
    checks |= shipped_checks(root, protocol, cells, runner if play_shipped else None)
    lacking = [
        Check(cell, MISSING, (printable(link_on_the_way(root, cell)) or f"{NAME} lists it",))
        for cell in manifest.cells
        if cell not in places
    ]
    parts = [_protocol_check(protocol), listed, *checks.values(), *lacking]
    reasons: tuple[str, ...] = ()
    played = any(stored.episodes for _, stored in cells.values())
    if played and all(check.holds for check in checks.values()):
        try:
            table = table_of(stored for _, stored in cells.values())
            reasons = deviations(protocol, table)
        except (DamagedResultError, *UNREADABLE) as error:
            reason = f"its cells cannot be put into one report: {type(error).__name__}: {error}"
            parts.append(concluded(REPORT, [Discrepancy(reason)]))
        else:
            parts += report_checks(root, protocol, list(cells.values()))
    facts = str(root), protocol.name, protocol.digest, manifest.results
    return Examined(Verification(*facts, tuple(parts), reasons), protocol, cells)


def _cell_checks(
    root: Path,
    protocol: Protocol,
    runner: Runner,
    trust: Sequence[str],
    env: Sequence[str],
    key: int | None,
) -> tuple[dict[str, Check], Cells]:
    """Read all cells and play them again; return their checks and those that could be read."""
    cells: Cells = {}
    checks = {place: _read(root, protocol, place, cells) for place in cell_folders(root)}
    played = [(cell, stored) for cell, stored in cells.values() if stored.episodes]
    trusted = _trusted(trust, [stored for _, stored in played])
    key = secrets.randbits(63) if key is None else key
    checks |= unplayable(protocol, cells, env)
    jobs = [
        CheckJob(protocol, cell, stored, trusted, key)
        for cell, stored in played
        if checks[cell.folder].verdict != UNVERIFIABLE
    ]
    with runner.run(_groups(jobs, runner.places)) as finished:
        checks |= {
            job.cell.folder: with_code(protocol, job.cell, job.stored, check)
            for group, results in finished
            for job, check in zip(group.jobs, results, strict=True)
        }
    for place, reason in mistaken(protocol, cells):
        check = checks[place]
        reasons = (printable(reason), *check.reasons)
        checks[place] = replace(check, verdict=DIFFERENT, reasons=reasons)
    return checks, cells


def _groups(jobs: Sequence[CheckJob], workers: int) -> list[CheckGroup]:
    """Put checks of cells together that can be played together."""
    try:
        groups = groups_of(jobs, [job.model for job in jobs], workers)
    except Exception:  # the content of a file may cause any error, which the check of a cell names
        groups = [[job] for job in jobs]
    return [CheckGroup(tuple(group)) for group in groups]


def _trusted(trust: Sequence[str], cells: Sequence[store.Stored]) -> tuple[str, ...]:
    """Return the digests of stored code that beginnings of digests name.

    Raises ``ValueError`` for a beginning that is too short, or that no code here has.
    """
    digests = {str(stored.meta["code"]["sha256"]) for stored in cells if stored.source is not None}
    if trust and not digests:
        raise ValueError("These results hold no code that could be trusted; leave out trust.")
    for text in trust:
        if len(text) < _FEWEST or not any(digest.startswith(text) for digest in digests):
            raise ValueError(
                f"No code in these results has the digest {text!r}; allowed: {_FEWEST} or more "
                f"first digits of {', '.join(sorted(digests))}."
            )
    return tuple(d for d in sorted(digests) if any(d.startswith(text) for text in trust))


# --- the protocol ---------------------------------------------------------------------------------


def _protocol_check(protocol: Protocol) -> Check:
    """Check that a protocol with the name of one of this package is that protocol."""
    name, what = protocol.name, PROTOCOL
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
    return concluded(what, [Discrepancy(printable(reason))])


# --- the manifest ---------------------------------------------------------------------------------


def _manifest(root: Path, protocol: Protocol, places: list[str]) -> tuple[Manifest, Check]:
    """Return what the manifest lists, and its check against the cells of the folder."""
    if not (root / NAME).exists():
        reason = "the evaluation was not finished, or is of an older version; evaluate again"
        return Manifest({}, ""), Check(NAME, MISSING, (reason,))
    try:
        manifest = read_manifest(root, protocol.digest)
        odd = [place for place in places if manifest.cells.get(place) != entry_sum(root, place)]
    except DamagedResultError as error:
        return Manifest({}, ""), concluded(NAME, [Discrepancy(str(error))])
    changed = " was changed: its sum is not the listed one"
    files = {place: place if place == SHIPPED else f"{place}/meta.json" for place in odd}
    texts = [
        files[place] + changed if place in manifest.cells else f"{place} is not listed"
        for place in odd
    ]
    check = concluded(NAME, list(map(Discrepancy, texts)))
    return manifest, replace(check, reasons=(*check.reasons, *_strays(root)))


def _strays(root: Path) -> Iterator[str]:
    """Say which files in folders of cells a file manager has left; no result is in them."""
    strays = [
        f"{place}/{name}"
        for place in cell_folders(root)
        for name in sorted(file.name for file in (root / place).iterdir())
        if is_stray(name)
    ]
    if strays:
        more = f" and {len(strays) - 3} more" if len(strays) > 3 else ""
        yield printable(f"left by a file manager and not read: {', '.join(strays[:3])}{more}")


# --- cells ----------------------------------------------------------------------------------------


def _read(root: Path, protocol: Protocol, place: str, cells: Cells) -> Check:
    """Read a cell into ``cells``; return its check as long as it has not been played again."""
    try:
        cell, stored = read_cell(root, protocol, place)
        _check_files(root / place, stored)
    except OtherProtocolError:
        text = f"it was played with another protocol than {PROTOCOL}"
        return concluded(place, [Discrepancy(text)])
    except (DamagedResultError, OSError) as error:
        return concluded(place, [Discrepancy(str(error))])
    cells[place] = cell, stored
    if stored.failure is not None:
        return Check(place, FAILED, (printable(stored.failure.reason),))
    return Check(place, DIFFERENT, ("it has not been played again",))


def _check_files(folder: Path, stored: store.Stored) -> None:
    """Raise ``DamagedResultError`` for files that no checksum of the cell covers.

    The state of its training is no result, and a write that was cut off leaves a hidden file, as
    file managers do.
    """
    files = {"meta.json", "training"}
    files |= set() if stored.episodes is None else set(store.files_of(stored.meta))
    names = {
        path.name for path in folder.iterdir() if path.suffix != ".tmp" and not is_stray(path.name)
    }
    for name in sorted({*names, *stored.meta.get("sha256", ())} - files):
        reason = "which is no file of its cell; remove it"
        raise DamagedResultError(f"{folder} holds {name!r}, {reason}.")
