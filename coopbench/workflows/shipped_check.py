"""Check of shipped scores: what a results folder takes from this package instead of playing it."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from coopbench.episodes.table import Cell
from coopbench.errors import DamagedResultError, OtherProtocolError
from coopbench.playing.plan import plan
from coopbench.playing.runner import Runner
from coopbench.protocol.schema import Protocol
from coopbench.results.manifest import SHIPPED
from coopbench.results.packed_runs import shipped_runs
from coopbench.results.packed_scores import arrays_of, scores_beside
from coopbench.results.store import Stored
from coopbench.workflows.evaluation import play_cells
from coopbench.workflows.identities import Cells
from coopbench.workflows.verdicts import (
    FAILED,
    RELATIVE,
    RERUN,
    TAKEN,
    Check,
    Discrepancy,
    concluded,
    elsewhere,
    printable,
)


def shipped_checks(
    root: Path, protocol: Protocol, cells: Cells, runner: Runner | None
) -> dict[str, Check]:
    """Add the shipped scores of a folder to the ``cells`` of its own; return their checks by cell.

    With a ``runner`` the shipped runs play all of their episodes again; without one the checks say
    that the scores are those of this package.
    """
    try:
        scored = scores_beside(cells.values(), root, protocol)
    except (DamagedResultError, OtherProtocolError) as error:
        return {SHIPPED: concluded(SHIPPED, [Discrepancy(str(error))])}
    checks = dict[str, Check]()
    for learner, pairs in scored.items():
        again = None if runner is None else _played(protocol, learner, runner)
        for cell, stored in pairs:
            cells[cell.folder] = cell, stored
            checks[cell.folder] = _check(protocol, cell, stored, again)
    return checks


def _played(protocol: Protocol, learner: str, runner: Runner) -> Mapping[Cell, Stored]:
    """Play the shipped runs of a learner."""
    cells = plan(protocol, [shipped_runs(protocol, learner)])
    return dict(play_cells(protocol, cells, None, runner)[0])


def _check(
    protocol: Protocol, cell: Cell, stored: Stored, again: Mapping[Cell, Stored] | None
) -> Check:
    """Check one cell of shipped scores; ``again`` are all cells where they have been played."""
    if stored.episodes is None:
        return Check(cell.folder, FAILED, (printable(str(stored.meta["reason"])),))
    count = len(stored.episodes)
    if again is None:
        return Check(cell.folder, TAKEN, episodes=count)
    block = again[cell].episodes if cell in again else None
    if block is None:
        text = "the packed runs hold no policy of it"
        return concluded(cell.folder, [Discrepancy(text)], episodes=count)
    task = protocol.task_of(cell.task)
    before = arrays_of(protocol, task, [stored.episodes])
    now, found = arrays_of(protocol, task, [block]), list[Discrepancy]()
    for name, numbers in before.items():
        differing = np.flatnonzero(now[name][0] != numbers[0])
        if differing.size:
            close = np.allclose(now[name], numbers, rtol=RELATIVE, atol=0.0)
            episodes = tuple(differing.tolist())
            text = f"{name} differs in {len(episodes)} of {count} episodes"
            found.append(Discrepancy(text, close=close, episodes=episodes))
    where, name = elsewhere(stored.meta), cell.folder
    return concluded(name, found, where, how=RERUN, episodes=count, played=count)
