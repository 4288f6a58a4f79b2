"""Q-learning of teams with memory: independent (IQL), added (VDN) and mixed values (QMIX).

Every seat has a recurrent network that values its choices from what it has observed and done. Whole
episodes are replayed. The target of a step is, with the weight ``trace`` = l (Peng & Williams 1996)

    y[t] = r[t] + gamma * ((1 - l) * Q'[t + 1] + l * y[t + 1]),    y[n - 1] = r + gamma * Q'[n],

where Q' is the target network's value of the choices that the present network prefers (double
Q-learning, van Hasselt et al. 2016), and 0 after the end of the game. IQL learns this of every seat
(Tan 1993), VDN of the sum over seats (Sunehag et al. 2018), QMIX of a monotone mixture of them that
depends on the global state (Rashid et al. 2018). Dead agents have one choice; their values go on to
be learned, since what their team earns later is also due to them.
"""

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.errors import Diverged
from coopbench.baselines.learner import LearnerEntry, Reward
from coopbench.baselines.learners.checkpoint import part, under
from coopbench.baselines.learners.mixers import Mixer, Monotone, add
from coopbench.baselines.learners.row_learner import RowLearner
from coopbench.baselines.learners.sequences import (
    STORED,
    Batch,
    Episodes,
    Playing,
    Recurrent,
    network_of,
    outputs_of,
)
from coopbench.baselines.learners.torch_tools import (
    module_arrays,
    optimiser_arrays,
    put_module,
    put_optimiser,
    torch_apart,
)
from coopbench.baselines.networks.recurrent import RecurrentPolicy
from coopbench_envs.parameters import Allowed, between, one_of

if TYPE_CHECKING:
    import torch

_TERMINAL = "terminal"
_MANY = 10**9


class Params(NamedTuple):
    """Hyperparameters; steps are those of the environment, all lanes together."""

    learning_rate: Annotated[float, between(0, 1, "step size of Adam", above=True)] = 5e-4
    lanes: Annotated[int, between(1, 4096, "games played at once")] = 32
    replay: Annotated[int, between(1, 1_000_000, "episodes that are stored")] = 5000
    batch_size: Annotated[int, between(1, 4096, "episodes of a gradient step")] = 32
    updates_per_episode: Annotated[
        float, between(0, 100, "gradient steps for each", above=True)
    ] = 0.25
    gamma: Annotated[float, between(0, 1, "discount factor")] = 0.99
    trace: Annotated[float, between(0, 1, "lambda of the targets; 0: of one step")] = 0.6
    target_every: Annotated[int, between(1, _MANY, "gradient steps between new targets")] = 200
    epsilon: Annotated[float, between(0, 1, "share of random choices at the end")] = 0.05
    epsilon_steps: Annotated[int, between(1, 10**12, "steps from 1 to that share")] = 50_000
    max_grad_norm: Annotated[float, between(0, 1e9, "largest norm of a gradient", above=True)] = (
        10.0
    )
    hidden: Annotated[int, between(1, 1024, "width of the layers and of the memory")] = 64
    time_limit: Annotated[
        str, one_of(("bootstrap", _TERMINAL), "an end by time alone: values go on, or are 0")
    ] = "bootstrap"
    stored: Annotated[str, one_of(STORED, "type of stored observations")] = "float32"
    scale_observations: Annotated[bool, Allowed("scale bounded features to [-1, 1]")] = True
    seat_number: Annotated[bool, Allowed("tell a shared model which seat it acts for")] = True
    reward: Reward = "own"


class _Values:
    """The networks of all seats and what mixes their values, with an optimiser."""

    def __init__(self, inputs: int, outputs: int, groups: list[np.ndarray], hidden: int) -> None:
        self.groups = groups
        self.models = [Recurrent(inputs, hidden, outputs) for _ in groups]
        self.mixer: Mixer | None = None

    def modules(self) -> dict[str, "torch.nn.Module"]:
        """Return everything that is learned, by name."""
        modules: dict[str, torch.nn.Module] = {}
        modules |= {f"model.{k}": model.module for k, model in enumerate(self.models)}
        if isinstance(self.mixer, Monotone):
            modules["mixer"] = self.mixer.module
        return modules

    def parameters(self) -> list["torch.Tensor"]:
        """Return all parameters."""
        return [p for module in self.modules().values() for p in module.parameters()]

    def __call__(self, inputs: "torch.Tensor") -> "torch.Tensor":
        """Return the values of all choices, (steps, episodes, agents, choices)."""
        return outputs_of(self.models, self.groups, inputs)

    def mixed(self, values: "torch.Tensor", state: "torch.Tensor") -> "torch.Tensor":
        """Return values (steps, episodes, agents) as they are learned: mixed ones have one."""
        return values if self.mixer is None else self.mixer(values, state)


