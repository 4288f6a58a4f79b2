"""Training: a protocol and a learner become training runs, and these become results.

A run has the folder of its cell. What training needs lies there in ``training/``:

state.npz   everything to go on with, and the best policy so far; written after every interval
run.json    the same in words, for people
events.*    scalars for TensorBoard
lock        empty; held by the process that trains, so that there is one at a time

The loop knows no algorithm: see ``coopbench.baselines.learners.learner``.
"""

import errno
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.baselines.learners.learner import LearnerEntry, settings_of
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench.baselines.registry import learners, make_learner, preset
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell, Episodes, Failure, Played, Progress
from coopbench.episodes.trained import Trained
from coopbench.errors import DamagedResultError, Diverged, ProtocolError
from coopbench.files import write_bytes, write_text
from coopbench.playing.backends.jobs import Resources
from coopbench.playing.models import Failed
from coopbench.playing.plan import game_of
from coopbench.playing.rollout import PlayJob, kind, play
from coopbench.playing.runner import CellProgress, Runner, by_cell
from coopbench.protocol.loading import find_protocol
from coopbench.protocol.schema import Protocol
from coopbench.protocol.sections import Budget, Task
from coopbench.provenance import versions
from coopbench.report.loading import load_report
from coopbench.report.report import Report
from coopbench.results import store
from coopbench.results.folder import write_protocol
from coopbench.results.manifest import write_manifest
from coopbench_envs.arrays import LIMIT, pack, unpack
from coopbench_envs.parameters import named, resolve, unknown

__all__ = ["Outcome", "TrainJob", "budget_of", "runs", "train", "train_runs"]

_FORMAT = 1
_SMOKE, _SMOKE_CHECKPOINTS = 100, 4
_MODULES = ("torch", "stable_baselines3", "tensorboard")
_LIBRARIES = ("torch", "stable-baselines3")  # what trained a policy besides this package

Tell = Callable[[float], None]


def train(
    protocol: str | Path | Protocol,
    learner: str,
    out: str | Path,
    *,
    tasks: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    steps: int | None = None,
    smoke: bool = False,
    backend: str = "serial",
    workers: int | None = None,
    progress: CellProgress | None = None,
    **hyperparameters: Any,
) -> Report:
    """Train a learner on the tasks of a protocol, play what it has learned, and report.

    There is one run for every trained task and training seed of the protocol, or for the ``tasks``
    and ``seeds`` given. A run is trained for the protocol's budget; after every interval its policy
    plays the selection episodes without exploration, and the best of these policies (the last, if
    the protocol has no selection seeds) plays the evaluation of every task that is trained there.
    The report holds everything that is in the folder ``out``, fixed policies too.

    A run that was stopped goes on from its last interval, and its metadata say so. A run that is
    there already is kept. One whose numbers ceased to be finite is recorded as failed.

    ``steps`` changes the budget, ``smoke`` takes a hundredth of it to see whether everything works,
    with hyperparameters changed so far that something is learned in it; the report then says that
    it is not a standard report. Hyperparameters that are not given are
    those that this package has for the protocol, or the learner's own.

    Raises ``ValueError`` and ``TypeError`` for what cannot be trained or is not allowed, before
    anything begins.
    """
    runner = Runner(backend, workers, by_cell(progress))
    found, root = find_protocol(protocol), Path(out)
    jobs = runs(found, learner, root, tasks, seeds, steps, smoke, hyperparameters)
    return train_runs(found, jobs, root, runner)


def train_runs(
    protocol: Protocol, jobs: Sequence["TrainJob"], root: Path, runner: Runner
) -> Report:
    """Train the runs of ``runs`` into the folder ``root``, and report on all that is there."""
    if root.exists() and not root.is_dir():
        raise ValueError(f"{root} is not a folder; name one, existing or new, for the results.")
    _check_fixed(root, jobs)
    open_jobs = [job for job in jobs if not _is_kept(job)]
    with runner.run(open_jobs) as finished:
        write_protocol(root, protocol)
        for job in jobs:
            if job not in open_jobs:
                runner.tell(job, 1.0, "kept")
        for job, outcome in finished:
            _keep(root, job, outcome)
    report = load_report(root)
    return replace(report, results=write_manifest(root, protocol))


