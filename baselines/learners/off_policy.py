"""What learners from single steps share: a replay of them, and when and how much is learned."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from coopbench_envs.arrays import LIMIT

__all__ = ["Forms", "Replay", "check_replay", "first_update", "shortened"]

Forms = Mapping[str, tuple[tuple[int, ...], torch.dtype]]  # shape and type of a step, by name


class Replay:
    """The latest ``size`` steps in a ring, each an array of every name in ``forms``.

    The arrays are torch's, because the bits of a product may depend on where in memory a matrix
    begins, and torch always aligns them to the same boundaries.
    """

    def __init__(self, size: int, forms: Forms) -> None:
        self.size, self.added = size, 0  # steps, including those that were overwritten
        self._ring = {
            n: torch.zeros((size, *shape), dtype=kind) for n, (shape, kind) in forms.items()
        }

    def __len__(self) -> int:
        return min(self.added, self.size)

    def add(self, steps: Mapping[str, np.ndarray]) -> None:
        """Store steps, (steps, ...) by name."""
        count = len(next(iter(steps.values())))
        places = torch.from_numpy((self.added + np.arange(count)) % self.size)
        for name, ring in self._ring.items():
            ring[places] = torch.from_numpy(steps[name])
        self.added += count

    def sample(self, count: int) -> dict[str, torch.Tensor]:
        """Draw steps uniformly, with replacement; return copies by name."""
        places = torch.randint(len(self), (count,))
        return {name: ring[places] for name, ring in self._ring.items()}

    def save(self) -> dict[str, np.ndarray]:
        """Return all stored steps, not copied, and how many were ever added."""
        arrays = {name: ring[: len(self)].numpy() for name, ring in self._ring.items()}
        return arrays | {"added": np.array(self.added)}

    def forms(self, saved: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return arrays of the shapes that as many steps have as were ever added."""
        added = int(np.max(saved.get("added", 0), initial=0))
        rows = min(added, self.size)
        arrays = {
            name: np.broadcast_to(ring[:1].numpy(), (rows, *ring.shape[1:]))
            for name, ring in self._ring.items()
        }
        return arrays | {"added": np.array(self.added)}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from saved steps."""
        self.added = int(arrays["added"])
        for name, ring in self._ring.items():
            ring[: len(self)] = torch.from_numpy(arrays[name])


def check_replay(params: Any, forms: Forms, replays: int, rows: int, env_id: str) -> None:
    """Raise ``ValueError`` for numbers that do not fit together.

    There are so many ``replays``, each of which gets up to ``rows`` at a step of all lanes.
    """
    if params.train_every % params.lanes:
        raise ValueError(
            f"train_every was {params.train_every} and lanes {params.lanes}; allowed: a "
            f"train_every that is a multiple of lanes."
        )
    if params.buffer_size < max(params.batch_size, rows):
        raise ValueError(
            f"buffer_size was {params.buffer_size}, batch_size {params.batch_size}, and a step has "
            f"{rows} rows; allowed: a buffer_size that is not less than either."
        )
    each = sum(kind.itemsize * int(np.prod(shape)) for shape, kind in forms.values())
    taken, allowed = replays * each * params.buffer_size, LIMIT // 2
    if taken > allowed:
        raise ValueError(
            f"buffer_size was {params.buffer_size}: so many rows of {replays} models in {env_id} "
            f"take {taken:,} bytes; allowed: up to {allowed:,}, thus a buffer_size of up to "
            f"{allowed // (replays * each)}."
        )


def first_update(params: Any) -> int:
    """Return the steps after which the first update takes place."""
    steps: int = (params.warmup // params.train_every + 1) * params.train_every
    return steps


def shortened(params: Any, steps: int) -> Any:
    """Change hyperparameters so that at least one update fits into ``steps``."""
    lanes = min(params.lanes, max(1, steps // 8))
    train_every = max(lanes, min(params.train_every, steps // 4) // lanes * lanes)
    warmup = min(params.warmup, steps // 2)
    return params._replace(lanes=lanes, train_every=train_every, warmup=warmup)
