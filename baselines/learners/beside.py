"""Partners beside a learner: fixed policies in all seats of its games but one."""

from collections.abc import Mapping, Sequence

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import OWN, Partner, seating
from coopbench.baselines.player import Player
from coopbench_envs.lanes import Lanes

__all__ = ["Beside"]


class Beside:
    """Plays partners in all lanes of an engine, in all seats but one.

    The lanes go through their line-ups in turn, one per episode: the e-th episode of the j-th of C
    lanes has line-up j + e * C of ``match.seating``, so that over all lanes the learner visits all
    seats and meets every partner in every place equally often; one lane may have few line-ups.
    Partners act on observations alone.
    """

    def __init__(self, engine: Lanes, partners: Sequence[str]) -> None:
        agents = len(engine.agents)
        if agents < 2:
            raise ValueError(
                f"partners were {list(partners)}; {engine.spec.id} has one agent here, allowed "
                f"with two or more."
            )
        self._engine, game = engine, Game.of(engine)
        self._lineups = seating(agents * len(partners), agents, len(partners))
        self._players = [Player(name, game) for name in partners]
        self._seats = np.full((engine.lanes, agents), OWN)

    @property
    def learning(self) -> np.ndarray:
        """Which seats the learner has, (lanes, agents) bool."""
        learning: np.ndarray = self._seats == OWN
        return learning

    def begin(self, chosen: np.ndarray) -> None:
        """Seat partners in the ``chosen`` lanes (lanes,), whose episodes have just begun."""
        self._seat()
        control = self._engine.control
        if not chosen.any():
            return
        for stream, player in enumerate(self._players):
            player.begin(control.seed, control.episode, chosen, stream)

    def act(self, actions: np.ndarray) -> None:
        """Write the partners' actions over those in ``actions`` (lanes, agents, ...)."""
        control, lanes = self._engine.control, slice(None)
        for number, player in enumerate(self._players):
            # A player acts in every step of its episodes, or in none.
            partner = Partner(player, lanes, self._seats == number)
            partner.act(actions, control.obs, None, control.masks)

    def _seat(self) -> None:
        """Seat everybody as the episodes of the lanes require."""
        lanes, episodes = self._engine.lanes, self._engine.control.episode
        numbers = (np.arange(lanes) + episodes * lanes) % len(self._lineups)
        self._seats[:] = self._lineups[numbers]

    def save(self) -> dict[str, np.ndarray]:
        """Return what the partners remember of the present episodes."""
        return {
            f"{number}{name}": array
            for number, player in enumerate(self._players)
            for name, array in player.save().items()
        }

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what ``save`` has returned, in an engine in its state of then."""
        self._seat()
        for number, player in enumerate(self._players):
            start = f"{number}."
            stored = {k[len(start) - 1 :]: v for k, v in arrays.items() if k.startswith(start)}
            player.load(stored)
