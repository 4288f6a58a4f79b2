"""Independent SAC (Haarnoja et al. 2018): each agent learns for itself, from a replay buffer.

The update is that of Stable-Baselines3. Games are played here, all lanes at once, because in them
agents can die and each agent has its own reward. Actions are continuous.
"""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import SAC
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from torch.nn.utils import parameters_to_vector

from coopbench.baselines.errors import Diverged
from coopbench.baselines.learner import (
    LATER,
    TERMINAL,
    LearnerEntry,
    Partners,
    Reward,
    SeatNumber,
    Share,
    TimeLimit,
)
from coopbench.baselines.learners.actors import linear_layers
from coopbench.baselines.learners.checkpoint import part, under
from coopbench.baselines.learners.experience import Rows, Transition
from coopbench.baselines.learners.row_learner import RewardScale, RowLearner
from coopbench.baselines.learners.torch_tools import (
    layer_sizes,
    module_arrays,
    optimiser_arrays,
    put_module,
    put_optimiser,
    torch_apart,
)
from coopbench.baselines.networks.network import ACTIVATIONS, NetworkPolicy
from coopbench_envs.arrays import LIMIT
from coopbench_envs.parameters import Allowed, between, one_of

# What Stable-Baselines3 reports of an update, and the names it has here.
_REPORTED = {
    "train/actor_loss": "actor_loss",
    "train/critic_loss": "critic_loss",
    "train/ent_coef": "entropy_coefficient",
}
_MANY = 10**9


LEARNERS = {
    "isac": "soft actor-critic, separate networks and replay memory for each agent",
    "isac_shared": "soft actor-critic, shared networks and replay memory for all agents",
}


class Params(NamedTuple):
    """Hyperparameters; steps are those of the environment, all lanes together.

    With the defaults 200,000 steps of a game of two take one to two minutes of one core.
    """

    learning_rate: Annotated[float, between(0, 1, "step size of Adam", above=True)] = 3e-4
    lanes: Annotated[int, between(1, 4096, "games played at once")] = 8
    buffer_size: Annotated[int, between(1, _MANY, "rows in the replay memory")] = 100_000
    batch_size: Annotated[int, between(1, 65_536, "rows of a gradient step")] = 256
    warmup: Annotated[int, between(0, _MANY, "initial random steps without updates")] = 1000
    train_every: Annotated[int, between(1, _MANY, "steps between updates")] = 64
    updates: Annotated[int, between(1, 10_000, "gradient steps per update of a model")] = 3
    gamma: Annotated[float, between(0, 1, "discount factor")] = 0.99
    tau: Annotated[float, between(0, 1, "update rate of target networks", above=True)] = 0.005
    entropy: Annotated[float, between(0, 1e9, "initial weight of the entropy")] = 1.0
    adapt_entropy: Annotated[bool, Allowed("adapt it to -1 nat per action dimension")] = True
    layers: Annotated[str, Allowed("widths of the hidden layers")] = "64x64"
    activation: Annotated[str, one_of(ACTIVATIONS, "activation of hidden layers")] = "relu"
    history: Annotated[int, between(1, 64, "observations that a network gets")] = 1
    scale_observations: Annotated[bool, Allowed("scale bounded features to [-1, 1]")] = True
    scale_rewards: Annotated[bool, Allowed("divide by the std of rewards")] = True
    time_limit: Annotated[TimeLimit, LATER] = "bootstrap"
    seat_number: SeatNumber = True
    reward: Reward = "own"
    partners: Partners = ()
    share: Share = 0.0


