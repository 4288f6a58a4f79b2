"""Tables of docs/environments/rail.md, from what the scripts in ``benchmarks`` have stored."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import rail_maps


def parts() -> dict[str, str]:
    """Return every generated part of the page but its facts."""
    return {"maps": rail_maps.table(rail_maps.rows_of(rail_maps.OURS))}
