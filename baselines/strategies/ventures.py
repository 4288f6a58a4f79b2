"""What policies for the version 1 games share: what they read, and how they act on an attitude.

Such a policy has an attitude to the others, a number in [0, 1] for each agent: the fraction that
it invests of what is worthwhile in the present regime. An informed agent knows the regime; others
infer it from what informed agents have just invested.
"""

from typing import Annotated

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.strategies.investments import CUSTOMARY, Fractions, mean, total
from coopbench_envs.core import draw
from coopbench_envs.parameters import between

__all__ = [
    "Bar",
    "Demand",
    "Follow",
    "Ignore",
    "Last",
    "Relative",
    "Trembles",
    "Venture",
    "income",
    "over_first",
    "ramp",
]

# Productivity p is observed as p / (1 + p): above 0.5 a unit is worth more than a unit.
WORTHWHILE = 0.5
GOOD = 0.25  # fraction worth investing above which the regime counts as good
COST = 0.4  # of a unit invested, over what a unit of the others' brings

Bar = Annotated[float, between(0, 1, "least record of those it deals with, where it can choose")]
Demand = Annotated[float, between(0, 1, "demand where partners bargain; 0.5: the contract")]
Ignore = Annotated[float, between(0, 1, "uninformed: informed investments up to this are no sign")]
Follow = Annotated[float, between(0, 1, "uninformed: least investment that shows a good regime")]
Trembles = Annotated[float, between(0, 1, "probability that it invests a uniform draw")]
Relative = Annotated[
    int, between(0, 1, "1: records count as shares of the first ones, 0: as they are")
]
Last = Annotated[int, between(0, 10_000, "steps at the end in which it invests nothing")]


