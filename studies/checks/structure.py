"""The structure of the packages: rooms on floors, imports between them; and what violates it.

    python -m studies.checks.structure

prints every violation. A room is a module or a folder directly below a package; it may import the
rooms on lower floors, of its own package and of the packages below it.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from studies.checks.folders import FOLDERS, ROOT, sources

# Packages and their rooms from the ground up; a room may import what stands above it in this table.
# "" is the package's own __init__.py, FAMILIES are all folders that the table does not name. The
# same table stands in docs/architecture.md.
FAMILIES = "<families of environments>"
FLOORS: dict[str, tuple[tuple[str, ...], ...]] = {
    "coopbench_envs": (
        ("errors", "reading", "packages", "own_files", "scenes", "packing", "targets"),
        ("parameters", "layouts", "roles", "rendering", "arrays", "calls"),
        ("merging", "explaining", "objects"),
        ("lowering", "store", "threads"),
        ("marks",),
        ("digests",),
        ("compiling",),
        ("foreign_names", "core", "states"),
        ("drivers", "elementary", "choices"),
        ("memory", "elementary_arrays", "exactness", "batches", "direct"),
        (FAMILIES,),
        ("registration",),
        ("engine",),
        ("foreign", "cuda"),
        ("lanes",),
        ("pictures",),
        ("shells",),
        ("check",),
        ("",),
    ),
    "coopbench.baselines": (
        ("", "errors"),
        ("game",),
        ("policy",),
        ("own_code",),
        ("rules",),
        ("networks", "strategies", "planners", "commanders", "dispatchers"),
        ("learner", "predicting"),
        ("registry",),
        ("best_script", "player"),
        ("match",),
        ("learners",),
        ("train_learner",),
    ),
    "coopbench.protocols": (("",),),
    "coopbench": (
        ("",),
        ("errors", "provenance"),
        ("files", "statistics", "theory"),
        ("episodes",),
        ("protocol",),
        ("playing",),
        ("results",),
        ("analysis",),
        ("report",),
        ("exchange",),
        ("workflows", "timed"),
        ("catalogue",),
        ("describe", "doctor"),
        ("cli",),
        ("__main__",),
    ),
}
# Libraries that are slow to import or optional: imported by the function that needs them. Learners
# import torch at the top: the registry alone imports them, when one is used.
HEAVY = (
    "IPython",
    "cuda",  # of cuda-bindings
    "google",
    "jax",
    "jinja2",
    "markupsafe",
    "matplotlib",
    "numba",
    "numba_cuda",
    "pandas",
    "PIL",
    "ray",
    "rich",
    "scipy",
    "stable_baselines3",
    "tensorboard",
    "torch",
)
# Other imports inside functions: (file or folder, module or its beginning) -> why.
LATE_IMPORTS = {
    ("coopbench/__main__.py", "coopbench"): "an interruption while loading has to be caught",
    ("coopbench/cli", "coopbench"): "a command imports what it runs; the help stays quick",
    ("coopbench/timed/command.py", "coopbench"): "likewise",
    ("coopbench_envs/targets.py", "llvmlite"): "loads LLVM, which naming an environment needs not",
    ("coopbench_envs/shells", "coopbench_envs.cuda"): "only where games are played on a GPU",
    ("coopbench_envs/shells", "coopbench_envs.shells.device_vector_env"): "likewise",
    ("coopbench_envs/lowering.py", "coopbench_envs.merging"): "imports numba",
    ("coopbench_envs/marks.py", "coopbench_envs.lowering"): "only where something is compiled",
    ("coopbench_envs/compiling.py", "coopbench_envs.lowering"): "only where something is compiled",
    ("coopbench_envs/__init__.py", "coopbench_envs"): "importing registers environments, no more",
    ("coopbench/__main__.py", "coopbench.cli"): "an interruption while it loads is no traceback",
    ("coopbench/workflows", "fcntl"): "exists on POSIX systems only",
}
# Modules that are imported by a name that is made at run time.
IMPORT_BY_NAME = {
    "baselines/registry.py": "policies and learners register by lying in the folder",
    "coopbench/__init__.py": "public names are loaded when they are first used",
    "baselines/own_code.py": "the user names a module",
    "coopbench/report/sections/__init__.py": "one line there names each file of the folder",
    "coopbench_envs/foreign/loading.py": "the user names a module",
    "coopbench_envs/own_files.py": "import statements of users' files",
    "coopbench_envs/pathfinding/maps/__init__.py": "maps register by lying in the folder",
    "coopbench_envs/registration.py": "environments register by lying in the folder",
    "coopbench_envs/shells/seats.py": "partners of an environment need policies, which lie above",
    "coopbench_envs/skirmish/opposing.py": "so do opponents",
}


class Import(NamedTuple):
    """One import statement of a module of the packages."""

    importer: str
    imported: str  # a module of the packages if it is one, else the name as written
    line: int
    late: bool  # inside a function


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def imports(module: str, file: Path) -> Iterator[Import]:
    """Yield the imports of a module, those in functions and for types included."""
    functions = [n for n in ast.walk(_tree(file)) if isinstance(n, ast.FunctionDef)]
    late = {id(node) for function in functions for node in ast.walk(function)}
    lazy = _lazy_names(module, file)
    for node in ast.walk(_tree(file)):
        if id(node) in lazy:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            names = ["." * node.level + (node.module or "")]
        elif isinstance(node, ast.ImportFrom):
            # ``from package import module`` imports the module, any other name the package.
            below = [f"{node.module}.{alias.name}" for alias in node.names]
            names = list(dict.fromkeys(n if n in _modules() else str(node.module) for n in below))
        else:
            continue
        for name in names:
            yield Import(module, name, node.lineno, id(node) in late)


def _lazy_names(module: str, file: Path) -> set[int]:
    """Return the nodes of imports that tell type checkers what ``coopbench`` imports by name."""
    blocks = [n for n in _tree(file).body if module == "coopbench" and _is_for_types(n)]
    return {id(node) for block in blocks for node in ast.walk(block)}


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING"


@cache
def _modules() -> dict[str, Path]:
    return sources()


@cache
def all_imports() -> tuple[Import, ...]:
    """Return every import of the packages."""
    return tuple(i for module, file in _modules().items() for i in imports(module, file))


def _where(module: str) -> str:
    return str(_modules()[module].relative_to(ROOT))


def place(module: str) -> tuple[str, str]:
    """Return the package and the room of a module."""
    package = max((p for p in FOLDERS if f"{module}.".startswith(f"{p}.")), key=len)
    return package, module.removeprefix(package).lstrip(".").split(".")[0]


def floor(module: str) -> tuple[int, int] | None:
    """Return the numbers of a module's package and floor; None for a room that has no floor."""
    package, room = place(module)
    floors = FLOORS[package]
    number = next((k for k, rooms in enumerate(floors) if room in rooms), None)
    if number is None and _is_family(package, room):
        number = next(k for k, rooms in enumerate(floors) if FAMILIES in rooms)
    return None if number is None else (list(FLOORS).index(package), number)


