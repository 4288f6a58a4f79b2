"""MADDPG (Lowe et al. 2017): actors of what each agent observes, critics of everything.

The critic of a seat judges what all agents observe and do. Its target is

    y = r + gamma * Q'(o', a'),    a'[j] = mu'[j](o'[j]),

with target networks that follow slowly, and y = r after the end of the game. An actor follows the
gradient of its critic where its own action is replaced by that of its present policy. Choices are
one-hot vectors: drawn with Gumbel noise, through which the gradient passes as through a softmax
(straight-through, Jang et al. 2017). Actions of dead agents are zeros; their rows teach the critic
what their team earns later, and no actor.
"""

import copy
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch

from coopbench.baselines.errors import Diverged
from coopbench.baselines.learner import (
    TERMINAL,
    LearnerEntry,
    Partners,
    Reward,
    SeatNumber,
    Share,
    TimeLimit,
)
from coopbench.baselines.learners.actors import Perceptron, linear_layers
from coopbench.baselines.learners.checkpoint import Part, numbered
from coopbench.baselines.learners.experience import Rows
from coopbench.baselines.learners.off_policy import (
    MANY,
    Forms,
    Replay,
    check_replay,
    first_update,
    shortened,
)
from coopbench.baselines.learners.row_learner import RewardScale, RowLearner
from coopbench.baselines.learners.torch_tools import layer_sizes, torch_apart
from coopbench.baselines.networks.network import ACTIVATIONS, NetworkPolicy
from coopbench_envs.parameters import Allowed, between, one_of

LEARNERS = {
    "maddpg": "deterministic policy gradients, central critics, networks for each agent",
    "maddpg_shared": "deterministic policy gradients, central critic, shared networks",
}


class Params(NamedTuple):
    """Hyperparameters; steps are those of the environment, all lanes together."""

    learning_rate: Annotated[float, between(0, 1, "step size of Adam", above=True)] = 1e-3
    lanes: Annotated[int, between(1, 4096, "games played at once")] = 8
    buffer_size: Annotated[int, between(1, MANY, "steps in the replay memory")] = 100_000
    batch_size: Annotated[int, between(1, 65_536, "steps of a gradient step")] = 256
    warmup: Annotated[int, between(0, MANY, "initial random steps without updates")] = 1000
    train_every: Annotated[int, between(1, MANY, "steps between updates")] = 64
    updates: Annotated[int, between(1, 10_000, "gradient steps per update of a model")] = 3
    gamma: Annotated[float, between(0, 1, "discount factor")] = 0.99
    tau: Annotated[float, between(0, 1, "update rate of target networks", above=True)] = 0.01
    exploration: Annotated[
        float, between(0, 1, "std of noise on actions in [-1, 1]; share of random choices")
    ] = 0.1
    temperature: Annotated[float, between(0, 100, "of the Gumbel softmax", above=True)] = 1.0
    regularisation: Annotated[float, between(0, 10, "weight of squared outputs of actors")] = 1e-3
    max_grad_norm: Annotated[
        float, between(0, 1e9, "largest norm of each gradient", above=True)
    ] = 10.0
    time_limit: TimeLimit = "bootstrap"
    anneal: Annotated[int, between(0, 10**12, "steps to learning rate 0; 0: constant")] = 0
    layers: Annotated[str, Allowed("widths of the hidden layers")] = "64x64"
    activation: Annotated[str, one_of(ACTIVATIONS, "activation of hidden layers")] = "relu"
    history: Annotated[int, between(1, 64, "observations that a network gets")] = 1
    scale_observations: Annotated[bool, Allowed("scale bounded features to [-1, 1]")] = True
    scale_rewards: Annotated[bool, Allowed("divide by the std of rewards")] = True
    seat_number: SeatNumber = True
    reward: Reward = "own"
    partners: Partners = ()
    share: Share = 0.0


class Batch(NamedTuple):
    """Steps of whole lanes as tensors; everybody's rows."""

    inputs: torch.Tensor  # (steps, agents, inputs) float32
    legal: torch.Tensor  # (steps, agents, choices) bool; none for Box actions
    actions: torch.Tensor  # (steps, agents, outputs) float32, choices as one-hot vectors
    rewards: torch.Tensor  # (steps, agents) float32
    following: torch.Tensor  # as inputs, after the step
    following_legal: torch.Tensor
    following_alive: torch.Tensor  # (steps, agents) bool
    ended: torch.Tensor  # (steps,) bool: nothing follows
    taught: torch.Tensor  # (steps, agents) bool: the learner had the seat
    acted: torch.Tensor  # and its agent was alive


