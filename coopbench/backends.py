"""Backends: where cells are worked on. Each maps a function over items and keeps their order."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = ["BACKENDS"]


def serial(work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """One after the other, in this process."""
    return map(work, items)


BACKENDS: dict[str, Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]] = {
    "serial": serial,
}