class Replay:
    """Replay buffer of a model: its latest rows, in a ring, from which SB3 samples.

    Rows of terminated agents have no future. All others keep the last observation of the episode,
    and have a value there unless ``terminal`` says that an end by time alone is one of the game.
    """

    def __init__(self, size: int, inputs: int, outputs: int, *, terminal: bool = False) -> None:
        # Inputs, actions, next inputs, terminated, reward: in one array a sample is one gather
        # operation instead of five. It is torch's, because the bits of a product may depend on
        # where in memory a matrix begins, and torch always aligns them to the same boundaries.
        self._columns = [inputs, outputs, inputs, 1, 1]
        self._table = torch.zeros(size, sum(self._columns))
        self._added = 0  # rows, including those that were overwritten
        self._terminal = terminal
        self.unit = 1.0  # divisor of sampled rewards

    def __len__(self) -> int:
        return min(self._added, len(self._table))

    def add(self, inputs: np.ndarray, actions: np.ndarray, step: Transition) -> None:
        """Store a step, except for rows of agents that were dead before it."""
        ended = step.done & (~step.truncated | self._terminal)
        ends = np.stack([ended, step.rewards], axis=1)
        rows = np.concatenate([inputs, actions, step.following, ends], axis=1)[step.valid]
        places = (self._added + np.arange(len(rows))) % len(self._table)
        self._table[torch.from_numpy(places)] = torch.from_numpy(rows)
        self._added += len(rows)

    def sample(self, batch_size: int, env: None = None) -> Any:
        """Sample rows uniformly, with replacement."""
        drawn = self._table[torch.randint(len(self), (batch_size,))]
        drawn[:, -1] /= self.unit
        return ReplayBufferSamples(*torch.split(drawn, self._columns, dim=1))

    def save(self) -> dict[str, np.ndarray]:
        """Return all stored rows, not copied, and how many were ever added."""
        return {"table": self._table[: len(self)].numpy(), "added": np.array(self._added)}

    def empty(self, added: int) -> dict[str, np.ndarray]:
        """Return arrays like those of ``save`` after ``added`` rows, filled with zeros."""
        rows = min(added, len(self._table))
        table = np.zeros((rows, self._table.shape[1]), np.float32)
        return {"table": table, "added": np.array(added)}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore the saved rows."""
        self._added = int(arrays["added"])
        self._table[: len(self)] = torch.from_numpy(arrays["table"])


class ISAC(RowLearner):
    """SAC for all seats of a game, with a model per agent or one that all agents share."""

    def __init__(
        self, name: str, env_id: str, parameters: Mapping[str, Any], seed: int, params: Params
    ) -> None:
        super().__init__(name, env_id, parameters, seed, params)
        _check(params, self._rows, name)
        sizes = [params.lanes * len(group) for group in self._rows.groups]
        shape = self._rows.inputs, self._rows.outputs
        self._scales = [RewardScale(size, 0.0) for size in sizes]  # of rewards, not of their sums
        terminal = params.time_limit == TERMINAL
        self._replays = [Replay(params.buffer_size, *shape, terminal=terminal) for _ in sizes]
        with torch_apart(self._numbers):
            self._models = [_model(params, *shape) for _ in sizes]
        for model, replay in zip(self._models, self._replays, strict=True):
            model.replay_buffer = replay

    def policy(self) -> NetworkPolicy:
        """Return the means of the actors' actions as a network."""
        layers = []
        for model in self._models:
            parts = model.actor.latent_pi
            hidden = [part for part in parts if isinstance(part, torch.nn.Linear)]
            layers.append([*hidden, model.actor.mu])
        network = self._rows.network(linear_layers(layers), self._params.activation, "tanh")
        return NetworkPolicy(network, self.facts())

    def save(self) -> dict[str, np.ndarray]:
        """Return everything that training needs to continue, including the replay buffers."""
        arrays = {
            "origin": self.origin(),
            "steps": np.array(self.steps),
            "numbers": self._numbers.copy(),
        }
        arrays |= under("game", self._rows.save())
        for k, model in enumerate(self._models):
            arrays |= under(f"model.{k}", module_arrays(model.policy))
            for name, optimiser in _optimisers(model).items():
                arrays |= under(f"{name}.{k}", optimiser_arrays(optimiser))
            if model.log_ent_coef is not None:
                arrays[f"log_entropy.{k}"] = model.log_ent_coef.detach().numpy().copy()
            arrays |= under(f"replay.{k}", self._replays[k].save())
            arrays |= under(f"rewards.{k}", self._scales[k].save())
        return arrays

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from a saved state; ``ValueError`` if it is one of another training."""
        current = self.save()
        for k, replay in enumerate(self._replays):  # sizes follow from the rows added
            added = np.max(arrays.get(f"replay.{k}.added", 0), initial=0)
            current |= under(f"replay.{k}", replay.empty(int(added)))
        self.check_saved(arrays, current)
        self._rows.load(part(arrays, "game"))
        for k, model in enumerate(self._models):
            put_module(model.policy, part(arrays, f"model.{k}"))
            for name, optimiser in _optimisers(model).items():
                put_optimiser(optimiser, part(arrays, f"{name}.{k}"))
            if model.log_ent_coef is not None:
                with torch.no_grad():
                    model.log_ent_coef.copy_(torch.tensor(arrays[f"log_entropy.{k}"]))
            self._replays[k].load(part(arrays, f"replay.{k}"))
            self._scales[k].load(part(arrays, f"rewards.{k}"))
        self._numbers[:] = arrays["numbers"]
        self.steps = int(arrays["steps"])

    def advance(self) -> list[dict[str, float]]:
        """Play one step in all lanes, and update all models when it is time."""
        self._play()
        params = self._params
        if self.steps <= params.warmup or self.steps % params.train_every:
            return []
        return [self._update(k) for k in range(len(self._models))]

    def _play(self) -> None:
        """Play one step in all lanes and store it."""
        params, rows, actions = self._params, self._rows, []
        seen = rows.parts(rows.observe())
        with torch.no_grad():
            for inputs, model in zip(seen, self._models, strict=True):
                if self.steps < params.warmup:
                    chosen = 2.0 * torch.rand(len(inputs), self._rows.outputs) - 1.0
                else:
                    chosen = model.actor(torch.from_numpy(inputs).clone())
                actions.append(chosen.numpy())
        for k, step in enumerate(rows.transitions(rows.step(rows.whole(actions)))):
            self._replays[k].add(seen[k], actions[k], step)
            if params.scale_rewards:
                self._scales[k](step)
        self.steps += params.lanes

    def _update(self, k: int) -> dict[str, float]:
        """Update a model from its replay buffer; return its report."""
        model = self._models[k]
        if self._params.scale_rewards:
            self._replays[k].unit = self._scales[k].deviation
        model.train(self._params.updates, self._params.batch_size)
        report = {name: float(model.logger.name_to_value[key]) for key, name in _REPORTED.items()}
        for name, value in report.items():
            if not np.isfinite(value):
                raise Diverged(f"The {name} is not finite.")
        if not parameters_to_vector(model.policy.parameters()).isfinite().all():
            raise Diverged("A parameter is not finite.")
        return report


def _check(params: Params, game: Rows, name: str) -> None:
    """Raise ``ValueError`` for a game that SAC cannot learn, or numbers that do not fit."""
    env_id = game.engine.spec.id
    if game.discrete:
        raise ValueError(
            f"Learner {name!r} learns continuous actions, but those of {env_id} are choices; "
            f"learners of these are ippo, mappo, maddpg, and iql, vdn, qmix, qtran and coma, which "
            f"learn from whole episodes."
        )
    if params.train_every % params.lanes:
        raise ValueError(
            f"train_every was {params.train_every} and lanes {params.lanes}; allowed: a "
            f"train_every that is a multiple of lanes."
        )
    if params.adapt_entropy and params.entropy == 0.0:
        raise ValueError(
            "entropy was 0.0 and adapt_entropy True; allowed: an entropy > 0 to begin with, or "
            "adapt_entropy False."
        )
    rows = params.lanes * max(map(len, game.groups))
    if params.buffer_size < max(params.batch_size, rows):
        raise ValueError(
            f"buffer_size was {params.buffer_size}, batch_size {params.batch_size}, and a step has "
            f"{rows} rows; allowed: a buffer_size that is not less than either."
        )
    size = 4 * len(game.groups) * (2 * game.inputs + game.outputs + 2)  # bytes of a row per model
    if params.buffer_size * size > LIMIT // 2:
        raise ValueError(
            f"buffer_size was {params.buffer_size}, too much to be saved: rows of all models in "
            f"{env_id} take up {size} bytes together; allowed: up to {LIMIT // 2 // size}."
        )


def _model(params: Params, inputs: int, outputs: int) -> Any:
    """Make Stable-Baselines3's SAC for rows of a game, without an environment."""
    model = SAC(
        "MlpPolicy",
        None,
        learning_rate=params.learning_rate,
        buffer_size=1,  # of a buffer that is not used
        batch_size=params.batch_size,
        tau=params.tau,
        gamma=params.gamma,
        ent_coef=f"auto_{params.entropy}" if params.adapt_entropy else params.entropy,
        target_entropy=-float(outputs),
        device="cpu",
        policy_kwargs={
            "net_arch": layer_sizes(params.layers),
            "activation_fn": torch.nn.Tanh if params.activation == "tanh" else torch.nn.ReLU,
            "optimizer_kwargs": {"fused": True},
        },
        _init_setup_model=False,
    )
    model.n_envs = 1
    model.observation_space = gym.spaces.Box(-np.inf, np.inf, (inputs,), np.float32)
    model.action_space = gym.spaces.Box(-1.0, 1.0, (outputs,), np.float32)
    model._setup_model()
    model.set_logger(Logger(None, []))
    return model


def _optimisers(model: Any) -> dict[str, torch.optim.Optimizer]:
    """Return all optimisers of a model, by name."""
    optimisers = {"actor": model.actor.optimizer, "critic": model.critic.optimizer}
    if model.ent_coef_optimizer is not None:
        optimisers["entropy"] = model.ent_coef_optimizer
    return optimisers


def entry(name: str) -> LearnerEntry:
    """Return the registry's entry of a variant."""

    def create(env_id: str, parameters: Mapping[str, Any], seed: int, params: Params) -> ISAC:
        return ISAC(name, env_id, parameters, seed, params)

    return LearnerEntry(
        name, create, LEARNERS[name], "off_policy", Params, _shortened, _first_update
    )


def _first_update(params: Params) -> int:
    """Return the steps after which the first update takes place."""
    return (params.warmup // params.train_every + 1) * params.train_every


def _shortened(params: Params, steps: int) -> Params:
    """Change hyperparameters so that at least one update fits into ``steps``."""
    lanes = min(params.lanes, max(1, steps // 8))
    train_every = max(lanes, min(params.train_every, steps // 4) // lanes * lanes)
    warmup = min(params.warmup, steps // 2)
    return params._replace(lanes=lanes, train_every=train_every, warmup=warmup)
