"""Differences: in which keys two protocols differ, and whether one is the other."""

from collections.abc import Iterator
from typing import Any

from coopbench.protocol.schema import Protocol

__all__ = ["are_same", "differing_keys", "differing_played", "differing_wording"]

_NAMED = 6  # keys that are named


def are_same(one: Protocol, two: Protocol) -> bool:
    """Whether two protocols are one and the same, whatever the words that describe them."""
    return one.content() == two.content()


def differing_keys(one: Protocol, two: Protocol) -> str:
    """Name the keys in which two protocols differ, wording aside; empty if they are the same."""
    return _named(_keys(one.content(), two.content()))


def differing_wording(one: Protocol, two: Protocol) -> str:
    """Name the keys, wording included, in which two protocols differ; empty if in none."""
    return _named(_keys(one.model_dump(mode="json"), two.model_dump(mode="json")))


def differing_played(one: Protocol, two: Protocol) -> list[str]:
    """Return the keys of what the digest covers in which two protocols differ."""
    return list(_keys(one.played(), two.played()))


def _named(keys: Iterator[str]) -> str:
    """Write keys in a line, the first few of many."""
    names = list(dict.fromkeys(keys))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _keys(one: dict[str, Any], two: dict[str, Any], where: str = "") -> Iterator[str]:
    """Yield the keys in which two contents differ, with those of the tables that they are in."""
    for key in dict.fromkeys((*one, *two)):
        before, now = one.get(key), two.get(key)
        place = f"{where}{key}"
        if before == now and (key in one) == (key in two):
            continue
        if place == "task":
            tasks = [{task["id"]: task for task in side} for side in (before or (), now or ())]
            if list(tasks[0]) != list(tasks[1]):
                yield "task"
            for name in (name for name in tasks[0] if name in tasks[1]):
                yield from _keys(tasks[0][name], tasks[1][name], f"task.{name}.")
        elif isinstance(before, dict) and isinstance(now, dict) and not where:
            yield from _keys(before, now, f"{place}.")
        else:
            yield place
