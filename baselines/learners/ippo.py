"""Independent PPO (Schulman et al. 2017; de Witt et al. 2020): each agent learns for itself.

The update is that of Stable-Baselines3, and of ``ppo`` for networks with memory, which the library
does not have.
"""

from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import gymnasium as gym
import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from coopbench.baselines.learner import LATER, LearnerEntry
from coopbench.baselines.learners import hyperparameters as h
from coopbench.baselines.learners import sb3
from coopbench.baselines.learners.checkpoint import Part
from coopbench.baselines.learners.experience import Rows
from coopbench.baselines.learners.on_policy import Model, entry_of
from coopbench.baselines.learners.ppo import PPO
from coopbench.baselines.learners.rollout import Rollout, advantages
from coopbench.baselines.learners.row_learner import RewardScale
from coopbench.baselines.learners.torch_tools import layer_sizes
from coopbench_envs.parameters import between

LEARNERS = {
    "ippo": "proximal policy optimization, separate networks for each agent",
    "ippo_shared": "proximal policy optimization, shared networks for all agents",
}


class Params(NamedTuple):
    """Hyperparameters; the defaults are those of the published runs."""

    learning_rate: h.LearningRate = 3e-4
    rollout: h.Rollout = 2048
    lanes: h.Lanes = 8
    batch_size: Annotated[int, between(2, 1_000_000, "largest number of rows of a minibatch")] = 64
    epochs: h.Epochs = 10
    gamma: h.Gamma = 0.99
    gae_lambda: h.GaeLambda = 0.95
    clip: h.Clip = 0.2
    entropy: h.EntropyBonus = 0.01
    value: h.ValueWeight = 0.5
    max_grad_norm: h.MaxGradNorm = 0.5
    layers: h.Layers = "128x128"
    activation: h.Activation = "tanh"
    log_std: h.LogStd = 0.0
    squash: h.Squash = False
    history: h.History = 1
    scale_observations: h.ScaleObservations = False
    scale_rewards: h.ScaleReturns = False
    target_kl: h.TargetKl = 0.0
    anneal: h.Anneal = 0
    time_limit: Annotated[h.TimeLimit, LATER] = "bootstrap"
    recurrent: h.Memory = False
    seat_number: h.SeatNumber = True
    reward: h.Reward = "own"
    partners: h.Partners = ()
    share: h.Share = 0.0


