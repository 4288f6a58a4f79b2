"""Origin: what stands behind the name of a cell, which alone decides who must have played it."""

from typing import Literal, TypeAlias

from coopbench.baselines.registry import (
    entries,
    is_shipped,
    learners,
    parse_name,
    reads_file,
)
from coopbench.episodes.table import Cell
from coopbench.episodes.trained import Trained
from coopbench.playing.models import Model
from coopbench.protocol.schema import Protocol

__all__ = ["Origin", "is_elsewhere", "origin_of", "stores_actions"]

Origin: TypeAlias = Literal["trained", "fixed", "foreign"]


def origin_of(name: str) -> Origin:
    """Return what a name means: a learner's policy, a fixed one, or one that is not registered.

    A policy that is made of a file counts as not registered: its file lies outside of the results.
    """
    policy = parse_name(name)
    if policy.kind in learners():
        return "trained"
    if policy.kind in entries() and not reads_file(name):
        return "fixed"
    return "foreign"


def is_elsewhere(protocol: Protocol, cell: Cell) -> bool:
    """Whether a cell is named after a policy that this package does not ship."""
    name = protocol.family(cell.policy)[0]
    origin = origin_of(name)
    return origin == "foreign" or (origin == "fixed" and not is_shipped(parse_name(name).kind))


def stores_actions(protocol: Protocol, cell: Cell, model: Model) -> bool:
    """Whether results have to hold the actions of a policy, as a verifier may not have it.

    That is every policy that this package does not ship and whose weights the results do not hold.
    """
    return is_elsewhere(protocol, cell) and not isinstance(model, Trained)
