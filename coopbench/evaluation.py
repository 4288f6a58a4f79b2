"""Evaluation: protocol and policies in, report out; finished work is kept and found again."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import coopbench_envs
from coopbench import analysis, efficiency, maps, rankings, store
from coopbench.backends import BACKENDS
from coopbench.episodes import Cell, Episodes, EpisodeTable, Failure
from coopbench.manifest import results_digest, write_manifest
from coopbench.plan import Failed, check_units, plan
from coopbench.protocol import Protocol, ad_hoc, load_protocol, protocol_files
from coopbench.report.report import Report
from coopbench.rollout import OWN, PlayJob, seating
from coopbench_envs.parameters import named

__all__ = [
    "departures",
    "evaluate",
    "find_protocol",
    "load_report",
    "play_cells",
    "protocol_of",
    "report_of",
    "stored_cells",
    "table_of",
    "write_protocol",
]

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
    result is named in the report's notes, and that cell alone is redone. Training runs of these
    policies that are there from before count, too. At the end the manifest is written, by which
    ``verify`` sees that nothing is missing.

    ``backend`` is "serial", or one that plays several cells at the same time, to the same results:
    "processes" in ``workers`` processes (default: one per usable core), "ray" in as many tasks on
    the machines of a cluster (default: one per core of the cluster).
    """
    found = find_protocol(protocol)
    cells = plan(found, policies)
    names = list(dict.fromkeys(cell.policy for cell, _ in cells))
    played, notes = play_cells(found, cells, out, backend, progress, workers)
    if out is None:
        return report_of(found, played, names, notes)
    more: list[str] = []
    played += _earlier_runs(Path(out), found, [cell for cell, _ in cells], more)
    report = report_of(found, played, names, (*notes, *more))
    return replace(report, results=write_manifest(Path(out), found))


def play_cells(
    protocol: Protocol,
    cells: list[tuple[Cell, Any]],
    out: str | Path | None,
    backend: str,
    progress: Progress | None,
    workers: int | None,
) -> tuple[list[tuple[Cell, store.Stored]], tuple[str, ...]]:
    """Play cells of a plan like ``evaluate``; return each with what came of it, and the notes."""
    run = named("backend", backend, BACKENDS)
    root = None if out is None else Path(out)
    if root is not None and root.exists() and not root.is_dir():
        raise ValueError(f"{root} is no folder; name one, or none there is yet, for the results.")
    if root is not None:
        _check_there(root, [cell for cell, _ in cells])
    notes: list[str] = []
    done = {cell: _finished(root, protocol, cell, model, notes) for cell, model in cells}
    jobs = [PlayJob(protocol, cell, model) for cell, model in cells if done[cell] is None]
    tell = None if progress is None else lambda k, share: progress(jobs[k].cell, share, "plays")
    with closing(run(jobs, workers, tell)) as results:
        if root is not None:
            write_protocol(root, protocol)
        for cell, there in done.items():
            if root is not None and there is not None and there.failure is not None:
                store.write_failure(root, protocol, there.failure)
            if progress is not None and there is not None:
                progress(cell, 1.0, "kept")
        for number, played in results:
            cell, model = jobs[number].cell, jobs[number].policy
            meta = store.describe(protocol, played, model)
            if root is not None:
                store.write(root, played, meta)
            done[cell] = store.Stored(meta, played.episodes, played.progress, None)
            if progress is not None:
                progress(cell, 1.0, "done")
    return [(cell, there) for cell, there in done.items() if there is not None], tuple(notes)


def _check_there(root: Path, cells: Sequence[Cell]) -> None:
    """Raise ``ValueError`` if a policy has training runs and is there without, or the reverse."""
    for cell in {cell.policy: cell for cell in cells}.values():
        policy = replace(cell, run=None).folder.removeprefix(f"{cell.task}/")
        other = "run-*/meta.json" if cell.run is None else "meta.json"
        there = next(root.glob(f"*/{policy}/{other}"), None)
        if there is not None:
            kinds = ("a fixed policy", "training runs")
            now, before = kinds if cell.run is None else reversed(kinds)
            raise ValueError(
                f"{there.parent} holds {before} of the name {cell.policy!r}; given now: {now}. "
                f"Give it another name, or choose another folder."
            )