def runs(
    protocol: Protocol,
    learner: str,
    root: Path,
    tasks: Sequence[str] | None,
    seeds: Sequence[int] | None,
    steps: int | None,
    smoke: bool,
    given: Mapping[str, Any],
) -> list["TrainJob"]:
    """Return the runs that ``train`` would train; every problem is found before one begins."""
    entry: LearnerEntry = named("learner", learner, learners())
    _check_installed()
    budget = budget_of(protocol, entry, steps, smoke)
    chosen = _tasks(protocol, tasks)
    values = preset(protocol.protocol.name, learner) | dict(given)
    asked = resolve(entry.params, values, f"learner {learner!r}")
    if smoke:
        asked = entry.shortened(asked, budget.interval)
    first = entry.first_update(asked)
    if budget.steps < first:
        raise ValueError(
            f"Learner {learner!r} would learn nothing in {budget.steps:,} steps: with these "
            f"hyperparameters its first update comes after {first:,}. Give more steps, or other "
            f"hyperparameters; 'coopbench show {learner}' lists them."
        )
    settings = settings_of(asked)
    numbers = _seeds(protocol, seeds)
    for task in chosen:  # says so if a game cannot be learned, or a value does not fit
        make_learner(learner, task.env, task.parameters, numbers[0], **settings)
    return [
        TrainJob(protocol, learner, task.id, seed, root.absolute(), budget, settings)
        for seed in numbers
        for task in chosen
    ]


def _check_installed() -> None:
    lacking = [name for name in _MODULES if find_spec(name) is None]
    if lacking:
        raise ValueError(
            f"Training needs {', '.join(lacking)}, not installed here: "
            f'pip install "coopbench[train]".'
        )


