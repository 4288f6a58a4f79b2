"""Layouts: the named parts of a flat vector, an observation or an action, and their shapes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Part", "consecutive", "unpack"]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a flat vector: entries ``start`` to ``stop - 1``, in C order of ``shape``.

    ``shape`` is ``(stop - start,)`` if it is left out; ``meaning`` says what the entries are, with
    their scale. Raises ``ValueError`` for a shape of another
    size. A part is not a slice: index with ``part.index``, or take ``part.view(array)``.
    """

    start: int
    stop: int
    shape: tuple[int, ...] = ()
    meaning: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise ValueError(f"A part runs from 0 <= start to stop; given {self.start, self.stop}.")
        if not self.shape:
            object.__setattr__(self, "shape", (self.size,))
        if min(self.shape) < 0 or math.prod(self.shape) != self.size:
            raise ValueError(
                f"A part of {self.size} entries, {self.start} to {self.stop - 1}, cannot have the "
                f"shape {self.shape}."
            )

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.stop - self.start

    @property
    def index(self) -> slice:
        """Place of the part along the last axis of an array of vectors."""
        return slice(self.start, self.stop)

    def view(self, vectors: np.ndarray) -> np.ndarray:
        """Return the part of ``vectors``, (..., entries), as a view of shape (..., *shape)."""
        part = vectors[..., self.start : self.stop]
        return part if len(self.shape) == 1 else part.reshape(*part.shape[:-1], *self.shape)


def consecutive(
    shapes: Mapping[str, int | tuple[int, ...]], meanings: Mapping[str, str] | None = None
) -> dict[str, Part]:
    """Lay named parts of these shapes one after the other; a number n is the shape (n,).

    ``meanings`` of parts are taken by name.
    """
    layout: dict[str, Part] = {}
    start = 0
    for name, size in shapes.items():
        shape = size if isinstance(size, tuple) else (size,)
        meaning = (meanings or {}).get(name, "")
        layout[name] = Part(start, start + math.prod(shape), shape, meaning)
        start = layout[name].stop
    return layout


def unpack(layout: Mapping[str, Part], vectors: Any) -> dict[str, np.ndarray]:
    """Return all parts of ``vectors``, (..., entries), by name: views of shape (..., *shape)."""
    array = np.asarray(vectors)
    return {name: part.view(array) for name, part in layout.items()}
