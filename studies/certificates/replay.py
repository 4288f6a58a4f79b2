"""Replay: the rules of a certificate and fixed policies play the episodes of its figures again.

A section is one task, or the repeated game that belongs to no task. Nothing that is measured
depends on how the rules were found.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from coopbench.baselines.rules.rules import RuleData
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.task import Task
from coopbench_envs.parameters import named
from coopbench_envs.roles import members_of_roles
from studies.certificates.arena import (
    Arena,
    Table,
    Weights,
    focal_tables,
    opponent_tables,
    self_play_table,
)
from studies.certificates.games import REPEATED, Certificate, Figure

# {class: {role: RuleData}}; of ``informed`` {role: {line-up: RuleData}}, of ``script`` {role: name}
Rules = Mapping[str, Any]
CLASSES = ("constant", "sequence", "public", "blind", "partner", "memory")
JUDGED = 1_000_000  # first seed of the episodes of figures; no protocol plays them
# An agent that does not know the regime cannot wait for others if its cooperation is unconditional.
_UNCONDITIONAL = {"cooperator": "cooperator:ignore=0,follow=0"}
OPPONENTS = ("cooperator", "always_defect", "reference")  # of the repeated game


@dataclass(frozen=True)
class Sizes:
    """Numbers of episodes of the figures."""

    bounds: int = 20_000
    others: int = 5_000
    bayesian: int = 6_000


def replayed(
    certificate: Certificate,
    tasks: Sequence[str] | None = None,
    sizes: Sizes | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, dict[str, Figure]]:
    """Play the figures of sections again, all or those named; return them by section and name.

    With the default ``sizes`` they are the stored ones. The figure ``bayesian``, of a player that
    knows the pool of partners, is not among them. ``tell`` is called with the name of each section
    before it begins. Raises ``ValueError`` for a section that the certificate does not have.
    """
    protocol, played = load_protocol(certificate.protocol), {}
    for name in certificate.rules if tasks is None else tasks:
        rules = named("section", name, certificate.rules)
        section: SelfPlay | Focal | RepeatedGame
        if name == REPEATED:
            section = RepeatedGame(certificate.env_id, {}, certificate.references)
        else:
            task = protocol.task_of(name)
            section = (Focal if task.pools else SelfPlay)(task, certificate.references)
        tell(name)
        played[name] = section.measure(rules, sizes or Sizes(), certificate.best_script)
    return played


def figure(returns: np.ndarray) -> Figure:
    """Return the mean of returns (line-ups, episodes); every line-up weighs the same."""
    lineups, episodes = returns.shape
    variance = returns.var(axis=1, ddof=1).sum() / episodes / lineups**2
    return Figure(float(returns.mean()), float(np.sqrt(variance)), returns.size)


def combined(parts: list[tuple[float, Figure]]) -> Figure:
    """Return the weighted sum of independent figures."""
    return Figure(
        sum(weight * part.value for weight, part in parts),
        float(np.sqrt(sum((weight * part.error) ** 2 for weight, part in parts))),
        sum(part.episodes for _, part in parts),
    )


def everywhere(weights: Weights, blocks: int) -> Weights:
    """Return the weights (blocks, size) of one rule per role in every block."""
    return {role: np.broadcast_to(row, (blocks, row.shape[-1])) for role, row in weights.items()}


def _read(table: Table, rules: Mapping[str, RuleData]) -> Weights:
    """Return the weights of rules by role."""
    return {role: form.weights(rules[role]) for role, form in table.forms.items()}


def _returns(arena: Arena, weights: Weights, episodes: int) -> np.ndarray:
    """Play weights (size,), or (names, size), with every line-up: (line-ups, episodes)."""
    table = arena.table
    rows = everywhere(weights, len(table.names))
    rows = {role: np.repeat(row, table.alike, axis=0) for role, row in rows.items()}
    lineups = np.arange(len(table.lineups))
    return arena.play(rows, lineups, -(-episodes // len(lineups)), JUDGED).returns


def policy_returns(table: Table, policy: str | Mapping[str, str], episodes: int) -> np.ndarray:
    """Play a policy in the seats of rules."""
    return _returns(Arena(table.seating(policy)), {}, episodes)


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
    def arena(self) -> Arena:
        """The task with rules in all seats."""
        return Arena(self_play_table(self.task.env, dict(self.task.parameters)))

    @cached_property
    def planner(self) -> Arena:
        """The same for a planner, whose agents all know the regime."""
        return Arena(self_play_table(self.task.env, dict(self.task.parameters), all_informed=True))

    def measure(self, rules: Rules, sizes: Sizes, script: Mapping[str, str]) -> dict[str, Figure]:
        """Return mean returns per seat: ``low``, ``high``, those of the classes and policies.

        ``script`` is the policy of each role that is called ``best_script``; {} if there is none.
        """
        table, planner = self.arena.table, self.planner
        figures = {
            "low": figure(policy_returns(table, "always_defect", sizes.bounds)),
            "high": figure(_returns(planner, _read(planner.table, rules["planner"]), sizes.bounds)),
        }
        for name in CLASSES:
            figures[name] = figure(_returns(self.arena, _read(table, rules[name]), sizes.others))
        for name, policy in _policies(rules, script, self.reference).items():
            if name != "always_defect":  # whose return is the lower bound
                figures[name] = figure(policy_returns(table, policy, sizes.others))
        return figures


@dataclass(frozen=True)
class Focal:
    """A task in which the rule plays one seat, in rotation, with partners."""

    task: Task
    reference: Mapping[str, str]  # policy of each role

    @cached_property
    def arenas(self) -> dict[str, Arena]:
        """The task with a rule in the seats of each role."""
        return {role: Arena(table) for role, table in focal_tables(self.task).items()}

    @cached_property
    def shares(self) -> dict[str, float]:
        """Part of the episodes in which a seat of the role is played."""
        agents = next(iter(self.arenas.values())).table.game.agents
        members = members_of_roles(agents)
        return {role: len(seats) / len(agents) for role, seats in members.items()}

    def answers(self, rules: Rules) -> dict[str, np.ndarray]:
        """Return the stored best responses by role, (names of line-ups, size)."""
        answers = {}
        for role, arena in self.arenas.items():
            form, stored = arena.table.forms[role], rules["informed"][role]
            answers[role] = np.array([form.weights(stored[name]) for name in arena.table.names])
        return answers

    def measure(self, rules: Rules, sizes: Sizes, script: Mapping[str, str]) -> dict[str, Figure]:
        """Return mean returns of the seat: ``low``, ``high``, those of the classes and policies.

        ``script`` is the policy of each role that is called ``best_script``; {} if there is none.
        """
        informed = self.answers(rules)

        def of(name: str, episodes: int) -> Figure:
            return self._mean(
                lambda arena, role, part: _returns(
                    arena, _read(arena.table, {role: rules[name][role]}), part
                ),
                episodes,
            )

        figures = {
            "low": of("blind", sizes.bounds),
            "high": self._mean(
                lambda arena, role, part: _returns(arena, {role: informed[role]}, part),
                sizes.bounds,
            ),
        }
        figures |= {name: of(name, sizes.others) for name in CLASSES if name != "blind"}
        if self.task.group == "shifted":
            table = self_play_table(self.task.env, dict(self.task.parameters))
            for name, alike in (("cooperators", "cooperator"), ("defectors", "always_defect")):
                figures[name] = figure(policy_returns(table, alike, sizes.others))
        for name, policy in _policies(rules, script, self.reference).items():
            figures[name] = self.policy(policy, sizes.others)
        return figures

    def policy(self, policy: str | Mapping[str, str], episodes: int) -> Figure:
        """Return the mean return of a policy, which can differ by role, in the rule's seats."""
        return self._mean(
            lambda arena, role, part: policy_returns(arena.table, policy, part), episodes
        )

    def part(self, role: str, episodes: int) -> int:
        """Return the episodes of a role, as many as its part of the seats."""
        return int(np.ceil(self.shares[role] * episodes))

    def _mean(self, play: Callable[..., np.ndarray], episodes: int) -> Figure:
        """Return the mean over seats of ``play(arena, role, part)``, (line-ups, episodes)."""
        parts = []
        for role, share in self.shares.items():
            returns = play(self.arenas[role], role, self.part(role, episodes))
            parts.append((share, figure(returns)))
        return combined(parts)


