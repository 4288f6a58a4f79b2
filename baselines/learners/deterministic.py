"""Deterministic actors, critics of everything, and the steps that MADDPG learns them from."""

import copy
from typing import Any, NamedTuple

import numpy as np
import torch

from coopbench.baselines.errors import Diverged
from coopbench.baselines.learners.checkpoint import Part
from coopbench.baselines.learners.experience import Rows
from coopbench.baselines.learners.modules import Perceptron
from coopbench.baselines.learners.off_policy import Forms
from coopbench.baselines.learners.row_learner import RewardScale
from coopbench.baselines.learners.torch_tools import layer_sizes, optimizer_of

__all__ = ["Batch", "Model", "forms_of"]


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


def forms_of(rows: Rows) -> Forms:
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


class Model:
    """Actor, critic and their target networks of a model."""

    def __init__(self, rows: Rows, seats: np.ndarray, params: Any) -> None:
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
            name: optimizer_of([network], params.learning_rate)
            for name, network in self.networks.items()
        }
        self.rewards = RewardScale(params.lanes * len(seats), 0.0)  # of rewards, not of their sums

    def outputs(self, inputs: torch.Tensor, *, target: bool = False) -> torch.Tensor:
        """Return what the actor says to inputs (..., inputs): numbers, or one for every choice."""
        networks = self.targets if target else self.networks
        outputs: torch.Tensor = networks["actor"](inputs)
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
        values: torch.Tensor = networks["critic"](torch.cat(parts, dim=2))
        return values[..., 0]

    def follow(self, tau: float) -> None:
        """Move the target networks a share ``tau`` of the way to the networks."""
        with torch.no_grad():
            for name, network in self.networks.items():
                followers = self.targets[name].parameters()
                for parameter, follower in zip(network.parameters(), followers, strict=True):
                    follower.lerp_(parameter, tau)

    def parts(self) -> dict[str, Part]:
        """Return networks, targets, optimisers, and what rewards are scaled by."""
        networks, targets = map(torch.nn.ModuleDict, (self.networks, self.targets))
        optimisers = {f"optimiser.{name}": one for name, one in self.optimisers.items()}
        return {"model": networks, "target": targets, "rewards": self.rewards, **optimisers}
