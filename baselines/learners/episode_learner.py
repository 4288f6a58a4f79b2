"""The loop of learners from whole episodes, each of which adds its update and its networks.

Two ways to use episodes: a replay, of which some are drawn for every update, or all episodes once,
as soon as enough of them are over.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import torch

from coopbench.baselines.learner import LearnerEntry, Training
from coopbench.baselines.learners.checkpoint import Part
from coopbench.baselines.learners.modules import Body, Perceptron, Recurrent, layers_of
from coopbench.baselines.learners.row_learner import RowLearner
from coopbench.baselines.learners.sequences import Batch, Episodes, Moment
from coopbench.baselines.learners.torch_tools import torch_apart
from coopbench.baselines.networks.network import Network

__all__ = ["EpisodeLearner", "entry_of", "falling_share", "greedy"]


class EpisodeLearner(RowLearner):
    """Plays episodes in all lanes and learns from them.

    Subclasses add ``update`` and ``renew``, and to ``make_networks`` and ``parts`` whatever else
    they learn. Of the hyperparameters ``lanes``, ``batch_size``, ``recurrent``, ``hidden``,
    ``stored`` and ``target_every`` are read here, ``epsilon`` and ``epsilon_steps`` by ``choose``,
    and of learners with a replay ``replay``, ``fit_replay`` and ``updates_per_episode``.
    """

    team = True  # it learns one value of the team, thus from a common reward
    global_state = True  # it uses the global state
    replayed = True  # it draws from a replay, instead of using all episodes once

    def __init__(self, training: Training) -> None:
        super().__init__(training, global_state=self.global_state)
        rows, params = self._rows, self._params
        self._check_game()
        size = params.replay if self.replayed else params.batch_size + params.lanes
        if size < params.batch_size:
            raise ValueError(
                f"replay was {size} and batch_size {params.batch_size}; allowed: a replay of at "
                f"least batch_size episodes."
            )
        fit = getattr(params, "fit_replay", False)
        self._episodes = Episodes(size, rows, params.stored, fit=fit)
        fewer = self._episodes.size < size
        self.reduced = {"replay": self._episodes.size} if fewer else {}
        with torch_apart(self._numbers):
            self.make_networks()
        self._network = self.network()
        # What the lanes remember: the memory of the networks, and the last choice.
        self._hidden, self._last = (
            np.zeros((rows.lanes, rows.agents, width), np.float32)
            for width in (self._network.hidden, rows.outputs)
        )
        self.updates = np.array(0)  # gradient steps so far
        # Updates that finished episodes allow; without a replay: new episodes.
        self._owed = np.array(0.0)

    def make_networks(self) -> None:
        """Make all networks, and what learns them; here those that act.

        They are one for each of ``Rows.groups``, of inputs and the last choice.
        """
        rows, params = self._rows, self._params
        inputs, hidden = rows.inputs + rows.outputs, params.hidden
        self.models: list[Body] = [
            Recurrent(inputs, hidden, rows.outputs)
            if params.recurrent
            else Perceptron([inputs, hidden, hidden, rows.outputs])
            for _ in rows.groups
        ]

    def _check_game(self) -> None:
        """Raise ``ValueError`` for a game that this learner cannot learn."""
        rows, params = self._rows, self._params
        if not rows.discrete:
            raise ValueError(
                f"Learner {self.name!r} values choices, and {rows.engine.spec.id} has Box actions; "
                f"allowed: its parameter action_levels, which makes them choices, or the learners "
                f"ippo, isac, mappo and maddpg."
            )
        if self.team and not (rows.engine.spec.common_reward or params.reward == "team"):
            raise ValueError(
                f"Learner {self.name!r} learns one value of the team, and in {rows.engine.spec.id} "
                f"every agent has its own reward; allowed: reward='team', or the learners iql, "
                f"ippo, mappo and maddpg."
            )

    def network(self) -> Network:
        """Return the present networks as data; the policy makes the choices of largest output."""
        layers = layers_of([model.layers for model in self.models])
        return self._rows.network(layers, "relu", "argmax", last_action=True)

    def choose(self, outputs: np.ndarray, legal: np.ndarray) -> np.ndarray:
        """Return choices (lanes, agents) while training.

        They are those of largest output, and random ones for a share of them that falls from 1;
        outputs and legal choices are (lanes, agents, choices).
        """
        params = self._params
        share = falling_share(self.steps, 1.0, params.epsilon, params.epsilon_steps)
        return greedy(outputs, legal, share)

    def update(self, batch: Batch) -> dict[str, float]:
        """Learn from episodes; return named numbers. Raises ``Diverged``."""
        raise NotImplementedError

    def renew(self) -> None:
        """Make the target networks equal to the present ones."""
        raise NotImplementedError

    def count_step(self) -> None:
        """Count a gradient step, and renew the target networks when it is time."""
        self.updates += 1
        if self.updates % self._params.target_every == 0:
            self.renew()

    def advance(self) -> list[dict[str, float]]:
        """Play one step in all lanes, and update as often as finished episodes allow."""
        finished = self._play()
        batches = self._replays(finished) if self.replayed else self._news(finished)
        reports = [self.update(batch) for batch in batches]
        if reports:
            self._network = self.network()
        return reports

    def _play(self) -> int:
        """Play one step in all lanes and store it; return the episodes finished."""
        rows, engine, control = self._rows, self._rows.engine, self._rows.engine.control
        first = rows.first
        self._hidden[first] = 0.0
        self._last[first] = 0.0
        seen, legal = rows.observe(), _forced(control.masks, control.alive)
        inputs = np.concatenate([seen, self._last], axis=2)
        outputs, self._hidden = self._network.step(inputs, self._hidden)
        before = Moment(seen, legal, rows.state())
        actions = self.choose(outputs, legal)
        step = rows.step(actions)
        self._last = np.eye(rows.outputs, dtype=np.float32)[actions]
        self._episodes.add(before, actions, step.rewards)
        self.steps += rows.lanes
        if not step.over.any():
            return 0
        legal = _forced(engine.finals.masks, engine.finals.alive)
        after = Moment(step.following, legal, step.state)
        return self._episodes.close(step.over, ~step.by_time, after)

    def _replays(self, finished: int) -> Iterator[Batch]:
        """Yield a batch of the replay for every update that episodes just finished allow."""
        params = self._params
        if len(self._episodes) < min(params.batch_size, self._episodes.size):
            return
        self._owed += finished * params.updates_per_episode
        while self._owed >= 1.0:
            self._owed -= 1.0
            yield self._episodes.sample(params.batch_size)

    def _news(self, finished: int) -> Iterator[Batch]:
        """Yield the episodes since the last update when they are enough."""
        self._owed += finished
        if self._owed >= self._params.batch_size:
            yield self._episodes.latest(int(self._owed))
            self._owed[...] = 0.0

    def parts(self) -> dict[str, Part]:
        """Return everything but what subclasses add."""
        return {
            "model": torch.nn.ModuleList(self.models),
            "updates": self.updates,
            "episodes": self._episodes,
            "hidden": self._hidden,
            "last_choice": self._last,
            "owed": self._owed,
        }

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from a saved state; ``ValueError`` if it is one of another training."""
        super().load(arrays)
        self._network = self.network()


