"""Evaluation: protocol and policies in, report out; finished work is kept and found again."""

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from pathlib import Path

from coopbench.baselines.registry import learners, parse_name, trained_policy
from coopbench.episodes.table import Cell, EpisodeTable, Failure, Played
from coopbench.episodes.trained import Trained
from coopbench.errors import DamagedResultError, OtherProtocolError
from coopbench.files import write_text
from coopbench.playing.models import Entrant, Failed, Model, Models
from coopbench.playing.plan import Planned, check_units, plan
from coopbench.playing.rollout import PlayJob
from coopbench.playing.runner import CellProgress, Runner, by_cell
from coopbench.protocol.loading import find_protocol
from coopbench.protocol.schema import Protocol
from coopbench.report.report import Report
from coopbench.results import store
from coopbench.results.manifest import results_digest, write_manifest

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

_RUNS = "run-*/meta.json"  # of all training runs of a policy on a task, in the policy's folder


def evaluate(
    protocol: str | Path | Protocol,
    policies: Sequence[Entrant],
    out: str | Path | None = None,
    backend: str = "serial",
    progress: CellProgress | None = None,
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
    resumes where it stopped. Named policies that the folder already holds are not played again; a
    damaged result is named in the report's notes, and that cell alone is redone. Earlier training
    runs in the folder are included, of these policies and of the learned ones that the protocol
    requires. At the end the manifest is written, by which ``verify`` sees that nothing is missing.

    ``backend`` is "serial", or one that plays several cells at the same time, to the same results:
    "processes" in ``workers`` processes (default: one per usable core), "ray" in as many tasks on
    the machines of a cluster (default: one per core of the cluster).
    """
    runner, checked = Runner(backend, workers, by_cell(progress)), find_protocol(protocol)
    cells = plan(checked, expanded(checked, policies))
    return evaluate_cells(checked, cells, out, runner)


def evaluate_cells(
    protocol: Protocol, cells: Sequence[Planned], out: str | Path | None, runner: Runner
) -> Report:
    """Play the cells of a plan and report on them, like ``evaluate``."""
    names = list(dict.fromkeys(cell.policy for cell, _ in cells))
    played, notes = play_cells(protocol, cells, out, runner)
    if out is None:
        return report_of(protocol, played, names, notes)
    earlier, more = _earlier_runs(Path(out), protocol, {cell for cell, _ in cells})
    report = report_of(protocol, [*played, *earlier], names, (*notes, *more))
    return replace(report, results=write_manifest(Path(out), protocol))


def expanded(protocol: Protocol, policies: Sequence[Entrant]) -> list[Entrant]:
    """Expand ``learner:FOLDER`` of a results folder into all runs stored there."""
    return [_expanded(protocol, policy) for policy in policies]


def _expanded(protocol: Protocol, policy: Entrant) -> Entrant:
    if not isinstance(policy, str):
        return policy
    learner, folder = parse_name(policy)
    if learner not in learners() or not folder or not (Path(folder) / "protocol.json").is_file():
        return policy
    return models_of(folder, learner, protocol)


def models_of(folder: str | Path, learner: str, protocol: Protocol) -> Models:
    """Return all that a learner has trained into a results folder, by task and training seed.

    Raises ``ValueError`` if there is nothing, for damaged cells, and if it was trained under
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
    models: dict[str, dict[int, Model]] = {}
    for cell, stored in stored_cells(root, protocol, notes):
        name = parse_name(cell.policy)
        if name.kind != learner or cell.task not in tasks or name.values not in ("", cell.task):
            continue
        model = _model_of(stored)
        if cell.run is not None and model is not None:
            models.setdefault(cell.task, {})[cell.run] = model
    if not models or notes:
        reasons = " ".join(notes) or f"there are no runs of {learner!r} in it."
        raise ValueError(f"{learner}:{root} cannot be played: {reasons}")
    return Models(learner, models)


def _model_of(stored: store.Stored) -> Trained | Failed | None:
    """Return what a stored training run came to; None for a cell without a trained policy."""
    if stored.failure is not None:
        return Failed(stored.failure.reason)
    if stored.policy is None:
        return None
    return Trained(stored.policy, stored.progress, stored.meta["training"])


def play_cells(
    protocol: Protocol, cells: Sequence[Planned], out: str | Path | None, runner: Runner
) -> tuple[list[tuple[Cell, store.Stored]], tuple[str, ...]]:
    """Play cells of a plan like ``evaluate``; return each with its result, and the notes."""
    root, notes = None if out is None else Path(out), list[str]()
    if root is not None:
        _check_folder(root, [cell for cell, _ in cells])
    jobs = [PlayJob(protocol, cell, model) for cell, model in cells]
    kept = [(job, _finished(root, job, notes)) for job in jobs]
    results = {job.cell: stored for job, stored in kept if stored is not None}
    with runner.run([job for job in jobs if job.cell not in results]) as finished:
        if root is not None:
            write_protocol(root, protocol)
        for job, stored in kept:
            if stored is not None:
                _write_failure(root, protocol, stored)
                runner.tell(job, 1.0, "kept")
        for job, played in finished:
            results[job.cell] = _stored(root, job, played)
    return [(cell, results[cell]) for cell, _ in cells], tuple(notes)


def _stored(root: Path | None, job: PlayJob, played: Played) -> store.Stored:
    """Return what was played as it is stored, and write it below ``root`` if there is one."""
    meta = store.describe(job.protocol, played, job.policy)
    if root is not None:
        store.write(root, played, meta, job.policy)
    return store.Stored(meta, played.episodes, played.progress, None)


def _write_failure(root: Path | None, protocol: Protocol, stored: store.Stored) -> None:
    """Write a failed run below ``root``, unless it was read from there, which says more of it."""
    if root is not None and stored.failure is not None and not stored.meta:
        store.write_failure(root, protocol, stored.failure)


def _check_folder(root: Path, cells: Sequence[Cell]) -> None:
    """Raise ``ValueError`` unless results of these cells can be written below ``root``.

    A policy with training runs is refused where it has results as a fixed one, and the reverse.
    """
    if root.exists() and not root.is_dir():
        raise ValueError(f"{root} is not a folder; name one, existing or new, for the results.")
    for cell in {cell.policy: cell for cell in cells}.values():
        policy = replace(cell, run=None).folder.removeprefix(f"{cell.task}/")
        other = _RUNS if cell.run is None else "meta.json"
        meta = next(root.glob(f"*/{policy}/{other}"), None)
        if meta is not None:
            kinds = ("a fixed policy", "training runs")
            now, before = kinds if cell.run is None else reversed(kinds)
            raise ValueError(
                f"{meta.parent} already holds {before} of the name {cell.policy!r}; this call "
                f"would add {now}. Use another name, or choose another folder."
            )


def _earlier_runs(
    root: Path, protocol: Protocol, played: Set[Cell]
) -> tuple[list[tuple[Cell, store.Stored]], list[str]]:
    """Return further training runs that a results folder holds, with notes on them.

    They are those of policies with runs among the cells that were ``played``, and of the learned
    policies that the protocol requires.
    """
    folders = {replace(cell, run=None).folder for cell in played if cell.run is not None}
    models = ("", *(f":{task.id}" for task in protocol.trained_tasks))
    folders |= {
        Cell(task.id, f"{name}{model}").folder
        for name in protocol.report.learned
        for task in protocol.task
        for model in models
    }
    runs: list[tuple[Cell, store.Stored]] = []
    notes: list[str] = []
    for file in sorted(file for folder in folders for file in (root / folder).glob(_RUNS)):
        try:
            cell = store.cell_of(file)
            stored = None if cell in played else store.read(root, protocol, cell)
        except DamagedResultError as error:
            notes.append(f"left out: {error}")
            continue
        if stored is not None:
            runs.append((cell, stored))
    for policy in dict.fromkeys(cell.policy for cell, _ in runs):
        seeds = {cell.run for cell, _ in runs if cell.policy == policy and cell.run is not None}
        numbers = ", ".join(map(str, sorted(seeds)))
        notes.append(f"Earlier runs of {policy} in the folder are included: {numbers}.")
    return runs, notes


def _finished(root: Path | None, job: PlayJob, notes: list[str]) -> store.Stored | None:
    """Return the result of a job that need not be played: a failure, or what ``root`` holds.

    Add to ``notes`` which results are damaged.
    """
    cell, model = job.cell, job.policy
    failure = Failure(cell, model.reason) if isinstance(model, Failed) else None
    failed = None if failure is None else store.Stored({}, None, None, failure)
    # Any other object may have changed since: it plays again.
    if root is None or not isinstance(model, str | Trained | Failed):
        return failed
    try:
        stored = store.read(root, job.protocol, cell)
    except DamagedResultError as error:
        notes.append(f"redone: {error}")
        return failed
    _check_same_run(root, job, stored)
    if isinstance(model, Failed):
        return stored if stored is not None and stored.failure == failure else failed
    return stored if stored is not None and _is_of(stored, model) else None


def _check_same_run(root: Path, job: PlayJob, stored: store.Stored | None) -> None:
    """Raise ``ValueError`` if another training run with the same seed is stored."""
    if stored is None or stored.policy is None or job.cell.run is None:
        return
    model = job.policy
    if not isinstance(model, Trained) or model.policy.pack() != stored.policy.pack():
        raise ValueError(
            f"{root / job.cell.folder} holds another training run with the seed {job.cell.run}. "
            f"Choose another folder, or remove that one."
        )


def _is_of(stored: store.Stored, model: str | Trained) -> bool:
    """Whether stored episodes were played by ``model`` as it is now."""
    if stored.episodes is None or (isinstance(model, str) and stored.meta["plays"] != model):
        return False
    policy = model.policy if isinstance(model, Trained) else trained_policy(model)
    played = None if stored.policy is None else stored.policy.pack()
    return policy is None or policy.pack() == played


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
