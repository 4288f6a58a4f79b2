"""Plan: a protocol and some policies become cells, the units of work and of results."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from coopbench.baselines.game import Game
from coopbench.baselines.player import Player
from coopbench.baselines.registry import hyperparameters, make_policy
from coopbench.episodes.table import Cell
from coopbench.episodes.trained import Trained
from coopbench.playing.contestants import (
    Checkpoints,
    Contestant,
    Failed,
    Model,
    PolicyArguments,
    PolicyLike,
    columns,
    is_seed,
)
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench_envs.foreign_names import is_foreign

Planned: TypeAlias = tuple[Cell, Contestant]


def plan(protocol: Protocol, policies: PolicyArguments) -> list[Planned]:
    """Pair every task with every policy, in the protocol's order, and check that they can play.

    ``FILE.py:NAME`` and ``module:NAME`` are policies from code, which is executed here.
    ``TrainedRuns`` play their own task or all tasks, as the protocol's training says. Baselines
    that the protocol requires of single groups of tasks play these groups alone.

    Raises ``ValueError`` before anything runs: for no policies, for two of one name, for a named
    policy that cannot play a task, for actions that do not fit one (see ``Player.check``), for
    hyperparameters that are not data, for models that are not those of the protocol, and for a
    method with training runs on some tasks only; ``TypeError`` for an object that is not a policy.
    """
    resolved = columns(protocol, policies)
    cells = [
        (Cell(task.id, contestant.name, run), replace(contestant, model=model))
        for task in protocol.task
        for contestant, played in resolved
        if protocol.report.has_play(contestant.name, task)
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


def _check(protocol: Protocol, cells: Sequence[Planned]) -> None:
    """Raise ``ValueError`` for models that cannot be played or described."""
    games = {task.id: game_of(task) for task in protocol.task}
    for task in (task for task in protocol.task if is_foreign(task.env)):
        task.check_partners(games[task.id])
    checked: set[tuple[str, str]] = set()
    for cell, contestant in cells:
        model = contestant.model
        if isinstance(model, Trained | Checkpoints | Failed):
            _check_run(protocol, cell, model)
        _check_trained_by(cell, contestant)
        game = games[cell.task]
        if contestant.granted:
            _check_granted(contestant)
            game = game_of(protocol.played_in(cell))
        for policy in _played(model):
            if not isinstance(policy, str):
                _check_object(policy, game, cell)
                if isinstance(model, Trained):
                    model.policy.check(game)
                hyperparameters(policy)
            elif (cell.task, policy) not in checked:
                make_policy(policy, game)
                checked.add((cell.task, policy))


def _check_object(policy: PolicyLike, game: Game, cell: Cell) -> None:
    """Raise ``TypeError`` for what is no policy, ``ValueError`` for one that does not fit."""
    try:
        Player(policy, game).check(policy)
    except ValueError as error:
        raise ValueError(f"Task {cell.task!r} cannot be played: {error}") from error


def _check_granted(contestant: Contestant) -> None:
    """Raise ``ValueError`` for an object under the name of a policy that has an advantage."""
    if not isinstance(contestant.model, str):
        raise ValueError(
            f"{contestant.name!r} is a policy of this package that plays with "
            f"{dict(contestant.granted)}, and another one was given under that name: choose "
            f"another name for it."
        )


def _played(model: Model | None) -> Iterable[PolicyLike]:
    """Return the policies that a model consists of."""
    if isinstance(model, Checkpoints):
        return model.policies.values()
    if isinstance(model, Trained):
        return (model.policy,)
    return () if model is None or isinstance(model, Failed) else (model,)


def _check_run(protocol: Protocol, cell: Cell, model: Trained | Checkpoints | Failed) -> None:
    """Raise ``ValueError`` for a model without a training seed, or unusable checkpoints."""
    if cell.run is None:
        raise ValueError(
            f"{cell.policy} on {cell.task!r} was given as {type(model).__name__}, which only makes "
            f"sense for a training run; give its seed: TrainedRuns(name, {{seed: ...}})."
        )
    if isinstance(model, Trained | Failed):
        return
    who = f"{cell.policy}, run {cell.run}, on {cell.task!r}"
    if protocol.seeds.selection is None:
        raise ValueError(
            f"{protocol.name} has no selection seeds to choose a checkpoint of {who} by; give the "
            f"policy that is to be evaluated."
        )
    if not model.policies or not all(is_seed(step) for step in model.policies):
        raise ValueError(
            f"Checkpoints of {who} are by steps trained: whole numbers >= 0; given "
            f"{list(model.policies) or 'none'!r}."
        )


def _check_trained_by(cell: Cell, contestant: Contestant) -> None:
    """Raise ``ValueError`` for a training run under the name of a policy that has not played it."""
    model, entry = contestant.model, contestant.entry
    if cell.run is None or entry is None or isinstance(model, Failed):
        return
    if isinstance(model, Trained):
        plays = model.policy.name == entry.name
    else:
        named = isinstance(model, str) and model == contestant.family
        plays = named and not entry.trained
    if not plays:
        raise ValueError(
            f"Run {cell.run} of {cell.policy} on {cell.task!r} is not one of the registered policy "
            f"{entry.name!r}: only what it plays, or has trained, has its name. Give TrainedRuns "
            f"another name."
        )


def game_of(task: Task) -> Game:
    """Describe the game of a task to a policy."""
    return Game.described(task.spec, **task.parameters)
