"""Prioritised: plans one train after the other, and keeps the planned order of visits.

Every train gets the earliest way around those before it, with the exact model of motion, and groups
of trains are planned anew as long as the effort lasts. Where malfunctions delay trains, those that
come after them wait, and the order of the plan is kept: so nothing ever blocks, and without
malfunctions every planned train arrives as planned. A train at home that the orders would now lead
to its target after the limit stays there.
"""

from typing import Annotated, Any, NamedTuple

from coopbench.baselines.dispatchers.planner import Planner, Settings
from coopbench.baselines.policy import Entry, Game
from coopbench_envs.parameters import between


class Params(NamedTuple):
    """Parameters of the policy."""

    orders: Annotated[int, between(1, 10_000, "orders planned at first; the best is taken")] = 10
    effort: Annotated[
        int, between(0, 10**12, "nodes that the search expands to improve the plan")
    ] = 1_000_000


def make(game: Game, parameters: Any) -> Planner:
    """Return the policy for one game."""
    return Planner(game, "prioritised", Settings(parameters.orders, parameters.effort, 0, 100, 1.0))


ENTRY = Entry(
    "prioritised",
    make,
    "railways: plans one train after the other, then keeps the order at every place",
    "global",
    Params,
)
