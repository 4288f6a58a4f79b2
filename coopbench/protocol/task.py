"""Tasks of a protocol: a game, who plays it, the scale of its score, frozen starts."""

import hashlib
import io
import itertools
import json
import re
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationInfo, field_validator, model_validator

import coopbench_envs
from coopbench.baselines.game import Game
from coopbench.baselines.match import seating_by_role
from coopbench.baselines.registry import granted, make_policy, reads_file
from coopbench.errors import ProtocolError
from coopbench.protocol import map_files
from coopbench.protocol.base import Strict, as_float, as_tuple, later
from coopbench.protocol.seeds import Seeds
from coopbench_envs.choices import as_played, resolved
from coopbench_envs.core import POLICY, EnvSpec
from coopbench_envs.foreign.environment import foreign_spec
from coopbench_envs.foreign_names import How, is_foreign
from coopbench_envs.parameters import describe, unknown
from coopbench_envs.reading import read_regular
from coopbench_envs.roles import role_of

# Upper limits, so that a file cannot request unbounded time or memory.
MOST_STEPS, MOST_INTERVALS, _PARTNERS = 10**12, 10_000, 200
# Characters of an id, a group and an axis: the names of files made of them have at most 255.
LONGEST, _LONGEST_AXIS = 100, 30
_CLOSEST = 1e-100  # bounds of scores; to divide by less could overflow
# Names that folders of tasks cannot have: a report or a protocol has files of these names.
_FILES = re.compile(r"plots|.*\.(json|html|md|tex|csv|npz|lock)")
INSTANCES = Path(str(resources.files("coopbench.protocols"))) / "instances.zip"  # of the package
_LARGEST = 1 << 28  # bytes of an instance file
_SMOKE, _SMOKE_CHECKPOINTS = 100, 4


