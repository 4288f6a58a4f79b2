"""Check of the report in a results folder: it has to follow from the episodes."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from coopbench.episodes.table import Cell
from coopbench.errors import DamagedResultError
from coopbench.files import UNREADABLE, parsed, read_bounded
from coopbench.protocol.registration import read_registration
from coopbench.protocol.schema import Protocol
from coopbench.report.loading import report_of
from coopbench.report.serialise import as_json
from coopbench.results.store import Stored
from coopbench.workflows.verdicts import (
    ABSOLUTE,
    RELATIVE,
    UNVERIFIABLE,
    Check,
    Discrepancy,
    concluded,
    elsewhere,
    printable,
)

REPORT = "report.json"
# Parts of a report that say how it was made; they cannot follow from the episodes.
_WORDS = ("versions", "notes")
# Rules for intervals, aggregates and tests are others in each schema.
_OTHER_SCHEMA = (
    "it is of another schema, whose numbers this version cannot make again; 'coopbench report' "
    "writes one of this version",
)


def report_checks(
    root: Path, protocol: Protocol, cells: Sequence[tuple[Cell, Stored]]
) -> Iterator[Check]:
    """Check that the stored report, if there is one, follows from the episodes."""
    file = root / REPORT
    if not file.exists():
        return
    played = [(cell, stored) for cell, stored in cells if stored.episodes is not None]
    try:
        report = parsed(read_bounded(file))
        order = list(dict.fromkeys(row["policy"] for row in report["estimates"]))
        left_out = {cell.policy for cell, _ in played} - set(order)
        chosen = [(cell, stored) for cell, stored in cells if cell.policy not in left_out]
        made = report_of(protocol, chosen, order)
        made = replace(made, registration=read_registration(root))
        again = json.loads(as_json(made))
        if report["schema"] != again["schema"]:
            yield Check(REPORT, UNVERIFIABLE, _OTHER_SCHEMA)
            return
        discrepancies = list(_differences(report, again, ""))
        versions = report["versions"]
        other = [f"{n} {v}" for n, v in again["versions"].items() if versions.get(n) != v]
    except (DamagedResultError, *UNREADABLE) as error:
        text = f"it cannot be compared with its episodes: {error}"
        discrepancies, other, left_out = [Discrepancy(text)], [], set()
    platforms = [elsewhere(stored.meta) for _, stored in played]
    place = ", ".join(other) or next(filter(None, platforms), "")
    check = concluded(REPORT, discrepancies, place)
    if left_out:  # as after an evaluation whose report was not saved
        names = ", ".join(sorted(left_out))
        text = f"it leaves out {names}, played here; 'coopbench report' writes one with all"
        check = replace(check, reasons=(*check.reasons, printable(text)))
    yield check


def _differences(stored: Any, again: Any, where: str) -> Iterator[Discrepancy]:
    """Yield the differences between two JSON values, at the path ``where``."""
    if isinstance(stored, dict) and isinstance(again, dict):
        for key in {**again, **stored}:
            if not where and key in _WORDS:
                continue
            if key not in stored or key not in again:
                problem = "missing" if key not in stored else "not part of it"
                yield Discrepancy(f"{where}{key} is {problem}")
            else:
                yield from _differences(stored[key], again[key], f"{where}{key}.")
    elif isinstance(stored, list) and isinstance(again, list):
        if len(stored) != len(again):
            text = f"{where[:-1]} has {len(stored)} entries; its episodes give {len(again)}"
            yield Discrepancy(text)
        for k, (one, two) in enumerate(zip(stored, again, strict=False)):
            yield from _differences(one, two, f"{where}{k}.")
    elif stored != again or type(stored) is not type(again):
        numbers = isinstance(stored, float) and isinstance(again, float)
        close = numbers and math.isclose(stored, again, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
        text = f"{where[:-1]} is {stored!r}; its episodes give {again!r}"
        yield Discrepancy(text, close=close)
