"""The result of a verification, and its text: a line for each part, then what is wrong with it."""

import dataclasses
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from coopbench.report.terminal import printed
from coopbench.workflows.verdicts import BY_INTERVAL, CLOSE, FAILED, IDENTICAL, TAKEN, Check

if TYPE_CHECKING:  # rich takes long to import
    from rich.console import Console

SCHEMA = 1
_LONG = 40  # cells beyond which those that are identical share a line


@dataclass(frozen=True)
class Verification:
    """The result of verifying a results folder; print it, or see whether it ``holds``."""

    folder: str
    protocol: str  # its name; empty if it cannot be read
    digest: str  # of the protocol
    results: str  # digest of the results, as the manifest states it; empty without one
    checks: tuple[Check, ...]  # protocol.json, manifest.json, every cell, and report.json
    deviations: tuple[str, ...]  # why its report is not standard; empty if it is

    @property
    def identical(self) -> bool:
        """Whether everything that could be played again is the same as stored, bit for bit."""
        return all(check.verdict in (IDENTICAL, FAILED, TAKEN) for check in self.checks)

    @property
    def holds(self) -> bool:
        """Whether nothing differs beyond tolerance and nothing is missing."""
        return all(check.holds for check in self.checks)

    @property
    def cells(self) -> tuple[Check, ...]:
        """The checks of cells alone."""
        return tuple(check for check in self.checks if "/" in check.what)

    def __str__(self) -> str:
        return printed(partial(show, self))

    def to_json(self) -> str:
        """Return everything as JSON."""
        content = {
            "schema": SCHEMA,
            "holds": self.holds,
            "identical": self.identical,
            **dataclasses.asdict(self),
        }
        return json.dumps(content, indent=1) + "\n"


def show(verification: Verification, console: "Console") -> None:
    """Print a verification on a rich console: a line for each part, then what is wrong.

    Where there are many cells, those that are identical share a line.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    differ = any(check.step is not None or check.differing for check in verification.checks)
    grid.add_column("Part", overflow="fold")
    for name in ("Verdict", "Played again", *(["First step", "Episodes"] if differ else [])):
        grid.add_column(name)
    for check in _lines(verification):
        again = f"{check.played:,} of {check.episodes:,}" if check.episodes else ""
        step = "" if check.step is None else f"{check.step:,}"
        episodes = " ".join(map(str, check.differing))
        style = "" if check.holds else "bold red"
        places = [step, episodes] if differ else []
        grid.add_row(Text(check.what), Text(check.verdict, style), again, *places)
    console.print(grid)
    if differ:
        console.print(Text("First step, Episodes: the first that differ.", style="dim"))
    for check in verification.checks:
        for reason in check.reasons:
            console.print(Text(f"{check.what}: {reason}", style="" if check.holds else "red"))
    for line in _conclusion(verification):
        console.print(Text(line), soft_wrap=True)


def _lines(verification: Verification) -> Iterator[Check]:
    """Yield the check of every line: many cells that are identical, or shipped, share one."""
    shared = []
    for verdict in (IDENTICAL, TAKEN):
        same = [check for check in verification.cells if check.verdict == verdict]
        shared += [same] if len(same) > _LONG else []
    hidden = {check.what for same in shared for check in same}
    yield from (check for check in verification.checks if check.what not in hidden)
    for same in shared:
        sums = sum(check.episodes for check in same), sum(check.played for check in same)
        yield Check(f"{len(same):,} cells", same[0].verdict, episodes=sums[0], played=sums[1])


def _conclusion(verification: Verification) -> Iterator[str]:
    """Yield sentences that sum a verification up."""
    played = sum(check.played for check in verification.cells)
    total = sum(check.episodes for check in verification.cells)
    yield f"Digest of the results: {verification.results or 'none stated'}"
    for reason in verification.deviations:
        yield f"Not a standard report: {reason}"
    taken = sum(check.episodes for check in verification.cells if check.verdict == TAKEN)
    rest = "" if played + taken == total else "; only digests support the others"
    yield f"{played:,} of {total - taken:,} episodes were played again{rest}."
    if taken:
        yield (
            f"{taken:,} episodes have the scores that ship with coopbench; to play them again: "
            f"coopbench verify {shlex.quote(verification.folder)} --play-shipped"
        )
    for code in dict.fromkeys(check.code for check in verification.cells if check.code):
        folder = shlex.quote(verification.folder)
        yield (
            f"Stored actions were replayed; your code was not run. To run it, after reading "
            f"source.txt: coopbench verify {folder} --trust {code[:12]}"
        )
    if not verification.holds:
        count = sum(not check.holds for check in verification.checks)
        parts = f"{count} of {len(verification.checks)} parts"
        yield f"NOT VERIFIED: {parts} are different, missing or not verifiable."
    else:
        verdicts = {check.verdict for check in verification.checks} & {CLOSE, BY_INTERVAL}
        yield f"Verified: {' and '.join(sorted(verdicts)) or IDENTICAL}."
