"""A player that knows the pool of partners, but not which of them it has met.

It runs every policy of the pool in the others' seats in shadow, compares what they would invest
with what it observes, and plays either the mean of the best responses, weighted by the posterior of
the line-ups, or that of several rules whose mean value under the posterior is highest.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from coopbench.baselines.match import OWN
from coopbench.baselines.player import Player
from coopbench_envs.engine import DISABLED, Engine
from studies.certificates.arena import (
    STRIDE,
    Arena,
    BlockResults,
    Partners,
    Table,
    Weights,
    observed,
)

_CHECKED = 12  # episodes of each line-up from which the shadows' errors are estimated
_CLOSE = 0.01  # difference of investments, above the noise, that is still a hit
_LANES = 2048  # of one engine; every best response acts in all of them


@dataclass(frozen=True)
class Plan:
    """The rules of a player: best responses to the line-ups, or rules whose values are known."""

    weights: Weights  # by role (rules, size)
    values: np.ndarray | None = None  # (rules, names); None: rule k answers the k-th name


class _Shadows:
    """The policies of a pool in the others' seats, and how likely what was observed makes them."""

    def __init__(self, engine: Engine, table: Table) -> None:
        control, everywhere = engine.control, np.ones(engine.lanes, np.bool_)
        self._engine, self._high = engine, table.game.high[:, 0]
        self._players = [Player(name, table.game) for name in table.partners]
        for number, player in enumerate(self._players):
            player.begin(control.seed, control.episode, everywhere, 1000 + number)
        noise = engine.constants.noise
        self._noises = np.linspace(noise[0], noise[1], 3) + _CLOSE
        self._predicted: list[np.ndarray] = []  # of the last steps: (lanes, agents, policies)

    def predict(self) -> None:
        """Note what each policy would invest in the coming step."""
        observations = self._engine.control.obs
        played = [player.act(observations)[:, :, 0] / self._high for player in self._players]
        self._predicted.append(np.stack(played, axis=2))
        self._predicted = self._predicted[-1 - int(self._engine.constants.delay) :]

    def distances(self) -> np.ndarray | None:
        """Return |observed - predicted| (lanes, agents, policies); None if nothing was observed."""
        if len(self._predicted) <= self._engine.constants.delay:
            return None
        result: np.ndarray = abs(self._engine.state.seen[:, :, None] - self._predicted[0])
        return result

    def likelihoods(self, distances: np.ndarray, errors: np.ndarray) -> np.ndarray:
        """Return densities (lanes, agents, policies) for the ``errors`` (policies,) of shadows."""
        hits = sum((distances <= noise) / (2.0 * noise) for noise in self._noises)
        result: np.ndarray = errors + (1.0 - errors) * hits / len(self._noises)
        return np.where(self._acted()[:, :, None], result, 1.0)

    def _acted(self) -> np.ndarray:
        """Return whether an agent's investment was observed, (lanes, agents)."""
        state: Any = self._engine.state
        if hasattr(state, "partner"):
            return np.asarray(state.partner >= 0)
        if hasattr(state, "present"):
            return np.asarray(state.present)
        return np.ones(state.seen.shape, np.bool_)


class _Chooser:
    """Plays rules in one seat of each lane, by a posterior of the line-ups' names.

    ``lineups`` (lanes,) says who sits in a lane; of that the chooser uses its own seat alone.
    """

    def __init__(self, engine: Engine, table: Table, plan: Plan, lineups: np.ndarray) -> None:
        (role,) = table.roles
        self._form = table.forms[role]
        self._weights, self._values = plan.weights[role], plan.values
        self._count, self._engine, self._table = len(self._weights), engine, table
        self.seats = table.seats[lineups, 0]
        self._lanes = np.arange(engine.lanes)
        self._place = lineups % table.alike  # of its seat among those of a name
        self._lineups = table.lineups.reshape(-1, table.alike, len(table.game.agents))
        self._memory = self._form.initial(engine.lanes * self._count, self._weights)
        self.logs = np.zeros((engine.lanes, len(self._lineups)))

    def act(self, actions: np.ndarray) -> None:
        """Write the seat's actions into ``actions`` (lanes, agents, parts)."""
        seen = observed(self._engine, self._table, self.seats)
        tiled = np.tile(seen, (self._count, 1))
        played, self._memory = self._form.act(self._weights, tiled, self._memory)
        answers = played.reshape(self._count, self._engine.lanes, -1)
        posterior = np.exp(self.logs - self.logs.max(axis=1, keepdims=True))
        posterior /= posterior.sum(axis=1, keepdims=True)
        if self._values is None:
            actions[self._lanes, self.seats] = np.einsum("klp,lk->lp", answers, posterior)
        else:
            best = (posterior @ self._values.T).argmax(axis=1)
            actions[self._lanes, self.seats] = answers[best, self._lanes]

    def learn(self, likelihoods: np.ndarray) -> None:
        """Add what was observed: likelihoods (lanes, agents, policies)."""
        logs = np.log(likelihoods)
        for place in range(self._lineups.shape[1]):
            lanes = np.flatnonzero(self._place == place)
            for seat in range(logs.shape[1]):
                who = self._lineups[:, place, seat]
                if (who != OWN).all():
                    self.logs[lanes] += logs[lanes, seat][:, who]


