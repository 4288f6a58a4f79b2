"""Trained models among policies: what is recognized as one, by type.

A model that was trained elsewhere is one run of a method, even if nothing says so: its episodes
tell nothing about the method's other runs. Whoever means the very policy wraps it in ``Fixed``.
"""

import functools
import itertools
import types
from collections.abc import Iterator, Mapping
from typing import Any, Final

from coopbench.baselines.registry import learners, parse_name
from coopbench.playing.wrapped import Fixed

TORCH: Final = "torch module"
SB3: Final = "model of Stable-Baselines3"
WEIGHTS: Final = "file of weights"
KINDS = (TORCH, SB3, WEIGHTS)

# Classes of the libraries by name, so that nothing has to be imported; policies of
# Stable-Baselines3 are torch modules, too.
_CLASSES = {
    "stable_baselines3.common.base_class.BaseAlgorithm": SB3,
    "stable_baselines3.common.policies.BaseModel": SB3,
    "torch.nn.modules.module.Module": TORCH,
    "coopbench.baselines.networks.network.NetworkPolicy": WEIGHTS,
}
_DEEPEST = 6  # attribute of an attribute: how far models are looked for in an object
_MOST = 10_000  # objects that are looked at
_ACTING = ("act", "__call__", "predict")  # methods that may use a model outside of the object


def trained_kind(policy: Any) -> str:
    """Return what kind of trained model a policy is, or holds: one of ``KINDS``; "" for neither.

    Looked at are the object, what its attributes and containers hold, and of functions the
    variables that they use. A name is a file of weights if it names what a learner has trained.
    """
    if isinstance(policy, str):
        kind = parse_name(policy).kind
        return WEIGHTS if kind == "frozen" or kind in learners() else ""
    level, seen, looked = [policy], dict[int, Any](), 0
    for _ in range(_DEEPEST + 1):
        further = list[Any]()
        for value in level:
            looked += 1
            if looked > _MOST:
                return ""
            if kind := _kind_of(value):
                return kind
            seen[id(value)] = value  # kept alive, so that no other object gets its id
            further += [part for part in _parts(value) if id(part) not in seen]
        level = further
    return ""


def _kind_of(value: Any) -> str:
    """Return the kind of an object by its class alone."""
    names = {f"{base.__module__}.{base.__qualname__}" for base in type(value).__mro__}
    return next((kind for name, kind in _CLASSES.items() if name in names), "")


def _parts(value: Any) -> Iterator[Any]:
    """Yield what an object, a container or a function refers to; nothing of modules and classes."""
    if isinstance(value, Fixed | type | types.ModuleType | str | bytes | int | float | complex):
        return
    if isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, types.MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, types.FunctionType):
        yield from _variables(value)
    elif isinstance(value, Mapping):
        yield from itertools.islice(value.values(), _MOST)
    elif isinstance(value, list | tuple | set | frozenset):
        yield from itertools.islice(value, _MOST)
    else:
        yield from getattr(value, "__dict__", {}).values()
        methods = (getattr(type(value), name, None) for name in _ACTING)
        yield from (method for method in methods if isinstance(method, types.FunctionType))


def _variables(function: types.FunctionType) -> Iterator[Any]:
    """Yield the values of variables that a function uses: its own, and those of its module."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a variable that has no value yet
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    names = function.__globals__
    yield from (names[name] for name in function.__code__.co_names if name in names)
