"""Rollouts: the steps of a model since its last update, advantages, and pieces to learn from."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

from coopbench.baselines.learners.checkpoint import LARGEST, Part
from coopbench.baselines.learners.experience import Rows
from coopbench.baselines.learners.torch_tools import bytes_of

__all__ = ["Pieces", "Rollout", "advantages", "check_memory", "rollout_length"]


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


class Rollout:
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

    def parts(self) -> dict[str, Part]:
        """Return all arrays."""
        return dict(vars(self))

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


class Pieces(NamedTuple):
    """Pieces of a rollout, (steps, pieces, ...), padded with their first step."""

    rollout: Rollout
    places: tuple[torch.Tensor, torch.Tensor]  # steps and rows
    filled: torch.Tensor  # (steps, pieces) bool: no padding
    gains: torch.Tensor
    targets: torch.Tensor

    def of(self, name: str) -> torch.Tensor:
        """Return an array of the rollout at the places of these pieces."""
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
