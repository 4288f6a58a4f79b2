"""Certificates of games: what they ask of their agents, read from the files of this package.

``studies/certificates`` and ``studies/battles`` make them and play them again. Definitions:
docs/games.md.
"""

from coopbench.certificates.games import Certificate as Certificate
from coopbench.certificates.games import Criterion as Criterion
from coopbench.certificates.games import Figure as Figure
from coopbench.certificates.games import load_certificate as load_certificate
from coopbench.certificates.games import read_certificate as read_certificate
