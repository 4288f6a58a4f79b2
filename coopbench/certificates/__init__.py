"""Certificates of games: what they ask of their agents, read and played again.

``studies/certificates`` and ``studies/battles`` make them. Definitions: docs/games.md.
"""

from coopbench.certificates.games import (
    Certificate,
    Criterion,
    Figure,
    load_certificate,
    read_certificate,
)
from coopbench.certificates.replay import Sizes, replayed

__all__ = ["Certificate", "Criterion", "Figure", "Sizes", "load_certificate", "read_certificate"]
__all__ += ["replayed"]
