"""Sections of a certificate: what is searched for one task, or for repeated play.

What is found is data; ``studies.certificates.replay`` plays it, whatever the search was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coopbench.baselines.rules.rules import RuleData
from studies.certificates import replay
from studies.certificates.arena import Arena, Table, Weights
from studies.certificates.bayesian import Plan, bayesian, errors_of_shadows, valued
from studies.certificates.games import Figure
from studies.certificates.problems import answers, best_rule
from studies.certificates.replay import CLASSES, JUDGED, OPPONENTS, Rules, Sizes, combined, figure
from studies.certificates.scripts import best_script, scripts
from studies.certificates.search import CHOICE, SEARCH, Budget

SHADOWED = 40_000_000  # first seed of episodes; no protocol plays them
_VALUED = 50  # episodes for the value of a rule with one line-up


@dataclass(frozen=True)
class Effort:
    """Budgets of the searches of a certificate."""

    alone: Budget  # rules in all seats, or in one seat against one policy
    pool: Budget  # one rule with all line-ups, which share the episodes
    answers: tuple[Budget, ...]  # a rule for each line-up; one after the other
    scripts: tuple[int, int]  # episodes of each script, and of those among which is chosen

    @classmethod
    def of(cls, effort: int, agents: int) -> "Effort":
        """Return budgets with ``effort`` times the rounds and the episodes.

        Games of more than two agents, which take longer to play, have half the rounds.
        """
        alone = Budget(rounds=14, episodes=40, choice=400)
        pool = Budget(library=56, rounds=12, candidates=32, episodes=112, elite=6, choice=1120)
        partner = Budget(rounds=10, candidates=20, choice=100)
        alone, pool, partner = (budget.times(effort) for budget in (alone, pool, partner))
        if agents > 2:
            alone, pool, partner = (
                replace(budget, rounds=budget.rounds // 2) for budget in (alone, pool, partner)
            )
        # Rules of many weights against partners that adapt gain most from many small steps.
        steps = replace(partner, rounds=20 * effort, spread=0.3)
        return cls(alone, pool, (partner, partner, steps), scripts=(280 * effort, 2_800 * effort))


def _written(table: Table, weights: Weights) -> dict[str, RuleData]:
    """Return weights by role as rules."""
    return {role: form.data(weights[role]) for role, form in table.forms.items()}


def _best_script(table: Table, effort: Effort, *, elsewhere: bool = False) -> str:
    """Return the script with the highest mean return in the seats of rules; see ``best_script``."""

    def values(names: Sequence[str], episodes: int, stage: int) -> np.ndarray:
        seated = table.seating(*names)
        lineups, share = np.arange(len(seated.lineups)), -(-episodes // len(table.lineups))
        played = Arena(seated).play({}, lineups, share, (SEARCH, CHOICE)[stage])
        result: np.ndarray = played.returns.reshape(len(names), -1).mean(axis=1)
        return result

    return best_script(scripts(table.game), values, *effort.scripts, elsewhere=elsewhere)


class SelfPlay(replay.SelfPlay):
    """A task in which one rule per role plays all seats."""

    def search(self, effort: Effort) -> Rules:
        """Return the best rule of every class, and of a planner who knows the regime."""
        rules: dict[str, Any] = {}
        tried: list[Weights] = []
        planner = best_rule(self.planner, "memory", tried, effort.alone)
        rules["planner"] = _written(self.planner.table, planner)
        for name in CLASSES:
            best = best_rule(self.arena, name, tried, effort.alone)
            rules[name] = _written(self.arena.table, best)
            tried.append(best)
        return rules | {"script": self.script(effort)}

    def script(self, effort: Effort) -> dict[str, str]:
        """Return the best script for all seats."""
        return dict.fromkeys(self.arena.table.forms, _best_script(self.arena.table, effort))

    def scripts(self, rules: Rules, sizes: Sizes, script: Mapping[str, str]) -> dict[str, Figure]:
        """Return the figures of a replay that depend on scripts alone."""
        table, named = self.arena.table, {"script": rules["script"], "best_script": script}
        return {
            name: figure(replay.policy_returns(table, policy, sizes.others))
            for name, policy in named.items()
        }


class Focal(replay.Focal):
    """A task in which the rule plays one seat, in rotation, with partners."""

    def search(self, effort: Effort) -> Rules:
        """Return the best rule of every class, and the best against each line-up."""
        rules: dict[str, Any] = {name: {} for name in (*CLASSES, "informed", "script")}
        for role, arena in self.arenas.items():
            informed, tried = answers(arena, [], effort.answers), list[Weights]()
            rows = map(arena.table.forms[role].data, informed[role])
            rules["informed"][role] = dict(zip(arena.table.names, rows, strict=True))
            tried.append({role: informed[role]})
            for name in CLASSES:
                best = best_rule(arena, name, tried, effort.pool)
                rules[name] |= _written(arena.table, best)
                tried.append(best)
        rules["script"] = self.script(effort)
        return rules

    def script(self, effort: Effort, *, elsewhere: bool = False) -> dict[str, str]:
        """Return the best script for the seats of each role; see ``best_script``."""
        return {
            role: _best_script(arena.table, effort, elsewhere=elsewhere)
            for role, arena in self.arenas.items()
        }

    def scripts(self, rules: Rules, sizes: Sizes, script: Mapping[str, str]) -> dict[str, Figure]:
        """Return the figures of a replay that depend on scripts alone."""
        named = {"script": rules["script"], "best_script": script}
        return {name: self.policy(policy, sizes.others) for name, policy in named.items()}

    def measure(self, rules: Rules, sizes: Sizes, script: Mapping[str, str]) -> dict[str, Figure]:
        """Return the figures of a replay, and ``bayesian``: of a player that knows the pool."""
        figures = super().measure(rules, sizes, script)
        return figures | {"bayesian": self._bayesian(rules, sizes.bayesian)}

    def _bayesian(self, rules: Rules, episodes: int) -> Figure:
        """Return what a player earns that knows the pool: the better of its two ways to choose."""
        parts, informed = [], self.answers(rules)
        for role, arena in self.arenas.items():
            weights, count = {role: informed[role]}, len(arena.table.lineups)
            errors = errors_of_shadows(arena, weights, SHADOWED)
            share = -(-self.part(role, episodes) // count)
            form = arena.table.forms[role]
            more = [form.weights(rules[name][role]) for name in CLASSES]
            every = {role: np.concatenate([informed[role], more])}
            plans = (Plan(weights), valued(arena, every, _VALUED, SHADOWED))
            ways = [figure(bayesian(arena, p, errors, share, JUDGED).returns) for p in plans]
            parts.append((self.shares[role], max(ways, key=lambda way: way.value)))
        return combined(parts)


class RepeatedGame(replay.RepeatedGame):
    """A repeated dilemma: one seat of each role against one policy in all others."""

    def search(self, effort: Effort) -> Rules:
        """Return the best response of every role to each opponent."""
        rules: dict[str, Any] = {}
        for opponent in OPPONENTS:
            rules[opponent] = {}
            for arena in self.arenas(opponent).values():
                best = best_rule(arena, "memory", [], effort.alone)
                rules[opponent] |= _written(arena.table, best)
        return rules
