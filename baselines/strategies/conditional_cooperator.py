"""Conditional cooperator: invest when it is worth it, as long as the others deserve it.

The behaviour that Fischbacher, Gaechter & Fehr (2001) found in half of the people who play public
goods games, which here depends on the regime, too: it invests while a unit is worth more than a
unit to all together and its trust in the others has not fallen too far.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.investments import CUSTOMARY, Fractions
from coopbench_envs.parameters import between

PROBE, PROBES = 0.5, 3  # fraction invested, and steps, before it judges what is hidden


class Params(NamedTuple):
    """What stands after the colon: ``conditional_cooperator:1,0.5``."""

    level: Annotated[float, between(0, 1, "fraction invested, or share of a phase's level")] = 1.0
    threshold: Annotated[float, between(0, 1, "share of its first trust that is enough")] = 0.5


class Memory(NamedTuple):
    """What every seat remembers; axis 0 is the lane."""

    steps: np.ndarray  # (lanes,) int64, steps seen
    first: np.ndarray  # (lanes, agents, others) trust in the others at the start
    trusted: np.ndarray  # (lanes, agents) standing of the last step, before it was played
    gained: np.ndarray  # (lanes, agents) sum of received income
    worth: np.ndarray  # (lanes, agents) what it would have been at a productivity of 1


class ConditionalCooperator:
    """Invests in good regimes while its trust is at least ``threshold`` times its first trust.

    Where agents choose partners it wishes only for those whom it still trusts. Where the
    productivity is hidden it invests a half for three steps and then goes by what it received.
    """

    def __init__(self, game: Game, parameters: Params) -> None:
        game.require("conditional_cooperator", "trust_in_others", "trust_in_me", "income")
        self._fractions = Fractions(game, "conditional_cooperator")
        self._game, self._parameters = game, parameters

    def initial(self, game: Game, seeds: np.ndarray) -> Memory:
        """Return the memory before the first step."""
        lanes, agents = len(seeds), len(game.agents)
        zeros = np.zeros((lanes, agents))
        trust = np.zeros((lanes, agents, agents - 1))
        return Memory(np.zeros(lanes, np.int64), trust, zeros, zeros.copy(), zeros.copy())

    def act(self, observations: np.ndarray, memory: Memory) -> tuple[Any, Memory]:
        """Judge the regime and the others, then invest all or nothing."""
        trust = self._fractions.trust(observations)
        begun = memory.steps > 0
        first = np.where(begun[:, None, None], memory.first, trust)
        memory = memory._replace(first=first)
        if "productivity" not in self._game.layout:
            memory = self._learned(observations, memory, begun)
        enough = self._parameters.threshold * first
        trusting = trust.mean(axis=2) >= enough.mean(axis=2)
        fraction = self._parameters.level * trusting * self._worthwhile(observations, memory)
        actions = self._fractions.units(fraction)
        if "wishes" in self._game.action_layout:
            actions[:, :, self._game.action_layout["wishes"].index] = CUSTOMARY * (trust >= enough)
        return actions, memory._replace(steps=memory.steps + 1)

    def _worthwhile(self, observations: np.ndarray, memory: Memory) -> np.ndarray:
        """Return the fractions (lanes, agents) worth investing if the others deserve it."""
        layout = self._game.layout
        if "productivity" not in layout:
            judged = memory.gained > memory.worth
            return np.where((memory.steps < PROBES)[:, None], PROBE, judged)
        good = layout["productivity"].view(observations)[:, :, 0] > 0.5
        if "level" in layout:
            return good * layout["level"].view(observations)[:, :, 0].astype(np.float64)
        return good.astype(np.float64)

    def _learned(self, observations: np.ndarray, memory: Memory, begun: np.ndarray) -> Memory:
        """Add what the last step paid, and what it would have at a productivity of 1."""
        c, layout = self._game.constants, self._game.layout
        seen = observations.astype(np.float64)
        income = layout["income"].view(seen)[:, :, 0]
        invested, agents = self._fractions.invested(observations), len(c.endowment)
        others = np.tile(c.endowment, (agents, 1))[~np.eye(agents, dtype=bool)].reshape(agents, -1)
        pool = invested * c.endowment + (self._fractions.others(observations) * others).sum(axis=2)
        received = (income / (1.0 - income) - 1.0 + invested) * c.endowment
        worth = c.share * pool * memory.trusted
        trusted = layout["trust_in_me"].view(seen).mean(axis=2)
        dependence = layout["dependence"].view(seen)[:, :, 0]
        played = begun[:, None]
        return memory._replace(
            gained=memory.gained + np.where(played, received, 0.0),
            worth=memory.worth + np.where(played, worth, 0.0),
            trusted=1.0 - dependence * (1.0 - trusted),
        )


ENTRY = Entry(
    "conditional_cooperator",
    ConditionalCooperator,
    "invests in good regimes while it trusts the others",
    "local",
    Params,
)
