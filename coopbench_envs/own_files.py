"""Files of users: each is executed so that it finds the modules of its own folder and no other's.

A file and the modules beside it become modules of a package of their own, whatever they are called,
so that two folders may have modules of the same name, as the folders of two programs may. Their
import statements look into the folder first, also those in functions, while the code runs.
"""

import ast
import builtins
import hashlib
import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["digests_of", "executed", "module_of", "modules_beside"]

_PREFIX = "coopbench_file_"  # of the names of the packages
# What no module of a folder replaces.
_FIRST = {*sys.stdlib_module_names, "__main__", "coopbench", "coopbench_envs"}
_digests: dict[str, dict[Path, str]] = {}  # package -> SHA-256 of what was executed in it
_files: dict[str, str] = {}  # folder -> the file in it that was executed last
_by_name: set[str] = set()  # modules that were found by ``_ByName``


def executed(source: bytes, place: str, folder: str) -> ModuleType:
    """Return a module that is made from ``source``, which is that of the file ``place``.

    It may import the modules of its ``folder``, which are executed anew, too; "" is no folder.
    Modules of Python and of coopbench come before those of the folder, and these before all others.
    What is pickled of them can be read by processes that have executed the same file. Raises what
    the code raises.
    """
    package = _package(source, place, folder)
    _forget({package, *_by_name})
    _find_modules()
    importlib.invalidate_caches()  # the folder may have modules that it has just got
    sys.modules[package] = ModuleType(package)
    sys.modules[package].__path__ = [folder] if folder else []
    _digests[package] = {}
    if folder:
        _files[folder] = place
    module = ModuleType(_title(package, place))
    module.__package__, module.__file__ = package, str(Path(folder) / place)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        _run(module, source)
    except BaseException:
        _forget({package})
        raise
    return module


def module_of(file: Path) -> ModuleType:
    """Return the module of a file: executed again if it, or one beside it that it uses, changed."""
    source, place, folder = file.read_bytes(), file.name, str(file.resolve().parent)
    package = _package(source, place, folder)
    module = sys.modules.get(_title(package, place))
    if module is not None and all(_is_unchanged(*each) for each in _digests[package].items()):
        return module
    return executed(source, place, folder)


def modules_beside(file: Path, package: str = "") -> dict[str, Path]:
    """Return what a file and these modules import from its folder, by name; executes nothing.

    The file of a module in a ``package`` imports from the folder that holds this package. Imports
    in functions count as well, and so do modules with errors; not those that have the name of a
    module of Python or of coopbench, which comes first.
    """
    folder = str(_root(file, package))
    modules, waiting = dict[str, Path](), [(file, package)]
    for module, spec in _along(package, folder) if package else ():  # which importing it executes
        if spec.origin:
            modules[module] = Path(spec.origin)
            waiting.append((Path(spec.origin), module))
    while waiting:
        source, package = waiting.pop()
        for name in _imports(source, package, folder):
            for module, spec in _along(name, folder):
                if module not in modules and spec.origin:
                    modules[module] = Path(spec.origin)
                    inside = spec.submodule_search_locations is not None
                    waiting.append((Path(spec.origin), module if inside else _parent(module)))
    return modules


def digests_of(file: Path, alone: bool = False, package: str = "") -> dict[str, str]:
    """Return the SHA-256 digests of a file and of the modules beside it, by their places there.

    They are those of ``modules_beside``; none if the file is wanted ``alone``.
    """
    folder, files = _root(file, package), {file.name: file}
    if package:
        files = {file.resolve().relative_to(folder).as_posix(): file}
    if not alone:
        places = modules_beside(file, package).values()
        files |= {place.relative_to(folder).as_posix(): place for place in places}
    return {name: _digest(files[name]) for name in sorted(files)}


def _root(file: Path, package: str) -> Path:
    """Return the folder of a file, of a module in a package the one that holds the package."""
    return file.resolve().parents[len(package.split(".")) if package else 0]


def _imports(file: Path, package: str, folder: str) -> Iterator[str]:
    """Yield what a module of a package imports, and the names that may be modules of these."""
    try:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
    except (SyntaxError, ValueError):  # unfinished, or compiled
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, (above, node.module)))
            names = [alias.name for alias in node.names]
            if "*" in names:
                names = _submodules(base, folder)
            yield base
            yield from (f"{base}.{name}".lstrip(".") for name in names)


