"""Motion: which of the trains that want to change their resource may do so, all at once.

A resource is a cell, or one direction of a cell whose two tracks lie on different levels. Trains
that are off the map hold none, -1.
"""

from coopbench_envs.core import routine

__all__ = ["resolve_claims"]

UNDECIDED, PENDING, GRANTED, DENIED = range(4)


@routine
def resolve_claims(s, i, n):
    """Write which train may take the resource ``s.claim`` in place of ``s.held``.

    Of the trains that claim a resource the first one in ``s.order`` wins. It gets the resource if
    no train holds it, or if its holder gets another one. So trains follow each other without gaps,
    and three or more rotate; two that claim each other's resource are denied. Whether or not
    they would win them, these two are marked as ``s.swapping``.
    """
    register(s, i, n)
    for a in range(n):
        if s.claim[i, a] >= 0:
            other = s.holder[i, s.claim[i, a]]
            s.swapping[i, a] = other >= 0 and other != a and s.claim[i, other] == s.held[i, a]
        if s.verdict[i, a] == UNDECIDED:
            decide(s, i, a)
    for a in range(n):
        if s.held[i, a] >= 0:
            s.holder[i, s.held[i, a]] = -1
        if s.claim[i, a] >= 0:
            s.winner[i, s.claim[i, a]] = -1


@routine
def register(s, i, n):
    """Note the holder and the winner of every resource; deny those who change nothing."""
    for b in range(n):
        a = s.order[i, n - 1 - b]
        s.swapping[i, a] = False
        s.verdict[i, a] = DENIED
        if s.held[i, a] >= 0:
            s.holder[i, s.held[i, a]] = a
        if s.claim[i, a] >= 0 and s.claim[i, a] != s.held[i, a]:
            s.verdict[i, a] = UNDECIDED
            s.winner[i, s.claim[i, a]] = a


@routine
def decide(s, i, first):
    """Follow the holders of claimed resources from train ``first``, and decide for all of them."""
    a, verdict, length = first, UNDECIDED, 0
    while verdict == UNDECIDED:
        if s.verdict[i, a] == PENDING:  # back at the first train
            verdict = GRANTED if length > 2 else DENIED
        elif s.verdict[i, a] != UNDECIDED:
            verdict = s.verdict[i, a]
        elif s.winner[i, s.claim[i, a]] != a:
            verdict = DENIED
            s.verdict[i, a] = DENIED
        else:
            s.verdict[i, a] = PENDING
            length += 1
            other = s.holder[i, s.claim[i, a]]
            if other < 0:
                verdict = GRANTED
            else:
                a = other
    a = first
    while a >= 0 and s.verdict[i, a] == PENDING:
        s.verdict[i, a] = verdict
        a = s.holder[i, s.claim[i, a]]
