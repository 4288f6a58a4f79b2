"""Arenas: many rules at once in seats of a game, with partners in the other seats, as tables say.

The lanes of one engine stand in blocks. Each block is one line-up of partners and one candidate:
weights of a rule for every seat that rules play.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import OWN
from coopbench.baselines.player import Player
from coopbench.baselines.rules.rules import Form
from coopbench.protocol.task import Task
from coopbench_envs.engine import DISABLED, Engine
from coopbench_envs.roles import members_of_roles, role_of

Weights = dict[str, np.ndarray]  # by role: (size,) of one rule, or (blocks, size)

STRIDE = 5_000  # between the first seeds of line-ups
_LANES = 8192  # of one engine: more would not fit into fast memory


@dataclass(frozen=True)
class Table:
    """Who sits where in a game: line-ups (line-ups, agents) of partners, ``OWN`` for rules.

    Rules sit in as many seats of the same roles in all line-ups. Line-ups of one name differ
    in the rule's seat alone and stand together, as many for each name. With ``all_informed`` rules
    observe the regime, also where their agent does not.
    """

    env_id: str
    parameters: Mapping[str, Any]
    partners: tuple[str, ...]
    lineups: np.ndarray
    all_informed: bool = False
    watched: np.ndarray | None = None  # as ``seats``, if not those that rules play
    episodes: int = 0  # line-ups after which the same episodes follow again; 0: all of them

    @cached_property
    def game(self) -> Game:
        """The game with its parameters."""
        return Game.at(self.env_id, **self.parameters)

    @cached_property
    def seats(self) -> np.ndarray:
        """Seats that rules play, (line-ups, rules)."""
        return np.array([np.flatnonzero(row == OWN) for row in self.lineups])

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """Role of each rule, the same in all line-ups."""
        return tuple(role_of(self.game.agents[seat]) for seat in self.seats[0])

    @cached_property
    def counted(self) -> np.ndarray:
        """Seats whose returns count, (line-ups, seats)."""
        return self.seats if self.watched is None else self.watched

    def seating(self, *policies: str | Mapping[str, str]) -> "Table":
        """Return the table with each of some policies in the seats of rules; it can differ by role.

        The line-ups stand there once for each policy, which all play the same episodes.
        """
        names, tables = list(self.partners), []
        for policy in policies:
            lineups = self.lineups.copy()
            for role in dict.fromkeys(self.roles):
                names.append(policy if isinstance(policy, str) else policy[role])
                alike = [role_of(agent) == role for agent in self.game.agents]
                lineups[(lineups == OWN) & alike] = len(names) - 1
            tables.append(lineups)
        return replace(
            self,
            partners=tuple(names),
            lineups=np.concatenate(tables),
            watched=np.tile(self.seats, (len(policies), 1)),
            episodes=len(self.lineups),
        )

    @cached_property
    def forms(self) -> dict[str, Form]:
        """Form of the rules of each role that rules play; seats of one role are alike."""
        seats = dict(zip(reversed(self.roles), reversed(self.seats[0].tolist()), strict=True))
        return {role: Form(self.game, seats[role]) for role in dict.fromkeys(self.roles)}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the line-ups, each once: the partners in the order of the seats."""
        rows = [row[row != OWN] for row in self.lineups]
        named = [" + ".join(self.partners[number] for number in row) for row in rows]
        return tuple(dict.fromkeys(named))

    @property
    def alike(self) -> int:
        """Number of line-ups with the same name."""
        return len(self.lineups) // len(self.names)


