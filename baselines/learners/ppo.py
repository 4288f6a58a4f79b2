"""Proximal policy optimisation (Schulman et al. 2017) of a model from its rollouts.

Actors without memory are perceptrons, others are recurrent; the critic has the same kind of
network. A rollout is cut into pieces, where memory begins as it was when the piece was played: at
the first step of an episode as zeros. Without memory a piece is one step.
"""

from typing import Any

import numpy as np
import torch

from coopbench.baselines.errors import Diverged
from coopbench.baselines.learners.checkpoint import Part
from coopbench.baselines.learners.critics import ValueScale
from coopbench.baselines.learners.experience import Rows
from coopbench.baselines.learners.modules import body_of
from coopbench.baselines.learners.rollout import Pieces, Rollout, advantages
from coopbench.baselines.learners.row_learner import RewardScale
from coopbench.baselines.learners.torch_tools import descend

__all__ = ["PPO"]

_CHUNK = 16  # steps that gradients go back in networks with memory, unless ``chunk`` says otherwise
_HALF_LOG_TAU = 0.5 * float(np.log(2.0 * np.pi))


class Actor(torch.nn.Module):
    """Chooses actions: a normal distribution of their numbers, or one of the legal choices."""

    def __init__(self, rows: Rows, params: Any) -> None:
        super().__init__()
        self.discrete, self._squash = rows.discrete, params.squash and not rows.discrete
        self.body = body_of(rows.inputs, rows.outputs, params, 0.01)
        if not self.discrete:
            self.log_std = torch.nn.Parameter(torch.full((rows.outputs,), params.log_std))

    def _outputs(
        self, inputs: torch.Tensor, legal: torch.Tensor, memory: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return means, or logarithms of probabilities, and new memory."""
        outputs, memory = self.body.run(inputs, memory)
        if not torch.isfinite(outputs).all():
            raise Diverged("An output of a policy is not finite.")
        if self.discrete:
            outputs = outputs.masked_fill(~legal, torch.finfo(outputs.dtype).min)
            return torch.log_softmax(outputs, dim=-1), memory
        return torch.tanh(outputs) if self._squash else outputs, memory

    def act(
        self, inputs: torch.Tensor, legal: torch.Tensor, memory: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Draw actions of one step of all rows; return them, their log-probabilities and memory."""
        outputs, memory = self._outputs(inputs[None], legal[None], memory)
        if self.discrete:
            actions = torch.multinomial(outputs[0].exp(), 1)[:, 0]
        else:
            noise = torch.randn_like(outputs[0])
            actions = outputs[0] + self.log_std.exp() * noise
        return actions, self._log_probs(outputs, actions[None])[0], memory

    def judge(
        self,
        inputs: torch.Tensor,
        legal: torch.Tensor,
        memory: torch.Tensor,
        actions: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log-probabilities of actions (steps, rows) and entropies, in nats."""
        outputs, _ = self._outputs(inputs, legal, memory)
        log_probs = self._log_probs(outputs, actions)
        if self.discrete:
            return log_probs, -(outputs.exp() * outputs).sum(dim=-1)
        entropy = (0.5 + _HALF_LOG_TAU + self.log_std).sum()
        return log_probs, entropy.expand_as(log_probs)

    def _log_probs(self, outputs: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the logarithms of probabilities or densities of actions."""
        if self.discrete:
            return outputs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        apart = (actions - outputs) / self.log_std.exp()
        densities: torch.Tensor = -0.5 * apart**2 - self.log_std - _HALF_LOG_TAU
        return densities.sum(dim=-1)


class PPO:
    """Actor, critic and optimiser of a model, and what it remembers.

    Of the hyperparameters not all learners have ``chunk`` and ``normalise_values``, and they have
    either ``minibatches`` or, as the number of rows in each, ``batch_size``.
    """

    def __init__(self, rows: Rows, seats: int, params: Any, rollout: Rollout) -> None:
        view = rollout.views.shape[2]
        self.actor, self.critic = Actor(rows, params), body_of(view, 1, params, 1.0)
        self._params, chunk = params, getattr(params, "chunk", _CHUNK)
        self._chunk = chunk if params.recurrent else 1
        self.module = torch.nn.ModuleDict({"actor": self.actor, "critic": self.critic})
        groups = [{"params": module.parameters()} for module in self.module.values()]
        rate = params.learning_rate
        self.optimiser = torch.optim.Adam(groups, lr=rate, eps=1e-5, fused=True)
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
            "optimiser": self.optimiser,
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
        # Copies, because torch aligns them and the bits of a product may depend on that.
        inputs, legal = inputs.clone(), legal.clone()
        views = inputs if views is None else views
        self.memory = [memory * ~rollout.first[at][:, None] for memory in self.memory]
        rollout.actor_memory[at], rollout.critic_memory[at] = self.memory
        rollout.inputs[at], rollout.legal[at], rollout.views[at] = inputs, legal, views
        actions, log_probs, actor_memory = self.actor.act(inputs, legal, self.memory[0])
        values, critic_memory = self.critic.run(views[None], self.memory[1])
        rollout.actions[at], rollout.log_probs[at] = actions, log_probs
        rollout.estimates[at] = values[0, :, 0]
        self.memory = [actor_memory, critic_memory]
        return actions.numpy()

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
        acting = gains[rollout.acted]
        gains = (gains - acting.mean()) / (acting.std(correction=0) + 1e-8)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        report = self._epochs(gains, scale.scaled(targets))
        spread = float(targets[rollout.taught].var(correction=0))
        if spread > 0.0:
            error = float((targets - estimates)[rollout.taught].var(correction=0))
            report["explained_variance"] = 1.0 - error / spread
        return report | {"learning_rate": rate}

    def _epochs(self, gains: torch.Tensor, targets: torch.Tensor) -> dict[str, float]:
        """Make all gradient steps of an update; return the mean report of the last epoch."""
        params = self._params
        reports: list[dict[str, float]] = []
        starts, rows, lengths = self.rollout.pieces(self._chunk)
        if hasattr(params, "batch_size"):
            parts = -(-int(lengths.sum()) // params.batch_size)
        else:
            parts = params.minibatches
        for _ in range(params.epochs):
            reports = []
            order = torch.randperm(len(starts))
            for some in order.tensor_split(min(parts, len(order))):
                times = torch.arange(int(lengths[some].max()))[:, None]
                filled = times < lengths[some]
                places = torch.where(filled, starts[some] + times, starts[some]), rows[some]
                pieces = Pieces(self.rollout, places, filled, gains[places], targets[places])
                reports.append(self._gradient_step(pieces))
            kl = float(np.mean([report["approx_kl"] for report in reports]))
            if params.target_kl and kl > 1.5 * params.target_kl:
                break
        return {name: float(np.mean([r[name] for r in reports])) for name in reports[0]}

    def _gradient_step(self, pieces: Pieces) -> dict[str, float]:
        """Make one gradient step; return its report."""
        params, (policy_loss, report) = self._params, self._policy_loss(pieces)
        values = self.critic.run(pieces.of("views"), pieces.memory("critic_memory"))[0][..., 0]
        value_loss = pieces.mean((values - pieces.targets) ** 2, "taught")
        loss = policy_loss + params.value * value_loss
        descend(self.optimiser, loss, params.max_grad_norm)
        return report | {"value_loss": float(value_loss.detach())}

    def _policy_loss(self, pieces: Pieces) -> tuple[torch.Tensor, dict[str, float]]:
        """Return the clipped loss of the actor with its entropy bonus, and a report."""
        params, memory = self._params, pieces.memory("actor_memory")
        seen = pieces.of("inputs"), pieces.of("legal"), memory, pieces.of("actions")
        log_probs, entropies = self.actor.judge(*seen)
        change = log_probs - pieces.of("log_probs")
        ratio = change.exp()
        clipped = ratio.clamp(1.0 - params.clip, 1.0 + params.clip)
        gain = torch.minimum(ratio * pieces.gains, clipped * pieces.gains)
        policy_loss, entropy = -pieces.mean(gain, "acted"), pieces.mean(entropies, "acted")
        with torch.no_grad():
            far = ((ratio - 1.0).abs() > params.clip).float()
            report = {
                "policy_loss": float(policy_loss),
                "entropy": float(entropy),
                "approx_kl": float(pieces.mean(ratio - 1.0 - change, "acted")),
                "clip_fraction": float(pieces.mean(far, "acted")),
            }
        return policy_loss - params.entropy * entropy, report
