"""Departures: why a report is not the standard report of its protocol."""

import numpy as np

from coopbench.baselines.match import OWN
from coopbench.episodes.table import Cell, Episodes, EpisodeTable
from coopbench.protocol.loading import load_protocol, protocol_files
from coopbench.protocol.schema import Protocol
from coopbench.protocol.user_maps import are_replaced, maps_text

__all__ = ["chooses", "departures"]


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
        reasons += _other_runs(protocol, table, policy)
        reasons += _other_training(protocol, table, policy)
        reasons += _mixed(table, policy)
    return tuple(reasons)


def _failed(table: EpisodeTable) -> list[str]:
    """Training runs that came to nothing, each with all tasks that it does not play."""
    told: dict[tuple[str, int | None, str], list[str]] = {}
    for failure in table.failures:
        what = (failure.cell.policy, failure.cell.run, failure.reason)
        told.setdefault(what, []).append(failure.cell.task)
    return [
        f"run {run} of {policy} on {', '.join(tasks)} failed: {reason}"
        for (policy, run, reason), tasks in told.items()
    ]


def _other_runs(protocol: Protocol, table: EpisodeTable, policy: str) -> list[str]:
    """How the training runs of a policy are not those of the protocol; failed ones are named."""
    seeds, failed = protocol.seeds.training, {failure.cell for failure in table.failures}
    told: dict[str, list[str]] = {}
    for task in (task for task, name in table.pairs if seeds and name == policy):
        runs = [block.cell.run for block in table.runs(task, policy)]
        if runs == [None]:
            if policy.partition(":")[0] in protocol.report.learned:
                told.setdefault(f"has one run, not {len(seeds)},", []).append(task)
            continue
        there = {
            *runs,
            *(cell.run for cell in failed if (cell.task, cell.policy) == (task, policy)),
        }
        lacking = ", ".join(str(seed) for seed in seeds if seed not in there)
        others = ", ".join(str(run) for run in runs if run not in seeds)
        for what, which in (("lacks the runs", lacking), ("has runs of its own,", others)):
            if which:
                told.setdefault(f"{what} {which}", []).append(task)
    return [f"{policy} {what} on {', '.join(tasks)}" for what, tasks in told.items()]


def _other_training(protocol: Protocol, table: EpisodeTable, policy: str) -> list[str]:
    """Runs that were not trained as a budget of the protocol says.

    Only on the tasks that are trained on: the models of these play the others.
    """
    told: dict[str, dict[str, list[str]]] = {}
    for block in table:
        cell = block.cell
        if cell.policy == policy and cell.run is not None and chooses(protocol, table, cell):
            what = _other_checkpoints(protocol, table, cell) or _other_steps(protocol, table, cell)
            if what:
                told.setdefault(what, {}).setdefault(cell.task, []).append(str(cell.run))
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for what, places in told.items():
        for task, runs in places.items():
            alike.setdefault((what, tuple(runs)), []).append(task)
    return [
        f"{'run' if len(runs) == 1 else 'runs'} {', '.join(runs)} of {policy} on "
        f"{', '.join(tasks)} {'has' if len(runs) == 1 else 'have'} {what}"
        for (what, runs), tasks in alike.items()
    ]


def _mixed(table: EpisodeTable, policy: str) -> list[str]:
    """Tasks on which the runs of a policy were trained with different hyperparameters."""
    told: dict[str, list[str]] = {}
    for task in (task for task, name in table.pairs if name == policy):
        cells = [block.cell for block in table.runs(task, policy)]
        runs = [table.settings[cell] for cell in cells if cell in table.settings]
        names = {n for each in runs for n in {**each, **runs[0]} if each.get(n) != runs[0].get(n)}
        if names:
            told.setdefault(", ".join(sorted(names)), []).append(task)
    return [
        f"runs of {policy} on {', '.join(tasks)} were trained with different values of {names}"
        for names, tasks in told.items()
    ]


def chooses(protocol: Protocol, table: EpisodeTable, cell: Cell) -> bool:
    """Whether a run is to have checkpoints on the task of a cell.

    It is on the tasks that are trained on. Where models play all tasks, checkpoints that are given
    are chosen among on each; a run that was trained here has chosen on its own.
    """
    trained = {task.id for task in protocol.trained_tasks}
    own = protocol.family(cell.policy)[1] or cell.task
    return cell.task in trained and (own == cell.task or cell not in table.trained)


def _other_checkpoints(protocol: Protocol, table: EpisodeTable, cell: Cell) -> str:
    """What checkpoints a run has that are not those of a budget; empty if they are."""
    if protocol.training is None or protocol.seeds.selection is None:
        return ""
    budgets = [
        np.arange(budget.interval, budget.steps + 1, budget.interval)
        for budget in protocol.training.budgets.values()
    ]
    courses = table.progress_of(cell.task, cell.policy)
    steps = next((each.steps for each in courses if each.cell == cell), np.empty(0, np.int64))
    if any(np.array_equal(steps, budget) for budget in budgets):
        return ""
    asked = " or ".join(f"{len(each)} up to step {each[-1]:,}" for each in budgets)
    there = f"{len(steps)} checkpoints up to step {steps[-1]:,}" if len(steps) else "no checkpoints"
    return f"{there}; the protocol has {asked}"


def _other_steps(protocol: Protocol, table: EpisodeTable, cell: Cell) -> str:
    """For how many steps a run was trained that are not those of a budget; empty if they are."""
    if protocol.training is None or cell not in table.trained:
        return ""
    steps, asked = table.trained[cell], [b.steps for b in protocol.training.budgets.values()]
    if steps in asked:
        return ""
    allowed = " or ".join(f"{each:,}" for each in asked)
    return f"been trained for {steps:,} steps; the protocol asks for {allowed}"


def _foreign(protocol: Protocol) -> list[str]:
    """Why the protocol is not one of this package."""
    name = protocol.protocol.name
    shipped = load_protocol(name) if name in protocol_files() else None
    if shipped is None or shipped.name != protocol.name:
        return [f"{protocol.name} is not a protocol of this package"]
    if shipped.digest != protocol.digest and are_replaced(shipped, protocol):
        return [f"its maps are those of the user: {maps_text(protocol)}"]
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
            advice = _advice(protocol, name)
            reasons.append(f"the required baseline {name} (to be trained) is missing{advice}")
    return reasons


def _advice(protocol: Protocol, name: str) -> str:
    """How to train a required baseline of a protocol of this package."""
    if protocol.training is None or protocol.protocol.name not in protocol_files():
        return ""
    return f"; train it: coopbench train {protocol.protocol.name} {name}"


def _other_seeds(protocol: Protocol, block: Episodes) -> bool:
    found = [protocol.seeds_of(task) for task in protocol.task if task.id == block.cell.task]
    return not any(np.array_equal(seeds, block.seeds) for seeds in found)


def _other_seats(protocol: Protocol, block: Episodes) -> bool:
    tasks = [task for task in protocol.task if task.id == block.cell.task]
    seats = [task.seating(len(block), block.agents) == OWN for task in tasks]
    return not any(np.array_equal(expected, block.seats) for expected in seats)
