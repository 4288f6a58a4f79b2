"""Check types with mypy, over a tree in which every package stands where it is installed."""

import subprocess
import sys

from studies.checks.folders import FOLDERS, ROOT, link_packages

# Parts of studies whose types are checked; the other files there are scripts without types.
STUDIES = ("battles", "certificates", "equilibria", "series.py")


def main() -> int:
    """Link the sources into build/types and run mypy there; return its exit status."""
    tree = ROOT / "build" / "types"
    link_packages(tree)
    studies = tree / "studies"
    studies.unlink(missing_ok=True)
    studies.symlink_to(ROOT / "studies")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    packages = dict.fromkeys(name.split(".")[0] for name in FOLDERS)
    return subprocess.call(
        [*command, *packages, *(f"studies/{name}" for name in STUDIES)], cwd=tree
    )


if __name__ == "__main__":
    sys.exit(main())
