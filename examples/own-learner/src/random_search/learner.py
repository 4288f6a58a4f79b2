"""Random search: a linear policy is tried with changes of both signs and moves to the better one.

Mania, Guy and Recht 2018, "Simple random search of static linear policies".
"""

from operator import attrgetter
from typing import Annotated, NamedTuple

import numpy as np
import torch

from coopbench.baselines.learner import LearnerEntry, Training
from coopbench.baselines.learners.checkpoint import Part
from coopbench.baselines.learners.row_learner import RowLearner
from coopbench.baselines.learners.torch_tools import torch_apart
from coopbench.baselines.networks.network import Network, perceptron
from coopbench_envs.parameters import Allowed, between


class Params(NamedTuple):
    """Hyperparameters."""

    rollout: Annotated[int, between(2, 1_000_000, "environment steps between updates")] = 1600
    lanes: Annotated[int, between(1, 4096, "games played at once")] = 8
    noise: Annotated[float, between(0, 10, "size of the changes tried", above=True)] = 0.1
    rate: Annotated[float, between(0, 10, "step per unit of mean reward", above=True)] = 0.1
    history: Annotated[int, between(1, 64, "observations that the policy gets")] = 1
    scale_observations: Annotated[bool, Allowed("scale bounded features to [-1, 1]")] = True
    seat_number: Annotated[bool, Allowed("tell a shared model which seat it acts for")] = True


class RandomSearch(RowLearner):
    """A linear policy for every seat; each half of a rollout plays with one sign."""

    def __init__(self, training: Training) -> None:
        super().__init__(training)
        params = self._params
        if params.rollout < 2 * params.lanes:
            raise ValueError(
                f"rollout was {params.rollout} and lanes {params.lanes}; allowed: a rollout of at "
                f"least twice the lanes, so that each sign is played for a step."
            )
        self._length = params.rollout // params.lanes
        shape = (len(self._rows.groups), self._rows.inputs, self._rows.outputs)
        self._weights, self._change = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self._earned = np.zeros((2, shape[0]))  # with either sign
        with torch_apart(self._numbers):
            self._draw()

    def advance(self) -> list[dict[str, float]]:
        """Play one step in all lanes; update at the end of a rollout."""
        at = self.steps // self._params.lanes % self._length
        second = int(at >= self._length // 2)
        tried = self._weights + (-1) ** second * self._params.noise * self._change
        rows = self._rows
        inputs = rows.cut(rows.observe())
        outputs = rows.whole([x @ weights for x, weights in zip(inputs, tried, strict=True)])
        if rows.discrete:
            outputs = np.where(rows.legal(), outputs, -np.inf).argmax(axis=2)
        step = rows.step(outputs)
        earned = zip(rows.cut(step.rewards), rows.cut(step.valid), strict=True)
        self._earned[second] += [rewards[valid].sum() for rewards, valid in earned]
        self.steps += self._params.lanes
        return self._update() if at + 1 == self._length else []

    def network(self) -> Network:
        """Return the weights as a network without hidden layers."""
        rows, models = self._rows, len(self._weights)
        layers = perceptron([self._weights.copy()], [np.zeros((models, rows.outputs), np.float32)])
        return rows.network(layers, "tanh", "argmax" if rows.discrete else "clip")

    def parts(self) -> dict[str, Part]:
        """Return weights, the change that is tried, and what it has earned with either sign."""
        return {"model": self._weights, "change": self._change, "earned": self._earned}

    def _update(self) -> list[dict[str, float]]:
        gained = (self._earned[0] - self._earned[1]) / self._params.rollout
        step = self._params.rate * gained[:, None, None] * self._change
        self._weights += step.astype(np.float32)
        self._earned[:] = 0.0
        self._draw()
        return [{"gained": float(np.abs(gained).mean())}]

    def _draw(self) -> None:
        self._change[:] = torch.randn(self._change.shape).numpy()


def shortened(params: Params, steps: int) -> Params:
    """Let a whole rollout fit into ``steps``."""
    lanes = min(params.lanes, max(1, steps // 8))
    rounds = min(params.rollout, steps) // (2 * lanes)
    return params._replace(lanes=lanes, rollout=rounds * 2 * lanes)


LEARNER = LearnerEntry(
    name="random_search",
    create=RandomSearch,
    summary="random search of a linear policy for each agent",
    kind="on_policy",
    params=Params,
    shortened=shortened,
    first_update=attrgetter("rollout"),
)
