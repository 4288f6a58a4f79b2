"""Merging: numba's compiler, with the code of kernels in the place of their calls.

Numba does the same for functions with ``inline="always"``, but copies all of a function twice at
each call on each level, and keeps a variable for every argument of a call, most of which hold all
arrays of an environment. Here a kernel is read once, and its parameters become the caller's
variables: small games compile in half the time. Functions that are called are passed the fields of
tuples that they read, not all.

This is the one module for the CPU that uses what numba does not document. Which versions have that
is up to ``lowering``, which compiles without this module where they have not.
"""

import copy
import functools
import inspect
import itertools
from collections import Counter, namedtuple
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from numba import njit, types
from numba.core import compiler, ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import (
    build_definitions,
    get_definition,
    guard,
    replace_vars,
    resolve_func_from_module,
    simplify_CFG,
)
from numba.core.postproc import PostProcessor
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NopythonRewrites
from numba.core.typing import Context
from numba.core.untyped_passes import InlineClosureLikes, IRProcessing, LiteralUnroll

from coopbench_envs.errors import KernelError

__all__ = ["MergingInner", "MergingOuter", "dispatcher", "module_of"]


_CONSTANTS = (ir.Global, ir.FreeVar, ir.Const)


class Merging(compiler.CompilerBase):
    """Numba's compiler, with kernels merged as soon as the source has been read."""

    def define_pipelines(self) -> list[Any]:
        """Return what is done to a function, in order."""
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (_InlineClosures if step is InlineClosureLikes else step, what)
            for step, what in passes.passes
            if step is not NopythonRewrites  # for expressions of whole arrays, which allocate
        ]
        passes.add_pass_after(_MergeKernels, IRProcessing)
        passes.add_pass_after(_ReadFieldsOnce, LiteralUnroll)
        passes.finalize()
        self.state.typingctx = _Typing(self.state.typingctx)
        return [passes]


class MergingOuter(Merging):
    """The compiler of functions that become object files: it makes no machine code."""

    library: ClassVar[type]

    def define_pipelines(self) -> list[Any]:
        """Return what is done to a function, in order."""
        state = self.state
        state.library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
        state.library.__class__ = self.library
        state.flags.no_compile = True
        return super().define_pipelines()


class MergingInner(MergingOuter):
    """The compiler of functions that only other compiled functions call.

    They are optimised again with their callers, so most passes of LLVM over modules are left out.
    """


class _Typing(Context):
    """Numba's typing context, with a memory of what operators and built-in functions return.

    Numba tries all versions of an operator at each of its uses, a quarter of the time to compile
    small games.
    """

    _resolved: ClassVar[dict[Any, Any]] = {}

    def __init__(self, context: Context) -> None:
        self.__dict__ = context.__dict__

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Return the signature of ``func`` for arguments of these types; None if there is none."""
        built_in = isinstance(func, types.Function) or not isinstance(func, types.Type)
        if kws or not built_in or not all(isinstance(a, types.Type) for a in args):
            return super().resolve_function_type(func, args, kws)
        call = func, tuple(args)
        if call not in self._resolved:
            signature = super().resolve_function_type(func, args, kws)
            if signature is None:
                return None
            self._resolved[call] = signature
        return self._resolved[call]


class _OuterLibrary(JITCodeLibrary):
    """The code of a function that becomes an object file, which is where it is optimised."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


class _InnerLibrary(_OuterLibrary):
    """The code of a function that only others call."""

    _optimize_functions = JITCodeLibrary._optimize_functions

    def _optimize_final_module(self) -> None:
        # The first of numba's two runs. The second takes a quarter of the time to compile Routing.
        code = self._codegen
        passes = code._module_pass_manager(
            loop_vectorize=code._loopvect, slp_vectorize=False, opt=code._opt_level, cost="cheap"
        )
        manager, *builder = passes if isinstance(passes, tuple) else (passes,)  # by numba's version
        manager.run(self._final_module, *builder)


MergingOuter.library, MergingInner.library = _OuterLibrary, _InnerLibrary


class _Dispatcher(CPUDispatcher):
    """A function that is compiled without machine code of its own."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return what numba asks a call for, without a version for every literal argument."""
        return super().get_call_template([types.unliteral(argument) for argument in args], kws)

    def add_overload(self, cres: Any) -> None:
        """Keep what was compiled for other compiled functions; the entry point tells it apart."""
        cres = cres._replace(entry_point=object())
        self.targetctx.insert_user_function(cres.entry_point, cres.fndesc, [cres.library])
        self.overloads[tuple(cres.signature.args)] = cres


