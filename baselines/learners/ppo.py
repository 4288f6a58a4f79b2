"""Proximal policy optimisation (Schulman et al. 2017) with networks of our own.

What the critic sees, and whether a network remembers, is chosen by the learner that uses it: MAPPO,
and IPPO with memory. Actors without memory are perceptrons, others are recurrent; the critic has
the same kind of network. A rollout is cut into pieces, where memory begins as it was when the piece
was played: at the first step of an episode as zeros. Without memory a piece is one step.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from coopbench.baselines.errors import Diverged
from coopbench.baselines.learners.actors import Actor, ValueScale, body_of, memory_width, policy_of
from coopbench.baselines.learners.checkpoint import LARGEST, part, under
from coopbench.baselines.learners.experience import Rows, Transition, scaling
from coopbench.baselines.learners.row_learner import RewardScale, RowLearner
from coopbench.baselines.learners.torch_tools import (
    bytes_of,
    module_arrays,
    optimiser_arrays,
    put_module,
    put_optimiser,
    torch_apart,
)
from coopbench.baselines.networks.policy import TrainedPolicy

__all__ = [
    "OBSERVATIONS",
    "OWN",
    "PPO",
    "STATE",
    "STATE_AND_OWN",
    "Use",
    "advantages",
    "check_memory",
    "rollout_length",
]

# What a critic sees of a row.
OWN, STATE, STATE_AND_OWN, OBSERVATIONS = "own", "state", "agent", "observations"


class Use(NamedTuple):
    """How PPO is used; the rest are hyperparameters."""

    critic: str  # what it sees: OWN, STATE, STATE_AND_OWN or OBSERVATIONS
    team: bool  # rewards after an agent's death count for it, until the episode is over
    chunk: int  # steps of the longest piece of a network with memory
    minibatches: int = 1
    batch_size: int = 0  # if above 0, as many minibatches as hold about so many rows each
    masked: bool = False  # the critic sees nothing but the seat of a dead agent
    normalised: bool = False  # values are scaled by the moments of returns
    terminal: bool = False  # an end by time alone is an end of the game


def advantages(
    rewards: torch.Tensor,
    over: torch.Tensor,
    estimates: torch.Tensor,
    following: torch.Tensor,
    gamma: float,
    decay: float,
) -> torch.Tensor:
    """Return generalised advantage estimates (steps, rows) (Schulman et al. 2016).

    ``following`` are values after the last step, (rows,). A row takes nothing from later steps
    where it is ``over``.
    """
    nothing = torch.zeros_like(following)
    carried, result = nothing, torch.zeros_like(estimates)
    for at in reversed(range(len(over))):
        error = rewards[at] + gamma * torch.where(over[at], nothing, following)
        error -= estimates[at]
        carried = error + gamma * decay * torch.where(over[at], nothing, carried)
        result[at], following = carried, estimates[at]
    return result


def rollout_length(params: Any) -> int:
    """Return the steps of all lanes between updates; ``ValueError`` for numbers that do not fit."""
    if params.rollout % params.lanes:
        raise ValueError(
            f"rollout was {params.rollout} and lanes {params.lanes}; allowed: a rollout that is a "
            f"multiple of lanes."
        )
    return int(params.rollout // params.lanes)


def check_memory(makers: Iterable[Callable[[], Any]], rows: Rows, params: Any) -> None:
    """Raise ``ValueError`` if the rollouts of all models would take more than may be saved."""
    taken = sum(map(bytes_of, makers))
    if taken > LARGEST:
        most = params.rollout * LARGEST // taken // params.lanes * params.lanes
        raise ValueError(
            f"rollout was {params.rollout}: so many steps of {rows.engine.spec.id} take {taken:,} "
            f"bytes; allowed: up to {LARGEST:,}, thus a rollout of up to {most}."
        )


class _View:
    """What critics see of every row."""

    def __init__(self, rows: Rows, use: Use, *, scaled: bool) -> None:
        self._rows, self._kind, self._masked = rows, use.critic, use.masked
        self._seats = rows.agents if rows.identity else 0
        self._features = rows.inputs - self._seats
        size = 0
        if use.critic in (STATE, STATE_AND_OWN):
            size = rows.state().shape[1]
            self._centre, self._scale = scaling([rows.engine.state_space], scaled=scaled)
        beside = {OWN: rows.inputs, STATE: self._seats, STATE_AND_OWN: rows.inputs}
        self.size = size + beside.get(use.critic, rows.agents * self._features + self._seats)

    def __call__(
        self, inputs: np.ndarray, state: np.ndarray, alive: np.ndarray
    ) -> list[torch.Tensor]:
        """Return each model's rows (rows, size) from all inputs, the state and who is alive."""
        rows = self._rows
        if self._kind == OWN:
            return [torch.from_numpy(part).clone() for part in rows.parts(inputs)]
        view = np.zeros((*alive.shape, self.size), np.float32)
        if self._kind == OBSERVATIONS:
            seen = inputs[:, :, : self._features].reshape(len(inputs), -1)
        else:
            seen = (state - self._centre) * self._scale
        view[:, :, : seen.shape[1]] = seen[:, None]
        view[:, :, seen.shape[1] :] = inputs if self._kind == STATE_AND_OWN else 0.0
        if self._masked:
            view[~alive] = 0.0
        if self._seats:
            view[:, :, -self._seats :] = np.eye(self._seats, dtype=np.float32)
        return [torch.from_numpy(part) for part in rows.parts(view)]