def _forms(rows: Rows) -> Forms:
    """Return what the replay holds of a step of one lane, by the names of ``Batch``."""
    agents, choices = rows.agents, rows.outputs if rows.discrete else 0
    shapes = {
        "inputs": (agents, rows.inputs),
        "legal": (agents, choices),
        "actions": (agents, rows.outputs),
        "rewards": (agents,),
        "following": (agents, rows.inputs),
        "following_legal": (agents, choices),
        "following_alive": (agents,),
        "ended": (),
        "taught": (agents,),
        "acted": (agents,),
    }
    numbers = ("inputs", "actions", "rewards", "following")
    return {n: (s, torch.float32 if n in numbers else torch.bool) for n, s in shapes.items()}


class _Model:
    """Actor, critic and their target networks of a model."""

    def __init__(self, rows: Rows, seats: np.ndarray, params: Params) -> None:
        self.seats = torch.from_numpy(seats)
        hidden = layer_sizes(params.layers)
        numbers = len(seats) if len(seats) > 1 else 0  # a shared critic is told the seat
        joint = rows.agents * (rows.inputs + rows.outputs) + numbers
        self._discrete, self._temperature = rows.discrete, params.temperature
        self.networks = {
            "actor": Perceptron([rows.inputs, *hidden, rows.outputs], params.activation),
            "critic": Perceptron([joint, *hidden, 1], params.activation),
        }
        self.targets = copy.deepcopy(self.networks)
        self.optimisers = {
            name: torch.optim.Adam(network.module.parameters(), params.learning_rate, fused=True)
            for name, network in self.networks.items()
        }
        self.rewards = RewardScale(params.lanes * len(seats), 0.0)  # of rewards, not of their sums

    def outputs(self, inputs: torch.Tensor, *, target: bool = False) -> torch.Tensor:
        """Return what the actor says to inputs (..., inputs): numbers, or one for every choice."""
        networks = self.targets if target else self.networks
        outputs: torch.Tensor = networks["actor"].module(inputs)
        if not torch.isfinite(outputs).all():
            raise Diverged("An output of an actor is not finite.")
        return outputs

    def actions(self, outputs: torch.Tensor, legal: torch.Tensor, *, noise: bool) -> torch.Tensor:
        """Return the actions that outputs mean; choices as one-hot vectors with a gradient."""
        if not self._discrete:
            return torch.tanh(outputs)
        logits = outputs.masked_fill(~legal, torch.finfo(outputs.dtype).min)
        if noise:
            drawn = torch.rand_like(outputs).clamp(1e-20, 1.0)
            logits = torch.where(legal, logits - (-drawn.log()).clamp(min=1e-20).log(), logits)
        hard = torch.nn.functional.one_hot(logits.argmax(dim=-1), logits.shape[-1])
        soft = torch.softmax(logits / self._temperature, dim=-1)
        return hard + (soft - soft.detach())

    def values(
        self, inputs: torch.Tensor, actions: torch.Tensor, *, target: bool = False
    ) -> torch.Tensor:
        """Return values (steps, seats) of inputs (steps, agents, inputs).

        ``actions`` are (steps, seats, agents, outputs): what each seat judges. A critic of one seat
        sees agents in their order; one of all seats sees the seat first that it judges for, then
        those with higher numbers, then the others, and the number of the seat.
        """
        steps, seats, agents = actions.shape[:3]
        if seats == 1:
            parts = [inputs.flatten(1)[:, None], actions.flatten(2)]
        else:
            judging = torch.arange(seats)[:, None]
            order = (judging + torch.arange(agents)) % agents
            parts = [inputs[:, order].flatten(2), actions[:, judging, order].flatten(2)]
            parts.append(torch.eye(seats).expand(steps, -1, -1))
        networks = self.targets if target else self.networks
        values: torch.Tensor = networks["critic"].module(torch.cat(parts, dim=2))
        return values[..., 0]

    def follow(self, tau: float) -> None:
        """Move the target networks a share ``tau`` of the way to the networks."""
        with torch.no_grad():
            for name, network in self.networks.items():
                followers = self.targets[name].module.parameters()
                for parameter, follower in zip(network.module.parameters(), followers, strict=True):
                    follower.lerp_(parameter, tau)

    def parts(self) -> dict[str, Part]:
        """Return networks, targets, optimisers, and what rewards are scaled by."""
        networks, targets = (
            torch.nn.ModuleDict({name: network.module for name, network in some.items()})
            for some in (self.networks, self.targets)
        )
        optimisers = {f"optimiser.{name}": one for name, one in self.optimisers.items()}
        return {"model": networks, "target": targets, "rewards": self.rewards, **optimisers}


