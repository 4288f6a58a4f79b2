"""The best script of a game's certificate: what a trained policy must beat with partners.

It is the strategy, with its parameters, that earns most with the partners of the training, for
each role.
"""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.registry import make_policy
from coopbench.baselines.strategies.certified import certificate_entry
from coopbench_envs.roles import members_of_roles


class Params(NamedTuple):
    """No parameters."""


class BestScript:
    """Plays in each seat the strategy that the certificate names for its role."""

    def __init__(self, game: Game, parameters: Params) -> None:
        names = certificate_entry("best_script", game, "best_script")
        members = members_of_roles(game.agents)
        self._seats = [(make_policy(names[role], game), seats) for role, seats in members.items()]

    def initial(self, game: Game, seeds: np.ndarray) -> tuple[Any, ...]:
        """Return the memory of each role's strategy."""
        return tuple(policy.initial(game, seeds) for policy, _ in self._seats)

    def act(self, observations: np.ndarray, memory: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Let each strategy act in the seats of its role."""
        actions, memories = None, []
        for (policy, seats), recalled in zip(self._seats, memory, strict=True):
            played, after = policy.act(observations, recalled)
            actions = np.zeros_like(played) if actions is None else actions
            actions[:, seats] = np.asarray(played)[:, seats]
            memories.append(after)
        return actions, tuple(memories)


ENTRY = Entry(
    "best_script", BestScript, "plays the certificate's best simple strategy", "local", Params
)
