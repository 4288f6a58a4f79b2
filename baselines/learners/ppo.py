"""Proximal policy optimisation (Schulman et al. 2017) of a model from its rollouts.

Actors without memory are perceptrons, others are recurrent; the critic has the same kind of
network. A rollout is cut into pieces, where memory begins as it was when the piece was played: at
the first step of an episode as zeros. Without memory a piece is one step.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from coopbench.baselines.errors import Diverged
from coopbench.baselines.learners.checkpoint import Part
from coopbench.baselines.learners.critics import ValueScale
from coopbench.baselines.learners.distributions import Choices, Normal
from coopbench.baselines.learners.experience import Rows
from coopbench.baselines.learners.modules import body_of
from coopbench.baselines.learners.rollout import Pieces, Rollout, advantages
from coopbench.baselines.learners.row_learner import RewardScale
from coopbench.baselines.learners.torch_tools import Descent

__all__ = ["PPO"]

_CHUNK = 16  # steps that gradients go back in networks with memory, unless ``chunk`` says otherwise

Distributions = Choices | Normal
Judged = Callable[[np.ndarray, np.ndarray], None]


class Actor(torch.nn.Module):
    """Chooses actions: a normal distribution of their numbers, or one of the legal choices."""

    def __init__(self, rows: Rows, params: Any) -> None:
        super().__init__()
        self.discrete, self._squash = rows.discrete, params.squash and not rows.discrete
        self.body = body_of(rows.inputs, rows.outputs, params, 0.01)
        if not self.discrete:
            self.log_std = torch.nn.Parameter(torch.full((rows.outputs,), params.log_std))

    def act(
        self, inputs: torch.Tensor, legal: torch.Tensor, memory: torch.Tensor
    ) -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
        """Draw actions of one step of all rows; return them, their log-probabilities and memory."""
        outputs, memory = self.body.run(inputs[None], memory)
        drawn = self._distributions(outputs[0], legal)
        actions = drawn.draw()
        return actions, drawn.log_probs(actions), memory

    def fit(self, pieces: Pieces) -> "tuple[Distributions, Judged]":
        """Return the distributions at all steps, and what writes gradients from derivatives.

        These are derivatives by the logarithms of the probabilities of the pieces' actions, and by
        the entropies, (steps, pieces).
        """
        outputs, backward = self.body.fit(pieces.inputs, pieces.actor_memory[0])
        drawn = self._distributions(outputs, pieces.legal)

        def judged(by_log_probs: np.ndarray, by_entropies: np.ndarray) -> None:
            gradient, of_std = drawn.gradients(pieces.actions.numpy(), by_log_probs, by_entropies)
            if of_std is not None:
                self.log_std.grad.copy_(torch.from_numpy(of_std))  # type: ignore[union-attr]
            if self._squash:
                gradient *= 1.0 - drawn.outputs**2
            backward(_aligned(gradient))

        return drawn, judged

    def _distributions(self, outputs: torch.Tensor, legal: torch.Tensor) -> Distributions:
        """Return the distributions of actions that outputs of the network mean."""
        numbers = outputs.numpy()
        if not np.isfinite(numbers).all():
            raise Diverged("An output of a policy is not finite.")
        if self.discrete:
            return Choices.of(numbers, legal.numpy())
        return Normal(np.tanh(numbers) if self._squash else numbers, self.log_std.detach().numpy())


class PPO:
    """Actor, critic and optimiser of a model, and what it remembers.

    Of the hyperparameters not all learners have ``chunk`` and ``normalise_values``, and they have
    either ``minibatches`` or, as the number of rows in each, ``batch_size``. Those with
    ``batch_size`` follow Stable-Baselines3: gains are in units of each minibatch, means are over
    all of its rows, and actor and critic together have one bound on the norm of the gradient.
    """

    def __init__(self, rows: Rows, seats: int, params: Any, rollout: Rollout) -> None:
        self._as_library = hasattr(params, "batch_size")
        if self._as_library and params.batch_size > params.rollout * seats:
            raise ValueError(
                f"batch_size was {params.batch_size} and rollout {params.rollout}, which makes "
                f"{params.rollout * seats} rows; allowed: a batch_size up to that."
            )
        view = rollout.views.shape[2]
        self.actor, self.critic = Actor(rows, params), body_of(view, 1, params, 1.0)
        self._params, chunk = params, getattr(params, "chunk", _CHUNK)
        self._chunk = chunk if params.recurrent else 1
        self.module = torch.nn.ModuleDict({"actor": self.actor, "critic": self.critic})
        groups = [self.module] if self._as_library else list(self.module.values())
        self._descent = Descent(groups, params.learning_rate, params.max_grad_norm)
        self.rollout = rollout
        self.rewards = RewardScale(params.lanes * seats, params.gamma)
        shape = params.lanes * seats, self.critic.hidden
        self.memory = [torch.zeros(shape) for _ in self.module]
        self.value_scale = ValueScale(used=getattr(params, "normalise_values", False))

    @property
    def layers(self) -> list[Any]:
        """Return the layers of the actor in their order."""
        return self.actor.body.layers

    def parts(self) -> dict[str, Part]:
        """Return networks, optimiser, memory, the rollout, and the scales of values and rewards."""
        memory = zip(("actor", "critic"), self.memory, strict=True)
        return {
            "model": self.module,
            "optimiser": self._descent.optimiser,
            "values": self.value_scale,
            "rewards": self.rewards,
            "rollout": self.rollout,
            **{f"memory.{name}": values for name, values in memory},
        }

    def values(self, views: torch.Tensor) -> torch.Tensor:
        """Return what the critic says now to rows (rows, size), without remembering it."""
        return self.critic.run(views[None], self.memory[1])[0][0, :, 0]

    def act(
        self, at: int, inputs: torch.Tensor, legal: torch.Tensor, views: torch.Tensor | None
    ) -> np.ndarray:
        """Draw the actions of step ``at`` and store it; return them.

        Without ``views`` the critic sees the inputs.
        """
        rollout = self.rollout
        # The rollout is aligned, as the bits of a product may depend on that; what is given is not.
        inputs, legal = rollout.inputs[at].copy_(inputs), rollout.legal[at].copy_(legal)
        views = rollout.views[at].copy_(inputs if views is None else views)
        if self._params.recurrent:
            self.memory = [memory * ~rollout.first[at][:, None] for memory in self.memory]
            rollout.actor_memory[at], rollout.critic_memory[at] = self.memory
        actions, log_probs, actor_memory = self.actor.act(inputs, legal, self.memory[0])
        values, critic_memory = self.critic.run(views[None], self.memory[1])
        rollout.actions[at] = torch.from_numpy(actions)
        rollout.log_probs[at] = torch.from_numpy(log_probs)
        rollout.estimates[at] = values[0, :, 0]
        self.memory = [actor_memory, critic_memory]
        return actions

    def add_following(
        self, rewards: torch.Tensor, views: torch.Tensor, by_time: torch.Tensor
    ) -> None:
        """Add to rewards what follows where time alone ended a row; ``views`` show it."""
        values = self.value_scale.unscaled(self.values(views))
        rewards += self._params.gamma * values * by_time

    def update(self, views: torch.Tensor, rate: float) -> dict[str, float]:
        """Learn from a full rollout, after which the critic sees ``views``; return a report."""
        params, rollout, scale = self._params, self.rollout, self.value_scale
        with torch.no_grad():
            following = scale.unscaled(self.values(views))
        estimates = scale.unscaled(rollout.estimates)
        earned = (rollout.rewards, rollout.over, estimates)
        gains = advantages(*earned, following, params.gamma, params.gae_lambda)
        targets = gains + estimates
        if not torch.isfinite(targets).all():
            raise Diverged("A value is not finite.")
        scale.add(targets[rollout.taught])
        if not self._as_library:
            acting = gains[rollout.acted]
            gains = (gains - acting.mean()) / (acting.std(correction=0) + 1e-8)
        for group in self._descent.optimiser.param_groups:
            group["lr"] = rate
        report = self._epochs(gains, scale.scaled(targets))
        spread = float(targets[rollout.taught].var(correction=0))
        if spread > 0.0:
            error = float((targets - estimates)[rollout.taught].var(correction=0))
            report["explained_variance"] = 1.0 - error / spread
        return report | {"learning_rate": rate}

    def _epochs(self, gains: torch.Tensor, targets: torch.Tensor) -> dict[str, float]:
        """Make all gradient steps of an update; return the mean report of the last epoch."""
        params, places = self._params, self.rollout.pieces(self._chunk)
        if self._as_library:
            parts = -(-int(places.lengths.sum()) // params.batch_size)
        else:
            parts = params.minibatches
        for _ in range(params.epochs):
            reports: list[dict[str, float]] = []
            for pieces in self.rollout.minibatches(places, parts, gains, targets):
                reports.append(self._gradient_step(pieces))
                if self._is_far(reports[-1]):
                    return _means(reports)
        return _means(reports)

    def _gradient_step(self, pieces: Pieces) -> dict[str, float]:
        """Make one gradient step, unless the policy has come too far; return its report."""
        params, steps = self._params, self._descent
        steps.begin()
        drawn, judged = self.actor.fit(pieces)
        outputs, valued = self.critic.fit(pieces.views, pieces.critic_memory[0])
        values, entropies = outputs[..., 0].numpy(), drawn.entropies()
        gains, of_actor, of_critic = self._weighted(pieces)
        change = drawn.log_probs(pieces.actions.numpy()) - pieces.log_probs.numpy()
        ratio = np.exp(change)
        far = np.abs(ratio - 1.0) > params.clip
        gain, clipped = ratio * gains, ratio.clip(1.0 - params.clip, 1.0 + params.clip) * gains
        errors = values - pieces.targets.numpy()
        report = {
            "policy_loss": -float((of_actor * np.minimum(gain, clipped)).sum()),
            "entropy": float((of_actor * entropies).sum()),
            "approx_kl": float((of_actor * (ratio - 1.0 - change)).sum()),
            "clip_fraction": float((of_actor * far).sum()),
            "value_loss": float((of_critic * errors**2).sum()),
        }
        if not self._is_far(report):
            judged(-of_actor * np.where(gain <= clipped, gain, 0.0), -params.entropy * of_actor)
            valued(_aligned(2.0 * params.value * of_critic * errors)[..., None])
            loss = report["policy_loss"] - params.entropy * report["entropy"]
            steps.step(loss + params.value * report["value_loss"])
        return report

    def _weighted(self, pieces: Pieces) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the gains of a minibatch, and the weights of its rows for actor and critic."""
        gains, acted, taught = (
            values.numpy() for values in (pieces.gains, pieces.acted, pieces.taught)
        )
        if not self._as_library:
            return gains, _shares(acted, acted), _shares(taught, taught)
        acting, of_each = int(acted.sum()), _shares(acted, acted)
        if acting > 1:
            gains = gains - (of_each * gains).sum()
            gains /= np.sqrt((of_each * gains**2).sum() * acting / (acting - 1)) + 1e-8
        counted = acted | taught
        return gains, _shares(acted, counted), _shares(taught, counted)

    def _is_far(self, report: dict[str, float]) -> bool:
        """Return whether the policy has come so far that the update ends."""
        target: float = self._params.target_kl
        return target > 0.0 and report["approx_kl"] > 1.5 * target


def _aligned(gradient: np.ndarray) -> torch.Tensor:
    """Return a copy that torch has aligned, because the bits of a product may depend on that."""
    return torch.from_numpy(gradient).clone()


def _shares(which: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Return the weights of a mean over all ``counted`` rows, 0 outside of ``which``."""
    weights: np.ndarray = which / np.float32(max(int(counted.sum()), 1))
    return weights


def _means(reports: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of every number over all reports."""
    return {name: float(np.mean([report[name] for report in reports])) for name in reports[0]}
