"""QTRAN-base: values of seats whose best choices are the team's best (Son et al. 2019).

A joint network learns Q(s, a) of the team by Q-learning, and a third one V(s). The values q_i of
the seats' own networks choose. For Q to be largest at their joint choice u it suffices that

    sum_i q_i(a_i) - Q(s, a) + V(s)   is 0 for a = u, and at least 0 for all others,

where V makes up for what a seat does not observe (theorem 1 there). So three losses are added:

    L = (y - Q(s, a))^2 + optimal (D(u))^2 + non_optimal min(D(a), 0)^2,

with D the difference above, in which Q is held fixed, and y the targets of ``qmix`` with the target
networks' Q at the choices that the present seats prefer. No monotonicity is asked for, so that a
team can learn what VDN and QMIX cannot represent.

With ``condition="relative"`` the last term is non_optimal min(D(a) - D(u), 0)^2. D(a) >= D(u) means
Q(u) - Q(a) >= sum_i q_i(u_i) - sum_i q_i(a_i) >= 0: u is the best joint choice whatever the error
of V is, which is the same for all choices in a state and cancels out. With ``seat_terms`` the joint
value is that of the joint network and a value of every seat's choice, which its memory and the
state decide. Neither is published.
"""

import copy
from typing import Annotated, NamedTuple

import numpy as np
import torch

from coopbench.baselines.learner import LearnerEntry
from coopbench.baselines.learners import hyperparameters as h
from coopbench.baselines.learners.checkpoint import Part
from coopbench.baselines.learners.episode_learner import EpisodeLearner, entry_of
from coopbench.baselines.learners.modules import Perceptron, outputs_of
from coopbench.baselines.learners.sequences import Batch, targets
from coopbench.baselines.learners.torch_tools import descend, optimizer_of
from coopbench_envs.parameters import Allowed, between, one_of

ABSOLUTE, RELATIVE = CONDITIONS = "absolute", "relative"


LEARNERS = {
    "qtran": "Q-learning of a joint value that the choices of seats maximize, "
    "separate recurrent networks for each agent",
    "qtran_shared": "Q-learning of a joint value that the choices of seats maximize, "
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
    embed: Annotated[int, between(1, 1024, "width of the joint networks")] = 64
    optimal: Annotated[float, between(0, 1e6, "weight of the loss at the best choices")] = 1.0
    non_optimal: Annotated[float, between(0, 1e6, "weight of the loss elsewhere")] = 0.1
    condition: Annotated[
        str, one_of(CONDITIONS, "compare other choices with 0, or with the best")
    ] = ABSOLUTE
    seat_terms: Annotated[bool, Allowed("add a value of each seat's choice to Q")] = False
    time_limit: h.TimeLimit = "bootstrap"
    stored: h.Stored = "float32"
    fit_replay: h.FitReplay = False
    scale_observations: h.ScaleObservations = True
    blind: h.Blind = False
    seat_number: h.SeatNumber = True
    reward: h.Reward = "own"
    optimizer: h.Optimizer = h.ADAM


class Joint(torch.nn.Module):
    """Q(s, a) of all seats' choices and V(s); a seat enters by its memory and its choice.

    With ``seat_terms`` Q is that plus a value of every seat's choice.
    """

    def __init__(
        self, state: int, hidden: int, choices: int, embed: int, *, seat_terms: bool
    ) -> None:
        super().__init__()
        width, self._choices = hidden + choices, choices
        self.encoding = Perceptron([width, width, width])
        self.value = Perceptron([state + width, embed, embed, 1])
        self.state_value = Perceptron([state, embed, embed, 1])
        self.seat_terms = Perceptron([state + hidden, embed, choices]) if seat_terms else None

    def forward(
        self, state: torch.Tensor, memories: torch.Tensor, choices: torch.Tensor
    ) -> torch.Tensor:
        """Return Q, (rows, 1), of choices (rows, agents) with memories (rows, agents, hidden)."""
        one_hot = torch.nn.functional.one_hot(choices, self._choices).float()
        team = self.encoding(torch.cat([memories, one_hot], dim=2)).sum(dim=1)
        value: torch.Tensor = self.value(torch.cat([state, team], dim=1))
        if self.seat_terms is None:
            return value
        states = state.unsqueeze(1).expand(-1, memories.shape[1], -1)
        terms: torch.Tensor = self.seat_terms(torch.cat([states, memories], dim=2))
        return value + terms.gather(2, choices.unsqueeze(2)).sum(1)


class QTRAN(EpisodeLearner):
    """QTRAN-base with double Q-learning and target networks."""

    def make_networks(self) -> None:
        """Make all networks, their targets, and the optimiser."""
        super().make_networks()
        rows, params = self._rows, self._params
        sizes = rows.state().shape[1], params.hidden, rows.outputs, params.embed
        self.joint = Joint(*sizes, seat_terms=params.seat_terms)
        modules = [*self.models, self.joint]
        self._optimiser = optimizer_of(modules, params.learning_rate, params.optimizer)
        self.renew()

    def renew(self) -> None:
        """Make the target networks equal to the present ones."""
        self._target_models, self._target_joint = copy.deepcopy((self.models, self.joint))

    def parts(self) -> dict[str, Part]:
        """Return networks, targets, the optimiser, and gradient steps."""
        return {
            **super().parts(),
            "joint": self.joint,
            "target.model": torch.nn.ModuleList(self._target_models),
            "target.joint": self._target_joint,
            "optimiser": self._optimiser,
        }

    def update(self, batch: Batch) -> dict[str, float]:
        """Make one gradient step; return its report."""
        params, inputs, before = self._params, batch.with_last_actions(), batch.before
        values, memories = outputs_of(self.models, self._rows.groups, inputs, batch.counts)
        best = values.detach().masked_fill(~batch.legal, -np.inf).argmax(2)
        state, memory = batch.state[before], memories[before]
        joint = self.joint(state, memory, batch.actions)
        aims = self._aims(batch, inputs, best)
        learned = ((joint - aims) ** 2).mean()

        def difference(choices: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            chosen = values[before].gather(2, choices.unsqueeze(2)).squeeze(2)
            sums, missing = chosen.sum(1, keepdim=True), self.joint.state_value(state)
            apart: torch.Tensor = sums - value.detach() + missing
            return apart

        preferred = best[before]
        best_difference = difference(preferred, self.joint(state, memory, preferred))
        optimal = (best_difference**2).mean()
        other = difference(batch.actions, joint)
        if params.condition == RELATIVE:
            other = other - best_difference
        elsewhere = (other.clamp(max=0.0) ** 2).mean()
        loss = learned + params.optimal * optimal + params.non_optimal * elsewhere
        descend(self._optimiser, loss, params.max_grad_norm)
        self.count_step()
        names = ("loss", "optimal", "non_optimal", "value")
        numbers = (learned, optimal, elsewhere, joint.mean())
        return {name: float(x.detach()) for name, x in zip(names, numbers, strict=True)}

    def _aims(self, batch: Batch, inputs: torch.Tensor, best: torch.Tensor) -> torch.Tensor:
        """Return the targets of Q, (steps, 1), with the choices that follow as in ``best``."""
        after = batch.after
        with torch.no_grad():
            memories = outputs_of(self._target_models, self._rows.groups, inputs, batch.counts)[1]
            following = self._target_joint(batch.state[after], memories[after], best[after])
            return targets(batch, following, self._params.gamma, self._params.trace)


def entry(name: str) -> LearnerEntry:
    """Return the registry's entry of a variant."""
    return entry_of(name, LEARNERS[name], QTRAN, Params)
