"""Models of Stable-Baselines3: its updates, fed from games that are played here.

Games are played here, all lanes at once, because in them agents can die, choices can be illegal and
each agent has its own reward. So the library's models have no environment, and get this package's
experience in place of their buffers.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import ReplayBufferSamples, RolloutBufferSamples
from torch.nn.utils import parameters_to_vector

from coopbench.baselines.errors import Diverged
from coopbench.baselines.learners.checkpoint import Part
from coopbench.baselines.learners.experience import Rows
from coopbench.baselines.learners.off_policy import Replay
from coopbench.baselines.learners.on_policy import Use
from coopbench.baselines.learners.rollout import Rollout, advantages
from coopbench.baselines.learners.torch_tools import layer_sizes

__all__ = ["PPO", "SAC"]

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


class PPO:
    """The library's PPO of one model, and the buffer that it learns from."""

    def __init__(self, rows: Rows, seats: int, params: Any, use: Use, rollout: Rollout) -> None:
        self.rollout, self._params, self._discrete = rollout, params, rows.discrete
        self.model = _ppo(rows, params)
        self.model.rollout_buffer = self
        self.advantages = self.targets = torch.zeros(0)  # of the last full rollout

    @property
    def layers(self) -> list[torch.nn.Linear]:
        """Return the linear layers of the actor in their order."""
        policy = self.model.policy
        parts = [*policy.mlp_extractor.policy_net, *policy.action_net.modules()]
        return [layer for layer in parts if isinstance(layer, torch.nn.Linear)]

    def parts(self) -> dict[str, Part]:
        """Return the networks and their optimiser."""
        return {"model": self.model.policy, "optimiser": self.model.policy.optimizer}

    def act(
        self, at: int, inputs: torch.Tensor, legal: torch.Tensor, views: torch.Tensor | None
    ) -> np.ndarray:
        """Draw the actions of step ``at`` and store it; return them."""
        rollout = self.rollout
        seen: Any = rollout.inputs[at].copy_(inputs)  # where torch aligns it
        if self._discrete:
            seen = seen, rollout.legal[at].copy_(legal)
        actions, values, log_probs = self.model.policy(seen)
        rollout.actions[at], rollout.log_probs[at] = actions, log_probs
        rollout.estimates[at] = values.flatten()
        array: np.ndarray = actions.numpy()
        return array

    def add_following(
        self, rewards: torch.Tensor, views: torch.Tensor, by_time: torch.Tensor
    ) -> None:
        """Add to rewards what follows where time alone ended a row; ``views`` show it."""
        if by_time.any():
            values = self.model.policy.predict_values(views[by_time]).flatten()
            rewards[by_time] += self._params.gamma * values

    def update(self, views: torch.Tensor, rate: float) -> dict[str, float]:
        """Learn from a full rollout, after which the critic sees ``views``; return a report."""
        rollout, params = self.rollout, self._params
        self._pass_over_the_fallen()
        with torch.no_grad():
            following = self.model.policy.predict_values(views).flatten()
        earned = (rollout.rewards, rollout.over, rollout.estimates)
        self.advantages = advantages(*earned, following, params.gamma, params.gae_lambda)
        self.targets = self.advantages + rollout.estimates
        self.model.lr_schedule = lambda _: rate
        with np.errstate(all="ignore"):  # what is not finite is reported below
            self.model.train()
        report = _report(self.model)
        _check(report, ("policy_loss", "value_loss", "entropy"))
        for name, parameter in self.model.policy.named_parameters():
            if not torch.isfinite(parameter).all():
                raise Diverged(f"The parameter {name} is not finite.")
        report["entropy"] *= -1.0  # it was the loss of the bonus
        # The explained variance is not a number while all values are the same.
        return {name: value for name, value in report.items() if np.isfinite(value)}

    def _pass_over_the_fallen(self) -> None:
        """Give the fallen no choice but that which they made: nothing changes its probability."""
        rollout = self.rollout
        if self._discrete:
            fallen = rollout.taught & ~rollout.acted
            rollout.legal[fallen] = False
            rollout.legal[fallen] = rollout.legal[fallen].scatter(
                1, rollout.actions[fallen][:, None], True
            )
            rollout.log_probs[fallen] = 0.0

    # -- the buffer, as the library asks for it --

    def get(self, batch_size: int) -> Iterator[Any]:
        """Yield what is learned from in random order, in parts of nearly equal size.

        Advantages have a mean of 0 and a standard deviation of 1 over the rows of a part that teach
        the actor, and are 0 in the others.
        """
        rollout = self.rollout
        rows = rollout.taught.flatten().nonzero().flatten()
        rows = rows[torch.randperm(len(rows))]
        for some in rows.tensor_split(-(-len(rows) // batch_size)):
            inputs, gains, acted = (
                array.flatten(0, 1)[some]
                for array in (rollout.inputs, self.advantages, rollout.acted)
            )
            if acted.sum() > 1:
                gains = (gains - gains[acted].mean()) / (gains[acted].std() + 1e-8)
            seen = (inputs, rollout.legal.flatten(0, 1)[some]) if self._discrete else inputs
            arrays = (rollout.actions, rollout.estimates, rollout.log_probs)
            parts = (array.flatten(0, 1)[some] for array in arrays)
            yield RolloutBufferSamples(seen, *parts, gains * acted, self.targets.flatten()[some])

    @property
    def values(self) -> np.ndarray:
        """Return the estimated values of all rows of living agents."""
        return self.rollout.estimates[self.rollout.acted].numpy()

    @property
    def returns(self) -> np.ndarray:
        """Return the targets of these values."""
        return self.targets[self.rollout.acted].numpy()


class SAC:
    """The library's SAC of one model, and the replay that it learns from.

    A row of the replay holds inputs, actions, next inputs, terminated and reward: in one array a
    sample is one gather operation instead of five.
    """

    def __init__(self, params: Any, inputs: int, outputs: int) -> None:
        self._params, self._columns = params, [inputs, outputs, inputs, 1, 1]
        self.replay = Replay(params.buffer_size, {"rows": self.form(inputs, outputs)})
        self.model = _sac(params, inputs, outputs)
        self.model.replay_buffer = self
        self.unit = 1.0  # divisor of sampled rewards

    @staticmethod
    def form(inputs: int, outputs: int) -> tuple[tuple[int, ...], torch.dtype]:
        """Return shape and type of a row of the replay."""
        return (2 * inputs + outputs + 2,), torch.float32

    @property
    def layers(self) -> list[torch.nn.Linear]:
        """Return the linear layers of the actor's mean in their order."""
        actor = self.model.actor
        hidden = [part for part in actor.latent_pi if isinstance(part, torch.nn.Linear)]
        return [*hidden, actor.mu]

    def parts(self) -> dict[str, Part]:
        """Return networks, optimisers, the replay, and the weight of the entropy if it adapts."""
        model = self.model
        parts: dict[str, Part] = {"model": model.policy, "replay": self.replay}
        parts |= {"actor": model.actor.optimizer, "critic": model.critic.optimizer}
        if model.log_ent_coef is not None:
            parts |= {"entropy": model.ent_coef_optimizer, "log_entropy": model.log_ent_coef}
        return parts

    def sample(self, batch_size: int, env: None = None) -> ReplayBufferSamples:
        """Draw rows for the library."""
        drawn = self.replay.sample(batch_size)["rows"]
        drawn[:, -1] /= self.unit
        return ReplayBufferSamples(*torch.split(drawn, self._columns, dim=1))

    def update(self, unit: float) -> dict[str, float]:
        """Learn from the replay, its rewards divided by ``unit``; return a report."""
        self.unit = unit
        self.model.train(self._params.updates, self._params.batch_size)
        report = _report(self.model)
        _check(report, ("actor_loss", "critic_loss", "entropy_coefficient"))
        if not parameters_to_vector(self.model.policy.parameters()).isfinite().all():
            raise Diverged("A parameter is not finite.")
        return {name: report[name] for name in ("actor_loss", "critic_loss", "entropy_coefficient")}


def _report(model: Any) -> dict[str, float]:
    """Return what a model has logged of its last update."""
    logged = model.logger.name_to_value
    return {name: float(logged[key]) for key, name in _REPORTED.items() if key in logged}


def _check(report: Mapping[str, float], names: tuple[str, ...]) -> None:
    """Raise ``Diverged`` if one of these numbers is not finite."""
    for name in names:
        if not np.isfinite(report[name]):
            raise Diverged(f"The {name} is not finite.")


def _ppo(game: Rows, params: Any) -> Any:
    """Make the library's PPO for rows of a game."""
    widths = layer_sizes(params.layers)
    discrete, box = gym.spaces.Discrete(game.outputs), gym.spaces.Box(-1.0, 1.0, (game.outputs,))
    model = _made(
        stable_baselines3.PPO,
        _Masked if game.discrete else "MlpPolicy",
        (game.inputs, discrete if game.discrete else box),
        params,
        n_steps=1,  # of a buffer that is not used
        n_epochs=params.epochs,
        normalize_advantage=False,  # the buffer does it
        gae_lambda=params.gae_lambda,
        clip_range=params.clip,
        ent_coef=params.entropy,
        vf_coef=params.value,
        max_grad_norm=params.max_grad_norm,
        target_kl=params.target_kl or None,
        policy_kwargs={
            "net_arch": {"pi": widths, "vf": widths},
            "activation_fn": _FastTanh if params.activation == "tanh" else torch.nn.ReLU,
            "log_std_init": params.log_std,
            "optimizer_kwargs": {"eps": 1e-5, "fused": True},
        },
    )
    if params.squash and not game.discrete:
        # A mean far outside the range would hide from the agent what other actions lead to.
        model.policy.action_net = torch.nn.Sequential(model.policy.action_net, torch.nn.Tanh())
    return model


def _sac(params: Any, inputs: int, outputs: int) -> Any:
    """Make the library's SAC for rows of a game."""
    return _made(
        stable_baselines3.SAC,
        "MlpPolicy",
        (inputs, gym.spaces.Box(-1.0, 1.0, (outputs,), np.float32)),
        params,
        buffer_size=1,  # of a buffer that is not used
        tau=params.tau,
        ent_coef=f"auto_{params.entropy}" if params.adapt_entropy else params.entropy,
        target_entropy=-float(outputs),
        policy_kwargs={
            "net_arch": layer_sizes(params.layers),
            "activation_fn": torch.nn.Tanh if params.activation == "tanh" else torch.nn.ReLU,
            "optimizer_kwargs": {"fused": True},
        },
    )


def _made(kind: Any, policy: Any, game: tuple[int, Any], params: Any, **more: Any) -> Any:
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


class _FastTanh(torch.nn.Module):
    """Hyperbolic tangent in a tenth of torch's time."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return tanh(x)."""
        apply: Callable[[torch.Tensor], torch.Tensor] = _Tanh.apply
        return apply(x)


class _Masked(ActorCriticPolicy):
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
