"""One training run: from its state to the results of the policy that is evaluated.

The loop knows no algorithm and no files: see ``coopbench.baselines.learner`` and
``coopbench.workflows.run_folder``.
"""

import json
import math
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from coopbench.baselines.learner import Learner
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench.baselines.registry import learners, make_learner
from coopbench.episodes.table import Cell, Failure, Progress
from coopbench.episodes.trained import Trained
from coopbench.errors import DamagedResultError, Diverged
from coopbench.playing.contestants import Failed
from coopbench.playing.jobs import Resources, Tell
from coopbench.playing.rollout import CellJob, PlayJob, play_selection
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Budget, Task
from coopbench.provenance import elapsed, machine, versions
from coopbench.results import store
from coopbench.workflows.run_folder import RunFolder, Scalars
from coopbench_envs.foreign.loading import code_of

_FORMAT = 1
_INSTANT = 1e-9  # seconds: less than any training takes
# A state that is written within so many seconds is written after every interval, a larger one when
# that takes at most this share of the time.
_CHEAP, _SHARE = 0.5, 0.05
_LIBRARIES = ("torch", "stable-baselines3")  # what trained a policy besides this package
_RUNNING, _FINISHED, _DIVERGED = "running", "finished", "diverged"


@dataclass(frozen=True, eq=False)
class TrainJob(CellJob):
    """A training run, for a backend; it writes its results itself, and returns nothing.

    Its cell is that of its policy on the task that it is trained on; see ``cell_of``.
    """

    learner: str
    seed: int
    folder: RunFolder
    budget: Budget
    settings: Mapping[str, Any]  # hyperparameters, all of them

    @property
    def task(self) -> Task:
        """The setting that it is trained on: a task, or one without an evaluation."""
        return {task.id: task for task in self.protocol.training_tasks}[self.cell.task]

    @property
    def plays(self) -> list[Cell]:
        """The cells that its policy plays."""
        tasks = self.protocol.played_by(self.cell.task)
        return [replace(self.cell, task=task.id) for task in tasks]

    @property
    def steps(self) -> int:
        """The steps of its training."""
        return self.budget.steps

    @property
    def facts(self) -> dict[str, Any]:
        """The budget and, from outside of this package, the code of the environment."""
        code = code_of(self.task.env)
        return self.budget.model_dump() | ({"code": code} if code else {})

    @property
    def resources(self) -> Resources:
        """The cores and the share of a GPU that its learner occupies."""
        entry = learners()[self.learner]
        return Resources(entry.cores, entry.gpus)

    def __str__(self) -> str:
        return f"training run {self.seed} of {self.learner!r} on task {self.cell.task!r}"

    def __call__(self, tell: Tell | None) -> None:
        """Train from the last written state, then play; nothing that is stored is repeated."""
        with self.folder.lock():
            model = _Run(self).trained(tell)
            for cell in self.plays:
                if isinstance(model, Failed):
                    self._write_failure(cell, model.reason)
                elif not self._has_played(cell, model):
                    self._play(cell, model)

    def _write_failure(self, cell: Cell, reason: str) -> None:
        """Write why there is no policy for a cell."""
        facts = {"task": self.cell.task, **self.facts}
        details = {"hyperparameters": dict(self.settings), "training": facts}
        store.write_failure(self.folder.root, self.protocol, Failure(cell, reason), details)

    def _play(self, cell: Cell, model: Trained) -> None:
        """Play a cell and write its result."""
        played = PlayJob(self.protocol, cell, model)(None)
        meta = store.describe(self.protocol, played, model)
        store.write(self.folder.root, played, meta, model)

    def _has_played(self, cell: Cell, model: Trained) -> bool:
        """Return whether the stored result of a cell is that of the model."""
        stored = self.stored(cell)
        policy = None if stored is None else stored.policy
        return policy is not None and policy.pack() == model.policy.pack()

    def is_finished(self) -> bool:
        """Return whether everything that it plays is stored; every cell is read and checked."""
        found = [self.stored(cell) for cell in self.plays]
        return all(result is not None for result in found)

    def stored(self, cell: Cell) -> store.Stored | None:
        """Return the stored result of a cell; ``ValueError`` if it is of another training."""
        try:
            stored = store.read(self.folder.root, self.protocol, cell)
        except DamagedResultError:  # it is played again
            return None
        if stored is None:
            return None
        facts = stored.meta.get("training")
        if stored.failure is not None and facts is None:  # of unknown origin
            return None
        settings = stored.meta.get("hyperparameters") or {}
        before = None if facts is None else settings_and_facts(settings, facts)
        if before != settings_and_facts(self.settings, self.facts):
            raise ValueError(mismatch(str(self.folder.root / cell.folder), before, self))
        return stored


