"""Q-learning of teams with memory: independent (IQL), added (VDN) and mixed values (QMIX).

Every seat has a recurrent network that values its choices from what it has observed and done. Whole
episodes are replayed. The target of a step is, with the weight ``trace`` = l (Peng & Williams 1996)

    y[t] = r[t] + gamma * ((1 - l) * Q'[t + 1] + l * y[t + 1]),    y[n - 1] = r + gamma * Q'[n],

where Q' is the target network's value of the choices that the present network prefers (double
Q-learning, van Hasselt et al. 2016), and 0 after the end of the game. IQL learns this of every seat
(Tan 1993), VDN of the sum over seats (Sunehag et al. 2018), QMIX of a monotone mixture of them that
depends on the global state (Rashid et al. 2018). Dead agents have one choice; their values go on to
be learned, since what their team earns later is also due to them.
"""

import copy
from typing import NamedTuple

import numpy as np
import torch

from coopbench.baselines.learner import LearnerEntry
from coopbench.baselines.learners import hyperparameters as h
from coopbench.baselines.learners.checkpoint import Counts, Part
from coopbench.baselines.learners.episode_learner import (
    Method,
    adam,
    descend,
    entry_of,
    falling_share,
    seat_networks,
)
from coopbench.baselines.learners.experience import Rows
from coopbench.baselines.learners.mixers import Mixer, Monotone, add
from coopbench.baselines.learners.sequences import Batch, greedy, outputs_of, targets

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


class Values:
    """The networks of all seats and what mixes their values."""

    def __init__(self, rows: Rows, params: Params, mixer: Mixer | None) -> None:
        self.groups, self.mixer = rows.groups, mixer
        self.models = seat_networks(rows, params)

    def modules(self) -> dict[str, torch.nn.Module]:
        """Return everything that is learned, by name."""
        modules: dict[str, torch.nn.Module] = {}
        modules |= {f"model.{k}": model.module for k, model in enumerate(self.models)}
        if isinstance(self.mixer, Monotone):
            modules["mixer"] = self.mixer.module
        return modules

    def __call__(self, inputs: torch.Tensor, counts: tuple[int, ...]) -> torch.Tensor:
        """Return the values of all choices, (places, agents, choices)."""
        return outputs_of(self.models, self.groups, inputs, counts)[0]

    def mixed(self, values: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """Return values (places, agents) as they are learned: mixed ones have one column."""
        return values if self.mixer is None else self.mixer(values, state)


class QLearning:
    """Double Q-learning of values that a mixer combines, with a target network."""

    def __init__(self, rows: Rows, params: Params, mixer: Mixer | None) -> None:
        self._params = params
        self.values = Values(rows, params, mixer)
        self.models, self.counts = self.values.models, Counts(updates=0)
        self._target = copy.deepcopy(self.values)
        self._optimiser = adam(self.values.modules().values(), params.learning_rate)

    def parts(self) -> dict[str, Part]:
        """Return networks, targets, the optimiser, and gradient steps."""
        targets = {f"target.{name}": module for name, module in self._target.modules().items()}
        rest: dict[str, Part] = {"optimiser": self._optimiser, "counts": self.counts}
        return {**self.values.modules(), **targets, **rest}

    def choose(self, outputs: np.ndarray, legal: np.ndarray, steps: int) -> np.ndarray:
        """Return the best choices, and random ones for a share of them."""
        params = self._params
        share = falling_share(steps, 1.0, params.epsilon, params.epsilon_steps)
        return greedy(outputs, legal, share)

    def update(self, batch: Batch) -> dict[str, float]:
        """Make one gradient step; return its report."""
        params, inputs = self._params, batch.with_last_actions()
        values, before = self.values(inputs, batch.counts), batch.before
        chosen = values[before].gather(2, batch.actions.unsqueeze(2)).squeeze(2)
        learned = self.values.mixed(chosen, batch.state[before])
        with torch.no_grad():
            legal = batch.legal[batch.after]
            preferred = values[batch.after].masked_fill(~legal, -torch.inf).argmax(2, keepdim=True)
            later = self._target(inputs, batch.counts)[batch.after].gather(2, preferred).squeeze(2)
            following = self._target.mixed(later, batch.state[batch.after])
            aims = targets(batch, following, params.gamma, params.trace)
        loss = torch.nn.functional.mse_loss(learned, aims)
        descend(self._optimiser, loss, params.max_grad_norm)
        self.counts.updates += 1
        if self.counts.updates % params.target_every == 0:
            self._target = copy.deepcopy(self.values)
        return {"loss": float(loss.detach()), "value": float(learned.detach().mean())}


def _iql(rows: Rows, params: Params) -> QLearning:
    """Return independent Q-learning."""
    return QLearning(rows, params, None)


def _vdn(rows: Rows, params: Params) -> QLearning:
    """Return Q-learning of the sum of values."""
    return QLearning(rows, params, add)


def _qmix(rows: Rows, params: Params) -> QLearning:
    """Return Q-learning of monotonically mixed values."""
    return QLearning(rows, params, Monotone(rows.agents, rows.state().shape[1]))


def entry(name: str) -> LearnerEntry:
    """Return the registry's entry of a variant."""
    return entry_of(name, LEARNERS[name], _METHODS[name.removesuffix("_shared")], Params)


_METHODS = {
    "iql": Method(_iql, team=False, state=False),
    "vdn": Method(_vdn, state=False),
    "qmix": Method(_qmix),
}
