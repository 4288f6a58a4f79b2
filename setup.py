"""Packages of the distribution: four folders, two of which install inside ``coopbench``.

``pyproject.toml`` holds everything else; setuptools finds packages only where folder and import
path agree. The type check and the tests read the folders from here.

With COOPBENCH_WHEEL_KERNELS, a folder that ``coopbench warmup --into`` has filled, the wheel holds
compiled code, for one version of Python and one platform. Without it is a wheel for all of them.
"""

import os
import re
import shutil
import tomllib
from pathlib import Path

from setuptools import Distribution, find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
# Import name -> folder.
FOLDERS = {
    "coopbench": "coopbench",
    "coopbench.baselines": "baselines",
    "coopbench.protocols": "protocols",
    "coopbench_envs": "coopbench_envs",
}


KERNELS = os.environ.get("COOPBENCH_WHEEL_KERNELS")


class BuildWithKernels(build_py):
    """Copies compiled code beside the sources."""

    def run(self) -> None:
        """Copy everything that the wheel holds."""
        super().run()
        if KERNELS and not self.editable_mode:
            folder = Path(self.build_lib, "coopbench_envs", "kernels")
            folder.mkdir(parents=True, exist_ok=True)
            for file in sorted(Path(KERNELS).glob("*.kernel")):
                shutil.copy(file, folder)


class WithKernels(Distribution):
    """Names the platform, and the version of Python by whose byte code compiled code is found."""

    def has_ext_modules(self) -> bool:
        """Tell whether the files are of one platform."""
        return bool(KERNELS)


def packages() -> list[str]:
    """Return the import names of all packages in the folders."""
    return [
        name
        for package, folder in FOLDERS.items()
        for name in [package, *(f"{package}.{sub}" for sub in find_packages(str(ROOT / folder)))]
    ]


def repository() -> str:
    """Return the address that the project is published under; empty without one."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return str(content["tool"]["coopbench"]["repository"]).rstrip("/")


def long_description(address: str) -> str:
    """Return the README for an index, where its relative links would lead nowhere.

    They lead to the repository at ``address``; without one, only their texts are left.
    """

    def link(match: re.Match[str]) -> str:
        text, target = match.groups()
        return f"[{text}]({address}/blob/main/{target})" if address else text

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(r"\[([^\]]*)\]\((?![a-z]+:|#)([^)]*)\)", link, readme)


def project_urls(address: str) -> dict[str, str]:
    """Return the project's links on an index."""
    pages = {"Source": "", "Issues": "/issues", "Documentation": "/tree/main/docs"}
    pages["Changelog"] = "/blob/main/CHANGELOG.md"
    return {name: address + page for name, page in pages.items()} if address else {}


if __name__ == "__main__":  # which is the name under which pip runs this file
    setup(
        cmdclass={"build_py": BuildWithKernels},
        distclass=WithKernels,
        packages=packages(),
        package_dir=FOLDERS,
        long_description=long_description(repository()),
        long_description_content_type="text/markdown",
        project_urls=project_urls(repository()),
    )
