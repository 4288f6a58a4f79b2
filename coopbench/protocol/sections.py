"""Sections of a protocol: identity, seeds, training, limits, tasks and report, frozen values."""

import itertools
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

import coopbench_envs
from coopbench.baselines.game import Game
from coopbench.baselines.match import seating_by_role
from coopbench.baselines.registry import granted, make_policy, presets, reads_file
from coopbench.protocol import map_files
from coopbench_envs.core import POLICY, EnvSpec
from coopbench_envs.foreign.environment import foreign_spec
from coopbench_envs.foreign_names import How, Keywords, is_foreign
from coopbench_envs.parameters import describe, named, resolve, unknown
from coopbench_envs.roles import role_of

__all__ = [
    "LIMITS",
    "Bounds",
    "Budget",
    "Chart",
    "Domain",
    "Evaluation",
    "Identity",
    "Instances",
    "Limits",
    "Reporting",
    "Reproduction",
    "Seeds",
    "Strict",
    "Task",
    "Training",
    "later",
]


# What nobody needs more of; without limits a file could ask for any time and memory.
_INTERVALS, _PARTNERS, _SELECTION = 10_000, 200, 10_000
_CLOSEST = 1e-100  # bounds of scores; to divide by less could overflow
# What the folders of tasks cannot be called: what a report or a protocol has beside them.
_FILES = re.compile(r"plots|.*\.(json|html|md|tex|csv|npz|lock)")


class Strict(BaseModel):
    """Base of all sections: frozen, no further keys, no conversion of types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _unset(value: object) -> bool:
    return value is None


def later(**facts: Any) -> Any:
    """Declare a key that a later version added: protocols without it keep their digest."""
    return Field(default=None, exclude_if=_unset, **facts)


def _as_tuple(value: Any) -> Any:
    """Turn the lists of TOML and JSON into tuples."""
    return tuple(value) if isinstance(value, list) else value


class Identity(Strict):
    """Name, version and origin of a protocol."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    version: int = Field(ge=1, le=1_000_000)
    description: str
    citation: str = ""
    # In what it differs on purpose from the publication that it reproduces.
    differs: tuple[str, ...] | None = later()

    _lists = field_validator("differs", mode="before")(_as_tuple)


class Evaluation(Strict):
    """Consecutive evaluation seeds: episode k of a task is the environment seeded first + k."""

    first: int = Field(ge=0, lt=1 << 63)
    count: int = Field(ge=1, le=1_000_000)

    @property
    def seeds(self) -> range:
        """All seeds, in order."""
        return range(self.first, self.first + self.count)


Seed = Annotated[int, Field(ge=0, lt=1 << 63)]


class Seeds(Strict):
    """Seeds of training runs, of evaluation episodes and of those that choose a checkpoint.

    No seed is used for two of these purposes.
    """

    training: tuple[Seed, ...] = Field(default=(), max_length=1000)
    evaluation: Evaluation
    selection: Evaluation | None = later()  # of the episodes after every interval of training

    _lists = field_validator("training", mode="before")(_as_tuple)

    @model_validator(mode="after")
    def _disjoint(self) -> "Seeds":
        spans = {"evaluation": self.evaluation, "selection": self.selection}
        for name, span in spans.items():
            shared = [] if span is None else [s for s in self.training if s in span.seeds]
            if span is not None and shared:
                raise ValueError(
                    f"training seeds {shared} are also {name} seeds ({span.seeds[0]} to "
                    f"{span.seeds[-1]}); keep them apart"
                )
        if self.selection is not None and self.selection.count > _SELECTION:
            raise ValueError(
                f"there are {self.selection.count:,} selection seeds; allowed: up to {_SELECTION:,}"
            )
        if self.selection is not None:
            final, chosen = self.evaluation.seeds, self.selection.seeds
            if max(final.start, chosen.start) < min(final.stop, chosen.stop):
                raise ValueError(
                    f"selection seeds {chosen.start} to {chosen.stop - 1} overlap the evaluation "
                    f"seeds {final.start} to {final.stop - 1}; keep them apart"
                )
        if len(set(self.training)) != len(self.training):
            raise ValueError("training seeds repeat; list each once")
        return self


class Budget(Strict):
    """How long one kind of learner trains; in steps of the environment, all agents together."""

    steps: int = Field(ge=1, le=10**12)
    interval: int = Field(ge=1, le=10**12)  # steps from one evaluation to the next

    @model_validator(mode="after")
    def _ordered(self) -> "Budget":
        if self.interval > self.steps:
            raise ValueError(f"interval {self.interval} is longer than the {self.steps} steps")
        if self.steps % self.interval:
            raise ValueError(
                f"{self.steps} steps are no whole number of intervals of {self.interval}; change "
                f"one of them"
            )
        if self.steps // self.interval > _INTERVALS:
            raise ValueError(
                f"{self.steps} steps have more than {_INTERVALS:,} intervals of {self.interval}; "
                f"choose a longer one"
            )
        return self