def _forced(masks: np.ndarray, alive: np.ndarray) -> np.ndarray:
    """Return legal choices: of the dead, and where there is none, the first one alone."""
    legal: np.ndarray = masks != 0
    nothing = ~legal.any(axis=2) | ~alive
    legal[nothing] = False
    legal[nothing, 0] = True
    return legal


def greedy(outputs: np.ndarray, legal: np.ndarray, share: float) -> np.ndarray:
    """Return the best legal choices, of each seat with probability ``share`` a random one."""
    best = np.where(legal, outputs, -np.inf).argmax(axis=2)
    drawn = torch.rand(legal.shape).numpy()
    random = np.where(legal, drawn, -1.0).argmax(axis=2)
    exploring = torch.rand(best.shape).numpy() < share
    chosen: np.ndarray = np.where(exploring, random, best)
    return chosen


def falling_share(steps: int, begin: float, end: float, length: int) -> float:
    """Return the share of random choices, which falls from ``begin`` to ``end`` in ``length``."""
    return begin + min(1.0, steps / length) * (end - begin)


def entry_of(name: str, summary: str, learner: type[EpisodeLearner], params: type) -> LearnerEntry:
    """Return the registry's entry of a learner from episodes."""
    kind: Literal["on_policy", "off_policy"] = "off_policy" if learner.replayed else "on_policy"
    return LearnerEntry(name, learner, summary, kind, params, _shortened, _first_update)


def _first_update(params: Any) -> int:
    """Return steps without which no update can take place: so many episodes of one step."""
    updates = getattr(params, "updates_per_episode", 1.0)
    episodes: int = max(params.batch_size, math.ceil(1.0 / updates))
    lanes: int = params.lanes
    return math.ceil(episodes / lanes) * lanes


def _shortened(params: Any, steps: int) -> Any:
    """Change hyperparameters so that, with short episodes, something is learned in ``steps``."""
    lanes = min(params.lanes, max(1, steps // 256))
    changes: dict[str, Any] = {
        "lanes": lanes,
        "batch_size": min(params.batch_size, lanes),
        "epsilon_steps": min(params.epsilon_steps, max(1, steps // 2)),
    }
    if hasattr(params, "updates_per_episode"):
        changes["updates_per_episode"] = max(1.0, params.updates_per_episode)
    return params._replace(**changes)
