"""Comparison: differences between the stored episodes of a cell and the same played again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from coopbench.episodes.table import Episodes, Trace
from coopbench.workflows.verdicts import ABSOLUTE, RELATIVE, Discrepancy


def part(block: Episodes, numbers: Sequence[int]) -> Episodes:
    """Return some episodes of a cell, in this order, with what holds of them alone."""
    trace, rows = block.own_trace, list(numbers)
    positions = {k: position for position, k in enumerate(rows)}
    recorded = {positions[k]: v for k, v in trace.recorded.items() if k in positions}
    columns = ("seeds", "lengths", "terminated", "seats", "returns")
    return replace(
        block,
        **{name: getattr(block, name)[rows] for name in columns},
        metrics={name: column[rows] for name, column in block.metrics.items()},
        agent_metrics={name: column[rows] for name, column in block.agent_metrics.items()},
        curves={},
        trace=Trace(trace.digests[rows], trace.steps[:0], recorded),
    )


def compared(block: Episodes, again: Episodes, numbers: Sequence[int]) -> Iterator[Discrepancy]:
    """Yield the differences between stored episodes and the same played again.

    ``numbers`` are those of the episodes in the cell.
    """
    one, two = block.own_trace, again.own_trace
    yield from _trajectories(one.episodes, two.episodes, numbers)
    common = min(len(one.steps), len(two.steps))
    if len(one.steps) != len(two.steps) or (one.steps != two.steps).any():
        differing = np.flatnonzero(one.steps[:common] != two.steps[:common])
        step = int(differing[0]) + 1 if len(differing) else common + 1
        same_length = len(one.steps) == len(two.steps)
        yield Discrepancy(f"the checksum of step {step} differs", close=same_length, step=step)
    yield from differences(columns(block), columns(again), numbers)
    yield from differences(_curves(block), _curves(again), None)
    yield from _recorded(block, again, numbers)
    if again.drawn and not block.drawn:
        yield Discrepancy("'drawn' is false, but random numbers are drawn, or starts differ")


def stated(block: Episodes, again: Episodes) -> Iterator[Discrepancy]:
    """Yield what is stated of the actions of a policy and is not so when it plays again."""
    for name in ("outside", "rescaled", "nearest"):
        one, two = getattr(block, name), getattr(again, name)
        if one != two:
            text = f"{name!r} is {one!r}; played again it is {two!r}"
            yield Discrepancy(text, close=name == "outside")  # rounded, one may cross its bound


def _recorded(block: Episodes, again: Episodes, numbers: Sequence[int]) -> Iterator[Discrepancy]:
    """Yield differences of the actions and rewards of the recorded episodes."""
    one, two = block.own_trace.recorded, again.own_trace.recorded
    if set(one) != set(two):
        shown = [tuple(numbers[position] for position in trace) for trace in (one, two)]
        yield Discrepancy(f"the episodes {shown[0]} are recorded; it should be {shown[1]}")
    for position in (position for position in one if position in two):
        k = numbers[position]
        names = (f"actions of episode {k}", f"rewards of episode {k}")
        stored, played = (dict(zip(names, trace[position], strict=True)) for trace in (one, two))
        for discrepancy in differences(stored, played, None, steps=True):
            yield replace(discrepancy, episodes=(k,))


def _trajectories(
    one: Sequence[str], two: Sequence[str], episodes: Sequence[int]
) -> Iterator[Discrepancy]:
    """Compare the fingerprints of episodes, whose numbers are ``episodes``."""
    differing = [k for k, a, b in zip(episodes, one, two, strict=True) if a != b]
    if differing:
        text = f"the trajectory of episode {differing[0]} is another one ({len(differing)} in all)"
        yield Discrepancy(text, close=True, episodes=tuple(differing))


def columns(block: Episodes) -> dict[str, np.ndarray]:
    """Return everything that has a value for each episode, by name."""
    names = ("seeds", "lengths", "terminated", "seats", "returns")
    of_agents = {f"{name} of agents": values for name, values in block.agent_metrics.items()}
    return {name: getattr(block, name) for name in names} | block.metrics | of_agents


def _curves(block: Episodes) -> dict[str, np.ndarray]:
    return {f"the curve of {name}": curve for name, curve in block.curves.items()}


def differences(
    stored: Mapping[str, np.ndarray],
    again: Mapping[str, np.ndarray],
    episodes: Sequence[int] | None,
    steps: bool = False,
) -> Iterator[Discrepancy]:
    """Yield differences between arrays of the same names.

    ``episodes`` are the numbers of the episodes along axis 0; None if axis 0 is another one, with
    ``steps`` that of steps.
    """
    if set(stored) != set(again):
        odd = sorted(set(stored) ^ set(again))
        yield Discrepancy(f"{', '.join(odd)}: not in both of what is stored and what was played")
    for name in (name for name in stored if name in again):
        one, two = stored[name], again[name]
        if one.shape != two.shape or one.dtype != two.dtype:
            kinds = f"{one.shape} of {one.dtype} instead of {two.shape}, {two.dtype}"
            yield Discrepancy(f"{name}: {kinds}")
            continue
        same, near = agreement(one, two)
        if not same.all():
            discrepancy = _difference(name, one, two, (same, near), episodes)
            first = int(np.argwhere(~same)[0, 0]) + 1 if steps else None
            yield replace(discrepancy, step=first)


def _difference(
    name: str,
    one: np.ndarray,
    two: np.ndarray,
    agree: tuple[np.ndarray, np.ndarray],
    episodes: Sequence[int] | None,
) -> Discrepancy:
    """Describe the first difference of two arrays, beyond tolerance if there is one."""
    same, near = agree
    places = np.argwhere(~near if not near.all() else ~same)
    first = tuple(int(index) for index in places[0])
    rows = np.unique(np.argwhere(~same)[:, 0])
    differing = () if episodes is None else tuple(int(episodes[k]) for k in rows)
    where = differing[:1] + first[1:] if differing else first
    index = ", ".join(map(str, where))
    text = f"{name}[{index}] is {one[first]}; played again it is {two[first]}"
    return Discrepancy(text, close=bool(near.all()), episodes=differing)


def agreement(one: np.ndarray, two: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where two arrays are the same, and where they are the same within tolerance."""
    if one.dtype.kind != "f":
        return one == two, one == two
    same = (one == two) & (np.signbit(one) == np.signbit(two)) | (np.isnan(one) & np.isnan(two))
    with np.errstate(over="ignore"):
        return same, same | np.isclose(one, two, RELATIVE, ABSOLUTE)
