"""Check types with mypy, over a tree in which every package stands where it is installed."""

import subprocess
import sys

from folders import FOLDERS, ROOT, link_packages


def main() -> int:
    """Link the sources into build/types and run mypy there; return its exit status."""
    tree = ROOT / "build" / "types"
    link_packages(tree)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    packages = dict.fromkeys(name.split(".")[0] for name in FOLDERS)
    return subprocess.call([*command, *packages], cwd=tree)


if __name__ == "__main__":
    sys.exit(main())
