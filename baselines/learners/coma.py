"""COMA: actors that learn how much better a choice was than their others (Foerster et al. 2018).

A central critic values, for every seat i, each of its choices given what the others chose,
Q_i(s, (a_-i, .)). What a seat is credited with is the difference to the mean over its policy,

    A_i = Q_i(s, a) - sum_c p_i(c) Q_i(s, (a_-i, c)),

and the actors ascend sum_i A_i log p_i(a_i). The critic learns towards TD(``trace``) targets of
target networks, from the last step to the first, with one gradient step for each step of time.
p is the softmax over legal choices, mixed with uniform ones as ``epsilon`` says; the most probable
choice plays in evaluations. Rows of dead seats train no actor, but train the critic: later rewards
of their team are partly due to them.
"""

import copy
from typing import Annotated, NamedTuple

import numpy as np
import torch

from coopbench.baselines.learner import LearnerEntry
from coopbench.baselines.learners import hyperparameters as h
from coopbench.baselines.learners.checkpoint import Part
from coopbench.baselines.learners.episode_learner import EpisodeLearner, entry_of, falling_share
from coopbench.baselines.learners.experience import Rows
from coopbench.baselines.learners.modules import Perceptron, outputs_of
from coopbench.baselines.learners.sequences import Batch, targets
from coopbench.baselines.learners.torch_tools import descend, optimizer_of
from coopbench_envs.parameters import between, one_of

# What stands for the value of the choice that was made: the critic's value, as published, or the
# target that it learns from.
RETURN = "return"
CREDITS = ("critic", RETURN)


LEARNERS = {
    "coma": "actors with counterfactual credit by a critic of all seats, "
    "separate recurrent networks for each agent",
    "coma_shared": "actors with counterfactual credit by a critic of all seats, "
    "shared recurrent networks for all agents",
}


class Params(NamedTuple):
    """Hyperparameters; steps are those of the environment, all lanes together."""

    learning_rate: h.LearningRate = 5e-4
    critic_rate: Annotated[
        float, between(0, 1, "step size of the critic's optimizer", above=True)
    ] = 5e-4
    lanes: h.Lanes = 8
    batch_size: h.Episodes = 8
    gamma: h.Gamma = 0.99
    trace: h.Trace = 0.8
    target_every: h.TargetEvery = 200
    epsilon_start: Annotated[float, between(0, 1, "initial share of random choices")] = 0.5
    epsilon: h.Epsilon = 0.01
    epsilon_steps: h.EpsilonSteps = 100_000
    credit: Annotated[
        str, one_of(CREDITS, "value of a choice in its credit: the critic's, or the return")
    ] = "critic"
    entropy: h.EntropyBonus = 0.0
    max_grad_norm: h.MaxGradNorm = 10.0
    recurrent: h.Remembers = True
    hidden: h.Hidden = 64
    critic_hidden: Annotated[int, between(1, 1024, "width of the critic's two layers")] = 128
    time_limit: h.TimeLimit = "bootstrap"
    stored: h.Stored = "float32"
    scale_observations: h.ScaleObservations = True
    seat_number: h.SeatNumber = True
    reward: h.Reward = "own"
    optimizer: h.Optimizer = h.ADAM


class Critic(Perceptron):
    """Values of each seat's choices, given the state, what it sees and what the others choose."""

    def __init__(self, rows: Rows, hidden: int) -> None:
        inputs = rows.state().shape[1] + rows.inputs + rows.agents * (2 * rows.outputs + 1)
        super().__init__([inputs, hidden, hidden, rows.outputs])
        self._choices = rows.outputs

    def inputs(self, batch: Batch, choices: torch.Tensor) -> torch.Tensor:
        """Return what the critic gets with choices (places, agents), (places, agents, numbers).

        This is the state, the seat's own inputs, the choices of the others, the last choices of
        all, and the seat's number.
        """
        places, agents = choices.shape
        numbers = torch.eye(agents)
        chosen = torch.nn.functional.one_hot(choices, self._choices).float()
        others = chosen.unsqueeze(1) * (1.0 - numbers).unsqueeze(2)
        last = torch.zeros(batch.legal.shape)
        last[batch.after] = chosen[batch.before]
        parts = [
            batch.state.unsqueeze(1).expand(places, agents, -1),
            batch.inputs,
            others.flatten(2),
            last.flatten(1).unsqueeze(1).expand(places, agents, -1),
            numbers.expand(places, agents, agents),
        ]
        return torch.cat(parts, dim=2)


