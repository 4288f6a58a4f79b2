"""The heuristic of SMAC as its paper reports it: orders to attack are given from any distance.

Evaluations play its battles with ``free_orders``, which no other policy and no learner has.
"""

from coopbench.baselines.commanders.smac_heuristic import Params, SmacHeuristic
from coopbench.baselines.policy import Entry, Game


def create(game: Game, parameters: Params) -> SmacHeuristic:
    """Make the heuristic for a battle in which such orders are legal.

    Raises ``ValueError`` for any other game.
    """
    if not getattr(game.parameters, "free_orders", False):
        raise ValueError(
            f"Policy 'smac_heuristic_free' cannot play {game.env_id} as it is: it orders attacks "
            f"from any distance, which is legal in battles with free_orders=True alone. "
            f"'smac_heuristic' plays battles without it."
        )
    return SmacHeuristic(game, parameters)


ENTRY = Entry(
    *("smac_heuristic_free", create),
    "battles with `free_orders`: SMAC's heuristic as its paper reports it",
    *("global", Params),
    granted={"free_orders": True},
)
