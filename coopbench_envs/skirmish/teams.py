"""Teams drawn for every episode: kinds of one race, with the weights of SMACv2.

Source: Ellis et al. 2023, SMACv2, with the settings published with it.
"""

from typing import NamedTuple

import numpy as np

from coopbench_envs.core import kernel, subroutine, uniform
from coopbench_envs.skirmish.scenario import Scenario, laid_out_in_square
from coopbench_envs.skirmish.units import bundled_units

__all__ = ["RACES", "SIZES", "Teams", "draw_teams", "drawn_scenario", "teams_of"]

RACES = ("protoss", "terran", "zerg")
SIZES = (3, 50)  # fewest and most units of a team; SMACv2 has teams of 5, 10, 11, 20 and 23
# Kinds of each race in the order of their types, and how often each is drawn.
_KINDS = {
    "protoss": {"STALKER": 0.45, "ZEALOT": 0.45, "COLOSSUS": 0.1},
    "terran": {"MARINE": 0.45, "MARAUDER": 0.45, "MEDIVAC": 0.1},
    "zerg": {"ZERGLING": 0.45, "BANELING": 0.1, "HYDRALISK": 0.45},
}
_NOT_ALONE = ("MEDIVAC", "BANELING")  # kinds that do not make a team alone
_SIDE, _LIMIT = 32, 200  # cells of open ground along a side, steps
_MIDDLES = (9.0, 16.0), (23.0, 16.0)  # of the teams at a fixed start
_TRIES = 64  # draws of a team; after these the last one is taken


class Teams(NamedTuple):
    """How the kinds of units are drawn."""

    is_drawn: bool  # otherwise the map says them
    share: np.ndarray  # (kinds,) float64, how often a kind or one before it is drawn; the last is 1
    is_alone: np.ndarray  # (kinds,) bool, a team may consist of this kind alone
    rate: float  # return of a won battle, 0 if rewards are not scaled


def teams_of(scenario: Scenario, *, race: str | None, rate: float) -> Teams:
    """Return how the teams of a map are drawn; ``race`` is None where they are not."""
    kinds = tuple(dict.fromkeys(kind.name for kind in scenario.kinds))
    weights = np.array([_KINDS[race][name] for name in kinds] if race else [1.0] * len(kinds))
    share = np.cumsum(weights)
    return Teams(
        is_drawn=race is not None,
        share=share / share[-1],
        is_alone=np.array([name not in _NOT_ALONE for name in kinds]),
        rate=rate,
    )


def drawn_scenario(race: str, num_allies: int, num_enemies: int) -> Scenario:
    """Return open ground with two teams of a race: all its kinds, before they are drawn.

    A team of a fixed start stands in a square in which every unit has room for the largest kind.
    """
    kinds = [bundled_units()[name] for name in _KINDS[race]]
    numbers = {kind: k for k, kind in enumerate(kinds)}
    # What agents may heal follows from the numbers of units that cannot: the healer comes first.
    allies, enemies = (
        [*reversed(kinds), *[kinds[0]] * (size - len(kinds))] for size in (num_allies, num_enemies)
    )
    largest = max(kinds, key=lambda kind: kind.radius)
    places = [
        place
        for middle, team, is_ally in zip(_MIDDLES, (allies, enemies), (True, False), strict=True)
        for place in laid_out_in_square(*middle, [largest] * len(team), is_ally=is_ally)
    ]
    shields = race == "protoss"
    return Scenario(
        name=f"{race}_{num_allies}_vs_{num_enemies}",
        kinds=(*allies, *enemies),
        num_allies=num_allies,
        positions=np.array(places, np.float32),
        order=np.arange(num_allies + num_enemies),
        attack_point=_MIDDLES[0],
        terrain=np.ones((_SIDE, _SIDE), np.bool_),
        heights=None,
        shields=(shields, shields),
        type_bits=len(kinds),
        type_ids=np.array([numbers[kind] for kind in (*allies, *enemies)]),
        limit=_LIMIT,
    )


@subroutine
def draw_teams(t, c, s, i, rng):
    """Write the kinds of the units of lane ``i``: drawn, or as the map says.

    The first enemies are of the same kinds as the agents of the same numbers; further ones are
    drawn as another team.
    """
    n, m = c.num_agents, c.num_enemies
    for u in range(n + m):
        s.kind[i, u] = c.kind[u]
    if t.is_drawn:
        _draw(t, s, i, rng, 0, n, min(n, m))
        for k in range(min(n, m)):
            s.kind[i, n + k] = s.kind[i, k]
        if m > n:
            _draw(t, s, i, rng, n + n, n + m, m - n)


@kernel
def _draw(t, s, i, rng, begin, end, few):
    """Draw the kinds of units ``begin`` to ``end``, of which the first ``few`` make a team, too."""
    for _ in range(_TRIES):
        stands = False
        for u in range(begin, end):
            number = uniform(rng, i)
            kind = 0
            while kind < t.share.shape[0] - 1 and number >= t.share[kind]:
                kind += 1
            s.kind[i, u] = kind
            if u < begin + few and t.is_alone[kind]:
                stands = True
        if stands:
            break
