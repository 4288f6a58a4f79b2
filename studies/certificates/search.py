"""Searches for rules: the cross-entropy method, many independent searches in one batch.

A search draws rules around a centre, plays all of them in the same episodes, moves the centre and
the spread to the best ones, and repeats in new episodes. It begins at the best rule of a library.
Equal arguments give equal results; the result is a lower bound of what rules can reach. Method:
Rubinstein (1999), The cross-entropy method for combinatorial and continuous optimization.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

# First seeds of the episodes of searches and of the choice among their results.
SEARCH, CHOICE = 2_000_000, 50_000_000
_APART = 500_000  # between the first seeds of rounds


@dataclass(frozen=True)
class Budget:
    """How much a search plays: the larger, the closer to the best rule."""

    library: int = 8  # episodes for each rule of the library
    rounds: int = 16
    candidates: int = 24  # in each round, of each search
    episodes: int = 12  # for each candidate
    elite: int = 5
    choice: int = 160  # episodes for each of the rules among which the last choice is made
    spread: float = 0.8  # of weights, at first
    least: float = 0.05  # of weights, at the end
    share: float = 0.4  # of a candidate's variables that differ from the centre

    def times(self, effort: int) -> "Budget":
        """Return a budget with ``effort`` times the rounds and the episodes."""
        return replace(
            self,
            rounds=self.rounds * effort,
            episodes=self.episodes * effort,
            choice=self.choice * effort,
        )


@dataclass(frozen=True)
class Problem:
    """What is searched: variables of ``searches`` independent searches, and their value.

    ``value(vectors, episodes, seed)`` returns the mean values (searches, candidates) of vectors
    (searches, candidates, variables).
    """

    searches: int
    variables: int
    value: Callable[[np.ndarray, int, int], np.ndarray]


def searched(problem: Problem, library: np.ndarray, budget: Budget, seed: int = 0) -> np.ndarray:
    """Return the best vectors found, (searches, variables).

    ``library`` holds vectors (rules, variables) for all searches, or (searches, rules, variables).
    """
    rng = np.random.default_rng(seed)
    shape = (problem.searches, library.shape[-2], problem.variables)
    rules = np.broadcast_to(library, shape)
    values = problem.value(rules, budget.library, SEARCH)
    order = np.argsort(-values, axis=1, kind="stable")
    shortlist = _taken(rules, order[:, : budget.elite])
    start = _best_of(problem, shortlist, budget)
    centre, spread = start.copy(), np.full(start.shape, budget.spread)
    narrowing = (budget.least / budget.spread) ** (1.0 / max(budget.rounds, 1))
    best, floor = start, budget.spread
    for step in range(1, budget.rounds + 1):
        floor *= narrowing
        drawn = _drawn(rng, centre, spread, best, budget)
        values = problem.value(drawn, budget.episodes, SEARCH + step * _APART)
        elite = _taken(drawn, np.argsort(-values, axis=1, kind="stable")[:, : budget.elite])
        best, centre = elite[:, 0], elite.mean(axis=1)
        # Variables that few candidates moved look narrow: the floor keeps them in the search.
        spread = np.clip(elite.std(axis=1), floor, 2.0 * budget.spread)
    return _best_of(problem, np.stack([start, centre, best], axis=1), budget)


def _drawn(
    rng: np.random.Generator,
    centre: np.ndarray,
    spread: np.ndarray,
    best: np.ndarray,
    budget: Budget,
) -> np.ndarray:
    """Draw candidates (searches, candidates, variables); the first two are centre and best."""
    shape = (len(centre), budget.candidates, centre.shape[1])
    moved = rng.random(shape) < budget.share
    drawn = centre[:, None] + spread[:, None] * rng.standard_normal(shape) * moved
    drawn[:, 0], drawn[:, 1] = centre, best
    return drawn


def _taken(vectors: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the vectors (searches, chosen, variables) with the indices ``order``."""
    return np.take_along_axis(vectors, order[:, :, None], axis=1)


def _best_of(problem: Problem, vectors: np.ndarray, budget: Budget) -> np.ndarray:
    """Return the best (searches, variables) of few vectors in many new episodes."""
    values = problem.value(vectors, budget.choice, CHOICE)
    return _taken(vectors, values.argmax(axis=1)[:, None])[:, 0]
