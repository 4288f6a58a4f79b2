"""Verdicts: what is different in one part of a results folder, and what that means for it."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coopbench.episodes.names import one_line
from coopbench.provenance import machine, versions

# Verdicts.
IDENTICAL = "identical"
CLOSE = "equal within tolerance"  # made on another platform, where numbers are rounded differently
BY_INTERVAL = "equal by interval"  # the mean score of a policy that draws other random numbers
DIFFERENT = "different"
MISSING = "missing"
# Code that is not executed or differs, chance without a seed, a report of another schema.
UNVERIFIABLE = "not verifiable"
TAKEN = "shipped with coopbench"  # scores that were not played again
FAILED = "failed run"  # of training: there is nothing to play

# How a cell was checked.
RERUN = "all episodes played again"
REPLAYED = "episodes played again from stored actions"

RELATIVE, ABSOLUTE = 1e-6, 1e-9  # differences that another platform may make
_SHOWN = 8  # reasons and episodes that are named
_LONGEST = 400  # characters of a reason


@dataclass(frozen=True)
class Discrepancy:
    """A discrepancy: one thing that a folder states and that does not hold."""

    text: str
    close: bool = False  # whether another platform could make this difference
    step: int | None = None  # first step that differs, from 1
    episodes: tuple[int, ...] = ()  # that differ


@dataclass(frozen=True)
class Check:
    """The result of checking one part of a results folder."""

    what: str  # folder of a cell, or name of a file
    verdict: str
    reasons: tuple[str, ...] = ()
    how: str = ""  # RERUN or REPLAYED; empty where nothing was played
    episodes: int = 0  # of the cell
    played: int = 0  # of these, played again
    step: int | None = None  # first step that differs, from 1
    differing: tuple[int, ...] = ()  # first episodes that differ
    code: str = ""  # digest of stored code that was not executed

    @property
    def holds(self) -> bool:
        """Whether nothing differs, nothing is missing, and it could be played again."""
        return self.verdict not in (DIFFERENT, MISSING, UNVERIFIABLE)


def concluded(
    what: str, discrepancies: Sequence[Discrepancy], elsewhere: str = "", **facts: Any
) -> Check:
    """Return the verdict on discrepancies; ``elsewhere`` says how this platform is another one.

    Differences within tolerance are only excused on another platform. ``facts`` are further fields
    of the ``Check``.
    """
    reasons = [printable(discrepancy.text) for discrepancy in discrepancies[:_SHOWN]]
    close = all(discrepancy.close for discrepancy in discrepancies)
    verdict = IDENTICAL if not discrepancies else CLOSE if close and elsewhere else DIFFERENT
    if discrepancies and elsewhere:
        reasons.append(printable(f"made elsewhere: {elsewhere}"))
    elif discrepancies and close:
        reasons.append("made with these versions on a machine like this: every bit has to agree")
    steps = [one.step for one in discrepancies if one.step is not None]
    episodes = sorted({episode for one in discrepancies for episode in one.episodes})
    first = min(steps, default=None)
    return Check(
        what, verdict, tuple(reasons), step=first, differing=tuple(episodes[:_SHOWN]), **facts
    )


def printable(text: str) -> str:
    """Return text from a file of unknown origin as one line that a terminal can show."""
    shown = one_line(text)
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + " ..."


def elsewhere(meta: Mapping[str, Any]) -> str:
    """Say how the platform of a cell differs from this one; empty if no difference is recorded."""
    here = versions() | {"platform": platform.platform()}
    recorded = {name: meta["versions"].get(name) for name in versions()}
    recorded["platform"] = meta["platform"]
    if meta.get("machine"):
        here["cpu"], recorded["cpu"] = str(machine()["cpu"]), str(meta["machine"].get("cpu"))
    return ", ".join(f"{n} {recorded[n]} (here {v})" for n, v in here.items() if recorded[n] != v)
