"""What environment files are written with: ``kernel``, random numbers of lanes, ``EnvSpec``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np

from coopbench_envs.errors import KernelError
from coopbench_envs.layouts import Part
from coopbench_envs.marks import CALLED, INLINED, MERGED, PER_AGENT, PER_PAIR, Marked, plain
from coopbench_envs.scenes import Scene

__all__ = [
    "POLICY",
    "EnvSpec",
    "Kernels",
    "MapFiles",
    "Opponent",
    "TrajectoryMetric",
    "draw",
    "integer",
    "kernel",
    "mix",
    "per_agent",
    "per_pair",
    "routine",
    "stream",
    "streams",
    "subroutine",
    "uniform",
]


def kernel(function: Callable[..., Any]) -> Any:
    """Mark a function as one whose source is merged into its callers before they are compiled.

    That is the least to compile, and the fastest code.
    """
    return Marked(function, MERGED)


def per_agent(function: Callable[..., Any]) -> Any:
    """Mark a kernel as a part of a step that is played for every agent ``a``.

    It takes (c, s, i, a, rng, actions, rewards, terminated).
    """
    return Marked(function, MERGED, played=PER_AGENT)


def per_pair(function: Callable[..., Any]) -> Any:
    """Mark a kernel as a part of a step that is played for every pair, also (a, a).

    It takes (c, s, i, a, b, rng, actions, rewards, terminated).
    """
    return Marked(function, MERGED, played=PER_PAIR)


def routine(function: Callable[..., Any]) -> Any:
    """Mark a function as one that is merged into its callers after it has been compiled.

    For functions that are called in several places or in loops, where merging their source would
    compile it several times (pathfinding: half the compile time, twice the speed).
    """
    return Marked(function, INLINED)


def subroutine(function: Callable[..., Any]) -> Any:
    """Mark a function as one that is compiled by itself and called.

    For long code on a few arrays that runs once per episode: the call costs little there, and a
    merged copy would cost compile time.
    """
    return Marked(function, CALLED)


_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ONE, _S11, _S27, _S30, _S31, _S32 = (np.uint64(k) for k in (1, 11, 27, 30, 31, 32))
_UNIT = 1.0 / 9007199254740992.0  # 2**-53


@kernel
def mix(z):
    """Finaliser of SplitMix64 (Steele, Lea & Flood 2014): a bijection of uint64."""
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@kernel
def stream(seed, episode):
    """First random state of an episode of the environment seeded ``seed`` (both uint64)."""
    return mix(mix(seed + _GAMMA) + (episode + _ONE) * _GAMMA)


@kernel
def uniform(rng, i):
    """Next float64 in [0, 1) of lane ``i`` (SplitMix64, one uint64 of state per lane)."""
    rng[i] += _GAMMA
    return np.float64(mix(rng[i]) >> _S11) * _UNIT


@kernel
def integer(rng, i, n):
    """Next integer in [0, n) of lane ``i``, n < 2**32 (multiply-shift, bias < n / 2**32)."""
    rng[i] += _GAMMA
    return np.int64(((mix(rng[i]) >> _S32) * np.uint64(n)) >> _S32)


def streams(seeds: np.ndarray, episodes: np.ndarray | int, salt: int = 0) -> np.ndarray:
    """Random states for many (seed, episode) pairs at once; ``salt`` separates their users."""
    salted = np.asarray(seeds, np.uint64) ^ _mix_array(np.asarray([salt], np.uint64))
    ordinal = np.asarray(episodes, np.int64).astype(np.uint64) + _ONE
    return _mix_array(_mix_array(salted + _GAMMA) + ordinal * _GAMMA)


def draw(states: np.ndarray) -> np.ndarray:
    """Advance every state in place and return one float64 in [0, 1) per state, like ``uniform``."""
    states += _GAMMA
    return (_mix_array(states) >> _S11).astype(np.float64) * _UNIT


def _mix_array(z: np.ndarray) -> np.ndarray:
    # The same formula in plain Python: uint64 arrays wrap silently.
    return plain(mix)(z)


class Kernels(NamedTuple):
    """The functions that are the dynamics of an environment; one that is None has a default.

    ``c`` are the constants derived from the parameters, ``s`` is the state, ``i`` the lane. They
    are compiled (``kernel``), write every element of their outputs in lane ``i``, and neither
    allocate nor raise. A game that shares most of a model's kernels replaces the others:
    ``kernels=dynamics.KERNELS._replace(step=step)``.
    """

    state: Any  # what ``states.state`` returns: the arrays of the game, with ``time`` first
    # (c, s, i, rng, actions, rewards, terminated), or a tuple of such kernels, the parts of a step.
    # One that is marked ``per_agent`` or ``per_pair`` is played for every agent or pair.
    step: Any
    observe: Any  # (c, s, i, obs)
    measure: Any  # (c, s, i, measures), in the order of EnvSpec.metrics
    # (c, s, i, rng): the first state of an episode; arrays with a ``start`` have it already.
    reset: Any = None
    # (c, s, i): what follows from the other fields, after a reset and after a restored state.
    prepare: Any = None
    mask: Any = None  # (c, s, i, masks), for discrete actions; without it all are legal
    global_state: Any = None  # (c, s, i, out); without it the observations of all agents
    # (c, s, i, alive): which agents take part, after a reset, a restored state and each step; False
    # for one that has fallen or was not drawn, whose episode goes on without it: the driver shows
    # it zeros, leaves it the first choice of its mask alone, replaces its choice by -1 and pays it
    # nothing but a common reward. ``step`` then says of every agent at every step whether it is
    # terminated, which without this kernel is the only way to drop out.
    present: Any = None
    # (c, s, i) -> steps after which the lane's episode is truncated; at most, and without it,
    # ``c.horizon``.
    late: Any = None

    @property
    def compiled(self) -> bool:
        """Whether these are functions of one lane, which have to be marked."""
        return True

    @property
    def parts(self) -> tuple[Any, ...]:
        """The parts of a step, in order."""
        return self.step if isinstance(self.step, tuple) else (self.step,)


class MapFiles(NamedTuple):
    """Files that an environment can be played on: the package's own, or those of a user.

    The functions take the parameters of a task as a protocol or a user gives them, by name.
    """

    condition: str  # what tasks that read files have among their parameters: "map = 'movingai'"
    bundled: str  # what the package's own files are, in the plural
    # Files that a task reads; none if it reads no files. Raises ValueError where there is no file.
    paths: Callable[[Mapping[str, Any]], Sequence[Path]]
    place: Callable[[Mapping[str, Any]], str | None]  # file or folder of the user; None: our own
    moved: Callable[[Mapping[str, Any], str], dict[str, Any]]  # parameters, but with another place


class TrajectoryMetric(NamedTuple):
    """A metric over the whole course of an episode, from what ``EnvSpec.trace`` returns.

    ``function`` takes ``played``, (steps, episodes) bool, whether step t + 1 was part of the
    episode, and then each trace that is needed, (steps + 1, episodes, agents), whose entry 0 is
    that after the reset. It returns (episodes,) or, for a metric of every agent, (episodes,
    agents).
    """

    meaning: str
    needs: tuple[str, ...]  # names of the traces
    function: Callable[..., np.ndarray]


POLICY = "policy:"  # what stands before the name of a policy in a parameter ``opponent``


class Opponent(Protocol):
    """Plays against the agents of an engine."""

    def seat(self, policy: Any) -> None:
        """Let a policy (a name, a callable or an object) play from now on."""

    def restart(self, lanes: np.ndarray) -> None:
        """Forget the episodes of these lanes, bool (lanes,), whose states have been replaced."""

    def act(self) -> None:
        """Write into the engine's state what the coming step needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSpec:
    """One environment as data: the engine and the shells need nothing else."""

    id: str
    # __name__ of the environment's own file: its docstring begins with the one-line description,
    # and the last part of its name is that of the documentation page.
    module: str
    # Or (constants) -> the kernels that a task needs: what others need is not compiled.
    kernels: Kernels | Callable[[Any], Kernels]
    params: type  # a NamedTuple of Annotated fields with defaults; num_agents or alike, and horizon
    constants: Callable[[Any], Any]  # Params -> NamedTuple of numbers and arrays for the kernels
    agents: Callable[[Any], tuple[str, ...]]  # constants -> names "word_number", word = role
    observation_space: Callable[[Any, int], gym.spaces.Box]  # (constants, agent) -> one agent's
    action_space: Callable[[Any, int], Any]  # (constants, agent) -> Box or Discrete
    layout: Callable[[Any], Mapping[str, Part]]  # named parts of one agent's observation
    metrics: Mapping[str, str]  # name -> meaning, in the order that ``measure`` writes them
    # Metrics that mean nothing alone -> the metric directly after which they must be reported.
    dependent: Mapping[str, str] = field(default_factory=dict)
    # Metric whose value labels the stratum of an episode, such as a hidden type that the seed fixes
    # in equal shares: intervals then leave out the variation between strata. "": none.
    stratum: str = ""
    # (constants, fields of the state of a lane, agents) -> uint8 (height, width, 3), of one size
    # throughout an episode; None: what the agents observe, as bars.
    picture: Callable[..., np.ndarray] | None = None
    text: Callable[..., str] | None = None  # the same for render_mode="ansi"; None: as numbers
    # (constants, state, lane) -> what the player of recordings draws; None: pictures.
    scene: Callable[[Any, Any, int], Scene] | None = None
    global_state_space: Callable[[Any], gym.spaces.Box] | None = None  # None: all observations
    instances: Callable[..., dict[str, np.ndarray]] | None = None  # (constants, arrays) -> state
    # Named parts of one agent's Box action; None: it has one part, or choices.
    action_layout: Callable[[Any], Mapping[str, Part]] | None = None
    # (constants, state) -> what the metrics over a trajectory need, by name, (lanes, agents) or, if
    # alike in all lanes, (agents,); called after the reset and after every step.
    trace: Callable[[Any, Any], Mapping[str, np.ndarray]] | None = None
    # Metrics over a trajectory, of an episode and of every agent; those whose traces ``trace``
    # gives are offered. One that is also in ``metrics`` is taken from there.
    episode_metrics: Mapping[str, TrajectoryMetric] = field(default_factory=dict)
    agent_metrics: Mapping[str, TrajectoryMetric] = field(default_factory=dict)
    # (constants, state) -> what ``info`` tells each agent in addition, by name, (lanes,
    # agents, ...) each: views or new arrays; the names are the same at every step.
    info: Callable[[Any, Any], Mapping[str, np.ndarray]] | None = None
    # (constants, fractions (lanes, agents, parts)) -> state fields, lane first, at the values that
    # these investments would keep up permanently; for games in which they move step by step.
    steady: Callable[[Any, np.ndarray], dict[str, np.ndarray]] | None = None
    files: MapFiles | None = None  # None: no parameter names files
    # (engine) -> who plays against the agents as a policy, on the CPU; None: only rules do. The
    # parameter ``opponent`` names the rule, or the policy after POLICY.
    opponent: Callable[[Any], Opponent | None] | None = None
    # The parameter whose values a protocol can hold out of training; "" if there is none.
    held_out: str = ""
    # One reward for the whole team: ``step`` writes it to rewards[i, 0], the driver gives it to
    # every agent, also to one that is no longer alive, and it counts once: as the reward of joint
    # control, as ``return``, as ``control.team``.
    common_reward: bool = False
    # Whether loops over lanes run as vectors if there are few agents and many lanes (``FEW_AGENTS``
    # and ``MANY_LANES`` of ``drivers``): the lane lies innermost in memory, every part of a step is
    # played in a block of lanes before the next, and the number of agents, which must be
    # ``constants.num_agents``, is compiled in. A step is then also played in lanes whose episode is
    # over, directly before their next one begins.
    vectorized: bool = False
    # What agents choose between in place of Box actions; set by the parameter ``action_levels``.
    choices: Any = None
    source: str = ""  # publication and section that the model comes from

    def __post_init__(self) -> None:
        if isinstance(self.kernels, Kernels):
            self._check_marks(self.kernels)

    def kernels_of(self, constants: Any) -> Kernels:
        """Return the kernels of a task with these constants.

        Raises ``KernelError`` for one that is not marked.
        """
        chosen = self.kernels
        if isinstance(chosen, Kernels):
            return chosen
        kernels = chosen(constants)
        self._check_marks(kernels)
        return kernels

    def _check_marks(self, kernels: Kernels) -> None:
        """Raise ``KernelError`` for a kernel to be compiled that is not marked as one."""
        if not kernels.compiled:
            return
        for function in (*kernels.parts, *kernels[2:]):
            if isinstance(function, FunctionType):
                code, marks = function.__code__, "@kernel"
                if function in kernels.parts:
                    marks = "@kernel, @per_agent or @per_pair"
                raise KernelError(
                    f"{function.__name__} in {code.co_filename}, line {code.co_firstlineno}, is a "
                    f"kernel of {self.id} and not marked as one. Write {marks} above it."
                )

    @property
    def name(self) -> str:
        """What follows the last "/" of the id, for instance ``TrustDilemma-v0``, or all of it."""
        return self.id.rpartition("/")[2]
