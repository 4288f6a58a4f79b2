"""Draw the picture of README.md's first table: run its example, and take the report's plot.

``python docs/first_table.py`` writes ``docs/first-table.svg``.
"""

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PICTURE = DOCS / "first-table.svg"


def example() -> str:
    """Return the Python code under "The first table" in README.md."""
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    found = re.search(
        r"^## The first table\n+```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE
    )
    if found is None:
        raise ValueError("README.md has no Python code under 'The first table'; name it here.")
    return found[1]


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        with (
            open(os.devnull, "w", encoding="utf-8") as nowhere,
            contextlib.redirect_stdout(nowhere),
        ):
            exec(example(), {"__name__": "example"})
        (plot,) = Path("results").glob("*/plots/score-*.svg")
        shutil.copy(plot, PICTURE)
    print(f"{PICTURE.name}: {PICTURE.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
