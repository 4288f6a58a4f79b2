"""Print the lowest version of every direct dependency that pyproject.toml allows.

    python .ci/minimum.py [EXTRA ...]

The lines are requirements for pip; those of the named extras are included.
"""

import re
import sys
import tomllib
from pathlib import Path


def main() -> None:
    """Print one requirement per line."""
    file = Path(__file__).resolve().parent.parent / "pyproject.toml"
    project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    requirements = list(project["dependencies"])
    for extra in sys.argv[1:]:
        requirements += project["optional-dependencies"][extra]
    for requirement in dict.fromkeys(requirements):
        match = re.fullmatch(r"([\w-]+)>=([\d.]+)(,<[\d.]+)?", requirement)
        if match is None:
            raise SystemExit(f"pyproject.toml: {requirement!r} has no lowest version (>=).")
        print(f"{match[1]}=={match[2]}")


if __name__ == "__main__":
    main()