def dispatcher(function: Any, compiler_class: type[Merging], flags: Mapping[str, Any]) -> Any:
    """Return what compiles a function by a compiler of this module."""
    flags = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **flags}
    made = njit(pipeline_class=compiler_class, **flags)(function)
    made.__class__ = _Dispatcher
    return made


def module_of(dispatcher: Any, signature: Any) -> tuple[Any, str]:
    """Return the module of a function that ``MergingOuter`` has compiled, and the name of it."""
    result = dispatcher.overloads[signature]
    with global_compiler_lock:
        result.library.finalize()  # takes in the functions that it calls
    return result.library._final_module, result.fndesc.llvm_func_name


class _Pass(FunctionPass):
    """What is done to a function; numba declares the constructor abstract."""

    def __init__(self) -> None:
        super().__init__()


@register_pass(mutates_CFG=True, analysis_only=False)
class _MergeKernels(_Pass):
    _name = "merge_kernels"

    def run_pass(self, state: Any) -> bool:
        """Merge all kernels into the function, and narrow what it passes to others."""
        merged, narrowed = _merge(state.func_ir, {}), _narrow(state.func_ir)
        if merged or narrowed:
            PostProcessor(state.func_ir).run()
        return merged or narrowed


@register_pass(mutates_CFG=True, analysis_only=False)
class _InlineClosures(InlineClosureLikes):
    _name = "inline_closures"

    def run_pass(self, state: Any) -> bool:
        """Merge functions that are defined inside the function; most have none."""
        blocks = state.func_ir.blocks.values()
        if not any(True for block in blocks for _ in block.find_exprs("make_function")):
            return False
        return bool(super().run_pass(state))


@register_pass(mutates_CFG=False, analysis_only=False)
class _ReadFieldsOnce(_Pass):
    _name = "read_fields_once"

    def run_pass(self, state: Any) -> bool:
        """Take the fields of parameters, which never change, where the function begins."""
        _read_fields_once(state.func_ir)
        return True


def _merge(caller: Any, kernels: dict[Any, Any]) -> bool:
    """Merge all kernels into ``caller``; return whether there are any.

    ``kernels`` are those that have been read, with the kernels that they call merged into them.
    """
    parameters = _parameters(caller)
    labels, numbers = itertools.count(max(caller.blocks) + 1), itertools.count()
    blocks = {}
    for label, block in caller.blocks.items():
        blocks[label] = current = ir.Block(block.scope, block.loc)
        for statement in block.body:
            function = _called(caller, statement, merged=True)
            if function is None:
                current.append(statement)
                continue
            if function not in kernels:
                kernels[function] = compiler.run_frontend(function)
                _merge(kernels[function], kernels)
            after = ir.Block(block.scope, statement.loc)
            arguments = _arguments(caller, function, statement.value, parameters)
            copied = _copied(kernels[function], arguments, statement, after, labels, numbers)
            current.append(ir.Jump(min(copied), statement.loc))
            blocks |= copied
            current = after
    if len(blocks) == len(caller.blocks):
        return False
    caller.blocks = simplify_CFG(blocks)
    caller._definitions = build_definitions(caller.blocks)
    return True


def _read_fields_once(function: Any) -> None:
    """Read fields of parameters in the first block, and leave out copies of parameters."""
    parameters, number = _parameters(function), _assignments(function)
    same: dict[str, Any] = {}  # the variable that another one equals, by the other's name
    for statement in _assigning(function):
        if isinstance(statement.value, ir.Var) and number[statement.target.name] == 1:
            source = guard(get_definition, function, statement.value, lhs_only=True)
            if isinstance(source, ir.Var) and source.name in parameters:
                same[statement.target.name] = source
    _leave_out(function, same)

    same, fields = {}, {}
    first = function.blocks[min(function.blocks)]
    for statement in _assigning(function):
        value = statement.value
        is_read = isinstance(value, ir.Expr) and value.op == "getattr"
        if is_read and value.value.name in parameters and number[statement.target.name] == 1:
            name = f"{value.value.name}.{value.attr}"
            if name not in fields:
                fields[name] = ir.Assign(value, first.scope.define(name, value.loc), value.loc)
            same[statement.target.name] = fields[name].target
    _leave_out(function, same)
    arguments = [isinstance(getattr(s, "value", None), ir.Arg) for s in first.body]
    begin = len(arguments) - arguments[::-1].index(True) if any(arguments) else 0
    first.body[begin:begin] = fields.values()
    function._definitions = build_definitions(function.blocks)


