"""Which training runs a protocol and a learner make, checked before one of them begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coopbench.baselines.learner import LearnerEntry, settings_of
from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench.baselines.registry import learners, make_learner, preset
from coopbench.episodes.names import names_given
from coopbench.episodes.table import Cell
from coopbench.errors import ProtocolError
from coopbench.playing.contestants import is_seed
from coopbench.playing.plan import game_of
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import MOST_INTERVALS, MOST_STEPS, Budget, Task
from coopbench.workflows.run_folder import RunFolder
from coopbench.workflows.training_run import TrainJob, cell_of
from coopbench_envs.parameters import describe, is_whole, named, resolve, unknown

_SEEDS = 2**63  # a training seed is below


@dataclass(frozen=True)
class Scope:
    """Which part of a protocol's training is done; by default all of it."""

    tasks: Sequence[str] | None = None  # trained tasks, by id
    seeds: Sequence[int] | None = None  # training seeds, also others than the protocol's
    steps: int | None = None  # in place of the protocol's budget
    smoke: bool = False  # a hundredth of the budget, to see whether everything works


def runs(
    protocol: Protocol, learner: str, root: Path, scope: Scope, hyperparameters: Mapping[str, Any]
) -> list[TrainJob]:
    """Return the runs that ``train`` would train; every problem is found before one begins."""
    entry: LearnerEntry = named("learner", learner, learners())
    budget_of(protocol, entry, scope.steps, scope.smoke)  # before tasks: it may train nothing
    tasks = _tasks(protocol, scope.tasks)
    _check_partners(protocol, tasks, entry)
    budgets, settings = {}, {}
    for task in tasks:
        budget = budget_of(protocol, entry, scope.steps, scope.smoke, task)
        chosen = preset(protocol.preset_of(task), learner) | dict(hyperparameters)
        chosen = _settings(protocol, entry, budget, scope.smoke, chosen)
        budgets[task.id], settings[task.id] = budget, _with_partners(protocol, task, chosen)
    seeds = _seeds(protocol, scope.seeds)
    for task in tasks:  # raises if a game cannot be learned, or a value does not fit
        values = settings[task.id]
        made = make_learner(learner, task.environment, task.parameters, seeds[0], **values)
        _check_plays(protocol, task, made.policy(), values)
    return [
        TrainJob(
            protocol=protocol,
            cell=cell,
            learner=learner,
            seed=seed,
            folder=RunFolder(root.absolute(), f"{_folder(protocol, cell)}/training"),
            budget=budgets[task.id],
            settings=settings[task.id],
        )
        for seed in seeds
        for task in tasks
        for cell in (cell_of(protocol, learner, task.id, seed),)
    ]


def _folder(protocol: Protocol, cell: Cell) -> str:
    """Return the folder of a run: that of its cell on the first task that it plays."""
    return replace(cell, task=protocol.played_by(cell.task)[0].id).folder


def _check_plays(
    protocol: Protocol, task: Task, policy: TrainedPolicy, settings: Mapping[str, Any]
) -> None:
    """Raise ``ValueError`` if the models of a task cannot play what they have to play.

    The policy is one before any training: its shape does not change.
    """
    for played in protocol.played_by(task.id):
        try:
            policy.check(game_of(played))
        except ValueError as error:
            advice = ""
            if settings.get("seat_number", True):  # recorded only where it is False
                advice = (
                    " A shared model that is not told its seat plays any number of agents: choose "
                    "a learner whose name ends in _shared, with seat_number = false."
                )
            raise ValueError(
                f"A model of {policy.name!r} trained on {task.id!r} has to play {played.id!r} of "
                f"{protocol.name}. {error}{advice}"
            ) from None


def _check_partners(protocol: Protocol, tasks: Sequence[Task], learner: LearnerEntry) -> None:
    """Raise ``ValueError`` for a task with partners, unless the learner can train with them."""
    seated = next((task for task in tasks if task.partners), None)
    if seated is not None and "partners" not in describe(learner.params):
        raise ValueError(
            f"Task {seated.id!r} of {protocol.name} has partners, with which learner "
            f"{learner.name!r} cannot be trained: it has no hyperparameter 'partners'. Choose a "
            f"learner that has it ({', '.join(_learners_with_partners()) or 'none here'}). "
            f"'coopbench train' can also name tasks without partners (--task), and a protocol of "
            f"your own can say which model plays this task (trained_on)."
        )


def _learners_with_partners() -> list[str]:
    """Return the learners that can be trained with partners."""
    names, table = [], learners()
    for name in table:
        try:
            hyperparameters = describe(table[name].params)
        except ValueError:  # of another package, and it cannot be imported
            continue
        if "partners" in hyperparameters:
            names.append(name)
    return names


