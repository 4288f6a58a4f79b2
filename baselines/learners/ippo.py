"""Independent PPO (Schulman et al. 2017; de Witt et al. 2020): each agent learns for itself.

The update is that of Stable-Baselines3, and of ``ppo`` for networks with memory, which the library
does not have.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

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
from coopbench.baselines.learners import ppo, sb3
from coopbench.baselines.learners.critics import OWN
from coopbench.baselines.learners.experience import Rows
from coopbench.baselines.learners.on_policy import Model, OnPolicy, Use
from coopbench.baselines.learners.rollout import Rollout
from coopbench.baselines.networks.network import ACTIVATIONS
from coopbench_envs.parameters import Allowed, between, one_of

_CHUNK = 16  # steps that gradients go back in networks with memory

LEARNERS = {
    "ippo": "proximal policy optimisation, separate networks for each agent",
    "ippo_shared": "proximal policy optimisation, shared networks for all agents",
}


class Params(NamedTuple):
    """Hyperparameters; the defaults are those of the published runs."""

    learning_rate: Annotated[float, between(0, 1, "step size of Adam", above=True)] = 3e-4
    rollout: Annotated[int, between(2, 1_000_000, "environment steps between updates")] = 2048
    lanes: Annotated[int, between(1, 4096, "games played at once")] = 8
    batch_size: Annotated[int, between(2, 1_000_000, "largest number of rows of a minibatch")] = 64
    epochs: Annotated[int, between(1, 100, "passes over the rows of a rollout")] = 10
    gamma: Annotated[float, between(0, 1, "discount factor")] = 0.99
    gae_lambda: Annotated[float, between(0, 1, "lambda of the advantage estimates")] = 0.95
    clip: Annotated[float, between(0, 1, "clipping range of probability ratios", above=True)] = 0.2
    entropy: Annotated[float, between(0, 10, "weight of the entropy bonus")] = 0.01
    value: Annotated[float, between(0, 10, "weight of the value loss")] = 0.5
    max_grad_norm: Annotated[float, between(0, 1e9, "largest norm of the gradient", above=True)] = (
        0.5
    )
    layers: Annotated[str, Allowed("widths of the hidden layers")] = "128x128"
    activation: Annotated[str, one_of(ACTIVATIONS, "activation of hidden layers")] = "tanh"
    log_std: Annotated[float, between(-5, 2, "initial log standard deviation")] = 0.0
    squash: Annotated[bool, Allowed("apply tanh to the mean actions")] = False
    history: Annotated[int, between(1, 64, "observations that a network gets")] = 1
    scale_observations: Annotated[bool, Allowed("scale bounded features to [-1, 1]")] = False
    scale_rewards: Annotated[bool, Allowed("divide by the std of discounted sums")] = False
    target_kl: Annotated[float, between(0, 10, "KL divergence that ends an update, 0: none")] = 0.0
    anneal: Annotated[int, between(0, 10**12, "steps to learning rate 0; 0: constant")] = 0
    time_limit: Annotated[TimeLimit, LATER] = "bootstrap"
    recurrent: Annotated[bool, Allowed("networks with memory: linear, GRU, linear"), LATER] = False
    seat_number: SeatNumber = True
    reward: Reward = "own"
    partners: Partners = ()
    share: Share = 0.0


def entry(name: str) -> LearnerEntry:
    """Return the registry's entry of a variant."""

    def create(env_id: str, parameters: Mapping[str, Any], seed: int, params: Params) -> OnPolicy:
        use = Use(
            make=_model,
            critic=OWN,
            team=False,
            batch_size=params.batch_size,
            chunk=_CHUNK,
            terminal=params.time_limit == TERMINAL,
        )
        return OnPolicy(name, env_id, parameters, seed, params, use)

    first_update = attrgetter("rollout")
    summary = LEARNERS[name]
    return LearnerEntry(name, create, summary, "on_policy", Params, _shortened, first_update)


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


def _shortened(params: Params, steps: int) -> Params:
    """Change hyperparameters so that at least one update fits into ``steps``, from two on."""
    lanes = min(params.lanes, max(1, steps // 8))
    rollout = min(params.rollout, max(2 * lanes, steps)) // lanes * lanes
    batch_size = min(params.batch_size, rollout)
    return params._replace(lanes=lanes, rollout=rollout, batch_size=batch_size)
