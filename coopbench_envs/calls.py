"""Calls: machine code as builtin functions of Python.

A call through ``ctypes`` takes several times as long as the step of a small game. A builtin
function takes objects and returns one; trampolines, which LLVM makes here, turn these into numbers
and back. They call functions of Python's stable interface alone and release the interpreter's lock.
"""

import ctypes
import functools
import struct
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from coopbench_envs.targets import initialized

__all__ = ["Code"]

_FASTCALL = 0x80  # METH_FASTCALL: (self, address of the arguments, their number)
_PYTHON = (
    *("PyBytes_AsString", "PyErr_BadArgument", "PyErr_Occurred", "PyEval_RestoreThread"),
    *("PyEval_SaveThread", "PyLong_AsLongLong", "PyLong_FromLongLong", "PyTuple_GetItem"),
)
_lock = threading.Lock()  # two threads must not make one trampoline twice, and release one of them
_new: Any = ctypes.pythonapi.PyCFunction_NewEx
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)


class Code:
    """A function at an address in memory of ``owner``: ``numbers`` of type int64 -> int32."""

    def __init__(self, address: int, numbers: int, owner: Any) -> None:
        self._address, self._numbers, self._owner = address, numbers, owner

    @functools.cached_property
    def call(self) -> Callable[..., int]:
        """The function as a builtin function that takes all of its numbers."""
        return self.bound()

    def bound(self, *first: int, reads: Any = None) -> Callable[..., int]:
        """Return a builtin function that passes the numbers ``first``, and then its arguments.

        It keeps alive what the code ``reads``. Raises ``TypeError`` for arguments that are no whole
        numbers, or of another number, and ``OverflowError`` for those beyond int64.
        """
        words = struct.pack(f"={1 + len(first)}q", self._address, *first)
        with _lock:
            made = _trampoline(len(first), self._numbers - len(first))
        function: Callable[..., int] = _new(
            ctypes.addressof(made.method), (words, self._owner, reads), None
        )
        return function


class _Method(ctypes.Structure):
    """PyMethodDef: how Python describes a builtin function."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )


class _Trampoline(NamedTuple):
    method: _Method
    owner: Any  # of its machine code


@functools.cache
def _trampoline(held: int, given: int) -> _Trampoline:
    """Return what calls code with ``held`` numbers of its own and then ``given`` arguments.

    It is never released: the builtin functions that use it have its address.
    """
    binding = initialized()
    for name in _PYTHON:
        function = getattr(ctypes.pythonapi, name)
        binding.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
    # Without optimization it is made in half the time, and is as fast.
    target = binding.Target.from_triple(binding.get_process_triple())
    machine = target.create_target_machine(opt=0, codemodel="jitdefault", jit=True)
    pointer = "ptr" if binding.llvm_version_info[0] > 16 else "i64*"
    engine = binding.create_mcjit_compiler(
        binding.parse_assembly(_text(held, given, pointer)), machine
    )
    engine.finalize_object()
    method = _Method(b"compiled", engine.get_function_address("trampoline"), _FASTCALL, None)
    return _Trampoline(method, engine)


def _text(held: int, given: int, pointer: str) -> str:
    """Return the code of a trampoline. Its ``self`` is a tuple: the words, and what they need."""
    lines = []
    for k in range(held):
        lines += [
            f"%place.{k} = getelementptr i64, {pointer} %words, i64 {1 + k}",
            f"%number.{k} = load i64, {pointer} %place.{k}",
        ]
    for k in range(held, held + given):
        lines += [
            f"%place.{k} = getelementptr i64, {pointer} %arguments, i64 {k - held}",
            f"%object.{k} = load i64, {pointer} %place.{k}",
            f"%number.{k} = call i64 @PyLong_AsLongLong(i64 %object.{k})",
        ]
    numbers = ", ".join(f"i64 %number.{k}" for k in range(held + given))
    kinds = ", ".join(["i64"] * (held + given))
    body = "\n  ".join(lines)
    return f"""
declare i64 @PyTuple_GetItem(i64, i64)
declare {pointer} @PyBytes_AsString(i64)
declare i64 @PyLong_AsLongLong(i64)
declare i64 @PyLong_FromLongLong(i64)
declare i64 @PyErr_Occurred()
declare i32 @PyErr_BadArgument()
declare i64 @PyEval_SaveThread()
declare void @PyEval_RestoreThread(i64)
define i64 @trampoline(i64 %self, {pointer} %arguments, i64 %count) {{
  %expected = icmp eq i64 %count, {given}
  br i1 %expected, label %take, label %refuse
refuse:
  %set = call i32 @PyErr_BadArgument()
  ret i64 0
take:
  %bytes = call i64 @PyTuple_GetItem(i64 %self, i64 0)
  %words = call {pointer} @PyBytes_AsString(i64 %bytes)
  %address = load i64, {pointer} %words
  %function = inttoptr i64 %address to {_function_type(kinds, pointer)}
  {body}
  %error = call i64 @PyErr_Occurred()
  %wrong = icmp ne i64 %error, 0
  br i1 %wrong, label %fail, label %run
fail:
  ret i64 0
run:
  %thread = call i64 @PyEval_SaveThread()
  %result = call i32 %function({numbers})
  call void @PyEval_RestoreThread(i64 %thread)
  %whole = sext i32 %result to i64
  %answer = call i64 @PyLong_FromLongLong(i64 %whole)
  ret i64 %answer
}}"""


def _function_type(kinds: str, pointer: str) -> str:
    return pointer if pointer == "ptr" else f"i32 ({kinds})*"
