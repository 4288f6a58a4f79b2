"""The best fixed sequence of a game, from its certificate: it depends on the step alone.

A game in which it wins does not test how agents respond to each other. In a battle it is the best
plan: an order of preference over the choices, of which the first legal one is played.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.certified import certificate_entry, certified_battles
from coopbench.baselines.strategies.investments import Fractions
from coopbench.baselines.strategies.plans import BattlePlan, plan_of
from coopbench_envs.parameters import between
from coopbench_envs.roles import role_of


class Params(NamedTuple):
    """What stands after the colon: ``open_loop:0``."""

    masks: Annotated[
        int, between(0, 1, "battles: 1 plays the best plan with the mask, 0 the best without")
    ] = 1


class OpenLoop:
    """Invests the certificate's fraction of each step and role; after the last step, the last."""

    def __init__(self, game: Game, parameters: Params) -> None:
        self._fractions = Fractions(game, "open_loop")
        table = certificate_entry("open_loop", game, "open_loop")
        self._sequence = np.array([table[role_of(agent)] for agent in game.agents]).T

    def initial(self, game: Game, seeds: np.ndarray) -> np.ndarray:
        """Return the steps played: none."""
        return np.zeros(len(seeds), np.int64)

    def act(self, observations: np.ndarray, memory: np.ndarray) -> tuple[Any, np.ndarray]:
        """Look up the step's fraction."""
        played = self._sequence[np.minimum(memory, len(self._sequence) - 1)]
        return self._fractions.units(played), memory + 1


_USUAL = {
    "map_file": None,
    "teams": "published",
    "side": "allies",
}  # of a certificate that does not say otherwise


def create(game: Game, parameters: Params) -> OpenLoop | BattlePlan:
    """Make the policy for a game, or for a battle that has a certificate.

    Shifted starts meet the plan that was found on drawn ones. Raises ``ValueError`` if there is no
    certificate.
    """
    battles = certified_battles(game.env_id)
    if not battles:
        return OpenLoop(game, parameters)
    values = game.parameters._asdict()
    if values.get("start") == "shifted":
        values["start"] = "drawn"
    for content in battles.values():
        wanted = {**_USUAL, **content["parameters"]}
        if all(values.get(name, value) == value for name, value in wanted.items()):
            choices = int(game.action_space.n)
            masks = parameters.masks == 1
            return BattlePlan(plan_of(content, masks=masks, choices=choices), masks=masks)
    raise ValueError(
        f"Policy 'open_loop' cannot play this battle of {game.env_id}: it has no certificate; "
        f"there are those of {', '.join(battles)}."
    )


ENTRY = Entry("open_loop", create, "plays the certificate's best fixed sequence", "none", Params)
