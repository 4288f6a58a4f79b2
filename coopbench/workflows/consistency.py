"""Consistency: what must hold of a stored cell before it is played again.

A cell that is not of its protocol is not played.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from coopbench.baselines.match import OWN
from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench.baselines.registry import POLICY_FILE
from coopbench.episodes.fingerprints import extremes
from coopbench.episodes.metrics import known_metrics, values
from coopbench.episodes.table import Episodes, Progress
from coopbench.episodes.trajectories import agent_metrics, episode_metrics
from coopbench.playing.plan import game_of
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.results.store import Stored
from coopbench.workflows.episode_diff import differences
from coopbench.workflows.verdicts import ABSOLUTE, RELATIVE, Discrepancy
from coopbench_envs.foreign_names import is_foreign

# --- the episodes ---------------------------------------------------------------------------------


def episode_discrepancies(protocol: Protocol, task: Task, block: Episodes) -> Iterator[Discrepancy]:
    """Yield how episodes are not those of the protocol."""
    if len(block) != protocol.episodes(task):
        yield Discrepancy(f"{len(block)} episodes; the protocol has {protocol.episodes(task)}")
        return
    game = game_of(task)
    if block.agents != game.agents:
        yield Discrepancy(f"the agents are {block.agents}; those of the game are {game.agents}")
        return
    expected = {
        "seeds": protocol.seeds_of(task),
        "seats": task.seating(len(block), game.agents) == OWN,
    }
    stored = {name: getattr(block, name) for name in expected}
    yield from differences(stored, expected, range(len(block)))
    horizon = int(game.constants.horizon)
    ends = block.lengths
    # Environments of other packages truncate when they like, some of ours by a limit of the lane.
    truncates = is_foreign(task.env) or task.spec.kernels_of(game.constants).late is not None
    whole = truncates | (ends == horizon)
    early = (ends < 1) | (ends > horizon) | (~block.terminated & ~whole)
    if early.any():
        k = int(np.flatnonzero(early)[0])
        text = f"episode {k} has {ends[k]} steps and was {'' if block.terminated[k] else 'not '}"
        yield Discrepancy(f"{text}terminated; the horizon is {horizon}", episodes=(k,))
        return
    yield from _array_discrepancies(task, block, int(ends.max()))


def _array_discrepancies(task: Task, block: Episodes, longest: int) -> Iterator[Discrepancy]:
    """Yield how arrays are not those of the game, or do not fit each other."""
    environment = task.spec
    measured = list(environment.metrics)
    names = {
        "metrics": (list(block.metrics), [*measured, *episode_metrics(environment)]),
        "metrics of agents": (list(block.agent_metrics), list(agent_metrics(environment))),
        "curves": (list(block.curves), measured),
    }
    for kind, (stored, expected) in names.items():
        if stored != expected:
            yield Discrepancy(f"the {kind} are {stored}; those of the game are {expected}")
            return
    steps = block.own_trace.steps
    if steps.shape != (longest,) or steps.dtype != np.uint64:
        yield Discrepancy(f"there are checksums of {steps.shape} steps; the longest has {longest}")
    for name, course in block.curves.items():
        if course.shape != (longest + 1,):
            text = f"the curve of {name} has {course.size} points; allowed: {longest + 1}"
            yield Discrepancy(text)
        elif not _adds_up(course[-1] * len(block), block.metrics[name]):
            mean = block.metrics[name].mean()
            yield Discrepancy(f"the curve of {name} ends at {course[-1]}; its mean is {mean}")


def return_discrepancies(block: Episodes) -> Iterator[Discrepancy]:
    """Yield recorded episodes whose rewards do not add up to their returns."""
    for k, (_, rewards) in block.own_trace.recorded.items():
        if not _adds_up(block.returns[k], rewards):
            paid = rewards.sum(axis=0).tolist()
            text = f"the returns of episode {k} are {block.returns[k].tolist()}; its rewards add up"
            yield Discrepancy(f"{text} to {paid}", episodes=(k,))


def recorded_discrepancies(
    protocol: Protocol, block: Episodes, recordable: int
) -> Iterator[Discrepancy]:
    """Yield whether other episodes are recorded than the best and the worst of the first ones."""
    expected = extremes(values(block, protocol.report.score)[:recordable])
    recorded = tuple(block.own_trace.recorded)
    if recorded != expected:
        yield Discrepancy(f"the episodes {recorded} are recorded; it should be {expected}")


def _adds_up(sums: np.ndarray, parts: np.ndarray) -> bool:
    """Whether sums are those of ``parts`` over axis 0, but for the rounding of large parts."""
    rounding = RELATIVE * np.abs(parts).sum(axis=0)
    near = np.abs(parts.sum(axis=0) - sums) <= ABSOLUTE + rounding
    return bool((near | np.isnan(sums) & np.isnan(parts).any(axis=0)).all())


# --- the metadata and the checkpoints -------------------------------------------------------------


def metadata_discrepancies(protocol: Protocol, stored: Stored) -> Iterator[Discrepancy]:
    """Yield how the metadata of a cell do not fit its protocol and its checkpoints."""
    meta, progress = stored.meta, stored.progress
    if meta["protocol"] != protocol.name:
        text = f"meta.json names the protocol {meta['protocol']!r}; it is {protocol.name!r}"
        yield Discrepancy(text)
    if not isinstance(meta["platform"], str) or not isinstance(meta["versions"], dict):
        yield Discrepancy("meta.json does not name the platform and versions of the cell")
    if meta["run"] is None and meta["training"] is not None:
        yield Discrepancy("meta.json describes a training, but the cell is not of a training run")
    if progress is not None:
        yield from _progress_discrepancies(protocol, progress, meta["chosen_step"])


def _progress_discrepancies(
    protocol: Protocol, progress: Progress, chosen: Any
) -> Iterator[Discrepancy]:
    """Yield how checkpoints are not those of the protocol, or whether the wrong one was chosen."""
    selection, steps = protocol.seeds.selection, progress.steps
    if selection is None or progress.cell.run is None:
        yield Discrepancy("there are checkpoints, but no selection seeds or no training run")
        return
    task = protocol.task_of(progress.cell.task)
    # What a protocol reports may change after the training; what it chooses by may not.
    needed = {"return", protocol.report.score}
    allowed = {*known_metrics(task.spec), *protocol.selection_metrics_of(task)}
    if not needed <= {*progress.metrics} <= allowed:
        yield Discrepancy(
            f"checkpoints have the metrics {list(progress.metrics)}; needed: "
            f"{', '.join(sorted(needed))}; allowed: {', '.join(sorted(allowed))}"
        )
        return
    for name, scores in progress.metrics.items():
        if scores.shape != (len(steps), selection.count) or scores.dtype != np.float64:
            yield Discrepancy(f"{name} of checkpoints is {scores.shape} of {scores.dtype}")
            return
    if steps.dtype != np.int64 or not (np.diff(steps) > 0).all() or steps[0] < 0:
        yield Discrepancy("the steps of the checkpoints do not increase")
    due = int(steps[protocol.chosen(progress)])
    if type(chosen) is not int or chosen != due:
        last = protocol.training is not None and protocol.training.evaluates == "last"
        text = f"the checkpoint of step {chosen} was chosen; the {'last' if last else 'best'} is"
        yield Discrepancy(f"{text} that of {due}")


# --- the trained policy ---------------------------------------------------------------------------


def policy_discrepancies(stored: Stored, policy: TrainedPolicy) -> Iterator[Discrepancy]:
    """Yield how a trained policy is not the one that the metadata describe."""
    meta = stored.meta
    pairs = {
        "run": (policy.facts["seed"], meta["run"]),
        "hyperparameters": (policy.hyperparameters, meta["hyperparameters"]),
    }
    for name, (value, stated) in pairs.items():
        if value != stated:
            yield Discrepancy(f"{POLICY_FILE} has the {name} {value!r}; meta.json says {stated!r}")
    yield from _training_discrepancies(stored, policy)


def _training_discrepancies(stored: Stored, policy: TrainedPolicy) -> Iterator[Discrepancy]:
    """Yield how the training in the metadata is not that of the policy and its checkpoints."""
    facts, progress = stored.meta["training"], stored.progress
    stated = {name: facts.get(name) for name in ("steps", "interval", "chosen_step")}
    if not all(type(number) is int and number > 0 for number in stated.values()):
        yield Discrepancy(f"the training in meta.json has {stated}; allowed: whole numbers > 0")
        return
    steps, interval, chosen = stated.values()
    if steps % interval or chosen % interval or chosen > steps:
        yield Discrepancy(f"the training in meta.json has {stated}, which do not fit together")
    if not chosen - interval < policy.facts["steps"] <= chosen:
        yield Discrepancy(
            f"{POLICY_FILE} was trained for {policy.facts['steps']!r} steps; meta.json chose that "
            f"of {chosen}"
        )
    if progress is None:
        return
    marks = range(interval, steps + 1, interval)
    if len(progress.steps) != len(marks) or (progress.steps != np.array(marks)).any():
        yield Discrepancy(f"the checkpoints are not every {interval} of {steps} steps")
    if chosen != stored.meta["chosen_step"]:
        other = stored.meta["chosen_step"]
        yield Discrepancy(f"meta.json names two checkpoints, {chosen} and {other}")
