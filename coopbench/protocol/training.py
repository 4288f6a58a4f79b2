"""Training of a protocol: what learned policies are trained on, with whom, and how long."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field, field_validator, model_validator

import coopbench_envs
from coopbench.baselines.registry import presets
from coopbench.protocol.base import Strict, as_tuple, later
from coopbench.protocol.seeds import Seeds
from coopbench.protocol.task import Budget, Task
from coopbench_envs.parameters import named, unknown

HELD_OUT = ("held-out", "unmet")  # ends of names of groups whose partners training may not meet


class Training(Strict):
    """What learned policies are trained on, how long, and which tasks they then play.

    A task is trained on as it is played: in all seats, or in one seat, in rotation, with its
    partners in the others.
    """

    on: Literal["each", "any"]  # one model per task; one model, on anything but what is held out
    plays: Literal["own", "all"] = "all"  # the task that the model was trained on, or every task
    held_out: tuple[str, ...] = ()  # values of EnvSpec.held_out, not trained on
    runs: int = Field(ge=1, le=1000)
    episodes: int = Field(ge=1, le=1_000_000)  # of every evaluation
    budgets: dict[str, Budget] = Field(min_length=1, max_length=100)  # by kind of learner
    # What learners maximize: own, each agent its own rewards; team, all agents the mean of all
    # rewards. By default the learner's own setting.
    reward: Literal["own", "team"] | None = later()
    # With on = "any": the setting on which the learners of this package train.
    task: Task | None = later()
    # The checkpoint that plays the evaluation episodes: "last"; by default the best in the
    # selection episodes, or the last if there are no selection seeds.
    evaluates: Literal["last"] | None = later()
    # Preset with hyperparameters for this package's learners; by default the learners' own.
    preset: str | None = later()
    tuning: str | None = later()  # how hyperparameters were found, in words: trials, budget

    _lists = field_validator("held_out", mode="before")(as_tuple)

    @field_validator("preset")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        """Refuse the name of a preset that this package does not have."""
        if value is not None:
            named("preset", value, presets(), "[training]")
        return value

    @model_validator(mode="after")
    def _sensible(self) -> "Training":
        if (self.on == "any") != bool(self.held_out):
            raise ValueError("held_out goes with on = 'any', and 'any' needs it; name a value")
        if self.on == "any" and self.plays == "own":
            raise ValueError("plays = 'own' goes with on = 'each'; allowed with 'any': 'all'")
        if self.task is not None and self.on == "each":
            raise ValueError(
                "[training.task] goes with on = 'any'; with 'each' the tasks are trained on"
            )
        return self


def held_out_parameters(tasks: Sequence[Task]) -> str:
    """Return the parameters of tasks that ``held_out`` refers to, joined by "or"; "" if none."""
    names = dict.fromkeys(coopbench_envs.spec(task.env).held_out for task in tasks)
    return " or ".join(filter(None, names))


def check_training(training: Training | None, seeds: Seeds, tasks: Sequence[Task]) -> None:
    """Check a training against seeds and tasks; raise ``ValueError`` if it does not fit."""
    if training is not None:
        _check_seeds(training, seeds)
        _check_held_out(training, tasks)
        _check_training_task(training, seeds)
    _check_trained_on(training, tasks)
    _check_training_partners(tasks)
    _check_own_training(training, tasks)


def _check_seeds(training: Training, seeds: Seeds) -> None:
    """Check that training has a seed for every run and episode."""
    if training.runs != len(seeds.training):
        raise ValueError(
            f"training has {training.runs} runs, but there are {len(seeds.training)} "
            f"training seeds; allowed: one seed per run"
        )
    selection = seeds.selection
    if training.evaluates is not None and selection is None:
        raise ValueError(
            "evaluates = 'last' is of protocols that play selection episodes; name the seeds of "
            "these, or remove the key: the last policy is then evaluated anyway"
        )
    if selection is not None and selection.count != training.episodes:
        raise ValueError(
            f"training evaluates {training.episodes} episodes, but there are "
            f"{selection.count} selection seeds; allowed: one seed per episode"
        )


def _check_held_out(training: Training, tasks: Sequence[Task]) -> None:
    """Check that what is held out are values that tasks have in the parameter for that."""
    parameters = held_out_parameters(tasks)
    if training.held_out and not parameters:
        names = ", ".join(dict.fromkeys(task.env for task in tasks))
        raise ValueError(
            f"held_out needs a parameter whose values can be held out; {names} has none"
        )
    values = {
        str(value)
        for task in tasks
        if (value := task.parameters.get(coopbench_envs.spec(task.env).held_out)) is not None
    }
    for name in training.held_out:
        if name not in values:
            raise ValueError(unknown(f"held-out {parameters}", name, values, "the tasks"))


def _check_training_task(training: Training, seeds: Seeds) -> None:
    """Check what a model is trained on that plays all tasks: not what is held out."""
    task = training.task
    if training.on == "any" and seeds.selection is not None:
        raise ValueError(
            "selection seeds go with on = 'each': with 'any' a checkpoint would be chosen on "
            "held-out values; remove one of them"
        )
    if task is None:
        return
    value = str(task.parameters.get(coopbench_envs.spec(task.env).held_out))
    if value in training.held_out:
        raise ValueError(f"[training.task] has {value!r}, which is held out; choose another one")
    if task.partners or any((task.trained_on, task.instances, task.budget)):
        raise ValueError(
            "[training.task] takes id, env, parameters and bounds; remove partners, trained_on, "
            "instances and budget"
        )


def _check_training_partners(tasks: Sequence[Task]) -> None:
    """Check that no partner that a task holds out is met in the training of its models.

    Held out are the partners in groups whose name ends in one of ``HELD_OUT``.
    """
    by_id = {task.id: task for task in tasks}
    for task in tasks:
        if task.trained_on is None or not task.group.endswith(HELD_OUT):
            continue
        met = by_id[task.trained_on].partner_names
        held = next((name for name in task.partner_names if name in met), None)
        if held is not None:
            raise ValueError(
                f"{held!r} is held out in {task.id!r} (group {task.group!r}), but met in training: "
                f"it is a partner in {task.trained_on!r}; remove it from one of them"
            )


def _check_own_training(training: Training | None, tasks: Sequence[Task]) -> None:
    """Check that only tasks on which a model of their own is trained have budget and preset."""
    own = [(task, key) for task in tasks for key in ("budget", "preset")]
    for task, key in own:
        if getattr(task, key) is None:
            continue
        where = f"task {task.id!r} has a {key}"
        if training is None or training.on != "each":
            raise ValueError(f"{where}, which goes with on = 'each' in [training]; remove it")
        if task.trained_on is not None:
            raise ValueError(
                f"{where}, but is played by models of {task.trained_on!r}; remove it, or give "
                f"{task.trained_on!r} one"
            )
        if key == "preset" and task.preset is not None:
            named("preset", task.preset, presets(), where)


def _check_trained_on(training: Training | None, tasks: Sequence[Task]) -> None:
    """Check that the tasks named by ``trained_on`` have models that can play the task."""
    by_id = {task.id: task for task in tasks}
    for task in tasks:
        if task.trained_on is None:
            continue
        where = f"task {task.id!r} has trained_on = {task.trained_on!r}"
        if training is None:
            raise ValueError(f"{where}, but there is no [training]; add it or remove the key")
        if training.plays != "own":
            raise ValueError(
                f"{where}, but training has on = {training.on!r} and plays = "
                f"{training.plays!r}; allowed: 'each' and 'own'"
            )
        _check_trainable(task, task.trained_on, by_id, where)


def _check_trainable(task: Task, other_id: str, tasks: Mapping[str, Task], where: str) -> None:
    """Check that the task ``other_id`` is trained on, in the game of ``task``."""
    allowed = [other.id for other in tasks.values() if not _unfit(task, other)]
    if other_id not in tasks:
        raise ValueError(unknown("task", other_id, allowed, where))
    reason = _unfit(task, tasks[other_id])
    if reason:
        raise ValueError(f"{where}, {reason}; allowed: {', '.join(allowed) or 'none here'}")


def _unfit(task: Task, other: Task) -> str:
    """Say why models trained on ``other`` cannot be those of ``task``; empty if they can."""
    if other.id == task.id:
        return "which is the task itself"
    if other.env != task.env:
        return f"which is {other.env}, not {task.env}"
    if other.trained_on is not None:
        return f"which has models of another task itself ({other.trained_on!r})"
    return ""