class _Rollout:
    """Steps of one model since its last update, (length, rows, ...), as torch's arrays."""

    def __init__(self, length: int, rows: int, game: Rows, view: int, hidden: int) -> None:
        shape = (length, rows)
        choices = (*shape, game.outputs) if game.discrete else (*shape, 0)
        kind = torch.int64 if game.discrete else torch.float32
        self.inputs, self.views = torch.zeros(*shape, game.inputs), torch.zeros(*shape, view)
        self.legal = torch.ones(choices, dtype=torch.bool)
        self.actions = torch.zeros(shape if game.discrete else (*shape, game.outputs), dtype=kind)
        self.log_probs, self.estimates = torch.zeros(shape), torch.zeros(shape)
        self.rewards = torch.zeros(shape)
        # Where an episode begins, where nothing follows, which rows teach the actor and the critic.
        self.first, self.over, self.acted, self.taught = (
            torch.zeros(shape, dtype=torch.bool) for _ in range(4)
        )
        self.actor_memory, self.critic_memory = (torch.zeros(*shape, hidden) for _ in range(2))

    def save(self, at: int) -> dict[str, np.ndarray]:
        """Return the first ``at`` steps, with zeros behind them."""
        arrays = {name: array.numpy().copy() for name, array in vars(self).items()}
        for array in arrays.values():
            array[at:] = 0
        return arrays

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore the saved steps."""
        for name, array in vars(self).items():
            array[:] = torch.from_numpy(arrays[name])

    def pieces(self, chunk: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the first step, the row and the length of all pieces that teach anything.

        A piece ends after ``chunk`` steps and where an episode does.
        """
        length = len(self.first)
        begins = self.first.clone()
        begins[::chunk] = True
        rows, starts = begins.T.nonzero(as_tuple=True)
        ends = torch.full_like(starts, length)
        same = rows[1:] == rows[:-1]
        ends[:-1][same] = starts[1:][same]
        sums = torch.zeros(length + 1, self.first.shape[1], dtype=torch.int64)
        sums[1:] = (self.acted | self.taught).cumsum(0)
        useful = sums[ends, rows] > sums[starts, rows]
        return starts[useful], rows[useful], (ends - starts)[useful]