def _along(name: str, folder: str) -> Iterator[tuple[str, ModuleSpec]]:
    """Yield the modules of a folder that an import of a dotted name executes."""
    places: Sequence[str] | None = [folder]
    parts = name.split(".")
    if parts[0] in _FIRST:
        return
    for k, part in enumerate(parts):
        spec = PathFinder.find_spec(part, places) if places else None
        if spec is None:
            return
        yield ".".join(parts[: k + 1]), spec
        places = spec.submodule_search_locations


def _submodules(package: str, folder: str) -> list[str]:
    specs = dict(_along(package, folder))
    places = specs[package].submodule_search_locations if package in specs else None
    return [module.name for module in pkgutil.iter_modules(places or [])]


def _parent(module: str) -> str:
    return module.rpartition(".")[0]


def _package(source: bytes, place: str, folder: str) -> str:
    key = str(Path(folder) / place).encode() if folder else source
    return f"{_PREFIX}{hashlib.sha256(key).hexdigest()[:16]}"


def _title(package: str, place: str) -> str:
    return f"{package}.{Path(place).stem.replace('.', '_')}"


def _is_unchanged(file: Path, digest: str) -> bool:
    return file.is_file() and _digest(file) == digest


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _forget(names: set[str]) -> None:
    """Let these modules, and those within them, be executed when they are next imported."""
    for name in list(sys.modules):
        if any(name == parent or name.startswith(f"{parent}.") for parent in names):
            del sys.modules[name]
    _by_name.difference_update(names)


def _run(module: ModuleType, source: bytes) -> None:
    """Execute a module whose import statements, then and later, look into the folder first."""
    package, file = module.__name__.partition(".")[0], str(module.__file__)
    _digests[package][Path(file)] = hashlib.sha256(source).hexdigest()
    names = vars(builtins) | {"__import__": partial(_import, package)}
    module.__dict__["__builtins__"] = names
    exec(compile(source, file, "exec"), module.__dict__)


def _import(
    package: str,
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """Do what an import statement of a module in a package says."""
    top = name.partition(".")[0]
    if level or not _is_beside(top, sys.modules[package].__path__):
        return __import__(name, globals, locals, fromlist or (), level)
    module = __import__(f"{package}.{name}", globals, locals, fromlist or ())
    return module if fromlist else sys.modules[f"{package}.{top}"]


def _is_beside(name: str, folders: Sequence[str]) -> bool:
    """Tell whether folders have a module; a folder without code gives way to other modules."""
    spec = None if name in _FIRST else PathFinder.find_spec(name, folders)
    if spec is None or spec.origin is not None:
        return spec is not None
    other = PathFinder.find_spec(name)
    return other is None or other.origin is None


def _find_modules() -> None:
    """Let Python find the modules of files, unless it does so already."""
    if not any(isinstance(finder, _Within) for finder in sys.meta_path):
        sys.meta_path[:] = [_Within(), *sys.meta_path, _ByName()]


class _Loader(SourceFileLoader):
    """Executes modules beside a file as the file itself, and always what the file holds now."""

    def exec_module(self, module: ModuleType) -> None:
        _run(module, self.get_data(self.path))


class _Current(SourceFileLoader):
    """Executes what a file holds now: a stored compilation may be of a text of the same second."""

    def get_code(self, fullname: str) -> Any:
        """Return the code of the present text."""
        return self.source_to_code(self.get_data(self.path), self.path)


class _Within:
    """Finds the modules of the packages."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module of a package, to be executed by ``_Loader``."""
        if path is None or not fullname.startswith(_PREFIX):
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


class _ByName:
    """Finds modules beside files for code that has their names only, as entry points do."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module of the only folder that has it; ``ImportError`` for several."""
        if path is not None or fullname in _FIRST:
            return None
        specs = {folder: PathFinder.find_spec(fullname, [folder]) for folder in _files}
        files = [str(Path(folder, _files[folder])) for folder, spec in specs.items() if spec]
        if len(files) > 1:
            raise ModuleNotFoundError(
                f"There is a module {fullname!r} beside each of {', '.join(files)}, and it is "
                f"imported by its name alone. Allowed: import statements in these files, and names "
                f"that one of the folders has. Rename the module, or start Python again.",
                name=fullname,
            )
        spec = next((spec for spec in specs.values() if spec), None)
        if spec is not None:
            _by_name.add(fullname)
            if isinstance(spec.loader, SourceFileLoader):
                spec.loader = _Current(fullname, spec.loader.path)
        return spec
