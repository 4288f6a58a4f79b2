"""Prober: estimates how little the others accept, and gives that little.

It tries an investment for some steps. If the others answer with less than before, it was too low;
else it was enough. So it halves the range in which the threshold lies, as in a search by bisection,
and makes amends after every attempt that failed. ``extorter`` moves its share by small steps
instead, and never stops.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.ventures import Bar, Demand, Follow, Ignore, Venture
from coopbench_envs.parameters import between

DROP = 0.15  # by how much the others' investment falls if they do not accept
LOWEST = -0.1  # where the search begins, below 0 so that it can find that they accept nothing


class Params(NamedTuple):
    """What stands after the colon: ``prober:4,0.2``."""

    length: Annotated[
        int, between(1, 10_000, "steps of the good regime of an attempt, and of amends")
    ] = 4
    margin: Annotated[float, between(0, 1, "that it gives on top of its estimate")] = 0.1
    demand: Demand = 0.5
    bar: Bar = 0.5
    ignore: Ignore = 1 / 3
    follow: Follow = 2 / 3


class Memory(NamedTuple):
    """What every seat remembers, (lanes, agents)."""

    worth: np.ndarray  # fraction that was worth investing in the last step
    steps: np.ndarray  # int64, good steps of the present part: full investment, or an attempt
    trying: np.ndarray  # bool, whether this part is an attempt
    before: np.ndarray  # what the others invested in the part of full investment, smoothed
    now: np.ndarray  # what they last invested
    refused: np.ndarray  # highest investment that they did not accept
    accepted: np.ndarray  # lowest one that they did


class Prober:
    """Searches the least investment that the others accept, by bisection."""

    def __init__(self, game: Game, parameters: Params) -> None:
        p = parameters
        self._venture = Venture(game, "prober", ignore=p.ignore, follow=p.follow)
        self._parameters = parameters

    def initial(self, game: Game, seeds: np.ndarray) -> Memory:
        """Return the memory before the first step: everything is accepted, nothing refused."""
        shape = (len(seeds), len(game.agents))
        whole, steps = np.ones(shape), np.zeros(shape, np.int64)
        trying, refused = np.zeros(shape, np.bool_), np.full(shape, LOWEST)
        return Memory(np.zeros(shape), steps, trying, whole, whole, refused, whole)

    def act(self, observations: np.ndarray, memory: Memory) -> tuple[Any, Memory]:
        """Go on with the present part, or judge an attempt and begin the next part."""
        p, m, venture = self._parameters, memory, self._venture
        good, relative = venture.answered(observations, m.worth)
        now = np.where(good, relative, m.now)
        steps = m.steps + good
        over = steps >= p.length
        estimate = np.clip(0.5 * (m.refused + m.accepted), 0.0, 1.0)
        fell = now < m.before - DROP
        failed, held = over & m.trying & fell, over & m.trying & ~fell
        refused = np.where(failed, estimate, m.refused)
        accepted = np.where(held, estimate, m.accepted)
        before = np.where(good & ~m.trying, m.before + (relative - m.before) / 2.0, m.before)
        # After an attempt that was accepted the next one follows, after others come amends.
        trying = np.where(over, ~m.trying | held, m.trying)
        settled = accepted - refused < DROP
        attempt = np.clip(0.5 * (refused + accepted), 0.0, 1.0)
        share = np.where(trying & ~settled, attempt, 1.0)
        share = np.where(settled, np.minimum(accepted + p.margin, 1.0), share)
        actions = venture.actions(observations, share, bar=p.bar, demand=p.demand)
        steps = np.where(over, 0, steps)
        worth = venture.worth(observations)
        return actions, Memory(worth, steps, trying, before, now, refused, accepted)


ENTRY = Entry(
    "prober",
    Prober,
    "searches the least investment that the others accept, then gives that",
    "local",
    Params,
)