class _Model:
    """Actor, critic and optimiser of a model, its rollout and what it remembers."""

    def __init__(
        self, game: Rows, seats: int, view: int, params: Any, use: Use, rollout: _Rollout
    ) -> None:
        self.actor, self.critic = Actor(game, params), body_of(view, 1, params, 1.0)
        self.modules = {"actor": self.actor.module, "critic": self.critic.module}
        parameters = [p for module in self.modules.values() for p in module.parameters()]
        rate = params.learning_rate
        self.optimiser = torch.optim.Adam(parameters, lr=rate, eps=1e-5, fused=True)
        self.rollout, rows = rollout, params.lanes * seats
        self.memory = [torch.zeros(rows, self.critic.hidden) for _ in self.modules]
        self.rewards = RewardScale(rows, params.gamma)
        self.value_scale = ValueScale(used=use.normalised)

    def save(self, at: int) -> dict[str, dict[str, np.ndarray]]:
        """Return everything as arrays, by parts."""
        memory = zip(self.modules, self.memory, strict=True)
        networks = [under(name, module_arrays(module)) for name, module in self.modules.items()]
        return {
            "model": networks[0] | networks[1],
            "optimiser": optimiser_arrays(self.optimiser),
            "rollout": self.rollout.save(at),
            "memory": {name: values.numpy().copy() for name, values in memory},
            "rewards": self.rewards.save(),
            "values": self.value_scale.save(),
        }

    def load(self, arrays: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Continue from what ``save`` has returned."""
        for name, module in self.modules.items():
            put_module(module, part(arrays["model"], name))
        put_optimiser(self.optimiser, arrays["optimiser"])
        self.rollout.load(arrays["rollout"])
        self.memory = [torch.tensor(arrays["memory"][name]) for name in self.modules]
        self.rewards.load(arrays["rewards"])
        self.value_scale.load(arrays["values"])

    def values(self, views: torch.Tensor) -> torch.Tensor:
        """Return what the critic says now to rows (rows, size), without remembering it."""
        return self.critic.run(views[None], self.memory[1])[0][0, :, 0]

    def act(
        self, at: int, inputs: torch.Tensor, legal: torch.Tensor, views: torch.Tensor
    ) -> np.ndarray:
        """Draw the actions of step ``at`` and store it; return them."""
        rollout = self.rollout
        self.memory = [memory * ~rollout.first[at][:, None] for memory in self.memory]
        rollout.actor_memory[at], rollout.critic_memory[at] = self.memory
        rollout.inputs[at], rollout.legal[at], rollout.views[at] = inputs, legal, views
        actions, log_probs, actor_memory = self.actor.act(inputs, legal, self.memory[0])
        values, critic_memory = self.critic.run(views[None], self.memory[1])
        rollout.actions[at], rollout.log_probs[at] = actions, log_probs
        rollout.estimates[at] = values[0, :, 0]
        self.memory = [actor_memory, critic_memory]
        return actions.numpy()


class PPO(RowLearner):
    """PPO for all seats of a game, with a model per agent or one that all agents share."""

    def __init__(
        self,
        name: str,
        env_id: str,
        parameters: Mapping[str, Any],
        seed: int,
        params: Any,
        use: Use,
    ) -> None:
        global_state = use.critic in (STATE, STATE_AND_OWN)
        super().__init__(name, env_id, parameters, seed, params, global_state=global_state)
        rows, self._use = self._rows, use
        if params.recurrent and params.history > 1:
            raise ValueError(
                f"history was {params.history} with recurrent=True; allowed: 1, since the network "
                f"remembers."
            )
        self._view = _View(rows, use, scaled=params.scale_observations)
        self._length, self._at = rollout_length(params), 0
        view, hidden = self._view.size, memory_width(params.layers) if params.recurrent else 0
        makers = [
            partial(_Rollout, self._length, params.lanes * len(group), rows, view, hidden)
            for group in rows.groups
        ]
        check_memory(makers, rows, params)
        with torch_apart(self._numbers):
            self._models = [
                _Model(rows, len(group), view, params, use, make())
                for group, make in zip(rows.groups, makers, strict=True)
            ]

    def policy(self) -> TrainedPolicy:
        """Return the mean of all actions as a network, or the most probable choice."""
        bodies = [model.actor.body for model in self._models]
        return policy_of(bodies, self._rows, self._params, self.facts())

    def save(self) -> dict[str, np.ndarray]:
        """Return everything that training needs to continue, in the middle of a rollout too."""
        arrays = {
            "origin": self.origin(),
            "counts": np.array([self.steps, self._at]),
            "numbers": self._numbers.copy(),
        }
        arrays |= under("game", self._rows.save())
        for k, model in enumerate(self._models):
            for name, saved in model.save(self._at).items():
                arrays |= under(f"{name}.{k}", saved)
        return arrays

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from a saved state; ``ValueError`` if it is one of another training."""
        self.check_saved(arrays, self.save())
        self._rows.load(part(arrays, "game"))
        for k, model in enumerate(self._models):
            model.load({name: part(arrays, f"{name}.{k}") for name in model.save(0)})
        self._numbers[:] = arrays["numbers"]
        self.steps, self._at = (int(count) for count in arrays["counts"])

    def advance(self) -> list[dict[str, float]]:
        """Play one step in all lanes, and update models when their rollouts are full."""
        with torch.no_grad():
            self._play()
        if self._at < self._length:
            return []
        with torch.no_grad():
            views = self._views()
            following = [
                model.values(view) for model, view in zip(self._models, views, strict=True)
            ]
        reports = [self._update(k, values) for k, values in enumerate(following)]
        self._at = 0
        return [report for report in reports if report]

    def _views(self) -> list[torch.Tensor]:
        """Return what critics see now."""
        rows = self._rows
        return self._view(rows.observe(), rows.state(), rows.engine.control.alive)

    def _play(self) -> None:
        """Play one step in all lanes and store it."""
        rows, actions = self._rows, []
        parts = (rows.observe(), rows.legal(), rows.learning())
        seen = zip(self._models, *map(rows.parts, parts), self._views(), strict=True)
        for k, (model, inputs, legal, taught, views) in enumerate(seen):
            first = np.repeat(rows.first, len(rows.groups[k]))
            model.rollout.first[self._at] = torch.from_numpy(first)
            model.rollout.taught[self._at] = torch.from_numpy(taught)
            # Copies, because torch aligns them and the bits of a product may depend on that.
            tensors = torch.from_numpy(inputs).clone(), torch.from_numpy(legal).clone()
            actions.append(model.act(self._at, *tensors, views))
        step = rows.step(rows.whole(actions))
        for k, rewards in enumerate(self._earned(step)):
            self._models[k].rollout.rewards[self._at] = rewards
        self.steps += self._params.lanes
        self._at += 1

    def _earned(self, step: Transition) -> list[torch.Tensor]:
        """Store which rows are over; return rewards, with what follows where time alone ends."""
        rows, lanes, use, earned = self._rows, self._rows.lane_step, self._use, []
        engine = rows.engine
        cut = lanes.truncated.any() and not use.terminal
        if cut:
            ended = lanes.over[:, None]
            alive = np.where(ended, engine.final_alive, engine.control.alive)
            views = self._view(step.following, lanes.state, alive)
        for k, (model, own) in enumerate(zip(self._models, rows.transitions(step), strict=True)):
            seats, rollout = len(rows.groups[k]), model.rollout
            over = np.repeat(lanes.over, seats) if use.team else own.done
            rollout.over[self._at] = torch.from_numpy(over)
            rollout.acted[self._at] = torch.from_numpy(own.valid)
            # Values of agents that have fallen are in the estimates of earlier steps.
            if not (use.team or engine.falling):
                rollout.taught[self._at] = rollout.acted[self._at]
            scaled = model.rewards(own) if self._params.scale_rewards else own.rewards
            rewards = torch.from_numpy(scaled).clone()
            if cut:
                by_time = np.repeat(lanes.truncated, seats) if use.team else own.truncated
                values = model.value_scale.unscaled(model.values(views[k]))
                rewards += self._params.gamma * values * torch.from_numpy(by_time)
            earned.append(rewards)
        return earned

    def _update(self, k: int, following: torch.Tensor) -> dict[str, float]:
        """Update a model from its full rollout; return its report, empty if nobody acted."""
        params, model = self._params, self._models[k]
        rollout, scale = model.rollout, model.value_scale
        if not rollout.acted.any():  # its agents were dead all the time
            return {}
        estimates, following = scale.unscaled(rollout.estimates), scale.unscaled(following)
        earned = (rollout.rewards, rollout.over, estimates)
        gains = advantages(*earned, following, params.gamma, params.gae_lambda)
        targets = gains + estimates
        if not torch.isfinite(targets).all():
            raise Diverged("A value is not finite.")
        scale.add(targets[rollout.taught])
        acting = gains[rollout.acted]
        gains = (gains - acting.mean()) / (acting.std(correction=0) + 1e-8)
        rate = self._rate()
        for group in model.optimiser.param_groups:
            group["lr"] = rate
        report = self._epochs(model, gains, scale.scaled(targets))
        spread = float(targets[rollout.taught].var(correction=0))
        if spread > 0.0:
            error = float((targets - estimates)[rollout.taught].var(correction=0))
            report["explained_variance"] = 1.0 - error / spread
        return report | {"learning_rate": rate}

    def _rate(self) -> float:
        """Return the learning rate at the step at which this update's rollout began."""
        params = self._params
        if not params.anneal:
            return float(params.learning_rate)
        begun = self.steps - params.rollout
        return float(params.learning_rate * max(0.0, 1.0 - begun / params.anneal))

    def _epochs(
        self, model: _Model, gains: torch.Tensor, targets: torch.Tensor
    ) -> dict[str, float]:
        """Make all gradient steps of an update; return the mean report of the last epoch."""
        params, use = self._params, self._use
        reports: list[dict[str, float]] = []
        starts, rows, lengths = model.rollout.pieces(use.chunk if params.recurrent else 1)
        parts = use.minibatches
        if use.batch_size:
            parts = -(-int(lengths.sum()) // use.batch_size)
        for _ in range(params.epochs):
            reports = []
            order = torch.randperm(len(starts))
            for some in order.tensor_split(min(parts, len(order))):
                times = torch.arange(int(lengths[some].max()))[:, None]
                filled = times < lengths[some]
                places = torch.where(filled, starts[some] + times, starts[some]), rows[some]
                batch = _Batch(model.rollout, places, filled, gains[places], targets[places])
                reports.append(self._gradient_step(model, batch))
            kl = float(np.mean([report["approx_kl"] for report in reports]))
            if params.target_kl and kl > 1.5 * params.target_kl:
                break
        return {name: float(np.mean([r[name] for r in reports])) for name in reports[0]}

    def _gradient_step(self, model: _Model, batch: "_Batch") -> dict[str, float]:
        """Make one gradient step; return its report."""
        params, (policy_loss, report) = self._params, self._policy_loss(model, batch)
        values = model.critic.run(batch.of("views"), batch.memory("critic_memory"))[0][..., 0]
        value_loss = batch.mean((values - batch.targets) ** 2, "taught")
        loss = policy_loss + params.value * value_loss
        model.optimiser.zero_grad()
        loss.backward()
        norms = [
            torch.nn.utils.clip_grad_norm_(module.parameters(), params.max_grad_norm)
            for module in model.modules.values()
        ]
        if not torch.isfinite(loss + sum(norms)):
            raise Diverged("A loss or its gradient is not finite.")
        model.optimiser.step()
        return report | {"value_loss": float(value_loss.detach())}

    def _policy_loss(self, model: _Model, batch: "_Batch") -> tuple[torch.Tensor, dict[str, float]]:
        """Return the clipped loss of the actor with its entropy bonus, and a report."""
        params, memory = self._params, batch.memory("actor_memory")
        seen = batch.of("inputs"), batch.of("legal"), memory, batch.of("actions")
        log_probs, entropies = model.actor.judge(*seen)
        change = log_probs - batch.of("log_probs")
        ratio = change.exp()
        clipped = ratio.clamp(1.0 - params.clip, 1.0 + params.clip)
        gain = torch.minimum(ratio * batch.gains, clipped * batch.gains)
        policy_loss, entropy = -batch.mean(gain, "acted"), batch.mean(entropies, "acted")
        with torch.no_grad():
            far = ((ratio - 1.0).abs() > params.clip).float()
            report = {
                "policy_loss": float(policy_loss),
                "entropy": float(entropy),
                "approx_kl": float(batch.mean(ratio - 1.0 - change, "acted")),
                "clip_fraction": float(batch.mean(far, "acted")),
            }
        return policy_loss - params.entropy * entropy, report


class _Batch(NamedTuple):
    """Pieces of a rollout, (steps, pieces, ...), padded with their first step."""

    rollout: _Rollout
    places: tuple[torch.Tensor, torch.Tensor]  # steps and rows
    filled: torch.Tensor  # (steps, pieces) bool: no padding
    gains: torch.Tensor
    targets: torch.Tensor

    def of(self, name: str) -> torch.Tensor:
        """Return an array of the rollout at the places of this batch."""
        values: torch.Tensor = getattr(self.rollout, name)[self.places]
        return values

    def memory(self, name: str) -> torch.Tensor:
        """Return what is remembered at the beginning of every piece."""
        values: torch.Tensor = getattr(self.rollout, name)[self.places[0][0], self.places[1]]
        return values

    def mean(self, values: torch.Tensor, which: str) -> torch.Tensor:
        """Return the mean over the rows that teach the actor ("acted") or critic ("taught")."""
        counted = self.of(which) & self.filled
        return (values * counted).sum() / counted.sum().clamp(min=1)
