"""Independent PPO (Schulman et al. 2017; de Witt et al. 2020): each agent learns for itself.

The update is that of Stable-Baselines3, and of ``ppo`` for networks with memory, which the library
does not have.
"""

from typing import Annotated, NamedTuple

from coopbench.baselines.learner import LATER, LearnerEntry
from coopbench.baselines.learners import hyperparameters as h
from coopbench.baselines.learners import ppo, sb3
from coopbench.baselines.learners.critics import OWN
from coopbench.baselines.learners.experience import Rows
from coopbench.baselines.learners.on_policy import Model, Use, entry_of
from coopbench.baselines.learners.rollout import Rollout
from coopbench_envs.parameters import between

_CHUNK = 16  # steps that gradients go back in networks with memory

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
    max_grad_norm: Annotated[float, between(0, 1e9, "largest norm of the gradient", above=True)] = (
        0.5
    )
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


def entry(name: str) -> LearnerEntry:
    """Return the registry's entry of a variant."""
    return entry_of(name, LEARNERS[name], Params, _use)


def _use(params: Params) -> Use:
    """Return how rollouts are used."""
    return Use(
        make=_model,
        critic=OWN,
        team=False,
        batch_size=params.batch_size,
        chunk=_CHUNK,
    )


def _model(rows: Rows, seats: int, params: Params, use: Use, rollout: Rollout) -> Model:
    """Return the model of so many seats; ``ValueError`` for numbers that do not fit."""
    if params.recurrent:
        return ppo.PPO(rows, seats, params, use, rollout)
    if params.batch_size > params.rollout * seats:
        raise ValueError(
            f"batch_size was {params.batch_size} and rollout {params.rollout}, which makes "
            f"{params.rollout * seats} rows; allowed: a batch_size up to that."
        )
    return sb3.PPO(rows, seats, params, use, rollout)
