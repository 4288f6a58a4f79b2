"""Matches: players in the seats of an engine, from the reset to the end of every episode.

``Match`` is the one loop in which policies play. Iterate over ``steps`` to inspect every step;
call ``play`` for the result alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from coopbench_envs.engine import DISABLED
from coopbench_envs.lanes import Lanes

__all__ = [
    "OWN",
    "Actor",
    "Match",
    "Partner",
    "Script",
    "SideBySide",
    "seating",
    "seating_by_role",
]

OWN = -1  # in a seating: the first player, whose policy is evaluated


class Actor(Protocol):
    """What can sit in a match: a ``Player``, or anything that acts like one."""

    def begin(
        self, seeds: np.ndarray, episodes: np.ndarray, chosen: np.ndarray, stream: int = 0
    ) -> None:
        """Start the episodes of the ``chosen`` lanes; see ``Player.begin``."""

    def act(
        self,
        observations: np.ndarray,
        state: Any = None,
        masks: np.ndarray | None = None,
        seated: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return actions for every seat of every lane; see ``Player.act``."""


class Script:
    """An actor whose actions depend on nothing but the number of the step."""

    def __init__(self, actions: Callable[[int], np.ndarray]) -> None:
        self._actions, self._step = actions, 0

    def begin(
        self, seeds: np.ndarray, episodes: np.ndarray, chosen: np.ndarray, stream: int = 0
    ) -> None:
        """Start from step 0 again."""
        self._step = 0

    def act(
        self,
        observations: np.ndarray,
        state: Any = None,
        masks: np.ndarray | None = None,
        seated: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the actions of this step, in the units of the action space."""
        self._step += 1
        return self._actions(self._step - 1)


class SideBySide:
    """Several actors as one: each has an equal share of the lanes, in their order.

    An actor sees its own lanes alone, as in a match without the others. None of them is given the
    state.
    """

    def __init__(self, actors: Sequence[Actor]) -> None:
        self._actors = tuple(actors)

    def begin(
        self, seeds: np.ndarray, episodes: np.ndarray, chosen: np.ndarray, stream: int = 0
    ) -> None:
        """Start the episodes of the ``chosen`` lanes."""
        for actor, lanes in self._shares(len(seeds)):
            actor.begin(seeds[lanes], episodes[lanes], chosen[lanes], stream)

    def act(
        self,
        observations: np.ndarray,
        state: Any = None,
        masks: np.ndarray | None = None,
        seated: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return what every actor does in its lanes, as one array."""
        return np.concatenate(
            [
                actor.act(
                    observations[lanes],
                    None,
                    None if masks is None else masks[lanes],
                    None if seated is None else seated[lanes],
                )
                for actor, lanes in self._shares(len(observations))
            ]
        )

    def _shares(self, lanes: int) -> Iterator[tuple[Actor, slice]]:
        share = lanes // len(self._actors)
        for number, actor in enumerate(self._actors):
            yield actor, slice(number * share, (number + 1) * share)


class Partner(NamedTuple):
    """A player in some seats of an engine, and the lanes in which it acts.

    In a match these are the lanes in which it sits if what it does in a lane depends on that lane
    alone.
    """

    player: Actor
    lanes: np.ndarray | slice
    seated: np.ndarray  # (its lanes, agents) bool

    @classmethod
    def of(cls, player: Actor, seated: np.ndarray) -> "Partner":
        """Return a player in its seats, (lanes, agents) bool."""
        occupied = seated.any(axis=1)
        if occupied.all() or not getattr(player, "separable", False):
            return cls(player, slice(None), seated)
        return cls(player, np.flatnonzero(occupied), seated[occupied])

    def begin(self, seeds: np.ndarray, episodes: np.ndarray, stream: int) -> None:
        """Start the episodes of its lanes."""
        if len(self.seated):
            everywhere = np.ones(len(self.seated), np.bool_)
            self.player.begin(seeds[self.lanes], episodes[self.lanes], everywhere, stream)

    def act(self, actions: np.ndarray, observations: Any, state: Any, masks: np.ndarray) -> None:
        """Write what it does over the ``actions`` of its seats, if it has any."""
        rows, seats = np.nonzero(self.seated)
        if len(rows):
            seen, legal = observations[self.lanes], masks[self.lanes]
            chosen = self.player.act(seen, state, legal, self.seated)
            lanes = rows if isinstance(self.lanes, slice) else self.lanes[rows]
            actions[lanes, seats] = chosen[rows, seats]


class Match:
    """Players on an engine, every lane one episode.

    ``seats`` (lanes, agents) are as ``seating`` returns them; without, the first player has all
    seats. ``begin`` starts the episodes and ``steps`` plays them; both can be repeated.
    """

    def __init__(
        self, engine: Lanes, players: Sequence[Actor], seats: np.ndarray | None = None
    ) -> None:
        self.engine, self.players = engine, tuple(players)
        self.seats = seating(engine.lanes, len(engine.agents), 0) if seats is None else seats
        self._own = self.seats == OWN
        self._partners = [
            Partner.of(player, self.seats == number) for number, player in enumerate(players[1:])
        ]

    def begin(self, seeds: ArrayLike, state: Mapping[str, Any] | None = None) -> None:
        """Reset the engine with one seed per lane, and start every player's episodes.

        Fields in ``state`` override the seeded state, as in ``Engine.reset``.
        """
        self.engine.reset(np.asarray(seeds), state=state)
        control, everywhere = self.engine.control, np.ones(self.engine.lanes, np.bool_)
        self.players[0].begin(control.seed, control.episode, everywhere)
        for stream, partner in enumerate(self._partners, 1):
            partner.begin(control.seed, control.episode, stream)

    def actions(self) -> np.ndarray:
        """Return the next actions of all seats: every player acts, and its own seats count."""
        control, view = self.engine.control, self.engine.view()
        actions = self.players[0].act(control.obs, view, control.masks, self._own)
        for partner in self._partners:
            partner.act(actions, control.obs, view, control.masks)
        return actions

    def steps(self) -> Iterator[np.ndarray]:
        """Play until every episode is over; yield the actions after each step.

        Lanes whose episodes are over rest. The engine holds what came of the step.
        """
        while not self.engine.control.done.all():
            actions = self.actions()
            self.engine.step(actions, DISABLED)
            yield actions

    def play(self, seeds: ArrayLike, state: Mapping[str, Any] | None = None) -> np.ndarray:
        """Play whole episodes; return the sums of rewards (lanes, agents).

        They are the engine's own array, which the next ``begin`` overwrites.
        """
        self.begin(seeds, state)
        for _ in self.steps():
            pass
        return self.engine.control.returns


def seating(episodes: int, agents: int, partners: int) -> np.ndarray:
    """Say who sits where, (episodes, agents): -1 is the policy, p >= 0 the p-th partner.

    Without partners the policy sits everywhere. With P partners it sits in seat k mod n of episode
    k, and the j-th of the other seats (in index order, from 0) is taken by partner
    (floor(k / n) + j) mod P. So the policy visits all n seats in turn, then the partners move on by
    one, and after n * P episodes every partner has sat in every place equally often.
    """
    return seating_by_role(episodes, ("",) * agents, {"": partners} if partners else {})


def seating_by_role(episodes: int, roles: Sequence[str], partners: Mapping[str, int]) -> np.ndarray:
    """Say who sits where if every role has partners of its own; see ``seating``.

    ``roles`` are those of the seats, and ``partners`` the number of partners of each role; partners
    are numbered role after role. The policy visits all n seats in turn. In episode k the j-th of
    the other seats of a role with P partners is taken by its partner (floor(k / n) + j) mod P.
    """
    agents = len(roles)
    episode, seat = np.arange(episodes)[:, None], np.arange(agents)[None, :]
    seats, first = np.full((episodes, agents), OWN), 0
    for role, count in partners.items():
        others = np.array([name == role for name in roles]) & (seat != episode % agents)
        place = others.cumsum(axis=1) - 1  # among the other seats of the role
        seats = np.where(others, first + (episode // agents + place) % count, seats)
        first += count
    return seats
