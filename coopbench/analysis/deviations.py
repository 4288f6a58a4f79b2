"""Deviations: why a report is not the standard one of its protocol, and which runs it lacks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from coopbench.baselines.match import OWN
from coopbench.baselines.registry import parse_name, usual_settings
from coopbench.episodes.grouping import grouped
from coopbench.episodes.table import Cell, Episodes, EpisodeTable
from coopbench.protocol.loading import load_protocol, protocol_files
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.protocol.variants import (
    are_replaced,
    are_same,
    differing_keys,
    is_part,
    maps_text,
    whole_of,
)

_OF_TASKS = {"partners"}  # hyperparameters that follow from the task, and are checked there
_NAMED = 6  # tasks that are named if a sentence is about all tasks of a protocol


def deviations(protocol: Protocol, table: EpisodeTable) -> tuple[str, ...]:
    """Return the reasons why this is not a standard report; empty if it is one."""
    if protocol.ad_hoc:
        why = "it is an evaluation of one environment, not of a protocol"
        return (why, *bare_models(table))
    present = table.policies
    reasons = [*smoke_runs(protocol, table), *_foreign(protocol)]
    reasons += _absent(protocol, table, present)
    reasons += [*missing_learners(protocol, table), *bare_models(table), *_failed(table)]
    if protocol.limits is not None:
        reasons.append("time limits were not enforced: evaluations keep no time")
    for policy in present:
        blocks = [block for block in table if block.cell.policy == policy]
        # Files of other programs have no seeds: every block counts as having its own.
        checks = () if table.own_episodes else (("seeds", _other_seeds), ("seats", _other_seats))
        for what, differs in checks:
            tasks = dict.fromkeys(b.cell.task for b in blocks if differs(protocol, b))
            if tasks:
                names = ", ".join(tasks)
                reasons.append(f"{policy} played other {what} than the protocol's in {names}")
        if parse_name(policy).kind not in protocol.report.learned:
            reasons += _missing_runs(protocol, table, policy)
        reasons += _extra_runs(protocol, table, policy)
        reasons += _other_training(protocol, table, policy)
        reasons += _mixed(table, policy)
        changed = changed_settings(protocol, table, policy)
        if changed and parse_name(policy).kind in protocol.report.learned:
            names = ", ".join(changed)
            reasons.append(
                f"runs of {policy} were trained with other values of {names} than the protocol has"
            )
    return tuple(reasons)


def smoke_runs(protocol: Protocol, table: EpisodeTable) -> list[str]:
    """Name the policies with smoke runs, and what the scores of these are good for."""
    lengths: dict[str, list[int]] = {}
    for cell, steps in table.trained.items():
        if _is_smoke(protocol, table, cell):
            lengths.setdefault(cell.policy, []).append(steps)
    return [
        f"the runs of {policy} are smoke runs of {_either(lengths)} steps, a hundredth of the "
        f"budget: their scores show that training works, and not what it reaches"
        for policy, lengths in lengths.items()
    ]


def _is_smoke(protocol: Protocol, table: EpisodeTable, cell: Cell) -> bool:
    """Whether a run was trained with the budget of a smoke run."""
    if protocol.training is None or cell not in table.trained:
        return False
    whole = whole_of(protocol)  # a part may lack the task that is trained on
    budgets = [budget.smoke for budget in whole.budgets_of(whole.task_of(cell.task)).values()]
    courses = table.progress_of(cell.task, cell.policy)
    intervals = {int(course.steps[0]) for course in courses if course.cell == cell}
    return any(
        budget.steps == table.trained[cell] and intervals <= {budget.interval} for budget in budgets
    )


def _either(numbers: Iterable[int]) -> str:
    """Write the different ones of some numbers."""
    return " or ".join(f"{number:,}" for number in sorted(set(numbers)))


def bare_models(table: EpisodeTable) -> list[str]:
    """Name the policies that are one trained model each, and what that means for them."""
    return [
        f"{policy} is one trained model ({kind}), one run of a learner: it has no interval over "
        f"runs, no decision and no rank; give several runs as TrainedRuns, or say that it is a "
        f"fixed policy with Fixed"
        for policy, kind in table.bare.items()
    ]


def _failed(table: EpisodeTable) -> list[str]:
    """Name the training runs that failed, with all tasks that they do not play."""
    runs = grouped(((f.cell.policy, f.cell.run, f.reason), f.cell.task) for f in table.failures)
    return [
        f"run {run} of {policy} on {', '.join(tasks)} failed: {reason}"
        for (policy, run, reason), tasks in runs.items()
    ]


def _missing_runs(protocol: Protocol, table: EpisodeTable, policy: str) -> list[str]:
    """Say which training runs of the protocol a policy lacks.

    Failed runs do not count as missing: ``_failed`` names them.
    """
    seeds, failed = protocol.seeds.training, {failure.cell for failure in table.failures}
    differences: dict[str, list[str]] = {}
    if policy in table.bare:  # which is named as such
        return []
    for task in (task for task, name in table.pairs if seeds and name == policy):
        runs = [block.cell.run for block in table.runs(task, policy)]
        if runs == [None]:
            if parse_name(policy).kind in protocol.report.learned:
                differences.setdefault(f"has one run, not {len(seeds)},", []).append(task)
            continue
        trained = {
            *runs,
            *(cell.run for cell in failed if (cell.task, cell.policy) == (task, policy)),
        }
        lacking = ", ".join(str(seed) for seed in seeds if seed not in trained)
        if lacking:
            differences.setdefault(f"lacks the runs {lacking}", []).append(task)
    return [f"{policy} {what} on {_named(protocol, tasks)}" for what, tasks in differences.items()]


def _extra_runs(protocol: Protocol, table: EpisodeTable, policy: str) -> list[str]:
    """Say which training runs of a policy the protocol does not have."""
    differences: dict[str, list[str]] = {}
    for task in (task for task, name in table.pairs if protocol.seeds.training and name == policy):
        runs = [block.cell.run for block in table.runs(task, policy)]
        others = [str(run) for run in runs if run not in (None, *protocol.seeds.training)]
        if others:
            differences.setdefault(f"has extra runs: {', '.join(others)}", []).append(task)
    return [f"{policy} {what} on {_named(protocol, tasks)}" for what, tasks in differences.items()]


def _named(protocol: Protocol, tasks: list[str]) -> str:
    """Name tasks, all of many at once."""
    every = len(tasks) == len(protocol.task) > _NAMED
    return f"all {len(tasks)} tasks" if every else ", ".join(tasks)


def _other_training(protocol: Protocol, table: EpisodeTable, policy: str) -> list[str]:
    """Name the runs that were not trained with a budget of the protocol.

    Only on the tasks that are trained on: the models of these play the others.
    """
    differences: dict[str, dict[str, list[str]]] = {}
    cells = (block.cell for block in table)
    runs = [cell for cell in cells if cell.policy == policy and cell.run is not None]
    if not runs:
        return []
    for cell in choosing(protocol, table, runs):
        if _is_smoke(protocol, table, cell):  # which is named as such
            continue
        what = _other_checkpoints(protocol, table, cell) or _other_steps(protocol, table, cell)
        if what:
            differences.setdefault(what, {}).setdefault(cell.task, []).append(str(cell.run))
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for what, places in differences.items():
        for task, seeds in places.items():
            alike.setdefault((what, tuple(seeds)), []).append(task)
    return [
        f"{'run' if len(seeds) == 1 else 'runs'} {', '.join(seeds)} of {policy} on "
        f"{', '.join(tasks)} {'has' if len(seeds) == 1 else 'have'} {what}"
        for (what, seeds), tasks in alike.items()
    ]


def _mixed(table: EpisodeTable, policy: str) -> list[str]:
    """Name the tasks on which runs of a policy were trained with different hyperparameters."""
    differences: dict[str, list[str]] = {}
    for task in (task for task, name in table.pairs if name == policy):
        cells = [block.cell for block in table.runs(task, policy)]
        runs = [table.settings[cell] for cell in cells if cell in table.settings]
        names = {n for run in runs for n in {**run, **runs[0]} if run.get(n) != runs[0].get(n)}
        if names:
            differences.setdefault(", ".join(sorted(names)), []).append(task)
    return [
        f"runs of {policy} on {', '.join(tasks)} were trained with different values of {names}"
        for names, tasks in differences.items()
    ]


def changed_settings(protocol: Protocol, table: EpisodeTable, policy: str) -> list[str]:
    """Return the hyperparameters in which runs of a learner here differ from the protocol's.

    Those are the values of its preset, else the defaults. Smoke runs are left out: they differ in
    what makes them short.
    """
    kind, whole, names = parse_name(policy).kind, whole_of(protocol), set[str]()
    if not (defaults := usual_settings(kind, None)):
        return []
    for cell, settings in table.settings.items():
        if cell.policy != policy or not settings:
            continue
        usual = _usual_settings(whole, protocol.family(policy)[1] or cell.task, kind)
        own = {**defaults, **settings}  # results leave out later ones at their defaults
        changed = {name for name in own if own[name] != usual.get(name)} - _OF_TASKS
        if changed and not _is_smoke(protocol, table, cell):
            names |= changed
    return sorted(names)


def _usual_settings(protocol: Protocol, task: str, learner: str) -> dict[str, Any]:
    """Return the hyperparameters of a learner whose model plays a task, or was trained on it."""
    trained = {one.id: one for one in protocol.training_tasks}
    playing = (
        one for one in trained.values() if task in {p.id for p in protocol.played_by(one.id)}
    )
    origin = trained.get(task) or next(playing, protocol.task[0])
    values = usual_settings(learner, protocol.preset_of(origin))
    reward = None if protocol.training is None else protocol.training.reward
    return values if reward is None else values | {"reward": reward}


def choosing(protocol: Protocol, table: EpisodeTable, cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells of runs that must have checkpoints on the task of the cell.

    They must on the tasks that are trained on, in a part of a protocol those of the whole. Where
    models play all tasks, imported checkpoints are chosen among on every task; a run that was
    trained here has chosen on the task it was trained on.
    """
    trained = {task.id for task in whole_of(protocol).trained_tasks}

    def chooses(cell: Cell) -> bool:
        origin = protocol.family(cell.policy)[1] or cell.task
        return cell.task in trained and (origin == cell.task or cell not in table.trained)

    return [cell for cell in cells if chooses(cell)]


