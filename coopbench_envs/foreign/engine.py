"""The engine of environments of other packages: one Python object per lane, stepped in turn."""

import hashlib
from collections.abc import Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.core import EnvSpec, streams
from coopbench_envs.drivers import DISABLED, NEXT_STEP, Control
from coopbench_envs.engine import Engine
from coopbench_envs.foreign.codec import CHOICES, Codec
from coopbench_envs.foreign.loading import make_world
from coopbench_envs.foreign.worlds import Turn, World
from coopbench_envs.foreign_names import Keywords
from coopbench_envs.memory import Finals, Host, control_of

__all__ = ["ForeignEngine", "reset_seed"]

_SEEDS = 1 << 31  # what every environment accepts as a seed


class Clock(NamedTuple):
    """The state that is known of an environment of another package."""

    time: np.ndarray  # (lanes,) int64, steps of the episode


class ForeignEngine(Engine):
    """``lanes`` environments of another package, played like an ``Engine`` by a ``Match``.

    There are no threads, no saved states and no global state. ``control.obs`` holds observations in
    the form that the ``Codec`` describes. An agent that leaves the episode is no longer ``alive``;
    what policies do for it has no effect.
    """

    def __init__(self, environment: EnvSpec, lanes: int = 1, **parameters: Any) -> None:
        if lanes < 1:
            raise ValueError(f"lanes must be >= 1; given {lanes}.")
        self.spec, self.lanes, self.threads, self.order = environment, lanes, 1, "C"
        self.parameters = Keywords(environment.id, parameters)
        self.constants = environment.constants(self.parameters)
        self.codec: Codec = self.constants.codec
        self.agents = self.codec.agents
        self.layout, self.action_layout = dict(environment.layout(self.constants)), {}
        self.observation_spaces = list(self.codec.observation_spaces)
        self.action_spaces = list(self.codec.action_spaces)
        self.discrete = self.codec.form == CHOICES
        self.horizon, self.falling = self.constants.horizon, True
        self.state = Clock(np.zeros(lanes, np.int64))
        self.control = self._made_control()
        self.actions = np.zeros(
            (lanes, *self.codec.shape), np.int64 if self.discrete else np.float64
        )
        nothing = np.zeros((lanes, 0))
        finals = Finals(*(nothing for _ in Finals._fields))
        self._host = Host(self.constants, self.state, self.control, self.actions, finals)
        self._worlds: list[World] = [self._world() for _ in range(lanes)]
        self._metrics = tuple(environment.metrics)[1:]  # the first is the return
        self._seen = np.zeros((lanes, len(self._metrics)))  # how often ``info`` had them
        self._course: list[tuple[np.ndarray, bytes]] = []  # of lane 0: actions, what came of them
        self.infos: list[Mapping[str, Any]] = [{}] * lanes  # of the last step, by agent

    def _made_control(self) -> Control:
        control = control_of(
            self.lanes,
            len(self.agents),
            features=0,
            choices=self.codec.choices,
            metrics=len(self.spec.metrics),
            state=0,
        )
        return control._replace(obs=self.codec.observations(self.lanes))

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

        Raises ``ValueError`` for a ``state``, which these environments do not have.
        """
        if state:
            raise ValueError(f"States of {self.spec.id} can be neither saved nor restored.")
        control = self.control
        control.chosen[:] = True if chosen is None else chosen
        control.moved[:] = control.chosen
        for lane in np.flatnonzero(control.chosen).tolist():
            if seeds is not None:
                control.seed[lane] = np.uint64(np.asarray(seeds)[lane])
            control.episode[lane] = 0 if seeds is not None else control.episode[lane] + 1
            self._begin(lane)

    def _begin(self, lane: int) -> None:
        control = self.control
        self.state.time[lane] = 0
        for array in (control.done, control.truncated, control.ended, control.team):
            array[lane] = 0
        for array in (control.returns, control.rewards, control.terminated, control.invalid):
            array[lane] = 0
        control.measures[lane] = np.nan
        control.measures[lane, 0] = 0.0
        self._seen[lane] = 0
        turn = self._worlds[lane].reset(reset_seed(control.seed[lane], control.episode[lane]))
        if lane == 0:
            self._course = [(np.zeros(0), digest_of(turn))]
        self._show(lane, turn)
        self._measure(lane, turn)

    def step(self, actions: Any, mode: int = NEXT_STEP) -> None:
        """Play one step in every lane whose episode runs.

        ``actions`` are as they are stored, (lanes, agents, ...). Finished lanes begin their next
        episode, or rest if ``mode`` is DISABLED.
        """
        array = np.asarray(actions)
        if array.shape != self.actions.shape:
            raise ValueError(
                f"Actions of {self.spec.id} must have shape {self.actions.shape}; given "
                f"{array.shape}."
            )
        if mode not in (NEXT_STEP, DISABLED):
            raise ValueError(f"{self.spec.id} steps with NEXT_STEP or DISABLED; given {mode!r}.")
        self.actions[...] = array
        control = self.control
        over = control.done.copy()
        control.moved[:] = ~over if mode == DISABLED else True
        for lane in range(self.lanes):
            if not over[lane]:
                self._advance(lane)
            elif mode == NEXT_STEP:
                control.episode[lane] += 1
                self._begin(lane)
            else:
                self.actions[lane] = 0
                control.rewards[lane], control.team[lane] = 0.0, 0.0

    def _advance(self, lane: int) -> None:
        """Step one environment and write what came of it."""
        control, actions = self.control, self.actions[lane]
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
        if lane == 0:
            self._course.append((actions.copy(), digest_of(turn)))

    def _reward(self, reward: Any, agent: str, lane: int) -> float:
        value = float(reward)
        if not np.isfinite(value):
            raise ValueError(
                f"{self.spec.id} pays {agent!r} the reward {value} in step "
                f"{self.state.time[lane]} of seed {self.control.seed[lane]}; rewards must be "
                f"finite."
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
            if self.codec.stacked:
                shown = turn.observations.get(name)
                control.obs[lane, seat] = 0 if shown is None else shown
        if not self.codec.stacked:
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

    # -- what there is not -----------------------------------------------------------------------

    def view(self) -> Clock:
        """Return the time of every lane; nothing else is known of the state."""
        clock: Clock = self.state
        return clock

    def info(self) -> dict[str, np.ndarray]:
        """Return nothing: what agents are told is there for metrics only."""
        return {}

    def global_state(self) -> np.ndarray:
        """Raise ``ValueError``: there is no global state."""
        raise ValueError(f"{self.spec.id} has no global state.")


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
