"""Prioritised: plans one train after the other, and keeps the planned order of visits.

Every train gets the earliest way around those before it, with the exact model of motion, and groups
of trains are planned anew as long as the effort lasts. Where malfunctions delay trains, those that
come after them wait, and the order of the plan is kept: so nothing ever blocks, and without
malfunctions every planned train arrives as planned. When trains break down, one at home stays there
if the orders would lead it to its target after the limit, or if all trains together lose less by
that; in version 1 of the railways that never pays.
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
    settings = Settings(
        parameters.orders, parameters.effort, 0, reserve=100, weight=1.0, keeps_home=True
    )
    return Planner(game, "prioritised", settings)


ENTRY = Entry(
    "prioritised",
    make,
    "railways: plans one train after the other, then keeps the order at every place",
    "global",
    Params,
)
