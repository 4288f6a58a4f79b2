"""Independent PPO (Schulman et al. 2017; de Witt et al. 2020): each agent learns for itself.

The update is that of Stable-Baselines3, of networks with memory that of ``ppo``. Games are played
here, all lanes at once, because in them agents can die, choices can be illegal and each agent has
its own reward.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import gymnasium as gym
import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from coopbench.baselines.errors import Diverged
from coopbench.baselines.learner import (
    LATER,
    TERMINAL,
    LearnerEntry,
    Partners,
    Reward,
    SeatNumber,
    Share,
    TimeLimit,
)
from coopbench.baselines.learners.actors import linear_layers
from coopbench.baselines.learners.checkpoint import part, under
from coopbench.baselines.learners.experience import Rows, Transition
from coopbench.baselines.learners.ppo import OWN, PPO, Use, advantages, check_memory, rollout_length
from coopbench.baselines.learners.row_learner import RewardScale, RowLearner
from coopbench.baselines.learners.torch_tools import (
    layer_sizes,
    module_arrays,
    optimiser_arrays,
    put_module,
    put_optimiser,
    torch_apart,
)
from coopbench.baselines.networks.network import ACTIVATIONS, NetworkPolicy
from coopbench_envs.parameters import Allowed, between, one_of

# What Stable-Baselines3 reports of an update, and the names it has here.
_REPORTED = {
    "train/policy_gradient_loss": "policy_loss",
    "train/value_loss": "value_loss",
    "train/entropy_loss": "entropy",
    "train/approx_kl": "approx_kl",
    "train/clip_fraction": "clip_fraction",
    "train/explained_variance": "explained_variance",
    "train/std": "std",
    "train/learning_rate": "learning_rate",
}

_CHUNK = 16  # steps that gradients go back in networks with memory


LEARNERS = {
    "ippo": "proximal policy optimisation, separate networks for each agent",
    "ippo_shared": "proximal policy optimisation, shared networks for all agents",
}


class Params(NamedTuple):
    """Hyperparameters; the defaults are those of the published runs."""

    learning_rate: Annotated[float, between(0, 1, "step size of Adam", above=True)] = 3e-4
    rollout: Annotated[int, between(2, 1_000_000, "environment steps between updates")] = 2048
    lanes: Annotated[int, between(1, 4096, "games played at once")] = 8
    batch_size: Annotated[int, between(2, 1_000_000, "largest number of rows of a minibatch")] = 64
    epochs: Annotated[int, between(1, 100, "passes over the rows of a rollout")] = 10
    gamma: Annotated[float, between(0, 1, "discount factor")] = 0.99
    gae_lambda: Annotated[float, between(0, 1, "lambda of the advantage estimates")] = 0.95
    clip: Annotated[float, between(0, 1, "clipping range of probability ratios", above=True)] = 0.2
    entropy: Annotated[float, between(0, 10, "weight of the entropy bonus")] = 0.01
    value: Annotated[float, between(0, 10, "weight of the value loss")] = 0.5
    max_grad_norm: Annotated[float, between(0, 1e9, "largest norm of the gradient", above=True)] = (
        0.5
    )
    layers: Annotated[str, Allowed("widths of the hidden layers")] = "128x128"
    activation: Annotated[str, one_of(ACTIVATIONS, "activation of hidden layers")] = "tanh"
    log_std: Annotated[float, between(-5, 2, "initial log standard deviation")] = 0.0
    squash: Annotated[bool, Allowed("apply tanh to the mean actions")] = False
    history: Annotated[int, between(1, 64, "observations that a network gets")] = 1
    scale_observations: Annotated[bool, Allowed("scale bounded features to [-1, 1]")] = False
    scale_rewards: Annotated[bool, Allowed("divide by the std of discounted sums")] = False
    target_kl: Annotated[float, between(0, 10, "KL divergence that ends an update, 0: none")] = 0.0
    anneal: Annotated[int, between(0, 10**12, "steps to learning rate 0; 0: constant")] = 0
    time_limit: Annotated[TimeLimit, LATER] = "bootstrap"
    recurrent: Annotated[bool, Allowed("networks with memory: linear, GRU, linear"), LATER] = False
    seat_number: SeatNumber = True
    reward: Reward = "own"
    partners: Partners = ()
    share: Share = 0.0


class _Rollout:
    """Steps of one model since its last update; the source of PPO's minibatches.

    Arrays are (length, rows, ...). They are torch's, because the bits of a product may depend on
    where in memory a matrix begins, and torch always aligns them to the same boundaries.
    """

    def __init__(self, length: int, rows: int, game: Rows) -> None:
        shape = (length, rows)
        self.inputs = torch.zeros(*shape, game.inputs)
        self.actions = torch.zeros(shape if game.discrete else (*shape, game.outputs))
        self.log_probs, self.estimates = torch.zeros(shape), torch.zeros(shape)
        self.rewards, self.done = torch.zeros(shape), torch.ones(shape, dtype=torch.bool)
        # The actor learns from valid rows; the critic also from those of agents that have fallen
        # but whose team still earns, since their values are in the estimates of earlier steps.
        self.valid, self.taught = (torch.zeros(shape, dtype=torch.bool) for _ in range(2))
        choices = (*shape, game.outputs) if game.discrete else (length, 0)
        self.legal = torch.ones(choices, dtype=torch.bool)
        self.advantages, self.targets = torch.zeros(shape), torch.zeros(shape)

    def see(self, at: int, inputs: np.ndarray, legal: np.ndarray) -> Any:
        """Store the inputs of step ``at`` and the legal choices; return what the model acts on."""
        self.inputs[at] = torch.from_numpy(inputs)
        if not legal.size:
            return self.inputs[at]
        self.legal[at] = torch.from_numpy(legal)
        return self.inputs[at], self.legal[at]

    def decide(
        self, at: int, actions: torch.Tensor, values: torch.Tensor, log_probs: torch.Tensor
    ) -> np.ndarray:
        """Store what the model does at step ``at``; return its actions."""
        self.actions[at] = actions
        self.estimates[at] = values.flatten()
        self.log_probs[at] = log_probs
        return actions.numpy()

    def earn(self, at: int, step: Transition, rewards: torch.Tensor, taught: np.ndarray) -> None:
        """Store the rewards of step ``at``, which rows are done, and from which is learned."""
        self.rewards[at] = rewards
        self.done[at] = torch.from_numpy(step.done)
        self.valid[at] = torch.from_numpy(step.valid)
        self.taught[at] = torch.from_numpy(taught)
        if self.legal.numel():  # the fallen have no choice: nothing changes how probable it is
            fallen = self.taught[at] & ~self.valid[at]
            self.legal[at, fallen] = False
            self.legal[at, fallen, self.actions[at, fallen].long()] = True
            self.log_probs[at, fallen] = 0.0

    def close(self, following: torch.Tensor, gamma: float, decay: float) -> None:
        """Estimate advantages; ``following``: values after the last step.

        A row that is done takes nothing from later steps.
        """
        earned = (self.rewards, self.done, self.estimates)
        self.advantages = advantages(*earned, following, gamma, decay)
        self.targets = self.advantages + self.estimates

    def get(self, batch_size: int) -> Iterator[Any]:
        """Yield what is learned from in random order, in parts of nearly equal size.

        Advantages have a mean of 0 and a standard deviation of 1 over the valid rows of a part, and
        are 0 in the others.
        """
        rows = self.taught.flatten().nonzero().flatten()
        rows = rows[torch.randperm(len(rows))]
        for some in rows.tensor_split(-(-len(rows) // batch_size)):
            inputs, gains, valid = (
                array.flatten(0, 1)[some] for array in (self.inputs, self.advantages, self.valid)
            )
            if valid.sum() > 1:
                gains = (gains - gains[valid].mean()) / (gains[valid].std() + 1e-8)
            seen = (inputs, self.legal.flatten(0, 1)[some]) if self.legal.numel() else inputs
            arrays = (self.actions, self.estimates, self.log_probs)
            parts = (array.flatten(0, 1)[some] for array in arrays)
            yield RolloutBufferSamples(seen, *parts, gains * valid, self.targets.flatten()[some])

    @property
    def values(self) -> np.ndarray:
        """Return the estimated values of all rows of living agents."""
        return self.estimates[self.valid].numpy()

    @property
    def returns(self) -> np.ndarray:
        """Return the targets of these values."""
        return self.targets[self.valid].numpy()

    def save(self, at: int) -> dict[str, np.ndarray]:
        """Return the first ``at`` steps, with zeros behind them."""
        arrays = {name: array.numpy().copy() for name, array in self._stored().items()}
        for array in arrays.values():
            array[at:] = 0
        return arrays

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore the saved steps."""
        for name, array in self._stored().items():
            array[:] = torch.from_numpy(arrays[name])

    def _stored(self) -> dict[str, torch.Tensor]:
        """Return all arrays but those that ``close`` computes."""
        return {k: v for k, v in vars(self).items() if k not in ("advantages", "targets")}


