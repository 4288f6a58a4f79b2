"""The engine of environments of other packages: one Python object per lane, stepped in turn."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from coopbench_envs.choices import as_played, without_levels
from coopbench_envs.core import EnvSpec
from coopbench_envs.drivers import DISABLED, NEXT_STEP, Control
from coopbench_envs.engine import SAME_STEP, checked_actions, operation
from coopbench_envs.foreign.codec import BY_AGENT, CHOICES, Codec
from coopbench_envs.foreign.columns import columns_of, combined, flags_of, index_of
from coopbench_envs.foreign.loading import make_world
from coopbench_envs.foreign.seeds import reset_seed
from coopbench_envs.foreign.worlds import Single, Turn, World, digest_of, number_in
from coopbench_envs.layouts import Part
from coopbench_envs.memory import Finals, control_of
from coopbench_envs.parameters import check_switch

__all__ = ["ForeignEngine"]

_BYTES = 32  # of a digest
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
        /,
        *,
        vectors: bool = False,
        global_state: bool = False,
        **parameters: Any,
    ) -> None:
        if lanes < 1:
            raise ValueError(f"lanes must be >= 1; given {lanes}.")
        self.spec, self.lanes, self.device = environment, lanes, "cpu"
        _, self.parameters, self.constants = as_played(environment, parameters)
        self.codec: Codec = self.constants.codec
        self.agents = self.codec.agents
        self.layout = dict(environment.layout(self.constants))
        self.observation_spaces = list(self.codec.observation_spaces)
        self.action_spaces = list(self.codec.action_spaces)
        if vectors:
            spaces = self.codec.vector_spaces(environment.id)
            self.observation_spaces, self.action_spaces = spaces
            self.layout = {"observation": Part(0, self.codec.width)}
        self.discrete = self.codec.form == CHOICES
        self.horizon, self.falling = self.constants.horizon, True
        check_switch("global_state", global_state)
        self._vectors, self._global = vectors, global_state
        self._worlds: list[World] = [self._world() for _ in range(lanes)]
        self.state = Clock(np.zeros(lanes, np.int64))
        self.control = self._made_control()
        self.actions = np.zeros(
            (lanes, *self.codec.shape), np.int64 if self.discrete else np.float64
        )
        self.finals = Finals(*(getattr(self.control, name).copy() for name in Finals._fields))
        self.final_info: dict[str, np.ndarray] = {}
        self._choices = self.codec.masks()
        self._counts = self._choices.sum(axis=1).astype(np.uint64)
        self._numbers = np.arange(lanes)
        # Whether a choice may be illegal: where agents have other numbers of them, or were told.
        self._masked = self.discrete and not self._choices.all()
        self.control.masks[:] = self._choices
        self._renewed: Any = None  # an index of lanes in which SAME_STEP has begun anew
        self._unseen = np.zeros(self.codec.observation_spaces[0].shape or ())
        space = self.codec.observation_spaces[0]
        # The space of observations that are one array, written at once.
        self._box = space if self.codec.stacked and isinstance(space, gym.spaces.Box) else None
        self._metrics = tuple(environment.metrics)[1:]  # the first is the return
        self._acting = np.zeros_like(self.control.alive)  # who acted in the latest step
        self._unmeasured = np.array([0.0] + [np.nan] * len(self._metrics))  # of a new episode
        self._seen = np.zeros((lanes, len(self._metrics)))  # how often ``info`` had them
        self._course: list[tuple[np.ndarray, bytes]] = []  # of lane 0: actions, what came of them
        kept = self.horizon if vectors else 0
        # Choices that an agent does not have are -1 there: they are counted again.
        self._beyond: np.ndarray | None = None  # where they are, in the step that is played
        self._played = np.zeros((lanes, kept, *self.codec.shape), self.actions.dtype)
        # Whether a step of all lanes may be taken apart at once: nothing is read but the arrays.
        alone = all(isinstance(world, Single) for world in self._worlds)
        arrays = self._box is not None and self.codec.form != BY_AGENT
        self._at_once = alone and arrays and not (self._metrics or global_state)
        # What was said last, by lane: a ``Turn``, or what it is made of.
        self._said: dict[int, tuple[Any, ...] | None] = dict.fromkeys(range(lanes))

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
        return (
            control if self._vectors else control._replace(obs=self.codec.observations(self.lanes))
        )

    @cached_property
    def state_space(self) -> gym.spaces.Box:
        """The space of the global state: that of the environment, else of all observations."""
        if self._worlds[0].state_space is not None:
            space: gym.spaces.Box = self._worlds[0].state_space
            return space
        seen, _ = self.codec.vector_spaces(self.spec.id)
        low, high = (np.concatenate([getattr(s, end) for s in seen]) for end in ("low", "high"))
        return gym.spaces.Box(low, high, dtype=np.float32)

    def _world(self) -> World:
        return make_world(self.spec.id, without_levels(self.parameters._asdict()))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out ``first``, whose views would become arrays of their own."""
        return {name: value for name, value in self.__dict__.items() if name != "first"}

    def present(self, *, final: bool = False) -> np.ndarray:
        """Return who acts in the coming step, or had not ended in the last one; (lanes, agents)."""
        return self.finals.alive if final else self.control.alive

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
        numbers = np.flatnonzero(control.chosen).tolist()
        if state:
            self._check_state(state)
            for name in _SNAPSHOT[:2]:
                getattr(control, name)[numbers] = np.asarray(state[name])[numbers]
        elif seeds is not None:
            control.seed[numbers] = np.asarray(seeds).astype(np.uint64)[numbers]
            control.episode[numbers] = 0
        else:
            control.episode[numbers] += 1
        self._begin(numbers)
        if state:
            for lane in numbers:
                self._repeat(lane, state)

    def _begin(self, numbers: list[int], op: int = DISABLED) -> None:
        """Begin the episodes that are set; in SAME_STEP the outcome of the last step stays."""
        if not numbers:
            return
        control, lanes = self.control, index_of(numbers)
        self.state.time[lanes] = 0
        control.done[lanes] = False
        control.returns[lanes], control.invalid[lanes] = 0, 0
        if op != SAME_STEP:
            for array in (control.truncated, control.ended, control.team):
                array[lanes] = 0
            control.rewards[lanes], control.terminated[lanes] = 0, False
        control.measures[lanes] = self._unmeasured
        self._seen[lanes] = 0
        given = zip(numbers, control.seed[lanes], control.episode[lanes], strict=True)
        turns = [self._worlds[n].reset(reset_seed(seed, k)) for n, seed, k in given]
        if not (numbers[0] or self._vectors):
            self._course = [(np.zeros(0), self._signs(turns[0]))]
        self._show(numbers, turns, flags_of(turns))
        self._measure(numbers, turns)

    def step(self, actions: Any, mode: int = NEXT_STEP) -> None:
        """Play one step in every lane.

        ``actions`` are as they are stored, (lanes, agents, ...). What becomes of finished lanes is
        said by ``mode``, as in ``Engine.step``.
        """
        operation(mode)
        self._take(actions)
        control = self.control
        done = control.done.tolist()
        over = [lane for lane, ended in enumerate(done) if ended]
        plays = [lane for lane, ended in enumerate(done) if not ended]
        control.moved[:] = True if mode == NEXT_STEP else ~control.done
        self._advance(plays)
        if over and mode == NEXT_STEP:
            control.episode[over] += 1
            self._begin(over)
        elif over:
            self.actions[over] = 0
            control.rewards[over], control.team[over] = 0.0, 0.0
        if mode == SAME_STEP and np.count_nonzero(control.done) > len(over):
            self._renew([lane for lane in plays if control.done[lane]])

    def _take(self, actions: Any) -> None:
        """Copy the actions of a step; ``ValueError`` for those that ``checked_actions`` refuses."""
        self.actions[...] = checked_actions(self, actions, self.actions.shape)
        self._legalise()

    def _legalise(self) -> None:
        """Count choices that an agent does not have, and replace them by 0."""
        self._beyond = None
        if self._vectors and self.discrete:
            beyond = self.actions.view(np.uint64) >= self._counts  # as are those below 0
            if np.count_nonzero(beyond):  # in a quarter of the time of ``any``
                alive = self.control.alive & ~self.control.done[:, None]
                self.control.invalid[beyond & alive] += 1
                self.actions[beyond] = 0
                self._beyond = beyond

    def _renew(self, numbers: list[int]) -> None:
        """Keep what the episodes came to that have just finished, and begin the next ones."""
        control, finals, over = self.control, self.finals, index_of(numbers)
        for name in Finals._fields:
            getattr(finals, name)[over] = getattr(control, name)[over]
        finals.alive[over] = self._acting[over] & ~control.terminated[over]
        control.episode[over] += 1
        self._begin(numbers, SAME_STEP)
        self._renewed = over

    def _advance(self, numbers: list[int]) -> None:
        """Step the environments of some lanes and write what came of it."""
        if not numbers:
            return
        control, lanes = self.control, index_of(numbers)
        if self._renewed is not None:
            for array in (control.terminated, control.truncated, control.ended):
                array[self._renewed] = False  # what the episodes before came to
            self._renewed = None
        actions = self._due(numbers, lanes)
        worlds: list[Any] = self._worlds
        if self._at_once:
            choices = zip(numbers, self.codec.rows(actions), strict=True)
            flags = self._take_apart(numbers, [worlds[n].told(choice) for n, (choice,) in choices])
        else:
            named = zip(numbers, self.codec.decoded(actions, self._acting[lanes]), strict=True)
            flags = self._book(numbers, [worlds[n].step(choices) for n, choices in named])
        self._end(lanes, flags)
        if not (numbers[0] or self._vectors):
            self._course.append((actions[0].copy(), self._signs(self.turn(0))))

    def _due(self, numbers: list[int], lanes: Any) -> np.ndarray:
        """Return the actions of some lanes; they are 0 of agents that have left, and kept."""
        control = self.control
        actions: np.ndarray = self.actions[lanes]
        alive = self._acting[lanes] = control.alive[lanes].copy()
        if np.count_nonzero(alive) < alive.size:
            actions[~alive] = 0
            self.actions[lanes] = actions
        if not (self._vectors and self.discrete):  # of which none is missing
            self._check_given(actions, numbers)
        if self._masked:
            rows, seats = np.ogrid[: len(actions), : len(self.agents)]
            legal = control.masks[lanes][rows, seats, actions]
            illegal = alive & (legal == 0)
            if self._beyond is not None:  # which are counted already
                illegal &= ~self._beyond[lanes]
            control.invalid[lanes] += illegal
        if self._vectors:
            kept = actions if self._beyond is None else np.where(self._beyond[lanes], -1, actions)
            self._played[self._numbers[lanes], self.state.time[lanes]] = kept
        return actions

    def _take_apart(self, numbers: list[int], told: list[tuple[Any, ...]]) -> np.ndarray | None:
        """Write what environments have told, at once where it is usual; return the flags."""
        columns = columns_of(told, self._box)
        if columns is None:
            return self._book(numbers, [Single.turn(*parts) for parts in told])
        lanes = index_of(numbers)
        self.state.time[lanes] += 1
        self._pay(lanes, columns.rewards)
        self._lay(lanes, columns.observations, columns.flags)
        self._said.update(zip(numbers, told, strict=True))
        return columns.flags

    def _book(self, numbers: list[int], turns: list[Turn]) -> np.ndarray | None:
        """Write what environments have said in a step; return the flags."""
        lanes = index_of(numbers)
        self.state.time[lanes] += 1
        self._pay(lanes, self._rewards(turns, numbers))
        flags = flags_of(turns)
        self._show(numbers, turns, flags)
        self._measure(numbers, turns)
        return flags

    def _pay(self, lanes: Any, rewards: np.ndarray) -> None:
        """Add the rewards of a step, (lanes, agents)."""
        control = self.control
        team = rewards.sum(axis=1) if len(self.agents) > 1 else rewards[:, 0]
        control.rewards[lanes], control.team[lanes] = rewards, team
        control.returns[lanes] += rewards
        control.measures[lanes, 0] += team

    def _check_given(self, actions: np.ndarray, lanes: list[int]) -> None:
        """Raise ``ValueError`` if an agent that takes part has no action, or one not finite."""
        missing = actions < 0 if self.discrete else ~np.isfinite(actions)
        if not np.count_nonzero(missing):
            return
        row, seat, *entry = np.argwhere(missing)[0]
        lane = lanes[row]
        given = "none" if self.discrete else actions[row, seat, *entry]
        raise ValueError(
            f"{self.spec.id} needs an action for {self.agents[seat]!r} in step "
            f"{self.state.time[lane] + 1} of seed {self.control.seed[lane]}, of finite numbers; "
            f"given {given} (nan: none was returned)."
        )

    def _rewards(self, turns: list[Turn], lanes: list[int]) -> np.ndarray:
        """Return the rewards of all agents, float64 (lanes, agents)."""
        paid = [turn.rewards for turn in turns]
        try:
            rewards = np.array(paid)
        except ValueError:  # rewards that are not numbers
            rewards = np.array(None)
        numbers = rewards.ndim == 2 and rewards.dtype.kind in "biuf"
        if numbers and np.count_nonzero(np.isfinite(rewards)) == rewards.size:
            return rewards.astype(np.float64, copy=False)
        checked = [
            [self._reward(reward, seat, lane) for seat, reward in enumerate(row)]
            for row, lane in zip(paid, lanes, strict=True)
        ]
        return np.array(checked)

    def _reward(self, reward: Any, seat: int, lane: int) -> float:
        paid = np.asarray(reward)
        value = float(paid) if paid.ndim == 0 and paid.dtype.kind in "biuf" else np.nan
        if not np.isfinite(value):
            raise ValueError(
                f"{self.spec.id} pays {self.agents[seat]!r} the reward {reward!r} in step "
                f"{self.state.time[lane]} of seed {self.control.seed[lane]}; a reward must be one "
                f"finite number. Return float(...) of it, or 0.0 where there is none."
            )
        return value

    def _end(self, lanes: Any, flags: np.ndarray | None) -> None:
        """Say who is terminated, and whether the game, time, or both ended an episode."""
        control, times = self.control, self.state.time[lanes]
        if flags is None and max(times.tolist()) < self.horizon:  # in less time than arrays take
            return
        over = late = times >= self.horizon
        cut: Any = late
        ended: Any = False
        if flags is not None:
            terminated, truncated, left = flags
            cut = late | truncated.any(axis=1) & ~left.any(axis=1)
            ended = ~(left | truncated & ~terminated).any(axis=1)
            over = cut | ended
            control.terminated[lanes] |= terminated
        if np.count_nonzero(over):
            control.done[lanes], control.truncated[lanes] = over, cut
            control.ended[lanes] = ended

    def _show(self, numbers: list[int], turns: list[Turn], flags: np.ndarray | None) -> None:
        """Write observations, legal choices, and which agents take part in the next step."""
        seen = self._arrays(turns)
        self._lay(index_of(numbers), seen, flags)
        for lane, turn in zip(numbers, turns, strict=True):
            self._said[lane] = turn
            if turn.masks and self.discrete:
                self._limit(lane, turn)
            if seen is None:
                self._write(lane, turn)
            if self._global:
                self.control.state[lane] = self._state_of(lane)

    def _lay(self, lanes: Any, seen: np.ndarray | None, flags: np.ndarray | None) -> None:
        """Write who takes part next, what all have seen, and the choices that there are."""
        control = self.control
        control.alive[lanes] = True if flags is None else flags[2]
        if seen is not None:
            control.obs[lanes] = seen.reshape(-1, *control.obs.shape[1:])
        if self._masked:
            control.masks[lanes] = self._choices

    def _limit(self, lane: int, turn: Turn) -> None:
        """Leave the choices that agents were told are legal."""
        self._masked = True
        for seat, told in turn.masks.items():
            mask = np.asarray(told).astype(np.bool_)
            self.control.masks[lane, seat, : len(mask)] &= mask

    def _arrays(self, turns: list[Turn]) -> np.ndarray | None:
        """Return observations of one Box as an array (lanes, agents, ...), zeros of those gone.

        None where spaces are others, and where an observation has not the shape of its space.
        """
        space = self._box
        if space is None:
            return None
        rows = [
            self._unseen if shown is None else shown
            for turn in turns
            for shown in turn.observations
        ]
        try:
            seen = np.array(rows, space.dtype)
        except (ValueError, TypeError):
            return None
        return seen if seen.shape[1:] == space.shape else None

    def _write(self, lane: int, turn: Turn) -> None:
        """Write the observations of a lane one by one."""
        obs, alive = self.control.obs, self.control.alive[lane]
        if not self._vectors and not self.codec.stacked:
            seen = zip(self.agents, turn.observations, alive, strict=True)
            obs[lane] = {name: shown for name, shown, acts in seen if acts and shown is not None}
            return
        for seat, (name, shown) in enumerate(zip(self.agents, turn.observations, strict=True)):
            if shown is not None and self._vectors:
                shown = self.codec.vector(seat, shown)
            space = self.codec.observation_spaces[seat]
            shape = () if shown is None else np.shape(shown)
            if shown is not None and isinstance(space, gym.spaces.Box) and shape != space.shape:
                raise ValueError(
                    f"{self.spec.id} shows {name!r} an observation of shape {shape}; its space has "
                    f"{space.shape}."
                )
            obs[lane, seat] = 0 if shown is None else shown

    def _measure(self, lanes: list[int], turns: list[Turn]) -> None:
        """Take the metrics of this step from what the agents were told."""
        for lane, turn in zip(lanes, turns, strict=True):
            for k, name in enumerate(self._metrics):
                told = (number_in(info, name) for info in turn.infos.values())
                values = [value for value in told if value is not None]
                if values:
                    self._note(lane, k, sum(values) / len(values))

    def _note(self, lane: int, k: int, value: float) -> None:
        """Add a value of a metric to those of the earlier steps."""
        measures, how = self.control.measures[lane], self.constants.hows[self._metrics[k]]
        measures[k + 1] = combined(how, measures[k + 1], value, self._seen[lane, k])
        self._seen[lane, k] += 1

    def repeats(self, times: int = 1) -> bool:
        """Whether lane 0 does the same again: the same observations, rewards, ends and metrics.

        Its episode so far is played in an environment that is made for this, ``times`` one after
        the other.
        """
        world = self._world()
        try:
            return all(self._does_the_same(world) for _ in range(times))
        finally:
            world.close()

    def _does_the_same(self, world: World) -> bool:
        """Whether the episode of lane 0 so far is the same in another environment."""
        turn = world.reset(reset_seed(self.control.seed[0], self.control.episode[0]))
        for actions, signs in self._course:
            if len(actions):
                flags = flags_of([turn])
                active = np.ones((1, len(self.agents)), bool) if flags is None else flags[2]
                turn = world.step(self.codec.decoded(actions[None], active)[0])
            if self._signs(turn) != signs:
                return False
        return True

    def _signs(self, turn: Turn) -> bytes:
        """Return a digest of what an environment has said, with the metrics that are read."""
        told = [number_in(info, name) for info in turn.infos.values() for name in self._metrics]
        return digest_of(turn) + repr(told).encode()

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
        said = [
            b"" if parts is None else digest_of(self.turn(lane))
            for lane, parts in self._said.items()
        ]
        return np.array([list(digest.ljust(_BYTES, b"\0")) for digest in said], np.uint8)

    def turn(self, lane: int) -> Turn:
        """Return what the environment of a lane has said last."""
        parts: Any = self._said[lane]
        return parts if isinstance(parts, Turn) else Single.turn(*parts)

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
                self._legalise()
                self._advance([lane])
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
        values = self.finals.measures if final else self.control.measures
        return dict(zip(self.spec.metrics, values[lane].tolist(), strict=True))

    def action_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper bounds of vectors, both float32 (agents, dim)."""
        spaces = self.action_spaces
        return np.stack([s.low for s in spaces]), np.stack([s.high for s in spaces])

    def told(self, lane: int) -> Mapping[str, Any]:
        """Return the infos of the last step in a lane, by agent."""
        return self.turn(lane).infos

    def info(self) -> dict[str, np.ndarray]:
        """Return nothing: what agents are told is there for metrics only; see ``told``."""
        return {}

    def global_state(self) -> np.ndarray:
        """Return the global state of every lane, float32 (lanes, size); see ``state_space``.

        Raises ``ValueError`` without ``vectors``.
        """
        if not self._vectors:
            raise ValueError(f"{self.spec.id} has no global state.")
        return np.stack([self._state_of(lane) for lane in range(self.lanes)])

    def _state_of(self, lane: int) -> np.ndarray:
        world = self._worlds[lane]
        given = self.control.obs[lane] if world.state_space is None else world.state()
        state: np.ndarray = np.asarray(given, np.float32).reshape(-1)
        return state

    def check(self) -> None:
        """Do nothing: ``step`` itself raises."""

    def fetched(self, *names: str) -> tuple[Control, Finals]:
        """Return ``control``, and what SAME_STEP keeps of finished episodes."""
        return self.control, self.finals

    def set_opponent(self, policy: Any) -> None:
        """Raise ``ValueError``: no policy plays against the agents."""
        raise ValueError(f"{self.spec.id} has no opponent that a policy could be.")
