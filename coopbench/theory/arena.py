"""Arenas: many rules at once in the seats of a game, beside partners who sit in the others.

The lanes of one engine stand in blocks. Each block is one line-up of partners and one candidate:
weights of a rule for every seat that rules play.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import OWN
from coopbench.baselines.player import Player
from coopbench.baselines.rules.rules import Form
from coopbench_envs.engine import DISABLED, Engine
from coopbench_envs.roles import members_of_roles, role_of

__all__ = ["STRIDE", "Arena", "Partners", "Played", "Rules", "Table"]

STRIDE = 10_000  # between the first seeds of line-ups
_LANES = 8192  # of one engine: more would not fit into fast memory


@dataclass(frozen=True)
class Table:
    """Who sits where in a game: line-ups (line-ups, agents) of partners, ``OWN`` for rules.

    Rules sit in the same seats in all line-ups. With ``all_informed`` they observe the times, also
    where their agent does not.
    """

    env_id: str
    parameters: Mapping[str, Any]
    partners: tuple[str, ...]
    lineups: np.ndarray
    all_informed: bool = False
    watched: tuple[int, ...] = ()  # seats whose returns count; none: those that rules play

    @cached_property
    def game(self) -> Game:
        """The game with its parameters."""
        return Game.at(self.env_id, **self.parameters)

    @cached_property
    def seats(self) -> tuple[int, ...]:
        """Seats that rules play."""
        return tuple(np.flatnonzero(self.lineups[0] == OWN).tolist())

    @cached_property
    def counted(self) -> tuple[int, ...]:
        """Seats whose returns count."""
        return self.watched or self.seats

    def seating(self, policy: str | Mapping[str, str]) -> "Table":
        """Return the table with a policy in the seats of rules; it can be one for each role."""
        names, lineups = list(self.partners), self.lineups.copy()
        for seat in self.seats:
            role = role_of(self.game.agents[seat])
            names.append(policy if isinstance(policy, str) else policy[role])
            lineups[:, seat] = len(names) - 1
        return replace(self, partners=tuple(names), lineups=lineups, watched=self.seats)

    @cached_property
    def forms(self) -> dict[str, Form]:
        """Form of the rules of each role that rules play, from its first seat."""
        forms: dict[str, Form] = {}
        for seat in self.seats:
            role = role_of(self.game.agents[seat])
            if role not in forms:
                forms[role] = Form(self.game, seat)
        return forms


@dataclass(frozen=True)
class Played:
    """What came of blocks of episodes."""

    returns: np.ndarray  # (blocks, episodes) mean return of the seats that count
    invested: np.ndarray  # (blocks,) mean investment of these seats, share of endowment


@dataclass
class Arena:
    """Plays blocks of a table; engines are kept for the next call."""

    table: Table
    _engines: dict[int, Engine] = field(default_factory=dict)

    def engine(self, lanes: int) -> Engine:
        """Return an engine with so many lanes."""
        if lanes not in self._engines:
            self._engines[lanes] = Engine(self.table.env_id, lanes, **self.table.parameters)
        return self._engines[lanes]

    def play(
        self, weights: Mapping[str, np.ndarray], lineups: np.ndarray, episodes: int, seed: int
    ) -> Played:
        """Play ``episodes`` in every block.

        ``weights`` has (blocks, size) for each role that rules play, and ``lineups`` (blocks,)
        says which line-up sits in a block. Blocks with the same line-up play the same episodes:
        line-up k those seeded from ``seed + k * STRIDE``.
        """
        at_once = max(1, _LANES // episodes)
        parts = []
        for first in range(0, len(lineups), at_once):
            chosen = slice(first, first + at_once)
            some = {role: rows[chosen] for role, rows in weights.items()}
            parts.append(self._played(some, lineups[chosen], episodes, seed))
        return Played(
            np.concatenate([part.returns for part in parts]),
            np.concatenate([part.invested for part in parts]),
        )

    def _played(
        self, weights: Mapping[str, np.ndarray], lineups: np.ndarray, episodes: int, seed: int
    ) -> Played:
        """Play blocks that fit into one engine."""
        engine = self.engine(len(lineups) * episodes)
        offsets = lineups[:, None] * STRIDE + np.arange(episodes)
        engine.reset((seed + offsets).ravel().astype(np.uint64))
        seated = np.repeat(self.table.lineups[lineups], episodes, axis=0)
        partners = Partners(engine, self.table, seated)
        rules = Rules(engine, self.table, weights)
        seats, invested = list(self.table.counted), np.zeros(engine.lanes)
        while not engine.control.done.all():
            actions = np.zeros(engine.actions.shape)
            partners.act(actions)
            rules.act(actions)
            engine.step(actions, DISABLED)
            invested += engine.state.fraction[:, seats].mean(axis=1)
        returns = engine.control.returns[:, seats].mean(axis=1)
        shape = (len(lineups), episodes)
        share = invested.reshape(shape).mean(axis=1) / engine.horizon
        return Played(returns.reshape(shape).copy(), share)


class Rules:
    """Rules in the seats of a table's engine."""

    def __init__(self, engine: Engine, table: Table, weights: Mapping[str, np.ndarray]) -> None:
        self._engine, self._all_informed = engine, table.all_informed
        self._layout = table.game.layout
        roles = [role_of(table.game.agents[seat]) for seat in table.seats]
        self._seats = [
            (seat, table.forms[role], weights[role])
            for seat, role in zip(table.seats, roles, strict=True)
        ]
        self._memories = [form.initial(engine.lanes, rows) for _, form, rows in self._seats]

    def act(self, actions: np.ndarray) -> None:
        """Write the actions of the rules' seats into ``actions`` (lanes, agents, parts)."""
        for k, (seat, form, weights) in enumerate(self._seats):
            observed = self.observed(seat)
            actions[:, seat], self._memories[k] = form.act(weights, observed, self._memories[k])

    def observed(self, seat: int) -> np.ndarray:
        """Return what the rule of a seat observes, (lanes, features)."""
        observations: np.ndarray = self._engine.control.obs[:, seat]
        if not self._all_informed or "informed" not in self._layout:
            return observations
        observations, state = observations.copy(), self._engine.state
        times = state.productivity / (1.0 + state.productivity)
        observations[:, self._layout["productivity"].start] = times
        observations[:, self._layout["informed"].start] = 1.0
        return observations