def _leave_out(function: Any, same: dict[str, Any]) -> None:
    """Leave out variables that are the ``same`` as others, by name."""
    for block in function.blocks.values():
        block.body = [
            s for s in block.body if not (isinstance(s, ir.Assign) and s.target.name in same)
        ]
    replace_vars(function.blocks, same)


def _assigning(function: Any) -> Iterator[Any]:
    """Yield all assignments in ``function``."""
    for block in function.blocks.values():
        yield from block.find_insts(ir.Assign)


def _assignments(function: Any) -> Counter[str]:
    """How often each variable is assigned to in the source of ``function``, by name."""
    return Counter(statement.target.name for statement in _assigning(function))


def _parameters(function: Any) -> set[str]:
    """Names of the parameters that ``function`` never assigns to."""
    number = _assignments(function)
    return {name for name in function.arg_names if number[name] == 1}


def _called(caller: Any, statement: Any, merged: bool) -> Any:
    """Return the Python function that ``statement`` calls, or None.

    Either kernels that are ``merged`` count, or marked functions that are compiled by themselves.
    """
    call = getattr(statement, "value", None)
    if not isinstance(call, ir.Expr) or call.op != "call" or call.vararg or call.varkwarg:
        return None
    definition = guard(get_definition, caller, call.func)
    if isinstance(definition, ir.Expr) and definition.op == "getattr":
        value = guard(resolve_func_from_module, caller, definition)
    else:
        value = definition.value if isinstance(definition, _CONSTANTS) else None
    is_merged = getattr(value, "targetoptions", {}).get("inline") == "always"
    is_counted = is_merged if merged else hasattr(value, "dispatcher") and not is_merged
    return value.py_func if is_counted else None


def _narrow(caller: Any) -> bool:
    """Pass on of tuples only the fields that are read there; return whether any is narrowed.

    A tuple of all arrays of an environment is some hundred arguments in machine code. Where they
    are passed on, most of a function's code is to pack and to unpack them.
    """
    narrowed = False
    for block in caller.blocks.values():
        body: list[Any] = []
        for statement in block.body:
            function = _called(caller, statement, merged=False)
            if function is not None:
                reads = _reads(function)
                given = _given(function, statement.value)
                for name, value in given.items():
                    if isinstance(value, ir.Var) and reads[name]:
                        given[name] = _fields_of(value, reads[name], block.scope, body)
                        narrowed = True
                positions = len(statement.value.args)
                statement.value.args = list(given.values())[:positions]
                statement.value.kws = tuple(given.items())[positions:]
            body.append(statement)
        block.body = body
    caller._definitions = build_definitions(caller.blocks)
    return narrowed


def _fields_of(value: Any, reads: dict[str, Any], scope: Any, body: list[Any]) -> Any:
    """Append statements that make a tuple of fields of ``value``; return its variable.

    ``reads`` are the places that read them, by name: errors tell these.
    """

    def assigned(expression: Any) -> Any:
        variable = scope.redefine("narrowed", expression.loc, rename=True)
        body.append(ir.Assign(expression, variable, expression.loc))
        return variable

    kind = assigned(ir.Global("narrowed", _tuple_of(tuple(reads)), value.loc))
    fields = [assigned(ir.Expr.getattr(value, name, loc)) for name, loc in reads.items()]
    return assigned(ir.Expr.call(kind, fields, (), value.loc))


@functools.cache
def _tuple_of(names: tuple[str, ...]) -> Any:
    """Return the class of tuples of fields of these names."""
    return namedtuple("Narrowed", names)