def _with_partners(protocol: Protocol, task: Task, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a run on a task, with its partners if it has some.

    Raises ``ValueError`` if other partners are named for it.
    """
    partners = list(task.partner_names)
    if settings.get("partners"):
        how = "beside the partners of this task" if partners else "in all seats"
        raise ValueError(
            f"partners were {list(settings['partners'])}; {protocol.name} trains every learner on "
            f"{task.id!r} {how}. Leave them out, or write a protocol whose task has these partners."
        )
    return settings | {"partners": partners} if partners else settings


def _settings(
    protocol: Protocol,
    learner: LearnerEntry,
    budget: Budget,
    smoke: bool,
    hyperparameters: Mapping[str, Any],
) -> dict[str, Any]:
    """Return all hyperparameters: those named, else what the protocol fixes, else the default.

    Raises ``ValueError`` if nothing would be learned within the budget.
    """
    values = dict(hyperparameters)
    values |= _fixed(protocol, learner, values)
    params = resolve(learner.params, values, f"learner {learner.name!r}")
    if smoke:
        params = learner.shortened(params, budget.interval)
    first = learner.first_update(params)
    if budget.steps < first:
        raise ValueError(
            f"Learner {learner.name!r} would learn nothing in {budget.steps:,} steps: with these "
            f"hyperparameters its first update comes after {first:,}. Give more steps, or other "
            f"hyperparameters; 'coopbench show {learner.name}' lists them."
        )
    lanes = getattr(params, "lanes", 1)  # a learner of another package may have none
    if lanes > budget.interval:
        raise ValueError(
            f"lanes was {lanes} with learner {learner.name!r}, and one step of all lanes counts as "
            f"{lanes}; allowed: up to {budget.interval}, the interval of the evaluations."
        )
    return settings_of(params)


def _fixed(protocol: Protocol, learner: LearnerEntry, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reward that a protocol fixes for all learners.

    Raises ``ValueError`` if another one is named, or the learner has no such hyperparameter.
    """
    reward = None if protocol.training is None else protocol.training.reward
    if reward is None:
        return {}
    if "reward" not in describe(learner.params):
        raise ValueError(
            f"{protocol.name} fixes reward for every learner, and learner {learner.name!r} has no "
            f"such hyperparameter; choose another learner or protocol."
        )
    if values.get("reward", reward) != reward:
        raise ValueError(
            f"reward was {values['reward']!r}; {protocol.name} trains every learner on "
            f"{reward!r}. Leave it out, or choose another protocol."
        )
    return {"reward": reward}


def budget_of(
    protocol: Protocol,
    learner: LearnerEntry,
    steps: int | None = None,
    smoke: bool = False,
    task: Task | None = None,
) -> Budget:
    """Return how long a learner trains under a protocol, or for ``steps``, or for a hundredth.

    With ``task``: on this task, which may have a budget of its own. Raises ``ProtocolError`` if the
    protocol trains nothing, or nothing of this kind.
    """
    training = protocol.training
    if training is None or not protocol.training_tasks:
        raise ProtocolError(
            f"{protocol.name} does not say what a model is trained on; choose a protocol that does "
            f"([training] with on = 'each', or with a setting [training.task])."
        )
    kinds = training.budgets if task is None else protocol.budgets_of(task)
    if learner.kind not in kinds and len(kinds) > 1:
        raise ProtocolError(
            f"{protocol.name} has budgets for {', '.join(kinds)} learners; {learner.name!r} is "
            f"{learner.kind}."
        )
    budget = kinds[learner.kind] if learner.kind in kinds else next(iter(kinds.values()))
    if steps is not None:
        budget = _changed(budget, steps, protocol)
    return budget.smoke if smoke else budget


def _changed(budget: Budget, steps: int, protocol: Protocol) -> Budget:
    """Return a budget of other ``steps``, with its interval or one that is as short as they are."""
    whole = is_whole(steps) and steps >= 1
    interval = min(budget.interval, steps) if whole else 1
    most = min(MOST_STEPS, MOST_INTERVALS * budget.interval)
    if not whole or steps % interval or steps > most:
        raise ValueError(
            f"steps was {steps!r}; allowed: multiples of {budget.interval} (the interval of "
            f"{protocol.name}) up to {most}, and 1 to {budget.interval}."
        )
    return Budget(steps=int(steps), interval=int(interval))


def _tasks(protocol: Protocol, names: Sequence[str] | None) -> list[Task]:
    """Return the tasks to train on; ``ValueError`` for a name that is not one of them."""
    trained = {task.id: task for task in protocol.training_tasks}
    named = names_given(names)
    if names is not None and not named:
        raise ValueError(f"tasks was {names!r}; allowed: a list of some of {', '.join(trained)}.")
    for name in named:
        if name not in trained:
            raise ValueError(unknown("task", name, trained, f"those trained by {protocol.name}"))
    chosen = [task for name, task in trained.items() if names is None or name in named]
    seated = next((task for task in chosen if isinstance(task.partners, dict)), None)
    if seated is not None:
        raise ValueError(
            f"Task {seated.id!r} of {protocol.name} has partners by role. It can be evaluated, but "
            f"not trained on: a learner meets all of its partners in all seats, and has no "
            f"hyperparameter for who sits in which role. Train on other tasks (--task), and give "
            f"this one 'trained_on' in a protocol of your own: their models then play it beside "
            f"these partners. Partners that fit every role can be named in one list."
        )
    return chosen


def _seeds(protocol: Protocol, seeds: Sequence[int] | None) -> tuple[int, ...]:
    """Return the training seeds; ``ValueError`` for those that are used to evaluate."""
    planned = protocol.seeds.training
    if seeds is None:
        if not planned:
            raise ProtocolError(f"{protocol.name} has no training seeds; name some.")
        return planned
    if not isinstance(seeds, Sequence):
        raise ValueError(f"seeds was {seeds!r}; allowed: a list of whole numbers >= 0.")
    spans = [protocol.seeds.evaluation, protocol.seeds.selection]
    held = [seed for seed in seeds for span in spans if span is not None and seed in span.seeds]
    wrong = [seed for seed in seeds if not (is_seed(seed) and seed < _SEEDS)]
    if held or wrong or len(set(seeds)) != len(seeds) or not seeds:
        raise ValueError(
            f"Training seeds were {list(seeds)}; allowed: different whole numbers >= 0 that "
            f"{protocol.name} does not evaluate on; its own are {list(planned)}."
        )
    return tuple(map(int, seeds))
