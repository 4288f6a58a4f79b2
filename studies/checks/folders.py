"""Where the packages lie in the repository, as setup.py says, and where they are installed."""

import runpy
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SETUP = runpy.run_path(str(ROOT / "setup.py"), run_name="setup")
# Import name -> folder.
FOLDERS: dict[str, str] = _SETUP["FOLDERS"]
link_packages: Callable[[Path], None] = _SETUP["link_packages"]
_IGNORED = "__pycache__"


def module_name(file: Path) -> str:
    """Return the import name of a source file of the packages."""
    for package, folder in FOLDERS.items():
        if file.is_relative_to(ROOT / folder):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            return ".".join([package, *(part for part in parts if part != "__init__")])
    raise ValueError(f"{file} lies in none of the folders {', '.join(FOLDERS.values())}.")


def sources() -> dict[str, Path]:
    """Return every module of the packages as {import name: file}."""
    files = [f for folder in FOLDERS.values() for f in sorted((ROOT / folder).rglob("*.py"))]
    return {module_name(file): file for file in files}


def contents() -> dict[str, Path]:
    """Return every file of the packages as {path where it is installed: file}."""
    return {
        f"{package.replace('.', '/')}/{file.relative_to(ROOT / folder)}": file
        for package, folder in FOLDERS.items()
        for file in sorted((ROOT / folder).rglob("*"))
        if file.is_file() and _IGNORED not in file.parts
    }