def _other_checkpoints(protocol: Protocol, table: EpisodeTable, cell: Cell) -> str:
    """Say which checkpoints a run has if they are not those of a budget; empty if they are."""
    if protocol.training is None or protocol.seeds.selection is None:
        return ""
    budgets = [
        np.arange(budget.interval, budget.steps + 1, budget.interval)
        for budget in protocol.budgets_of(protocol.task_of(cell.task)).values()
    ]
    courses = table.progress_of(cell.task, cell.policy)
    steps = next((c.steps for c in courses if c.cell == cell), np.empty(0, np.int64))
    if any(np.array_equal(steps, budget) for budget in budgets):
        return ""
    texts = [f"{len(budget)} up to step {budget[-1]:,}" for budget in budgets]
    expected = " or ".join(dict.fromkeys(texts))  # kinds of learners may have equal budgets
    if not len(steps):
        return f"no checkpoints; the protocol has {expected}"
    return f"{len(steps)} checkpoints up to step {steps[-1]:,}; the protocol has {expected}"


def _other_steps(protocol: Protocol, table: EpisodeTable, cell: Cell) -> str:
    """Say for how many steps a run was trained if no budget allows them; empty if one does."""
    if protocol.training is None or cell not in table.trained:
        return ""
    planned = protocol.budgets_of(protocol.task_of(cell.task))
    steps, budgets = table.trained[cell], [budget.steps for budget in planned.values()]
    if steps in budgets:
        return ""
    allowed = " or ".join(f"{budget:,}" for budget in dict.fromkeys(budgets))
    return f"been trained for {steps:,} steps; the protocol asks for {allowed}"