@functools.cache
def _reads(function: Any) -> dict[str, dict[str, Any]]:
    """Return the fields that a function reads of each parameter, and where, by their names.

    There are none for a parameter of which it uses more than fields.
    """
    source = compiler.run_frontend(function)
    _merge(source, {})
    number, parameters = _assignments(source), _parameters(source)
    roots = {name: name for name in parameters}  # parameter, by the name of it or of its copies
    read: dict[str, dict[str, Any]] = {name: {} for name in source.arg_names}
    whole = set(source.arg_names) - parameters
    for label in sorted(source.blocks):
        for statement in source.blocks[label].body:
            value: Any = getattr(statement, "value", None)
            is_expression = isinstance(value, ir.Expr)
            if isinstance(value, ir.Arg):
                continue
            is_copy = isinstance(statement, ir.Assign) and isinstance(value, ir.Var)
            if is_copy and value.name in roots and number[statement.target.name] == 1:
                roots[statement.target.name] = roots[value.name]
                continue
            if is_expression and value.op == "getattr" and value.value.name in roots:
                read[roots[value.value.name]].setdefault(value.attr, value.loc)
                continue
            called = _called(source, statement, merged=False)
            passed = {} if called is None else _given(called, value)
            for name, variable in passed.items():
                fields = _reads(called)[name] if isinstance(variable, ir.Var) else {}
                if fields and variable.name in roots:
                    read[roots[variable.name]] |= fields
                    passed[name] = None
            used = [v for v in passed.values() if isinstance(v, ir.Var)]
            for variable in used if passed else statement.list_vars():
                whole |= {roots.get(variable.name, "")}
    return {
        name: {} if name in whole else dict(sorted(fields.items())) for name, fields in read.items()
    }


def _given(function: Any, call: Any) -> dict[str, Any]:
    """Return the arguments of a call by the names of the function's parameters, in their order."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*call.args, **dict(call.kws))
    except TypeError as error:
        takes = f"{function.__name__}{signature}"
        raise KernelError(f"{takes} is called wrongly in {call.loc}: {error}.") from None
    return bound.arguments


def _arguments(caller: Any, function: Any, call: Any, parameters: set[str]) -> list[Any]:
    """Return what ``function`` is called with, in the order of its parameters.

    These are variables, the caller's own ``parameters`` where it passes one on, and constants.
    """
    defaults = inspect.signature(function).parameters.values()
    given = _given(function, call)
    bound = [given.get(parameter.name, parameter.default) for parameter in defaults]
    values = []
    for value in bound:
        if isinstance(value, ir.Var):
            definition = guard(get_definition, caller, value, lhs_only=True)
            passed_on = isinstance(definition, ir.Var) and definition.name in parameters
            values.append(definition if passed_on else value)
        else:
            values.append(ir.Const(value, call.loc))
    return values


def _copied(
    kernel: Any,
    arguments: list[Any],
    call: Any,
    after: Any,
    labels: Iterator[int],
    numbers: Iterator[int],
) -> dict[int, Any]:
    """Return copies of a kernel's blocks, and the block ``after`` the ``call``, by their labels."""
    moved = {label: next(labels) for label in sorted(kernel.blocks)}
    end = next(labels)
    variables = {}
    for name in _parameters(kernel):
        value = arguments[kernel.arg_names.index(name)]
        if isinstance(value, ir.Var):
            variables[name] = value

    def caller_variable(variable: Any) -> Any:
        """Return the caller's variable for a ``variable`` of the kernel."""
        name = variable.name
        if name not in variables:
            unique = f"{name.partition('~')[0]}~{next(numbers)}"
            variables[name] = after.scope.define(unique, variable.loc)
        return variables[name]

    copies = {}
    for label, block in kernel.blocks.items():
        copies[moved[label]] = copied = ir.Block(after.scope, block.loc)
        for statement in block.body:
            if isinstance(statement, ir.Return):
                copied.append(ir.Assign(caller_variable(statement.value), call.target, call.loc))
                copied.append(ir.Jump(end, call.loc))
            elif not isinstance(getattr(statement, "value", None), ir.Arg):
                copied.append(_renamed(statement, caller_variable, moved))
            elif statement.target.name not in variables:
                value = arguments[statement.value.index]
                copied.append(ir.Assign(value, caller_variable(statement.target), statement.loc))
    copies[end] = after
    return copies


def _renamed(value: Any, variable_of: Callable[[Any], Any], moved: dict[int, int]) -> Any:
    """Return a copy of a statement, or of a part of one, with other variables and labels."""
    if isinstance(value, ir.Var):
        return variable_of(value)
    if isinstance(value, ir.Jump):
        return ir.Jump(moved[value.target], value.loc)
    if isinstance(value, ir.Branch):
        return ir.Branch(
            variable_of(value.cond), moved[value.truebr], moved[value.falsebr], value.loc
        )
    if isinstance(value, ir.Inst):
        renamed = object.__new__(type(value))
        renamed.__dict__.update(
            {k: _renamed(v, variable_of, moved) for k, v in value.__dict__.items()}
        )
        return renamed
    if isinstance(value, dict):
        return {key: _renamed(part, variable_of, moved) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_renamed(part, variable_of, moved) for part in value)
    return copy.copy(value) if isinstance(value, ir.Const) else value
