"""PTX: programs compiled for a GPU, without a driver or a GPU, and cached on disk.

The code does what the CPU's does, bit for bit: a product and a sum are never contracted, min and
max of floats compare and select, as in Python, and the remainder of floats is exact. numba-cuda has
options for none of them, so they are set here while a program is compiled.
"""

import hashlib
import math
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from coopbench_envs import store
from coopbench_envs.cuda.buffers import DeviceArray
from coopbench_envs.cuda.functions import rebound
from coopbench_envs.cuda.programs import Program

__all__ = ["cache_folder", "entry_name", "parameter_bytes", "parameters", "ptx_of"]

_ENTRY = re.compile(r"\.visible \.entry (\w+)\(([^)]*)\)")
_PARAMETER = re.compile(r"\.param \.(?:align \d+ \.)?[bsuf](\d+)")
_REMAINDER = re.compile(r"\bfrem (double|float) ([^,]+), ([^,\n]+)")
# Of NVIDIA's library for GPUs: without error in its whole range, as C's.
_FMOD = {"double": "__nv_fmod", "float": "__nv_fmodf"}
_COMPILING = threading.Lock()  # the settings of numba-cuda are those of the process


def ptx_of(program: Program, arch: tuple[int, int]) -> str:
    """Return the PTX of ``program`` for GPUs of an architecture such as (9, 0).

    The code takes arrays with strides of any kind, and comes from the cache on disk where it lies
    there.
    """
    types = tuple(map(_type_of, program.arguments))
    folder, name = cache_folder(), f"{_key(program, types, arch)}.ptx"
    content = store.kept_file(folder, name)
    if content is None:
        content = _compiled(program, types, arch).encode("ascii")
        store.keep_file(folder, name, content)
    return content.decode("ascii")


def cache_folder() -> Path | None:
    """Folder of compiled programs; None for a user without a home, as in many containers."""
    return store.cache_folder("coopbench-ptx", "")


def entry_name(ptx: str) -> str:
    """Return the name of the function that a GPU is told to run."""
    return _entry(ptx)[1]


def parameters(ptx: str) -> list[int]:
    """Return the sizes in bytes of the function's parameters."""
    return [int(bits) // 8 for bits in _PARAMETER.findall(_entry(ptx)[2])]


def parameter_bytes(ptx: str) -> int:
    """Return the bytes of all parameters together, each aligned to its size."""
    total = 0
    for size in parameters(ptx):
        total += -total % size + size
    return total


def _entry(ptx: str) -> re.Match[str]:
    match = _ENTRY.search(ptx)
    if match is None:
        raise ValueError("This PTX has no function that can be launched.")
    return match


def _type_of(argument: Any) -> Any:
    """Return numba's type of an argument: a number, a ``DeviceArray`` or a NamedTuple of such."""
    import numba
    from numba import types

    if isinstance(argument, tuple):
        fields = [*map(_type_of, argument)]
        return types.BaseTuple.from_types(fields, type(argument))
    if isinstance(argument, DeviceArray):
        # Of an order that is known, places are products of sizes. NVVM, 13.0 to 13.5, multiplies
        # some of them by each other's factors (seen in Skirmish-v1); strides are single numbers.
        order = "A" if argument.ndim > 1 else "C"
        return types.Array(numba.from_dtype(argument.dtype), argument.ndim, order)
    return numba.typeof(argument)


def _key(program: Program, types: Sequence[Any], arch: tuple[int, int]) -> str:
    """Return the name of a program in the cache, with a hash of all that it depends on."""
    digest = hashlib.sha256(f"{program.unique} {types} {arch}".encode())
    for package in ("numba-cuda", "numba", "nvidia-nvvm", "nvidia-cuda-nvcc-cu12"):
        with suppress(metadata.PackageNotFoundError):
            digest.update(f"{package} {metadata.version(package)}".encode())
    for name in ("functions.py", "programs.py", "ptx.py"):
        digest.update(Path(__file__).with_name(name).read_bytes())
    return f"{program.template.__name__}-sm{arch[0]}{arch[1]}-{digest.hexdigest()[:24]}"


def _compiled(program: Program, types: tuple[Any, ...], arch: tuple[int, int]) -> str:
    from numba import cuda

    with _COMPILING, _exact(arch):
        bindings = {"grid": cuda.grid, **program.names}
        text, _ = cuda.compile_ptx(rebound(program.template, bindings), types, cc=arch)
    return str(text).replace(_entry(text)[1], "run")  # its name, once a parameter, is most of it


@contextmanager
def _exact(arch: tuple[int, int]) -> Iterator[None]:
    """Set numba-cuda to compile with the bits of the CPU, for ``arch`` and without a driver."""
    from numba.cuda import dispatcher
    from numba.cuda.cudadrv import nvvm

    compile_ir, current = nvvm.compile_ir, dispatcher.get_current_device

    def exactly(ir: str | Sequence[str], **options: Any) -> Any:
        # numba-cuda lists a function once for each of its callers.
        modules = dict.fromkeys([ir] if isinstance(ir, str) else ir)
        return compile_ir([*map(_with_fmod, modules)], **options | {"fma": 0})

    nvvm.compile_ir = exactly
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=arch)
    try:
        with _selecting(min), _selecting(max), _with_numpy():
            yield
    finally:
        nvvm.compile_ir, dispatcher.get_current_device = compile_ir, current


def _with_fmod(ir: str) -> str:
    """Compute remainders by fmod; the compiler takes x - floor(x / y) * y, which is rounded."""
    if "frem" not in ir:  # a hundredth of the time of a search for the pattern
        return ir
    kinds = {match[1] for match in _REMAINDER.finditer(ir)}
    ir = _REMAINDER.sub(lambda m: f"call {m[1]} @{_FMOD[m[1]]}({m[1]} {m[2]}, {m[1]} {m[3]})", ir)
    missing = [kind for kind in sorted(kinds) if f"declare {kind} @{_FMOD[kind]}(" not in ir]
    return ir + "".join(f"\ndeclare {k} @{_FMOD[k]}({k}, {k})\n" for k in missing)


@contextmanager
def _with_numpy() -> Iterator[None]:
    """Let ``np.sqrt`` and ``np.floor`` of a number be those of math, which numba-cuda lacks."""
    from numba.cuda import mathimpl, ufuncs

    def lowered(function: Any) -> Any:
        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = signature.args[0]
            made = mathimpl.get_unary_impl_for_fn_and_ty(function, kind)
            return made(context, builder, signature, arguments)

        return {"d->d": lower, "f->f": lower}

    table = ufuncs.ufunc_db()
    added = {np.sqrt: lowered(math.sqrt), np.floor: lowered(math.floor)}
    added = {ufunc: loops for ufunc, loops in added.items() if ufunc not in table}
    table.update(added)
    try:
        yield
    finally:
        for ufunc in added:
            del table[ufunc]


@contextmanager
def _selecting(function: Any) -> Iterator[None]:
    """Take the instructions of a GPU from ``min`` or ``max``; what is left compares and selects.

    The instructions differ from Python for a NaN and between zeros of different signs.
    """
    from numba.core.types import Float
    from numba.cuda.descriptor import cuda_target

    context = cuda_target.target_context
    context.refresh()
    selector = context._defns[function]
    versions = selector.versions
    selector.versions = [
        (formal, lowering)
        for formal, lowering in versions
        if not all(isinstance(argument, Float) for argument in formal)
    ]
    selector._cache.clear()
    try:
        yield
    finally:
        selector.versions = versions
        selector._cache.clear()