def _foreign(protocol: Protocol) -> list[str]:
    """Say why the protocol is not one of this package."""
    shipped = _shipped(protocol)
    if shipped is None:
        return [f"{protocol.name} is not a protocol of this package"]
    if are_same(shipped, protocol):
        return []
    if are_replaced(shipped, protocol):
        return [f"it uses map files of the user: {maps_text(protocol)}"]
    if left_out := left_out_tasks(protocol):
        return [left_out]
    keys = differing_keys(shipped, protocol)
    return [f"it differs from the {protocol.name} of this package in {keys}"]


def _shipped(protocol: Protocol) -> Protocol | None:
    """Return the protocol of this package with the name and version of another one."""
    name = protocol.protocol.name
    shipped = load_protocol(name) if name in protocol_files() else None
    return None if shipped is None or shipped.name != protocol.name else shipped


def _absent(protocol: Protocol, table: EpisodeTable, present: tuple[str, ...]) -> list[str]:
    """Name baselines that are missing, and tasks that a policy has not played."""
    missing, reasons = [], []
    for policy in dict.fromkeys((*protocol.report.fixed, *present)):
        asked = [task.id for task in protocol.task if protocol.report.has_play(policy, task)]
        lacking = [task for task in asked if not table.has_begun(task, policy)]
        if len(lacking) == len(asked):
            missing.append(policy)
        elif lacking:
            reasons.append(f"{policy} {_part_played(asked, lacking)}")
    if missing:
        plural = ("s", "are") if len(missing) > 1 else ("", "is")
        names = ", ".join(missing)
        reasons.insert(0, f"the required baseline{plural[0]} {names} {plural[1]} missing")
    return reasons


def _part_played(asked: list[str], lacking: list[str]) -> str:
    """Name the tasks that a policy lacks or, where they are fewer, those that it has played."""
    played = [task for task in asked if task not in lacking]
    if len(played) < len(lacking):
        return f"has played {len(played)} of {len(asked)} tasks: {', '.join(played)}"
    return f"lacks the tasks {', '.join(lacking)}"


