"""Checks of the shipped reference runs that a stored report includes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coopbench.episodes.table import Cell, Episodes
from coopbench.errors import DamagedResultError
from coopbench.files import parsed, read_bounded
from coopbench.playing.rollout import CellJob, play
from coopbench.playing.runner import Runner
from coopbench.protocol.schema import Protocol
from coopbench.results.reference import TRAJECTORIES, reference_policy, reference_runs
from coopbench.results.rounding import COARSE, FINE
from coopbench.results.shipping import trajectories_digest
from coopbench.results.store import Stored
from coopbench.workflows.verdicts import RERUN, Check, Discrepancy, concluded, elsewhere


class Included(NamedTuple):
    """The shipped runs that a report includes."""

    cells: list[tuple[Cell, Stored]]
    missing: str  # why they cannot be had; empty if they are here, or there are none


def included_runs(file: Path, protocol: Protocol, cells: Sequence[Cell]) -> Included:
    """Return the shipped runs that the report ``file`` of a results folder says it includes.

    ``cells`` are those of the folder.
    """
    stated = _stated(file)
    if not stated:
        return Included([], "")
    references, shipped, _ = reference_runs(protocol, [cell.policy for cell in cells])
    if [reference._asdict() | {"runs": list(reference.runs)} for reference in references] == stated:
        return Included(shipped, "")
    here = ", ".join(f"{r.policy} {r.digest[:12]}" for r in references) or "none for it"
    return Included([], f"it includes other reference runs than this package ships: here {here}")


def _stated(file: Path) -> Any:
    """Return what a report says of reference runs; None if it cannot be read or says nothing."""
    try:
        report = parsed(read_bounded(file))
    except (DamagedResultError, ValueError):
        return None
    return report.get("reference") if isinstance(report, dict) else None


@dataclass(frozen=True, eq=False)
class _ReferenceJob(CellJob):
    """The play of a shipped cell, for a backend; its result is a ``Check``."""

    stored: Stored  # with episodes

    def __call__(self, tell: Callable[[float], None] | None) -> Check:
        """Play the cell and compare its results with the shipped ones."""
        block, what = self.stored.episodes, f"reference/{self.cell.folder}"
        if block is None:
            raise ValueError("A failed run has no episodes to check.")
        again = play(self.protocol, self.cell, reference_policy(self.protocol, self.cell), tell)
        discrepancies = list(_discrepancies(block, again))
        if trajectories_digest(again) != self.stored.meta[TRAJECTORIES]:
            discrepancies.append(Discrepancy("its trajectories differ", close=not discrepancies))
        facts = {"how": RERUN, "episodes": len(block), "played": len(block)}
        return concluded(what, discrepancies, elsewhere(self.stored.meta), **facts)


def played_again(protocol: Protocol, shipped: Included, runner: Runner) -> list[Check]:
    """Play shipped runs again; return the checks in the order of their cells."""
    jobs = [
        _ReferenceJob(protocol, cell, stored)
        for cell, stored in shipped.cells
        if stored.episodes is not None
    ]
    with runner.run(jobs) as finished:
        checks = {job.cell: check for job, check in finished}
    return [checks[job.cell] for job in jobs]


def _discrepancies(block: Episodes, again: Episodes) -> Iterator[Discrepancy]:
    """Yield columns of shipped episodes that differ from those played by more than rounding."""
    pairs = {"returns": (block.returns, again.returns, FINE)}
    pairs |= {n: (values, again.metrics[n], COARSE) for n, values in block.metrics.items()}
    for name, values in block.agent_metrics.items():
        seated = values[block.seats], again.agent_metrics[name][block.seats]
        pairs[f"{name} of agents"] = (*seated, COARSE)
    for name, (stored, played, steps) in pairs.items():
        finite = played[np.isfinite(played)]
        tolerance = 0.51 * float(np.ptp(finite)) / steps if finite.size else 0.0
        if not np.allclose(stored, played, rtol=1e-6, atol=tolerance + 1e-9, equal_nan=True):
            yield Discrepancy(f"{name} differs by more than its rounding")
    if not np.array_equal(block.lengths, again.lengths):
        yield Discrepancy("length differs")
