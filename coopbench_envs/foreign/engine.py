"""The engine of environments of other packages: one Python object per lane, stepped in turn."""

import hashlib
from collections.abc import Mapping
from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from coopbench_envs.core import EnvSpec, streams
from coopbench_envs.drivers import DISABLED, NEXT_STEP, Control
from coopbench_envs.engine import SAME_STEP, operation
from coopbench_envs.foreign.codec import CHOICES, Codec
from coopbench_envs.foreign.loading import make_world
from coopbench_envs.foreign.worlds import Turn, World
from coopbench_envs.foreign_names import Keywords
from coopbench_envs.memory import Finals, control_of

__all__ = ["ForeignEngine", "reset_seed"]

_SEEDS = 1 << 31  # what every environment accepts as a seed
_SNAPSHOT = ("seed", "episode", "time", "played", "digest")  # what ``get_state`` returns


class Clock(NamedTuple):
    """The state that is known of an environment of another package."""

    time: np.ndarray  # (lanes,) int64, steps of the episode


class ForeignEngine:
    """``lanes`` environments of another package, played like an ``Engine``; see ``lanes.Lanes``.

    An agent that leaves the episode is no longer ``alive``; what policies do for it has no effect.
    ``control.obs`` and actions have the form that the ``Codec`` describes. With ``vectors`` they
    are what learners and the interfaces of arrays take: observations float32 (lanes, agents,
    features), actions choices from 0 or vectors. A choice beyond those of its agent is then
    replaced by 0 and counted in ``control.invalid``. With ``global_state`` as well, every call
    writes ``control.state``: the environment's own state, or the observations of all agents.

    There are no threads. The state of a lane is its episode and the actions so far, which are
    played again to restore it: only with ``vectors``, and of deterministic environments.
    """

    def __init__(
        self,
        environment: EnvSpec,
        lanes: int = 1,
        *,
        vectors: bool = False,
        global_state: bool = False,
        **parameters: Any,
    ) -> None:
        if lanes < 1:
            raise ValueError(f"lanes must be >= 1; given {lanes}.")
        self.spec, self.lanes, self.device = environment, lanes, "cpu"
        self.parameters = Keywords(environment.id, parameters)
        self.constants = environment.constants(self.parameters)
        self.codec: Codec = self.constants.codec
        self.agents = self.codec.agents
        self.layout = dict(environment.layout(self.constants))
        self.observation_spaces = list(self.codec.observation_spaces)
        self.action_spaces = list(self.codec.action_spaces)
        if vectors:
            spaces = self.codec.vector_spaces(environment.id)
            self.observation_spaces, self.action_spaces = spaces
        self.discrete = self.codec.form == CHOICES
        self.horizon, self.falling = self.constants.horizon, True
        self._vectors, self._global = vectors, global_state
        self._worlds: list[World] = [self._world() for _ in range(lanes)]
        self.state = Clock(np.zeros(lanes, np.int64))
        self.control = self._made_control()
        self.actions = np.zeros(
            (lanes, *self.codec.shape), np.int64 if self.discrete else np.float64
        )
        self._finals = Finals(*(getattr(self.control, name).copy() for name in Finals._fields))
        self.final_info: dict[str, np.ndarray] = {}
        self._metrics = tuple(environment.metrics)[1:]  # the first is the return
        self._acting = np.zeros_like(self.control.alive)  # who acted in the latest step
        self._seen = np.zeros((lanes, len(self._metrics)))  # how often ``info`` had them
        self._course: list[tuple[np.ndarray, bytes]] = []  # of lane 0: actions, what came of them
        kept = self.horizon if vectors else 0
        self._played = np.zeros((lanes, kept, *self.codec.shape), self.actions.dtype)
        self._turns: list[Turn | None] = [None] * lanes  # what was said last
        self.infos: list[Mapping[str, Any]] = [{}] * lanes  # of the last step, by agent

    def _made_control(self) -> Control:
        features = self.codec.width if self._vectors else 0
        control = control_of(
            self.lanes,
            len(self.agents),
            features=features,
            choices=self.codec.choices,
            metrics=len(self.spec.metrics),
            state=self.state_space.shape[0] if self._global else 0,
        )
        return control if self._vectors else control._replace(obs=self._observations())

    def _observations(self) -> np.ndarray:
        return self.codec.observations(self.lanes)

    @cached_property
    def state_space(self) -> gym.spaces.Box:
        """The space of the global state: that of the environment, else of all observations."""
        if self._worlds[0].state_space is not None:
            space: gym.spaces.Box = self._worlds[0].state_space
            return space
        seen, _ = self.codec.vector_spaces(self.spec.id)
        low, high = (np.concatenate([getattr(s, end) for s in seen]) for end in ("low", "high"))
        return gym.spaces.Box(low, high, dtype=np.float32)

    @property
    def final_obs(self) -> np.ndarray:
        """What agents observed at the end of the episodes that SAME_STEP has ended."""
        return self._finals.obs

    @property
    def final_measures(self) -> np.ndarray:
        """The metrics of these episodes, (lanes, metrics)."""
        return self._finals.measures

    @property
    def final_returns(self) -> np.ndarray:
        """The sums of rewards in these episodes, (lanes, agents)."""
        return self._finals.returns

    @property
    def final_masks(self) -> np.ndarray:
        """The legal choices after their last step, (lanes, agents, choices)."""
        return self._finals.masks

    @property
    def final_alive(self) -> np.ndarray:
        """Which agents acted in their last step and were not terminated by it."""
        return self._finals.alive

    @property
    def final_state(self) -> np.ndarray:
        """The global state after their last step, (lanes, size)."""
        return self._finals.state

    def _world(self) -> World:
        return make_world(self.spec.id, self.parameters._asdict())

    def close(self) -> None:
        """Close all environments."""
        for world in self._worlds:
            world.close()

    # -- playing ---------------------------------------------------------------------------------

    def reset(
        self,
        seeds: np.ndarray | None = None,
        *,
        chosen: np.ndarray | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin an episode in every ``chosen`` lane (default: all); see ``reset_seed``.

        A ``state`` is one that ``get_state`` has returned; its actions are played again. Raises
        ``ValueError`` for another one, and if the environment then does not do the same.
        """
        control = self.control
        control.chosen[:] = True if chosen is None else chosen
        control.moved[:] = control.chosen
        lanes = np.flatnonzero(control.chosen).tolist()
        if state:
            self._check_state(state)
        for lane in lanes:
            if state:
                control.seed[lane], control.episode[lane] = (
                    state[name][lane] for name in ("seed", "episode")
                )
            elif seeds is not None:
                control.seed[lane] = np.uint64(np.asarray(seeds)[lane])
                control.episode[lane] = 0
            else:
                control.episode[lane] += 1
            self._begin(lane)
            if state:
                self._repeat(lane, state)

    def _begin(self, lane: int, op: int = DISABLED) -> None:
        """Begin the episode that is set; in SAME_STEP the outcome of the last step stays."""
        control = self.control
        self.state.time[lane] = 0
        control.done[lane] = False
        control.returns[lane], control.invalid[lane] = 0, 0
        if op != SAME_STEP:
            for array in (control.truncated, control.ended, control.team):
                array[lane] = 0
            control.rewards[lane], control.terminated[lane] = 0, False
        control.measures[lane] = np.nan
        control.measures[lane, 0] = 0.0
        self._seen[lane] = 0
        turn = self._worlds[lane].reset(reset_seed(control.seed[lane], control.episode[lane]))
        if lane == 0:
            self._course = [(np.zeros(0), digest_of(turn))]
        self._show(lane, turn)
        self._measure(lane, turn)

    def step(self, actions: Any, mode: int = NEXT_STEP) -> None:
        """Play one step in every lane.

        ``actions`` are as they are stored, (lanes, agents, ...). What becomes of finished lanes is
        said by ``mode``, as in ``Engine.step``.
        """
        operation(mode)
        self._take(actions)
        control = self.control
        over = control.done.copy()
        control.moved[:] = True if mode == NEXT_STEP else ~over
        for lane in range(self.lanes):
            if not over[lane]:
                self._advance(lane)
                if mode == SAME_STEP and control.done[lane]:
                    self._renew(lane)
            elif mode == NEXT_STEP:
                control.episode[lane] += 1
                self._begin(lane)
            else:
                self.actions[lane] = 0
                control.rewards[lane], control.team[lane] = 0.0, 0.0

    def _take(self, actions: Any) -> None:
        """Copy the actions of a step; ``ValueError`` for those of another shape or kind."""
        array = np.asarray(actions)
        if array.shape != self.actions.shape:
            raise ValueError(
                f"Actions of {self.spec.id} must have shape {self.actions.shape}; given "
                f"{array.shape}."
            )
        if array.dtype.kind not in ("iub" if self.discrete else "fiub"):
            kind = "integers" if self.discrete else "numbers"
            raise ValueError(
                f"Actions of {self.spec.id} must be {kind}; given an array of {array.dtype}."
            )
        self.actions[...] = array
        if self._vectors and self.discrete:
            own = np.array([space.n for space in self.action_spaces])
            beyond = (self.actions < 0) | (self.actions >= own)
            self.control.invalid[beyond & self.control.alive & ~self.control.done[:, None]] += 1
            self.actions[beyond] = 0

    def _renew(self, lane: int) -> None:
        """Keep what the finished episode came to, and begin the next one."""
        control, finals = self.control, self._finals
        for name in Finals._fields:
            getattr(finals, name)[lane] = getattr(control, name)[lane]
        finals.alive[lane] = self._acting[lane] & ~control.terminated[lane]
        control.episode[lane] += 1
        self._begin(lane, SAME_STEP)

    def _advance(self, lane: int) -> None:
        """Step one environment and write what came of it."""
        control, actions = self.control, self.actions[lane]
        control.truncated[lane], control.ended[lane] = False, False
        if self.state.time[lane] == 0:
            control.terminated[lane] = False  # of the episode before
        seats = np.flatnonzero(control.alive[lane]).tolist()
        actions[~control.alive[lane]] = 0
        for seat in seats:
            if np.isnan(actions[seat]).any():
                raise ValueError(
                    f"{self.spec.id} needs an action for {self.agents[seat]!r} in step "
                    f"{self.state.time[lane] + 1} of seed {control.seed[lane]}; none was returned."
                )
        if self.discrete:
            control.invalid[lane, seats] += control.masks[lane, seats, actions[seats]] == 0
        self._acting[lane] = control.alive[lane]
        if self._vectors:
            self._played[lane, self.state.time[lane]] = actions
        choices = {self.agents[seat]: self.codec.decoded(actions, seat) for seat in seats}
        turn = self._worlds[lane].step(choices)
        self.state.time[lane] += 1
        for seat, name in enumerate(self.agents):
            control.rewards[lane, seat] = self._reward(turn.rewards.get(name, 0.0), name, lane)
            if turn.terminated.get(name, False):
                control.terminated[lane, seat] = True
        control.returns[lane] += control.rewards[lane]
        control.team[lane] = control.rewards[lane].sum()
        control.measures[lane, 0] += control.team[lane]
        self._show(lane, turn)
        self._end(lane, turn)
        self._measure(lane, turn)
        if lane == 0 and not self._vectors:
            self._course.append((actions.copy(), digest_of(turn)))

    def _reward(self, reward: Any, agent: str, lane: int) -> float:
        paid = np.asarray(reward)
        value = float(paid) if paid.ndim == 0 and paid.dtype.kind in "biuf" else np.nan
        if not np.isfinite(value):
            raise ValueError(
                f"{self.spec.id} pays {agent!r} the reward {reward!r} in step "
                f"{self.state.time[lane]} of seed {self.control.seed[lane]}; a reward must be one "
                f"finite number. Return float(...) of it, or 0.0 where there is none."
            )
        return value

    def _end(self, lane: int, turn: Turn) -> None:
        """Say whether an episode is over, and whether it was truncated."""
        control = self.control
        late = bool(self.state.time[lane] >= self.horizon)
        left = bool(control.alive[lane].any())
        if left and not late:
            return
        cut = any(turn.truncated.get(name, False) for name in self.agents)
        control.done[lane] = True
        control.truncated[lane] = left or cut
        control.ended[lane] = not (left or cut)

    def _show(self, lane: int, turn: Turn) -> None:
        """Write observations, legal choices, and which agents take part in the next step."""
        control, legal = self.control, self.codec.masks()
        takes_part = _active(turn)
        active = [name in takes_part for name in self.agents]
        control.alive[lane] = active
        control.masks[lane] = legal
        for seat, name in enumerate(self.agents):
            if name in turn.masks and self.discrete:
                mask = np.asarray(turn.masks[name]).astype(np.bool_)
                control.masks[lane, seat, : len(mask)] &= mask
            if self._vectors:
                shown = turn.observations.get(name)
                seen = 0.0 if shown is None else self.codec.vector(seat, shown)
                control.obs[lane, seat] = seen
            elif self.codec.stacked:
                shown = turn.observations.get(name)
                control.obs[lane, seat] = 0 if shown is None else shown
        if control.state.shape[1]:
            control.state[lane] = self._state_of(lane)
        self._turns[lane] = turn
        if not self._vectors and not self.codec.stacked:
            shown_agents = [n for n in self.agents if n in takes_part and n in turn.observations]
            control.obs[lane] = {name: turn.observations[name] for name in shown_agents}

    def _measure(self, lane: int, turn: Turn) -> None:
        """Take the metrics of this step from what the agents were told."""
        self.infos[lane] = turn.infos
        for k, name in enumerate(self._metrics):
            values = [
                value
                for info in turn.infos.values()
                if (value := number_in(info, name)) is not None
            ]
            if values:
                self._note(lane, k, sum(values) / len(values))

    def _note(self, lane: int, k: int, value: float) -> None:
        """Add a value of a metric to those of the earlier steps."""
        measures, how = self.control.measures[lane], self.constants.hows[self._metrics[k]]
        before, seen = measures[k + 1], self._seen[lane, k]
        self._seen[lane, k] += 1
        if how == "last" or not seen:
            measures[k + 1] = value
        elif how == "sum":
            measures[k + 1] = before + value
        elif how == "mean":
            measures[k + 1] = before + (value - before) / (seen + 1)
        else:
            measures[k + 1] = max(before, value) if how == "max" else min(before, value)

    def repeats(self) -> bool:
        """Whether lane 0 does the same again: the same observations, rewards, ends and infos.

        Its episode so far is played in an environment that is made for this.
        """
        world = self._world()
        seats = range(len(self.agents))
        try:
            seed, episode = self.control.seed[0], self.control.episode[0]
            turn = world.reset(reset_seed(seed, episode))
            if digest_of(turn) != self._course[0][1]:
                return False
            for actions, digest in self._course[1:]:
                active = _active(turn)
                turn = world.step(
                    {
                        self.agents[seat]: self.codec.decoded(actions, seat)
                        for seat in seats
                        if self.agents[seat] in active
                    }
                )
                if digest_of(turn) != digest:
                    return False
        finally:
            world.close()
        return True

    # -- states ------------------------------------------------------------------------------------

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the arrays that ``get_state`` returns and ``reset(state=...)`` takes."""
        return _SNAPSHOT

    def get_state(self) -> dict[str, np.ndarray]:
        """Return which episodes the lanes play, and the actions in them so far; axis 0 is the lane.

        Raises ``ValueError`` without ``vectors``.
        """
        if not self._vectors:
            raise ValueError(f"States of {self.spec.id} can be neither saved nor restored here.")
        control = self.control
        arrays = control.seed, control.episode, self.state.time, self._played, self._digests()
        return {name: array.copy() for name, array in zip(_SNAPSHOT, arrays, strict=True)}

    def _digests(self) -> np.ndarray:
        """Return digests of what the environments have said last, uint8 (lanes, bytes)."""
        said = [b"" if turn is None else digest_of(turn) for turn in self._turns]
        size = hashlib.sha256().digest_size
        return np.array([list(digest.ljust(size, b"\0")) for digest in said], np.uint8)

    def lane_state(self, lane: int = 0) -> dict[str, np.ndarray]:
        """Return the same of one lane, without the lane axis."""
        return {name: array[lane] for name, array in self.get_state().items()}

    def _check_state(self, state: Mapping[str, Any]) -> None:
        """Raise ``ValueError`` for a state that is none of such lanes."""
        if not self._vectors or set(state) != set(_SNAPSHOT):
            raise ValueError(
                f"States of {self.spec.id} can be neither saved nor restored by fields; allowed in "
                f"training: all of what get_state() returns, {', '.join(_SNAPSHOT)}."
            )
        for name, now in self.get_state().items():
            given = np.asarray(state[name])
            if given.shape != now.shape or given.dtype != now.dtype:
                raise ValueError(
                    f"{name!r} in the state of {self.spec.id} must be {now.dtype} of shape "
                    f"{now.shape}; given {given.dtype} of shape {given.shape}."
                )
        if (state["time"] < 0).any() or (state["time"] > self.horizon).any():
            raise ValueError(f"'time' in the state of {self.spec.id} must be 0 to {self.horizon}.")

    def _repeat(self, lane: int, state: Mapping[str, Any]) -> None:
        """Play the actions of a saved episode again."""
        for actions in state["played"][lane, : int(state["time"][lane])]:
            if not self.control.done[lane]:
                self.actions[lane] = actions
                self._advance(lane)
        if (self._digests()[lane] != state["digest"][lane]).any():
            raise ValueError(
                f"{self.spec.id} does not repeat the episode of seed {state['seed'][lane]} to which"
                f" the saved state belongs: a seed does not determine it, or its code has changed. "
                f"Train from the beginning."
            )

    # -- looking -----------------------------------------------------------------------------------

    def view(self) -> Clock:
        """Return the time of every lane; nothing else is known of the state."""
        return self.state

    @cached_property
    def first(self) -> Control:
        """The arrays of ``control`` without the lane axis: those of lane 0, which follow it."""
        return Control(*(array[0, ...] for array in self.control))

    def metrics(self, lane: int = 0, *, final: bool = False) -> dict[str, float]:
        """Metrics of the episode in ``lane`` so far; ``final``: of the one SAME_STEP just ended."""
        values = self._finals.measures if final else self.control.measures
        return dict(zip(self.spec.metrics, values[lane].tolist(), strict=True))

    def action_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper bounds of vectors, both float32 (agents, dim)."""
        spaces = self.action_spaces
        return np.stack([s.low for s in spaces]), np.stack([s.high for s in spaces])

    def info(self) -> dict[str, np.ndarray]:
        """Return nothing: what agents are told is there for metrics only; see ``infos``."""
        return {}

    def global_state(self) -> np.ndarray:
        """Return the global state of every lane, float32 (lanes, size); see ``state_space``.

        Raises ``ValueError`` without ``vectors``.
        """
        if not self._vectors:
            raise ValueError(f"{self.spec.id} has no global state.")
        return np.stack([self._state_of(lane) for lane in range(self.lanes)])

    def _state_of(self, lane: int) -> np.ndarray:
        if self._worlds[lane].state_space is None:
            seen: np.ndarray = self.control.obs[lane].reshape(-1).astype(np.float32)
            return seen
        state: np.ndarray = np.asarray(self._worlds[lane].state(), np.float32).reshape(-1)
        return state

    def check(self) -> None:
        """Do nothing: ``step`` itself raises."""

    def fetched(self, *names: str) -> tuple[Control, Finals]:
        """Return ``control``, and what SAME_STEP keeps of finished episodes."""
        return self.control, self._finals

    def set_opponent(self, policy: Any) -> None:
        """Raise ``ValueError``: no policy plays against the agents."""
        raise ValueError(f"{self.spec.id} has no opponent that a policy could be.")


def _active(turn: Turn) -> set[str]:
    """Return the agents that take part in the step after a turn."""
    ends = (turn.terminated, turn.truncated)
    return {name for name in turn.active if not any(end.get(name, False) for end in ends)}


def reset_seed(seed: Any, episode: Any) -> int:
    """Return what ``reset(seed=...)`` gets for an episode of a seed.

    For episode 0 it is the seed itself if it is below 2**31, which every environment accepts; all
    others are mixed from the two numbers.
    """
    if int(episode) == 0 and int(seed) < _SEEDS:
        return int(seed)
    return int(streams(np.array([seed], np.uint64), np.array([episode]))[0] >> np.uint64(33))


def number_in(info: Any, name: str) -> float | None:
    """Return the number that ``info`` holds under a name, or under a path ``name.name``."""
    if not isinstance(info, Mapping):
        return None
    if name in info:
        value = info[name]
        if isinstance(value, np.generic | np.ndarray) and np.ndim(value) == 0:
            value = value.item()
        return float(value) if isinstance(value, Real) else None
    first, _, rest = name.partition(".")
    return number_in(info.get(first), rest) if rest else None


def digest_of(turn: Turn) -> bytes:
    """Return a digest of all that an environment has said, except for infos."""
    sha = hashlib.sha256()
    _feed(sha, turn[:4])
    return sha.digest()


def _feed(sha: Any, value: Any) -> None:
    """Feed a nested value of dictionaries, sequences, arrays and numbers into a hash."""
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            sha.update(str(key).encode() + b"\0")
            _feed(sha, value[key])
    elif isinstance(value, str) or value is None:
        sha.update(repr(value).encode())
    elif isinstance(value, tuple | list) and not all(isinstance(v, Real) for v in value):
        for part in value:
            _feed(sha, part)
    else:
        array = np.asarray(value)
        content = array.tobytes() if array.dtype.kind in "biufc" else repr(value).encode()
        sha.update(str(array.shape).encode() + content)
