"""A game for learners: what networks get, and the results of steps, of all seats of all lanes.

A row is one seat in one lane. Each model learns from the rows of its seats: of one seat if agents
learn independently, of all seats if they share parameters (lane by lane, the seat fastest).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from gymnasium.spaces import Box

from coopbench.baselines.errors import Diverged
from coopbench.baselines.learner import Training
from coopbench.baselines.learners.beside import Beside
from coopbench.baselines.learners.checkpoint import part, under
from coopbench.baselines.learners.hyperparameters import TERMINAL
from coopbench.baselines.networks.network import Layer, Network, encoded
from coopbench_envs.core import streams
from coopbench_envs.engine import SAME_STEP
from coopbench_envs.lanes import Lanes, lanes_of

__all__ = ["Rows", "Transition", "scaling"]

# Salt: training episodes differ from those of all evaluations.
_EPISODES = 0x6C6561726E
_FRAMES, _PARTNERS = "past_frames", "partners"  # among the fields of a game's state


class Transition(NamedTuple):
    """Result of one step in all lanes: of rows (lanes, agents, ...), then of whole lanes.

    Where a lane is over, what is seen after the step is the end of the old episode, not the
    beginning of the new one. No lane is over by time alone if ``time_limit`` is "terminal".
    """

    rewards: np.ndarray  # float32
    done: np.ndarray  # bool, the agent is terminated or its lane is over
    truncated: np.ndarray  # bool, its lane is over by time alone: it is not terminated
    following: np.ndarray  # (lanes, agents, inputs) float32, observed after the step
    # bool, the agent was alive when it acted, and no partner had its seat: no actor learns from
    # other rows.
    valid: np.ndarray
    # (lanes, agents, choices) bool, legal after the step; none for Box actions. A row without any
    # legal choice, or of a dead agent, has all of them.
    legal: np.ndarray
    over: np.ndarray  # (lanes,) bool, the episode is over: the next observation is of a new one
    by_time: np.ndarray  # (lanes,) bool, it is over by time alone: some agent is not terminated
    state: np.ndarray  # (lanes, size) float32, global state after the step; empty unless asked for
    alive: np.ndarray  # (lanes, agents) bool, who is alive after the step


class Rows:
    """The games of a training, all lanes at once, which restart as soon as they are over.

    A name that ends in "_shared" means one model for all seats, and so do partners. Of the
    hyperparameters ``lanes``, ``scale_observations`` and ``seat_number`` are read here, and
    ``blind``, ``history``, ``reward``, ``partners`` and ``time_limit`` of learners that have them.

    Inputs of a row are its latest ``history`` observations, the last one first and scaled as
    ``centre`` and ``scale`` say, and behind them the one-hot number of its seat if a model is
    shared by more than one and ``seat_number`` is True; see ``networks.network.encoded``. Before an
    episode's first observation its history is filled with that one. Arrays that are returned are
    (lanes, agents, ...) and new ones each time; ``cut`` cuts them into rows of each model.

    Sequences are cut where ``first`` is True: from there on ``observe``, ``legal`` and ``state``
    are those of a new episode, while ``step`` returns the end of the old one.
    """

    def __init__(self, training: Training, *, global_state: bool = False) -> None:
        params, partners = training.params, getattr(training.params, "partners", ())
        # Beside partners there is one seat in a game to learn from: a model for each of n seats
        # would learn from every n-th episode alone.
        shared = training.learner.endswith("_shared") or bool(partners)
        self.lanes: int = params.lanes
        game = training.env_id, self.lanes
        self.engine: Lanes = lanes_of(*game, global_state=global_state, **training.parameters)
        self.agents = len(self.engine.agents)
        self.discrete = self.engine.discrete
        # The model of every seat, and the seats of every model.
        seats = np.arange(self.agents)
        self.seats = np.zeros_like(seats) if shared else seats
        self.groups = [np.flatnonzero(self.seats == model) for model in np.unique(self.seats)]
        self.identity = shared and params.seat_number and self.agents > 1
        self._any_number = shared and not params.seat_number
        self._team_reward = getattr(params, "reward", "own") == "team"
        self._terminal = getattr(params, "time_limit", "bootstrap") == TERMINAL
        spaces = self.engine.observation_spaces
        self.centre, self.scale = scaling(spaces, scaled=params.scale_observations)
        if getattr(params, "blind", False):
            self.scale = np.zeros_like(self.scale)
        self.history: int = getattr(params, "history", 1)
        self.centre, self.scale = (np.tile(v, self.history) for v in (self.centre, self.scale))
        self.inputs = len(self.centre) + (self.agents if self.identity else 0)
        # Outputs of a model: the numbers of an action, or one logit for every choice.
        shape = self.engine.control.masks.shape if self.discrete else self.engine.actions.shape
        self.outputs = int(shape[2])
        if not self.discrete:
            low, high = self.engine.action_bounds()
            self._low = low.astype(np.float64)
            self._range = high.astype(np.float64) - self._low
        seeds = np.full(self.lanes, training.seed, np.uint64)
        self.engine.reset(streams(seeds, np.arange(self.lanes), _EPISODES))
        self._beside: Beside | None = None
        if partners:
            self._beside = Beside(self.engine, partners)
            self._beside.begin(np.ones(self.lanes, np.bool_))
        self._frames = self._first(self.engine.control.obs)
        self._seen = self._inputs(self._frames, self.engine.control.alive)
        self._finished: list[tuple[np.ndarray, np.ndarray]] = []

    def observe(self) -> np.ndarray:
        """Return the inputs of all rows, (lanes, agents, inputs) float32; zeros of dead agents."""
        return self._seen.copy()

    def legal(self) -> np.ndarray:
        """Return legal choices, (lanes, agents, choices) bool; of no choices for Box actions.

        A row without any has all of them: the choice of a dead agent is ignored.
        """
        return self._legal(self.engine.control.masks, self.engine.control.alive)

    def state(self) -> np.ndarray:
        """Return the global state of every lane, (lanes, size) float32; empty unless asked for."""
        return self.engine.control.state.copy()

    @property
    def first(self) -> np.ndarray:
        """Return where an episode begins with the present observation, (lanes,) bool."""
        begins: np.ndarray = self.engine.state.time == 0
        return begins

    def step(self, actions: np.ndarray) -> Transition:
        """Play one step in all lanes.

        Actions are (lanes, agents, numbers) floats, of which [-1, 1] covers the action range of the
        seat and what lies outside is clipped, or (lanes, agents) integers. Raises ``Diverged`` for
        actions and rewards that are not finite.
        """
        engine, control = self.engine, self.engine.control
        alive, time = control.alive.copy(), engine.state.time.copy()
        joint, learning = self._in_units(actions), self.learning()
        if self._beside is not None:
            self._beside.act(joint)
        engine.step(joint, SAME_STEP)
        if not np.isfinite(control.rewards).all():
            raise Diverged("A reward is not finite.")
        over = control.ended | control.truncated
        following = self._advance(over, alive)
        if over.any():
            returns = engine.finals.returns[over][learning[over]]
            self._finished.append((returns, time[over] + 1))
            if self._beside is not None:
                self._beside.begin(over)
        state = control.state.copy()
        state[over] = engine.finals.state[over]
        by_time = control.truncated & (not self._terminal)
        alive_after, masks = control.alive.copy(), control.masks
        if over.any():
            alive_after[over] = engine.finals.alive[over]
            masks = np.where(over[:, None, None], engine.finals.masks, masks)
        return Transition(
            rewards=self._rewards(),
            done=control.terminated | over[:, None],
            truncated=by_time[:, None] & ~control.terminated,
            following=following,
            valid=alive & learning,
            legal=self._legal(masks, alive_after),
            over=over,
            by_time=by_time & ~control.ended,
            state=state,
            alive=alive_after,
        )

    def played(self) -> np.ndarray:
        """Return what everybody did in the latest step, partners too, (lanes, agents, outputs).

        These are numbers in [-1, 1], the action range of each seat, or choices as one-hot vectors.
        """
        actions = self.engine.actions
        if self.discrete:
            one_hot: np.ndarray = np.eye(self.outputs, dtype=np.float32)
            chosen: np.ndarray = one_hot[np.clip(actions, 0, self.outputs - 1)]
            return chosen
        span = np.where(self._range > 0.0, self._range, 1.0)
        units: np.ndarray = (2.0 * (actions - self._low) / span - 1.0).astype(np.float32)
        return units

    def learning(self) -> np.ndarray:
        """Return the seats that the learner now has, (lanes, agents) bool."""
        if self._beside is None:
            return np.ones((self.lanes, self.agents), np.bool_)
        return self._beside.learning

    def _rewards(self) -> np.ndarray:
        """Return the rewards of the step just played, (lanes, agents) float32."""
        rewards = self.engine.control.rewards
        if self._team_reward:
            rewards = np.broadcast_to(rewards.mean(axis=1, keepdims=True), rewards.shape)
        return rewards.astype(np.float32)

    def _advance(self, over: np.ndarray, alive: np.ndarray) -> np.ndarray:
        """Take in new observations; return all inputs after the step, (lanes, agents, inputs).

        ``alive`` are the agents that acted. Agents that are terminated for good keep their last
        observation in what is returned; those that have only fallen have none.
        """
        engine, control = self.engine, self.engine.control
        before, self._frames = self._frames, self._next(control.obs, self._frames)
        if over.any():
            self._frames[over] = self._first(control.obs[over])
        self._seen = self._inputs(self._frames, control.alive)
        following = self._seen.copy()
        if over.any():
            ended = self._next(engine.finals.obs[over], before[over])
            seeing = engine.finals.alive if engine.falling else alive
            following[over] = self._inputs(ended, seeing[over])
        return following

    def _legal(self, masks: np.ndarray, alive: np.ndarray) -> np.ndarray:
        """Return masks as bool, with all choices where there is none or the agent is dead."""
        if not self.discrete:
            return np.ones((self.lanes, self.agents, 0), np.bool_)
        legal: np.ndarray = masks != 0
        legal |= ~legal.any(axis=2, keepdims=True) | ~alive[:, :, None]
        return legal

    def tally(self) -> dict[str, float]:
        """Return mean own return and length of the episodes finished since the last call."""
        finished, self._finished = self._finished, []
        if not finished:
            return {}
        returns, lengths = (np.concatenate(part) for part in zip(*finished, strict=True))
        return {
            "episode_return": float(returns.mean()),
            "episode_length": float(lengths.mean()),
        }

    def save(self) -> dict[str, np.ndarray]:
        """Return the state of all games, and what partners remember."""
        partners = {} if self._beside is None else under(_PARTNERS, self._beside.save())
        return self.engine.get_state() | {_FRAMES: self._frames.copy()} | partners

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what ``save`` has returned."""
        self.engine.reset(state={name: arrays[name] for name in self.engine.fields})
        if self._beside is not None:
            self._beside.load(part(arrays, _PARTNERS))
        self._frames = arrays[_FRAMES].copy()
        self._seen = self._inputs(self._frames, self.engine.control.alive)
        self._finished = []

    def network(
        self, layers: tuple[Layer, ...], activation: str, head: str, *, last_action: bool = False
    ) -> Network:
        """Return layers of all models as data, with what their inputs are."""
        return Network(
            seats=np.zeros(0, np.int64) if self._any_number else self.seats.copy(),
            layers=layers,
            centre=self.centre.copy(),
            scale=self.scale.copy(),
            identity=self.identity,
            activation=activation,
            head=head,
            history=self.history,
            last_action=last_action,
        )

    def _in_units(self, actions: np.ndarray) -> np.ndarray:
        """Return a copy of actions in the units of the engine."""
        joint = actions.astype(self.engine.actions.dtype)
        if self.discrete:
            return joint
        if not np.isfinite(joint).all():
            raise Diverged("An action is not finite.")
        units: np.ndarray = self._low + (np.clip(joint, -1.0, 1.0) + 1.0) / 2.0 * self._range
        return units

    def _first(self, observations: np.ndarray) -> np.ndarray:
        """Return frames at the start of episodes, (lanes, agents, history, features)."""
        return np.repeat(observations[:, :, None], self.history, axis=2)

    def _next(self, observations: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """Return frames after a step."""
        return np.concatenate([observations[:, :, None], frames[:, :, :-1]], axis=2)

    def _inputs(self, frames: np.ndarray, alive: np.ndarray) -> np.ndarray:
        """Return the inputs of all seats, (lanes, agents, inputs)."""
        numbers = np.eye(self.agents, dtype=np.float32)
        behind = [np.broadcast_to(numbers, (len(frames), *numbers.shape))] if self.identity else []
        inputs = encoded(frames, self.centre, self.scale, behind)
        if not alive.all():
            inputs[~alive] = 0.0
        return inputs

    def whole(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return the rows of all models as one array (lanes, agents, ...), as ``cut`` cuts it."""
        joint = np.empty((self.lanes, self.agents, *parts[0].shape[1:]), parts[0].dtype)
        for seats, rows in zip(self.groups, parts, strict=True):
            joint[:, seats] = rows.reshape(self.lanes, len(seats), *rows.shape[1:])
        return joint

    def cut(self, values: np.ndarray) -> list[np.ndarray]:
        """Return the rows of each model, copied from an array (lanes, agents, ...)."""
        lanes, rest = len(values), values.shape[2:]
        return [values[:, seats].reshape(lanes * len(seats), *rest) for seats in self.groups]


def scaling(spaces: Sequence[Box], *, scaled: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return centre and scale that bring features with finite bounds into [-1, 1].

    The bounds are those of all ``spaces`` together. Unless ``scaled`` nothing is changed by them.
    """
    low = np.min([space.low for space in spaces], axis=0).astype(np.float64)
    high = np.max([space.high for space in spaces], axis=0).astype(np.float64)
    centre, scale = np.zeros(len(low), np.float32), np.ones(len(low), np.float32)
    bounded = np.isfinite(low) & np.isfinite(high) & (low < high) & scaled
    centre[bounded] = (low[bounded] + high[bounded]) / 2.0
    scale[bounded] = 2.0 / (high[bounded] - low[bounded])
    return centre, scale