def budget_of(
    protocol: Protocol, learner: LearnerEntry, steps: int | None = None, smoke: bool = False
) -> Budget:
    """Return how long a learner trains under a protocol, or for ``steps``, or for a hundredth.

    Raises ``ProtocolError`` if the protocol trains nothing, or nothing of this kind.
    """
    training = protocol.training
    if training is None or training.on != "each":
        raise ProtocolError(
            f"{protocol.name} does not say how long a model trains on each of its tasks; choose a "
            f"protocol that does ([training] with on = 'each')."
        )
    kinds = training.budgets
    if learner.kind not in kinds and len(kinds) > 1:
        raise ProtocolError(
            f"{protocol.name} has budgets for {', '.join(kinds)} learners; {learner.name!r} is "
            f"{learner.kind}."
        )
    asked = kinds[learner.kind] if learner.kind in kinds else next(iter(kinds.values()))
    if steps is not None:
        whole = isinstance(steps, Integral) and not isinstance(steps, bool) and steps >= 1
        interval = min(asked.interval, steps) if whole else 1
        if not whole or steps % interval:
            raise ValueError(
                f"steps was {steps!r}; allowed: multiples of {asked.interval} (the interval of "
                f"{protocol.name}), and 1 to {asked.interval}."
            )
        asked = Budget(steps=int(steps), interval=int(interval))
    if not smoke:
        return asked
    count = min(asked.steps // asked.interval, _SMOKE_CHECKPOINTS)
    interval = max(1, asked.steps // _SMOKE // count)
    return Budget(steps=count * interval, interval=interval)


def _tasks(protocol: Protocol, names: Sequence[str] | None) -> list[Task]:
    trained = {task.id: task for task in protocol.trained_tasks}
    if isinstance(names, str) or (names is not None and not names):
        raise ValueError(f"tasks was {names!r}; allowed: a list of some of {', '.join(trained)}.")
    for name in names or ():
        if name not in trained:
            raise ValueError(unknown("task", name, trained, f"those trained by {protocol.name}"))
    chosen = [task for name, task in trained.items() if names is None or name in names]
    seated = next((task for task in chosen if task.partners), None)
    if seated is not None:
        raise ValueError(
            f"Task {seated.id!r} of {protocol.name} has partners, beside whom nobody is trained; "
            f"name tasks without, or say in the protocol which model plays it (trained_on)."
        )
    return chosen


def _seeds(protocol: Protocol, given: Sequence[int] | None) -> tuple[int, ...]:
    known = protocol.seeds.training
    if given is None:
        if not known:
            raise ProtocolError(f"{protocol.name} has no training seeds; name some.")
        return known
    if not isinstance(given, Sequence):
        raise ValueError(f"seeds was {given!r}; allowed: a list of whole numbers >= 0.")
    spans = [protocol.seeds.evaluation, protocol.seeds.selection]
    held = [seed for seed in given for span in spans if span is not None and seed in span.seeds]
    wrong = [seed for seed in given if not _is_seed(seed)]
    if held or wrong or len(set(given)) != len(given) or not given:
        raise ValueError(
            f"Training seeds were {list(given)}; allowed: different whole numbers >= 0 that "
            f"{protocol.name} does not evaluate on; its own are {list(known)}."
        )
    return tuple(map(int, given))


def _is_seed(given: Any) -> bool:
    return isinstance(given, Integral) and not isinstance(given, bool) and 0 <= int(given) < 2**63


def _check_fixed(root: Path, jobs: Sequence["TrainJob"]) -> None:
    """Raise ``ValueError`` where a folder holds a fixed policy of the learner's name."""
    for job in jobs:
        fixed = root / replace(job.cell, run=None).folder / "meta.json"
        if fixed.exists():
            raise ValueError(
                f"{fixed.parent} holds a fixed policy of the name {job.cell.policy!r}; choose "
                f"another folder."
            )


def _is_kept(job: "TrainJob") -> bool:
    """Whether everything that a run plays is there already."""
    kept = [_kept(job, cell) for cell in job.plays]  # each is looked at
    return all(kept)


def _kept(job: "TrainJob", cell: Cell) -> bool:
    """Whether the results of a run are there; ``ValueError`` if they are of another training."""
    try:
        found = store.read(job.root, job.protocol, cell)
    except DamagedResultError:  # it is played again
        return False
    facts = None if found is None else found.meta.get("training")
    if found is None or (found.failure is not None and facts is None):  # of nobody knows what
        return False
    settings = found.meta.get("hyperparameters") or {}
    there = None if facts is None else {**settings, **_budget(facts)}
    if there != {**job.settings, **_budget(job.budget.model_dump())}:
        raise ValueError(_other(job.root / cell.folder, there, job))
    return True


def _budget(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {"(steps)": facts.get("steps"), "(interval)": facts.get("interval")}


def _other(place: Path, there: Mapping[str, Any] | None, job: "TrainJob") -> str:
    here = {**job.settings, **_budget(job.budget.model_dump())}
    differing = [
        f"{name} {there.get(name)!r} (now {here.get(name)!r})"
        for name in here
        if there is not None and there.get(name) != here[name]
    ]
    how = f"with other settings: {', '.join(differing)}" if differing else "in another way"
    return f"{place} holds a run that was trained {how}. Choose another folder, or remove it."


def _keep(root: Path, job: "TrainJob", outcome: "Outcome") -> None:
    """Write down what came of a run."""
    for failure in outcome.failures:
        facts = {"task": job.cell.task, **job.budget.model_dump()}
        known = {"hyperparameters": dict(job.settings), "training": facts}
        store.write_failure(root, job.protocol, failure, known)
    for played in outcome.played:
        meta = store.describe(job.protocol, played, outcome.model)
        store.write(root, played, meta, outcome.model)


@dataclass(frozen=True)
class Outcome:
    """What came of a training run: a policy and what it played, or failures."""

    model: Trained | None
    played: tuple[Played, ...] = ()
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True)
class TrainJob:
    """A training run as a value, for a backend; its result is an ``Outcome``."""

    protocol: Protocol
    learner: str
    trained_on: str
    seed: int
    root: Path
    budget: Budget
    settings: Mapping[str, Any]  # hyperparameters, all of them

    @property
    def task(self) -> Task:
        """Task that it is trained on."""
        return self.protocol.played_by(self.trained_on)[0]

    @property
    def cell(self) -> Cell:
        """Cell of its policy on the task that it is trained on."""
        training = self.protocol.training
        every = training is not None and training.plays == "all"
        name = f"{self.learner}:{self.trained_on}" if every else self.learner
        return Cell(self.trained_on, name, self.seed)

    @property
    def plays(self) -> list[Cell]:
        """Cells that its policy plays."""
        return [
            replace(self.cell, task=task.id) for task in self.protocol.played_by(self.trained_on)
        ]

    @property
    def folder(self) -> Path:
        """Where its training is kept."""
        return self.root / self.cell.folder / "training"

    @property
    def cost(self) -> float:
        """Agents times steps."""
        return float(len(game_of(self.task).agents) * self.budget.steps)

    @property
    def kind(self) -> str:
        """Name the kernels that the task's environment compiles."""
        return kind(self.protocol, self.cell)

    @property
    def resources(self) -> Resources:
        """One core: a learner computes in one thread."""
        return Resources()

    def __str__(self) -> str:
        return f"training run {self.seed} of {self.learner!r} on task {self.trained_on!r}"

    def __call__(self, tell: Tell | None) -> Outcome:
        """Train from where it stopped, then play; what is finished is not done again."""
        with _alone(self.folder):
            model = _Run(self).trained(tell)
        if isinstance(model, Failed):
            return Outcome(None, failures=tuple(Failure(c, model.reason) for c in self.plays))
        return Outcome(model, tuple(PlayJob(self.protocol, c, model)(None) for c in self.plays))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a run's folder; ``ValueError`` if another process holds it.

    The lock ends with the process, however it does. Where there are none it is not held.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("ab") as file:
        if find_spec("fcntl") is not None:  # not everywhere
            from fcntl import LOCK_EX, LOCK_NB, flock

            try:
                flock(file, LOCK_EX | LOCK_NB)
            except OSError as error:  # any other: this disk knows no locks
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    raise ValueError(
                        f"Another process trains the run in {folder}. Wait for it to end, or "
                        f"choose another folder, other tasks or other seeds."
                    ) from None
        yield


@dataclass
class _Course:
    """How a run has come along: what is kept of it besides the learner."""

    steps: list[int] = field(default_factory=list)  # of its checkpoints
    metrics: dict[str, list[np.ndarray]] = field(default_factory=dict)  # of each, over episodes
    best: bytes = b""  # the policy to be played
    chosen: int = 0  # its checkpoint
    status: str = "running"  # or "finished", or "diverged"
    reason: str = ""
    resumed: list[int] = field(default_factory=list)  # steps from which it went on
    seconds: float = 0.0  # of training
    evaluation_seconds: float = 0.0

    def add(self, step: int, policy: TrainedPolicy, block: Episodes | None, names: Any) -> None:
        """Take in a checkpoint; without selection episodes the last one counts."""
        self.steps.append(step)
        if block is not None:
            for name in names:
                self.metrics.setdefault(name, []).append(values(block, name))
        progress = None if block is None else self.progress(block.cell)
        if progress is None or progress.best == len(progress) - 1:
            self.best, self.chosen = policy.pack(), step

    def progress(self, cell: Cell) -> Progress | None:
        """Return the course as results keep it."""
        if not self.metrics:
            return None
        metrics = {name: np.stack(rows) for name, rows in self.metrics.items()}
        return Progress(cell, np.array(self.steps, np.int64), metrics)

    def check(self, budget: Budget) -> None:
        """Raise ``ValueError`` unless this can be the course of a run with that budget."""
        count = len(self.steps)
        marks = list(range(budget.interval, budget.steps + 1, budget.interval))
        finished, diverged = self.status == "finished", self.status == "diverged"
        fits = (
            self.status in ("running", "finished", "diverged")
            and self.steps == marks[:count]
            and finished == (count == len(marks))
            and all(len(rows) == count for rows in self.metrics.values())
            and isinstance(self.reason, str)
            and set(self.resumed) <= set(marks)
            and all(isinstance(each, float) for each in (self.seconds, self.evaluation_seconds))
        )
        if not fits or not (self.chosen in self.steps if count else diverged):
            raise ValueError("its parts do not fit together")
        if count:
            read_policy(self.best)

    def words(self) -> dict[str, Any]:
        """Everything that is no array, for JSON."""
        kept = ("steps", "chosen", "status", "reason", "resumed", "seconds", "evaluation_seconds")
        return {name: getattr(self, name) for name in kept}


class _Run:
    """One training run, from its state on disk to its policy."""

    def __init__(self, job: TrainJob) -> None:
        self._job, self._course = job, _Course()
        self._state = job.folder / "state.npz"
        selection = job.protocol.seeds.selection
        self._seeds = None if selection is None else np.array(selection.seeds, np.uint64)

    def trained(self, tell: Tell | None) -> Trained | Failed:
        """Train until the budget is spent; return the policy, or why there is none."""
        learner_arrays = self._read()
        if self._course.status == "running":
            self._train(learner_arrays, tell)
        if self._course.status == "diverged":
            return Failed(self._course.reason)
        course, job = self._course, self._job
        facts = {
            "task": job.cell.task,
            "steps": job.budget.steps,
            "interval": job.budget.interval,
            "chosen_step": course.chosen,
            "seconds": round(course.seconds, 3),
            "evaluation_seconds": round(course.evaluation_seconds, 3),
            "steps_per_second": round(job.budget.steps / max(course.seconds, 1e-9)),
            "resumed": course.resumed,
            "versions": _libraries(),
        }
        policy = read_policy(course.best)
        return Trained(policy, course.progress(job.cell), facts)

    def _train(self, learner_arrays: Mapping[str, np.ndarray], tell: Tell | None) -> None:
        job, course = self._job, self._course
        task = job.task
        learner = make_learner(job.learner, task.env, task.parameters, job.seed, **job.settings)
        last = course.steps[-1] if course.steps else 0
        if last:
            try:
                learner.load(learner_arrays)
            except (ValueError, LookupError, TypeError) as error:
                raise ValueError(self._unfit(error)) from None
            course.resumed.append(last)
        for left in job.folder.glob(".*.tmp"):  # of a process that was killed while it wrote
            left.unlink(missing_ok=True)
        with closing(_scalars(job.folder, last)) as scalars:
            marks = range(last + job.budget.interval, job.budget.steps + 1, job.budget.interval)
            for mark in marks:
                begun = time.perf_counter()
                try:
                    told = learner.learn(mark)
                except Diverged as error:
                    course.status, course.reason = "diverged", str(error)
                    course.seconds += time.perf_counter() - begun
                    self._write({})
                    return
                took = time.perf_counter() - begun
                course.seconds += took
                told["steps_per_second"] = job.budget.interval / took
                told |= self._evaluate(mark, learner.policy())
                for name, value in told.items():  # first: those behind the state are purged
                    scalars.add_scalar(name, value, mark)
                course.status = "finished" if mark == marks[-1] else "running"
                self._write(learner.save() if course.status == "running" else {})
                if tell is not None:
                    tell(mark / job.budget.steps)

    def _evaluate(self, step: int, policy: TrainedPolicy) -> dict[str, float]:
        """Play the selection episodes; return the means of what is reported, for logs."""
        begun, job, block = time.perf_counter(), self._job, None
        names = tuple(dict.fromkeys(("return", *job.protocol.metrics_of(job.task))))
        if self._seeds is not None:
            block = play(job.protocol, job.cell, policy, seeds=self._seeds)
        self._course.add(step, policy, block, names)
        self._course.evaluation_seconds += time.perf_counter() - begun
        if block is None:
            return {}
        return {f"evaluation/{name}": float(values(block, name).mean()) for name in names}

    # -- the state on disk -----------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        """What a state has to agree in to be gone on with."""
        job = self._job
        return {
            "format": _FORMAT,
            "protocol": job.protocol.digest,
            "cell": [job.cell.task, job.cell.policy, job.cell.run],
            **_budget(job.budget.model_dump()),
            **job.settings,
        }

    def _write(self, learner_arrays: Mapping[str, np.ndarray]) -> None:
        course = self._course
        header = {"identity": self._identity(), "course": course.words()}
        arrays = {f"learner.{name}": each for name, each in learner_arrays.items()}
        arrays |= {f"metrics.{n}": np.stack(rows) for n, rows in course.metrics.items()}
        arrays["best"] = np.frombuffer(course.best, np.uint8)
        text = json.dumps(header).encode()
        arrays["header"] = np.frombuffer(text, np.uint8)
        content = pack(arrays, compressed=False)
        if len(content) > LIMIT:
            raise ValueError(
                f"The state of {self._job} takes up {len(content):,} bytes; allowed: {LIMIT:,}, so "
                f"that it can be read again. Choose hyperparameters with which it remembers less."
            )
        write_bytes(self._state, content)
        told = {
            "protocol": self._job.protocol.name,
            "digest": self._job.protocol.digest,
            "task": self._job.trained_on,
            "learner": self._job.learner,
            "seed": self._job.seed,
            "budget": self._job.budget.model_dump(),
            **course.words(),
            "hyperparameters": dict(self._job.settings),
            "versions": versions() | _libraries(),
        }
        write_text(self._job.folder / "run.json", json.dumps(told, indent=2) + "\n")

    def _read(self) -> dict[str, np.ndarray]:
        """Take up the state on disk, if there is one; return the learner's part of it.

        Raises ``ValueError`` if it is of another training, or damaged.
        """
        if not self._state.is_file():
            return {}
        try:
            arrays = unpack(self._state)
            header = json.loads(arrays.pop("header").tobytes())
            identity, words = header["identity"], dict(header["course"])
            course = _Course(**words, best=arrays.pop("best").tobytes())
            for name in [name for name in arrays if name.startswith("metrics.")]:
                course.metrics[name.removeprefix("metrics.")] = list(arrays.pop(name))
            if not isinstance(identity, dict):
                raise ValueError("it does not say of which training it is")
            if identity == self._identity():
                course.check(self._job.budget)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(self._unfit(error)) from None
        if identity != self._identity():
            raise ValueError(_other(self._job.folder, identity, self._job))
        self._course = course
        return {name.removeprefix("learner."): each for name, each in arrays.items()}

    def _unfit(self, error: Exception) -> str:
        return (
            f"{self._state} cannot be read ({error}). Remove {self._job.folder} to train this run "
            f"from its beginning."
        )


def _scalars(folder: Path, last: int) -> Any:
    """Return a writer for TensorBoard; what a stopped run wrote after its last state is dropped."""
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=last + 1)


def _libraries() -> dict[str, str]:
    """Versions of what trains."""
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a learner may need none of them
            continue
    return found
