"""Sections of a certificate: what is searched and measured for one task, or for repeated play.

Every section has ``search``, which returns rules as data, and ``measure``, which plays such rules
again and returns figures. Nothing that is measured depends on how the rules were found.
"""

from collections.abc import Mapping, Sequence
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
from coopbench.theory.scripts import best_script, scripts
from coopbench.theory.search import CHOICE, SEARCH, Budget
from coopbench.theory.tables import beside, focal_tables, self_play_table
from coopbench_envs.roles import members_of_roles

__all__ = ["Effort", "Focal", "RepeatedGame", "SelfPlay", "Sizes"]

# {class: {role: RuleData}}; of ``informed`` {role: {line-up: RuleData}}, of ``script`` {role: name}
Rules = dict[str, Any]
_JUDGED, _SHADOWED = 1_000_000, 40_000_000  # first seeds of episodes; no protocol plays them
_VALUED = 50  # episodes for the value of a rule beside one line-up
# An agent that does not know the times cannot wait for others if its cooperation is unconditional.
_UNCONDITIONAL = {"cooperator": "cooperator:ignore=0,follow=0"}
_NOBODY: Mapping[str, str] = {}
_CLASSES = ("constant", "sequence", "public", "blind", "partner", "memory")


@dataclass(frozen=True)
class Effort:
    """Budgets of the searches of a certificate."""

    alone: Budget  # rules in all seats, or in one seat beside one policy
    pool: Budget  # one rule beside all line-ups, which share the episodes
    partner: Budget  # a rule for each line-up; searched twice
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
        return cls(alone, pool, partner, scripts=(280 * effort, 2_800 * effort))


@dataclass(frozen=True)
class Sizes:
    """Numbers of episodes of the figures."""

    bounds: int = 20_000
    others: int = 5_000
    bayesian: int = 6_000


def _read(table: Table, rules: Mapping[str, RuleData]) -> Weights:
    """Return the weights of rules by role."""
    return {role: form.weights(rules[role]) for role, form in table.forms.items()}


def _written(table: Table, weights: Weights) -> dict[str, RuleData]:
    """Return weights by role as rules."""
    return {role: form.data(weights[role]) for role, form in table.forms.items()}


def _returns(arena: Arena, weights: Weights, episodes: int) -> np.ndarray:
    """Play weights (size,), or (names, size), beside every line-up: (line-ups, episodes)."""
    table = arena.table
    rows = everywhere(weights, len(table.names))
    rows = {role: np.repeat(row, table.alike, axis=0) for role, row in rows.items()}
    lineups = np.arange(len(table.lineups))
    return arena.play(rows, lineups, -(-episodes // len(lineups)), _JUDGED).returns


def _policy_returns(table: Table, policy: str | Mapping[str, str], episodes: int) -> np.ndarray:
    """Play a policy in the seats of rules."""
    return _returns(Arena(table.seating(policy)), {}, episodes)


def _best_script(table: Table, effort: Effort) -> str:
    """Return the script with the highest mean return in the seats of rules."""

    def values(names: Sequence[str], episodes: int, stage: int) -> np.ndarray:
        seated = table.seating(*names)
        lineups, share = np.arange(len(seated.lineups)), -(-episodes // len(table.lineups))
        played = Arena(seated).play({}, lineups, share, (SEARCH, CHOICE)[stage])
        result: np.ndarray = played.returns.reshape(len(names), -1).mean(axis=1)
        return result

    return best_script(scripts(table.game), values, *effort.scripts)


def _policies(
    rules: Rules, script: Mapping[str, str], reference: Mapping[str, str]
) -> dict[str, str | Mapping[str, str]]:
    """Return the policies that are measured, by the names of their figures."""
    measured: dict[str, str | Mapping[str, str]] = {"script": rules["script"]}
    if script:
        measured["best_script"] = script
    measured |= {name: name for name in ("always_defect", "cooperator", "random")}
    return measured | {"reference": reference}


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
        rules: Rules = {}
        tried: list[Weights] = []
        planner = best_rule(self._planner, "memory", tried, effort.alone)
        rules["planner"] = _written(self._planner.table, planner)
        for name in _CLASSES:
            best = best_rule(self._arena, name, tried, effort.alone)
            rules[name] = _written(self._arena.table, best)
            tried.append(best)
        best_script = _best_script(self._arena.table, effort)
        return rules | {"script": dict.fromkeys(self._arena.table.forms, best_script)}

    def measure(
        self, rules: Rules, sizes: Sizes, script: Mapping[str, str] = _NOBODY
    ) -> dict[str, Figure]:
        """Return mean returns per seat: ``low``, ``high``, those of the classes and policies.

        ``script`` is the policy of each role that is called ``best_script``, if there is one.
        """
        table, planner = self._arena.table, self._planner
        figures = {
            "low": figure(_policy_returns(table, "always_defect", sizes.bounds)),
            "high": figure(_returns(planner, _read(planner.table, rules["planner"]), sizes.bounds)),
        }
        for name in _CLASSES:
            returns = _returns(self._arena, _read(table, rules[name]), sizes.others)
            figures[name] = figure(returns)
        for name, policy in _policies(rules, script, self.reference).items():
            if name != "always_defect":  # whose return is the lower bound
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
        rules: Rules = {name: {} for name in (*_CLASSES, "informed", "script")}
        for role, arena in self._arenas.items():
            informed, tried = answers(arena, [], effort.partner), list[Weights]()
            rows = map(arena.table.forms[role].data, informed[role])
            rules["informed"][role] = dict(zip(arena.table.names, rows, strict=True))
            tried.append({role: informed[role]})
            for name in _CLASSES:
                best = best_rule(arena, name, tried, effort.pool)
                rules[name] |= _written(arena.table, best)
                tried.append(best)
        rules["script"] = self.script(effort)
        return rules

    def script(self, effort: Effort) -> dict[str, str]:
        """Return the best script for the seats of each role."""
        return {role: _best_script(arena.table, effort) for role, arena in self._arenas.items()}

    def answers(self, rules: Rules) -> dict[str, np.ndarray]:
        """Return the stored best responses by role, (names of line-ups, size)."""
        return {
            role: np.array(
                [
                    arena.table.forms[role].weights(rules["informed"][role][name])
                    for name in arena.table.names
                ]
            )
            for role, arena in self._arenas.items()
        }

    def measure(
        self, rules: Rules, sizes: Sizes, script: Mapping[str, str] = _NOBODY
    ) -> dict[str, Figure]:
        """Return mean returns of the seat: ``low``, ``high``, those of the classes and policies.

        ``script`` is the policy of each role that is called ``best_script``, if there is one.
        """
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
        for name, policy in _policies(rules, script, self.reference).items():
            figures[name] = self._of_policy(policy, sizes.others)
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

    def measure(
        self, rules: Rules, sizes: Sizes, script: Mapping[str, str] = _NOBODY
    ) -> dict[str, Figure]:
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
