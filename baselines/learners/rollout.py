"""Rollouts: the steps of a model since its last update, advantages, and pieces to learn from."""

from collections.abc import Callable, Iterable, Iterator
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


class Places(NamedTuple):
    """Where pieces of a rollout are, (pieces,)."""

    starts: torch.Tensor
    rows: torch.Tensor
    lengths: torch.Tensor


class Pieces(NamedTuple):
    """Pieces of a rollout, (steps, pieces, ...), padded with their first step."""

    inputs: torch.Tensor
    views: torch.Tensor
    legal: torch.Tensor
    actions: torch.Tensor
    log_probs: torch.Tensor
    acted: torch.Tensor  # without padding, as ``taught``
    taught: torch.Tensor
    gains: torch.Tensor
    targets: torch.Tensor
    actor_memory: torch.Tensor  # at the beginning of every piece, (1, pieces, hidden)
    critic_memory: torch.Tensor

    def split(self, sizes: list[int]) -> "Iterator[Pieces]":
        """Yield the pieces in groups of these sizes."""
        for parts in zip(*(torch.split(values, sizes, 1) for values in self), strict=True):
            yield Pieces(*parts)


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

    def minibatches(
        self, places: Places, parts: int, gains: torch.Tensor, targets: torch.Tensor
    ) -> Iterator[Pieces]:
        """Yield all pieces in random order, in so many parts of nearly as many pieces each."""
        order, lengths = torch.randperm(len(places.starts)), places.lengths
        sizes = [len(part) for part in order.tensor_split(min(parts, len(order)))]
        # Steps alone need no padding, so that all are gathered at once.
        alone = int(lengths.max()) == 1
        for some in [order] if alone else torch.split(order, sizes):
            whole = self._gathered(Places(*(each[some] for each in places)), gains, targets)
            yield from whole.split(sizes) if alone else [whole]

    def _gathered(self, places: Places, gains: torch.Tensor, targets: torch.Tensor) -> Pieces:
        """Return what lies at some places."""
        starts, rows, lengths = places
        times = torch.arange(int(lengths.max()))[:, None]
        filled = times < lengths
        all_steps = torch.where(filled, starts + times, starts), rows
        first_steps = starts[None], rows[None]
        return Pieces(
            inputs=self.inputs[all_steps],
            views=self.views[all_steps],
            legal=self.legal[all_steps],
            actions=self.actions[all_steps],
            log_probs=self.log_probs[all_steps],
            acted=self.acted[all_steps] & filled,
            taught=self.taught[all_steps] & filled,
            gains=gains[all_steps],
            targets=targets[all_steps],
            actor_memory=self.actor_memory[first_steps],
            critic_memory=self.critic_memory[first_steps],
        )

    def pieces(self, chunk: int) -> Places:
        """Return where all pieces are that teach anything.

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
        return Places(starts[useful], rows[useful], (ends - starts)[useful])
