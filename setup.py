"""Packages of the distribution: four folders, two of which install inside ``coopbench``.

``pyproject.toml`` holds everything else; setuptools finds packages only where folder and import
path agree. The type check and the tests read the folders from here.

With COOPBENCH_WHEEL_KERNELS, a folder that ``make wheel`` has filled, the wheel holds
compiled code, for one version of Python and one platform. Without it is a wheel for all of them.
"""

import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

from setuptools import Distribution, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import _TopLevelFinder, editable_wheel

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


class PlatformWheel(bdist_wheel):
    """Names the platform as an index asks for.

    Compiled code needs nothing of the system but two functions that every C library has, so it runs
    wherever numba does.
    """

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags of Python, its binary interface, and the platform."""
        python, interface, platform = super().get_tag()
        return python, interface, re.sub("^linux_", "manylinux_2_17_", platform)


def link_packages(tree: Path) -> None:
    """Link the packages into ``tree``, each where it is installed.

    A package that holds no other one is one link, so its new files need none. Links to the
    packages that were there before are removed.
    """
    for package, folder in FOLDERS.items():
        target = tree / package.replace(".", "/")
        if target.is_symlink():
            target.unlink()
        elif target.exists():
            shutil.rmtree(target)
        if any(other.startswith(f"{package}.") for other in FOLDERS):
            target.mkdir(parents=True)
            for entry in (ROOT / folder).iterdir():
                (target / entry.name).symlink_to(entry)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(ROOT / folder)


class FinderAndLinks(_TopLevelFinder):
    """An import hook, by which Python finds the folders, and links, by which type checkers do.

    Type checkers execute no import hook: they search the folders that ``.pth`` files name. Python
    must not import through the links, or one file would be two modules.
    """

    # Added to the module of the hook: of the folders of links, Python sees nothing.
    PASS_BY = """

FOLDERS_OF_LINKS = {folders!r}


def _pass_by(path):
    if path not in FOLDERS_OF_LINKS:
        raise ImportError
    return _EditableNamespaceFinder


sys.path_hooks.insert(0, _pass_by)
"""

    def get_implementation(self) -> Iterator[tuple[str, bytes]]:
        """Return the files of the installation as (name, content)."""
        links, top = ROOT / "build" / "links", ROOT / "build" / "links-to-coopbench"
        link_packages(links)
        # Searched after the others, for modules that are added at the top of the package.
        top.mkdir(exist_ok=True)
        (top / "coopbench").unlink(missing_ok=True)
        (top / "coopbench").symlink_to(ROOT / "coopbench")
        folders = [str(links), str(top)]
        for name, content in super().get_implementation():
            if name.endswith(".pth"):
                yield name, content + os.fsencode("".join(f"\n{folder}" for folder in folders))
            else:
                yield name, content + self.PASS_BY.format(folders=folders).encode()


class EditableWithLinks(editable_wheel):
    """Installs from a checkout so that type checkers find the packages, too."""

    def _select_strategy(self, name: str, *_: object) -> FinderAndLinks:
        return FinderAndLinks(self.distribution, name)


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
        cmdclass={
            "bdist_wheel": PlatformWheel,
            "build_py": BuildWithKernels,
            "editable_wheel": EditableWithLinks,
        },
        distclass=WithKernels,
        packages=packages(),
        package_dir=FOLDERS,
        long_description=long_description(repository()),
        long_description_content_type="text/markdown",
        project_urls=project_urls(repository()),
    )