@dataclass(frozen=True)
class RepeatedGame:
    """A repeated dilemma: one seat of each role against one policy in all others."""

    env_id: str
    parameters: Mapping[str, Any]
    reference: Mapping[str, str]  # policy of each role

    def arenas(self, opponent: str) -> dict[str, Arena]:
        """Return the arena of each role against an opponent."""
        policies = dict(self.reference)
        if opponent != "reference":
            policies = dict.fromkeys(policies, _UNCONDITIONAL.get(opponent, opponent))
        tables = opponent_tables(self.env_id, dict(self.parameters), policies)
        return {role: Arena(table) for role, table in tables.items()}

    def _base(self, opponent: str) -> str | Mapping[str, str]:
        """Return the policy with which the best response to an opponent is compared."""
        if opponent == "reference":
            return self.reference
        return "cooperator" if opponent == "cooperator" else _UNCONDITIONAL["cooperator"]

    def measure(self, rules: Rules, sizes: Sizes, script: Mapping[str, str]) -> dict[str, Figure]:
        """Return gains, relative, of the best response to each opponent, by role.

        Against the cooperator over cooperating, against the defector over investing always, and
        against the reference over playing the same; and its investment over theirs. No ``script``
        takes part.
        """
        figures = {}
        for opponent in OPPONENTS:
            base = self._base(opponent)
            for role, arena in self.arenas(opponent).items():
                weights = everywhere(_read(arena.table, rules[opponent]), 1)
                lineup = np.zeros(1, np.int64)
                best = arena.play(weights, lineup, sizes.others, JUDGED)
                other = Arena(arena.table.seating(base)).play({}, lineup, sizes.others, JUDGED)
                gain, mean = figure(best.returns - other.returns), float(other.returns.mean())
                gained = Figure(gain.value / mean, gain.error / mean, gain.episodes)
                invested = float(best.invested[0] / other.invested[0])
                figures[f"{opponent}.{role}"] = gained
                figures[f"{opponent}.{role}.invests"] = Figure(invested, 0.0, sizes.others)
        return figures
