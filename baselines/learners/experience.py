"""A game as rows for learners, and what all learners on torch have in common.

A row is one seat in one lane. Each model learns from the rows of its seats: of one seat if agents
learn independently, of all seats if they share parameters (lane by lane, the seat fastest).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coopbench.baselines.errors import Diverged
from coopbench.baselines.networks.perceptron import Network
from coopbench_envs.core import streams
from coopbench_envs.engine import SAME_STEP, Engine

if TYPE_CHECKING:
    import torch

__all__ = [
    "Moved",
    "RewardScale",
    "RowLearner",
    "Rows",
    "check_saved",
    "layer_sizes",
    "module_arrays",
    "optimiser_arrays",
    "origin",
    "part",
    "put_module",
    "put_optimiser",
    "torch_apart",
    "torch_seed",
    "under",
]

# Salts: training episodes and random numbers of a learner differ from those of all evaluations.
_EPISODES, _NUMBERS = 0x6C6561726E, 0x6E6F697365
_DEEPEST, _WIDEST = 4, 1024
_FRAMES = "past_frames"  # among the fields of a game's state
_ADAM = ("step", "exp_avg", "exp_avg_sq")


class Moved(NamedTuple):
    """What one step came to, for the rows of one model."""

    rewards: np.ndarray  # (rows,) float32
    done: np.ndarray  # (rows,) bool, the agent is terminated or its lane is over
    truncated: np.ndarray  # (rows,) bool, its lane is over by time alone: it is not terminated
    # (rows, inputs) float32, what was seen after the step: where the lane is over the last
    # observation of the old episode, not the first of the new one.
    following: np.ndarray
    valid: np.ndarray  # (rows,) bool, the agent was alive when it acted


class Rows:
    """``lanes`` games of one environment that begin anew as soon as they are over.

    Inputs of a row are its latest ``history`` observations, the last one first and scaled as
    ``centre`` and ``scale`` say, and behind them the one-hot number of its seat if models are
    shared by more than one. What lies before an episode is like its first observation. Arrays that
    are returned belong to the caller.
    """

    def __init__(
        self,
        env_id: str,
        parameters: Mapping[str, Any],
        seed: int,
        lanes: int,
        *,
        shared: bool,
        scaled: bool,
        history: int = 1,
    ) -> None:
        self.engine = Engine(env_id, lanes, **parameters)
        self.lanes, self.agents = lanes, len(self.engine.agents)
        self.discrete = self.engine.discrete
        # The model of every seat, and the seats of every model.
        self.seats = np.zeros(self.agents, np.int64) if shared else np.arange(self.agents)
        self.groups = [np.flatnonzero(self.seats == model) for model in np.unique(self.seats)]
        self.identity = shared and self.agents > 1
        self.centre, self.scale = _scaling(self.engine, scaled)
        self.history = history
        self.inputs = history * len(self.centre) + (self.agents if self.identity else 0)
        # What a model gives out: the numbers of an action, or one logit for every choice.
        shape = self.engine.control.masks.shape if self.discrete else self.engine.actions.shape
        self.outputs = int(shape[2])
        if not self.discrete:
            low, high = self.engine.action_bounds()
            self._low = low.astype(np.float64)
            self._range = high.astype(np.float64) - self._low
        seeds = streams(np.full(lanes, seed, np.uint64), np.arange(lanes), _EPISODES)
        self.engine.reset(seeds)
        self._frames = self._first(self.engine.control.obs)
        self._seen = self._inputs(self._frames, self.engine.control.alive)
        self._finished: list[tuple[np.ndarray, np.ndarray]] = []

    def observe(self) -> list[np.ndarray]:
        """Return the inputs of each model's rows, (rows, inputs) float32; zeros of dead agents."""
        return self._parts(self._seen)

    def legal(self) -> list[np.ndarray | None]:
        """Return each model's legal choices, (rows, choices) bool; None for Box actions.

        A row without any has all of them: whatever a dead agent chooses is ignored.
        """
        if not self.discrete:
            return [None] * len(self.groups)
        masks = self.engine.control.masks != 0
        masks |= ~masks.any(axis=2, keepdims=True) | ~self.engine.control.alive[:, :, None]
        return list(self._parts(masks))

    def step(self, actions: Sequence[np.ndarray]) -> list[Moved]:
        """Play one step in all lanes with each model's actions.

        These are (rows, numbers) floats, of which [-1, 1] covers the action range of the seat and
        what lies outside is clipped, or (rows,) integers. Raises ``Diverged`` for actions and
        rewards that are not finite.
        """
        engine, control = self.engine, self.engine.control
        alive, time = control.alive.copy(), engine.state.time.copy()
        engine.step(self._joint(actions), SAME_STEP)
        if not np.isfinite(control.rewards).all():
            raise Diverged("A reward is not finite.")
        over = control.ended | control.truncated
        before, self._frames = self._frames, self._next(control.obs, self._frames)
        if over.any():
            self._frames[over] = self._first(control.obs[over])
        self._seen = following = self._inputs(self._frames, control.alive)
        if over.any():
            following = following.copy()
            ended = self._next(engine.final_obs[over], before[over])
            following[over] = self._inputs(ended, alive[over])
            self._finished.append((engine.final_returns[over], time[over] + 1))
        done = control.terminated | over[:, None]
        truncated = control.truncated[:, None] & ~control.terminated
        found = (control.rewards.astype(np.float32), done, truncated, following, alive)
        return [Moved(*parts) for parts in zip(*map(self._parts, found), strict=True)]

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
        """Return the state of all games."""
        return self.engine.get_state() | {_FRAMES: self._frames.copy()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on from a saved state; ``ValueError`` if it is one of another game."""
        missing = [name for name in (*self.engine.fields, _FRAMES) if name not in arrays]
        if missing:
            raise ValueError(f"The state of {self.engine.spec.id} lacks {', '.join(missing)}.")
        self.engine.reset(state={name: arrays[name] for name in self.engine.fields})
        self._frames = arrays[_FRAMES].copy()
        self._seen = self._inputs(self._frames, self.engine.control.alive)
        self._finished = []

    def network(
        self, models: Sequence[Sequence["torch.nn.Linear"]], activation: str, head: str
    ) -> Network:
        """Return the linear layers of all models as data, with the scaling of their inputs."""
        layers = list(zip(*models, strict=True))
        return Network(
            seats=self.seats.copy(),
            weights=tuple(np.stack([_array(m.weight).T for m in layer]) for layer in layers),
            biases=tuple(np.stack([_array(m.bias) for m in layer]) for layer in layers),
            centre=np.tile(self.centre, self.history),
            scale=np.tile(self.scale, self.history),
            history=self.history,
            identity=self.identity,
            activation=activation,
            head=head,
        )

    def _joint(self, actions: Sequence[np.ndarray]) -> np.ndarray:
        joint = np.empty_like(self.engine.actions)
        for seats, given in zip(self.groups, actions, strict=True):
            joint[:, seats] = given.reshape(self.lanes, len(seats), *joint.shape[2:])
        if self.discrete:
            return joint
        if not np.isfinite(joint).all():
            raise Diverged("An action is not finite.")
        return self._low + (np.clip(joint, -1.0, 1.0) + 1.0) / 2.0 * self._range

    def _first(self, observations: np.ndarray) -> np.ndarray:
        """Frames at the begin of an episode, (lanes, agents, history, features), scaled."""
        scaled = (observations - self.centre) * self.scale
        return np.repeat(scaled[:, :, None], self.history, axis=2)

    def _next(self, observations: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """Frames after a step."""
        scaled = (observations - self.centre) * self.scale
        return np.concatenate([scaled[:, :, None], frames[:, :, :-1]], axis=2)

    def _inputs(self, frames: np.ndarray, alive: np.ndarray) -> np.ndarray:
        """Inputs of all seats, (lanes, agents, inputs)."""
        features = self.history * len(self.centre)
        inputs = np.empty((*alive.shape, self.inputs), np.float32)
        inputs[:, :, :features] = frames.reshape(*alive.shape, features)
        if self.identity:
            inputs[:, :, features:] = np.eye(self.agents, dtype=np.float32)
        if not alive.all():
            inputs[~alive] = 0.0
        return inputs

    def _parts(self, values: np.ndarray) -> list[np.ndarray]:
        """Rows of each model, copied from an array (lanes, agents, ...)."""
        return [values[:, seats].reshape(-1, *values.shape[2:]) for seats in self.groups]


class RowLearner:
    """What learners on the rows of a game have in common; ``advance`` is their own.

    A name that ends in "_shared" means one model for all seats. Of the hyperparameters ``lanes``,
    ``history`` and ``scale_observations`` are read here.
    """

    def __init__(
        self, name: str, env_id: str, parameters: Mapping[str, Any], seed: int, given: Any
    ) -> None:
        self.name, self.seed, self.steps, self._given = name, seed, 0, given
        self._rows = Rows(
            env_id,
            parameters,
            seed,
            given.lanes,
            shared=name.endswith("_shared"),
            scaled=given.scale_observations,
            history=given.history,
        )
        self._numbers = torch_seed(seed)

    def learn(self, steps: int) -> dict[str, float]:
        """Train up to ``steps`` steps of the environment, counted from the beginning.

        Returns means of what happened since the last call. Raises ``Diverged``, and ``ValueError``
        if not even one step of all lanes fits in.
        """
        lanes = self._given.lanes
        if steps < lanes:
            raise ValueError(
                f"Learner {self.name!r} was asked for {steps} steps, but one step of its {lanes} "
                f"lanes counts as {lanes}; ask for more steps, or set lanes to at most {steps}."
            )
        found: list[dict[str, float]] = []
        with torch_apart(self._numbers):
            while self.steps + lanes <= steps:
                try:
                    found += self.advance()
                except Diverged as error:
                    raise Diverged(
                        f"Learner {self.name!r} on {self._rows.engine.spec.id} diverged at step "
                        f"{self.steps:,}: {error} A smaller learning_rate, or scale_rewards, may "
                        f"help."
                    ) from None
        return self._rows.tally() | _means(found)

    def advance(self) -> list[dict[str, float]]:
        """Play one step in all lanes, and learn when it is time; return what is to be reported.

        ``self.steps`` grows by the number of lanes.
        """
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Return what a policy says of where it comes from."""
        return {
            "environment": self._rows.engine.spec.id,
            "learner": self.name,
            "seed": self.seed,
            "steps": self.steps,
            "hyperparameters": self._given._asdict(),
        }


def _means(found: list[dict[str, float]]) -> dict[str, float]:
    """Mean of every name over those that have it."""
    names = dict.fromkeys(name for each in found for name in each)
    return {name: float(np.mean([each[name] for each in found if name in each])) for name in names}


def _scaling(engine: Engine, scaled: bool) -> tuple[np.ndarray, np.ndarray]:
    """Centre and scale that bring features into [-1, 1] where the game says how large they get."""
    low = np.min([space.low for space in engine.observation_spaces], axis=0).astype(np.float64)
    high = np.max([space.high for space in engine.observation_spaces], axis=0).astype(np.float64)
    centre, scale = np.zeros(len(low), np.float32), np.ones(len(low), np.float32)
    known = np.isfinite(low) & np.isfinite(high) & (low < high) & scaled
    centre[known] = (low[known] + high[known]) / 2.0
    scale[known] = 2.0 / (high[known] - low[known])
    return centre, scale


class RewardScale:
    """Divides rewards by the running standard deviation of their discounted sums."""

    def __init__(self, rows: int, gamma: float) -> None:
        self._gamma = gamma
        self._sums = np.zeros(rows)
        self._moments = np.zeros(3)  # count, mean, sum of squared differences from it

    def __call__(self, moved: Moved) -> np.ndarray:
        """Take in the rewards of a step and return them scaled, (rows,) float32."""
        self._sums = self._gamma * self._sums + moved.rewards
        self._add(self._sums[moved.valid])
        self._sums[moved.done] = 0.0
        return moved.rewards / np.float32(self.deviation)

    @property
    def deviation(self) -> float:
        """What rewards are divided by; 1 until two different sums have been seen."""
        count, _, squares = self._moments
        return float(np.sqrt(squares / count)) if squares > 0.0 else 1.0

    def save(self) -> dict[str, np.ndarray]:
        """Return all numbers."""
        return {"sums": self._sums.copy(), "moments": self._moments.copy()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on from saved numbers."""
        self._sums, self._moments = arrays["sums"].copy(), arrays["moments"].copy()

    def _add(self, values: np.ndarray) -> None:
        """Merge the moments of ``values`` into the running ones (Chan, Golub & LeVeque 1979)."""
        if not len(values):
            return
        count, mean = self._moments[:2]
        total, apart = count + len(values), values.mean() - mean
        self._moments[0] = total
        self._moments[1] += apart * len(values) / total
        self._moments[2] += ((values - values.mean()) ** 2).sum()
        self._moments[2] += apart**2 * count * len(values) / total


def layer_sizes(text: str) -> list[int]:
    """Read the widths of hidden layers, for instance "128x128"; ``ValueError`` if it is no such."""
    parts = text.split("x")
    widths = [int(part) if part.isascii() and part.isdigit() else 0 for part in parts]
    if len(widths) > _DEEPEST or not all(1 <= width <= _WIDEST for width in widths):
        raise ValueError(
            f"Parameter 'layers' was {text!r}; allowed: 1 to {_DEEPEST} widths of 1 to {_WIDEST} "
            f"with x between them, for instance '64x64'."
        )
    return widths


# -- torch ---------------------------------------------------------------------------------------


def torch_seed(seed: int) -> np.ndarray:
    """Return the state of torch's random numbers that a training begins with."""
    import torch

    mixed = int(streams(np.array([seed], np.uint64), 0, _NUMBERS)[0])
    return torch.Generator().manual_seed(mixed).get_state().numpy()


@contextmanager
def torch_apart(state: np.ndarray) -> Iterator[None]:
    """Use torch with one thread and own random numbers, and leave it as it was found.

    ``state`` is where the random numbers go on from; it is written to at the end. Distributions do
    not check their arguments meanwhile: learners find out themselves what is not finite.
    """
    import torch
    from torch.distributions import Distribution

    threads, checked = torch.get_num_threads(), Distribution._validate_args
    torch.set_num_threads(1)
    Distribution.set_default_validate_args(False)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(torch.from_numpy(state.copy()))
            yield
            state[:] = torch.get_rng_state().numpy()
    finally:
        torch.set_num_threads(threads)
        Distribution.set_default_validate_args(checked)


def _array(tensor: "torch.Tensor") -> np.ndarray:
    return tensor.detach().cpu().numpy().copy()


def module_arrays(module: "torch.nn.Module") -> dict[str, np.ndarray]:
    """Return parameters and buffers of a module by name."""
    return {name: _array(tensor) for name, tensor in module.state_dict().items()}


def put_module(module: "torch.nn.Module", arrays: Mapping[str, np.ndarray]) -> None:
    """Write saved arrays into a module."""
    import torch

    module.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})


