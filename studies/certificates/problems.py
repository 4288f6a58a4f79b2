"""What certificates search: rules for all seats, for one among a pool, against each line-up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from coopbench.baselines.rules.inputs import REGIMES
from coopbench_envs.engine import DISABLED
from studies.certificates.arena import Arena, Weights, observed
from studies.certificates.library import library
from studies.certificates.search import Budget, Problem, searched

# Classes of rules: the inputs that they may use, up to this kind, and whether all regimes have the
# same weights. Every class contains those before it.
CLASSES = {
    "constant": ("constant", True),
    "sequence": ("time", True),
    "public": ("public", False),
    "blind": ("own", False),
    "partner": ("partner", False),
    "memory": ("memory", False),
    "informed": ("place", False),  # of who the partners are
}


@dataclass(frozen=True)
class _Variables:
    """The variables of a class of rules, over all roles that rules play."""

    free: dict[str, np.ndarray]  # by role (size,), as ``Form.free`` returns them
    count: int

    @classmethod
    def of(cls, arena: Arena, name: str) -> "_Variables":
        """Return the variables of the class ``name``; regimes that a role never meets have none."""
        kinds, tied = CLASSES[name]
        met, free, count = _met_regimes(arena), {}, 0
        for role, form in arena.table.forms.items():
            numbers = form.free(kinds, met[role], tied)
            free[role] = np.where(numbers < 0, numbers, numbers + count)
            count += int(numbers.max()) + 1
        return cls(free, count)

    def weights(self, vectors: np.ndarray) -> Weights:
        """Return the weights (..., size) of every role from vectors (..., count)."""
        ends = np.broadcast_to([1.0, 0.0], (*vectors.shape[:-1], 2))  # at ONE and at ZERO
        padded = np.concatenate([vectors, ends], axis=-1)
        return {role: padded[..., numbers] for role, numbers in self.free.items()}

    def vectors(self, weights: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return vectors (rules, count) near weights (rules, size); the largest of equals counts.

        Weights that the class does not have are left out.
        """
        rows = len(next(iter(weights.values())))
        result = np.zeros((rows, self.count))
        for role, numbers in self.free.items():
            for place in np.flatnonzero(numbers >= 0):
                value, column = weights[role][:, place], result[:, numbers[place]]
                result[:, numbers[place]] = np.where(abs(value) > abs(column), value, column)
        return result


def _met_regimes(arena: Arena) -> dict[str, tuple[str, ...]]:
    """Return the regimes that the rules of every role meet, from a few episodes."""
    table, engine = arena.table, arena.engine(64)
    engine.reset(np.arange(64, dtype=np.uint64))
    met: dict[str, set[int]] = {role: set() for role in table.forms}
    while not engine.control.done.all():
        for role, form in table.forms.items():
            seen = observed(engine, table, np.full(64, form.inputs.seat))
            met[role] |= set(form.inputs.regimes(seen).tolist())
        engine.step(np.zeros(engine.actions.shape), DISABLED)
    return {role: tuple(REGIMES[k] for k in sorted(seen)) for role, seen in met.items()}


_FEW = frozenset({"constant", "sequence", "public"})  # of so few variables that half will do


def best_rule(arena: Arena, name: str, starts: Sequence[Weights], budget: Budget) -> Weights:
    """Search the best rule of a class, the same with all line-ups; ``starts`` are tried first.

    ``episodes`` of the budget are shared out among the line-ups.
    """
    variables, lineups = _Variables.of(arena, name), len(arena.table.lineups)

    def value(vectors: np.ndarray, episodes: int, seed: int) -> np.ndarray:
        weights = variables.weights(np.repeat(vectors[0], lineups, axis=0))
        where = np.tile(np.arange(lineups), vectors.shape[1])
        played = arena.play(weights, where, -(-episodes // lineups), seed)
        result: np.ndarray = played.returns.mean(axis=1).reshape(1, -1, lineups).mean(axis=2)
        return result

    problem = Problem(1, variables.count, value)
    if name in _FEW:
        budget = replace(budget, rounds=budget.rounds // 2)
    vector = searched(problem, _library(arena, variables, starts), budget)[0]
    return variables.weights(vector)


def answers(arena: Arena, starts: Sequence[Weights], budgets: Sequence[Budget]) -> Weights:
    """Search the best rule against each named line-up, known in advance; weights (names, size).

    Line-ups with the same name share the episodes. There is one search for each of the budgets:
    what is best against one line-up is where the next search for the others begins.
    """
    variables, alike = _Variables.of(arena, "informed"), arena.table.alike
    lineups = np.arange(len(arena.table.lineups)).reshape(-1, alike)
    count = len(lineups)

    def value(vectors: np.ndarray, episodes: int, seed: int) -> np.ndarray:
        candidates = vectors.shape[1]
        weights = variables.weights(vectors.reshape(count * candidates, -1))
        weights = {role: np.repeat(rows, alike, axis=0) for role, rows in weights.items()}
        where = np.repeat(lineups, candidates, axis=0).ravel()
        returns = arena.play(weights, where, -(-episodes // alike), seed).returns
        result: np.ndarray = returns.mean(axis=1).reshape(count, candidates, alike).mean(axis=2)
        return result

    problem = Problem(count, variables.count, value)
    found = _library(arena, variables, starts)
    for seed, budget in enumerate(budgets, 1):
        found = searched(problem, found, budget, seed)
    return variables.weights(found)


def _library(arena: Arena, variables: _Variables, starts: Sequence[Weights]) -> np.ndarray:
    """Return vectors (rules, count) of the library and of the ``starts``, each once."""
    tables = [{role: library(form) for role, form in arena.table.forms.items()}]
    tables += [{role: np.atleast_2d(rows) for role, rows in start.items()} for start in starts]
    vectors = np.concatenate([variables.vectors(table) for table in tables])
    _, first = np.unique(vectors.round(9), axis=0, return_index=True)
    return vectors[np.sort(first)]