def probabilities(outputs: torch.Tensor, legal: torch.Tensor, share: float) -> torch.Tensor:
    """Return a policy: the softmax over legal choices, a ``share`` of it replaced by uniform."""
    uniform = legal / legal.sum(-1, keepdim=True)
    softmax = outputs.masked_fill(~legal, -np.inf).softmax(-1)
    policy: torch.Tensor = (1.0 - share) * softmax + share * uniform
    return policy


class COMA(EpisodeLearner):
    """Recurrent actors, and a critic of all seats with a target network."""

    replayed = False

    def make_networks(self) -> None:
        """Make actors and critic, its target, and the optimisers."""
        super().make_networks()
        params = self._params
        self.critic, self._share = Critic(self._rows, params.critic_hidden), params.epsilon_start
        self._actors = optimizer_of(self.models, params.learning_rate, params.optimizer)
        self._critics = optimizer_of([self.critic], params.critic_rate, params.optimizer)
        self.renew()

    def renew(self) -> None:
        """Make the target network of the critic equal to the present one."""
        self._target = copy.deepcopy(self.critic)

    def parts(self) -> dict[str, Part]:
        """Return networks, the critic's target, optimisers, and gradient steps of the critic."""
        critics = {"critic": self.critic, "target.critic": self._target}
        return {**super().parts(), **critics, "actors": self._actors, "critics": self._critics}

    def choose(self, outputs: np.ndarray, legal: np.ndarray) -> np.ndarray:
        """Return choices drawn from the policies."""
        params = self._params
        begin, end, length = params.epsilon_start, params.epsilon, params.epsilon_steps
        self._share = falling_share(self.steps, begin, end, length)
        policy = probabilities(torch.from_numpy(outputs), torch.from_numpy(legal), self._share)
        choices: np.ndarray = torch.multinomial(policy.flatten(0, 1), 1).numpy()
        return choices.reshape(legal.shape[:2])

    def update(self, batch: Batch) -> dict[str, float]:
        """Learn the critic, then make one gradient step of the actors."""
        params, before, actions = self._params, batch.before, batch.actions
        seen = self._rows.groups, batch.with_last_actions(), batch.counts
        outputs, _ = outputs_of(self.models, *seen)
        values, aims, loss = self._learn_critic(batch, outputs.detach())
        policy = probabilities(outputs[before], batch.legal[before], self._share)
        made = aims
        if params.credit != RETURN:
            made = values.gather(2, actions.unsqueeze(2)).squeeze(2)
        credit = made - (values * policy.detach()).sum(2)
        logs = policy.gather(2, actions.unsqueeze(2)).squeeze(2).log()
        # The dead, and others without a choice, learn nothing.
        free = batch.legal[before].sum(2) > 1
        rows = max(1, int(free.sum()))
        entropy = -(policy * policy.clamp(min=1e-12).log()).sum(2)[free].sum() / rows
        actors = -(credit * logs)[free].sum() / rows
        descend(self._actors, actors - params.entropy * entropy, params.max_grad_norm)
        return {
            "critic_loss": loss,
            "entropy": float(entropy.detach()),
            "value": float(values.mean()),
        }

    def _learn_critic(
        self, batch: Batch, outputs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, float]:
        """Return values (steps, agents, choices) as steps were learned, targets, and the mean loss.

        What follows the last step of an episode that time has ended is valued at the most probable
        choices.
        """
        params, before, after = self._params, batch.before, batch.after
        choices = outputs.masked_fill(~batch.legal, -np.inf).argmax(2)
        choices[before] = batch.actions
        inputs = self.critic.inputs(batch, choices)
        with torch.no_grad():
            later = self._target(inputs[after]).gather(2, choices[after].unsqueeze(2)).squeeze(2)
            aims = targets(batch, later, params.gamma, params.trace)
        rows, actions, losses = inputs[before], batch.actions.unsqueeze(2), []
        values, end = rows.new_empty(batch.legal[before].shape), len(rows)
        for count in reversed(batch.counts[1:]):
            step = slice(end - count, end)
            present = self.critic(rows[step])
            errors = present.gather(2, actions[step]).squeeze(2) - aims[step]
            loss = (errors**2).mean()
            descend(self._critics, loss, params.max_grad_norm)
            values[step] = present.detach()
            losses.append(float(loss.detach()))
            self.count_step()
            end -= count
        return values, aims, float(np.mean(losses))


def entry(name: str) -> LearnerEntry:
    """Return the registry's entry of a variant."""
    return entry_of(name, LEARNERS[name], COMA, Params)