def targets(batch: Batch, following: "torch.Tensor", gamma: float, trace: float) -> "torch.Tensor":
    """Return y of every step, (steps, episodes, n), from Q' of what follows it, of that shape.

    With n = 1 rewards are those of the first agent, which a common reward gives to all.
    """
    import torch

    rewards = batch.rewards[:, :, : following.shape[2]]
    goes_on = gamma * (1.0 - batch.terminated).unsqueeze(2)
    last = batch.last.unsqueeze(2)
    later, aims = torch.zeros_like(following[0]), []
    for t in reversed(range(len(following))):
        mixture = (1.0 - trace) * following[t] + trace * later
        later = rewards[t] + goes_on[t] * torch.where(last[t], following[t], mixture)
        aims.append(later)
    return torch.stack(aims[::-1])


class QLearner(RowLearner):
    """IQL, VDN or QMIX for all seats of a game, with a model per agent or one that all share."""

    def __init__(
        self, name: str, env_id: str, parameters: Mapping[str, Any], seed: int, params: Params
    ) -> None:
        self._kind = name.removesuffix("_shared")
        super().__init__(name, env_id, parameters, seed, params, global_state=self._kind == "qmix")
        rows = self._rows
        self._check_game()
        size = rows.state().shape[1]
        self._episodes = Episodes(params.replay, rows, size, params.stored)
        terminal = params.time_limit == _TERMINAL
        self._playing = Playing(rows, params.hidden, self._episodes, terminal=terminal)
        with torch_apart(self._numbers):
            self._values = self._networks(size)
        self._target = copy.deepcopy(self._values)
        self._optimiser = _adam(self._values.parameters(), params.learning_rate)
        self._updates, self._owed = 0, 0.0
        self._network = self._acting()

    def _check_game(self) -> None:
        """Raise ``ValueError`` for a game that this learner cannot learn."""
        rows, params = self._rows, self._params
        if not rows.discrete:
            raise ValueError(
                f"Learner {self.name!r} values choices, and {rows.engine.spec.id} has Box actions; "
                f"learners of these are ippo and isac."
            )
        if self._kind != "iql" and not (rows.engine.spec.common_reward or params.reward == "team"):
            raise ValueError(
                f"Learner {self.name!r} learns one value of the team, and in {rows.engine.spec.id} "
                f"every agent has its own reward; allowed: reward='team', or the learners iql and "
                f"ippo."
            )

    def _networks(self, state: int) -> _Values:
        """Return new networks."""
        rows = self._rows
        values = _Values(rows.inputs + rows.outputs, rows.outputs, rows.groups, self._params.hidden)
        if self._kind == "vdn":
            values.mixer = add
        elif self._kind == "qmix":
            values.mixer = Monotone(rows.agents, state)
        return values

    def _acting(self) -> Any:
        """Return the present networks as data."""
        any_number = not self._params.seat_number
        return network_of(self._values.models, self._rows, any_number=any_number)

    def policy(self) -> RecurrentPolicy:
        """Return the choices of largest value as a policy."""
        return RecurrentPolicy(self._acting(), self.facts())

    def advance(self) -> list[dict[str, float]]:
        """Play one step in all lanes, and update as often as finished episodes allow."""
        params = self._params
        done = min(1.0, self.steps / params.epsilon_steps)
        share = 1.0 + done * (params.epsilon - 1.0)
        finished = self._playing.step(self._network, share)
        self.steps += params.lanes
        if len(self._episodes) < min(params.batch_size, params.replay):
            return []
        self._owed += finished * params.updates_per_episode
        reports = []
        while self._owed >= 1.0:
            self._owed -= 1.0
            reports.append(self._update() | {"epsilon": share})
        if reports:
            self._network = self._acting()
        return reports

    def _update(self) -> dict[str, float]:
        """Make one gradient step; return its report."""
        import torch

        params, batch = self._params, self._episodes.sample(self._params.batch_size)
        inputs = batch.with_last_actions()
        values = self._values(inputs)
        chosen = values[:-1].gather(3, batch.actions.unsqueeze(3)).squeeze(3)
        learned = self._values.mixed(chosen, batch.state[:-1])
        with torch.no_grad():
            preferred = values[1:].masked_fill(~batch.legal[1:], -torch.inf).argmax(3, keepdim=True)
            later = self._target(inputs)[1:].gather(3, preferred).squeeze(3)
            following = self._target.mixed(later, batch.state[1:])
            aims = targets(batch, following, params.gamma, params.trace)
        filled = batch.filled.unsqueeze(2).expand_as(learned)
        loss = (filled * (learned - aims) ** 2).sum() / filled.sum()
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self._values.parameters(), params.max_grad_norm)
        if not torch.isfinite(norm + loss):
            raise Diverged("A loss or its gradient is not finite.")
        self._optimiser.step()
        self._updates += 1
        if self._updates % params.target_every == 0:
            self._target = copy.deepcopy(self._values)
        mean = float((filled * learned.detach()).sum() / filled.sum())
        return {"loss": float(loss.detach()), "value": mean}

    def save(self) -> dict[str, np.ndarray]:
        """Return everything that training needs to continue, including the replay."""
        arrays = self._settings() | under("episodes", self._episodes.save())
        return arrays | under("game", self._rows.save())

    def _settings(self) -> dict[str, np.ndarray]:
        """Return what is saved besides games and episodes."""
        arrays = {
            "origin": self.origin(),
            "steps": np.array(self.steps),
            "numbers": self._numbers.copy(),
            "updates": np.array(self._updates),
            "owed": np.array(self._owed),
        }
        arrays |= under("playing", self._playing.save())
        for which, values in (("", self._values), ("target.", self._target)):
            for name, module in values.modules().items():
                arrays |= under(f"{which}{name}", module_arrays(module))
        return arrays | under("optimiser", optimiser_arrays(self._optimiser))

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from a saved state; ``ValueError`` if it is one of another training."""
        added = int(np.max(arrays.get("episodes.added", 0), initial=0))
        current = self._settings() | under("episodes", self._episodes.forms(added))
        self.check_saved(arrays, current | under("game", self._rows.save()))
        self._rows.load(part(arrays, "game"))
        self._episodes.load(part(arrays, "episodes"))
        self._playing.load(part(arrays, "playing"))
        for which, values in (("", self._values), ("target.", self._target)):
            for name, module in values.modules().items():
                put_module(module, part(arrays, f"{which}{name}"))
        put_optimiser(self._optimiser, part(arrays, "optimiser"))
        self._numbers[:] = arrays["numbers"]
        self.steps, self._updates = int(arrays["steps"]), int(arrays["updates"])
        self._owed = float(arrays["owed"])
        self._network = self._acting()


def _adam(parameters: list["torch.Tensor"], learning_rate: float) -> "torch.optim.Optimizer":
    """Return an optimiser of these parameters."""
    import torch

    return torch.optim.Adam(parameters, lr=learning_rate, fused=True)


def _entry(name: str, summary: str) -> LearnerEntry:
    """Return the registry's entry of a variant."""

    def create(env_id: str, parameters: Mapping[str, Any], seed: int, params: Params) -> QLearner:
        return QLearner(name, env_id, parameters, seed, params)

    return LearnerEntry(name, create, summary, "off_policy", Params, _shortened, _first_update)


