"""Evaluation: protocol and policies in, report out; finished work is kept and found again."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

import coopbench_envs
from coopbench import analysis, maps, store
from coopbench.backends import BACKENDS
from coopbench.episodes import Cell, Episodes, EpisodeTable
from coopbench.plan import plan
from coopbench.protocol import Protocol, ad_hoc, load_protocol, protocol_files, stored_protocol
from coopbench.report.report import Report
from coopbench.rollout import OWN, PlayJob, seating
from coopbench_envs.parameters import named

__all__ = ["evaluate", "find_protocol", "load_report"]

Progress = Callable[[Cell, float, str], None]  # cell, done in [0, 1], what happens to it


def evaluate(
    protocol: str | Path | Protocol,
    policies: list[Any],
    out: str | Path | None = None,
    backend: str = "serial",
    progress: Progress | None = None,
    workers: int | None = None,
) -> Report:
    """Play every task of a protocol with every policy and report what came of it.

    ``protocol`` is a name (``coopbench.protocols()``), a TOML file or a ``Protocol``; an
    environment id in its place makes a protocol of one task with 100 episodes, whose report is
    marked as not standard. A policy is a name (``coopbench.policies()``, parameters after a colon),
    a callable ``f(observations) -> actions`` on batches (episodes, agents, features), or an object
    with ``act``.

    With ``out`` every finished cell is written there at once: after an interruption the same call
    goes on where it stopped. Named policies that are already there are not played again; a damaged
    result is named in the report's notes, and that cell alone is redone.

    ``backend`` is "serial" or "processes", which plays several cells at the same time in
    ``workers`` processes (default: one per usable core), to the same results.
    """
    found = find_protocol(protocol)
    run = named("backend", backend, BACKENDS)
    root = None if out is None else Path(out)
    if root is not None and root.exists() and not root.is_dir():
        raise ValueError(f"{root} is no folder; name one, or none there is yet, for the results.")
    notes: list[str] = []
    blocks: dict[Cell, Episodes] = {}
    jobs: list[PlayJob] = []
    cells = plan(found, policies)
    for cell, policy in cells:
        block = _finished(root, found, cell, policy, notes)
        if block is None:
            jobs.append(PlayJob(found, cell, policy))
            continue
        blocks[cell] = block
        if progress is not None:
            progress(cell, 1.0, "kept")
    tell = None if progress is None else lambda k, done: progress(jobs[k].cell, done, "plays")
    with closing(run(jobs, workers, tell)) as results:
        if root is not None:
            _write_protocol(root, found)
        for _, (episodes, seconds) in results:
            blocks[episodes.cell] = episodes
            if root is not None:
                store.write(root, found, episodes, {"seconds": seconds})
            if progress is not None:
                progress(episodes.cell, 1.0, "done")
    table = EpisodeTable(tuple(blocks[cell] for cell, _ in cells))
    return _report(found, table, tuple(notes))


def load_report(folder: str | Path) -> Report:
    """Make the report of a results folder anew from its episodes.

    Raises ``FileNotFoundError`` if it holds no results. Damaged cells are left out and named.
    """
    root = Path(folder)
    source = root / "protocol.json"
    if not source.is_file():
        raise FileNotFoundError(f"{root} holds no results: there is no protocol.json in it.")
    protocol = stored_protocol(source)
    notes, blocks = [], []
    for file in sorted(root.glob("*/**/meta.json")):
        try:
            cell = store.cell_of(file)
            found = store.read(root, protocol, cell)
        except (store.DamagedResultError, store.OtherProtocolError) as error:
            notes.append(f"left out: {error}")
            continue
        if found is None:
            notes.append(f"left out: {file} is not in the folder of its cell, {cell.folder}.")
            continue
        blocks.append(found[0])
    if not blocks:
        reasons = " ".join(notes) or "Evaluate into it again: it goes on."
        raise FileNotFoundError(f"{root} holds no finished cells. {reasons}")
    tasks, first = [task.id for task in protocol.task], list(protocol.report.baselines)
    blocks.sort(
        key=lambda block: (
            tasks.index(block.cell.task),
            first.index(block.cell.policy) if block.cell.policy in first else len(first),
            block.cell.policy,
        )
    )
    return _report(protocol, EpisodeTable(tuple(blocks)), tuple(notes))


def find_protocol(protocol: str | Path | Protocol) -> Protocol:
    """Return the protocol that a name, a file or the id of an environment means."""
    name = str(protocol)
    if isinstance(protocol, str) and name not in protocol_files() and _is_environment(name):
        return ad_hoc(name)
    return load_protocol(protocol)


def _is_environment(name: str) -> bool:
    if name.endswith(".toml"):
        return False
    return "/" in name or f"coopbench/{name}" in coopbench_envs.ids()


def _finished(
    root: Path | None, protocol: Protocol, cell: Cell, policy: Any, notes: list[str]
) -> Episodes | None:
    if root is None or not isinstance(policy, str):  # an object may have changed: play it again
        return None
    try:
        found = store.read(root, protocol, cell)
    except store.DamagedResultError as error:
        notes.append(f"redone: {error}")
        return None
    return None if found is None else found[0]


def _write_protocol(root: Path, protocol: Protocol) -> None:
    root.mkdir(parents=True, exist_ok=True)
    target = root / "protocol.json"
    if target.is_file():
        digest = stored_protocol(target).digest
        if digest != protocol.digest:
            raise store.OtherProtocolError(
                f"{root} holds results of another protocol (digest {digest[:12]}; this one has "
                f"{protocol.digest[:12]}). Choose another folder."
            )
        return
    store.write_text(target, protocol.model_dump_json(indent=2) + "\n")


def _report(protocol: Protocol, table: EpisodeTable, notes: tuple[str, ...]) -> Report:
    return Report(
        protocol=protocol,
        episodes=table,
        estimates=analysis.estimates(protocol, table),
        comparisons=analysis.comparisons(protocol, table),
        aggregates=analysis.aggregates(protocol, table),
        charts=analysis.chart_points(protocol, table),
        models=analysis.model_estimates(protocol, table),
        published=analysis.published_returns(protocol, table),
        departures=departures(protocol, table),
        notes=notes,
        agents=analysis.agent_estimates(protocol, table),
    )


def departures(protocol: Protocol, table: EpisodeTable) -> tuple[str, ...]:
    """Return the reasons why this is not a standard report; empty if it is one."""
    if protocol.ad_hoc:
        return ("it is an ad-hoc evaluation, not a protocol",)
    present = tuple(dict.fromkeys(block.cell.policy for block in table))
    reasons = [*_foreign(protocol), *_absent(protocol, table, present)]
    for policy in present:
        blocks = [block for block in table if block.cell.policy == policy]
        for what, differs in (("seeds", _other_seeds), ("seats", _other_seats)):
            tasks = [block.cell.task for block in blocks if differs(protocol, block)]
            if tasks:
                there = ", ".join(dict.fromkeys(tasks))
                reasons.append(f"{policy} played other {what} than the protocol's in {there}")
    return tuple(reasons)


def _foreign(protocol: Protocol) -> list[str]:
    """Why the protocol is not one of this package."""
    name = protocol.protocol.name
    shipped = load_protocol(name) if name in protocol_files() else None
    if shipped is None or shipped.name != protocol.name:
        return [f"{protocol.name} is not a protocol of this package"]
    if shipped.digest != protocol.digest and maps.are_replaced(shipped, protocol):
        return [f"its maps are those of the user: {maps.told(protocol)}"]
    if shipped.digest != protocol.digest:
        return [f"it differs from the {protocol.name} of this package"]
    return []


def _absent(protocol: Protocol, table: EpisodeTable, present: tuple[str, ...]) -> list[str]:
    """Baselines that are missing, and tasks that a policy has not played."""
    reasons = []
    for policy in dict.fromkeys((*protocol.report.baselines, *present)):
        lacking = [task.id for task in protocol.task if table.of(task.id, policy) is None]
        if len(lacking) == len(protocol.task):
            reasons.append(f"the required baseline {policy} is missing")
        elif lacking:
            reasons.append(f"{policy} lacks the tasks {', '.join(lacking)}")
    for name in protocol.missing(present):
        if name in protocol.report.learned:
            reasons.append(f"the required baseline {name} (to be trained) is missing")
    return reasons


def _other_seeds(protocol: Protocol, block: Episodes) -> bool:
    found = [protocol.seeds_of(task) for task in protocol.task if task.id == block.cell.task]
    return not any(np.array_equal(seeds, block.seeds) for seeds in found)


def _other_seats(protocol: Protocol, block: Episodes) -> bool:
    found = [task for task in protocol.task if task.id == block.cell.task]
    episodes, agents = block.seats.shape
    seats = [seating(episodes, agents, len(task.partners)) == OWN for task in found]
    return not any(np.array_equal(asked, block.seats) for asked in seats)
