"""Probing: a random episode shows which numbers an environment of another package tells agents."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from coopbench_envs.core import streams
from coopbench_envs.drivers import DISABLED
from coopbench_envs.foreign.engine import ForeignEngine
from coopbench_envs.foreign.environment import foreign_spec
from coopbench_envs.foreign.worlds import digest_of, number_in

__all__ = ["info_names"]

_MOST = 20  # names; an info with more of them is no list of metrics
_LONGEST = 60  # characters of a name
_DEPTH = 3  # dictionaries within dictionaries
# Numbers of wrappers, and names that metrics of every environment have.
_TAKEN = ("TimeLimit.truncated", "return", "own_return", "length", "fairness", "gini")


def info_names(name: str, keywords: Mapping[str, Any]) -> dict[str, str]:
    """Play one episode with random actions; return the numbers in its infos, {name: "last"}.

    Numbers in dictionaries have the path ``name.name``. The order is that of the alphabet. Those
    that alone differ if the episode is played again, such as times, are left out.
    """
    (said, numbers), (again, others) = (_played(name, keywords) for _ in range(2))
    names = set(numbers)
    if said == again:
        names = {path for path in names if repr(numbers[path]) == repr(others.get(path))}
    return dict.fromkeys(sorted(names - set(_TAKEN))[:_MOST], "last")


def _played(name: str, keywords: Mapping[str, Any]) -> tuple[list[bytes], dict[str, list[Any]]]:
    """Play an episode with random actions; return digests of what was said, and all numbers."""
    engine = ForeignEngine(foreign_spec(name), 1, **keywords)
    said, numbers = list[bytes](), dict[str, list[Any]]()

    def note() -> None:
        said.append(digest_of(engine.turn(0)))
        for path, value in _numbers(engine):
            numbers.setdefault(path, []).append(value)

    try:
        engine.reset(np.zeros(1, np.uint64))
        states = streams(np.zeros((1, 1), np.uint64), np.arange(len(engine.agents))[None, :])
        note()
        while not engine.control.done.all():
            actions = engine.codec.sampled(states, engine.control.masks.astype(np.bool_))
            engine.step(engine.codec.encoded(actions, 1, "random"), DISABLED)
            note()
    finally:
        engine.close()
    return said, numbers


def _numbers(engine: ForeignEngine) -> Iterator[tuple[str, Any]]:
    for info in engine.told(0).values():
        yield from _paths(info, "", _DEPTH)


def _paths(info: Any, before: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield paths and values of all numbers in nested dictionaries that can be metrics."""
    if not isinstance(info, Mapping) or not depth:
        return
    for key, value in info.items():
        path = f"{before}{key}"
        usable = isinstance(key, str) and path.isprintable() and not set(path) & set(" :")
        if usable and len(path) <= _LONGEST:
            if _is_number(value):
                yield path, number_in({"number": value}, "number")
            yield from _paths(value, f"{path}.", depth - 1)


def _is_number(value: Any) -> bool:
    try:
        return number_in({"number": value}, "number") is not None
    except ValueError:  # beyond all floats
        return False