class Budget(Strict):
    """Budget of one kind of learner, in steps of the environment; a step moves all agents."""

    steps: int = Field(ge=1, le=MOST_STEPS)
    interval: int = Field(ge=1, le=MOST_STEPS)  # steps from one evaluation to the next

    @model_validator(mode="after")
    def _ordered(self) -> "Budget":
        if self.interval > self.steps:
            raise ValueError(f"interval {self.interval} is longer than the {self.steps} steps")
        if self.steps % self.interval:
            raise ValueError(
                f"{self.steps} steps are no whole number of intervals of {self.interval}; change "
                f"one of them"
            )
        if self.steps // self.interval > MOST_INTERVALS:
            raise ValueError(
                f"{self.steps} steps have more than {MOST_INTERVALS:,} intervals of "
                f"{self.interval}; choose a longer one"
            )
        return self

    @property
    def smoke(self) -> "Budget":
        """That of a smoke run: a hundredth of the steps, with a few checkpoints."""
        count = min(self.steps // self.interval, _SMOKE_CHECKPOINTS)
        interval = max(1, self.steps // _SMOKE // count)
        return Budget(steps=count * interval, interval=interval)


class Bounds(Strict):
    """Scores that count as 0 and as 1 after normalization.

    Where they were measured, ``low_error`` and ``high_error`` are their standard errors. ``floor``
    is the mean score of random play where that is below ``low``: a run that failed has it.
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
        """Score of a run that failed, and the highest score."""
        return self.low if self.floor is None else self.floor, self.high

    _numbers = field_validator("low", "high", "floor", "low_error", "high_error", mode="before")(
        as_float
    )

    def normalise(self, scores: np.ndarray) -> np.ndarray:
        """Map low to 0 and high to 1; scores beyond the bounds are not clipped."""
        return (scores - self.low) / (self.high - self.low)

    def shortfall(self, score: float) -> float:
        """Map low to -1 and high to 0, not clipped: of a high of 0 it is exactly score / -low."""
        return (score - self.high) / (self.high - self.low)


class Instances(Strict):
    """Frozen start positions: a file of this package, or a path, with its checksum."""

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


AxisName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=_LONGEST_AXIS)]


MetricName = Annotated[str, Field(pattern=r"^[^\s:]{1,60}$")]


AxisPlace = Annotated[float, Field(allow_inf_nan=False)]


class Task(Strict):
    """One environment with its parameters, who plays it, and the scale of its score."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=LONGEST)
    # Tasks of one group are aggregated together.
    group: str = Field(default="", pattern=r"^([a-z0-9][a-z0-9_.-]*)?$", max_length=LONGEST)
    env: str
    parameters: dict[str, Any] = Field(default={})
    # Policies in the other seats, for all of them or by role of the agent; none: self-play.
    partners: tuple[str, ...] | dict[str, tuple[str, ...]] = ()
    episodes: int | None = Field(default=None, ge=1, le=1_000_000)  # by default all seeds
    bounds: Bounds = Bounds(low=0.0, high=1.0)  # may be left out with minmax; see checks
    axes: dict[AxisName, AxisPlace] = Field(default={})  # positions on the axes of charts
    instances: Instances | None = None
    maps: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")  # SHA-256 of map files
    trained_on: str | None = later()  # id of the task whose models play it; default: its own
    metrics: tuple[str, ...] | None = later()  # additional metrics of this task
    varies: str | None = later()  # id of the task whose game it plays with other parameters
    # How long every learner trains on it; None: as [training] says.
    budget: Budget | None = later()
    # Preset of the learners that are trained on it; None: as [training] says.
    preset: str | None = later()
    # For environments of other packages: numbers in ``info`` that are metrics, and how their
    # values over an episode are reduced.
    info: dict[MetricName, How] | None = later()
    # For environments of other packages: limit of steps; by default the environment's own.
    steps: int | None = later(ge=1, le=1_000_000)

    _lists = field_validator("metrics", mode="before")(as_tuple)
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
        return {k: as_float(v) for k, v in value.items()}

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
                resolved(spec, self.parameters)
            else:
                _check_time(info.context)
                as_played(spec, self.parameters)
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
            try:
                make_policy(name, game)
            except ValueError as error:
                raise ValueError(f"partner {name!r} cannot play: {error}") from None

    @property
    def origin(self) -> str:
        """The id of the task whose models play this one: ``trained_on``, or its own."""
        return self.trained_on or self.id

    @property
    def spec(self) -> EnvSpec:
        """The environment, with the metrics and the time that the task gives it."""
        if is_foreign(self.env):
            return foreign_spec(self.env, self.info, self.steps)
        return coopbench_envs.spec(self.env)

    @property
    def environment(self) -> str | EnvSpec:
        """What a learner is made for: the id, or the environment of another package as data."""
        return self.spec if is_foreign(self.env) else self.env

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
            f"their digest (frozen:DIGEST,FOLDER). To play with others, use 'coopbench crossplay'"
        )


def instance_state(
    task: Task, constants: Any, episodes: int, rows: Sequence[int] | None = None
) -> dict[str, np.ndarray] | None:
    """Return start states of a task's first ``episodes`` instances, or None if it has none.

    With ``rows`` only those of these numbers are made, in this order.
    Raises ``ProtocolError`` if the file is missing, is not the one of the protocol, or has too few.
    """
    if task.instances is None:
        return None
    spec = coopbench_envs.spec(task.env)
    if spec.instances is None:
        raise ProtocolError(f"Task {task.id!r}: {spec.id} takes no instances; remove the key.")
    content, path = instance_content(task), task.instances.file
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    shortest = min(len(array) for array in arrays.values())
    if shortest < episodes:
        raise ProtocolError(
            f"Task {task.id!r} has {episodes} episodes; {path} has {shortest} instances."
        )
    chosen = slice(episodes) if rows is None else list(rows)
    return spec.instances(constants, {name: array[chosen] for name, array in arrays.items()})


def instance_content(task: Task) -> bytes:
    """Return the file of a task's instances; nothing for a task without any.

    Raises ``ProtocolError`` if the file is missing, or is not the one of the protocol.
    """
    if task.instances is None:
        return b""
    path = task.instances.file
    try:
        content = instance_file(path)
    except FileNotFoundError:
        raise ProtocolError(f"Task {task.id!r}: there is no instance file {path}.") from None
    if hashlib.sha256(content).hexdigest() != task.instances.sha256:
        raise ProtocolError(
            f"Task {task.id!r}: {path} is not the file of the protocol (its checksum differs)."
        )
    return content


def instance_file(name: str) -> bytes:
    """Return a file of instances: one of this package, else the one at the path ``name``.

    Raises ``FileNotFoundError`` if there is none.
    """
    with zipfile.ZipFile(INSTANCES) as archive:
        if name in archive.namelist():
            return archive.read(name)
    return read_regular(Path(name), _LARGEST)


def groups_of(tasks: Sequence[Task]) -> dict[str, tuple[Task, ...]]:
    """Return tasks by group, in their order; one group named "" if there are none."""
    names = dict.fromkeys(task.group for task in tasks)
    return {name: tuple(t for t in tasks if t.group == name) for name in names}


def check_tasks(tasks: Sequence[Task], seeds: Seeds) -> None:
    """Check the tasks of a protocol against each other; raise ``ValueError`` if they do not fit."""
    _check_different(tasks, seeds)
    _check_groups(tasks)
    _check_variants(tasks)


def _check_different(tasks: Sequence[Task], seeds: Seeds) -> None:
    """Check that tasks differ by name and content and have enough evaluation seeds."""
    contents: dict[str, str] = {}
    for task in tasks:
        instances = task.instances and task.instances.sha256
        played = [task.env, task.parameters, instances, task.maps, task.partners]
        content = json.dumps([*played, task.steps, task.info], sort_keys=True)
        if task.id in contents:
            raise ValueError(f"two tasks are called {task.id!r}; rename one")
        for other, same in contents.items():
            if same == content:
                raise ValueError(f"tasks {other!r} and {task.id!r} are the same; remove one")
        contents[task.id] = content
        if (task.episodes or 0) > seeds.evaluation.count:
            raise ValueError(
                f"task {task.id!r} wants {task.episodes} episodes, but there are only "
                f"{seeds.evaluation.count} evaluation seeds"
            )


def _check_groups(tasks: Sequence[Task]) -> None:
    """Check that all tasks have a group, or none has."""
    without = [task.id for task in tasks if not task.group]
    if without and len(without) < len(tasks):
        raise ValueError(f"task {without[0]!r} has no group, but others have; give it one")


def _check_variants(tasks: Sequence[Task]) -> None:
    """Check that tasks which vary others name tasks of the same environment that vary none."""
    by_id = {task.id: task for task in tasks}
    for task in (task for task in tasks if task.varies is not None):
        others = [o.id for o in tasks if o.env == task.env and o.varies is None]
        if task.varies not in by_id:
            raise ValueError(unknown("task", str(task.varies), others, f"'varies' of {task.id!r}"))
        if task.varies not in others:
            raise ValueError(
                f"task {task.id!r} has varies = {task.varies!r}, which is of another environment "
                f"or varies a task itself; allowed: {', '.join(others) or 'none here'}"
            )