class MADDPG(RowLearner):
    """MADDPG for all seats of a game, with a model per agent or one that all agents share."""

    def __init__(
        self, name: str, env_id: str, parameters: Mapping[str, Any], seed: int, params: Params
    ) -> None:
        super().__init__(name, env_id, parameters, seed, params)
        forms = _forms(self._rows)
        check_replay(params, forms, 1, params.lanes, self._rows.engine.spec.id)
        self._replay = Replay(params.buffer_size, forms)
        with torch_apart(self._numbers):
            self._models = [_Model(self._rows, seats, params) for seats in self._rows.groups]

    def policy(self) -> NetworkPolicy:
        """Return the actions of the actors, or their best choices, as a network."""
        layers = [model.networks["actor"].layers for model in self._models]
        head = "argmax" if self._rows.discrete else "tanh"
        network = self._rows.network(linear_layers(layers), self._params.activation, head)
        return NetworkPolicy(network, self.facts())

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
        step = {
            "inputs": rows.observe(),
            "legal": rows.legal(),
            "taught": rows.learning(),
            "acted": rows.learning() & control.alive,
        }
        alive = control.alive.copy()
        seen = zip(self._models, rows.cut(step["inputs"]), rows.cut(step["legal"]), strict=True)
        moved = rows.step(rows.whole([self._explore(*parts) for parts in seen]))
        lanes = rows.lane_step
        terminal = params.time_limit == TERMINAL
        step |= {
            "actions": rows.played() * alive[:, :, None],
            "rewards": moved.rewards,
            "following": moved.following,
            "following_legal": moved.legal,
            "following_alive": np.where(
                lanes.over[:, None], rows.engine.final_alive, control.alive
            ),
            "ended": lanes.over & (~lanes.truncated | terminal),
        }
        self._replay.add(step)
        earned = map(rows.cut, (moved.rewards, moved.done, moved.valid))
        for model, *part_of in zip(self._models, *earned, strict=True):
            model.rewards(*part_of)
        self.steps += params.lanes

    def _explore(self, model: _Model, inputs: np.ndarray, legal: np.ndarray) -> np.ndarray:
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

    def _update(self, model: _Model, batch: Batch) -> dict[str, float]:
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

    def _descend(self, model: _Model, name: str, loss: torch.Tensor) -> None:
        """Make a gradient step of one network."""
        model.optimisers[name].zero_grad()
        parameters = list(model.networks[name].module.parameters())
        gradients = torch.autograd.grad(loss, parameters)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        norm = torch.nn.utils.clip_grad_norm_(parameters, self._params.max_grad_norm)
        if not torch.isfinite(norm + loss):
            raise Diverged(f"The loss of the {name} or its gradient is not finite.")
        if self._params.anneal:
            left = max(0.0, 1.0 - self.steps / self._params.anneal)
            for group in model.optimisers[name].param_groups:
                group["lr"] = self._params.learning_rate * left
        model.optimisers[name].step()


def _mean(values: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Return the mean of the values that count; 0 if none does."""
    return (values * counted).sum() / counted.sum().clamp(min=1)


def entry(name: str) -> LearnerEntry:
    """Return the registry's entry of a variant."""

    def create(env_id: str, parameters: Mapping[str, Any], seed: int, params: Params) -> MADDPG:
        return MADDPG(name, env_id, parameters, seed, params)

    return LearnerEntry(name, create, LEARNERS[name], "off_policy", Params, shortened, first_update)