def rooms_without_floor() -> list[str]:
    """Rooms that the table does not name, and names in the table that are no rooms."""
    rooms = {place(module) for module in _modules()}
    table = {(p, room) for p, floors in FLOORS.items() for names in floors for room in names}
    missing = [room for room in sorted(rooms - table) if not _is_family(*room)]
    superfluous = sorted(room for room in table - rooms if room[1] != FAMILIES)
    return [f"{package}: {room} has no floor" for package, room in missing] + [
        f"{package}: there is no {room}" for package, room in superfluous
    ]


def _is_family(package: str, room: str) -> bool:
    """Whether a room is a folder of environments."""
    return package == "coopbench_envs" and (ROOT / package / room / "__init__.py").is_file()


def upward_imports() -> list[str]:
    """Imports of a room that does not lie on a lower floor."""
    violations = []
    for i in all_imports():
        if i.imported not in _modules() or place(i.importer) == place(i.imported):
            continue
        importer, imported = floor(i.importer), floor(i.imported)
        if importer is not None and imported is not None and imported >= importer:
            violations.append(f"{_where(i.importer)}:{i.line} imports {i.imported}")
    return violations


def circles() -> list[str]:
    """Groups of files that import each other, directly or through others."""
    graph: dict[str, set[str]] = defaultdict(set)
    for i in all_imports():
        if i.imported in _modules():
            graph[i.importer].add(i.imported)
    reach = {module: _reachable(graph, module) for module in _modules()}
    groups = {
        tuple(sorted(m for m in reach[module] if module in reach[m]))
        for module in _modules()
        if module in reach[module]
    }
    return [", ".join(map(_where, group)) for group in sorted(groups)]


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return the modules that ``start`` imports, directly or through others."""
    reached: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += graph[module]
    return reached


def late_imports() -> list[str]:
    """Imports inside functions that are neither heavy nor listed with a reason."""
    return [
        f"{_where(i.importer)}:{i.line} imports {i.imported}"
        for i in all_imports()
        if i.late
        and i.imported.split(".")[0] not in HEAVY
        and not any(_is_listed(entry, i) for entry in LATE_IMPORTS)
    ]


def _is_listed(entry: tuple[str, str], i: Import) -> bool:
    folder, module = entry
    return f"{_where(i.importer)}/".startswith(f"{folder}/") and i.imported.startswith(module)


def superfluous_exceptions() -> list[str]:
    """Entries of the lists of exceptions that nothing needs."""
    late = [i for i in all_imports() if i.late]
    lines = [
        f"{entry}: nothing is imported late"
        for entry in LATE_IMPORTS
        if not any(_is_listed(entry, i) for i in late)
    ]
    return lines + [f"{f}: nothing is imported by name" for f in IMPORT_BY_NAME if not _by_name(f)]


def imports_by_name() -> list[str]:
    """Calls of import_module outside the listed files."""
    files = [str(file.relative_to(ROOT)) for file in _modules().values()]
    return [f"{f}:{line}" for f in files if f not in IMPORT_BY_NAME for line in _by_name(f)]


def _by_name(file: str) -> list[int]:
    path = ROOT / file
    if not path.is_file():
        return []
    names = ("import_module", "__import__")
    return [
        node.lineno
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call)
        and (getattr(node.func, "id", None) in names or getattr(node.func, "attr", None) in names)
    ]


def relative_imports() -> list[str]:
    """Imports that begin with a dot."""
    return [f"{_where(i.importer)}:{i.line}" for i in all_imports() if i.imported.startswith(".")]


def imports_of_what_is_not_installed() -> list[str]:
    """Imports of studies, benchmarks and tests, which no wheel holds."""
    return [
        f"{_where(i.importer)}:{i.line} imports {i.imported}"
        for i in all_imports()
        if i.imported.split(".")[0] in ("benchmarks", "studies", "tests")
    ]


CHECKS = (
    rooms_without_floor,
    upward_imports,
    imports_of_what_is_not_installed,
    circles,
    late_imports,
    imports_by_name,
    superfluous_exceptions,
    relative_imports,
)


def picture() -> str:
    """Write the table of floors as text, the ground floor last."""
    lines = []
    for package, floors in reversed(FLOORS.items()):
        lines.append(f"{package}/")
        for rooms in reversed(floors):
            names = [room for room in rooms if room not in ("", "__main__")]
            if names:
                lines.append(f"    {'  '.join(names)}")
    return "\n".join(lines)


def main() -> int:
    """Print all violations; the exit status is 1 if there are any."""
    number = 0
    for check in CHECKS:
        violations = check()
        number += len(violations)
        print(f"{check.__name__}: {len(violations)}")
        for violation in violations:
            print(f"    {violation}")
    print(f"{number} violations")
    return int(number > 0)


if __name__ == "__main__":
    sys.exit(main())