def _earlier_runs(
    root: Path, protocol: Protocol, given: Sequence[Cell], notes: list[str]
) -> list[tuple[Cell, store.Stored]]:
    """Further training runs of policies that are given, which a results folder holds already."""
    found = []
    learned = dict.fromkeys(
        replace(cell, run=None).folder for cell in given if cell.run is not None
    )
    for file in (file for each in learned for file in (root / each).glob("run-*/meta.json")):
        try:
            cell = store.cell_of(file)
            there = None if cell in given else store.read(root, protocol, cell)
        except store.DamagedResultError as error:
            notes.append(f"left out: {error}")
            continue
        if there is not None:
            notes.append(f"{file.parent} was there before and counts, too.")
            found.append((cell, there))
    return found


def _finished(
    root: Path | None, protocol: Protocol, cell: Cell, model: Any, notes: list[str]
) -> store.Stored | None:
    """What needs not be played: a failure, or what is there of a named policy."""
    if isinstance(model, Failed):
        return store.Stored({}, None, None, Failure(cell, model.reason))
    if root is None or not isinstance(model, str):  # an object may have changed: play it again
        return None
    try:
        found = store.read(root, protocol, cell)
    except store.DamagedResultError as error:
        notes.append(f"redone: {error}")
        return None
    kept = found is not None and found.episodes is not None and found.meta["plays"] == model
    return found if kept else None


def load_report(folder: str | Path) -> Report:
    """Make the report of a results folder anew from its episodes.

    Raises ``FileNotFoundError`` if it holds no results, and ``ValueError`` if a policy has training
    runs in some cells and none in others. Damaged cells are left out and named.
    """
    root = Path(folder)
    protocol = protocol_of(root)
    notes: list[str] = []
    cells = list(stored_cells(root, protocol, notes))
    if not any(found.episodes for _, found in cells):
        reasons = " ".join(notes) or "Evaluate into it again: it goes on."
        raise FileNotFoundError(f"{root} holds no finished cells. {reasons}")
    check_units(cell for cell, _ in cells)
    found = report_of(protocol, cells, protocol.report.baselines, tuple(notes))
    return found if notes else replace(found, results=results_digest(root, protocol))


def report_of(
    protocol: Protocol,
    cells: Sequence[tuple[Cell, store.Stored]],
    first: Sequence[str],
    notes: tuple[str, ...] = (),
) -> Report:
    """Make the report of cells of a protocol; the policies ``first`` come first, in this order."""
    tasks, policies = [task.id for task in protocol.task], list(first)
    ordered = sorted(
        cells,
        key=lambda each: (
            tasks.index(each[0].task),
            policies.index(each[0].policy) if each[0].policy in policies else len(policies),
            each[0].policy,
            each[0].run or 0,
        ),
    )
    return _report(protocol, [found for _, found in ordered], notes)


def protocol_of(root: Path) -> Protocol:
    """Return the protocol of a results folder, or raise ``FileNotFoundError`` if it is none."""
    source = root / "protocol.json"
    if not source.is_file():
        raise FileNotFoundError(f"{root} holds no results: there is no protocol.json in it.")
    return store.read_protocol(source)


def stored_cells(
    root: Path, protocol: Protocol, notes: list[str]
) -> Iterator[tuple[Cell, store.Stored]]:
    """Read the cells of a results folder one by one; add to ``notes`` which are left out."""
    tasks = [task.id for task in protocol.task]
    for file in sorted(root.glob("*/**/meta.json")):
        try:
            cell = store.cell_of(file)
            if cell.task not in tasks:
                notes.append(f"left out: {file} is of no task of the protocol, {cell.task!r}.")
                continue
            found = store.read(root, protocol, cell)
        except (store.DamagedResultError, store.OtherProtocolError) as error:
            notes.append(f"left out: {error}")
            continue
        if found is None or root / cell.folder != file.parent:  # a copy lies deeper
            notes.append(f"left out: {file} is not in the folder of its cell, {cell.folder}.")
            continue
        yield cell, found


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


def write_protocol(root: Path, protocol: Protocol) -> None:
    """Make ``root`` a results folder of ``protocol``, or see that it is one."""
    root.mkdir(parents=True, exist_ok=True)
    target = root / "protocol.json"
    if target.is_file():
        digest = store.read_protocol(target).digest
        if digest != protocol.digest:
            raise store.OtherProtocolError(
                f"{root} holds results of another protocol (digest {digest[:12]}; this one has "
                f"{protocol.digest[:12]}). Choose another folder."
            )
        return
    store.write_text(target, protocol.model_dump_json(indent=2) + "\n")


