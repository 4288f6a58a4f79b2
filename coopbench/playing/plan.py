"""Plan: a protocol and some policies become cells, the units of work and of results."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from coopbench.baselines.game import Game
from coopbench.baselines.player import Player
from coopbench.baselines.policy import label
from coopbench.baselines.registry import hyperparameters, make_policy
from coopbench.episodes.table import Cell
from coopbench.episodes.trained import Trained
from coopbench.protocol.schema import Protocol
from coopbench.protocol.sections import Task
from coopbench_envs.parameters import unknown

__all__ = ["Checkpoints", "Failed", "Models", "check_units", "game_of", "plan"]


@dataclass(frozen=True)
class Models:
    """What a method made of a protocol: a model for each task, for each training run, or for both.

    ``trained`` is ``{task: model}``, ``{training seed: model}`` or ``{task: {training seed:
    model}}``. A model is a policy, ``Trained``, ``Checkpoints`` or ``Failed``. Where models play
    all tasks, the one trained on task t is the policy ``name:t``.
    """

    name: str
    trained: Mapping[Any, Any]


@dataclass(frozen=True)
class Checkpoints:
    """Policies of one training run, ``{steps trained so far: policy}``.

    All play the protocol's selection seeds; the one with the highest mean return there (the
    earliest of several) plays the evaluation.
    """

    policies: Mapping[int, Any]


@dataclass(frozen=True)
class Failed:
    """A training run that came to no policy; it is listed in the report."""

    reason: str


def plan(protocol: Protocol, policies: list[Any]) -> list[tuple[Cell, Any]]:
    """Pair every task with every policy, in the protocol's order, and check that they can play.

    ``Models`` play their own task or all tasks, as the protocol's training says.

    Raises ``ValueError`` before anything runs: for no policies, for two of one name, for a named
    policy that cannot play a task, for hyperparameters that are no data, for models that are not
    those of the protocol, and for a method with training runs on some tasks only; ``TypeError``
    for what is no policy.
    """
    if not policies:
        raise ValueError("No policies to evaluate: name at least one, for instance 'random'.")
    columns = [column for policy in policies for column in _columns(protocol, policy)]
    labels = [name for name, _ in columns]
    repeated = sorted({name for name in labels if labels.count(name) > 1})
    if repeated:
        raise ValueError(f"Two policies are called {', '.join(repeated)}: give them other names.")
    cells = [
        (Cell(task.id, name, run), model)
        for task in protocol.task
        for name, played in columns
        for run, model in played[task.id].items()
    ]
    _check(protocol, cells)
    check_units(cell for cell, _ in cells)
    return cells


def check_units(cells: Iterable[Cell]) -> None:
    """Raise ``ValueError`` for a policy with training runs in some cells and none in others."""
    known: dict[str, Cell] = {}
    for cell in cells:
        other = known.setdefault(cell.policy, cell)
        if (cell.run is None) != (other.run is None):
            fixed, learned = (cell, other) if cell.run is None else (other, cell)
            raise ValueError(
                f"{cell.policy} is a fixed policy on {fixed.task!r} and has training runs on "
                f"{learned.task!r}: episodes and runs cannot be taken together. Give training "
                f"seeds everywhere, or two names."
            )


Runs = Mapping[int | None, Any]  # models by training seed; a fixed policy has None


def _columns(protocol: Protocol, policy: Any) -> list[tuple[str, Mapping[str, Runs]]]:
    """Names under which a policy stands in the results, each with who plays every task there."""
    tasks = [task.id for task in protocol.task]
    if not isinstance(policy, Models):
        name = policy if isinstance(policy, str) else label(policy)
        return [(name, {task: {None: policy} for task in tasks})]
    training = protocol.training
    each = training is not None and training.on == "each"
    kinds = {"seed" if _is_seed(key) else type(key).__name__ for key in policy.trained}
    if not kinds <= {"seed"} and not kinds <= {"str"}:
        raise ValueError(
            f"The models of {policy.name} are by task (text) or by training seed (a whole number "
            f">= 0); given {list(policy.trained)!r}."
        )
    if kinds == {"seed"}:
        if each:
            raise ValueError(
                f"{policy.name} is one model per training seed; {protocol.name} trains on each of "
                f"its tasks. Give {{task: {{training seed: model}}}}."
            )
        runs: Runs = {int(seed): model for seed, model in policy.trained.items()}
        return [(policy.name, dict.fromkeys(tasks, runs))]
    if training is None or not each:
        raise ValueError(
            f"{policy.name} is one model per task; {protocol.name} does not train on each of its "
            f"tasks. Name a single policy, or models by training seed."
        )
    trained = {task: _runs(policy.name, task, model) for task, model in policy.trained.items()}
    _check_trained(protocol, policy.name, trained)
    if training.plays == "own":
        played = {task.id: trained[task.trained_on or task.id] for task in protocol.task}
        return [(policy.name, played)]
    return [(f"{policy.name}:{t}", dict.fromkeys(tasks, trained[t])) for t in tasks]


def _check_trained(protocol: Protocol, name: str, given: Collection[str]) -> None:
    """Raise ``ValueError`` if the tasks ``given`` are not those that models are trained on."""
    others = {task.id: task.trained_on for task in protocol.task if task.trained_on is not None}
    own = [task.id for task in protocol.trained_tasks]
    for task in given:
        if task in others:
            raise ValueError(
                f"{name} has a model for {task!r}, which the models of {others[task]!r} play; "
                f"leave it out. Models are for {', '.join(own)}."
            )
        if task not in own:
            raise ValueError(unknown("task", task, own, f"the models of {name}"))
    lacking = [task for task in own if task not in given]
    if lacking:
        raise ValueError(f"{name} has no model for {', '.join(lacking)}; train one on each.")


def _is_seed(key: Any) -> bool:
    return isinstance(key, Integral) and not isinstance(key, bool) and int(key) >= 0


def _runs(name: str, task: str, model: Any) -> Runs:
    """Models of one task by training seed."""
    if not isinstance(model, Mapping):
        return {None: model}
    wrong = [key for key in model if not _is_seed(key)]
    if wrong or not model:
        raise ValueError(
            f"The models of {name} on {task!r} are by training seed: whole numbers >= 0; given "
            f"{wrong[0] if wrong else 'none'!r}."
        )
    return {int(seed): each for seed, each in model.items()}


def _check(protocol: Protocol, cells: list[tuple[Cell, Any]]) -> None:
    """Raise ``ValueError`` for what cannot be played or described: a policy, or checkpoints."""
    games = {task.id: game_of(task) for task in protocol.task}
    checked = set()
    for cell, model in cells:
        if isinstance(model, Trained | Checkpoints | Failed):
            _check_run(protocol, cell, model)
        for policy in _played(model):
            if not isinstance(policy, str):
                Player(policy, games[cell.task])  # says so if it is no policy
                hyperparameters(policy)
            elif (cell.task, policy) not in checked:
                make_policy(policy, games[cell.task])
                checked.add((cell.task, policy))


def _played(model: Any) -> Iterable[Any]:
    """Policies that a model consists of."""
    if isinstance(model, Checkpoints):
        return model.policies.values()
    if isinstance(model, Trained):
        return (model.policy,)
    return () if isinstance(model, Failed) else (model,)


def _check_run(protocol: Protocol, cell: Cell, model: Trained | Checkpoints | Failed) -> None:
    """Raise ``ValueError`` for what is of no training run, or cannot be chosen from."""
    if cell.run is None:
        raise ValueError(
            f"{cell.policy} on {cell.task!r} was given as {type(model).__name__}, which belongs to "
            f"a training run; give its seed: Models(name, {{seed: ...}})."
        )
    if isinstance(model, Trained | Failed):
        return
    who = f"{cell.policy}, run {cell.run}, on {cell.task!r}"
    if protocol.seeds.selection is None:
        raise ValueError(
            f"{protocol.name} has no selection seeds to choose a checkpoint of {who} by; give the "
            f"policy that is to be evaluated."
        )
    if not model.policies or not all(_is_seed(step) for step in model.policies):
        raise ValueError(
            f"Checkpoints of {who} are by steps trained: whole numbers >= 0; given "
            f"{list(model.policies) or 'none'!r}."
        )


def game_of(task: Task) -> Game:
    """Describe the game of a task to a policy."""
    return Game.at(task.env, **task.parameters)
