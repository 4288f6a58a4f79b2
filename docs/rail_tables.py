"""Tables of docs/environments/rail_networks.md, from what ``studies/rail`` has stored."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

from studies.rail import maps


def parts() -> dict[str, str]:
    """Return every generated part of the page."""
    return {"maps": maps.table(maps.rows_of(maps.OURS))}
