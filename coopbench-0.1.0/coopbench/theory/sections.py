"""Sections of a certificate: what is searched and measured for one task, or for repeated play.

Every section has ``search``, which returns rules as data, and ``measure``, which plays such rules
again and returns figures. Nothing that is measured depends on how the rules were found.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from coopbench.baselines.rules.rules import RuleData
from coopbench.protocol.sections import Task
from coopbench.theory.arena import Arena, Table
from coopbench.theory.bayesian import Plan, bayesian, errors_of_shadows, valued
from coopbench.theory.figures import Figure, combined, figure, relative
from coopbench.theory.problems import Weights, answers, best_rule, everywhere
from coopbench.theory.search import Budget
from coopbench.theory.tables import beside, focal_tables, lineup_names, self_play_table
from coopbench_envs.roles import members_of_roles

__all__ = ["Effort", "Focal", "RepeatedGame", "SelfPlay", "Sizes"]

Rules = dict[str, Any]  # {class: {role: RuleData}}; of ``informed`` {role: {line-up: RuleData}}
_JUDGED, _SHADOWED = 1_000_000, 40_000_000  # first seeds of episodes; no protocol plays them
_VALUED = 50  # episodes for the value of a rule beside one line-up
# An agent that does not know the times cannot wait for others if its cooperation is unconditional.
_UNCONDITIONAL = {"cooperator": "cooperator:ignore=0,follow=0"}
_CLASSES = ("constant", "sequence", "public", "blind", "partner", "memory")


@dataclass(frozen=True)
class Effort:
    """Budgets of the searches of a certificate."""

    alone: Budget  # rules in all seats, or in one seat beside one policy
    pool: Budget  # one rule beside all line-ups, which share the episodes
    partner: Budget  # a rule for each line-up; searched twice

    @classmethod
    def of(cls, effort: int, agents: int) -> "Effort":
        """Return budgets with ``effort`` times the rounds and the episodes.

        Games of more than two agents, which take longer to play, have half the rounds.
        """
        alone = Budget(rounds=14, episodes=40, choice=400)
        pool = Budget(library=56, rounds=12, candidates=32, episodes=112, elite=6, choice=1120)
        partner = Budget(rounds=10, candidates=20, choice=100)
        budgets = [budget.times(effort) for budget in (alone, pool, partner)]
        if agents > 2:
            budgets = [replace(budget, rounds=budget.rounds // 2) for budget in budgets]
        return cls(*budgets)


@dataclass(frozen=True)
class Sizes:
    """Numbers of episodes of the figures."""

    bounds: int = 20_000
    others: int = 5_000
    bayesian: int = 2_600


def _read(table: Table, rules: Mapping[str, RuleData]) -> Weights:
    """Return the weights of rules by role."""
    return {role: form.weights(rules[role]) for role, form in table.forms.items()}


def _written(table: Table, weights: Weights) -> dict[str, RuleData]:
    """Return weights by role as rules."""
    return {role: form.data(weights[role]) for role, form in table.forms.items()}


def _returns(arena: Arena, weights: Weights, episodes: int) -> np.ndarray:
    """Play weights (size,), or (line-ups, size), beside every line-up: (line-ups, episodes)."""
    lineups = len(arena.table.lineups)
    return arena.play(
        everywhere(weights, lineups), np.arange(lineups), -(-episodes // lineups), _JUDGED
    ).returns


def _policy_returns(table: Table, policy: str | Mapping[str, str], episodes: int) -> np.ndarray:
    """Play a policy in the seats of rules."""
    return _returns(Arena(table.seating(policy)), {}, episodes)


@dataclass(frozen=True)
class SelfPlay:
    """A task in which one rule per role plays all seats."""

    task: Task
    reference: Mapping[str, str]  # policy of each role

    @cached_property
    def _arena(self) -> Arena:
        return Arena(self_play_table(self.task.env, dict(self.task.parameters)))

    @cached_property
    def _planner(self) -> Arena:
        return Arena(self_play_table(self.task.env, dict(self.task.parameters), all_informed=True))

    def search(self, effort: Effort) -> Rules:
        """Return the best rule of every class, and of a planner who knows the times."""
        rules, tried = {}, list[Weights]()
        planner = best_rule(self._planner, "memory", tried, effort.alone)
        rules["planner"] = _written(self._planner.table, planner)
        for name in _CLASSES:
            best = best_rule(self._arena, name, tried, effort.alone)
            rules[name] = _written(self._arena.table, best)
            tried.append(best)
        return rules

    def measure(self, rules: Rules, sizes: Sizes) -> dict[str, Figure]:
        """Return mean returns per seat: ``low``, ``high``, those of the classes and policies."""
        table, planner = self._arena.table, self._planner
        figures = {
            "low": figure(_policy_returns(table, "always_defect", sizes.bounds)),
            "high": figure(_returns(planner, _read(planner.table, rules["planner"]), sizes.bounds)),
        }
        for name in _CLASSES:
            returns = _returns(self._arena, _read(table, rules[name]), sizes.others)
            figures[name] = figure(returns)
        for name in ("cooperator", "reference", "random"):
            policy = self.reference if name == "reference" else name
            figures[name] = figure(_policy_returns(table, policy, sizes.others))
        return figures


@dataclass(frozen=True)
class Focal:
    """A task in which the rule plays one seat, in rotation, beside partners."""

    task: Task
    reference: Mapping[str, str]  # policy of each role

    @cached_property
    def _arenas(self) -> dict[str, Arena]:
        return {role: Arena(table) for role, table in focal_tables(self.task).items()}

    @cached_property
    def _shares(self) -> dict[str, float]:
        """Part of the episodes in which a seat of the role is played."""
        agents = next(iter(self._arenas.values())).table.game.agents
        members = members_of_roles(agents)
        return {role: len(seats) / len(agents) for role, seats in members.items()}

    def search(self, effort: Effort) -> Rules:
        """Return the best rule of every class, and the best against each line-up."""
        rules: Rules = {name: {} for name in (*_CLASSES, "informed")}
        for role, arena in self._arenas.items():
            informed, tried = answers(arena, [], effort.partner), list[Weights]()
            rows = map(arena.table.forms[role].data, informed[role])
            rules["informed"][role] = dict(zip(lineup_names(arena.table), rows, strict=True))
            tried.append({role: informed[role]})
            for name in _CLASSES:
                best = best_rule(arena, name, tried, effort.pool)
                rules[name] |= _written(arena.table, best)
                tried.append(best)
        return rules

    def answers(self, rules: Rules) -> dict[str, np.ndarray]:
        """Return the stored best responses by role, (line-ups, size)."""
        return {
            role: np.array(
                [
                    arena.table.forms[role].weights(rules["informed"][role][name])
                    for name in lineup_names(arena.table)
                ]
            )
            for role, arena in self._arenas.items()
        }

    def measure(self, rules: Rules, sizes: Sizes) -> dict[str, Figure]:
        """Return mean returns of the seat: ``low``, ``high``, those of the classes and policies."""
        informed = self.answers(rules)

        def of(name: str, role: str, episodes: int) -> np.ndarray:
            arena = self._arenas[role]
            return _returns(arena, _read(arena.table, {role: rules[name][role]}), episodes)

        figures = {
            "low": self._mean(lambda r: of("blind", r, self._part(r, sizes.bounds))),
            "high": self._mean(
                lambda r: _returns(self._arenas[r], {r: informed[r]}, self._part(r, sizes.bounds))
            ),
            "bayesian": self._bayesian(rules, informed, sizes.bayesian),
        }
        for name in _CLASSES:
            if name != "blind":
                figures[name] = self._mean(
                    lambda r, name=name: of(name, r, self._part(r, sizes.others))
                )
        if self.task.group == "shifted":
            table = self_play_table(self.task.env, dict(self.task.parameters))
            for name, alike in (("cooperators", "cooperator"), ("defectors", "always_defect")):
                figures[name] = figure(_policy_returns(table, alike, sizes.others))
        for name in ("always_defect", "cooperator", "reference", "random"):
            figures[name] = self._of_policy(
                self.reference if name == "reference" else name, sizes.others
            )
        return figures

    def _of_policy(self, policy: str | Mapping[str, str], episodes: int) -> Figure:
        """Return what a policy earns in the seat."""
        return self._mean(
            lambda r: _policy_returns(self._arenas[r].table, policy, self._part(r, episodes))
        )

    def _part(self, role: str, episodes: int) -> int:
        """Return the episodes of a role, as many as its part of the seats."""
        return int(np.ceil(self._shares[role] * episodes))

    def _mean(self, played: Any) -> Figure:
        """Return the mean over seats of ``played(role)``, returns (line-ups, episodes)."""
        return combined([(share, figure(played(role))) for role, share in self._shares.items()])

    def _bayesian(self, rules: Rules, informed: Mapping[str, np.ndarray], episodes: int) -> Figure:
        """Return what a player earns that knows the pool: the better of its two ways to choose."""
        parts = []
        for role, arena in self._arenas.items():
            weights, count = {role: informed[role]}, len(arena.table.lineups)
            errors = errors_of_shadows(arena, weights, _SHADOWED)
            share = -(-self._part(role, episodes) // count)
            form = arena.table.forms[role]
            more = [form.weights(rules[name][role]) for name in _CLASSES]
            every = {role: np.concatenate([informed[role], more])}
            plans = (Plan(weights), valued(arena, every, _VALUED, _SHADOWED))
            ways = [figure(bayesian(arena, p, errors, share, _JUDGED).returns) for p in plans]
            parts.append((self._shares[role], max(ways, key=lambda way: way.value)))
        return combined(parts)


@dataclass(frozen=True)
class RepeatedGame:
    """The conditions of a repeated dilemma: one seat of each role beside one policy in all."""

    env_id: str
    parameters: Mapping[str, Any]
    reference: Mapping[str, str]  # policy of each role

    def _arenas(self, opponent: str) -> dict[str, Arena]:
        """Return the arena of each role beside an opponent."""
        policies = dict(self.reference)
        if opponent != "reference":
            policies = dict.fromkeys(policies, _UNCONDITIONAL.get(opponent, opponent))
        tables = beside(self.env_id, dict(self.parameters), policies)
        return {role: Arena(table) for role, table in tables.items()}

    def _base(self, opponent: str) -> str | Mapping[str, str]:
        """Return the policy with which the best response to an opponent is compared."""
        if opponent == "reference":
            return self.reference
        return "cooperator" if opponent == "cooperator" else _UNCONDITIONAL["cooperator"]

    def search(self, effort: Effort) -> Rules:
        """Return the best response of every role to each opponent."""
        rules: Rules = {}
        for opponent in ("cooperator", "always_defect", "reference"):
            rules[opponent] = {}
            for arena in self._arenas(opponent).values():
                best = best_rule(arena, "memory", [], effort.alone)
                rules[opponent] |= _written(arena.table, best)
        return rules

    def measure(self, rules: Rules, sizes: Sizes) -> dict[str, Figure]:
        """Return gains, relative, of the best response to each opponent, by role.

        Against the cooperator over cooperating, against the defector over investing always, and
        against the reference over playing the same; and its investment over theirs.
        """
        figures = {}
        for opponent in ("cooperator", "always_defect", "reference"):
            base = self._base(opponent)
            for role, arena in self._arenas(opponent).items():
                weights = everywhere(_read(arena.table, rules[opponent]), 1)
                lineup = np.zeros(1, np.int64)
                best = arena.play(weights, lineup, sizes.others, _JUDGED)
                other = Arena(arena.table.seating(base)).play({}, lineup, sizes.others, _JUDGED)
                figures[f"{opponent}.{role}"] = relative(best.returns, other.returns)
                invested = float(best.invested[0] / other.invested[0])
                figures[f"{opponent}.{role}.invests"] = Figure(invested, 0.0, sizes.others)
        return figures