def ramp(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Rise from 0 at ``low`` to 1 at ``high``; a step where they are equal."""
    if high <= low:
        return (values >= low).astype(np.float64)
    return np.clip((values - low) / (high - low), 0.0, 1.0)


def income(received: np.ndarray, invested: np.ndarray) -> np.ndarray:
    """Return what a step brings an agent: what it gets of the others', less what its own costs.

    Both are fractions of what was worth investing, as observed, so that it is known where incomes
    are not shown. It is in units of what the others bring by investing everything.
    """
    return np.asarray(received - COST * invested)


def over_first(records: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return records as shares of the first ones, at most 1; 1 where both are 0."""
    return np.asarray(np.where(records >= first, 1.0, records / np.maximum(first, 1e-9)))


class Venture:
    """Reads observations of a version 1 game, and writes actions; all arrays lane first."""

    def __init__(self, game: Game, policy: str, *, ignore: float = 1 / 3, follow: float = 2 / 3):
        game.require(policy, "trust_in_others", "trust_in_me", "productivity")
        self._fractions = Fractions(game, policy)
        self._game, self._ignore, self._follow = game, ignore, follow

    def worth(self, observations: np.ndarray) -> np.ndarray:
        """Return the fraction worth investing by what each agent knows, (lanes, agents) in [0, 1].

        In the good regime it is 1, or the level of a phase that takes in no more.
        """
        layout = self._game.layout
        productivity = layout["productivity"].view(observations)[:, :, 0]
        level: float | np.ndarray = 1.0
        if "level" in layout:
            level = layout["level"].view(observations)[:, :, 0].astype(np.float64)
        good = (productivity > WORTHWHILE).astype(np.float64)
        if "informed" in layout:
            seen = self.mean(observations, self._fractions.others(observations)) / level
            sign = ramp(seen, self._ignore, self._follow)
            informed = layout["informed"].view(observations)[:, :, 0] > 0.5
            good = np.where(informed, good, sign)
        return np.asarray(good * level)

    def mean(self, observations: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the mean (lanes, agents) of ``values`` of the others, (lanes, agents, others).

        For an agent that does not know the regime, the others are those that do.
        """
        if "informed" not in self._game.layout:
            return mean(values)
        flags = self._game.layout["informed"].view(observations) > 0.5
        counted = flags[:, :, 1:] | flags[:, :, :1]
        return np.asarray(total(np.where(counted, values, 0.0)) / np.maximum(total(counted), 1))

    def records(self, observations: np.ndarray, bar: float = 0.0) -> np.ndarray:
        """Return the mean record of the others, (lanes, agents); see ``mean``.

        Where agents choose their partners only those count whose record reaches ``bar``, if any,
        and of these the last partner alone, if it is one of them.
        """
        records = self._fractions.trust(observations)
        if "wishes" in self._game.action_layout:
            counted = records >= bar
            stays = counted & self._last_partner(observations)
            counted |= total(counted)[:, :, None] == 0
            counted = np.where(total(stays)[:, :, None] > 0, stays, counted)
            return np.asarray(total(records * counted) / total(counted))
        return self.mean(observations, records)

    def _last_partner(self, observations: np.ndarray) -> np.ndarray:
        """Return whether each other agent was the partner in the last step, as ``records``."""
        return np.asarray(self._game.layout["last_partner"].view(observations) > 0.5)

    def own_record(self, observations: np.ndarray) -> np.ndarray:
        """Return each agent's own record, (lanes, agents)."""
        view = self._game.layout["trust_in_me"].view(observations)[:, :, 0]
        return np.asarray(view.astype(np.float64))

    def is_last(self, observations: np.ndarray, last: int) -> np.ndarray:
        """Return whether the coming step is one of the ``last`` of the episode, (lanes, agents)."""
        horizon = self._game.constants.horizon
        played = self._game.layout["time"].view(observations)[:, :, 0] * horizon
        return np.asarray(played > horizon - last - 0.5)

    def seen(self, observations: np.ndarray) -> np.ndarray:
        """Return the mean of the others' last investments as observed, (lanes, agents)."""
        return self.mean(observations, self._fractions.others(observations))

    def answered(
        self, observations: np.ndarray, worth: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return whether the regime was good in the last step, and what the others invested.

        ``worth`` (lanes, agents) is what was worth investing then, and the second array the part of
        it that they invested, in [0, 1]; both are (lanes, agents).
        """
        relative = self.seen(observations) / np.maximum(worth, 1e-9)
        return worth > GOOD, np.minimum(relative, 1.0)

    def shut_out(self, observations: np.ndarray, bar: float) -> np.ndarray:
        """Return which agents an informed one would refuse at ``bar``, (lanes, agents) bool.

        Rounding to the numbers of an observation does not count.
        """
        informed = self._game.layout["informed"].view(observations)[:, :, 0] > 0.5
        return np.asarray(~informed & (self.own_record(observations) < bar - 1e-6))

    def actions(
        self,
        observations: np.ndarray,
        attitude: np.ndarray,
        *,
        bar: float = CUSTOMARY,
        demand: float = CUSTOMARY,
    ) -> np.ndarray:
        """Return actions (lanes, agents, parts) for an ``attitude`` (lanes, agents).

        Where a game lets agents choose, they deal with those whose record reaches ``bar``, and
        expect an informed agent to do the same; they prefer their last partner. ``demand`` is for
        games in which partners bargain.
        """
        parts = self._game.action_layout
        fractions = attitude * self.worth(observations)
        if "bar" in parts:
            fractions = np.where(self.shut_out(observations, bar), 0.0, fractions)
        actions = self._fractions.units(fractions)
        if "wishes" in parts:
            wanted = self._fractions.trust(observations) >= bar
            stays = wanted & self._last_partner(observations)
            actions[:, :, parts["wishes"].index] = np.where(stays, 1.0, CUSTOMARY * wanted)
        if "bar" in parts:
            actions[:, :, parts["bar"].index] = bar
        if "demand" in parts:
            actions[:, :, parts["demand"].index] = demand
        return actions


def trembling(
    attitude: np.ndarray, probability: float, random: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Replace attitudes (lanes, agents) by uniform draws with a ``probability``.

    Returns the attitudes and the new random states (lanes, agents).
    """
    if probability == 0.0:
        return attitude, random
    states = random.copy()
    trembles, value = draw(states) < probability, draw(states)
    return np.where(trembles, value, attitude), states