class Partners:
    """Policies in the other seats.

    A policy acts for all seats of a game at once, so the seats of one role in which it sits, in
    whatever lanes, are gathered into full games: seats of a role observe alike.
    """

    def __init__(self, engine: Engine, table: Table, seated: np.ndarray) -> None:
        self._engine = engine
        self._groups = [
            _Group(engine, table, seated, number, members)
            for number in range(len(table.partners))
            for members in members_of_roles(table.game.agents).values()
            if (seated[:, members] == number).any()
        ]

    def act(self, actions: np.ndarray) -> None:
        """Write the actions of the partners' seats into ``actions`` (lanes, agents, parts)."""
        observations = self._engine.control.obs
        for group in self._groups:
            group.act(observations, actions)


class _Group:
    """One policy in all seats of one role in which it sits."""

    def __init__(
        self, engine: Engine, table: Table, seated: np.ndarray, number: int, members: list[int]
    ) -> None:
        lanes, places = np.nonzero(seated[:, members] == number)
        games = -(-len(lanes) // len(members))
        self._members = np.array(members)
        self._rows = lanes * len(engine.agents) + self._members[places]
        # Seats that are left over in the last game observe what the last one does.
        self._sources = np.resize(self._rows, (games, len(members)))
        self._sources.reshape(-1)[len(lanes) :] = self._rows[-1]
        self._player = Player(table.partners[number], table.game)
        first = lanes[:: len(members)]
        # Seats of other roles keep their first observations: nothing uses what is played there.
        self._observations = engine.control.obs[first]
        seeds, episodes = engine.control.seed[first], engine.control.episode[first]
        self._player.begin(seeds, episodes, np.ones(games, np.bool_), 1 + number)

    def act(self, observations: np.ndarray, actions: np.ndarray) -> None:
        """Act in the group's seats."""
        seen = observations.reshape(-1, observations.shape[2])
        self._observations[:, self._members] = seen.take(self._sources, axis=0)
        played = self._player.act(self._observations)[:, self._members]
        parts = actions.shape[2]
        actions.reshape(-1, parts)[self._rows] = played.reshape(-1, parts)[: len(self._rows)]
