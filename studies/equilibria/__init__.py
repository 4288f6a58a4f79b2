"""Reference values of the published games: best play of whole episodes, and exploitability.

All play the environment. One step alone is ``coopbench.theory``. Definitions and results:
docs/games.md.
"""

from studies.equilibria.best_play import BestConstant, OpenLoop, best_constant, best_open_loop
from studies.equilibria.exploitability import Exploitability, Search, exploitability

__all__ = [
    "BestConstant",
    "Exploitability",
    "OpenLoop",
    "Search",
    "best_constant",
    "best_open_loop",
    "exploitability",
]
