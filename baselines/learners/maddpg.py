"""MADDPG (Lowe et al. 2017): actors of what each agent observes, critics of everything.

The critic of a seat judges what all agents observe and do. Its target is

    y = r + gamma * Q'(o', a'),    a'[j] = mu'[j](o'[j]),

with target networks that follow slowly, and y = r after the end of the game. Actions of partners,
which no actor predicts, are zeros: to critics partners are a part of the game. An actor follows the
gradient of its critic where its own action is replaced by that of its present policy. Choices are
one-hot vectors: drawn with Gumbel noise, through which the gradient passes as through a softmax
(straight-through, Jang et al. 2017). Actions of dead agents are zeros; their rows teach the critic
what their team earns later, and no actor.
"""

from typing import Annotated, NamedTuple

import numpy as np
import torch

from coopbench.baselines.learner import LearnerEntry, Training
from coopbench.baselines.learners import hyperparameters as h
from coopbench.baselines.learners.checkpoint import Part, numbered
from coopbench.baselines.learners.deterministic import Batch, Model, forms_of
from coopbench.baselines.learners.modules import layers_of
from coopbench.baselines.learners.off_policy import (
    Replay,
    check_replay,
    first_update,
    shortened,
)
from coopbench.baselines.learners.row_learner import RowLearner
from coopbench.baselines.learners.torch_tools import descend, torch_apart
from coopbench.baselines.networks.network import Network
from coopbench_envs.parameters import between

LEARNERS = {
    "maddpg": "deterministic policy gradients, central critics, networks for each agent",
    "maddpg_shared": "deterministic policy gradients, central critic, shared networks",
}


class Params(NamedTuple):
    """Hyperparameters; steps are those of the environment, all lanes together."""

    learning_rate: h.LearningRate = 1e-3
    lanes: h.Lanes = 8
    buffer_size: Annotated[int, between(1, h.MANY, "steps in the replay memory")] = 100_000
    batch_size: Annotated[int, between(1, 65_536, "steps of a gradient step")] = 256
    warmup: h.Warmup = 1000
    train_every: h.TrainEvery = 64
    updates: h.Updates = 3
    gamma: h.Gamma = 0.99
    tau: h.Tau = 0.01
    exploration: Annotated[
        float, between(0, 1, "deviation of noise on actions, or share of random choices")
    ] = 0.1
    temperature: Annotated[
        float, between(0, 100, "temperature of the Gumbel softmax", above=True)
    ] = 1.0
    regularisation: Annotated[float, between(0, 10, "weight of squared outputs of actors")] = 1e-3
    max_grad_norm: h.NormOfEach = 10.0
    time_limit: h.TimeLimit = "bootstrap"
    anneal: h.Anneal = 0
    layers: h.Layers = "64x64"
    activation: h.Activation = "relu"
    history: h.History = 1
    scale_observations: h.ScaleObservations = True
    scale_rewards: h.ScaleRewards = True
    seat_number: h.SeatNumber = True
    reward: h.Reward = "own"
    partners: h.Partners = ()


