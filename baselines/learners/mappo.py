"""Multi-agent PPO (Yu et al. 2022): actors of what each agent observes, critics of the whole game.

Actors act on their own rows; the critic of a row sees the global state, the state and what the
agent observes, or the observations of all, and its values are scaled by the moments of returns.
What a team earns after an agent's death counts for that agent: its rows go on to the end of the
episode and teach the critic, which sees nothing but the seat of a dead agent (death masking), while
only rows of living agents teach the actor.
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
from coopbench.baselines.learners.critics import OBSERVATIONS, STATE, STATE_AND_OWN
from coopbench.baselines.learners.on_policy import OnPolicy, Use
from coopbench.baselines.learners.ppo import PPO
from coopbench.baselines.networks.network import ACTIVATIONS
from coopbench_envs.parameters import Allowed, between, one_of

_CRITICS = (STATE, STATE_AND_OWN, OBSERVATIONS)


LEARNERS = {
    "mappo": "proximal policy optimisation, central critics, networks for each agent",
    "mappo_shared": "proximal policy optimisation, central critic, shared networks",
}


class Params(NamedTuple):
    """Hyperparameters; steps are those of the environment, all lanes together."""

    learning_rate: Annotated[float, between(0, 1, "step size of Adam", above=True)] = 5e-4
    rollout: Annotated[int, between(2, 1_000_000, "environment steps between updates")] = 3200
    lanes: Annotated[int, between(1, 4096, "games played at once")] = 32
    epochs: Annotated[int, between(1, 100, "passes over the rows of a rollout")] = 10
    minibatches: Annotated[int, between(1, 10_000, "parts of these rows")] = 1
    gamma: Annotated[float, between(0, 1, "discount factor")] = 0.99
    gae_lambda: Annotated[float, between(0, 1, "lambda of the advantage estimates")] = 0.95
    clip: Annotated[float, between(0, 1, "clipping range of probability ratios", above=True)] = 0.2
    entropy: Annotated[float, between(0, 10, "weight of the entropy bonus")] = 0.01
    value: Annotated[float, between(0, 10, "weight of the value loss")] = 1.0
    max_grad_norm: Annotated[
        float, between(0, 1e9, "largest norm of each gradient", above=True)
    ] = 10.0
    critic: Annotated[
        str, one_of(_CRITICS, "the critic's inputs: state, state and own row, all observations")
    ] = STATE_AND_OWN
    normalise_values: Annotated[bool, Allowed("scale values by the moments of returns")] = True
    death_masking: Annotated[bool, Allowed("the critic sees only the seat of the dead")] = True
    time_limit: TimeLimit = "bootstrap"
    recurrent: Annotated[bool, Allowed("networks with memory: linear, GRU, linear"), LATER] = False
    chunk: Annotated[int, between(1, 1000, "steps that gradients go back in memory")] = 10
    layers: Annotated[str, Allowed("widths of the hidden layers")] = "64x64"
    activation: Annotated[str, one_of(ACTIVATIONS, "activation without memory")] = "relu"
    log_std: Annotated[float, between(-5, 2, "initial log standard deviation")] = -0.5
    squash: Annotated[bool, Allowed("apply tanh to the mean actions")] = False
    history: Annotated[int, between(1, 64, "observations that a network gets")] = 1
    scale_observations: Annotated[bool, Allowed("scale bounded features to [-1, 1]")] = True
    scale_rewards: Annotated[bool, Allowed("divide by the std of discounted sums")] = False
    target_kl: Annotated[float, between(0, 10, "KL divergence that ends an update, 0: none")] = 0.0
    anneal: Annotated[int, between(0, 10**12, "steps to learning rate 0; 0: constant")] = 0
    blind: Annotated[bool, Allowed("actors observe nothing but their seat and legal choices")] = (
        False
    )
    seat_number: SeatNumber = True
    reward: Reward = "own"
    partners: Partners = ()
    share: Share = 0.0


def entry(name: str) -> LearnerEntry:
    """Return the registry's entry of a variant."""

    def create(env_id: str, parameters: Mapping[str, Any], seed: int, params: Params) -> OnPolicy:
        use = Use(
            make=PPO,
            critic=params.critic,
            team=True,
            minibatches=params.minibatches,
            chunk=params.chunk,
            masked=params.death_masking,
            normalised=params.normalise_values,
            terminal=params.time_limit == TERMINAL,
        )
        return OnPolicy(name, env_id, parameters, seed, params, use)

    first_update = attrgetter("rollout")
    return LearnerEntry(name, create, LEARNERS[name], "on_policy", Params, _shortened, first_update)


def _shortened(params: Params, steps: int) -> Params:
    """Change hyperparameters so that at least one update fits into ``steps``, from two on."""
    lanes = min(params.lanes, max(1, steps // 8))
    rollout = min(params.rollout, max(2 * lanes, steps)) // lanes * lanes
    return params._replace(lanes=lanes, rollout=rollout)
