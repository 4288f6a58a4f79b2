"""Protocols: what is played, with which seeds, by what measure; TOML in, frozen values out.

A released protocol is never edited: its name carries a version and its digest goes into every
result.
"""

import hashlib
import itertools
import json
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

import coopbench_envs
from coopbench.baselines.game import Game
from coopbench.baselines.registry import entries, make_policy
from coopbench.episodes.metrics import known_metrics
from coopbench.errors import ProtocolError
from coopbench.protocol import map_files as maps
from coopbench_envs.parameters import named, resolve, unknown

__all__ = [
    "Bounds",
    "Chart",
    "Limits",
    "Protocol",
    "Task",
    "Training",
    "ad_hoc",
    "load_protocol",
    "problems",
    "protocol_files",
    "stored_protocol",
    "with_limits",
]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Identity(_Strict):
    """Who the protocol is."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    version: int = Field(ge=1)
    description: str
    citation: str = ""


class Evaluation(_Strict):
    """Consecutive evaluation seeds: episode k of a task is the environment seeded first + k."""

    first: int = Field(ge=0)
    count: int = Field(ge=1)

    @property
    def seeds(self) -> range:
        """All of them."""
        return range(self.first, self.first + self.count)


def _unset(value: Any) -> bool:
    return value is None


def _later(**facts: Any) -> Any:
    """Describe a key that came after others: protocols without it keep their digest."""
    return Field(default=None, exclude_if=_unset, **facts)


class Seeds(_Strict):
    """Seeds of training runs, of evaluation episodes and of those that choose a checkpoint.

    No two of them may meet.
    """

    training: tuple[int, ...] = ()
    evaluation: Evaluation
    selection: Evaluation | None = _later()  # of the episodes after every interval of training

    @field_validator("training", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _disjoint(self) -> "Seeds":
        spans = {"evaluation": self.evaluation, "selection": self.selection}
        for what, span in spans.items():
            if span is None:
                continue
            shared = [seed for seed in self.training if seed in span.seeds]
            if shared:
                raise ValueError(
                    f"training seeds {shared} are also {what} seeds ({span.seeds[0]} to "
                    f"{span.seeds[-1]}); keep them apart"
                )
        if self.selection is not None:
            one, two = self.evaluation.seeds, self.selection.seeds
            if max(one.start, two.start) < min(one.stop, two.stop):
                raise ValueError(
                    f"selection seeds {two.start} to {two.stop - 1} meet the evaluation seeds "
                    f"{one.start} to {one.stop - 1}; keep them apart"
                )
        if len(set(self.training)) != len(self.training):
            raise ValueError("training seeds repeat; list each once")
        return self


class Budget(_Strict):
    """How long one kind of learner trains; in steps of the environment, all agents together."""

    steps: int = Field(ge=1)
    interval: int = Field(ge=1)  # steps from one evaluation to the next

    @model_validator(mode="after")
    def _ordered(self) -> "Budget":
        if self.interval > self.steps:
            raise ValueError(f"interval {self.interval} is longer than the {self.steps} steps")
        if self.steps % self.interval:
            raise ValueError(
                f"{self.steps} steps are no whole number of intervals of {self.interval}; change "
                f"one of them"
            )
        return self


class Training(_Strict):
    """What learned policies are trained on, how long, and which tasks they then play."""

    on: Literal["each", "any"]  # one model per task; one model, on anything but what is held out
    plays: Literal["own", "all"] = "all"  # the task that the model was trained on, or every task
    held_out: tuple[str, ...] = ()  # maps of the tasks, on which nobody trains
    runs: int = Field(ge=1)
    episodes: int = Field(ge=1)  # of every evaluation
    budgets: dict[str, Budget] = Field(min_length=1)  # by kind of learner

    @field_validator("held_out", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _sensible(self) -> "Training":
        if (self.on == "any") != bool(self.held_out):
            raise ValueError("held_out goes with on = 'any', and 'any' needs it; name a map")
        if self.on == "any" and self.plays == "own":
            raise ValueError("plays = 'own' goes with on = 'each'; allowed with 'any': 'all'")
        return self


Seconds = Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]


class Limits(_Strict):
    """How long a policy may take, in seconds; see ``timed``."""

    planning: Seconds  # from its creation to its first action of an episode
    step: Seconds  # for each later action
    total: Seconds  # for all episodes of all tasks, with the time of the environments
    timeouts: int = Field(default=10, ge=1)  # in a row, with no action between, that end it all

    def __str__(self) -> str:
        return (
            f"{self.planning:g} s to the first action of an episode, {self.step:g} s for each "
            f"later one, {self.total:g} s in all; {self.timeouts} timeouts in a row end it"
        )


class Bounds(_Strict):
    """Score that counts as 0 and as 1 after normalisation, fixed for all time."""

    low: float
    high: float

    @model_validator(mode="after")
    def _ordered(self) -> "Bounds":
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"low must lie below high, both finite; given {self.low}, {self.high}")
        return self

    @field_validator("low", "high", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    def normalise(self, scores: np.ndarray) -> np.ndarray:
        """Map low to 0 and high to 1; values beyond are kept as they are."""
        return (scores - self.low) / (self.high - self.low)


class Instances(_Strict):
    """Frozen start positions: a file beside the protocol, with its checksum."""

    file: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


AxisName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
AxisPlace = Annotated[float, Field(allow_inf_nan=False)]


class Task(_Strict):
    """One environment with its parameters, who plays it, and the scale of its score."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    group: str = Field(default="", pattern=r"^([a-z0-9][a-z0-9_.-]*)?$")  # aggregated together
    env: str
    parameters: dict[str, Any] = {}
    partners: tuple[str, ...] = ()  # policies in the other seats; none: self-play
    episodes: int | None = Field(default=None, ge=1)  # None: one per evaluation seed
    bounds: Bounds
    axes: dict[AxisName, AxisPlace] = {}  # where the task stands in charts
    instances: Instances | None = None
    maps: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")  # checksum of its map files
    trained_on: str | None = _later()  # id of the task whose models play this one; None: its own

    @field_validator("axes", mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {k: float(v) if type(v) is int else v for k, v in value.items()}

    @field_validator("partners", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _playable(self) -> "Task":
        spec = coopbench_envs.spec(self.env)
        try:
            spec.constants(resolve(spec.params, self.parameters, spec.id))
        except TypeError as error:  # an unknown parameter: pydantic reports ValueErrors only
            raise ValueError(str(error)) from None
        if self.maps is not None and self.maps != maps.checksum(self.parameters):
            raise ValueError(
                "the map files are not those of the protocol (their checksum differs); reinstall "
                "the package, or play files of your own with --maps"
            )
        return self

    @model_validator(mode="after")
    def _seated(self) -> "Task":
        if not self.partners:
            return self
        game = Game.at(self.env, **self.parameters)
        if len(game.agents) < 2:
            raise ValueError(f"partners need seats; {game.env_id} has one agent here, allowed: 2")
        repeated = [name for name in self.partners if self.partners.count(name) > 1]
        if repeated:
            raise ValueError(f"partners repeat {repeated[0]!r}; list each once")
        for name in self.partners:
            entry = entries().get(name.partition(":")[0])
            if entry is not None and entry.trained:
                raise ValueError(
                    f"partner {name!r} is a trained policy, which the digest of a protocol does "
                    f"not cover; allowed: fixed policies. Beside trained ones plays 'coopbench "
                    f"crossplay'"
                )
            make_policy(name, game)
        return self


class Chart(_Strict):
    """A metric against an axis of the tasks, one line per policy.

    Tasks at the same place of the axis are taken together. With ``per`` there is one picture for
    every value of that axis.
    """

    metric: str
    x: str
    per: str = ""
    group: str = ""  # only tasks of this group
    scale: Literal["linear", "log2"] = "linear"

    def panels(self, tasks: Iterable[Task]) -> dict[str, tuple[Task, ...]]:
        """Tasks of every picture, by its name."""
        found: dict[str, list[Task]] = {}
        stem = "-".join(filter(None, (self.metric, "by", self.x, self.group)))
        for task in tasks:
            wanted = {self.x, self.per} - {""}
            if wanted <= set(task.axes) and self.group in ("", task.group):
                at = f"-{self.per}-{task.axes[self.per]:g}" if self.per else ""
                found.setdefault(stem + at, []).append(task)
        return {name: tuple(members) for name, members in found.items()}


# Metrics that say nothing alone, and the one that has to stand before them: a team that does not
# move has no contacts.
_BESIDE = {"coordination": "success_rate"}

_MINMAX = "marl-standard"  # the only protocol whose scores are scaled by what was evaluated


class Domain(_Strict):
    """What is also shown of the tasks of one group, whose games measure what others do not."""

    metrics: tuple[str, ...]  # behind those of the report
    curve: str  # in place of that of the report

    @field_validator("metrics", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class Reporting(_Strict):
    """What the standard report shows."""

    score: str  # metric that is normalised, compared and aggregated
    metrics: tuple[str, ...]
    curve: str  # metric whose course over an episode is drawn
    baselines: tuple[str, ...] = ()
    learned: tuple[str, ...] = ()  # required, too, but they have to be trained first
    confidence: float = Field(default=0.95, gt=0.5, lt=1.0)
    resamples: int = Field(default=2000, ge=100)
    alpha: float = Field(default=0.05, gt=0.0, lt=0.5)
    comparison: Literal["welch", "paired"] = "paired"  # paired: episodes or runs of the same seed
    published_return: bool = False  # also the return normalised over all that were evaluated
    # Scale of aggregates: the tasks' bounds, or lowest and highest of all episodes of the report.
    normalisation: Literal["minmax"] | None = _later()
    bootstrap: Literal["percentile", "expanded"] | None = _later()  # None: see analysis
    margin: float | None = _later(gt=0.0)  # of normalised score, within which policies are equal
    skirmish: bool | None = _later()  # also medians and quartiles of the best late checkpoints
    domain: dict[str, Domain] | None = _later()  # by group of tasks
    chart: tuple[Chart, ...] = ()

    @field_validator("metrics", "baselines", "learned", "chart", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _apart(self) -> "Reporting":
        both = [name for name in self.learned if name in self.baselines]
        if both:
            raise ValueError(f"{both[0]!r} stands among baselines and learned; keep it in one")
        return self

    @model_validator(mode="after")
    def _beside(self) -> "Reporting":
        shown = tuple(dict.fromkeys((self.score, *self.metrics)))
        domains = (self.domain or {}).values()
        for metric, first in _BESIDE.items():
            curves = [("curve", name) for name in (self.curve, *(each.curve for each in domains))]
            for use, name in (("score", self.score), *curves):
                if name == metric:
                    raise ValueError(f"{use} {metric!r} says nothing alone; allowed: {first!r}")
            for names in (self.metrics, shown, *(each.metrics for each in domains)):
                if metric in names and (first, metric) not in itertools.pairwise(names):
                    raise ValueError(
                        f"{metric!r} says nothing alone; put {first!r} directly before it"
                    )
            for chart in self.chart:
                if chart.metric == metric and not any(
                    chart.model_copy(update={"metric": first, "scale": other.scale}) == other
                    for other in self.chart
                ):
                    raise ValueError(f"a chart of {metric!r} needs one of {first!r} beside it")
        return self


class Protocol(_Strict):
    """A protocol, checked; see the files in ``protocols/``."""

    protocol: Identity
    seeds: Seeds
    report: Reporting
    training: Training | None = None
    limits: Limits | None = _later()  # for timed play; evaluate keeps no time
    task: tuple[Task, ...] = Field(min_length=1)
    ad_hoc: bool = False

    @field_validator("task", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _consistent(self) -> "Protocol":
        seen: dict[str, str] = {}
        for task in self.task:
            instances = task.instances and task.instances.sha256
            content = json.dumps(
                [task.env, task.parameters, instances, task.partners], sort_keys=True
            )
            if task.id in seen:
                raise ValueError(f"two tasks are called {task.id!r}; rename one")
            for other, same in seen.items():
                if same == content:
                    raise ValueError(f"tasks {other!r} and {task.id!r} are the same; remove one")
            seen[task.id] = content
            if self.episodes(task) > self.seeds.evaluation.count:
                raise ValueError(
                    f"task {task.id!r} wants {task.episodes} episodes, but there are only "
                    f"{self.seeds.evaluation.count} evaluation seeds"
                )
        return self

    @model_validator(mode="after")
    def _grouped(self) -> "Protocol":
        without = [task.id for task in self.task if not task.group]
        if without and len(without) < len(self.task):
            raise ValueError(f"task {without[0]!r} has no group, but others have; give it one")
        return self

    @model_validator(mode="after")
    def _divided(self) -> "Protocol":
        for name in self.report.domain or {}:
            if name not in self.groups:
                raise ValueError(unknown("group", name, self.groups, "the domains of the report"))
        return self

    @model_validator(mode="after")
    def _published(self) -> "Protocol":
        if self.report.normalisation == "minmax" and self.protocol.name != _MINMAX:
            raise ValueError(
                f"normalisation 'minmax' moves every score when a policy is added, so that it is "
                f"kept for {_MINMAX!r}, where it is published; remove it: the bounds of the tasks "
                f"are used"
            )
        if self.report.normalisation == "minmax" and self.report.margin is not None:
            raise ValueError(
                "a margin is in units of the tasks' bounds, which normalisation 'minmax' does not "
                "use; remove one of them"
            )
        return self

    @model_validator(mode="after")
    def _trainable(self) -> "Protocol":
        training = self.training
        if training is None:
            return self
        if training.runs != len(self.seeds.training):
            raise ValueError(
                f"training has {training.runs} runs, but there are {len(self.seeds.training)} "
                f"training seeds; allowed: one seed per run"
            )
        played = {str(task.parameters.get("map", "")) for task in self.task} - {""}
        for name in training.held_out:
            if name not in played:
                raise ValueError(unknown("held-out map", name, played, "the tasks"))
        selection = self.seeds.selection
        if selection is not None and selection.count != training.episodes:
            raise ValueError(
                f"training evaluates {training.episodes} episodes, but there are "
                f"{selection.count} selection seeds; allowed: one seed per episode"
            )
        return self

    @model_validator(mode="after")
    def _taken_over(self) -> "Protocol":
        tasks = {task.id: task for task in self.task}
        for task in self.task:
            if task.trained_on is None:
                continue
            where = f"task {task.id!r} has trained_on = {task.trained_on!r}"
            if self.training is None:
                raise ValueError(f"{where}, but there is no [training]; add it or remove the key")
            if self.training.plays != "own":
                raise ValueError(
                    f"{where}, but training has on = {self.training.on!r} and plays = "
                    f"{self.training.plays!r}; allowed: 'each' and 'own'"
                )
            allowed = [
                other.id
                for other in self.trained_tasks
                if other.env == task.env and not other.partners
            ]
            if task.trained_on not in tasks:
                raise ValueError(unknown("task", task.trained_on, allowed, where))
            reason = _unfit(task, tasks[task.trained_on])
            if reason:
                names = ", ".join(allowed) or "none here"
                raise ValueError(f"{where}, {reason}; allowed: {names}")
        return self

    @model_validator(mode="after")
    def _charted(self) -> "Protocol":
        axes = {name for task in self.task for name in task.axes}
        for chart in self.report.chart:
            for name in filter(None, (chart.x, chart.per)):
                if name not in axes:
                    where = f"a chart of {chart.metric}"
                    asked = unknown("axis", name, axes, where)
                    raise ValueError(f"{asked} Tasks say in 'axes' where they stand.")
            if chart.group and chart.group not in self.groups:
                raise ValueError(unknown("group", chart.group, self.groups, "a chart"))
            if chart.metric not in self.report.metrics:
                raise ValueError(unknown("metric", chart.metric, self.report.metrics, "a chart"))
            panels = chart.panels(self.task)
            places = [{task.axes[chart.x] for task in panel} for panel in panels.values()]
            if max(map(len, places), default=0) < 2:
                raise ValueError(f"a chart against {chart.x!r} has one place only; allowed: 2")
            low = min(map(min, places))
            if chart.scale == "log2" and low <= 0:
                raise ValueError(f"a log2 chart against {chart.x!r} has {low:g}; allowed: above 0")
        names = [name for chart in self.report.chart for name in chart.panels(self.task)]
        repeated = [name for name in names if names.count(name) > 1]
        if repeated:
            raise ValueError(f"two charts are called {repeated[0]!r}; remove one")
        return self

    @model_validator(mode="after")
    def _measurable(self) -> "Protocol":
        for task in self.task:
            known = known_metrics(task.env)
            curve = self.curve_of(task)
            for name in (*self.metrics_of(task), curve):
                if name not in known:
                    raise ValueError(unknown("metric", name, known, f"task {task.id!r}"))
            measured = coopbench_envs.spec(task.env).metrics
            if curve not in measured:
                raise ValueError(
                    f"curve {curve!r} of task {task.id!r} has no course over an "
                    f"episode; allowed: what the game itself measures, {', '.join(measured)}"
                )
        return self

    @property
    def name(self) -> str:
        """Name with version, for instance ``coopetition-standard-v1``."""
        return f"{self.protocol.name}-v{self.protocol.version}"

    @property
    def groups(self) -> dict[str, tuple[Task, ...]]:
        """Tasks by group, in the order of the file; one group named "" if there are none."""
        names = dict.fromkeys(task.group for task in self.task)
        return {name: tuple(t for t in self.task if t.group == name) for name in names}

    def metrics_of(self, task: Task) -> tuple[str, ...]:
        """Metrics that are reported of a task: the score, the report's, those of its group."""
        domain = (self.report.domain or {}).get(task.group)
        own = () if domain is None else domain.metrics
        return tuple(dict.fromkeys((self.report.score, *self.report.metrics, *own)))

    def curve_of(self, task: Task) -> str:
        """Metric whose course over an episode of a task is drawn."""
        domain = (self.report.domain or {}).get(task.group)
        return self.report.curve if domain is None else domain.curve

    def missing(self, present: Iterable[str]) -> tuple[str, ...]:
        """Required baselines that are not among the policies ``present``.

        A learned one is there under its name, whatever stands after a colon.
        """
        names = set(present)
        kinds = {name.partition(":")[0] for name in names}
        fixed = [name for name in self.report.baselines if name not in names]
        return (*fixed, *(name for name in self.report.learned if name not in kinds))

    def family(self, policy: str) -> tuple[str, str]:
        """Name of a policy, and the task that it was trained on where it is one of several models.

        A model is called ``name:task``. The task is empty for all other policies.
        """
        name, _, task = policy.partition(":")
        models = self.training is not None and (self.training.on, self.training.plays)
        if models == ("each", "all") and task in {each.id for each in self.task}:
            return name, task
        return policy, ""

    @property
    def trained_tasks(self) -> tuple[Task, ...]:
        """Tasks without ``trained_on``: those that have models and checkpoints of their own."""
        return tuple(task for task in self.task if task.trained_on is None)

    def played_by(self, task_id: str) -> tuple[Task, ...]:
        """Tasks that the models of a trained task play, its own first.

        Raises ``ValueError`` if ``task_id`` is none of ``trained_tasks``.
        """
        trained = {task.id: task for task in self.trained_tasks}
        own = named("task", task_id, trained, "the tasks that are trained on")
        every = self.training is None or self.training.plays == "all"
        others = [task for task in self.task if task is not own]
        return (own, *(task for task in others if every or task.trained_on == task_id))

    def episodes(self, task: Task) -> int:
        """Number of evaluation episodes of ``task``."""
        return self.seeds.evaluation.count if task.episodes is None else task.episodes

    def seeds_of(self, task: Task) -> np.ndarray:
        """Evaluation seeds of ``task``, one per episode."""
        return np.array(self.seeds.evaluation.seeds[: self.episodes(task)], np.uint64)

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical form; two protocols with one digest are the same protocol."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def _unfit(task: Task, other: Task) -> str:
    """Why models trained on ``other`` cannot be those of ``task``; empty if they can."""
    if other.id == task.id:
        return "which is the task itself"
    if other.env != task.env:
        return f"which is {other.env}, not {task.env}"
    if other.trained_on is not None:
        return f"which has models of another task itself ({other.trained_on!r})"
    return "which has partners: nobody trains there" if other.partners else ""


def protocol_files() -> dict[str, Path]:
    """Return the protocols that come with this package as {name: file}."""
    folder = Path(str(resources.files("coopbench.protocols")))
    return {file.stem: file for file in sorted(folder.glob("*.toml"))}


def load_protocol(source: "str | Path | Protocol") -> Protocol:
    """Load a protocol by its name (``-v1`` may be left out), or from a TOML file.

    Raises ``ProtocolError`` naming the file, the key and what is allowed if it is not usable.
    """
    if isinstance(source, Protocol):
        return source
    path = Path(source)
    if path.suffix != ".toml":
        path = _shipped(str(source))
    return _validated(_content(path), str(path))


def _content(path: Path, extending: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Content of a protocol file, laid over that of the protocol that it extends."""
    chain = (*extending, path.resolve())
    if chain[-1] in extending:
        names = " extends ".join(file.name for file in chain)
        raise ProtocolError(f"{extending[0]}: {names}, a circle; remove one 'extends'.")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ProtocolError(f"There is no protocol file {path}.") from None
    except tomllib.TOMLDecodeError as error:
        raise ProtocolError(f"{path} is not valid TOML: {error}") from None
    if "ad_hoc" in content:
        raise ProtocolError(f"{path}: 'ad_hoc' cannot be set in a file; remove it.")
    if "extends" not in content:
        return content
    base = _content(_base(content.pop("extends"), path), chain)
    both = base | content
    for name in ("protocol", "seeds", "report", "training", "limits"):
        if isinstance(base.get(name), dict) and isinstance(content.get(name), dict):
            both[name] = base[name] | content[name]
    return both


def _base(name: Any, path: Path) -> Path:
    """File of the protocol that the file ``path`` extends by ``name``."""
    if not isinstance(name, str):
        raise ProtocolError(f"{path}: 'extends' takes the name of a protocol; given {name!r}.")
    if name.endswith(".toml"):
        if not (path.parent / name).is_file():
            raise ProtocolError(f"{path} extends {name!r}; there is no file {path.parent / name}.")
        return path.parent / name
    environments = coopbench_envs.ids()
    if name == "ad-hoc" or name in environments or f"coopbench/{name}" in environments:
        raise ProtocolError(
            f"{path} extends {name!r}: an ad-hoc evaluation cannot be extended; name a protocol."
        )
    try:
        return _shipped(name)
    except ProtocolError as error:
        raise ProtocolError(f"{path} extends {name!r}: {error}") from None


def _shipped(name: str) -> Path:
    """File of a protocol of this package, by its name with or without ``-v`` and its version."""
    files = protocol_files()
    bare, _, version = name.rpartition("-v")
    if name not in files and bare in files and version.isdigit():
        there = load_protocol(bare).protocol.version
        if int(version) != there:
            raise ProtocolError(
                f"There is no version {version} of {bare}; this package has {there}."
            )
        return files[bare]
    try:
        return named("protocol", name, files)
    except ValueError as error:
        raise ProtocolError(f"{error} A file of your own must end in .toml.") from None


def ad_hoc(env: str, episodes: int = 100, seed: int = 0, **parameters: Any) -> Protocol:
    """Make a protocol of one task from an environment id; its report is not a standard report."""
    spec = coopbench_envs.spec(env)
    own = [m for m in spec.metrics if m != "length" and m not in _BESIDE]
    behind = {first: metric for metric, first in _BESIDE.items() if metric in spec.metrics}
    metrics = [each for m in ["return", *own, "length"] for each in (m, behind.get(m)) if each]
    content = {
        "protocol": {
            "name": "ad-hoc",
            "version": 1,
            "description": f"{episodes} episodes of {env}",
        },
        "seeds": {"evaluation": {"first": seed, "count": episodes}},
        "report": {"score": "return", "metrics": metrics, "curve": next(iter(spec.metrics))},
        "task": [
            {
                "id": spec.name.lower(),
                "env": spec.id,
                "parameters": parameters,
                "bounds": {"low": 0.0, "high": 1.0},
            }
        ],
        "ad_hoc": True,
    }
    return _validated(content, f"the ad-hoc protocol for {env}")


def with_limits(protocol: Protocol, limits: Limits | Mapping[str, Any]) -> Protocol:
    """Give a protocol that has no limits of time some; it is then one of another digest.

    Raises ``ProtocolError`` if it has its own, and if ``limits`` cannot be used.
    """
    if protocol.limits is not None:
        raise ProtocolError(
            f"{protocol.name} has limits of its own ({protocol.limits}); give none."
        )
    given = limits.model_dump() if isinstance(limits, Limits) else dict(limits)
    content = protocol.model_dump(mode="json") | {"limits": given}
    return _validated(content, f"{protocol.name} with limits")


def _validated(content: dict[str, Any], where: str) -> Protocol:
    try:
        return Protocol.model_validate(content)
    except ValidationError as error:
        lines = [_explained(problem) for problem in problems(error)]
        raise ProtocolError(f"{where} cannot be used:\n" + "\n".join(lines)) from None


def stored_protocol(file: Path) -> Protocol:
    """Return the protocol that a results folder holds; raise ``ProtocolError`` if it is damaged."""
    try:
        return Protocol.model_validate_json(file.read_bytes(), strict=False)
    except ValidationError as error:
        lines = "\n".join(_explained(problem) for problem in problems(error))
        advice = (
            "If files that it names have moved, put them back; is it damaged itself? Remove it and "
            "evaluate into its folder again, or choose another folder."
        )
        raise ProtocolError(
            f"{file} is damaged or of another version:\n{lines}\n{advice}"
        ) from None


def problems(error: ValidationError) -> list[Any]:
    """What is wrong with a protocol, without the lists that lack only what was refused."""
    found = error.errors()
    places = [one["loc"] for one in found]
    return [one for one in found if not any(_is_below(place, one["loc"]) for place in places)]


def _is_below(place: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(place) > len(other) and place[: len(other)] == other


def _explained(problem: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"]) or "protocol"
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        fields = _fields(problem["loc"][:-1])
        message = unknown("key", str(problem["loc"][-1]), fields)
    elif problem["type"] == "missing":
        message = "is missing; add it"
    elif not isinstance(problem["input"], (dict, list, tuple, bytes)):
        message = f"{message} (given {problem['input']!r})"
    return f"  {key}: {message[:600]}"


def _fields(location: tuple[Any, ...]) -> list[str]:
    """Names of the keys that are allowed at a place of a protocol."""
    model: Any = Protocol
    for part in location:
        if isinstance(part, int):
            continue
        kinds = {
            "protocol": Identity,
            "seeds": Seeds,
            "report": Reporting,
            "training": Training,
            "budgets": Budget,
            "domain": Domain,
            "chart": Chart,
            "task": Task,
            "evaluation": Evaluation,
            "selection": Evaluation,
            "bounds": Bounds,
            "limits": Limits,
            "instances": Instances,
        }
        model = kinds.get(str(part), model)
    extra = ["extends"] if model is Protocol else []
    return [*(name for name in model.model_fields if name != "ad_hoc"), *extra]