class IPPO(RowLearner):
    """PPO for all seats of a game, with a model per agent or one that all agents share."""

    def __init__(
        self, name: str, env_id: str, parameters: Mapping[str, Any], seed: int, params: Params
    ) -> None:
        super().__init__(name, env_id, parameters, seed, params)
        sizes = [params.lanes * len(group) for group in self._rows.groups]
        self._length = _rollout_length(params, min(sizes) // params.lanes)
        self._at = 0  # steps of all lanes in the rollouts
        makers = [partial(_Rollout, self._length, size, self._rows) for size in sizes]
        check_memory(makers, self._rows, params)
        with torch_apart(self._numbers):
            self._models = [_model(self._rows, params) for _ in sizes]
        self._rollouts = [make() for make in makers]
        for model, rollout in zip(self._models, self._rollouts, strict=True):
            model.rollout_buffer = rollout
        self._scales = [RewardScale(size, params.gamma) for size in sizes]

    def policy(self) -> NetworkPolicy:
        """Return the mean of all actions as a network, or the most probable choice."""
        layers: list[list[torch.nn.Linear]] = []
        for model in self._models:
            policy = model.policy
            parts = [*policy.mlp_extractor.policy_net, *policy.action_net.modules()]
            layers.append([layer for layer in parts if isinstance(layer, torch.nn.Linear)])
        head = "tanh" if self._params.squash else "clip"
        head = "argmax" if self._rows.discrete else head
        network = self._rows.network(linear_layers(layers), self._params.activation, head)
        return NetworkPolicy(network, self.facts())

    def save(self) -> dict[str, np.ndarray]:
        """Return everything that training needs to continue, in the middle of a rollout too."""
        arrays = {
            "origin": self.origin(),
            "counts": np.array([self.steps, self._at]),
            "numbers": self._numbers.copy(),
        }
        arrays |= under("game", self._rows.save())
        for k, model in enumerate(self._models):
            arrays |= under(f"model.{k}", module_arrays(model.policy))
            arrays |= under(f"optimiser.{k}", optimiser_arrays(model.policy.optimizer))
            arrays |= under(f"rollout.{k}", self._rollouts[k].save(self._at))
            arrays |= under(f"rewards.{k}", self._scales[k].save())
        return arrays

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from a saved state; ``ValueError`` if it is one of another training."""
        self.check_saved(arrays, self.save())
        self._rows.load(part(arrays, "game"))
        for k, model in enumerate(self._models):
            put_module(model.policy, part(arrays, f"model.{k}"))
            put_optimiser(model.policy.optimizer, part(arrays, f"optimiser.{k}"))
            self._rollouts[k].load(part(arrays, f"rollout.{k}"))
            self._scales[k].load(part(arrays, f"rewards.{k}"))
        self._numbers[:] = arrays["numbers"]
        self.steps, self._at = (int(count) for count in arrays["counts"])

    def advance(self) -> list[dict[str, float]]:
        """Play one step in all lanes, and update models when their rollouts are full."""
        self._play()
        return self._update() if self._at == self._length else []

    def _play(self) -> None:
        """Play one step in all lanes and store it."""
        actions = []
        with torch.no_grad():
            rows = self._rows
            parts = (rows.parts(rows.observe()), rows.parts(rows.legal()))
            for model, rollout, inputs, legal in zip(
                self._models, self._rollouts, *parts, strict=True
            ):
                seen = rollout.see(self._at, inputs, legal)
                actions.append(rollout.decide(self._at, *model.policy(seen)))
            learning = self._rows.parts(self._rows.learning())
            for k, step in enumerate(rows.transitions(rows.step(rows.whole(actions)))):
                taught = learning[k] if self._rows.engine.falling else step.valid
                self._rollouts[k].earn(self._at, step, self._earned(k, step), taught)
        self.steps += self._params.lanes
        self._at += 1

    def _earned(self, k: int, step: Transition) -> torch.Tensor:
        """Return the rewards of a step, plus the following value where time alone ended it."""
        scaled = self._scales[k](step) if self._params.scale_rewards else step.rewards
        rewards = torch.from_numpy(scaled)
        if step.truncated.any() and self._params.time_limit != TERMINAL:
            following = torch.from_numpy(step.following[step.truncated]).clone()
            values = self._models[k].policy.predict_values(following).flatten()
            rewards[torch.from_numpy(step.truncated)] += self._params.gamma * values
        return rewards

    def _update(self) -> list[dict[str, float]]:
        """Update all models from full rollouts and begin new ones; return a report of each."""
        reports = []
        for k, inputs in enumerate(self._rows.parts(self._rows.observe())):
            model, rollout = self._models[k], self._rollouts[k]
            with torch.no_grad():
                following = model.policy.predict_values(torch.from_numpy(inputs).clone()).flatten()
            rollout.close(following, self._params.gamma, self._params.gae_lambda)
            if not rollout.valid.any():  # its agents were dead all the time
                continue
            model.lr_schedule = lambda _: self._rate()
            with np.errstate(all="ignore"):  # what is not finite is reported below
                model.train()
            logged = model.logger.name_to_value
            report = {name: float(logged[key]) for key, name in _REPORTED.items() if key in logged}
            _check(model, report)
            report["entropy"] *= -1.0  # it was the loss of the bonus
            # The explained variance is not a number while all values are the same.
            reports.append({name: value for name, value in report.items() if np.isfinite(value)})
        self._at = 0
        return reports

    def _rate(self) -> float:
        """Return the learning rate at the step at which this update's rollout began."""
        begun = self.steps - self._length * self._params.lanes
        left = max(0.0, 1.0 - begun / self._params.anneal) if self._params.anneal else 1.0
        rate: float = self._params.learning_rate * left
        return rate


def _check(model: Any, report: Mapping[str, float]) -> None:
    """Raise ``Diverged`` if a loss or a parameter is not finite."""
    for name in ("policy_loss", "value_loss", "entropy"):
        if not np.isfinite(report[name]):
            raise Diverged(f"The {name} is not finite.")
    for name, parameter in model.policy.named_parameters():
        if not torch.isfinite(parameter).all():
            raise Diverged(f"The parameter {name} is not finite.")


def _rollout_length(params: Params, seats: int) -> int:
    """Return the steps of all lanes between updates; ``ValueError`` for numbers that do not fit."""
    length = rollout_length(params)
    if params.batch_size > params.rollout * seats:
        raise ValueError(
            f"batch_size was {params.batch_size} and rollout {params.rollout}, which makes "
            f"{params.rollout * seats} rows; allowed: a batch_size up to that."
        )
    return length


def _model(game: Rows, params: Params) -> Any:
    """Make Stable-Baselines3's PPO for rows of a game, without an environment."""
    widths = layer_sizes(params.layers)
    model = stable_baselines3.PPO(
        _masked_policy() if game.discrete else "MlpPolicy",
        None,
        learning_rate=params.learning_rate,
        n_steps=1,  # of a buffer that is not used
        batch_size=params.batch_size,
        n_epochs=params.epochs,
        normalize_advantage=False,  # the rollout does it
        gamma=params.gamma,
        gae_lambda=params.gae_lambda,
        clip_range=params.clip,
        ent_coef=params.entropy,
        vf_coef=params.value,
        max_grad_norm=params.max_grad_norm,
        target_kl=params.target_kl or None,
        device="cpu",
        policy_kwargs={
            "net_arch": {"pi": widths, "vf": widths},
            "activation_fn": _fast_tanh() if params.activation == "tanh" else torch.nn.ReLU,
            "log_std_init": params.log_std,
            "optimizer_kwargs": {"eps": 1e-5, "fused": True},
        },
        _init_setup_model=False,
    )
    model.n_envs = 1
    model.observation_space = gym.spaces.Box(-np.inf, np.inf, (game.inputs,), np.float32)
    discrete, box = gym.spaces.Discrete(game.outputs), gym.spaces.Box(-1.0, 1.0, (game.outputs,))
    model.action_space = discrete if game.discrete else box
    model._setup_model()
    if params.squash and not game.discrete:
        # A mean far outside the range would hide from the agent what other actions lead to.
        model.policy.action_net = torch.nn.Sequential(model.policy.action_net, torch.nn.Tanh())
    model.set_logger(Logger(None, []))
    return model


def _fast_tanh() -> Any:
    """Return tanh as a module that computes with NumPy, in a tenth of torch's time."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            y = torch.empty_like(x)
            np.tanh(x.numpy(), out=y.numpy())
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
            gradient: torch.Tensor = torch.ops.aten.tanh_backward(gradients[0], *ctx.saved_tensors)
            return gradient

    class Tanh(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            apply: Callable[[torch.Tensor], torch.Tensor] = Function.apply
            return apply(x)

    return Tanh


def _masked_policy() -> Any:
    """Return Stable-Baselines3's policy for choices of which some are illegal.

    Its observations are pairs: the inputs, and the legal choices.
    """

    def judge(self: Any, seen: Any) -> tuple[torch.Tensor, Any]:
        inputs, legal = seen
        latent, judged = self.mlp_extractor(inputs)
        logits = self.action_net(latent)
        if not torch.isfinite(logits).all():
            raise Diverged("The logit of a choice is not finite.")
        logits = logits.masked_fill(~legal, torch.finfo(logits.dtype).min)
        return self.value_net(judged), self.action_dist.proba_distribution(logits)

    def forward(self: Any, obs: Any, deterministic: bool = False) -> tuple[torch.Tensor, ...]:
        values, distribution = judge(self, obs)
        actions = distribution.get_actions(deterministic=deterministic)
        return actions, values, distribution.log_prob(actions)

    def evaluate_actions(self: Any, obs: Any, actions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, distribution = judge(self, obs)
        return values, distribution.log_prob(actions), distribution.entropy()

    # The library has no types: a class statement would have a base class of any type.
    methods = {"forward": forward, "evaluate_actions": evaluate_actions}
    return type("Masked", (ActorCriticPolicy,), methods)


def entry(name: str) -> LearnerEntry:
    """Return the registry's entry of a variant."""

    def create(env_id: str, parameters: Mapping[str, Any], seed: int, params: Params) -> IPPO | PPO:
        if not params.recurrent:
            return IPPO(name, env_id, parameters, seed, params)
        # The library's update has no networks with memory.
        use = Use(
            critic=OWN,
            team=False,
            batch_size=params.batch_size,
            chunk=_CHUNK,
            terminal=params.time_limit == TERMINAL,
        )
        return PPO(name, env_id, parameters, seed, params, use)

    first_update = attrgetter("rollout")
    return LearnerEntry(name, create, LEARNERS[name], "on_policy", Params, _shortened, first_update)


def _shortened(params: Params, steps: int) -> Params:
    """Change hyperparameters so that at least one update fits into ``steps``, from two on."""
    lanes = min(params.lanes, max(1, steps // 8))
    rollout = min(params.rollout, max(2 * lanes, steps)) // lanes * lanes
    batch_size = min(params.batch_size, rollout)
    return params._replace(lanes=lanes, rollout=rollout, batch_size=batch_size)