def _first_update(params: Params) -> int:
    """Return steps without which no update can take place: so many episodes of one step."""
    episodes = max(params.batch_size, int(np.ceil(1.0 / params.updates_per_episode)))
    return int(np.ceil(episodes / params.lanes)) * params.lanes


def _shortened(params: Params, steps: int) -> Params:
    """Change hyperparameters so that, with short episodes, something is learned in ``steps``."""
    lanes = min(params.lanes, max(1, steps // 256))
    return params._replace(
        lanes=lanes,
        batch_size=min(params.batch_size, lanes),
        updates_per_episode=max(1.0, params.updates_per_episode),
        epsilon_steps=min(params.epsilon_steps, max(1, steps // 2)),
    )


_MEMORY = "recurrent networks"
LEARNERS = (
    _entry("iql", f"independent Q-learning, separate {_MEMORY} for each agent"),
    _entry("iql_shared", f"independent Q-learning, shared {_MEMORY} for all agents"),
    _entry("vdn", f"Q-learning of the sum of values, separate {_MEMORY} for each agent"),
    _entry("vdn_shared", f"Q-learning of the sum of values, shared {_MEMORY} for all agents"),
    _entry("qmix", f"Q-learning of monotonically mixed values, separate {_MEMORY} for each agent"),
    _entry("qmix_shared", f"Q-learning of monotonically mixed values, shared {_MEMORY}"),
)
