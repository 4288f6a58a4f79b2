"""Folder: a results folder as a whole, with its protocol, its cells and the training runs in it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from coopbench.baselines.registry import parse_name
from coopbench.episodes.grouping import grouped
from coopbench.episodes.names import check_case
from coopbench.episodes.table import Cell, EpisodeTable
from coopbench.episodes.trained import Trained
from coopbench.errors import DamagedResultError, OtherProtocolError
from coopbench.files import make_folder, read_bounded, write_text
from coopbench.playing.contestants import Failed, Model, TrainedRuns
from coopbench.protocol.schema import Protocol
from coopbench.protocol.variants import is_part
from coopbench.results import store
from coopbench.results.manifest import (
    SHIPPED,
    cell_folders,
    entries,
    entry_sum,
    folders_with,
    link_on_the_way,
    linked_folders,
    links,
    results_digest,
)
from coopbench.results.protocol_file import PROTOCOL, read_protocol

_Models = TypeVar("_Models")  # by training seed

LEFT_OUT = "left out: "  # begins the note on a damaged cell
_RUNS = "run-*/meta.json"  # of all training runs of a policy on a task, in the policy's folder


def numbers_digest(root: Path, protocol: Protocol) -> str:
    """Return a digest of the episodes of all cells: the same whenever and wherever they are played.

    It is a chain as that of the manifest, with the SHA-256 of the numbers of a cell in place of
    that of its metadata, which state times and machines. Cells that cannot be read are left out.
    """
    sums = dict[str, str]()
    for entry in entries(root):
        with suppress(DamagedResultError, AttributeError):  # a stranger's may have any structure
            file = root / entry
            sums[entry] = entry_sum(root, entry) if entry == SHIPPED else store.numbers_sum(file)
    return links(protocol.digest, sums)[-1]


def is_results_folder(root: Path) -> bool:
    """Whether a folder holds results, or will: whether there is a protocol in it."""
    return (root / PROTOCOL).is_file()


def holds_results_of(root: Path, protocol: Protocol) -> bool:
    """Whether a folder holds results of a protocol with this digest."""
    return is_results_folder(root) and read_protocol(root).digest == protocol.digest


def write_protocol(root: Path, protocol: Protocol) -> None:
    """Make ``root`` a results folder of ``protocol``, or check that it is one.

    A folder of a protocol with its digest becomes one of ``protocol``: what was trained and played
    remains, and reports are made as this one says.

    Raises ``OtherProtocolError`` if it is one of another protocol, and ``ValueError`` if it lies in
    a results folder or holds one: the cells of the inner folder would count as the outer one's.
    """
    _check_apart(root)
    make_folder(root)
    if is_results_folder(root):
        check_protocol(root, protocol)
    if not _is_of(root, protocol):
        write_text(root / PROTOCOL, _text(protocol))


def check_protocol(root: Path, protocol: Protocol) -> None:
    """Raise ``OtherProtocolError`` unless a results folder is of a protocol with this digest."""
    if _is_of(root, protocol):  # to parse and check it takes half a second
        return
    stored = read_protocol(root)
    if stored.digest != protocol.digest:
        part = "With some of its tasks alone (--task) a protocol counts as another one. "
        raise OtherProtocolError(
            f"{root} holds results of another protocol (digest {stored.digest[:12]}; this one "
            f"has {protocol.digest[:12]}). {part if stored.name == protocol.name else ''}"
            f"Choose another folder."
        )


def check_report(root: Path, protocol: Protocol, results: str) -> None:
    """Raise ``ValueError`` unless a results folder is the one that a report is of.

    ``results`` is the digest of the report's results. A report without one, as of a folder with
    damaged cells, may be of any folder of its protocol.
    """
    check_protocol(root, protocol)
    stored = results_digest(root, protocol) if results else ""
    if stored != results:
        raise ValueError(
            f"{root} holds other results (digest {stored[:12]}) than this report (digest "
            f"{results[:12]}). Choose another folder, or load the report of {root} again."
        )


def _text(protocol: Protocol) -> str:
    return protocol.model_dump_json(indent=2) + "\n"


def _is_of(root: Path, protocol: Protocol) -> bool:
    """Whether a results folder is of this protocol, with all of its wording."""
    try:
        return read_bounded(root / PROTOCOL) == _text(protocol).encode()
    except DamagedResultError:
        return False


def _check_apart(root: Path) -> None:
    """Raise ``ValueError`` if a folder lies in a results folder, or if one lies in it."""
    advice = "move one of them, or choose another folder"
    for place in root.resolve().parents:
        if is_results_folder(place):
            raise ValueError(f"{root} lies in the results folder {place}; {advice}.")
    inner = folders_with(PROTOCOL, root)
    if inner:
        raise ValueError(f"{root} holds the results folder {root / inner[0]}; {advice}.")


def stored_cells(
    root: Path, protocol: Protocol, notes: list[str]
) -> Iterator[tuple[Cell, store.Stored]]:
    """Yield the cells of a results folder; add to ``notes`` which are left out, and why."""
    for place in cell_folders(root):
        try:
            yield read_cell(root, protocol, place)
        except (DamagedResultError, OtherProtocolError) as error:
            notes.append(f"{LEFT_OUT}{error}")
    notes += _linked(root, protocol)


def _linked(root: Path, protocol: Protocol) -> list[str]:
    """Return a note for each link where a folder of cells may be; nothing is read through it."""
    tasks = {task.id for task in protocol.task}
    places = [place for place in linked_folders(root) if Path(place).parts[0] in tasks]
    return [f"{LEFT_OUT}{link_on_the_way(root, place)}" for place in places]


def read_cell(root: Path, protocol: Protocol, place: str) -> tuple[Cell, store.Stored]:
    """Return the cell in a folder ``place`` of results, and what is stored of it.

    Raises:
        DamagedResultError: it cannot be read, is not of the protocol, or is of another folder.
        OtherProtocolError: it was played with another protocol.
    """
    file = root / place / "meta.json"
    cell = store.cell_of(file)
    if cell.task not in (task.id for task in protocol.task):
        raise DamagedResultError(f"{file} is of {cell.task!r}, which is no task of the protocol.")
    stored = store.read(root, protocol, cell) if cell.folder == place else None
    if stored is None:  # a copy lies deeper
        raise DamagedResultError(f"{file} is not in the folder of its cell, {cell.folder}.")
    return cell, stored


def table_of(cells: Iterable[store.Stored]) -> EpisodeTable:
    """Put cells into one table, in their order."""
    results = list(cells)
    played = [(stored.episodes, stored) for stored in results if stored.episodes is not None]
    return EpisodeTable(
        blocks=tuple(episodes for episodes, _ in played),
        progress=tuple(stored.progress for stored in results if stored.progress is not None),
        failures=tuple(stored.failure for stored in results if stored.failure is not None),
        trained={
            episodes.cell: steps
            for episodes, stored in played
            if (steps := _trained_steps(stored)) is not None
        },
        settings={
            episodes.cell: stored.meta.get("hyperparameters") or {}
            for episodes, stored in played
            if stored.meta.get("training") is not None
        },
        bare={
            episodes.cell.policy: kind
            for episodes, stored in played
            if episodes.cell.run is None and (kind := store.model_kind(stored))
        },
    )


def _trained_steps(stored: store.Stored) -> int | None:
    """Return the steps that the policy of a cell was trained; None if they are not stored."""
    facts = stored.meta.get("training")
    steps = facts.get("steps") if isinstance(facts, dict) else None
    return steps if isinstance(steps, int) else None


def models_of(folder: str | Path, learner: str, protocol: Protocol) -> TrainedRuns:
    """Return all models that a learner has trained in a results folder, by task and training seed.

    The folder's protocol is ``protocol``, or one of which it has some tasks: then they are the
    models that play these.

    Raises ``ValueError`` if there are none, for damaged cells, and if they were trained under
    another protocol, which may have chosen checkpoints by episodes that this one evaluates on.
    """
    root, notes = Path(folder), list[str]()
    whole = read_protocol(root)
    if whole.digest != protocol.digest and not is_part(whole, protocol):
        raise OtherProtocolError(
            f"{learner}:{root} holds runs of another protocol (digest {whole.digest[:12]}; this "
            f"one has {protocol.digest[:12]}), with tasks and a choice of checkpoints of its own. "
            f"Name the folder of a single run, or train under this protocol."
        )
    tasks = {task.id for task in whole.trained_tasks}
    models: dict[str, dict[int | None, Model]] = {}
    for cell, stored in stored_cells(root, whole, notes):
        name = parse_name(cell.policy)
        if name.kind != learner or cell.task not in tasks or name.values not in ("", cell.task):
            continue
        model = _model_of(stored)
        if cell.run is not None and model is not None:
            models.setdefault(cell.task, {})[cell.run] = model
    if models and whole.training is not None and whole.training.on == "any":
        return TrainedRuns(
            learner, next(iter(models.values()))
        )  # one model per seed plays all tasks
    played = models_of_part(models, whole, protocol)
    if not played or notes:
        reasons = " ".join(notes) or f"there are no runs of {learner!r} in it."
        raise ValueError(f"{learner}:{root} cannot be played: {reasons}")
    return TrainedRuns(learner, played)


def models_of_part(
    models: Mapping[str, _Models], whole: Protocol, protocol: Protocol
) -> dict[str, _Models]:
    """Return the models of ``whole``, by task, that play the trained tasks of its part.

    What models are trained on may be left out of a choice of tasks that they play.
    """
    origins = {t.id: whole.task_of(t.id).origin for t in protocol.trained_tasks}
    return {task: models[origin] for task, origin in origins.items() if origin in models}


def _model_of(stored: store.Stored) -> Trained | Failed | None:
    """Return the model of a stored training run; None for a cell without a trained policy."""
    if stored.failure is not None:
        return Failed(stored.failure.reason)
    if stored.policy is None:
        return None
    return Trained(stored.policy, stored.progress, stored.meta["training"])


def earlier_results(
    root: Path, protocol: Protocol, played: Sequence[tuple[Cell, store.Stored]]
) -> tuple[list[tuple[Cell, store.Stored]], list[str]]:
    """Return the cells of a results folder that were not ``played``, with notes on them.

    They are all cells on tasks of the protocol, but those of other code: everything else in a
    folder is in every report of it.
    """
    tasks, earlier = {task.id for task in protocol.task}, list[tuple[Cell, store.Stored]]()
    notes: list[str] = []
    now = {cell for cell, _ in played}
    for place in cell_folders(root):
        try:
            cell = store.cell_of(root / place / "meta.json")
            if cell in now or cell.task not in tasks or cell.folder != place:
                continue
            stored = store.read(root, protocol, cell)
        except DamagedResultError as error:
            notes.append(f"{LEFT_OUT}{error}")
            continue
        if stored is not None:
            earlier.append((cell, stored))
    notes += _linked(root, protocol)
    earlier = of_one_code(earlier, notes, played)
    return earlier, [*notes, *_included(earlier, now)]


def _included(earlier: Sequence[tuple[Cell, store.Stored]], now: Set[Cell]) -> Iterator[str]:
    """Yield which earlier results are included; ``now`` are the cells of this call.

    Nothing tells whether an object that this call has played is the one that played other tasks.
    """
    again = {(cell.policy, cell.run) for cell in now}
    for policy, pairs in grouped((pair[0].policy, pair) for pair in earlier).items():
        unknown = [c for c, stored in pairs if (policy, c.run) in again and _is_unknown(stored)]
        if unknown:
            tasks = ", ".join(dict.fromkeys(cell.task for cell in unknown))
            yield (
                f"Results of {policy} on {tasks} are from an earlier call. Whether the same "
                f"policy has played them is not known: no source of it is stored."
            )
        rest = [cell for cell, _ in pairs if cell not in unknown]
        if rest:
            seeds = sorted({cell.run for cell in rest if cell.run is not None})
            what = f"runs of {policy} in the folder are included: {', '.join(map(str, seeds))}"
            yield f"Earlier {what if seeds else f'results of {policy} in the folder are included'}."


def _is_unknown(stored: store.Stored) -> bool:
    """Whether neither a name nor weights nor a source say what has played a cell."""
    known = stored.meta.get("plays"), stored.policy, stored.source, stored.failure
    return all(fact is None for fact in known)


def of_one_code(
    cells: Sequence[tuple[Cell, store.Stored]],
    notes: list[str],
    played: Sequence[tuple[Cell, store.Stored]] = (),
) -> list[tuple[Cell, store.Stored]]:
    """Return the cells but those of policies that other code has played on other tasks.

    The code of a policy is that with which this call has ``played`` it. A policy that it has not
    played loses all cells: which of them are of the right code is not known. Notes say so.
    """
    now = {c.policy: store.source_of(stored) for c, stored in played if stored.episodes is not None}
    kept = list[tuple[Cell, store.Stored]]()
    for policy, pairs in grouped((pair[0].policy, pair) for pair in cells).items():
        tasks: dict[str | None, list[str]] = grouped(
            (store.source_of(stored), cell.task)
            for cell, stored in pairs
            if stored.episodes is not None
        )
        right = {now[policy]} if policy in now else set(tasks)
        if len(right) > 1:
            right = set()
        kept += [
            (cell, stored)
            for cell, stored in pairs
            if stored.episodes is None or store.source_of(stored) in right
        ]
        wrong = [", ".join(some) for code, some in tasks.items() if code not in right]
        if wrong and policy in now:
            notes.append(
                f"{LEFT_OUT}results of {policy} on {', '.join(wrong)}, where other code of that "
                f"name has played than in this call; play it on all tasks again."
            )
        elif wrong:
            notes.append(
                f"{LEFT_OUT}all results of {policy}, because some code of that name has played on "
                f"{' and others on '.join(wrong)}; play it on all tasks again."
            )
    return kept


def check_folder(root: Path, cells: Sequence[Cell]) -> None:
    """Raise ``ValueError`` unless results of these cells can be written below ``root``.

    A policy with training runs is refused where it has results as a fixed one, and the reverse.
    So is one whose name looks like that of another policy with results there.
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
    if is_results_folder(root):
        names = [*_policies(root), *(cell.policy for cell in cells)]
        advice = f"use another name, or choose another folder than {root}"
        check_case("The policies", names, advice)


def _policies(root: Path) -> Iterator[str]:
    """Yield the names of the policies that have cells in a folder, once for each cell."""
    for place in cell_folders(root):
        with suppress(DamagedResultError):
            yield store.cell_of(root / place / "meta.json").policy