@dataclass(frozen=True)
class BlockResults:
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
    ) -> BlockResults:
        """Play ``episodes`` in every block.

        ``weights`` has (blocks, size) for each role that rules play, and ``lineups`` (blocks,)
        says which line-up sits in a block. Blocks with the same line-up play the same episodes:
        line-up k those seeded from ``seed + k * STRIDE``, with k modulo ``table.episodes``.
        """
        at_once = max(1, _LANES // episodes)
        parts = []
        for first in range(0, len(lineups), at_once):
            chosen = slice(first, first + at_once)
            some = {role: rows[chosen] for role, rows in weights.items()}
            parts.append(self._played(some, lineups[chosen], episodes, seed))
        return BlockResults(
            np.concatenate([part.returns for part in parts]),
            np.concatenate([part.invested for part in parts]),
        )

    def _played(
        self, weights: Mapping[str, np.ndarray], lineups: np.ndarray, episodes: int, seed: int
    ) -> BlockResults:
        """Play blocks that fit into one engine."""
        engine = self.engine(len(lineups) * episodes)
        different = lineups % (self.table.episodes or len(self.table.lineups))
        offsets = different[:, None] * STRIDE + np.arange(episodes)
        engine.reset((seed + offsets).ravel().astype(np.uint64))
        seated = np.repeat(self.table.lineups[lineups], episodes, axis=0)
        where = np.repeat(lineups, episodes)
        partners = Partners(engine, self.table, seated)
        rules = Rules(engine, self.table, weights, where)
        lanes, seats = np.arange(engine.lanes)[:, None], self.table.counted[where]
        invested = np.zeros(engine.lanes)
        while not engine.control.done.all():
            actions = np.zeros(engine.actions.shape)
            partners.act(actions)
            rules.act(actions)
            engine.step(actions, DISABLED)
            invested += engine.state.fraction[lanes, seats].mean(axis=1)
        returns = engine.control.returns[lanes, seats].mean(axis=1)
        shape = (len(lineups), episodes)
        share = invested.reshape(shape).mean(axis=1) / engine.horizon
        return BlockResults(returns.reshape(shape).copy(), share)


class Rules:
    """Rules in the seats of a table's engine; ``lineups`` (lanes,) says who sits in each lane."""

    def __init__(
        self,
        engine: Engine,
        table: Table,
        weights: Mapping[str, np.ndarray],
        lineups: np.ndarray,
    ) -> None:
        self._engine, self._table = engine, table
        self._lanes = np.arange(engine.lanes)
        self._seats = [
            (table.seats[lineups, k], table.forms[role], weights[role])
            for k, role in enumerate(table.roles)
        ]
        self._memories = [form.initial(engine.lanes, rows) for _, form, rows in self._seats]

    def act(self, actions: np.ndarray) -> None:
        """Write the actions of the rules' seats into ``actions`` (lanes, agents, parts)."""
        for k, (seats, form, weights) in enumerate(self._seats):
            seen = observed(self._engine, self._table, seats)
            played, self._memories[k] = form.act(weights, seen, self._memories[k])
            actions[self._lanes, seats] = played


def observed(engine: Engine, table: Table, seats: np.ndarray) -> np.ndarray:
    """Return what a rule in one seat of each lane, (lanes,), observes: (lanes, features)."""
    lanes, layout = np.arange(engine.lanes), table.game.layout
    observations: np.ndarray = engine.control.obs[lanes, seats]
    if not table.all_informed or "informed" not in layout:
        return observations
    shown = engine.state.productivity / (1.0 + engine.state.productivity)
    observations[:, layout["productivity"].start] = shown
    observations[:, layout["informed"].start] = 1.0
    return observations


class Partners:
    """Policies in the other seats.

    A policy acts for all seats of a game at once, so the seats in which it sits, in all lanes, are
    gathered into full games, each in its own place: what it plays there can depend on that.
    """

    def __init__(self, engine: Engine, table: Table, seated: np.ndarray) -> None:
        self._engine = engine
        self._groups = [
            _Group(engine, table, seated, number)
            for number in range(len(table.partners))
            if (seated == number).any()
        ]

    def act(self, actions: np.ndarray) -> None:
        """Write the actions of the partners' seats into ``actions`` (lanes, agents, parts)."""
        observations = self._engine.control.obs
        for group in self._groups:
            group.act(observations, actions)


class _Group:
    """One policy in all seats in which it sits."""

    def __init__(self, engine: Engine, table: Table, seated: np.ndarray, number: int) -> None:
        agents = len(engine.agents)
        lanes = [np.flatnonzero(seated[:, seat] == number) for seat in range(agents)]
        longest = max(lanes, key=len)
        # Games that lack a seat repeat what is played elsewhere; nothing uses what it plays there.
        filled = [some if len(some) else longest for some in lanes]
        self._sources = np.stack([np.resize(some, len(longest)) for some in filled], axis=1)
        self._places = np.arange(agents)
        used = np.stack([np.arange(len(longest)) < len(some) for some in lanes], axis=1)
        self._games, self._seats = np.nonzero(used)
        self._player = Player(table.partners[number], table.game)
        seeds, episodes = engine.control.seed[longest], engine.control.episode[longest]
        self._player.begin(seeds, episodes, np.ones(len(longest), np.bool_), 1 + number)

    def act(self, observations: np.ndarray, actions: np.ndarray) -> None:
        """Act in the group's seats."""
        played = self._player.act(observations[self._sources, self._places])
        lanes = self._sources[self._games, self._seats]
        actions[lanes, self._seats] = played[self._games, self._seats]


def self_play_table(
    env_id: str, parameters: dict[str, Any], *, all_informed: bool = False
) -> Table:
    """Return the table in which rules sit in all seats."""
    everywhere = np.full((1, len(Game.at(env_id, **parameters).agents)), OWN)
    return Table(env_id, parameters, (), everywhere, all_informed)


def opponent_tables(
    env_id: str, parameters: dict[str, Any], policies: dict[str, str]
) -> dict[str, Table]:
    """Return for each role the table in which one seat plays a rule, all others a policy.

    ``policies`` names the policy of each role.
    """
    agents = Game.at(env_id, **parameters).agents
    members, names = members_of_roles(agents), list(policies)
    tables = {}
    for role, seats in members.items():
        lineup = np.full((1, len(agents)), OWN)
        for other, places in members.items():
            lineup[0, places] = names.index(other)
        lineup[0, seats[0]] = OWN
        tables[role] = Table(env_id, parameters, tuple(policies.values()), lineup)
    return tables


def focal_tables(task: Task) -> dict[str, Table]:
    """Return for each role the table of the line-ups that its seats meet in a task.

    All seats of a role meet the same partners in the order of the other seats: line-ups with the
    same names differ in the seat alone. Partners with a network for each seat play differently.
    """
    agents = Game.at(task.env, **task.parameters).agents
    cycle = math.lcm(*(len(names) for names in task.pools.values()))
    seats, tables = task.seating(cycle * len(agents), agents), {}
    for role, members in members_of_roles(agents).items():
        lineups = []
        for seat in members:
            rows = seats[seat :: len(agents)]
            _, first = np.unique(rows, axis=0, return_index=True)
            lineups.append(rows[np.sort(first)])
        # Seats of the same line-up stand together.
        together = np.stack(lineups, axis=1).reshape(-1, len(agents))
        tables[role] = Table(task.env, dict(task.parameters), task.partner_names, together)
    return tables