def missing_learners(protocol: Protocol, table: EpisodeTable) -> tuple[str, ...]:
    """Return the deviations that only say which runs of required learners are missing."""
    present = table.policies
    names = [name for name in protocol.missing(present) if name in protocol.report.learned]
    reasons = []
    if names:
        what = "learner {} is" if len(names) == 1 else "learners {} are"
        which = what.format(", ".join(names))
        reasons.append(f"the required {which} missing{_advice(protocol, names)}")
    for policy in present:
        if parse_name(policy).kind in protocol.report.learned:
            reasons += _missing_runs(protocol, table, policy)
    return tuple(reasons)


def left_out_tasks(protocol: Protocol) -> str:
    """Name the tasks of a protocol of this package that are left out; empty if none are.

    Where the tasks that are left are fewer, they are named.
    """
    whole = _shipped(protocol)
    if whole is None or not is_part(whole, protocol):
        return ""
    chosen = [task.id for task in protocol.task]
    others = [task.id for task in whole.task if task.id not in chosen]
    text = f"it has {len(chosen)} of the {len(whole.task)} tasks of {whole.name}"
    if len(chosen) < len(others):
        return f"{text}: {', '.join(chosen)}; the other {len(others)} are left out"
    return f"{text}; left out: {', '.join(others)}"


def _advice(protocol: Protocol, names: list[str]) -> str:
    """Say how to train required learners of a protocol of this package."""
    if protocol.training is None or protocol.protocol.name not in protocol_files():
        return ""
    added = "it" if len(names) == 1 else "the first"
    return f"; to add {added}: coopbench train {protocol.protocol.name} {names[0]}"


def _other_seeds(protocol: Protocol, block: Episodes) -> bool:
    expected = [protocol.seeds_of(task) for task in protocol.task if task.id == block.cell.task]
    return not any(np.array_equal(seeds, block.seeds) for seeds in expected)


def _other_seats(protocol: Protocol, block: Episodes) -> bool:
    tasks = [task for task in protocol.task if task.id == block.cell.task]
    seats = [task.seating(len(block), block.agents) == OWN for task in tasks]
    return not any(np.array_equal(expected, block.seats) for expected in seats)


@dataclass(frozen=True)
class MissingRun:
    """A training run of a policy on a task that is missing, or incomplete."""

    task: str
    policy: str
    run: int  # training seed
    state: str  # "failed", "missing" or "partial"
    reason: str


def missing_runs(protocol: Protocol, table: EpisodeTable) -> tuple[MissingRun, ...]:
    """List the missing runs of every learned policy, task by task.

    Runs are expected for the protocol's training seeds, as in ``deviations``, and for every further
    seed that the policy has on any task. Failed runs count in the score with the floor of the task;
    partial ones have fewer checkpoints than others of the policy. Checkpoints are expected on the
    tasks that are trained on, and not on those that name one of them.
    """
    expected = _expected(protocol, table)
    return tuple(
        row
        for task in protocol.task
        for policy, runs in expected.items()
        for row in _missing(table, task, policy, runs)
    )


def _expected(protocol: Protocol, table: EpisodeTable) -> dict[str, list[int]]:
    """Training seeds of every learned policy: the protocol's, and all that it has on any task."""
    cells = [block.cell for block in table]
    cells += [failure.cell for failure in table.failures]
    expected: dict[str, set[int]] = {}
    for cell in cells:
        if cell.run is not None:
            expected.setdefault(cell.policy, set(protocol.seeds.training)).add(cell.run)
    return {policy: sorted(runs) for policy, runs in expected.items()}


def _missing(table: EpisodeTable, task: Task, policy: str, runs: list[int]) -> Iterator[MissingRun]:
    """Iterate over the runs of one policy that are missing on one task."""
    name = task.id
    failed = {
        failure.cell.run: failure.reason
        for failure in table.failures
        if (failure.cell.task, failure.cell.policy) == (name, policy)
    }
    followed = table.progress_of(name, policy) if task.trained_on is None else ()
    courses = {progress.cell.run: progress.steps for progress in followed}
    longest = max((len(steps) for steps in courses.values()), default=0)
    played = [block.cell.run for block in table.runs(name, policy)]
    for run in runs:
        if run in failed:
            yield MissingRun(name, policy, run, "failed", failed[run])
        elif run not in played:
            yield MissingRun(name, policy, run, "missing", "no result")
        elif longest and run not in courses:
            yield MissingRun(name, policy, run, "partial", f"no checkpoints; others have {longest}")
        elif longest and len(courses[run]) < longest:
            reach = f"{len(courses[run])} of {longest} checkpoints, to step {courses[run][-1]:,}"
            yield MissingRun(name, policy, run, "partial", reach)
