"""The loop of learners from rollouts: play one step in all lanes; update when rollouts are full."""

from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import torch

from coopbench.baselines.learner import LearnerEntry, Training
from coopbench.baselines.learners.checkpoint import Part, numbered
from coopbench.baselines.learners.critics import OWN, STATE, STATE_AND_OWN, View
from coopbench.baselines.learners.experience import Transition
from coopbench.baselines.learners.modules import layers_of, memory_width
from coopbench.baselines.learners.ppo import PPO
from coopbench.baselines.learners.rollout import Rollout, check_memory, rollout_length
from coopbench.baselines.learners.row_learner import RowLearner
from coopbench.baselines.learners.torch_tools import torch_apart
from coopbench.baselines.networks.network import Network

__all__ = ["OnPolicy", "entry_of"]


class OnPolicy(RowLearner):
    """Learns from rollouts of all seats of a game, with a model per agent or one for all.

    A critic sees what the hyperparameter ``critic`` says, or its agent's own inputs without it.
    With it, rewards after an agent's death count for that agent, until the episode is over, and
    ``death_masking`` says whether the critic then sees nothing but the agent's seat.
    """

    def __init__(self, training: Training) -> None:
        params = training.params
        critic = getattr(params, "critic", OWN)
        super().__init__(training, global_state=critic in (STATE, STATE_AND_OWN))
        self._team, rows = critic != OWN, self._rows
        if params.recurrent and params.history > 1:
            raise ValueError(
                f"history was {params.history} with recurrent=True; allowed: 1, since the network "
                f"remembers."
            )
        masked, scaled = getattr(params, "death_masking", False), params.scale_observations
        self._view = View(rows, critic, masked=masked, scaled=scaled)
        self._length = rollout_length(params)
        view, hidden = self._view.size, memory_width(params.layers) if params.recurrent else 0
        rollouts = [
            partial(Rollout, self._length, params.lanes * len(group), rows, view, hidden)
            for group in rows.groups
        ]
        check_memory(rollouts, rows, params)
        with torch_apart(self._numbers):
            self._models = [
                PPO(rows, len(group), params, rollout())
                for group, rollout in zip(rows.groups, rollouts, strict=True)
            ]

    def network(self) -> Network:
        """Return the mean of all actions as a network, or the most probable choice."""
        rows, params = self._rows, self._params
        head = "argmax" if rows.discrete else "tanh" if params.squash else "clip"
        activation = "relu" if params.recurrent else params.activation
        layers = layers_of([model.layers for model in self._models])
        return rows.network(layers, activation, head)

    def parts(self) -> dict[str, Part]:
        """Return models, their rollouts, and what rewards are scaled by."""
        return numbered(self._models)

    @np.errstate(all="ignore")  # models tell what is not finite
    def advance(self) -> list[dict[str, float]]:
        """Play one step in all lanes, and update models when their rollouts are full."""
        at = self.steps // self._params.lanes % self._length
        with torch.no_grad():
            self._play(at)
        if at + 1 < self._length:
            return []
        pairs = zip(self._models, self._views(), strict=True)
        reports = [
            model.update(views, self._rate())
            for model, views in pairs
            if model.rollout.acted.any()  # else its agents were dead all the time
        ]
        return reports

    def _views(self) -> list[torch.Tensor]:
        """Return what critics see now."""
        rows = self._rows
        return self._view(rows.observe(), rows.state(), rows.engine.control.alive)

    def _play(self, at: int) -> None:
        """Play one step in all lanes and store it as step ``at``."""
        rows, actions, learning = self._rows, [], self._rows.learning()
        if not self._team:  # a row ends with its agent, while others may go on
            control = rows.engine.control
            learning = learning & (control.alive | ~control.terminated)
        first = np.broadcast_to(rows.first[:, None], learning.shape)
        parts = (rows.observe(), rows.legal(), learning, first)
        views = self._views() if self._team else [None] * len(self._models)
        seen = zip(self._models, views, *map(rows.cut, parts), strict=True)
        for model, view, inputs, legal, taught, begins in seen:
            model.rollout.first[at] = torch.from_numpy(begins)
            model.rollout.taught[at] = torch.from_numpy(taught)
            tensors = torch.from_numpy(inputs), torch.from_numpy(legal)
            actions.append(model.act(at, *tensors, view))
        self._earn(at, rows.step(rows.whole(actions)))
        self.steps += self._params.lanes

    def _earn(self, at: int, step: Transition) -> None:
        """Store which rows are over and what they earned, and what follows where time ends."""
        over, by_time = step.done, step.truncated
        if self._team:
            ends = (step.over, step.by_time)
            over, by_time = (np.broadcast_to(end[:, None], step.done.shape) for end in ends)
        parts = (step.rewards, step.done, step.valid, over, by_time)
        views: list[torch.Tensor] | list[None] = [None] * len(self._models)
        if step.by_time.any():
            views = self._view(step.following, step.state, step.alive)
        seen = zip(self._models, views, *map(self._rows.cut, parts), strict=True)
        for model, view, rewards, done, valid, ended, by_time in seen:
            rollout = model.rollout
            rollout.over[at] = torch.from_numpy(ended)
            rollout.acted[at] = torch.from_numpy(valid)
            # Values of agents that have fallen are in the estimates of earlier steps.
            if not (self._team or self._rows.engine.falling):
                rollout.taught[at] = rollout.acted[at]
            if self._params.scale_rewards:
                rewards = model.rewards(rewards, done, valid)
            rollout.rewards[at] = torch.from_numpy(rewards)
            if view is not None:
                model.add_following(rollout.rewards[at], view, torch.from_numpy(by_time))

    def _rate(self) -> float:
        """Return the learning rate at the step at which this update's rollout began."""
        params = self._params
        if not params.anneal:
            return float(params.learning_rate)
        begun = self.steps - params.rollout
        return float(params.learning_rate * max(0.0, 1.0 - begun / params.anneal))


def entry_of(name: str, summary: str, params: type) -> LearnerEntry:
    """Return the registry's entry of a learner from rollouts."""
    first_update = attrgetter("rollout")
    return LearnerEntry(name, OnPolicy, summary, "on_policy", params, _shortened, first_update)


def _shortened(params: Any, steps: int) -> Any:
    """Change hyperparameters so that at least one update fits into ``steps``, from two on."""
    lanes = min(params.lanes, max(1, steps // 8))
    rollout = min(params.rollout, max(2 * lanes, steps)) // lanes * lanes
    changes = {"lanes": lanes, "rollout": rollout}
    if hasattr(params, "batch_size"):
        changes["batch_size"] = min(params.batch_size, rollout)
    return params._replace(**changes)
