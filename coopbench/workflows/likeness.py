"""Likeness: cells of different names or training runs that are the same episodes once more.

Whoever copies a run gets a narrower interval, and whoever copies a policy under a second name gets
a second place. Both are seen from what was played, whatever the weights are: of two networks that
were trained apart, some episodes go differently. That policies play alike is no proof of a copy,
so that it is named, and nothing more follows from it. They are compared with the runs that ship
with this package as well, which hold no actions, but every agent's return in every episode.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from coopbench.episodes.table import Cell, Episodes
from coopbench.playing.contestants import contestant_of
from coopbench.protocol.schema import Protocol
from coopbench.results.reference import reference_runs
from coopbench.results.rounding import FINE
from coopbench.results.store import Stored
from coopbench.workflows.episode_diff import columns, trace_of

__all__ = ["likenesses"]

_RELATIVE, _ABSOLUTE = 1e-5, 1e-7  # differences that rounding makes in continuous games
_FEW = 4  # episodes, of which fewer have to be the same without exception

Played = tuple[Cell, Stored, Episodes]


def likenesses(
    protocol: Protocol, cells: Mapping[str, tuple[Cell, Stored]]
) -> Iterator[tuple[str, str]]:
    """Yield (what, why) for training runs, and for policies, that play alike.

    Runs of one policy are compared on every task. Policies are alike if they are so on every task
    that both have played. Fixed policies of this package are not compared: they are what their
    names say. Neither are two trained ones that do one thing only, which others may have learned.
    """
    tasks: dict[str, list[Played]] = {}
    for cell, stored in cells.values():
        block = stored.episodes
        if block is not None and block.trace is not None and not _is_fixed(protocol, cell):
            tasks.setdefault(cell.task, []).append((cell, stored, block))
    if tasks:
        yield from _like_others(tasks)
        yield from _like_shipped(protocol, tasks)


def _like_others(tasks: Mapping[str, list[Played]]) -> Iterator[tuple[str, str]]:
    """Yield (what, why) for training runs, and for policies, that play like others of these."""
    pairs: dict[tuple[str, str], set[str]] = {}  # of policies -> tasks on which they are alike
    where = {cell.policy: set[str]() for played in tasks.values() for cell, *_ in played}
    for task, played in tasks.items():
        repeated = set[str]()
        for cell, *_ in played:
            where[cell.policy].add(task)
        for one, two, count in _alike(played):
            if one.policy != two.policy:
                pairs.setdefault((one.policy, two.policy), set()).add(task)
            elif two.folder not in repeated:
                repeated.add(two.folder)
                yield two.folder, f"repeats {one.folder} in {count}: two trainings rarely do"
    for (first, second), alike in pairs.items():
        if alike == where[first] & where[second]:
            text = f"{len(alike)} tasks" if len(alike) > 1 else next(iter(alike))
            yield second, f"plays like {first} on {text}: they may be one policy with two names"


def _like_shipped(
    protocol: Protocol, tasks: Mapping[str, list[Played]]
) -> Iterator[tuple[str, str]]:
    """Yield (what, why) for cells that repeat a run that ships with this package.

    The same run of the same policy does so rightly: training is the same everywhere.
    """
    for shipped, stored in reference_runs(protocol, ())[1]:
        block = stored.episodes
        for cell, _, other in tasks.get(shipped.task, []):
            if block is None or (cell.policy, cell.run) == (shipped.policy, shipped.run):
                continue
            same, episodes = int(_same_returns(block, other).sum()), len(other)
            if same >= episodes - _most(episodes) and not _does_one_thing(other):
                run = f"run {shipped.run} of {shipped.policy}, which ships with this package,"
                yield cell.folder, f"plays like {run} in {same} of {episodes} episodes"


def _same_returns(shipped: Episodes, block: Episodes) -> np.ndarray:
    """Return in which episodes all agents earn what they do in a shipped run, (episodes,) bool.

    That holds to the step to which shipped returns are rounded.
    """
    if shipped.returns.shape != block.returns.shape:
        return np.zeros(len(block), np.bool_)
    step = max(float(np.ptp(shipped.returns)) / FINE, _ABSOLUTE)
    near = np.abs(shipped.returns - block.returns) <= step
    same: np.ndarray = near.all(axis=1) & (shipped.lengths == block.lengths)
    return same


def _most(episodes: int) -> int:
    """Return how many episodes may differ where cells are alike."""
    return max(1, episodes // 10) if episodes >= _FEW else 0


def _is_fixed(protocol: Protocol, cell: Cell) -> bool:
    return contestant_of(protocol, cell.policy).origin == "fixed"


def _alike(played: list[Played]) -> Iterator[tuple[Cell, Cell, str]]:
    """Yield the pairs of cells of a task that play alike, with how many episodes are the same."""
    returns = np.stack([block.team_returns for *_, block in played])
    episodes = returns.shape[1]
    most = _most(episodes)
    for k, (cell, stored, block) in enumerate(played):
        near = np.isclose(returns[k + 1 :], returns[k], _RELATIVE, _ABSOLUTE, True).sum(axis=1)
        for number in np.flatnonzero(near >= episodes - most) + k + 1:
            other, other_stored, other_block = played[number]
            trained = stored.policy is not None and other_stored.policy is not None
            same = int(_same(block, other_block).sum())
            if same >= episodes - most and not (trained and _does_one_thing(block)):
                yield cell, other, f"{same} of {episodes} episodes"


def _same(one: Episodes, two: Episodes) -> np.ndarray:
    """Return which episodes are the same, (episodes,) bool; to rounding where actions are reals."""
    pairs = zip(trace_of(one).episodes, trace_of(two).episodes, strict=True)
    hashes = np.array([first == second for first, second in pairs])
    recorded = trace_of(one).recorded.values()
    if any(actions.dtype.kind != "f" for actions, _ in recorded):
        return hashes
    near = np.ones(len(one), np.bool_)
    others = columns(two)
    for name, values in columns(one).items():
        close = np.isclose(values, others[name], _RELATIVE, _ABSOLUTE, True)
        near &= close.reshape(len(one), -1).all(axis=1)
    same: np.ndarray = hashes | near
    return same


def _does_one_thing(block: Episodes) -> bool:
    """Whether the policy takes one action throughout the recorded episodes."""
    taken = [
        actions[:, block.seats[k]].reshape(-1, *actions.shape[2:])
        for k, (actions, _) in trace_of(block).recorded.items()
    ]
    return all(bool((actions == taken[0][0]).all()) for actions in taken)
