"""Tables of the pages docs/speed*.md, from what the scripts in ``benchmarks`` have stored."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import speed


def parts() -> dict[str, str]:
    """Return every generated part of the page."""
    return {name: str(table) for name, table in speed.stored().items()}
