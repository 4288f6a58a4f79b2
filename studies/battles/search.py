"""Search for the best plan of a battle: evolution from many kinds of plans, on drawn episodes.

The search learns victories and returns of whole episodes and nothing else. All plans of a
generation meet the same episodes, and every generation meets new ones, so that plans that were
lucky fall behind.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from studies.battles.seeds import masked_plans, pushed, unmasked_plans
from studies.battles.trials import Trials

SELECTION = 500_000  # first seed of the episodes in which the last plans are compared
_FIRST_MOVE, _FIRST_TARGET = 2, 6
_SHAPING = 0.25  # weight of the share of the largest return, added to the victory
_ENOUGH = 64  # episodes; a search ends with a plan that has won so many and lost none
_WHOLE = 20.0  # return of a victory without regeneration


@dataclass(frozen=True)
class Budget:
    """How many plans meet how many episodes."""

    library: int = 400  # plans to begin with, at most
    screening: int = 16  # episodes of each of these
    generations: int = 60
    parents: int = 8
    children: int = 24
    meetings: int = 32  # episodes of each plan in a generation
    finalists: int = 8
    final_episodes: int = 256


@dataclass(frozen=True)
class Outcome:
    """The best plan, and what it took to find it."""

    plan: np.ndarray  # ranks (steps, agents, choices)
    record: dict[str, Any]  # the budget, seed, and the numbers of episodes and steps played


@dataclass
class _Candidate:
    plan: np.ndarray
    total: float = 0.0
    count: int = 0
    length: float = 1.0  # mean length of the last episodes
    lost: int = 0  # episodes that were not won

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else -1.0


def searched(trials: Trials, budget: Budget, *, masks: bool, seed: int) -> Outcome:
    """Return the best plan that ``budget`` finds; the same seed finds the same plan."""
    search = _Search(trials, budget, masks, np.random.default_rng(seed))
    plan = search.run()
    played = {"seed": seed, "episodes": trials.played, "steps": trials.steps}
    return Outcome(plan, {**asdict(budget), **played})


class _Search:
    def __init__(
        self, trials: Trials, budget: Budget, masks: bool, rng: np.random.Generator
    ) -> None:
        self._trials, self._budget, self._masks, self._rng = trials, budget, masks, rng
        self._next_seed = 0

    def run(self) -> np.ndarray:
        """Screen the library, improve its best plans, and compare the last ones."""
        budget, trials = self._budget, self._trials
        make = masked_plans if self._masks else unmasked_plans
        library = make(trials.horizon, trials.agents, trials.targets, trials.choices)
        if len(library) > budget.library:
            chosen = self._rng.permutation(len(library))[: budget.library]
            library = [library[k] for k in np.sort(chosen)]
        first = [_Candidate(plan) for plan in library]
        self._play(first, budget.screening)
        first.sort(key=lambda one: -one.mean)
        parents = [_Candidate(one.plan, length=one.length) for one in first[: budget.parents]]
        self._play(parents, budget.meetings)
        start = parents[: budget.finalists // 2]
        for _ in range(budget.generations):
            if any(one.lost == 0 and one.count >= _ENOUGH for one in parents):
                break
            parents = self._generation(parents)
        return self._best([*parents, *start])

    def _generation(self, parents: list[_Candidate]) -> list[_Candidate]:
        """Return the next parents.

        A child must be better than the plan that it comes from in the same episodes; its value is
        then that of this plan and the gain. Parents are judged by all episodes that they have met.
        """
        budget = self._budget
        origins = [parents[k] for k in self._rng.integers(len(parents), size=budget.children)]
        children = [self._child(origin, parents) for origin in origins]
        before = [(parent.total, parent.count) for parent in parents]
        self._play([*parents, *children], budget.meetings)
        latest = {
            id(parent): (parent.total - total) / (parent.count - count)
            for parent, (total, count) in zip(parents, before, strict=True)
        }
        better = []
        for child, origin in zip(children, origins, strict=True):
            gain = child.mean - latest[id(origin)]
            if gain > 0.0:
                better.append((origin.mean + gain, child))
        pool = [(parent.mean, parent) for parent in parents] + better
        pool.sort(key=lambda pair: -pair[0])
        survivors = [one for _, one in pool[: budget.parents]]
        fresh = {id(child) for _, child in better}
        for one, (estimate, _) in zip(survivors, pool, strict=False):
            if id(one) in fresh:
                one.total, one.count = estimate * budget.meetings, budget.meetings
        return survivors

    def _best(self, candidates: list[_Candidate]) -> np.ndarray:
        """Return the plan that does best in episodes that no search has met."""
        ordered = sorted(candidates, key=lambda one: -one.mean)[: self._budget.finalists]
        seeds = np.arange(SELECTION, SELECTION + self._budget.final_episodes)
        table = self._trials.outcomes(np.stack([one.plan for one in ordered]), seeds)
        return ordered[int(_value(table).argmax())].plan

    def _play(self, candidates: list[_Candidate], episodes: int) -> None:
        seeds = np.arange(self._next_seed, self._next_seed + episodes)
        self._next_seed += episodes
        table = self._trials.outcomes(np.stack([one.plan for one in candidates]), seeds)
        values = _value(table)
        for one, value, episode in zip(candidates, values, table, strict=True):
            one.total += float(value) * episodes
            one.count += episodes
            one.length = float(episode[:, 2].mean())
            one.lost += int((episode[:, 0] == 0).sum())

    def _child(self, origin: _Candidate, parents: list[_Candidate]) -> _Candidate:
        """Return a plan with one or more changes."""
        rng, plan = self._rng, origin.plan.copy()
        if rng.random() < 0.15:  # some agents do as those of another plan
            other = parents[int(rng.integers(len(parents)))]
            taken = rng.random(plan.shape[1]) < 0.5
            plan[:, taken] = other.plan[:, taken]
        for _ in range(int(rng.geometric(0.5))):
            self._change(plan, min(int(origin.length) + 2, len(plan)))
        return _Candidate(plan, length=origin.length)

    def _change(self, plan: np.ndarray, length: int) -> None:
        """Change some steps of some agents of a plan that is played for about ``length`` steps."""
        rng = self._rng
        agents = self._some_agents(plan.shape[1])
        start = int(rng.integers(length))
        spans = (1, 2, 4, 8, 16, len(plan))
        stop = min(start + int(rng.choice(spans)), len(plan))
        if rng.random() < 0.2:
            start = 0
        steps = np.arange(start, max(stop, start + 1))
        kind = rng.random()
        if kind < 0.15:  # earlier or later
            shift = int(rng.choice((-4, -2, -1, 1, 2, 4)))
            taken = np.clip(np.arange(start, len(plan)) + shift, 0, len(plan) - 1)
            plan[start:, agents] = plan[taken][:, agents]
            return
        if kind < 0.25:  # as another agent
            plan[:, agents] = plan[:, [int(rng.integers(plan.shape[1]))]]
            return
        rows = plan[np.ix_(steps, agents)]
        choice = int(rng.integers(1, plan.shape[2]))
        if rng.random() < 0.3:
            choice = int(rng.integers(1, _FIRST_TARGET))
        places = [plan.shape[2] - 1, _FIRST_TARGET - 1] if self._masks else [plan.shape[2] - 1]
        plan[np.ix_(steps, agents)] = pushed(rows, choice, int(rng.choice(places)))

    def _some_agents(self, agents: int) -> np.ndarray:
        kind = self._rng.random()
        if kind < 0.4:
            return np.arange(agents)
        if kind < 0.75:
            return self._rng.integers(agents, size=1)
        return np.flatnonzero(self._rng.random(agents) < 0.5)


def _value(table: np.ndarray) -> np.ndarray:
    """Return what a search looks for: victories, and a little of the return."""
    return np.asarray((table[:, :, 0] + _SHAPING * table[:, :, 1] / _WHOLE).mean(axis=1))
