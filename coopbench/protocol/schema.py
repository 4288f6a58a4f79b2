"""Protocols: what is played, with which seeds, by what measure; TOML in, frozen values out.

A released protocol is never edited: its name carries a version. Its digest, which goes into every
result, covers what is trained and played; see ``Protocol.digest``.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from coopbench.baselines.registry import parse_name
from coopbench.episodes.table import Cell, Progress
from coopbench.protocol.base import Strict, as_tuple, later
from coopbench.protocol.limits import LIMITS, Limits, check_limits
from coopbench.protocol.report import Reporting, check_report
from coopbench.protocol.seeds import Seeds
from coopbench.protocol.task import Budget, Task, check_tasks, groups_of
from coopbench.protocol.training import Training, check_training
from coopbench_envs.parameters import named

_TASKS, _PARTNERS = 1000, 2000  # of a protocol

# Text about a protocol, which changes nothing in any result or report of numbers.
_WORDING: dict[str, Any] = {
    "protocol": {"description", "citation", "differs"},
    "training": {"tuning"},
}
# What the digest leaves out as well: how results are normalized, compared and shown.
_SHOWN_OF_TASKS = {"bounds", "axes", "metrics", "varies"}
_NOT_PLAYED: dict[str, Any] = {
    "protocol": _WORDING["protocol"],
    "report": set(Reporting.model_fields) - {"score"},
    "training": {"tuning": True, "task": _SHOWN_OF_TASKS},
    "task": {"__all__": _SHOWN_OF_TASKS},
}


def _texts(content: Any) -> Iterator[str]:
    """Yield every text of a content like that of JSON, keys included."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):
        yield from _texts(list(content))
        yield from _texts(list(content.values()))
    elif isinstance(content, list | tuple):
        for item in content:
            yield from _texts(item)


def check_printable(content: Any) -> None:
    """Raise ``ValueError`` for a text in ``content`` that would steer a terminal."""
    for text in _texts(content):
        if not all(c.isprintable() or c == "\n" for c in text):
            raise ValueError(f"the text {text[:80]!r} holds control characters; remove them")


def _partners(task: Any) -> int:
    """Return the number of partners of a task that has not been checked."""
    pools = task.get("partners", ()) if isinstance(task, dict) else ()
    lists = pools.values() if isinstance(pools, dict) else [pools]
    return sum(len(names) for names in lists if isinstance(names, list | tuple))


