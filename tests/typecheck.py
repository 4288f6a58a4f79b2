"""Check types with mypy, over a tree in which every package stands where it is installed."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    "coopbench_envs": "coopbench_envs",
    "coopbench": "coopbench",
    "coopbench/baselines": "baselines",
    "coopbench/protocols": "protocols",
}


def main() -> int:
    """Link the sources into build/types and run mypy there; return its exit status."""
    tree = ROOT / "build" / "types"
    for package, folder in PACKAGES.items():
        for source in sorted((ROOT / folder).rglob("*.py")):
            link = tree / package / source.relative_to(ROOT / folder)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(source)
    for link in list(tree.rglob("*.py")):
        if not link.exists():
            link.unlink()
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    return subprocess.call([*command, "coopbench_envs", "coopbench"], cwd=tree)


if __name__ == "__main__":
    sys.exit(main())
