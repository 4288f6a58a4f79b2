"""Evaluation: protocol and policies in, report out; finished work is kept and found again."""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from coopbench.baselines.registry import learners, trained_policy
from coopbench.episodes.table import Cell, EpisodeTable, Failure
from coopbench.episodes.trained import Trained
from coopbench.errors import DamagedResultError, OtherProtocolError
from coopbench.files import write_text
from coopbench.playing.backends import BACKENDS
from coopbench.playing.plan import Failed, Models, check_units, plan
from coopbench.playing.rollout import PlayJob
from coopbench.protocol.loading import find_protocol
from coopbench.protocol.schema import Protocol
from coopbench.report.report import Report
from coopbench.results import store
from coopbench.results.manifest import results_digest, write_manifest
from coopbench_envs.parameters import named

__all__ = [
    "evaluate",
    "evaluate_cells",
    "expanded",
    "load_report",
    "models_of",
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
    with ``act``. ``ippo:FOLDER`` is what the learner ``ippo`` has trained: one policy, if that is
    the folder of a run; all its runs, as ``Models``, if it is a results folder.

    With ``out`` every finished cell is written there at once: after an interruption the same call
    goes on where it stopped. Named policies that are already there are not played again; a damaged
    result is named in the report's notes, and that cell alone is redone. Training runs of these
    policies, and of the learned ones that the protocol requires, count too if they are there from
    before. At the end the manifest is written, by which
    ``verify`` sees that nothing is missing.

    ``backend`` is "serial", or one that plays several cells at the same time, to the same results:
    "processes" in ``workers`` processes (default: one per usable core), "ray" in as many tasks on
    the machines of a cluster (default: one per core of the cluster).
    """
    found = find_protocol(protocol)
    cells = plan(found, expanded(found, policies))
    return evaluate_cells(found, cells, out, backend, progress, workers)


def evaluate_cells(
    protocol: Protocol,
    cells: list[tuple[Cell, Any]],
    out: str | Path | None,
    backend: str,
    progress: Progress | None,
    workers: int | None,
) -> Report:
    """Play the cells of a plan and report what came of them, like ``evaluate``."""
    names = list(dict.fromkeys(cell.policy for cell, _ in cells))
    played, notes = play_cells(protocol, cells, out, backend, progress, workers)
    if out is None:
        return report_of(protocol, played, names, notes)
    more: list[str] = []
    played += _earlier_runs(Path(out), protocol, {cell for cell, _ in cells}, more)
    report = report_of(protocol, played, names, (*notes, *more))
    return replace(report, results=write_manifest(Path(out), protocol))


def expanded(protocol: Protocol, policies: Sequence[Any]) -> list[Any]:
    """Return the policies; where one names a results folder, all that was trained into it."""
    return [_expanded(protocol, policy) for policy in policies]


def _expanded(protocol: Protocol, policy: Any) -> Any:
    name, _, folder = policy.partition(":") if isinstance(policy, str) else ("", "", "")
    root = Path(folder)
    if name not in learners() or not folder or not (root / "protocol.json").is_file():
        return policy
    return models_of(root, name, protocol)


def models_of(folder: str | Path, learner: str, protocol: Protocol) -> Models:
    """Return all that a learner has trained into a results folder, by task and training seed.

    Raises ``ValueError`` if there is nothing, for what is damaged, and if it was trained under
    another protocol, which may have chosen checkpoints by episodes that this one evaluates on.
    """
    root, notes = Path(folder), list[str]()
    digest = protocol_of(root).digest
    if digest != protocol.digest:
        raise OtherProtocolError(
            f"{learner}:{root} holds runs of another protocol (digest {digest[:12]}; this one has "
            f"{protocol.digest[:12]}), with tasks and a choice of checkpoints of its own. Name the "
            f"folder of a single run, or train under this protocol."
        )
    tasks = {task.id for task in protocol.trained_tasks}
    found: dict[str, dict[int, Any]] = {}
    for cell, stored in stored_cells(root, protocol, notes):
        name, _, task = cell.policy.partition(":")
        if name != learner or cell.task not in tasks or task not in ("", cell.task):
            continue
        if cell.run is not None and stored.failure is not None:
            found.setdefault(cell.task, {})[cell.run] = Failed(stored.failure.reason)
        elif cell.run is not None and stored.policy is not None:
            model = Trained(stored.policy, stored.progress, stored.meta["training"])
            found.setdefault(cell.task, {})[cell.run] = model
    if not found or notes:
        reasons = " ".join(notes) or f"there are no runs of {learner!r} in it."
        raise ValueError(f"{learner}:{root} cannot be played: {reasons}")
    return Models(learner, found)


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
            if there is None:
                continue
            new = not there.meta  # a failure that is kept already says more of itself
            if root is not None and there.failure is not None and new:
                store.write_failure(root, protocol, there.failure)
            if progress is not None:
                progress(cell, 1.0, "kept")
        for number, played in results:
            cell, model = jobs[number].cell, jobs[number].policy
            meta = store.describe(protocol, played, model)
            if root is not None:
                store.write(root, played, meta, model)
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
    root: Path, protocol: Protocol, given: Set[Cell], notes: list[str]
) -> list[tuple[Cell, store.Stored]]:
    """Further training runs that a results folder holds: of policies given, and those required."""
    found: list[tuple[Cell, store.Stored]] = []
    learned = {replace(cell, run=None).folder for cell in given if cell.run is not None}
    models = ("", *(f":{task.id}" for task in protocol.trained_tasks))
    learned |= {
        Cell(task.id, f"{name}{model}").folder
        for name in protocol.report.learned
        for task in protocol.task
        for model in models
    }
    files = (file for each in learned for file in (root / each).glob("run-*/meta.json"))
    for file in sorted(files):
        try:
            cell = store.cell_of(file)
            there = None if cell in given else store.read(root, protocol, cell)
        except DamagedResultError as error:
            notes.append(f"left out: {error}")
            continue
        if there is not None:
            found.append((cell, there))
    for policy in dict.fromkeys(cell.policy for cell, _ in found):
        runs = sorted(
            {cell.run for cell, _ in found if cell.policy == policy and cell.run is not None}
        )
        told = ", ".join(map(str, runs))
        notes.append(f"Runs of {policy} that were there before count, too: {told}.")
    return found


def _finished(
    root: Path | None, protocol: Protocol, cell: Cell, model: Any, notes: list[str]
) -> store.Stored | None:
    """What needs not be played: a failure, or what is there of a named policy."""
    failure = Failure(cell, model.reason) if isinstance(model, Failed) else None
    failed = None if failure is None else store.Stored({}, None, None, failure)
    # Any other object may have changed since: it plays again.
    if root is None or not isinstance(model, str | Trained | Failed):
        return failed
    try:
        found = store.read(root, protocol, cell)
    except DamagedResultError as error:
        notes.append(f"redone: {error}")
        return failed
    if found is not None and found.policy is not None and cell.run is not None:
        same = isinstance(model, Trained) and model.policy.pack() == found.policy.pack()
        if not same:
            raise ValueError(
                f"{root / cell.folder} holds another training run with the seed {cell.run}. Choose "
                f"another folder, or remove that one."
            )
    if isinstance(model, Failed):
        return found if found is not None and found.failure == failure else failed
    if found is None or found.episodes is None:
        return None
    if isinstance(model, str) and found.meta["plays"] != model:
        return None
    policy = model.policy if isinstance(model, Trained) else trained_policy(model)
    played = None if found.policy is None else found.policy.pack()
    return found if policy is None or policy.pack() == played else None


def load_report(folder: str | Path) -> Report:
    """Make the report of a results folder anew from its episodes.

    Raises ``FileNotFoundError`` if it holds no results, and ``ValueError`` if a policy has training
    runs in some cells and none in others. Damaged cells are left out and named.
    """
    root = Path(folder)
    protocol = protocol_of(root)
    notes: list[str] = []
    cells = list(stored_cells(root, protocol, notes))
    if not any(found.episodes or found.failure for _, found in cells):
        further = [f"And {len(notes) - 3} more."] if len(notes) > 3 else []
        reasons = " ".join(notes[:3] + further) or "Evaluate into it again: it goes on."
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
    stored = [result for _, result in ordered]
    metadata = {s.episodes.cell: s.meta for s in stored if s.episodes is not None}
    return Report.of(protocol, table_of(stored), notes, metadata)


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
        except (DamagedResultError, OtherProtocolError) as error:
            notes.append(f"left out: {error}")
            continue
        if found is None or root / cell.folder != file.parent:  # a copy lies deeper
            notes.append(f"left out: {file} is not in the folder of its cell, {cell.folder}.")
            continue
        yield cell, found


def write_protocol(root: Path, protocol: Protocol) -> None:
    """Make ``root`` a results folder of ``protocol``, or see that it is one."""
    root.mkdir(parents=True, exist_ok=True)
    target = root / "protocol.json"
    if target.is_file():
        digest = store.read_protocol(target).digest
        if digest != protocol.digest:
            raise OtherProtocolError(
                f"{root} holds results of another protocol (digest {digest[:12]}; this one has "
                f"{protocol.digest[:12]}). Choose another folder."
            )
        return
    write_text(target, protocol.model_dump_json(indent=2) + "\n")


def table_of(cells: Iterable[store.Stored]) -> EpisodeTable:
    """Put cells into one table, in their order."""
    there = list(cells)
    return EpisodeTable(
        blocks=tuple(each.episodes for each in there if each.episodes is not None),
        progress=tuple(each.progress for each in there if each.progress is not None),
        failures=tuple(each.failure for each in there if each.failure is not None),
        trained=dict(filter(None, map(_trained, there))),
        settings={
            each.episodes.cell: each.meta.get("hyperparameters") or {}
            for each in there
            if each.episodes is not None and each.meta.get("training") is not None
        },
    )


def _trained(stored: store.Stored) -> tuple[Cell, int] | None:
    """Steps that the policy of a cell was trained, where that is known."""
    facts = stored.meta.get("training")
    steps = facts.get("steps") if isinstance(facts, dict) else None
    if stored.episodes is None or not isinstance(steps, int):
        return None
    return stored.episodes.cell, steps
