"""Reference values of the published games: equilibria of a step, best play, exploitability.

Functions of one step use the formulas of the published model; those of whole episodes play the
environment. Definitions and results: docs/games.md.
"""

from studies.equilibria.best_play import BestConstant, OpenLoop, best_constant, best_open_loop
from studies.equilibria.exploitability import Exploitability, Search, exploitability
from studies.equilibria.stage import (
    StageProfile,
    coopetitive_equilibrium,
    efficiency,
    price_of_anarchy,
    social_optimum,
    stage_payoffs,
    static_nash,
    worst_nash,
)

__all__ = [
    "BestConstant",
    "Exploitability",
    "OpenLoop",
    "Search",
    "StageProfile",
    "best_constant",
    "best_open_loop",
    "coopetitive_equilibrium",
    "efficiency",
    "exploitability",
    "price_of_anarchy",
    "social_optimum",
    "stage_payoffs",
    "static_nash",
    "worst_nash",
]