class SB3PPO:
    """The library's PPO of one model, and the buffer that it learns from."""

    def __init__(self, rows: Rows, seats: int, params: Params, rollout: Rollout) -> None:
        self.rollout, self._params, self._discrete = rollout, params, rows.discrete
        self.model = _sb3_ppo(rows, params)
        self.model.rollout_buffer = self
        self.rewards = RewardScale(params.lanes * seats, params.gamma)
        self.advantages = self.targets = torch.zeros(0)  # of the last full rollout

    @property
    def layers(self) -> list[torch.nn.Linear]:
        """Return the linear layers of the actor in their order."""
        policy = self.model.policy
        parts = [*policy.mlp_extractor.policy_net, *policy.action_net.modules()]
        return [layer for layer in parts if isinstance(layer, torch.nn.Linear)]

    def parts(self) -> dict[str, Part]:
        """Return the networks, their optimiser, the rollout, and the scale of rewards."""
        policy = self.model.policy
        parts: dict[str, Part] = {"model": policy, "optimiser": policy.optimizer}
        return {**parts, "rollout": self.rollout, "rewards": self.rewards}

    def act(
        self, at: int, inputs: torch.Tensor, legal: torch.Tensor, views: torch.Tensor | None
    ) -> np.ndarray:
        """Draw the actions of step ``at`` and store it; return them."""
        rollout = self.rollout
        seen: Any = rollout.inputs[at].copy_(inputs)  # where torch aligns it
        if self._discrete:
            seen = seen, rollout.legal[at].copy_(legal)
        actions, values, log_probs = self.model.policy(seen)
        rollout.actions[at], rollout.log_probs[at] = actions, log_probs
        rollout.estimates[at] = values.flatten()
        array: np.ndarray = actions.numpy()
        return array

    def add_following(
        self, rewards: torch.Tensor, views: torch.Tensor, by_time: torch.Tensor
    ) -> None:
        """Add to rewards what follows where time alone ended a row; ``views`` show it."""
        if by_time.any():
            values = self.model.policy.predict_values(views[by_time]).flatten()
            rewards[by_time] += self._params.gamma * values

    def update(self, views: torch.Tensor, rate: float) -> dict[str, float]:
        """Learn from a full rollout, after which the critic sees ``views``; return a report."""
        rollout, params = self.rollout, self._params
        self._pass_over_the_fallen()
        with torch.no_grad():
            following = self.model.policy.predict_values(views).flatten()
        earned = (rollout.rewards, rollout.over, rollout.estimates)
        self.advantages = advantages(*earned, following, params.gamma, params.gae_lambda)
        self.targets = self.advantages + rollout.estimates
        self.model.lr_schedule = lambda _: rate
        with np.errstate(all="ignore"):  # what is not finite is reported below
            self.model.train()
        report = sb3.report_of(self.model, ("policy_loss", "value_loss", "entropy"))
        report["entropy"] *= -1.0  # it was the loss of the bonus
        # The explained variance is not a number while all values are the same.
        return {name: value for name, value in report.items() if np.isfinite(value)}

    def _pass_over_the_fallen(self) -> None:
        """Give the fallen no choice but that which they made: nothing changes its probability."""
        rollout = self.rollout
        if self._discrete:
            fallen = rollout.taught & ~rollout.acted
            rollout.legal[fallen] = False
            rollout.legal[fallen] = rollout.legal[fallen].scatter(
                1, rollout.actions[fallen][:, None], True
            )
            rollout.log_probs[fallen] = 0.0

    # -- the buffer, as the library asks for it --

    def get(self, batch_size: int) -> Iterator[Any]:
        """Yield what is learned from in random order, in parts of nearly equal size.

        Advantages have a mean of 0 and a standard deviation of 1 over the rows of a part that teach
        the actor, and are 0 in the others.
        """
        rollout = self.rollout
        rows = rollout.taught.flatten().nonzero().flatten()
        rows = rows[torch.randperm(len(rows))]
        for some in rows.tensor_split(-(-len(rows) // batch_size)):
            inputs, gains, acted = (
                array.flatten(0, 1)[some]
                for array in (rollout.inputs, self.advantages, rollout.acted)
            )
            if acted.sum() > 1:
                gains = (gains - gains[acted].mean()) / (gains[acted].std() + 1e-8)
            seen = (inputs, rollout.legal.flatten(0, 1)[some]) if self._discrete else inputs
            arrays = (rollout.actions, rollout.estimates, rollout.log_probs)
            parts = (array.flatten(0, 1)[some] for array in arrays)
            yield RolloutBufferSamples(seen, *parts, gains * acted, self.targets.flatten()[some])

    @property
    def values(self) -> np.ndarray:
        """Return the estimated values of all rows of living agents."""
        return self.rollout.estimates[self.rollout.acted].numpy()

    @property
    def returns(self) -> np.ndarray:
        """Return the targets of these values."""
        return self.targets[self.rollout.acted].numpy()


def _sb3_ppo(game: Rows, params: Params) -> Any:
    """Make the library's PPO for rows of a game."""
    widths = layer_sizes(params.layers)
    discrete, box = gym.spaces.Discrete(game.outputs), gym.spaces.Box(-1.0, 1.0, (game.outputs,))
    model = sb3.made(
        stable_baselines3.PPO,
        sb3.Masked if game.discrete else "MlpPolicy",
        (game.inputs, discrete if game.discrete else box),
        params,
        n_steps=1,  # of a buffer that is not used
        n_epochs=params.epochs,
        normalize_advantage=False,  # the buffer does it
        gae_lambda=params.gae_lambda,
        clip_range=params.clip,
        ent_coef=params.entropy,
        vf_coef=params.value,
        max_grad_norm=params.max_grad_norm,
        target_kl=params.target_kl or None,
        policy_kwargs={
            "net_arch": {"pi": widths, "vf": widths},
            "activation_fn": sb3.FastTanh if params.activation == "tanh" else torch.nn.ReLU,
            "log_std_init": params.log_std,
            "optimizer_kwargs": {"eps": 1e-5, "fused": True},
        },
    )
    if params.squash and not game.discrete:
        # A mean far outside the range would hide from the agent what other actions lead to.
        model.policy.action_net = torch.nn.Sequential(model.policy.action_net, torch.nn.Tanh())
    return model


def _model(rows: Rows, seats: int, params: Params, rollout: Rollout) -> Model:
    """Return the model of so many seats; ``ValueError`` for numbers that do not fit."""
    if params.recurrent:
        return PPO(rows, seats, params, rollout)
    if params.batch_size > params.rollout * seats:
        raise ValueError(
            f"batch_size was {params.batch_size} and rollout {params.rollout}, which makes "
            f"{params.rollout * seats} rows; allowed: a batch_size up to that."
        )
    return SB3PPO(rows, seats, params, rollout)


def entry(name: str) -> LearnerEntry:
    """Return the registry's entry of a variant."""
    return entry_of(name, LEARNERS[name], Params, _model)
