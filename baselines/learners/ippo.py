"""Independent PPO (Schulman et al. 2017; de Witt et al. 2020): each agent learns for itself.

The update is that of Stable-Baselines3: a test compares the parameters after one.
"""

from collections import namedtuple
from functools import cache
from typing import Annotated, Any, NamedTuple

from coopbench.baselines.learner import LATER, LearnerEntry
from coopbench.baselines.learners import hyperparameters as h
from coopbench.baselines.learners.on_policy import entry_of
from coopbench_envs.parameters import between

LEARNERS = {
    "ippo": "proximal policy optimization, separate networks for each agent",
    "ippo_shared": "proximal policy optimization, shared networks for all agents",
    "ippo_recurrent": "proximal policy optimization, separate recurrent networks for each agent",
    "ippo_recurrent_shared": "proximal policy optimization, "
    "shared recurrent networks for all agents",
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


@cache
def _with_defaults(**changes: Any) -> type:
    """Return the same hyperparameters with other defaults."""
    defaults = Params._field_defaults | changes
    changed = namedtuple("Params", defaults, defaults=defaults.values())  # type: ignore[misc]
    changed.__annotations__ = Params.__annotations__
    return changed


def entry(name: str) -> LearnerEntry:
    """Return the registry's entry of a variant."""
    recurrent = "recurrent" in name
    return entry_of(name, LEARNERS[name], _with_defaults(recurrent=True) if recurrent else Params)