def cell_of(protocol: Protocol, learner: str, task: str, seed: int) -> Cell:
    """Return the cell of a training run: the task that it is trained on, its policy and seed."""
    training = protocol.training
    every = training is not None and (training.on, training.plays) == ("each", "all")
    return Cell(task, f"{learner}:{task}" if every else learner, seed)


def settings_and_facts(settings: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what decides a training: its hyperparameters, and the facts in parentheses.

    They are its budget and, from outside of this package, the code of its environment.
    """
    named = ("steps", "interval", "code") if facts.get("code") else ("steps", "interval")
    return {**settings, **{f"({name})": facts.get(name) for name in named}}


def mismatch(place: str, before: Mapping[str, Any] | None, job: TrainJob) -> str:
    """Say that ``place`` holds a run that was trained with other settings, and which differ."""
    now = settings_and_facts(job.settings, job.facts)
    differing = [
        f"{name} {before.get(name)!r} (now {now[name]!r})"
        for name in now
        if before is not None and before.get(name) != now[name]
    ]
    which = f": {', '.join(differing)}" if differing else ""
    return (
        f"{place} holds a run that was trained with other settings{which}. Choose another folder, "
        f"or remove it."
    )


@dataclass
class _Course:
    """Progress of a run: everything that is stored besides the learner."""

    steps: list[int] = field(default_factory=list)  # of its checkpoints
    metrics: dict[str, list[np.ndarray]] = field(default_factory=dict)  # of each, over episodes
    best: bytes = b""  # the policy that is evaluated
    chosen: int = 0  # its checkpoint
    status: str = _RUNNING
    reason: str = ""
    resumed: list[int] = field(default_factory=list)  # steps from which it was resumed
    # Hyperparameters whose value did not fit into memory, with the one that was used.
    reduced: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0  # of training
    evaluation_seconds: float = 0.0

    def add(
        self,
        step: int,
        policy: TrainedPolicy,
        metrics: Mapping[str, np.ndarray],
        cell: Cell,
        protocol: Protocol,
    ) -> None:
        """Add a checkpoint; it is the one that is evaluated so far if the protocol says so."""
        self.steps.append(step)
        for name, row in metrics.items():
            self.metrics.setdefault(name, []).append(row)
        progress = self.progress(cell)
        if progress is None or protocol.chosen(progress) == len(progress) - 1:
            self.best, self.chosen = policy.pack(), step

    def progress(self, cell: Cell) -> Progress | None:
        """Return the metrics of all checkpoints as results store them."""
        if not self.metrics:
            return None
        metrics = {name: np.stack(rows) for name, rows in self.metrics.items()}
        return Progress(cell, np.array(self.steps, np.int64), metrics)

    def check(self, job: TrainJob) -> None:
        """Raise ``ValueError`` unless this can be the progress of that run."""
        budget, selection = job.budget, job.protocol.seeds.selection
        shape = (0 if selection is None else len(selection.seeds),)  # of a row
        count = len(self.steps)
        marks = list(range(budget.interval, budget.steps + 1, budget.interval))
        finished, diverged = self.status == _FINISHED, self.status == _DIVERGED
        fits = (
            self.status in (_RUNNING, _FINISHED, _DIVERGED)
            and self.steps == marks[:count]
            and finished == (count == len(marks))
            and all(len(rows) == count for rows in self.metrics.values())
            and all(row.shape == shape for rows in self.metrics.values() for row in rows)
            and ("return" in self.metrics) == (count > 0 and selection is not None)
            and isinstance(self.reason, str)
            and isinstance(self.reduced, dict)
            and set(self.resumed) <= set(marks)
            and all(
                isinstance(span, float) and 0.0 <= span < math.inf
                for span in (self.seconds, self.evaluation_seconds)
            )
        )
        if not fits or not (self.chosen in self.steps if count else diverged):
            raise ValueError("its parts do not fit together")
        if count:
            read_policy(self.best)

    def words(self) -> dict[str, Any]:
        """Return everything that is not an array, for JSON."""
        arrays = ("metrics", "best")
        return {name: value for name, value in vars(self).items() if name not in arrays}


class _Run:
    """One training run at work."""

    def __init__(self, job: TrainJob) -> None:
        self._job, self._course = job, _Course()
        self._saved: dict[str, np.ndarray] = {}  # of the learner

    def trained(self, tell: Tell | None) -> Trained | Failed:
        """Train until the budget is spent; return the policy, or why there is none."""
        self._read()
        if self._course.status == _RUNNING:
            self._train(tell)
        if self._course.status == _DIVERGED:
            return Failed(self._course.reason)
        course, job = self._course, self._job
        facts = {
            "task": job.cell.task,
            **job.facts,
            "chosen_step": course.chosen,
            "seconds": round(course.seconds, 3),
            "evaluation_seconds": round(course.evaluation_seconds, 3),
            "steps_per_second": round(job.budget.steps / max(course.seconds, _INSTANT)),
            "resumed": course.resumed,
            "reduced": course.reduced,
            "versions": _libraries(),
            "machine": machine(),
        }
        return Trained(read_policy(course.best), course.progress(job.cell), facts)

    def _train(self, tell: Tell | None) -> None:
        """Train interval by interval, and write the state after those where writing is cheap.

        A large state, as one with a replay, is written after fewer of them, so that writing takes
        a small share of the time; after a kill the intervals since then are trained again.
        """
        job, course = self._job, self._course
        task, budget = job.task, job.budget
        learner = make_learner(
            job.learner, task.environment, task.parameters, job.seed, **job.settings
        )
        course.reduced = dict(getattr(learner, "reduced", {}))
        last = course.steps[-1] if course.steps else 0
        if last:
            try:
                learner.load(self._saved)
            except (ValueError, LookupError, TypeError) as error:
                raise ValueError(self._unreadable(error)) from None
            course.resumed.append(last)
            self._saved = {}  # so that a replay lets go of what it replaces
            if tell is not None:
                tell(last / budget.steps)
        written, cost = time.perf_counter(), 0.0
        with closing(job.folder.scalars(last)) as scalars:
            for mark in range(last + budget.interval, budget.steps + 1, budget.interval):
                if not self._interval(learner, mark, scalars):
                    self._write({})
                    return
                course.status = _FINISHED if mark == budget.steps else _RUNNING
                if course.status == _FINISHED and getattr(learner, "updates", 1) == 0:
                    raise ValueError(
                        f"Learner {job.learner!r} learned nothing on {task.id!r} in "
                        f"{budget.steps:,} steps: its lanes finished too few episodes for an "
                        f"update. Give more steps, or fewer lanes and a smaller batch_size."
                    )
                start = time.perf_counter()
                if course.status == _FINISHED:
                    self._write({})
                elif cost <= _CHEAP or elapsed(written) * _SHARE > cost:
                    self._write(learner.save())
                    written, cost = time.perf_counter(), elapsed(start)
                else:
                    self._note()
                if tell is not None:
                    tell(mark / budget.steps)

    def _interval(self, learner: Learner, mark: int, scalars: Scalars) -> bool:
        """Train up to step ``mark`` and evaluate the policy; return whether numbers are finite."""
        course, start = self._course, time.perf_counter()
        try:
            report = learner.learn(mark)
        except Diverged as error:
            course.status, course.reason = _DIVERGED, str(error)
            course.seconds += elapsed(start)
            return False
        seconds = elapsed(start)
        course.seconds += seconds
        report["steps_per_second"] = self._job.budget.interval / max(seconds, _INSTANT)
        report |= self._evaluate(mark, learner.policy())
        for name, value in report.items():  # before the state: scalars behind it are dropped
            scalars.add_scalar(name, value, mark)
        return True

    def _evaluate(self, step: int, policy: TrainedPolicy) -> dict[str, float]:
        """Play the selection episodes, if any; return the means of what is stored, for logs.

        A resumed run keeps to the metrics of its earlier checkpoints.
        """
        start, protocol, cell = time.perf_counter(), self._job.protocol, self._job.cell
        selects = protocol.seeds.selection is not None
        earlier = self._course.metrics
        metrics = play_selection(protocol, cell, policy, earlier) if selects else {}
        self._course.add(step, policy, metrics, cell, protocol)
        self._course.evaluation_seconds += elapsed(start)
        return {f"evaluation/{name}": float(row.mean()) for name, row in metrics.items()}

    # -- the state -------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        """Return what a state must agree in to be continued."""
        job = self._job
        return {
            "format": _FORMAT,
            "protocol": job.protocol.digest,
            "cell": [job.cell.task, job.cell.policy, job.cell.run],
            **settings_and_facts({}, job.facts),
            **job.settings,
        }

    def _write(self, learner_arrays: Mapping[str, np.ndarray]) -> None:
        """Write the state and the summary."""
        course = self._course
        header = {"identity": self._identity(), "course": course.words()}
        arrays = {f"learner.{name}": array for name, array in learner_arrays.items()}
        arrays |= {f"metrics.{n}": np.stack(rows) for n, rows in course.metrics.items()}
        arrays["best"] = np.frombuffer(course.best, np.uint8)
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
        try:
            self._job.folder.write(arrays)
        except ValueError as error:
            raise ValueError(
                f"The state of {self._job} cannot be written ({error}). Choose hyperparameters "
                f"with which it remembers less."
            ) from None
        self._note()

    def _note(self) -> None:
        """Write the summary."""
        self._job.folder.note(json.dumps(self._summary(), indent=2) + "\n")

    def _summary(self) -> dict[str, Any]:
        """Return the run in words."""
        job = self._job
        return {
            "protocol": job.protocol.name,
            "digest": job.protocol.digest,
            "task": job.cell.task,
            "learner": job.learner,
            "seed": job.seed,
            "budget": job.budget.model_dump(),
            **self._course.words(),
            "hyperparameters": dict(job.settings),
            "versions": versions() | _libraries(),
        }

    def _read(self) -> None:
        """Read the state, if there is one.

        Raises ``ValueError`` if it is of another training, or damaged.
        """
        try:
            arrays = self._job.folder.read()
            if arrays is None:
                return
            header = json.loads(arrays.pop("header").tobytes())
            identity, words = header["identity"], dict(header["course"])
            course = _Course(**words, best=arrays.pop("best").tobytes())
            for name in [name for name in arrays if name.startswith("metrics.")]:
                course.metrics[name.removeprefix("metrics.")] = list(arrays.pop(name))
            if not isinstance(identity, dict):
                raise ValueError("it does not say of which training it is")
            if identity == self._identity():
                course.check(self._job)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(self._unreadable(error)) from None
        if identity != self._identity():
            raise ValueError(mismatch(str(self._job.folder.path), identity, self._job))
        self._course = course
        self._saved = {name.removeprefix("learner."): array for name, array in arrays.items()}

    def _unreadable(self, error: Exception) -> str:
        """Say why the state cannot be used, and what to do."""
        folder = self._job.folder
        return (
            f"{folder.state} cannot be read ({error}). Remove {folder.path} to train this run "
            f"from its beginning."
        )


def _libraries() -> dict[str, str]:
    """Return the versions of the libraries that train."""
    installed = {}
    for name in _LIBRARIES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:  # a learner may need none of them
            continue
    return installed
