"""Pictures that are drawn again only when their sources have changed."""

import ast
import hashlib
import importlib.util
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIGESTS = "digests.json"  # of the sources, by the name of the picture


def digest(*sources: str) -> str:
    """Return the SHA-256 of files and modules, and of all that the modules import of this project.

    A source is the path of a file, which is taken alone, or the name of a module.
    """
    files = {Path(source) for source in sources if source.endswith(".py")}
    for source in sources:
        if not source.endswith(".py"):
            files |= imported(source)
    whole = hashlib.sha256()
    for file in sorted(files):
        whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


@cache
def imported(module: str) -> frozenset[Path]:
    """Return the files of a module and of all modules of ``coopbench_envs`` that it imports."""
    files: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        file = _file(name)
        if name in files or file is None:
            continue
        files[name] = file
        waiting += _names(file)
    return frozenset(files.values())


def _names(file: Path) -> list[str]:
    """Return the modules that a file may import, among them names that are no modules."""
    names = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return [name for name in names if name.startswith("coopbench_envs.")]


@cache
def _file(name: str) -> Path | None:
    """Return the file of a module; None for what is not one."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # its parent is a module and not a package
        return None
    return Path(spec.origin) if spec and spec.origin else None


def redraw(folder: Path, drawings: Mapping[Path, tuple[str, Callable[[], bytes]]]) -> list[Path]:
    """Draw every picture whose digest has changed, or that is missing; return what was drawn.

    ``drawings`` maps files of ``folder`` to the digest of their sources and the function that
    draws them. Files of pictures that are no longer drawn are removed.
    """
    folder.mkdir(exist_ok=True, parents=True)
    store = folder / DIGESTS
    digests = json.loads(store.read_text(encoding="utf-8")) if store.is_file() else {}
    changed = []
    for file, (sources, draw) in drawings.items():
        if digests.get(file.name) == sources and file.is_file():
            continue
        file.write_bytes(draw())
        changed.append(file)
        digests[file.name] = sources
        _write(store, digests)
    for name in [name for name in digests if folder / name not in drawings]:
        (folder / name).unlink(missing_ok=True)
        del digests[name]
    _write(store, digests)
    return changed


def _write(store: Path, digests: Mapping[str, str]) -> None:
    store.write_text(json.dumps(digests, indent=1, sort_keys=True) + "\n", encoding="utf-8")