class Identity(Strict):
    """Name, version and origin of a protocol."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    version: int = Field(ge=1, le=1_000_000)
    description: str
    citation: str = ""
    # In what it differs on purpose from the publication that it reproduces.
    differs: tuple[str, ...] | None = later()

    _lists = field_validator("differs", mode="before")(as_tuple)


class Protocol(Strict):
    """A validated protocol; see the files in ``protocols/``."""

    protocol: Identity
    seeds: Seeds
    report: Reporting
    training: Training | None = None
    limits: Limits | None = later()  # for timed play; evaluate keeps no time
    task: tuple[Task, ...] = Field(min_length=1, max_length=_TASKS)
    ad_hoc: bool = False

    @model_validator(mode="before")
    @classmethod
    def _shown(cls, content: Any) -> Any:
        """Refuse text that would steer the terminal on which a report is printed."""
        check_printable(content)
        return content

    @field_validator("limits", mode="before")
    @classmethod
    def _limits(cls, value: Any) -> Any:
        """Replace the name of a preset by its limits."""
        return named("preset of limits", value, LIMITS) if isinstance(value, str) else value

    @field_validator("task", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        """Turn a list into a tuple, unless its partners alone would take minutes to check."""
        if not isinstance(value, list):
            return value
        partners = sum(map(_partners, value))
        if partners > _PARTNERS:
            raise ValueError(f"all tasks have {partners:,} partners; allowed: up to {_PARTNERS:,}")
        return tuple(value)

    @model_validator(mode="after")
    def _checked(self) -> "Protocol":
        check_tasks(self.task, self.seeds)
        check_report(self.report, self.task)
        check_training(self.training, self.seeds, self.task)
        check_limits(self.limits, self.task)
        return self

    @property
    def name(self) -> str:
        """Name with version, for instance ``coopetition-standard-v1``."""
        return f"{self.protocol.name}-v{self.protocol.version}"

    @cached_property
    def groups(self) -> dict[str, tuple[Task, ...]]:
        """Tasks by group, in the order of the file; one group named "" if there are none."""
        return groups_of(self.task)

    def task_of(self, task_id: str) -> Task:
        """Return the task of an id; raise ``ValueError`` with the nearest one if there is none."""
        tasks = {task.id: task for task in self.task}
        task: Task = named("task", task_id, tasks, self.protocol.name)
        return task

    def played_in(self, cell: Cell) -> Task:
        """Return the task of a cell as the policy of the cell plays it."""
        return self.task_of(cell.task).as_played_by(cell.policy)

    def budgets_of(self, task: Task) -> dict[str, Budget]:
        """Return how long the models of a task are trained, by kind of learner.

        A task's own budget holds for all kinds of learners; its key is "". Empty if the protocol
        trains nothing.
        """
        if task.trained_on is not None:
            return self.budgets_of(self.task_of(task.trained_on))
        if task.budget is not None:
            return {"": task.budget}
        return {} if self.training is None else self.training.budgets

    def preset_of(self, task: Task) -> str | None:
        """Name of the preset of hyperparameters for trainings on a task; None without one."""
        if self.training is None or task.preset is not None:
            return task.preset
        return self.training.preset

    def missing(self, present: Iterable[str]) -> tuple[str, ...]:
        """Return the required baselines that are not among the policies ``present``.

        A learned baseline counts as present under its name, also with values after a colon.
        """
        names = set(present)
        kinds = {parse_name(name).kind for name in names}
        fixed = [name for name in self.report.fixed if name not in names]
        return (*fixed, *(name for name in self.report.learned if name not in kinds))

    def family(self, policy: str) -> tuple[str, str]:
        """Return a policy's name, and the task it was trained on if it is one of several models.

        A model is called ``name:task``. The task is empty for all other policies.
        """
        name, task = parse_name(policy)
        if self._has_model_columns and task in {t.id for t in self.task}:
            return name, task
        return policy, ""

    def models_called(self, learner: str) -> tuple[str, ...]:
        """Return the policies that a learner's models are: one, or ``learner:task`` of each."""
        if self._has_model_columns:
            return tuple(f"{learner}:{task.id}" for task in self.task)
        return (learner,)

    @property
    def _has_model_columns(self) -> bool:
        """Whether there is a model for each task, and each of them plays all tasks."""
        training = self.training
        return training is not None and (training.on, training.plays) == ("each", "all")

    @property
    def trained_tasks(self) -> tuple[Task, ...]:
        """Tasks without ``trained_on``: those that have models and checkpoints of their own."""
        return tuple(task for task in self.task if task.trained_on is None)

    @property
    def training_tasks(self) -> tuple[Task, ...]:
        """Settings on which learners train, one model on each; empty if none is declared."""
        if self.training is None:
            return ()
        if self.training.on == "each":
            return self.trained_tasks
        return () if self.training.task is None else (self.training.task,)

    def chosen(self, progress: Progress) -> int:
        """Return the number of the checkpoint that plays the evaluation, the best or the last.

        The best has the highest mean score on the selection seeds, in the task that it was trained
        on: with its partners if it has some.
        """
        if self.training is not None and self.training.evaluates == "last":
            return len(progress) - 1
        return progress.best(self.report.score)

    def selection_metrics_of(self, task: Task) -> tuple[str, ...]:
        """Return the metrics that are stored of the checkpoints of models trained on a task."""
        return tuple(dict.fromkeys(("return", *self.report.metrics_of(task))))

    def model_of(self, task: Task) -> str:
        """Return the task that the models of a task are trained on; "" if they play all tasks."""
        own = self.training is not None and self.training.plays == "own"
        return task.origin if own else ""

    def played_by(self, task_id: str) -> tuple[Task, ...]:
        """Return the tasks that the models of a trained task play, that task first.

        Raises ``ValueError`` if ``task_id`` is none of ``trained_tasks`` and ``training_tasks``.
        """
        if self.training is not None and self.training.on == "any":
            return self.task
        trained = {task.id: task for task in self.trained_tasks}
        first = named("task", task_id, trained, "the tasks that are trained on")
        every = self.training is None or self.training.plays == "all"
        others = [task for task in self.task if task is not first]
        return (first, *(task for task in others if every or task.trained_on == task_id))

    def episodes(self, task: Task) -> int:
        """Return the number of evaluation episodes of ``task``."""
        return self.seeds.evaluation.count if task.episodes is None else task.episodes

    def seeds_of(self, task: Task) -> np.ndarray:
        """Return the evaluation seeds of ``task``, uint64, one per episode."""
        return np.array(self.seeds.evaluation.seeds[: self.episodes(task)], np.uint64)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what is trained and played, and of the score that chooses checkpoints.

        Results of two protocols with one digest can stand in one folder. It leaves out text,
        bounds, and everything else that a report can be made with anew; see ``content``.
        """
        return _sha256(self.model_dump(mode="json", exclude=_NOT_PLAYED))

    def content(self) -> dict[str, Any]:
        """Return everything except text; protocols with equal content are the same protocol."""
        return self.model_dump(mode="json", exclude=_WORDING)

    @cached_property
    def content_digest(self) -> str:
        """SHA-256 of ``content``: also of the analysis, which ``digest`` leaves out."""
        return _sha256(self.content())

    def changed(self, **fields: Any) -> "Protocol":
        """Return the protocol with other ``fields``; it is checked again, its sections are not."""
        kept = {name: getattr(self, name) for name in Protocol.model_fields}
        return Protocol.model_validate(kept | fields, strict=False)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other fields, which has digests and groups of its own."""
        copied = super().model_copy(update=update, deep=deep)
        for name in ("digest", "content_digest", "groups"):
            copied.__dict__.pop(name, None)
        return copied


def _sha256(content: Mapping[str, Any]) -> str:
    """Return the SHA-256, in hex digits, of the canonical JSON of a content."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
