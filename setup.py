"""Packages of the distribution: four folders, two of which install inside ``coopbench``.

``pyproject.toml`` holds everything else; setuptools finds packages only where folder and import
path agree. The type check and the tests read the folders from here.
"""

from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent
# Import name -> folder.
FOLDERS = {
    "coopbench": "coopbench",
    "coopbench.baselines": "baselines",
    "coopbench.protocols": "protocols",
    "coopbench_envs": "coopbench_envs",
}


def packages() -> list[str]:
    """Return the import names of all packages in the folders."""
    return [
        name
        for package, folder in FOLDERS.items()
        for name in [package, *(f"{package}.{sub}" for sub in find_packages(str(ROOT / folder)))]
    ]


if __name__ == "__main__":  # which is the name under which pip runs this file
    setup(packages=packages(), package_dir=FOLDERS)
