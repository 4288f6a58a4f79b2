"""Multi-agent PPO (Yu et al. 2022): actors of what each agent observes, critics of the whole game.

Actors act on their own rows; the critic of a row sees the global state, the state and what the
agent observes, or the observations of all, and its values are scaled by the moments of returns.
What a team earns after an agent's death counts for that agent: its rows go on to the end of the
episode and teach the critic, which sees nothing but the seat of a dead agent (death masking), while
only rows of living agents teach the actor.
"""

from typing import Annotated, NamedTuple

from coopbench.baselines.learner import LearnerEntry
from coopbench.baselines.learners import hyperparameters as h
from coopbench.baselines.learners.critics import OBSERVATIONS, STATE, STATE_AND_OWN
from coopbench.baselines.learners.on_policy import entry_of
from coopbench_envs.parameters import Allowed, between, one_of

_CRITICS = (STATE, STATE_AND_OWN, OBSERVATIONS)

LEARNERS = {
    "mappo": "proximal policy optimization, central critics, networks for each agent",
    "mappo_shared": "proximal policy optimization, central critic, shared networks",
}


class Params(NamedTuple):
    """Hyperparameters; steps are those of the environment, all lanes together."""

    learning_rate: h.LearningRate = 5e-4
    rollout: h.Rollout = 3200
    lanes: h.Lanes = 32
    epochs: h.Epochs = 10
    minibatches: Annotated[int, between(1, 10_000, "minibatches per pass")] = 1
    gamma: h.Gamma = 0.99
    gae_lambda: h.GaeLambda = 0.95
    clip: h.Clip = 0.2
    entropy: h.EntropyBonus = 0.01
    value: h.ValueWeight = 1.0
    max_grad_norm: h.NormOfEach = 10.0
    critic: Annotated[
        str, one_of(_CRITICS, "the critic's inputs: state, state and own row, all observations")
    ] = STATE_AND_OWN
    normalise_values: Annotated[bool, Allowed("scale values by the moments of returns")] = True
    death_masking: Annotated[bool, Allowed("the critic gets only the seat of dead agents")] = True
    time_limit: h.TimeLimit = "bootstrap"
    recurrent: h.Memory = False
    chunk: Annotated[int, between(1, 1000, "steps over which gradients go back in memory")] = 10
    layers: h.Layers = "64x64"
    activation: h.Activation = "relu"
    log_std: h.LogStd = -0.5
    squash: h.Squash = False
    history: h.History = 1
    scale_observations: h.ScaleObservations = True
    scale_rewards: h.ScaleReturns = False
    target_kl: h.TargetKl = 0.0
    anneal: h.Anneal = 0
    blind: Annotated[bool, Allowed("actors observe only their seat and legal choices")] = False
    seat_number: h.SeatNumber = True
    reward: h.Reward = "own"
    partners: h.Partners = ()


def entry(name: str) -> LearnerEntry:
    """Return the registry's entry of a variant."""
    return entry_of(name, LEARNERS[name], Params)
