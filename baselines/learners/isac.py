"""Independent SAC (Haarnoja et al. 2018): each agent learns for itself, from a replay buffer.

The update is that of Stable-Baselines3. Games are played here, all lanes at once, because in them
agents can die and each agent has its own reward, so the library's models have no environment and
get this package's experience in place of their buffers. Actions are continuous.
"""

from typing import Annotated, Any, NamedTuple

import gymnasium as gym
import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.type_aliases import ReplayBufferSamples

from coopbench.baselines.errors import Diverged
from coopbench.baselines.learner import LATER, LearnerEntry, Training
from coopbench.baselines.learners import hyperparameters as h
from coopbench.baselines.learners.checkpoint import Part, numbered
from coopbench.baselines.learners.experience import Rows
from coopbench.baselines.learners.modules import layers_of
from coopbench.baselines.learners.off_policy import Replay, check_replay, first_update, shortened
from coopbench.baselines.learners.row_learner import RewardScale, RowLearner
from coopbench.baselines.learners.torch_tools import layer_sizes, torch_apart
from coopbench.baselines.networks.network import Network
from coopbench_envs.parameters import Allowed, between

LEARNERS = {
    "isac": "soft actor-critic, separate networks and replay memory for each agent",
    "isac_shared": "soft actor-critic, shared networks and replay memory for all agents",
}


class Params(NamedTuple):
    """Hyperparameters; steps are those of the environment, all lanes together.

    With the defaults 200,000 steps of a game of two take one to two minutes of one core.
    """

    learning_rate: h.LearningRate = 3e-4
    lanes: h.Lanes = 8
    buffer_size: Annotated[int, between(1, h.MANY, "rows in the replay memory")] = 100_000
    batch_size: Annotated[int, between(1, 65_536, "rows of a gradient step")] = 256
    warmup: h.Warmup = 1000
    train_every: h.TrainEvery = 64
    updates: h.Updates = 3
    gamma: h.Gamma = 0.99
    tau: h.Tau = 0.005
    entropy: Annotated[float, between(0, 1e9, "initial weight of the entropy")] = 1.0
    adapt_entropy: Annotated[bool, Allowed("adapt the weight to -1 nat per action dimension")] = (
        True
    )
    layers: h.Layers = "64x64"
    activation: h.Activation = "relu"
    history: h.History = 1
    scale_observations: h.ScaleObservations = True
    scale_rewards: h.ScaleRewards = True
    time_limit: Annotated[h.TimeLimit, LATER] = "bootstrap"
    seat_number: h.SeatNumber = True
    reward: h.Reward = "own"
    partners: h.Partners = ()


# What the library reports of an update, and the names it has here.
_REPORTED = {
    "train/actor_loss": "actor_loss",
    "train/critic_loss": "critic_loss",
    "train/ent_coef": "entropy_coefficient",
}


class SB3SAC:
    """The library's SAC of one model, and the replay that it learns from.

    A row of the replay holds inputs, actions, next inputs, terminated and reward: in one array a
    sample is one gather operation instead of five.
    """

    def __init__(self, rows: Rows, seats: int, params: Params) -> None:
        inputs, outputs = rows.inputs, rows.outputs
        self._params, self._columns = params, [inputs, outputs, inputs, 1, 1]
        self.replay = Replay(params.buffer_size, {"rows": self.form(inputs, outputs)})
        self.model = _sb3_sac(params, inputs, outputs)
        self.model.replay_buffer = self
        self.rewards = RewardScale(params.lanes * seats, 0.0)  # of rewards, not of their sums

    @staticmethod
    def form(inputs: int, outputs: int) -> tuple[tuple[int, ...], torch.dtype]:
        """Return shape and type of a row of the replay."""
        return (2 * inputs + outputs + 2,), torch.float32

    @property
    def layers(self) -> list[torch.nn.Linear]:
        """Return the linear layers of the actor's mean in their order."""
        actor = self.model.actor
        hidden = [part for part in actor.latent_pi if isinstance(part, torch.nn.Linear)]
        return [*hidden, actor.mu]

    def parts(self) -> dict[str, Part]:
        """Return everything by name; the weight of the entropy is a part if it adapts."""
        model = self.model
        parts: dict[str, Part] = {"model": model.policy, "replay": self.replay}
        parts |= {
            "rewards": self.rewards,
            "actor": model.actor.optimizer,
            "critic": model.critic.optimizer,
        }
        if model.log_ent_coef is not None:
            parts |= {"entropy": model.ent_coef_optimizer, "log_entropy": model.log_ent_coef}
        return parts

    def sample(self, batch_size: int, env: None = None) -> ReplayBufferSamples:
        """Draw rows for the library."""
        drawn = self.replay.sample(batch_size)["rows"]
        drawn[:, -1] /= self.rewards.deviation
        return ReplayBufferSamples(*torch.split(drawn, self._columns, dim=1))

    def update(self) -> dict[str, float]:
        """Learn from the replay; return a report."""
        self.model.train(self._params.updates, self._params.batch_size)
        logged = self.model.logger.name_to_value
        report = {name: float(logged[key]) for key, name in _REPORTED.items()}
        for name, value in report.items():
            if not np.isfinite(value):
                raise Diverged(f"The {name} is not finite.")
        for name, parameter in self.model.policy.named_parameters():
            if not torch.isfinite(parameter).all():
                raise Diverged(f"The parameter {name} is not finite.")
        return report


