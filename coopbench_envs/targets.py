"""Targets: the processors that code is compiled for.

Every processor of a level runs its code, with the same bits: kernels use no instruction that rounds
differently from one processor to the next.
"""

import functools
import hashlib
import os
from contextlib import suppress
from typing import Any, NamedTuple

__all__ = ["SHIPPED", "WIDE", "Target", "initialized", "machine", "made_for", "usable"]


class Target(NamedTuple):
    """What LLVM is told about a processor."""

    name: str  # of the level, a part of the names of files
    cpu: str
    features: str = ""


# What wheels hold code for: processors from Intel's Haswell (2013) and AMD's Excavator (2015) on;
# and of loops that run as vectors also for those with vectors of 512 bits, a fifth faster there.
SHIPPED = Target("x86-64-v3", "x86-64-v3")
WIDE = Target("x86-64-v4", "x86-64-v4", "-prefer-256-bit")
_V3 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")


@functools.cache
def initialized() -> Any:
    """Return llvmlite's binding, ready to compile and to load code for this processor."""
    from llvmlite import binding

    with suppress(RuntimeError):  # versions from 0.45 on do it themselves, and say so
        binding.initialize()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


@functools.cache
def usable() -> tuple[Target, ...]:
    """Return the targets whose code runs here, best first; the first is what is compiled for.

    That are the levels of wheels that this machine has, or else the very processor. NUMBA_CPU_NAME
    and NUMBA_CPU_FEATURES name another one instead.
    """
    chosen, features = os.environ.get("NUMBA_CPU_NAME"), os.environ.get("NUMBA_CPU_FEATURES", "")
    if chosen:
        return (_named(chosen, features),)
    binding = initialized()
    if not binding.get_process_triple().startswith("x86_64"):
        return (_host(),)
    has = binding.get_host_cpu_features()
    levels = ((WIDE, _V4), (SHIPPED, _V3))
    found = tuple(level for level, needs in levels if all(has.get(name) for name in needs))
    return found or (_host(),)


def made_for(wide: bool) -> tuple[Target, ...]:
    """Return the targets that code is compiled for, of which the first runs here.

    With COOPBENCH_WHEEL these are those of wheels. ``wide``: the code's loops run as vectors.
    """
    if not os.environ.get("COOPBENCH_WHEEL"):
        return usable()[:1]
    if SHIPPED not in usable():
        raise RuntimeError(f"Code for wheels is made on {SHIPPED.name} alone.")
    return (SHIPPED, WIDE) if wide else (SHIPPED,)


def _host() -> Target:
    binding = initialized()
    return _named(binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten())


def _named(cpu: str, features: str) -> Target:
    mark = hashlib.sha256(features.encode()).hexdigest()[:8]
    return Target(f"{cpu}-{mark}" if features else cpu, cpu, features)


def machine(to: Target) -> Any:
    """Return llvmlite's target machine for code that is loaded into a process."""
    binding = initialized()
    triple = binding.get_process_triple()
    reloc = "static" if triple.startswith("x86") else "default"
    return binding.Target.from_triple(triple).create_target_machine(
        cpu=to.cpu, features=to.features, opt=3, reloc=reloc, codemodel="jitdefault", jit=True
    )
