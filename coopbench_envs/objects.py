"""Objects: compiled functions as object files that llvmlite loads, without numba and a linker.

An object file has one function, ``entry``. It takes the address of packed arguments (``packing``)
and then the last arguments, which are whole numbers, one by one. It returns what the function
returns: 1 or 0, or ``RAISED`` where the function has raised an error.
"""

import ctypes
from typing import Any, NamedTuple

from coopbench_envs.calls import Code
from coopbench_envs.targets import Target, initialized, machine, usable

__all__ = ["RAISED", "Lowered", "Object", "emitted", "loaded"]

_ENTRY = "entry"
RAISED = -1
_ROUNDED = ("sqrt", "sqrtf")


class Lowered(NamedTuple):
    """A function as LLVM's code: a module of llvmlite's, or its text, and the function's name."""

    code: Any
    symbol: str


class Object(NamedTuple):
    """An object file, and the functions that it calls but does not hold, by name."""

    content: bytes
    calls: tuple[str, ...]


def emitted(lowered: Lowered, numbers: int, to: Target) -> Object:
    """Return the object file of a function whose last ``numbers`` arguments are whole numbers."""
    code, processor = lowered.code, machine(to)
    module = initialized().parse_assembly(str(code))
    parameters = [str(argument.type) for argument in module.get_function(lowered.symbol).arguments]
    entry = _entry(lowered.symbol, parameters, numbers, module)
    module.link_in(initialized().parse_assembly(entry))
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name != _ENTRY:
            value.linkage = "private"  # without a name in the file: numba counts in names
    _optimize(module, processor)
    module.verify()
    declared = [function.name for function in module.functions if function.is_declaration]
    calls = tuple(sorted(name for name in declared if not name.startswith("llvm.")))
    return Object(bytes(processor.emit_object(module)), calls)


def _entry(symbol: str, parameters: list[str], numbers: int, module: Any) -> str:
    """Return the code of ``entry``, which calls the function ``symbol`` with unpacked arguments.

    ``parameters`` are the types of the function's: of the places for its result and for an error,
    of the packed arguments, and of the ``numbers``.
    """
    pointer = "ptr" if parameters[0] == "ptr" else "i64*"
    lines, arguments = [], []
    for kind, name in zip(parameters, ("result", "error"), strict=False):
        lines += [
            f"%{name} = alloca i64",
            f"store i64 0, {pointer} %{name}",
            f"%{name}.at = ptrtoint {pointer} %{name} to i64",
            f"%{name}.as = inttoptr i64 %{name}.at to {kind}",
        ]
        arguments.append(f"{kind} %{name}.as")
    for k, kind in enumerate(parameters[2 : len(parameters) - numbers]):
        lines += [
            f"%at.{k} = getelementptr i64, {pointer} %words, i64 {k}",
            f"%word.{k} = load i64, {pointer} %at.{k}",
            *_converted(k, kind),
        ]
        arguments.append(f"{kind} %value.{k}")
    given = [f"i64 %number.{k}" for k in range(numbers)]
    body = "\n  ".join(lines)
    return f'''
target triple = "{module.triple}"
target datalayout = "{module.data_layout}"
declare i32 @"{symbol}"({", ".join(parameters)})
define i32 @{_ENTRY}({", ".join(["i64 %packed", *given])}) {{
  %words = inttoptr i64 %packed to {pointer}
  {body}
  %status = call i32 @"{symbol}"({", ".join([*arguments, *given])})
  %raised = icmp ne i32 %status, 0
  %whole = load i64, {pointer} %result
  %bit = trunc i64 %whole to i1
  %returned = zext i1 %bit to i32
  %answer = select i1 %raised, i32 {RAISED}, i32 %returned
  ret i32 %answer
}}'''


def _converted(k: int, kind: str) -> list[str]:
    """Return the code that makes word ``k`` a value of a kind."""
    if kind == "ptr" or kind.endswith("*"):
        return [f"%value.{k} = inttoptr i64 %word.{k} to {kind}"]
    if kind == "i64":
        return [f"%value.{k} = add i64 %word.{k}, 0"]
    if kind == "double":
        return [f"%value.{k} = bitcast i64 %word.{k} to double"]
    if kind == "float":
        half = f"%half.{k} = trunc i64 %word.{k} to i32"
        return [half, f"%value.{k} = bitcast i32 %half.{k} to float"]
    return [f"%value.{k} = trunc i64 %word.{k} to {kind}"]


def _optimize(module: Any, processor: Any) -> None:
    binding = initialized()
    options = binding.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization, options.slp_vectorization = True, False
    builder = binding.create_pass_builder(processor, options)
    builder.getModulePassManager().run(module, builder)


def lacking(made: Object) -> list[str]:
    """Return what an object file calls and this process does not have."""
    binding = initialized()
    absent = [name for name in made.calls if binding.address_of_symbol(name) is None]
    return [name for name in absent if not _taken_from_c(name)]


def _taken_from_c(name: str) -> bool:
    """Let machine code call a function of C's library, of those that round correctly everywhere."""
    if name not in _ROUNDED:
        return False
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):  # a system without a table of all functions
        return False
    initialized().add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
    return True


def loaded(made: Object, numbers: int) -> Code:
    """Return the function of an object file: (address, *numbers) -> 1, 0 or RAISED.

    Raises ``ValueError`` for one that calls what this process does not have.
    """
    binding = initialized()
    missing = lacking(made)
    if missing:
        raise ValueError(f"it calls {', '.join(missing)}, which this process does not have")
    # An engine for each object: all have a function of the same name.
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine(usable()[0]))
    engine.add_object_file(binding.ObjectFileRef.from_data(made.content))
    engine.finalize_object()
    return Code(engine.get_function_address(_ENTRY), 1 + numbers, engine)
