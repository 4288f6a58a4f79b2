"""Plan: a protocol and some policies become cells, the units of work and of results."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, TypeAlias, TypeGuard

from coopbench.baselines.game import Game
from coopbench.baselines.player import Player
from coopbench.baselines.registry import (
    entries,
    from_code,
    granted,
    hyperparameters,
    learners,
    make_policy,
    parse_name,
)
from coopbench.episodes.names import check_name, imitations
from coopbench.episodes.table import Cell
from coopbench.episodes.trained import Trained
from coopbench.playing.entrants import Entrants, entrants
from coopbench.playing.models import (
    Checkpoints,
    Entrant,
    Failed,
    Model,
    Models,
    PolicyLike,
    name_of,
)
from coopbench.protocol.schema import Protocol
from coopbench.protocol.sections import Task
from coopbench_envs.foreign_names import is_foreign
from coopbench_envs.parameters import unknown

__all__ = ["Planned", "check_units", "game_of", "plan"]

Planned: TypeAlias = tuple[Cell, Model]  # a cell and what plays it
Runs: TypeAlias = Mapping[int | None, Model]  # models by training seed; a fixed policy has None


def plan(protocol: Protocol, policies: Entrants) -> list[Planned]:
    """Pair every task with every policy, in the protocol's order, and check that they can play.

    ``FILE.py:NAME`` and ``module:NAME`` are policies from code, which is executed here. ``Models``
    play their own task or all tasks, as the protocol's training says.

    Raises ``ValueError`` before anything runs: for no policies, for two of one name, for a named
    policy that cannot play a task, for hyperparameters that are not data, for models that are not
    those of the protocol, and for a method with training runs on some tasks only; ``TypeError``
    for an object that is not a policy.
    """
    chosen = [from_code(policy) for policy in entrants(policies)]
    if not chosen:
        raise ValueError("No policies to evaluate: name at least one, for instance 'random'.")
    columns = [column for policy in chosen for column in _columns(protocol, policy)]
    labels = [name for name, _ in columns]
    for name in labels:
        check_name(name)
    for name, other in imitations(labels, entries()).items():
        raise ValueError(f"A policy is called {name!r}, almost like {other!r}: rename it.")
    repeated = sorted({name for name in labels if labels.count(name) > 1})
    if repeated:
        texts = [policy for policy in chosen if isinstance(policy, str)]
        same = all(texts.count(name) == labels.count(name) for name in repeated)
        advice = (
            "name each of them once."
            if same
            else "give them other names, for instance with a dictionary {name: policy}; code from "
            "FILE.py:NAME is called by its file's and its own name."
        )
        raise ValueError(f"Two policies are called {', '.join(repeated)}: {advice}")
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
    first_cells: dict[str, Cell] = {}
    for cell in cells:
        other = first_cells.setdefault(cell.policy, cell)
        if (cell.run is None) != (other.run is None):
            fixed, learned = (cell, other) if cell.run is None else (other, cell)
            raise ValueError(
                f"{cell.policy} is a fixed policy on {fixed.task!r} and has training runs on "
                f"{learned.task!r}: episodes and runs cannot be pooled. Give training seeds "
                f"everywhere, or use two names."
            )


def _columns(protocol: Protocol, policy: Entrant) -> list[tuple[str, Mapping[str, Runs]]]:
    """Return the names of a policy in the results, each with the models that play every task."""
    tasks = [task.id for task in protocol.task]
    if not isinstance(policy, Models):
        return [(name_of(policy), {task: {None: policy} for task in tasks})]
    training = protocol.training
    per_task = training is not None and training.on == "each"
    if _by_seed(policy):
        if per_task:
            raise ValueError(
                f"{policy.name} is one model per training seed; {protocol.name} trains on each of "
                f"its tasks. Give {{task: {{training seed: model}}}}."
            )
        runs: Runs = {int(seed): model for seed, model in policy.trained.items()}
        return [(policy.name, dict.fromkeys(tasks, runs))]
    if training is None or not per_task:
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


def _by_seed(models: Models) -> bool:
    """Whether models are by training seed, not by task; ``ValueError`` if by neither."""
    kinds = {"seed" if _is_seed(key) else type(key).__name__ for key in models.trained}
    if not kinds <= {"seed"} and not kinds <= {"str"}:
        raise ValueError(
            f"The models of {models.name} are by task (text) or by training seed (a whole number "
            f">= 0); given {list(models.trained)!r}."
        )
    return kinds == {"seed"}


def _check_trained(protocol: Protocol, name: str, tasks: Collection[str]) -> None:
    """Raise ``ValueError`` unless ``tasks`` are exactly those that models are trained on."""
    others = {task.id: task.trained_on for task in protocol.task if task.trained_on is not None}
    required = [task.id for task in protocol.trained_tasks]
    for task in tasks:
        if task in others:
            raise ValueError(
                f"{name} has a model for {task!r}, which the models of {others[task]!r} play; "
                f"leave it out. Models are for {', '.join(required)}."
            )
        if task not in required:
            raise ValueError(unknown("task", task, required, f"the models of {name}"))
    lacking = [task for task in required if task not in tasks]
    if lacking:
        raise ValueError(f"{name} has no model for {', '.join(lacking)}; train one on each.")


def _is_seed(key: Any) -> TypeGuard[int]:
    return isinstance(key, Integral) and not isinstance(key, bool) and int(key) >= 0


def _runs(name: str, task: str, model: Any) -> Runs:
    """Return the models of one task by training seed."""
    if not isinstance(model, Mapping):
        return {None: model}
    wrong = [key for key in model if not _is_seed(key)]
    if wrong or not model:
        raise ValueError(
            f"The models of {name} on {task!r} are by training seed: whole numbers >= 0; given "
            f"{wrong[0] if wrong else 'none'!r}."
        )
    return {int(seed): run for seed, run in model.items()}


def _check(protocol: Protocol, cells: Sequence[Planned]) -> None:
    """Raise ``ValueError`` for models that cannot be played or described."""
    games = {task.id: game_of(task) for task in protocol.task}
    for task in (task for task in protocol.task if is_foreign(task.env)):
        task.check_partners(games[task.id])
    checked: set[tuple[str, str]] = set()
    for cell, model in cells:
        if isinstance(model, Trained | Checkpoints | Failed):
            _check_run(protocol, cell, model)
        _check_trained_by(protocol, cell, model)
        game = games[cell.task]
        if granted(cell.policy):
            _check_granted(cell, model)
            game = game_of(protocol.played_in(cell))
        for policy in _played(model):
            if not isinstance(policy, str):
                Player(policy, game)  # raises if it is not a policy
                hyperparameters(policy)
            elif (cell.task, policy) not in checked:
                make_policy(policy, game)
                checked.add((cell.task, policy))


def _check_granted(cell: Cell, model: Model) -> None:
    """Raise ``ValueError`` for an object under the name of a policy that has an advantage."""
    if not isinstance(model, str):
        raise ValueError(
            f"{cell.policy!r} is a policy of this package that plays with "
            f"{dict(granted(cell.policy))}, and another one was given under that name: choose "
            f"another name for it."
        )


def _played(model: Model) -> Iterable[PolicyLike]:
    """Return the policies that a model consists of."""
    if isinstance(model, Checkpoints):
        return model.policies.values()
    if isinstance(model, Trained):
        return (model.policy,)
    return () if isinstance(model, Failed) else (model,)


def _check_run(protocol: Protocol, cell: Cell, model: Trained | Checkpoints | Failed) -> None:
    """Raise ``ValueError`` for a model without a training seed, or unusable checkpoints."""
    if cell.run is None:
        raise ValueError(
            f"{cell.policy} on {cell.task!r} was given as {type(model).__name__}, which only makes "
            f"sense for a training run; give its seed: Models(name, {{seed: ...}})."
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


def _check_trained_by(protocol: Protocol, cell: Cell, model: Model) -> None:
    """Raise ``ValueError`` for a training run under the name of a policy that has not played it."""
    name = protocol.family(cell.policy)[0]
    kind = parse_name(name).kind
    if cell.run is None or kind not in entries() or isinstance(model, Failed):
        return
    if isinstance(model, Trained):
        played: object = model.policy.name
    else:
        played = model if isinstance(model, str) and kind not in learners() else None
    if played != (kind if isinstance(model, Trained) else name):
        raise ValueError(
            f"Run {cell.run} of {cell.policy} on {cell.task!r} is not one of the registered policy "
            f"{kind!r}: only what it plays, or has trained, has its name. Give Models another name."
        )


def game_of(task: Task) -> Game:
    """Describe the game of a task to a policy."""
    return Game.described(task.spec, **task.parameters)
