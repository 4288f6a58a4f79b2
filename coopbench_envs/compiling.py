"""Compiling: kernels and loops over lanes to machine code, cached on disk by their sources."""

import ast
import functools
import gc
import hashlib
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numba

from coopbench_envs.merging import Merging

__all__ = ["bound", "compiled", "entry", "storable"]

PATIENCE = 2.0  # seconds of compiling without a word


@functools.cache
def bound(template: Callable[..., Any], names: tuple[tuple[str, Any], ...]) -> Any:
    """Compile ``template`` with ``names`` as its globals: pairs of a name and a kernel or constant.

    The name of the code in the cache begins with the template's and the first kernel's module.
    """
    plain = [getattr(value, "py_func", value) for _, value in names]
    kernels = [value for value in plain if isinstance(value, types.FunctionType)]
    bindings = [f"{function.__module__}.{function.__qualname__}" for function in kernels]
    bindings += [f"{name}={value}" for name, value in names if isinstance(value, int)]
    modules = {template.__module__, *(function.__module__ for function in kernels)}
    home = kernels[0].__module__.replace(".", "_")
    unique = f"{template.__name__}_{home}_{_source_hash(modules, bindings)}"
    return _cached(template, template.__globals__ | dict(names), unique)


def compiled(function: Callable[..., None]) -> Any:
    """Compile a function of a module, for instance a planner's loop over lanes.

    Like a kernel it fills the arrays that it is given and allocates nothing; it may call kernels
    and routines. An edit of its module or of what that imports from our packages recompiles it.
    """
    digest = _source_hash({function.__module__}, [f"{function.__module__}.{function.__qualname__}"])
    return _cached(function, function.__globals__, f"{function.__name__}_{digest}")


def _cached(template: Any, names: dict[str, Any], unique: str) -> Any:
    """Compile ``template`` with ``names`` as its globals, cached on disk under a ``unique`` name.

    The name has to carry a hash of every source file that the code inlines: numba alone looks at
    the outermost function's file and would return stale machine code after an edit of a kernel. The
    result releases the interpreter lock, so that threads can share the lanes.
    """
    function = types.FunctionType(template.__code__, names, unique, template.__defaults__)
    function.__qualname__, function.__module__ = unique, template.__module__
    flags = {"error_model": "numpy", "nogil": True, "_nrt": False}
    return storable(function, flags)


def storable(function: Callable[..., Any], flags: Mapping[str, Any]) -> Any:
    """Compile a function with numba, cached on disk wherever the disk allows it.

    A folder that must not be written to and a full disk take no cache. The compiled code is in
    memory then, for this process alone.
    """
    try:
        dispatcher = numba.njit(cache=True, pipeline_class=Merging, **flags)(function)
    except RuntimeError as error:  # numba found no folder that it may write to
        if "locator" not in str(error):
            raise
        return numba.njit(pipeline_class=Merging, **flags)(function)
    if not numba.config.DISABLE_JIT:  # else it is the function
        cache = dispatcher._cache
        cache.save_overload = functools.partial(_save_if_possible, cache.save_overload)
    return dispatcher


def _save_if_possible(save: Callable[[Any, Any], None], signature: Any, code: Any) -> None:
    with suppress(OSError):
        save(signature, code)


def entry(dispatcher: Any, name: str, *arguments: Any) -> Any:
    """Return the machine code for arguments of these very types, as a callable without type checks.

    ``name`` is what a line on the error stream calls the code if compiling takes long. Looking up
    the types of some fifty arrays costs 10 us a call, ten times the call itself. The caller
    promises to pass arguments of the same types, dimensions and memory layout.
    """
    if numba.config.DISABLE_JIT:  # the kernels as plain Python, for debugging and for a test
        return dispatcher
    _load_arrays()
    signature = tuple(numba.typeof(argument) for argument in arguments)
    with _said(name, lambda: signature in dispatcher.stats.cache_misses), _few_collections():
        dispatcher.compile(signature)
    return dispatcher.overloads[signature].entry_point


def _load_arrays() -> None:
    """Import numba's arrays without SciPy's linear algebra, a fifth of the time to a first step.

    Numba imports it only to see whether it is installed, which this package requires; numba
    imports it again where a function that it compiles needs it.
    """
    if "numba.np.arraymath" in sys.modules:
        return
    from numba.np import linalg

    check = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        from numba.np import arraymath
    finally:
        linalg.ensure_blas = check
    arraymath.ensure_blas = check


@contextmanager
def _few_collections() -> Iterator[None]:
    """Look for garbage less often, which among a compiler's objects takes a tenth of the time."""
    usual = gc.get_threshold()
    gc.set_threshold(100_000, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


@contextmanager
def _said(name: str, is_compiled: Callable[[], bool]) -> Iterator[None]:
    """Print a line on the error stream if this context takes two seconds and the code was not kept.

    ``is_compiled`` tells whether the cache has been asked in vain.
    """
    line = f"Compiling {name} for this machine; this happens once, later runs load it."

    def say() -> None:
        if is_compiled():
            print(line, file=sys.stderr, flush=True)

    timer = threading.Timer(PATIENCE, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _source_hash(modules: set[str], bindings: list[str]) -> str:
    digest = hashlib.sha256(" ".join(bindings).encode())
    files = set().union(*(_sources(module) for module in {*modules, __name__}))
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _sources(module: str) -> set[Path]:
    """Files of ``module`` and of everything that it imports from its own package and from this one.

    Looks at files alone: importing a module to find its source would load what it imports.
    """
    packages = {module.partition(".")[0], __name__.partition(".")[0]}
    files: set[Path] = set()
    queue = [module]
    while queue:
        name = queue.pop()
        file = _file(name) if name.partition(".")[0] in packages else None
        if file is not None and file not in files:
            files.add(file)
            for node in _imports(file, file.stat().st_mtime_ns):
                queue += _imported(node)
    return files


@functools.cache
def _imports(file: Path, changed: int) -> list[ast.Import | ast.ImportFrom]:
    """Return the import statements of a file that was last ``changed`` at that time.

    Most files are imported by many modules, and parsing them is most of the time of a hash.
    """
    statements = _statements(ast.parse(file.read_bytes()).body)
    return [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom)]


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield all statements, those within others too; expressions hold no imports."""
    for statement in body:
        yield statement
        for field in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, field, []))
        for part in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
            yield from _statements(part.body)


def _file(module: str) -> Path | None:
    """Source of a module in a package that is loaded, or None if it has none."""
    parent, rest = module, ""
    while parent and parent not in sys.modules:  # a package within a package can lie elsewhere
        parent, _, last = parent.rpartition(".")
        rest = f"{last}/{rest}" if rest else last
    loaded = sys.modules.get(parent)
    file = getattr(loaded, "__file__", None)
    if file is None or not rest:
        return None if file is None else Path(file)
    if not hasattr(loaded, "__path__"):
        return None
    stem = Path(file).parent / rest
    files = (stem.with_suffix(".py"), stem / "__init__.py")
    return next((path for path in files if path.is_file()), None)


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Modules that an import statement may take functions or numbers from."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if node.module is None:
        return []
    parts = [f"{node.module}.{alias.name}" for alias in node.names]
    modules = [part for part in parts if _file(part) is not None]
    # "from package import module" does not read the package's own names.
    return modules if len(modules) == len(parts) else [node.module, *modules]
