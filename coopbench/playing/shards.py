"""Shards: which cells belong to a part of an evaluation that is played in independent parts."""

from collections.abc import Sequence

from coopbench.episodes.table import Cell
from coopbench.playing.rollout import PlayJob

_MOST = 100_000  # shards


def part(jobs: Sequence[PlayJob], shard: tuple[int, int]) -> set[Cell]:
    """Return the cells of part i of n of an evaluation, ``shard = (i, n)`` with i from 1.

    The largest remaining cell goes to the part with the least work so far (Graham 1969, longest
    processing time first), so the largest part is at most 4/3 of the smallest possible maximum.
    """
    number, count = shard
    if not 1 <= number <= count:
        raise ValueError(f"'shard' was {number} of {count}; allowed: i of n with 1 <= i <= n.")
    if count > _MOST:
        raise ValueError(f"'shard' was one of {count:,}; allowed: up to {_MOST:,}.")
    costs, mine = [0.0] * count, set()
    for job in sorted(jobs, key=lambda job: (-job.cost, job.cell.folder)):
        least = costs.index(min(costs))
        costs[least] += job.cost
        if least == number - 1:
            mine.add(job.cell)
    return mine
