"""Compiling: functions and loops over lanes as machine code, from the store or by numba."""

import functools
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coopbench_envs import store
from coopbench_envs.calls import Code
from coopbench_envs.digests import digest
from coopbench_envs.marks import plain
from coopbench_envs.objects import RAISED, Object, emitted, lacking, loaded
from coopbench_envs.packing import Packer, packed
from coopbench_envs.targets import made_for, usable

__all__ = ["Compiled", "bound", "compiled", "is_python"]

PATIENCE = 2.0  # seconds of compiling without a word
_lock = threading.Lock()


def is_python() -> bool:
    """Tell whether kernels run as plain Python, for debugging and for a test."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


class Compiled:
    """A function that fills the arrays it is given, compiled for the types of its arguments.

    Machine code is looked up when the function is first called with arguments of new types.
    """

    def __init__(self, function: types.FunctionType, name: str, wide: bool = False) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self.name, self._wide = function, name, wide
        self._functions: dict[tuple[str, ...], Code] = {}
        self._packer = Packer()

    def __call__(self, *arguments: Any) -> None:
        """Run the function; ``RuntimeError`` if compiled code has raised an error."""
        if is_python():
            self.py_func(*arguments)
            return
        kinds, words = self._packer.pack(arguments)
        memory = packed(words)
        function = self._function(kinds, arguments, 0, self.name)
        if function.call(memory.ctypes.data) == RAISED:
            raise RuntimeError(f"{self.name} has raised an error, which compiled code must not do.")

    def __reduce__(self) -> str:
        return str(self.py_func.__qualname__)  # which pickle looks up in the function's module

    def with_arrays(self, arguments: tuple[Any, ...], numbers: int, what: str) -> Any:
        """Return machine code with its first arguments: it takes ``numbers`` whole numbers more.

        It returns 1, 0 or ``RAISED``, or, as plain Python, what the function does. ``what`` is what
        a line on the error stream calls the code if compiling takes long.
        """
        if is_python():
            return functools.partial(self.py_func, *arguments)
        kinds, words = Packer().pack(arguments)
        memory = packed(words)
        function = self._function(kinds, arguments, numbers, what)
        return function.bound(memory.ctypes.data, reads=(memory, arguments))

    def _function(
        self, kinds: tuple[str, ...], arguments: tuple[Any, ...], numbers: int, what: str
    ) -> Code:
        """Return machine code for arguments of these types: (address of words, *numbers)."""
        function = self._functions.get(kinds)
        if function is None:
            with _lock:
                if kinds not in self._functions:  # another thread may have come first
                    self._functions[kinds] = self._loaded(kinds, arguments, numbers, what)
                function = self._functions[kinds]
        return function

    def _loaded(
        self, kinds: tuple[str, ...], arguments: tuple[Any, ...], numbers: int, what: str
    ) -> Code:
        """Take machine code from the store, or compile and store it."""
        mark, found = self._found(kinds, numbers)
        if found is not None:
            if lacking(found[0]):
                from coopbench_envs.lowering import provide_helpers

                provide_helpers()
            return loaded(found[0], numbers)
        with _said(what):
            from coopbench_envs.lowering import lowered

            code = lowered(self.py_func, (*arguments, *(0,) * numbers))
            objects = {to.name: emitted(code, numbers, to) for to in made_for(self._wide)}
        function = loaded(next(iter(objects.values())), numbers)
        for to, content in objects.items():
            store.keep(content, self.name, mark, to)
        return function

    def _found(
        self, kinds: tuple[str, ...], numbers: int
    ) -> tuple[str, tuple[Object, Path] | None]:
        """Return the digest of the function for arguments of these types, and what is stored."""
        mark = digest(self.py_func, (*kinds, str(numbers)))
        return mark, store.find(self.name, mark, [target.name for target in usable()])

    def origin(self, arguments: tuple[Any, ...], numbers: int) -> Path | None:
        """Return the folder of machine code for arguments of these types; None if there is none."""
        found = self._found(Packer().pack(arguments)[0], numbers)[1]
        return None if found is None else found[1]


@functools.cache
def bound(
    template: Callable[..., Any], names: tuple[tuple[str, Any], ...], home: str, wide: bool
) -> Compiled:
    """Return ``template`` with ``names`` as its globals: pairs of a name and a kernel or constant.

    ``home`` is the module that the name of the code tells. ``wide``: its loops run as vectors, so
    that wheels hold code for wide ones, too.
    """
    name = f"{template.__name__}_{home.rpartition('.')[2]}"
    bindings = template.__globals__ | dict(names)
    function = types.FunctionType(template.__code__, bindings, name, template.__defaults__)
    function.__module__ = template.__module__
    return Compiled(function, name, wide)


def compiled(function: Callable[..., None]) -> Any:
    """Compile a function of a module, for instance a planner's loop over lanes.

    Like a kernel it fills the arrays that it is given and allocates nothing; it may call kernels
    and routines. An edit of anything that it reaches recompiles it.
    """
    python = plain(function)
    return Compiled(python, f"{python.__name__}_{python.__module__.rpartition('.')[2]}")


@contextmanager
def _said(what: str) -> Iterator[None]:
    """Print a line on the error stream if this context takes two seconds."""
    line = f"Compiling {what} for this machine; this happens once, later runs load it.\n"
    timer = threading.Timer(PATIENCE, lambda: sys.stderr.write(line))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