def table_of(cells: Iterable[store.Stored]) -> EpisodeTable:
    """Put cells into one table, in their order."""
    there = list(cells)
    return EpisodeTable(
        blocks=tuple(each.episodes for each in there if each.episodes is not None),
        progress=tuple(each.progress for each in there if each.progress is not None),
        failures=tuple(each.failure for each in there if each.failure is not None),
    )


def _report(protocol: Protocol, there: list[store.Stored], notes: tuple[str, ...]) -> Report:
    table = table_of(there)
    curves, early = efficiency.learning(protocol, table)
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
        metadata={each.episodes.cell: each.meta for each in there if each.episodes is not None},
        improvements=rankings.improvements(protocol, table),
        profiles=rankings.profile_points(protocol, table),
        ranks=rankings.ranks(protocol, table),
        learning=curves,
        efficiency=early,
        late=efficiency.late_scores(protocol, table),
    )


def departures(protocol: Protocol, table: EpisodeTable) -> tuple[str, ...]:
    """Return the reasons why this is not a standard report; empty if it is one."""
    if protocol.ad_hoc:
        return ("it is an ad-hoc evaluation, not a protocol",)
    present = tuple(dict.fromkeys(policy for _, policy in table.pairs))
    reasons = [*_foreign(protocol), *_absent(protocol, table, present), *_failed(table)]
    if protocol.limits is not None:
        reasons.append("its limits of time were not kept; 'coopbench timed' keeps them")
    for policy in present:
        blocks = [block for block in table if block.cell.policy == policy]
        for what, differs in (("seeds", _other_seeds), ("seats", _other_seats)):
            tasks = [block.cell.task for block in blocks if differs(protocol, block)]
            if tasks:
                there = ", ".join(dict.fromkeys(tasks))
                reasons.append(f"{policy} played other {what} than the protocol's in {there}")
        reasons += _other_runs(protocol, policy, blocks)
        reasons += _other_steps(protocol, table, policy)
    return tuple(reasons)


def _failed(table: EpisodeTable) -> list[str]:
    """Training runs that came to nothing."""
    cells = [(failure.cell, failure.reason) for failure in table.failures]
    return [f"run {c.run} of {c.policy} on {c.task} failed: {reason}" for c, reason in cells]


def _other_runs(protocol: Protocol, policy: str, blocks: list[Episodes]) -> list[str]:
    """How the training runs of a policy are not those of the protocol."""
    seeds = protocol.seeds.training
    if not seeds:
        return []
    reasons: list[str] = []
    found: dict[str, list[int | None]] = {}
    for block in blocks:
        found.setdefault(block.cell.task, []).append(block.cell.run)
    for task, runs in found.items():
        if runs == [None]:
            if policy.partition(":")[0] in protocol.report.learned:
                reasons.append(f"{policy} has one run on {task}; the protocol has {len(seeds)}")
            continue
        lacking = [str(seed) for seed in seeds if seed not in runs]
        if lacking:
            reasons.append(f"{policy} lacks the runs {', '.join(lacking)} on {task}")
        others = [str(run) for run in runs if run not in seeds]
        if others:
            reasons.append(f"{policy} has other runs on {task}: {', '.join(others)}")
    return reasons


def _other_steps(protocol: Protocol, table: EpisodeTable, policy: str) -> list[str]:
    """Runs whose checkpoints are not those of a budget of the protocol."""
    training = protocol.training
    if training is None or protocol.seeds.selection is None:
        return []
    budgets = [
        np.arange(budget.interval, budget.steps + 1, budget.interval)
        for budget in training.budgets.values()
    ]
    reasons = []
    for block in table:
        cell = block.cell
        if cell.policy != policy or cell.run is None:
            continue
        courses = [p.steps for p in table.progress_of(cell.task, policy) if p.cell == cell]
        if not courses:
            reasons.append(f"run {cell.run} of {policy} on {cell.task} has no checkpoints")
        elif not any(np.array_equal(courses[0], budget) for budget in budgets):
            asked = " or ".join(f"{len(b)} up to step {b[-1]:,}" for b in budgets)
            reasons.append(
                f"run {cell.run} of {policy} on {cell.task} has {len(courses[0])} checkpoints up "
                f"to step {courses[0][-1]:,}; the protocol has {asked}"
            )
    return reasons


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
        lacking = [task.id for task in protocol.task if not table.runs(task.id, policy)]
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
