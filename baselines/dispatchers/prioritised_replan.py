"""Prioritised with replanning: a prioritised plan, improved, and mended when trains break down.

Begins like ``prioritised`` and then plans groups of trains anew as long as the effort lasts, of
which it retains what costs less. When a train breaks down it works out what the orders of the plan
now lead to, and plans groups of trains anew around the others, those on the map included.
"""

from typing import Annotated, Any, NamedTuple

from coopbench.baselines.dispatchers.planner import Planner, Settings
from coopbench.baselines.policy import Entry, Game
from coopbench_envs.parameters import between


class Params(NamedTuple):
    """Parameters of the policy."""

    orders: Annotated[int, between(1, 10_000, "orders planned at first; the best is taken")] = 10
    effort: Annotated[
        int, between(0, 10**12, "nodes that the search expands to improve the first plan")
    ] = 2_000_000
    effort_at_strikes: Annotated[
        int, between(0, 10**12, "the same in a step in which trains break down")
    ] = 300_000
    reserve: Annotated[
        int, between(0, 10_000, "steps before the due time from which arriving later costs")
    ] = 20
    weight: Annotated[float, between(0, 1, "what such a step costs; one of delay costs 1")] = 0.1


def make(game: Game, parameters: Any) -> Planner:
    """Return the policy for one game."""
    return Planner(game, "prioritised_replan", Settings(*parameters))


ENTRY = Entry(
    "prioritised_replan",
    make,
    "railways: plans trains one after the other, improves the plan, replans after malfunctions",
    "global",
    Params,
)
