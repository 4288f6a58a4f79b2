"""Packages of the distribution: four folders, two of which install inside ``coopbench``.

``pyproject.toml`` holds everything else; setuptools finds packages only where folder and import
path agree.
"""

from setuptools import find_packages, setup

# import name -> folder
FOLDERS = {
    "coopbench": "coopbench",
    "coopbench.baselines": "baselines",
    "coopbench.protocols": "protocols",
    "coopbench_envs": "coopbench_envs",
}


def found(package: str, folder: str) -> list[str]:
    """Return ``package`` and the packages below ``folder`` under their import names."""
    return [package, *(f"{package}.{below}" for below in find_packages(folder))]


setup(
    packages=[name for package, folder in FOLDERS.items() for name in found(package, folder)],
    package_dir=FOLDERS,
)