Seconds = Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]


class Limits(Strict):
    """How long a policy may take, in seconds; see ``timed``."""

    planning: Seconds  # from its creation to its first action of an episode
    step: Seconds  # for each later action
    total: Seconds  # for all episodes of all tasks, with the time of the environments
    timeouts: int = Field(
        default=10, ge=1, le=1_000_000
    )  # consecutive ones that end the evaluation
    # Share of "arrived" that a task has to reach on average, for later tasks to be played at all.
    stop_below: float | None = later(gt=0.0, lt=1.0)

    def __str__(self) -> str:
        stop = f", and so does a task with a mean share arrived below {self.stop_below}"
        return (
            f"{self.planning:g} s to the first action of an episode, {self.step:g} s for each "
            f"later one, {self.total:g} s in all; {self.timeouts} timeouts in a row end it"
            f"{'' if self.stop_below is None else stop}"
        )


LIMITS = {
    "flatland": Limits(planning=600.0, step=10.0, total=28_800.0),
    "flatland-round-1": Limits(planning=300.0, step=5.0, total=28_800.0),
    "flatland-service": Limits(planning=600.0, step=10.0, total=7_200.0),
}


class Bounds(Strict):
    """Scores that count as 0 and as 1 after normalisation; they never change.

    Where they were measured, ``low_error`` and ``high_error`` are their standard errors. ``floor``
    is the mean score of random play where that is below ``low``. A decision on learners
    assumes that a run which nobody has seen scores between ``floor`` (or ``low``) and ``high``.
    """

    low: float
    high: float
    floor: float | None = later()  # mean score of random play, where that is below low
    low_error: float | None = later(ge=0.0, allow_inf_nan=False)  # standard error of low
    high_error: float | None = later(ge=0.0, allow_inf_nan=False)  # standard error of high

    @model_validator(mode="after")
    def _ordered(self) -> "Bounds":
        if not _CLOSEST <= self.high - self.low <= 1 / _CLOSEST:
            raise ValueError(
                f"low must lie below high, by {_CLOSEST:g} to {1 / _CLOSEST:g}; given {self.low}, "
                f"{self.high}"
            )
        if self.floor is not None and not -np.inf < self.floor <= self.low:
            raise ValueError(
                f"floor must be finite and at most low, {self.low}; given {self.floor}"
            )
        return self

    @property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest score that a run is assumed to have."""
        return self.low if self.floor is None else self.floor, self.high

    @field_validator("low", "high", "floor", "low_error", "high_error", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    def normalise(self, scores: np.ndarray) -> np.ndarray:
        """Map low to 0 and high to 1; scores beyond the bounds are not clipped."""
        return (scores - self.low) / (self.high - self.low)

    def shortfall(self, score: float) -> float:
        """Map low to -1 and high to 0, not clipped: of a high of 0 it is exactly score / -low."""
        return (score - self.high) / (self.high - self.low)


class Instances(Strict):
    """Frozen start positions: a file beside the protocol, with its checksum."""

    file: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


def _as_pools(value: Any) -> Any:
    """Turn lists of partners into tuples, and put the roles of a table in order.

    The digest of a protocol does not depend on the order of roles, so that play must not, either.
    """
    pools = value.values() if isinstance(value, dict) else [value]
    for names in pools:
        if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
            raise ValueError(
                f"takes a list of policies, or a table {{role: [policies]}}; given {value!r}"
            )
    if isinstance(value, dict):
        return {role: tuple(value[role]) for role in sorted(value)}
    return tuple(value)


AxisName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
MetricName = Annotated[str, Field(pattern=r"^[^\s:]{1,60}$")]
AxisPlace = Annotated[float, Field(allow_inf_nan=False)]


class Task(Strict):
    """One environment with its parameters, who plays it, and the scale of its score."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    group: str = Field(default="", pattern=r"^([a-z0-9][a-z0-9_.-]*)?$")  # aggregated together
    env: str
    parameters: dict[str, Any] = {}
    # Policies in the other seats, for all of them or by role of the agent; none: self-play.
    partners: tuple[str, ...] | dict[str, tuple[str, ...]] = ()
    episodes: int | None = Field(default=None, ge=1, le=1_000_000)  # None: one per evaluation seed
    bounds: Bounds = Bounds(low=0.0, high=1.0)  # may be left out with minmax; see checks
    axes: dict[AxisName, AxisPlace] = {}  # position of the task on the axes of charts
    instances: Instances | None = None
    maps: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")  # checksum of its map files
    trained_on: str | None = later()  # id of the task whose models play this one; None: its own
    metrics: tuple[str, ...] | None = later()  # also reported of this task: those of its own game
    varies: str | None = later()  # id of the task whose game it plays with other parameters
    # How long every learner trains on it; None: as [training] says.
    budget: Budget | None = later()
    # Of an environment of another package: numbers in ``info`` that are metrics, and what becomes
    # of their values over an episode.
    info: dict[MetricName, How] | None = later()
    # Of an environment of another package: steps after which it is truncated; None: as it says.
    steps: int | None = later(ge=1, le=1_000_000)

    _lists = field_validator("metrics", mode="before")(_as_tuple)
    _pools = field_validator("partners", mode="before")(_as_pools)

    @field_validator("id")
    @classmethod
    def _not_a_file(cls, value: str) -> str:
        if _FILES.fullmatch(value):
            raise ValueError(f"{value!r} is the name of a file of results; call the task otherwise")
        return value

    @field_validator("env")
    @classmethod
    def _registered(cls, value: str) -> str:
        """Register an environment that its file or module is named with; its id is the value."""
        return coopbench_envs.spec(value).id if ":" in value and not is_foreign(value) else value

    @field_validator("axes", mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {k: float(v) if type(v) is int else v for k, v in value.items()}

    @field_validator("info", mode="before")
    @classmethod
    def _last(cls, value: Any) -> Any:
        """Turn a list of names into a table: their last values count."""
        return dict.fromkeys(value, "last") if isinstance(value, list | tuple) else value

    @model_validator(mode="after")
    def _playable(self, info: ValidationInfo) -> "Task":
        spec = coopbench_envs.spec(self.env)
        for key in ("info", "steps"):
            if getattr(self, key) is not None and not is_foreign(self.env):
                raise ValueError(
                    f"{key!r} goes with an environment of another package, and {spec.id} has "
                    f"metrics and a horizon of its own; remove it"
                )
        try:
            if is_foreign(self.env):  # whose code a protocol alone does not execute
                Keywords(self.env, self.parameters)
            else:
                _check_time(info.context)
                spec.constants(resolve(spec.params, self.parameters, spec.id))
        except TypeError as error:  # an unknown parameter: pydantic reports ValueErrors only
            raise ValueError(str(error)) from None
        self._check_maps()
        return self

    def _check_maps(self) -> None:
        """Raise ``ValueError`` unless the map files are those whose checksum is stated.

        That of files of the user has to be: results that name files are read by others, too.
        """
        if self.maps is not None and self.maps != map_files.checksum(self.env, self.parameters):
            raise ValueError(
                "the map files are not those of the protocol (their checksum differs); reinstall "
                "the package, or play files of your own with --maps"
            )
        total = map_files.users_checksum(self.env, self.parameters)
        if self.maps != total is not None:
            place = map_files.place_of(self.env, self.parameters)
            raise ValueError(f"it reads files of {place}; add their checksum, maps = {total!r}")

    @model_validator(mode="after")
    def _seated(self) -> "Task":
        for name in (*self.partner_names, *self._opponents):
            _check_covered(name)
        if self.partners == ():
            return self
        if len(self.partner_names) > _PARTNERS:
            raise ValueError(
                f"there are {len(self.partner_names):,} partners; allowed: up to {_PARTNERS}"
            )
        for names in self.pools.values():
            repeated = [name for name in names if names.count(name) > 1]
            if repeated:
                raise ValueError(f"partners repeat {repeated[0]!r}; list each once")
        if not is_foreign(self.env):  # whose partners are checked before they play
            self.check_partners(Game.at(self.env, **self.parameters))
        return self

    @property
    def _opponents(self) -> Iterator[str]:
        """Policies that play against the agents, as parameters name them."""
        takes = coopbench_envs.spec(self.env).opponent is not None
        texts = (v for v in self.parameters.values() if takes and isinstance(v, str))
        return (text.removeprefix(POLICY) for text in texts if text.startswith(POLICY))

    def check_partners(self, game: Game) -> None:
        """Raise ``ValueError`` for partners that have no seat in the game, or cannot play it.

        Self-play passes.
        """
        if self.partners == ():
            return
        if len(game.agents) < 2:
            raise ValueError(f"partners need seats; {game.env_id} has one agent here, allowed: 2")
        if isinstance(self.partners, dict):
            _check_roles(self.partners, game)
        for name in self.partner_names:
            make_policy(name, game)

    @property
    def spec(self) -> EnvSpec:
        """The environment, with the metrics and the time that the task gives it."""
        if is_foreign(self.env):
            return foreign_spec(self.env, self.info, self.steps)
        return coopbench_envs.spec(self.env)

    def as_played_by(self, policy: str) -> "Task":
        """Return the task with the parameters that a policy of this package alone plays with.

        For nearly all policies it is the task itself; see ``Entry.granted``.
        """
        known = () if is_foreign(self.env) else describe(self.spec.params)
        further = {name: value for name, value in granted(policy).items() if name in known}
        if not further:
            return self
        return self.model_copy(update={"parameters": {**self.parameters, **further}})

    @property
    def pools(self) -> dict[str, tuple[str, ...]]:
        """Partners by role; under "" where they are partners in all seats. Empty in self-play."""
        if isinstance(self.partners, dict):
            return self.partners
        return {"": self.partners} if self.partners else {}

    @property
    def partner_names(self) -> tuple[str, ...]:
        """All partners, in the order of their numbers in ``seating``."""
        return tuple(itertools.chain.from_iterable(self.pools.values()))

    def seating(self, episodes: int, agents: Sequence[str]) -> np.ndarray:
        """Say who sits where in the first episodes, (episodes, agents), from the agents' names.

        -1 is the policy, p >= 0 the p-th of ``partner_names``; see ``seating_by_role``.
        """
        if not self.pools:
            return seating_by_role(episodes, agents, {})
        roles = [role_of(agent) if isinstance(self.partners, dict) else "" for agent in agents]
        return seating_by_role(episodes, roles, {r: len(names) for r, names in self.pools.items()})


def _check_time(until: float | None) -> None:
    """Raise ``ValueError`` if the maps of earlier tasks took so long that no more are made.

    A few kilobytes could name maps that take hours, before anything is played.
    """
    if until is not None and time.process_time() > until:
        raise ValueError(
            "the maps and tables of the tasks before it took too much time; make them smaller, or "
            "make several protocols"
        )


def _check_roles(pools: Mapping[str, tuple[str, ...]], game: Game) -> None:
    """Raise ``ValueError`` unless there are partners for exactly the roles of a game."""
    roles = tuple(dict.fromkeys(map(role_of, game.agents)))
    for role, names in pools.items():
        if role not in roles:
            raise ValueError(unknown("role", role, roles, f"the partners in {game.env_id}"))
        if not names:
            raise ValueError(f"role {role!r} has no partners; name at least one")
    lacking = [role for role in roles if role not in pools]
    if lacking:
        raise ValueError(
            f"there are no partners for {', '.join(map(repr, lacking))}; every role of "
            f"{game.env_id} needs some: {', '.join(roles)}"
        )


def _check_covered(name: str) -> None:
    """Raise ``ValueError`` for a partner or opponent that a protocol's digest does not cover."""
    if reads_file(name):
        raise ValueError(
            f"{name!r} is read from a file, which the digest of a protocol does not cover; "
            f"allowed: fixed policies, shipped ones (shipped:NAME,DIGEST), and trained ones with "
            f"their digest (frozen:DIGEST,FOLDER). To play beside others, use 'coopbench crossplay'"
        )


class Training(Strict):
    """What learned policies are trained on, how long, and which tasks they then play."""

    on: Literal["each", "any"]  # one model per task; one model, on anything but what is held out
    plays: Literal["own", "all"] = "all"  # the task that the model was trained on, or every task
    held_out: tuple[str, ...] = ()  # values of EnvSpec.held_out, not trained on
    runs: int = Field(ge=1, le=1000)
    episodes: int = Field(ge=1, le=1_000_000)  # of every evaluation
    budgets: dict[str, Budget] = Field(min_length=1, max_length=100)  # by kind of learner
    # What every learner maximises: each agent its own rewards, or all the mean; None: as it likes.
    reward: Literal["own", "team"] | None = later()
    # Group of tasks beside whose partners every learner has one seat, in this share of its lanes:
    # a model meets those of the tasks that it plays itself. None: it has all seats in all lanes.
    partners: str | None = later()
    share: float | None = later(gt=0.0, le=1.0)
    # Of on = "any": the setting on which the learners of this package train the model.
    task: Task | None = later()
    # Which checkpoint plays the evaluation: "last", although selection episodes are played.
    # None: the best of these, and without selection seeds the last.
    evaluates: Literal["last"] | None = later()
    # Preset with the hyperparameters of this package's learners; None: their own defaults count.
    preset: str | None = later()
    tuning: str | None = later()  # how these were found, in words: trials per learner, budget

    _lists = field_validator("held_out", mode="before")(_as_tuple)

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
        if (self.partners is None) != (self.share is None):
            raise ValueError("partners go with share, the share of lanes beside them; name both")
        return self


class Chart(Strict):
    """A metric against an axis of the tasks, one line per policy.

    Tasks at the same position of the axis are averaged. With ``per`` there is one picture for every
    value of that axis.
    """

    metric: str
    x: str
    per: str = ""
    group: str = ""  # only tasks of this group
    scale: Literal["linear", "log2"] = "linear"

    def panels(self, tasks: Iterable[Task]) -> dict[str, tuple[Task, ...]]:
        """Return the tasks of every picture, by its name."""
        panels: dict[str, list[Task]] = {}
        stem = "-".join(filter(None, (self.metric, "by", self.x, self.group)))
        for task in tasks:
            axes = {self.x, self.per} - {""}
            if axes <= set(task.axes) and self.group in ("", task.group):
                suffix = f"-{self.per}-{task.axes[self.per]:g}" if self.per else ""
                panels.setdefault(stem + suffix, []).append(task)
        return {name: tuple(members) for name, members in panels.items()}


class Domain(Strict):
    """What is also shown of the tasks of one group, whose games have metrics of their own."""

    metrics: tuple[str, ...]  # shown after those of the report
    curve: str  # in place of that of the report

    _lists = field_validator("metrics", mode="before")(_as_tuple)


class Reproduction(Strict):
    """Tables and methods of a publication that a report has in addition to the standard ones."""

    published_return: bool = False  # the return, normalised over all that were evaluated
    interquartile: bool = False  # interquartile mean of every metric of every task and group
    # Metrics of the table with one row per algorithm, whose spread is that of the first.
    summary: tuple[str, ...] = ()
    # Interval of the interquartile mean of a learner's runs; without it, the two-way interval.
    bootstrap: Literal["percentile", "expanded"] | None = None
    # Medians and quartiles over runs: along the training, and of the best late checkpoints.
    medians: bool = False

    _lists = field_validator("summary", mode="before")(_as_tuple)


def _asks_nothing(reproduction: object) -> bool:
    return reproduction == Reproduction()


class Reporting(Strict):
    """What the standard report shows."""

    score: str  # metric that is normalised, compared and aggregated
    metrics: tuple[str, ...]
    curve: str  # metric whose course over an episode is drawn
    baselines: tuple[str, ...] = ()
    learned: tuple[str, ...] = ()  # required, too, but they have to be trained first
    confidence: float = Field(default=0.95, gt=0.5, lt=1.0)
    resamples: int = Field(default=2000, ge=100, le=100_000)
    alpha: float = Field(default=0.05, gt=0.0, lt=0.5)
    comparison: Literal["welch", "paired"] = "paired"  # paired: episodes or runs of the same seed
    effect: Literal["cohens_d"] | None = later()  # shown in comparisons in addition to Hedges' g
    # Scale of aggregates: the tasks' bounds, or lowest and highest of all episodes of the report.
    normalisation: Literal["minmax"] | None = later()
    margin: float | None = later(gt=0.0)  # of normalised score, within which policies are equal
    domain: dict[str, Domain] | None = later()  # by group of tasks
    chart: tuple[Chart, ...] = ()
    # Tables and methods of the publication that the protocol reproduces.
    reproduces: Reproduction = Field(default=Reproduction(), exclude_if=_asks_nothing)

    _lists = field_validator("metrics", "baselines", "learned", "chart", mode="before")(_as_tuple)

    @model_validator(mode="after")
    def _apart(self) -> "Reporting":
        repeated = [name for name in self.learned if name in self.baselines]
        if repeated:
            raise ValueError(
                f"{repeated[0]!r} is listed in baselines and in learned; keep it in one"
            )
        return self

    def metrics_of(self, task: Task) -> tuple[str, ...]:
        """Return the metrics that are reported of a task: score, the report's, its group's, own."""
        domain = (self.domain or {}).get(task.group)
        further = (*(() if domain is None else domain.metrics), *(task.metrics or ()))
        return tuple(dict.fromkeys((self.score, *self.metrics, *further)))

    def curve_of(self, task: Task) -> str:
        """Return the metric whose course over an episode of a task is drawn."""
        domain = (self.domain or {}).get(task.group)
        return self.curve if domain is None else domain.curve
