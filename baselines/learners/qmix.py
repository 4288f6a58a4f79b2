"""Q-learning of teams with memory: independent (IQL), added (VDN) and mixed values (QMIX).

Every seat has a recurrent network that values its choices from what it has observed and done. Whole
episodes are replayed. The target of a step is, with the weight ``trace`` = l (Peng & Williams 1996)

    y[t] = r[t] + gamma * ((1 - l) * Q'[t + 1] + l * y[t + 1]),    y[n - 1] = r + gamma * Q'[n],

where Q' is the target network's value of the choices that the present network prefers (double
Q-learning, van Hasselt et al. 2016), and 0 after the end of the game. IQL learns this of every seat
(Tan 1993), VDN of the sum over seats (Sunehag et al. 2018), QMIX of a monotone mixture of them that
depends on the global state: its weights are functions of the state and never negative, so that a
choice that is better for a member is never worse for the team (Rashid et al. 2018, section 4). Dead
agents have one choice; their values go on to be learned, since what their team earns later is also
due to them.
"""

import copy
from typing import NamedTuple

import torch

from coopbench.baselines.learner import LearnerEntry
from coopbench.baselines.learners import hyperparameters as h
from coopbench.baselines.learners.checkpoint import Part
from coopbench.baselines.learners.episode_learner import EpisodeLearner, entry_of
from coopbench.baselines.learners.modules import Perceptron, outputs_of
from coopbench.baselines.learners.sequences import Batch, targets
from coopbench.baselines.learners.torch_tools import descend, optimizer_of

_EMBED, _HYPER = 32, 64  # widths of the mixing network and of its hypernetworks, as published

LEARNERS = {
    "iql": "independent Q-learning, separate recurrent networks for each agent",
    "iql_shared": "independent Q-learning, shared recurrent networks for all agents",
    "vdn": "Q-learning of the sum of values, separate recurrent networks for each agent",
    "vdn_shared": "Q-learning of the sum of values, shared recurrent networks for all agents",
    "qmix": "Q-learning of monotonically mixed values, separate recurrent networks for each agent",
    "qmix_shared": "Q-learning of monotonically mixed values, "
    "shared recurrent networks for all agents",
}


class Params(NamedTuple):
    """Hyperparameters; steps are those of the environment, all lanes together."""

    learning_rate: h.LearningRate = 5e-4
    lanes: h.Lanes = 32
    replay: h.Replay = 5000
    batch_size: h.Episodes = 32
    updates_per_episode: h.UpdatesPerEpisode = 0.25
    gamma: h.Gamma = 0.99
    trace: h.Trace = 0.6
    target_every: h.TargetEvery = 200
    epsilon: h.Epsilon = 0.05
    epsilon_steps: h.EpsilonSteps = 50_000
    max_grad_norm: h.MaxGradNorm = 10.0
    recurrent: h.Remembers = True
    hidden: h.Hidden = 64
    time_limit: h.TimeLimit = "bootstrap"
    stored: h.Stored = "float32"
    fit_replay: h.FitReplay = False
    scale_observations: h.ScaleObservations = True
    blind: h.Blind = False
    seat_number: h.SeatNumber = True
    reward: h.Reward = "own"
    optimizer: h.Optimizer = h.ADAM


class Mixer(torch.nn.Module):
    """Makes what is learned of the values of so many agents: in IQL each value by itself."""

    def __init__(self, agents: int, state: int) -> None:
        super().__init__()

    def forward(self, values: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """Return values (..., agents) as they are."""
        return values


class Sum(Mixer):
    """VDN's mixing: the team's value is the sum of its members' values."""

    def forward(self, values: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """Return the sum over agents, (..., 1), of values (..., agents)."""
        return values.sum(dim=-1, keepdim=True)


class Monotone(Mixer):
    """QMIX's mixing network: Q = elu(q |W1(s)| + b1(s)) |W2(s)| + b2(s)."""

    def __init__(self, agents: int, state: int) -> None:
        super().__init__(agents, state)
        self._agents = agents
        self.weights1 = Perceptron([state, _HYPER, agents * _EMBED])
        self.biases1 = torch.nn.Linear(state, _EMBED)
        self.weights2 = Perceptron([state, _HYPER, _EMBED])
        self.biases2 = Perceptron([state, _EMBED, 1])

    def forward(self, values: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """Return the team's value, (..., 1), from values (..., agents) and states (..., size)."""
        weights = self.weights1(state).abs()
        weights = weights.reshape(*state.shape[:-1], self._agents, _EMBED)
        mixed = (values.unsqueeze(-2) @ weights).squeeze(-2) + self.biases1(state)
        hidden = torch.nn.functional.elu(mixed)
        team = (hidden * self.weights2(state).abs()).sum(dim=-1, keepdim=True)
        total: torch.Tensor = team + self.biases2(state)
        return total


class QLearning(EpisodeLearner):
    """Double Q-learning of values that a mixer combines, with a target network."""

    mixing = Mixer

    def make_networks(self) -> None:
        """Make all networks, their targets, and the optimiser."""
        self.mixer = self.mixing(self._rows.agents, self._rows.state().shape[1])
        super().make_networks()
        modules, params = [*self.models, self.mixer], self._params
        self._optimiser = optimizer_of(modules, params.learning_rate, params.optimizer)
        self.renew()

    def renew(self) -> None:
        """Make the target networks equal to the present ones."""
        self.target_models, self.target_mixer = copy.deepcopy((self.models, self.mixer))

    def parts(self) -> dict[str, Part]:
        """Return networks, targets, the optimiser, and gradient steps."""
        return {
            **super().parts(),
            "mixer": self.mixer,
            "target.model": torch.nn.ModuleList(self.target_models),
            "target.mixer": self.target_mixer,
            "optimiser": self._optimiser,
        }

    def update(self, batch: Batch) -> dict[str, float]:
        """Make one gradient step; return its report."""
        params, before = self._params, batch.before
        seen = self._rows.groups, batch.with_last_actions(), batch.counts
        values, _ = outputs_of(self.models, *seen)
        chosen = values[before].gather(2, batch.actions.unsqueeze(2)).squeeze(2)
        learned = self.mixer(chosen, batch.state[before])
        with torch.no_grad():
            legal = batch.legal[batch.after]
            preferred = values[batch.after].masked_fill(~legal, -torch.inf).argmax(2, keepdim=True)
            targeted, _ = outputs_of(self.target_models, *seen)
            later = targeted[batch.after].gather(2, preferred).squeeze(2)
            following = self.target_mixer(later, batch.state[batch.after])
            aims = targets(batch, following, params.gamma, params.trace)
        loss = torch.nn.functional.mse_loss(learned, aims)
        descend(self._optimiser, loss, params.max_grad_norm)
        self.count_step()
        return {"loss": float(loss.detach()), "value": float(learned.detach().mean())}


class IQL(QLearning):
    """Independent Q-learning: each agent learns its own value."""

    team = global_state = False


class VDN(QLearning):
    """Q-learning of the sum of values."""

    global_state = False
    mixing = Sum


class QMIX(QLearning):
    """Q-learning of monotonically mixed values."""

    mixing = Monotone


def entry(name: str) -> LearnerEntry:
    """Return the registry's entry of a variant."""
    variants = {"iql": IQL, "vdn": VDN, "qmix": QMIX}
    return entry_of(name, LEARNERS[name], variants[name.removesuffix("_shared")], Params)