def valued(arena: Arena, weights: Weights, episodes: int, seed: int) -> Plan:
    """Return the plan to play the rule of ``weights`` (rules, size) with the best mean value.

    Every rule plays ``episodes`` with every line-up first, for its value with those of a name.
    """
    rules, lineups = len(next(iter(weights.values()))), len(arena.table.lineups)
    where = np.tile(np.arange(lineups), rules)
    repeated = {role: np.repeat(rows, lineups, axis=0) for role, rows in weights.items()}
    returns = arena.play(repeated, where, episodes, seed).returns
    values = returns.mean(axis=1).reshape(rules, -1, arena.table.alike)
    return Plan(weights, values.mean(axis=2))


def bayesian(
    arena: Arena, plan: Plan, errors: np.ndarray, episodes: int, seed: int
) -> BlockResults:
    """Play ``episodes`` with every line-up; ``errors`` are those of ``errors_of_shadows``."""
    lineups, parts = len(arena.table.lineups), []
    block = max(1, _LANES // lineups)
    for first in range(0, episodes, block):
        count = min(block, episodes - first)
        parts.append(_played(arena, plan, errors, (count, seed + first))[0])
    returns = np.concatenate(parts, axis=1)
    return BlockResults(returns, np.full(lineups, np.nan))


def errors_of_shadows(arena: Arena, weights: Weights, seed: int) -> np.ndarray:
    """Return how often each policy (policies,) does not invest what its shadow predicts.

    Trembles of the game and of the policy itself make such errors.
    """
    uncertain = np.ones(len(arena.table.partners))
    return _played(arena, Plan(weights), uncertain, (_CHECKED, seed))[1]


def _played(
    arena: Arena, plan: Plan, errors: np.ndarray, where: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Play some episodes with every line-up; return returns and the shadows' errors."""
    table, (episodes, seed) = arena.table, where
    numbers = np.repeat(np.arange(len(table.lineups)), episodes)
    engine = arena.engine(len(numbers))
    within = np.tile(np.arange(episodes), len(table.lineups))
    engine.reset((seed + numbers * STRIDE + within).astype(np.uint64))
    seated = table.lineups[numbers]
    partners, shadows = Partners(engine, table, seated), _Shadows(engine, table)
    chooser = _Chooser(engine, table, plan, numbers)
    misses = np.zeros((2, len(table.partners)))  # with one more of either kind than were seen
    while not engine.control.done.all():
        actions = np.zeros(engine.actions.shape)
        partners.act(actions)
        chooser.act(actions)
        shadows.predict()
        engine.step(actions, DISABLED)
        distances = shadows.distances()
        if distances is not None:
            chooser.learn(shadows.likelihoods(distances, errors))
            misses += _missed(distances, seated, float(engine.constants.noise[1]) + _CLOSE)
    earned = engine.control.returns[np.arange(engine.lanes), chooser.seats]
    returns = earned.reshape(-1, episodes)
    rate = (misses[1] + 0.5) / (misses.sum(axis=0) + 1.0)
    return returns, np.clip(rate, 0.005, 1.0)


def _missed(distances: np.ndarray, seated: np.ndarray, noise: float) -> np.ndarray:
    """Count hits and misses (2, policies) of the policies that really sit in the seats."""
    counts = np.zeros((2, distances.shape[2]))
    for number in range(distances.shape[2]):
        missed = distances[:, :, number][seated == number] > noise
        counts[:, number] = len(missed) - missed.sum(), missed.sum()
    return counts