def _sb3_sac(params: Params, inputs: int, outputs: int) -> Any:
    """Make the library's SAC for rows of a game."""
    model: Any = stable_baselines3.SAC(
        "MlpPolicy",
        None,  # it has spaces in place of an environment
        batch_size=params.batch_size,
        learning_rate=params.learning_rate,
        gamma=params.gamma,
        device="cpu",
        buffer_size=1,  # of a buffer that is not used
        tau=params.tau,
        ent_coef=f"auto_{params.entropy}" if params.adapt_entropy else params.entropy,
        target_entropy=-float(outputs),
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


class ISAC(RowLearner):
    """SAC for all seats of a game, with a model per agent or one that all agents share."""

    def __init__(self, training: Training) -> None:
        super().__init__(training)
        self._check(self._params)
        with torch_apart(self._numbers):
            self._models = [
                SB3SAC(self._rows, len(group), self._params) for group in self._rows.groups
            ]

    def _check(self, params: Params) -> None:
        """Raise ``ValueError`` for a game that SAC cannot learn, or numbers that do not fit."""
        rows = self._rows
        env_id = rows.engine.spec.id
        if rows.discrete:
            raise ValueError(
                f"Learner {self.name!r} learns continuous actions, but those of {env_id} are "
                f"choices; learners of these are ippo, mappo, maddpg, and iql, vdn, qmix, qtran "
                f"and coma, which learn from whole episodes."
            )
        if params.adapt_entropy and params.entropy == 0.0:
            raise ValueError(
                "entropy was 0.0 and adapt_entropy True; allowed: an entropy > 0 to begin with, or "
                "adapt_entropy False."
            )
        forms, most = {"rows": SB3SAC.form(rows.inputs, rows.outputs)}, max(map(len, rows.groups))
        check_replay(params, forms, len(rows.groups), params.lanes * most, env_id)

    def network(self) -> Network:
        """Return the means of the actors' actions as a network."""
        layers = layers_of([model.layers for model in self._models])
        return self._rows.network(layers, self._params.activation, "tanh")

    def parts(self) -> dict[str, Part]:
        """Return models, their replays, and what rewards are scaled by."""
        return numbered(self._models)

    def advance(self) -> list[dict[str, float]]:
        """Play one step in all lanes, and update all models when it is time."""
        self._play()
        params = self._params
        if self.steps <= params.warmup or self.steps % params.train_every:
            return []
        # A replay is empty as long as partners had all seats of its model.
        return [model.update() for model in self._models if len(model.replay)]

    def _play(self) -> None:
        """Play one step in all lanes and store it, except for agents that were dead before it.

        Rows of agents that leave while others play on have no future, nor have those of terminated
        agents. All others keep the last observation of the episode, and have a value there unless
        an end by time alone is one of the game.
        """
        params, rows, actions = self._params, self._rows, []
        seen = rows.observe()
        with torch.no_grad():
            for inputs, model in zip(rows.cut(seen), self._models, strict=True):
                if self.steps < params.warmup:
                    chosen = 2.0 * torch.rand(len(inputs), rows.outputs) - 1.0
                else:
                    chosen = model.model.actor(torch.from_numpy(inputs).clone())
                actions.append(chosen.numpy())
        played = rows.whole(actions)
        step = rows.step(played)
        left = ~step.alive & ~step.over[:, None]
        ends = np.stack([step.done & ~step.truncated | left, step.rewards], axis=2)
        whole = np.concatenate([seen, played, step.following, ends], axis=2)
        parts = map(rows.cut, (whole, step.rewards, step.done, step.valid))
        for model, stored, *earned in zip(self._models, *parts, strict=True):
            model.replay.add({"rows": stored[earned[-1]]})
            if params.scale_rewards:
                model.rewards(*earned)
        self.steps += params.lanes


def entry(name: str) -> LearnerEntry:
    """Return the registry's entry of a variant."""
    return LearnerEntry(name, ISAC, LEARNERS[name], "off_policy", Params, shortened, first_update)
