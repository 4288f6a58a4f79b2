"""Models of Stable-Baselines3: its updates, fed from games that are played here.

Games are played here, all lanes at once, because in them agents can die, choices can be illegal and
each agent has its own reward. So the library's models have no environment, and get this package's
experience in place of their buffers.
"""

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.policies import ActorCriticPolicy

from coopbench.baselines.errors import Diverged

__all__ = ["FastTanh", "Masked", "made", "report_of"]

# What the library reports of an update, and the names it has here.
_REPORTED = {
    "train/policy_gradient_loss": "policy_loss",
    "train/value_loss": "value_loss",
    "train/entropy_loss": "entropy",
    "train/approx_kl": "approx_kl",
    "train/clip_fraction": "clip_fraction",
    "train/explained_variance": "explained_variance",
    "train/std": "std",
    "train/learning_rate": "learning_rate",
    "train/actor_loss": "actor_loss",
    "train/critic_loss": "critic_loss",
    "train/ent_coef": "entropy_coefficient",
}


def report_of(model: Any, finite: tuple[str, ...]) -> dict[str, float]:
    """Return what a model has logged of its last update.

    Raises ``Diverged`` if one of the ``finite`` names in it, or a parameter, is not finite.
    """
    logged = model.logger.name_to_value
    report = {name: float(logged[key]) for key, name in _REPORTED.items() if key in logged}
    for name in finite:
        if not np.isfinite(report[name]):
            raise Diverged(f"The {name} is not finite.")
    for name, parameter in model.policy.named_parameters():
        if not torch.isfinite(parameter).all():
            raise Diverged(f"The parameter {name} is not finite.")
    return report


def made(kind: Any, policy: Any, game: tuple[int, Any], params: Any, **more: Any) -> Any:
    """Make a model of the library for a game, which has inputs and an action space."""
    model = kind(
        policy,
        None,  # it has these spaces in place of an environment
        batch_size=params.batch_size,
        learning_rate=params.learning_rate,
        gamma=params.gamma,
        device="cpu",
        _init_setup_model=False,
        **more,
    )
    model.n_envs, (inputs, model.action_space) = 1, game
    model.observation_space = gym.spaces.Box(-np.inf, np.inf, (inputs,), np.float32)
    model._setup_model()
    model.set_logger(Logger(None, []))
    return model


class _Tanh(torch.autograd.Function):
    """Hyperbolic tangent by NumPy."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Return tanh(x)."""
        y = torch.empty_like(x)
        np.tanh(x.numpy(), out=y.numpy())
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        """Return the gradient of x."""
        gradient: torch.Tensor = torch.ops.aten.tanh_backward(gradients[0], *ctx.saved_tensors)
        return gradient


class FastTanh(torch.nn.Module):
    """Hyperbolic tangent in a tenth of torch's time."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return tanh(x)."""
        y: torch.Tensor = _Tanh.apply(x)  # type: ignore[no-untyped-call]
        return y


class Masked(ActorCriticPolicy):
    """The library's policy for choices of which some are illegal.

    Its observations are pairs: the inputs, and the legal choices.
    """

    def _judge(self, seen: Any) -> tuple[torch.Tensor, Any]:
        inputs, legal = seen
        latent, judged = self.mlp_extractor(inputs)
        logits = self.action_net(latent)
        if not torch.isfinite(logits).all():
            raise Diverged("The logit of a choice is not finite.")
        logits = logits.masked_fill(~legal, torch.finfo(logits.dtype).min)
        return self.value_net(judged), self.action_dist.proba_distribution(logits)

    def forward(self, obs: Any, deterministic: bool = False) -> tuple[torch.Tensor, ...]:
        """Return actions, values and log-probabilities."""
        values, distribution = self._judge(obs)
        actions = distribution.get_actions(deterministic=deterministic)
        return actions, values, distribution.log_prob(actions)

    def evaluate_actions(self, obs: Any, actions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return values, log-probabilities and entropies."""
        values, distribution = self._judge(obs)
        return values, distribution.log_prob(actions), distribution.entropy()