class MADDPG(RowLearner):
    """MADDPG for all seats of a game, with a model per agent or one that all agents share."""

    def __init__(self, training: Training) -> None:
        super().__init__(training)
        params = self._params
        forms = forms_of(self._rows)
        check_replay(params, forms, 1, params.lanes, self._rows.engine.spec.id)
        self._replay = Replay(params.buffer_size, forms)
        with torch_apart(self._numbers):
            self._models = [Model(self._rows, seats, params) for seats in self._rows.groups]

    def network(self) -> Network:
        """Return the actions of the actors, or their best choices, as a network."""
        layers = [model.networks["actor"].layers for model in self._models]
        head = "argmax" if self._rows.discrete else "tanh"
        return self._rows.network(layers_of(layers), self._params.activation, head)

    def parts(self) -> dict[str, Part]:
        """Return the models and the replay."""
        return {**numbered(self._models), "replay": self._replay}

    def advance(self) -> list[dict[str, float]]:
        """Play one step in all lanes, and update all models when it is time."""
        params = self._params
        with torch.no_grad():
            self._play()
        if self.steps <= params.warmup or self.steps % params.train_every:
            return []
        reports = []
        for _ in range(params.updates):
            batch = Batch(**self._replay.sample(params.batch_size))
            reports += [self._update(model, batch) for model in self._models]
            for model in self._models:
                model.follow(params.tau)
        return reports

    def _play(self) -> None:
        """Play one step in all lanes and store it."""
        rows, params = self._rows, self._params
        control = rows.engine.control
        learning = rows.learning()
        acted = learning & control.alive
        step = {
            "inputs": rows.observe(),
            "legal": rows.legal(),
            "taught": learning,
            "acted": acted,
        }
        seen = zip(self._models, rows.cut(step["inputs"]), rows.cut(step["legal"]), strict=True)
        moved = rows.step(rows.whole([self._explore(*parts) for parts in seen]))
        step |= {
            "actions": rows.played() * acted[:, :, None],
            "rewards": moved.rewards,
            "following": moved.following,
            "following_legal": moved.legal,
            "following_alive": moved.alive & learning,
            "ended": moved.over & ~moved.by_time,
        }
        self._replay.add(step)
        earned = map(rows.cut, (moved.rewards, moved.done, moved.valid))
        for model, *part_of in zip(self._models, *earned, strict=True):
            model.rewards(*part_of)
        self.steps += params.lanes

    def _explore(self, model: Model, inputs: np.ndarray, legal: np.ndarray) -> np.ndarray:
        """Return actions with noise, at the beginning random ones."""
        warm, spread = self.steps < self._params.warmup, self._params.exploration
        if not self._rows.discrete:
            if warm:
                return np.asarray(2.0 * torch.rand(len(inputs), self._rows.outputs) - 1.0)
            outputs = model.outputs(torch.from_numpy(inputs).clone())
            return np.asarray(torch.tanh(outputs) + spread * torch.randn_like(outputs))
        allowed = torch.from_numpy(legal).clone()
        random = torch.where(allowed, torch.rand(allowed.shape), -1.0).argmax(dim=1)
        if warm:
            return np.asarray(random)
        outputs = model.outputs(torch.from_numpy(inputs).clone())
        drawn = model.actions(outputs, allowed, noise=True).argmax(dim=1)
        choices: np.ndarray = torch.where(torch.rand(len(inputs)) < spread, random, drawn).numpy()
        return choices

    def _update(self, model: Model, batch: Batch) -> dict[str, float]:
        """Make one gradient step of a model's critic and actor; return a report."""
        params, seats = self._params, model.seats
        unit = model.rewards.deviation if params.scale_rewards else 1.0
        with torch.no_grad():
            following = self._following(batch)[:, None].expand(-1, len(seats), -1, -1)
            later = model.values(batch.following, following, target=True)
            goes_on = params.gamma * (~batch.ended)[:, None]
            aims = batch.rewards[:, seats] / unit + goes_on * later
        played = batch.actions[:, None].expand(-1, len(seats), -1, -1)
        values = model.values(batch.inputs, played)
        critic_loss = _mean((values - aims) ** 2, batch.taught[:, seats])
        self._descend(model, "critic", critic_loss)

        outputs = model.outputs(batch.inputs[:, seats])
        instead = played.clone()
        places = torch.arange(len(seats))
        instead[:, places, seats] = model.actions(outputs, batch.legal[:, seats], noise=True)
        gain = model.values(batch.inputs, instead)
        # Outputs near zero keep tanh and softmax where they have a gradient.
        penalty = params.regularisation * (outputs**2).mean(dim=-1)
        actor_loss = _mean(penalty - gain, batch.acted[:, seats])
        self._descend(model, "actor", actor_loss)
        return {
            "critic_loss": float(critic_loss.detach()),
            "actor_loss": float(actor_loss.detach()),
        }

    def _following(self, batch: Batch) -> torch.Tensor:
        """Return what the target actors of all seats do after the step, zeros of the dead."""
        actions = torch.zeros_like(batch.actions)
        for model in self._models:
            outputs = model.outputs(batch.following[:, model.seats], target=True)
            legal = batch.following_legal[:, model.seats]
            actions[:, model.seats] = model.actions(outputs, legal, noise=False)
        return actions * batch.following_alive[:, :, None]

    def _descend(self, model: Model, name: str, loss: torch.Tensor) -> None:
        """Make a gradient step of one network."""
        optimiser = model.optimisers[name]
        if self._params.anneal:
            left = max(0.0, 1.0 - self.steps / self._params.anneal)
            for group in optimiser.param_groups:
                group["lr"] = self._params.learning_rate * left
        descend(optimiser, loss, self._params.max_grad_norm, f"the {name}")


def _mean(values: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Return the mean of the values that count; 0 if none does."""
    return (values * counted).sum() / counted.sum().clamp(min=1)


def entry(name: str) -> LearnerEntry:
    """Return the registry's entry of a variant."""
    return LearnerEntry(name, MADDPG, LEARNERS[name], "off_policy", Params, shortened, first_update)