def optimiser_arrays(optimiser: "torch.optim.Optimizer") -> dict[str, np.ndarray]:
    """Return what Adam remembers of every parameter, as ``number.name``; zeros before it begins."""
    arrays = {}
    for number, parameter in enumerate(_parameters(optimiser)):
        kept = optimiser.state.get(parameter)
        for name in _ADAM:
            shape = () if name == "step" else tuple(parameter.shape)
            arrays[f"{number}.{name}"] = _array(kept[name]) if kept else np.zeros(shape, np.float32)
    return arrays


def put_optimiser(optimiser: "torch.optim.Optimizer", arrays: Mapping[str, np.ndarray]) -> None:
    """Make Adam remember what was saved."""
    import torch

    for number, parameter in enumerate(_parameters(optimiser)):
        kept = {name: torch.tensor(arrays[f"{number}.{name}"]) for name in _ADAM}
        optimiser.state[parameter] = kept


def _parameters(optimiser: "torch.optim.Optimizer") -> list["torch.Tensor"]:
    return [parameter for group in optimiser.param_groups for parameter in group["params"]]


# -- what learners save --------------------------------------------------------------------------


def under(name: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return arrays with ``name.`` before their names, as parts of a larger whole."""
    return {f"{name}.{key}": array for key, array in arrays.items()}


def part(arrays: Mapping[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """Return what ``under`` has put there."""
    start = f"{name}."
    return {k.removeprefix(start): array for k, array in arrays.items() if k.startswith(start)}


def origin(learner: str, game: Rows, seed: int, hyperparameters: Any) -> np.ndarray:
    """Return whose training it is as bytes of a text, uint8: learner, game, seed, and how."""
    text = f"{learner} on {game.engine.spec.id} {game.engine.parameters}, seed {seed}, with "
    return np.frombuffer(f"{text}{hyperparameters}".encode(), np.uint8).copy()


def check_saved(
    arrays: Mapping[str, np.ndarray], own: Mapping[str, np.ndarray], learner: str
) -> None:
    """Raise ``ValueError`` unless ``arrays`` may be put in the place of a learner's ``own``.

    They must have the same names, shapes and types, and "origin" the same content.
    """
    found, wanted = (bytes(each.get("origin", b"")).decode() for each in (arrays, own))
    if found != wanted:
        raise ValueError(
            f"What was saved does not fit {learner}: it is of {found or 'nobody known'}; allowed: "
            f"{wanted}."
        )
    for name in sorted({*arrays, *own}):
        there, here = (
            f"{each[name].dtype} {each[name].shape}" if name in each else "absent"
            for each in (arrays, own)
        )
        if there != here:
            raise ValueError(
                f"What was saved does not fit {learner}: {name!r} is {there}; allowed: {here}."
            )
