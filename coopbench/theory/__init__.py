"""Theory of the coopetition games: equilibria, best play, exploitability, certificates.

Two kinds of functions: those of version 0 games use the formulas of the published model, all others
play the real environment. Definitions and results: docs/games.md.
"""

from coopbench.theory.best_play import BestConstant, OpenLoop, best_constant, best_open_loop
from coopbench.theory.certificates import (
    Certificate,
    certify,
    load_certificate,
    read_certificate,
)
from coopbench.theory.criteria import Criterion
from coopbench.theory.exploitability import Exploitability, Search, exploitability
from coopbench.theory.figures import Figure
from coopbench.theory.published_stage import (
    StageProfile,
    coopetitive_equilibrium,
    efficiency,
    price_of_anarchy,
    social_optimum,
    stage_payoffs,
    static_nash,
)
from coopbench.theory.sections import Sizes

__all__ = [
    "BestConstant",
    "Certificate",
    "Criterion",
    "Exploitability",
    "Figure",
    "OpenLoop",
    "Search",
    "Sizes",
]
__all__ += ["StageProfile", "best_constant", "best_open_loop", "certify", "coopetitive_equilibrium"]
__all__ += ["efficiency", "exploitability", "load_certificate", "price_of_anarchy"]
__all__ += ["read_certificate", "social_optimum", "stage_payoffs", "static_nash"]
