"""Evaluation: protocol and policies in, report out; finished work is kept and found again."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.own_code import CodePolicy, identity_of
from coopbench.baselines.registry import learners, parse_name
from coopbench.episodes.fingerprints import fitting
from coopbench.episodes.names import names_given
from coopbench.episodes.table import Cell, Failure, Played
from coopbench.episodes.trained import Trained
from coopbench.errors import DamagedResultError, OtherProtocolError
from coopbench.playing.bars import CellProgress, with_bars
from coopbench.playing.contestants import (
    Contestant,
    Failed,
    PolicyArgument,
    PolicyArguments,
    TrainedRuns,
    policy_list,
    with_baselines,
)
from coopbench.playing.groups import PlayGroup, groups_of
from coopbench.playing.plan import Planned, game_of, plan
from coopbench.playing.rollout import PlayJob
from coopbench.playing.runner import Runner, by_cell
from coopbench.playing.shards import part
from coopbench.protocol.loading import ad_hoc, load_protocol, names_environment
from coopbench.protocol.registration import read_registration
from coopbench.protocol.schema import Protocol
from coopbench.protocol.variants import with_tasks
from coopbench.report.loading import report_of
from coopbench.report.report import Report
from coopbench.report.sections import asked
from coopbench.results import store
from coopbench.results.folder import (
    LEFT_OUT,
    check_folder,
    earlier_results,
    holds_results_of,
    models_of,
    write_protocol,
)
from coopbench.results.manifest import unreadable, write_manifest
from coopbench.results.packed_runs import SUFFIX, lacking_learners, read_runs, with_shipped
from coopbench.results.packed_scores import noted_scores, referenced, with_scores, write_reference
from coopbench.workflows.consistency import (
    episode_discrepancies,
    metadata_discrepancies,
    recorded_discrepancies,
    return_discrepancies,
)
from coopbench_envs.foreign.loading import code_of
from coopbench_envs.foreign_names import is_foreign, name_of_function

# Arguments of ``ad_hoc`` itself, and of earlier revisions.
_RESERVED = {
    "task": "name tasks with tasks=",
    "n_episodes": "name their number with episodes=",
    "env": "the environment is the first argument",
    "parameters": "give each parameter of the environment as an argument of its own",
    "baselines": "required baselines are played unless only=True",
    "reference": "shipped runs are played unless only=True",
}


class Plan(NamedTuple):
    """What an evaluation plays, and what it takes from this package instead."""

    cells: list[Planned]
    scored: dict[str, list[tuple[Cell, store.Stored]]]  # cells with shipped scores, by learner
    notes: tuple[str, ...]  # on shipped runs


def evaluate(
    protocol: str | Path | Protocol | Callable[..., Any],
    policies: PolicyArguments | None = None,
    out: str | Path | None = None,
    backend: str = "auto",
    progress: CellProgress | bool | None = None,
    workers: int | None = None,
    *,
    tasks: str | Sequence[str] | None = None,
    only: bool = False,
    play_shipped: bool = False,
    shard: tuple[int, int] | None = None,
    **game: Any,
) -> Report:
    """Play every task of a protocol with every policy, and report the results.

    ``protocol`` is a name (``coopbench.protocol_names()``), a TOML file or a ``Protocol``;
    ``tasks`` chooses some of its tasks; ``TrainedRuns`` of a task that is left out play the chosen
    tasks that name it as ``trained_on``.

    If ``protocol`` is the id of an environment, one task is played, and ``game`` says how:
    ``episodes`` (default 100) episodes from the ``seed`` (default 0) on, in self-play or with
    ``partners``, names of policies for the other seats, or {role: names}; all other arguments are
    parameters of the environment, as of ``gymnasium.make``. The report shows ``metrics`` (None:
    those of the game, and fairness), compares policies by ``comparison``, "paired" or "welch", and
    shows the ``effect`` "hedges_g", or "cohens_d" too. Environments of other packages are named
    "gymnasium:ID" or "pettingzoo:MODULE", or are a function or class that makes a
    ``gymnasium.Env`` or a ``pettingzoo.ParallelEnv`` from the parameters. The report of an
    environment or of some tasks is marked as not standard.

    ``policies`` is one policy, several, or a mapping {name: policy}. A policy is a name
    (``coopbench.policies()``, parameters after a colon), a callable ``f(observations) -> actions``
    on batches (episodes, agents, features), an object with ``act(observations)``, an object with
    ``initial(game, seeds)`` and ``act(observations, memory)`` that remembers within an episode, a
    model with ``predict``, such as Stable-Baselines3's, or a ``torch.nn.Module`` from observations
    to actions, called on the device of its weights; ``FILE.zip`` is a model that Stable-Baselines3
    has saved. One trained model is one run of a learner, unless ``Fixed`` says that it is a fixed
    policy. ``ippo:FOLDER`` is what the learner ``ippo`` has trained: one policy, if that is the
    folder of a run; all its runs, as ``TrainedRuns``, if it is a results folder or a file of packed
    runs (``.runs.npz``). ``ippo`` alone is its shipped runs, where there are some. None is "random"
    for an environment, and no policy but the baselines for a protocol.

    The required baselines of a protocol that need no training are played after these policies, and
    the shipped runs of required learners, unless the call or the folder has other runs of these
    learners. With ``only`` neither is. Where the scores of shipped runs ship, too, the report takes
    them, and nobody plays; ``play_shipped`` plays these runs, for all metrics.

    With ``out`` every finished cell is written to that folder at once: after an interruption the
    same call resumes where it stopped. Policies of this package and trained ones that the folder
    already holds are not played again; a damaged result is named in the report's notes, and that
    cell alone is redone. Earlier results in the folder are included, except those that other code
    of a policy's name has played. ``tasks`` are also played into a folder of the whole protocol, as
    ``train`` makes one; its report then lacks the other tasks. Finally the report and the manifest
    are written, with which ``verify`` detects missing cells.

    With ``shard``, (i, n) with i from 1, only part i of n of the cells is played and written to
    ``out``; what belongs to it depends on protocol and policies alone, and shards may share a
    folder. The report is that of the part and is not written: ``merge`` makes the one of all.

    ``backend`` is where cells are played, with identical results: "serial" in this process,
    "processes" in ``workers`` processes (default: one per usable core), "ray" in as many tasks on
    the machines of a cluster (default: one per core of the cluster). "auto" takes processes where
    they pay, which is for two or more cores and about five seconds of play, if all policies and
    environments are of this package; ``workers=1`` then plays in this process.

    ``progress`` is True for bars in a terminal or a notebook, or a function that is called with a
    cell, the share of it that is done, and "plays", "done" or "kept".

    Raises ``ValueError`` for policies and tasks that cannot be played, before any episode is.
    """
    chosen = names_given(tasks)
    whole = _protocol(protocol, game, chosen)
    checked = with_tasks(whole, chosen)
    if policies is None:
        policies = ["random"] if whole.ad_hoc else list(checked.report.fixed)
    policies = [_carried(whole, checked, policy) for policy in policy_list(policies)]
    if not only:
        policies = with_baselines(checked, policies)
    place = None if shard is not None else out  # parts do not depend on what is finished
    cells, scored, notes = planned(
        checked, policies, place, reference=not only, play_shipped=play_shipped
    )
    if out is not None and holds_results_of(Path(out), whole):
        checked = whole  # some tasks of which are played into its folder
    mine = cells if shard is None else _part(checked, cells, shard, out)
    with with_bars(progress, len(mine)) as tell:
        played, more = play_cells(checked, mine, out, Runner(backend, workers, by_cell(tell)))
    played += [pair for pairs in scored.values() for pair in pairs]
    if out is not None and scored:
        write_reference(Path(out), checked, {*referenced(Path(out), checked), *scored})
    names = list(dict.fromkeys(cell.policy for cell, _ in [*mine, *played]))
    if shard is not None:
        state = _state(cells, mine, shard, Path(str(out)))
        return report_of(checked, played, names, (*notes, *more, *state))
    report = _report(checked, played, names, out, (*notes, *more))
    return report if out is None else write_report(report, out)


def _part(
    protocol: Protocol, cells: Sequence[Planned], shard: tuple[int, int], out: str | Path | None
) -> list[Planned]:
    """Return the cells of a shard, in their order."""
    if out is None:
        raise ValueError("A shard needs a folder for its results; name one with 'out'.")
    mine = part([job_of(protocol, cell, who, None) for cell, who in cells], shard)
    return [(cell, contestant) for cell, contestant in cells if cell in mine]


def _state(
    cells: Sequence[Planned], mine: Sequence[Planned], shard: tuple[int, int], out: Path
) -> Iterator[str]:
    """Yield what a folder holds of an evaluation after a shard of it, and what comes next."""
    held, total = sum((out / cell.folder / "meta.json").is_file() for cell, _ in cells), len(cells)
    yield f"Shard {shard[0]} of {shard[1]}: its {len(mine)} of {total} cells are finished."
    yield f"{out} holds {held} of {total} cells."
    if held == total:
        place = shlex.quote(str(out))
        yield f"Next: coopbench merge {place} --out {place}"
    else:
        yield "Next, when all shards are finished: coopbench merge FOLDER... --out DIR"


def write_report(report: Report, out: str | Path) -> Report:
    """Write the files of a report into its results folder; return it with the path of its page."""
    placed = replace(report, page=str(Path(out) / "report.html"))  # before any of it is made
    placed.save(out)
    return placed


def _protocol(
    source: str | Path | Protocol | Callable[..., Any],
    game: Mapping[str, Any],
    tasks: Sequence[str],
) -> Protocol:
    """Return the protocol with all of its tasks, or the one for a single environment.

    ``game`` holds what only an evaluation of a single environment may choose, and ``tasks`` what
    only one of a protocol may.
    """
    for name, advice in _RESERVED.items():
        if name in game:
            raise ValueError(f"evaluate() has no argument {name!r}: {advice}.")
    if not isinstance(source, str | Path | Protocol):
        source = name_of_function(source)
    if not isinstance(source, str) or not names_environment(source):
        protocol = load_protocol(source)
        if game:
            raise ValueError(
                f"{', '.join(game)} go with the id of an environment; {protocol.name} defines "
                f"its own."
            )
        return protocol
    if tasks:
        raise ValueError(f"tasks go with a protocol; {source} is an environment.")
    return ad_hoc(source, **game)


def _carried(whole: Protocol, part: Protocol, policy: PolicyArgument) -> PolicyArgument:
    """Return a policy; models of a task that is left out of a part stand under those they play."""
    if not isinstance(policy, TrainedRuns):
        return policy
    kept, trained = {task.id for task in part.task}, dict(policy.trained)
    origins = {task.id: task.trained_on for task in whole.task if task.id in kept - {*trained}}
    carried = {t: o for t, o in origins.items() if o in trained and o not in kept}
    trained |= {task: trained[origin] for task, origin in carried.items()}
    return replace(policy, trained={k: trained[k] for k in trained if k not in carried.values()})


def _report(
    protocol: Protocol,
    played: Sequence[tuple[Cell, store.Stored]],
    names: Sequence[str],
    out: str | Path | None,
    notes: tuple[str, ...],
) -> Report:
    """Report on what was played, and on earlier results in ``out``; write the manifest there."""
    if out is None:
        return report_of(protocol, played, names, notes)
    earlier, more = earlier_results(Path(out), protocol, played)
    scores = noted_scores([*played, *earlier], Path(out), protocol, more)
    damaged = tuple(f"{LEFT_OUT}{reason}" for reason in unreadable(Path(out)).values())
    notes = tuple(dict.fromkeys((*notes, *more, *damaged)))
    return report_of(
        protocol,
        [*played, *earlier, *scores],
        names,
        notes,
        registration=read_registration(Path(out)),
        results=write_manifest(Path(out), protocol),
    )


def planned(
    protocol: Protocol,
    policies: PolicyArguments,
    out: str | Path | None = None,
    *,
    reference: bool = True,
    play_shipped: bool = False,
) -> Plan:
    """Return the plan of an evaluation; see ``evaluate``."""
    asked(protocol)  # or a report would lack the section, after all has been played
    given, required = policy_list(policies), protocol.report.learned
    # A learner's name without a place is its shipped runs, where they belong here; else an error.
    names = {policy for policy in given if isinstance(policy, str)}
    named = [learner for learner in required if learner in names]
    others = [policy for policy in given if not isinstance(policy, str) or policy not in named]
    learners = lacking_learners(protocol, others, out, required if reference else named)
    unshipped = [learner for learner in named if learner not in learners]
    chosen = [_expanded(protocol, policy) for policy in [*others, *unshipped]]
    scored, told = with_scores(protocol, [] if play_shipped else learners, out)
    rest = [learner for learner in learners if learner not in scored]
    chosen, notes = with_shipped(protocol, chosen, rest, named)
    cells = [] if scored and not chosen else plan(protocol, chosen)
    return Plan(cells, scored, (*told, *notes))


def contestants(protocol: Protocol, policies: PolicyArguments) -> list[str]:
    """Return the policies of an evaluation as its results name them.

    A learner's name alone is what it trains later. Raises ``ValueError`` for policies that cannot
    be played, like ``evaluate``.
    """
    given = policy_list(policies)
    trained = [policy for policy in given if isinstance(policy, str) and policy in learners()]
    others = [p for p in given if not isinstance(p, str) or p not in trained]
    cells = plan(protocol, [_expanded(protocol, p) for p in others]) if others else []
    return list(dict.fromkeys([*trained, *(cell.policy for cell, _ in cells)]))


def _expanded(protocol: Protocol, policy: PolicyArgument) -> PolicyArgument:
    """Expand ``learner:PLACE`` into all runs that a results folder, or a file of runs, holds."""
    if not isinstance(policy, str):
        return policy
    learner, folder = parse_name(policy)
    if learner in learners() and folder.endswith(SUFFIX):
        return _of_learner(learner, folder, read_runs(folder, protocol))
    if learner not in learners() or not folder or not (Path(folder) / "protocol.json").is_file():
        return policy
    return models_of(folder, learner, protocol)


def _of_learner(learner: str, file: str, models: TrainedRuns) -> TrainedRuns:
    """Return the models of a file; raise ``ValueError`` if another learner has trained them."""
    if models.name != learner:
        raise ValueError(f"{file} holds runs of {models.name}, not of {learner}.")
    return models


def play_cells(
    protocol: Protocol, cells: Sequence[Planned], out: str | Path | None, runner: Runner
) -> tuple[list[tuple[Cell, store.Stored]], tuple[str, ...]]:
    """Play cells of a plan like ``evaluate``; return each with its result, and the notes."""
    root, notes = None if out is None else Path(out), list[str]()
    if root is not None:
        check_folder(root, [cell for cell, _ in cells])
        notes += _replaced(root, protocol, cells)
    jobs = [job_of(protocol, cell, contestant, root) for cell, contestant in cells]
    kept = dict[Cell, store.Stored]()
    for cell, contestant in cells:
        stored = _finished(root, protocol, cell, contestant, notes)
        if stored is not None:
            kept[cell] = stored
    results = dict(kept)
    played = [job for job in jobs if job.cell not in kept]
    models = [job.policy for job in played]
    groups = [PlayGroup(tuple(group)) for group in groups_of(played, models, runner.places)]
    alone: list[PlayGroup] = []
    with runner.run(groups) as finished:
        if root is not None:
            write_protocol(root, protocol)
        for job in jobs:
            if job.cell in kept:
                _write_failure(root, protocol, kept[job.cell])
                runner.tell(job, 1.0, "kept")
        for group, blocks in finished:
            if not blocks:
                alone += [PlayGroup((job,)) for job in group.jobs]
            else:
                results |= _stored(root, group, blocks)
    with runner.run(alone) as finished:
        for group, blocks in finished:
            results |= _stored(root, group, blocks)
    return [(cell, results[cell]) for cell, _ in cells], tuple(notes)


def job_of(protocol: Protocol, cell: Cell, contestant: Contestant, root: Path | None) -> PlayJob:
    """Return the play of a cell, with the actions that results below ``root`` have to hold."""
    if contestant.model is None:
        raise ValueError(f"There is nothing that plays {cell.policy!r}.")
    with_actions = root is not None and contestant.stores_actions
    return PlayJob(protocol, cell, contestant.model, with_actions=with_actions)


def _stored(
    root: Path | None, group: PlayGroup, blocks: Sequence[Played]
) -> dict[Cell, store.Stored]:
    """Return what was played as it is stored, and write it below ``root`` if there is one."""
    pairs = zip(group.jobs, blocks, strict=True)
    return {job.cell: _stored_cell(root, job, played) for job, played in pairs}


def _stored_cell(root: Path | None, job: PlayJob, played: Played) -> store.Stored:
    meta = store.describe(job.protocol, played, job.policy)
    if root is not None:
        store.write(root, played, meta, job.policy)
    episodes = played.episodes
    if episodes.trace is not None:  # no report needs the actions of a policy
        episodes = replace(episodes, trace=replace(episodes.trace, actions=None))
    model, run = job.policy, job.cell.run
    source = model.source if isinstance(model, CodePolicy) and run is None else None
    return store.Stored(meta, episodes, played.progress, None, source=source)


def _write_failure(root: Path | None, protocol: Protocol, stored: store.Stored) -> None:
    """Write a failed run below ``root``, unless it was read from there, which says more of it."""
    if root is not None and stored.failure is not None and not stored.meta:
        store.write_failure(root, protocol, stored.failure)


def _replaced(root: Path, protocol: Protocol, cells: Sequence[Planned]) -> Iterator[str]:
    """Yield of which policies a folder holds results of other code, which play will replace."""
    tasks: dict[str, list[str]] = {}
    for cell, contestant in cells:
        model = contestant.model
        if cell.run is not None or isinstance(model, str | Trained | Failed):
            continue
        code = identity_of(model.code) if isinstance(model, CodePolicy) else None
        with suppress(DamagedResultError, OtherProtocolError):  # of which others tell
            stored = store.read(root, protocol, cell)
            if stored is not None and store.source_of(stored) != code:
                tasks.setdefault(cell.policy, []).append(cell.task)
    for policy, some in tasks.items():
        yield f"replaced: results of {policy} on {', '.join(some)}, which other code had played."


def _finished(
    root: Path | None, protocol: Protocol, cell: Cell, contestant: Contestant, notes: list[str]
) -> store.Stored | None:
    """Return the result of a cell that need not be played: a failure, or what ``root`` holds.

    Add to ``notes`` which results are damaged.
    """
    model = contestant.model
    failure = Failure(cell, model.reason) if isinstance(model, Failed) else None
    failed = None if failure is None else store.Stored({}, None, None, failure)
    # Objects and code of other packages may have changed since: they play again.
    unchanging = isinstance(model, str) and not contestant.elsewhere
    if root is None or not (unchanging or isinstance(model, Trained | Failed)):
        return failed
    try:
        stored = store.read(root, protocol, cell)
    except DamagedResultError as error:
        notes.append(f"redone: {error}")
        return failed
    _check_same_run(root, cell, contestant, stored)
    if (reason := _inconsistency(protocol, cell, stored)) is not None:
        notes.append(f"redone: {cell.folder} cannot have been played: {reason}")
        return failed
    env = protocol.played_in(cell).env
    if stored is not None and _has_other_code(env, stored):
        notes.append(f"redone: {cell.folder} was played with other code of {env}.")
        return failed
    if isinstance(model, Failed):
        return stored if stored is not None and stored.failure == failure else failed
    return stored if stored is not None and _is_of(stored, contestant) else None


def _inconsistency(protocol: Protocol, cell: Cell, stored: store.Stored | None) -> str | None:
    """Say why a cell cannot be of its protocol, as far as that is seen without playing it."""
    if stored is None or stored.episodes is None:
        return None
    task, block = protocol.played_in(cell), stored.episodes
    found = [
        *episode_discrepancies(protocol, task, block),
        *metadata_discrepancies(protocol, stored),
        *return_discrepancies(block),
    ]
    if not (found or is_foreign(task.env)):
        course = next(iter(block.own_trace.recorded.values()), ())
        numbers = sum(int(np.prod(part.shape[1:])) for part in course) or 1
        whole = fitting(numbers, int(game_of(task).constants.horizon), len(block))
        found += recorded_discrepancies(protocol, block, whole)
    return found[0].text if found else None


def _has_other_code(env: str, stored: store.Stored) -> bool:
    """Whether the code of an environment from elsewhere has changed since a cell was played."""
    if stored.episodes is None:
        return False
    return bool(stored.episodes.environment.get("code", {}) != code_of(env))


def _check_same_run(
    root: Path, cell: Cell, contestant: Contestant, stored: store.Stored | None
) -> None:
    """Raise ``ValueError`` if another training run with the same seed is stored."""
    if stored is None or stored.policy is None or cell.run is None:
        return
    model = contestant.model
    if not isinstance(model, Trained) or model.policy.pack() != stored.policy.pack():
        raise ValueError(
            f"{root / cell.folder} holds another training run with the seed {cell.run}. "
            f"Choose another folder, or remove that one."
        )


def _is_of(stored: store.Stored, contestant: Contestant) -> bool:
    """Whether stored episodes were played by the model of a contestant as it is now."""
    named = isinstance(contestant.model, str)
    if stored.episodes is None or (named and stored.meta["plays"] != contestant.model):
        return False
    weights = contestant.weights
    played = None if stored.policy is None else stored.policy.pack()
    return weights is None or weights.pack() == played
