"""Ranks: the places that policies may have over whole groups of tasks.

They follow from normalized scores, so that a policy takes part in a group when it has finished all
of its tasks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coopbench.analysis.comparisons import GroupComparison
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import group_matrices
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol


@dataclass(frozen=True, eq=False)
class Rank(ReportRow):
    """Places that one policy may have in a group, by the mean over tasks; 1 is best.

    ``low`` is one more than the number of policies that are significantly better, ``high`` leaves
    room for those that are significantly worse. Policies of one ``tie`` are connected by
    differences that are not significant; every policy of an earlier tie is significantly better.
    """

    group: str
    policy: str
    tie: str  # "A" for the best
    low: int  # interval of the rank; those of all contestants hold at once
    high: int
    contestants: int
    flag: str


def ranks(
    protocol: Protocol, table: EpisodeTable, pairs: Sequence[GroupComparison]
) -> tuple[Rank, ...]:
    """Rank the policies in every group; none where only one has finished it.

    ``pairs`` are the comparisons over groups. A difference is significant if its p value,
    adjusted by Holm's method over all pairs of the group, is below the protocol's alpha. Models of
    one method are not compared with each other. One trained model, a single run of a learner, has
    no rank.
    """
    rows = list[Rank]()
    for group, members in group_matrices(protocol, table).items():
        means = {
            n: np.mean([one.values.mean() for one in matrices])
            for n, matrices in members.items()
            if n not in table.bare
        }
        names = sorted(means, key=lambda name: -means[name])
        if len(names) > 1:
            ranked = [r for r in pairs if r.group == group and {r.first, r.second} <= {*names}]
            rows += _ranked(protocol, group, names, ranked)
    return tuple(rows)


def _ranked(
    protocol: Protocol, group: str, names: Sequence[str], pairs: Sequence[GroupComparison]
) -> list[Rank]:
    """Rank the policies ``names``, the best first, by the comparisons between them."""
    beaten: dict[str, set[str]] = {name: set() for name in names}  # name -> who is better
    beats: dict[str, set[str]] = {name: set() for name in names}
    for row in pairs:
        if row.p_ranks < protocol.report.alpha:  # so that all ranks hold at once
            better, worse = row.first, row.second
            if row.difference < 0.0:
                better, worse = worse, better
            beaten[worse].add(better)
            beats[better].add(worse)
    untested = {
        name for row in pairs if math.isnan(row.p_value) for name in (row.first, row.second)
    }
    letters = _ties(names, beaten)
    return [
        Rank(
            group,
            name,
            letters[name],
            1 + len(beaten[name]),
            len(names) - len(beats[name]),
            len(names),
            "not all of its comparisons could be tested" if name in untested else "",
        )
        for name in names
    ]


def _ties(names: Sequence[str], beaten: dict[str, set[str]]) -> dict[str, str]:
    """Return the tie of every policy: a new one begins where all before are significantly better.

    ``names`` are in the order of their means, the best first.
    """
    letters, tie = {}, 0
    for place, name in enumerate(names):
        before = set(names[:place])
        if before and all(before <= beaten[other] for other in names[place:]):
            tie += 1
        letters[name] = (chr(65 + tie % 26)) * (1 + tie // 26)
    return letters
