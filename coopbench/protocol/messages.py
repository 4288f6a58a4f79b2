"""Messages about what is wrong with a protocol or another file of keys, and what is allowed."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from coopbench.protocol.schema import Protocol
from coopbench_envs.parameters import unknown

_LONGEST = 600  # characters of one message


def explained(
    error: ValidationError,
    arguments: Mapping[str, str] | None = None,
    model: type[BaseModel] = Protocol,
) -> str:
    """Return one line for each problem of a protocol: its key and what is wrong with its value.

    ``arguments`` are what stands in place of keys that the user has not written. What is wrong may
    also be a file of another ``model``.
    """
    return "\n".join(_line(problem, arguments or {}, model) for problem in _problems(error))


def reasons(error: ValidationError) -> list[str]:
    """Return what is wrong with a protocol without the keys, each reason once."""
    return list(dict.fromkeys(_message(problem) for problem in _problems(error)))


def _problems(invalid: ValidationError) -> list[Any]:
    """Return pydantic's errors without those of lists whose only problem is one of their items."""
    errors = invalid.errors()
    places = [error["loc"] for error in errors]
    return [e for e in errors if not any(_is_below(place, e["loc"]) for place in places)]


def _is_below(place: tuple[Any, ...], parent: tuple[Any, ...]) -> bool:
    return len(place) > len(parent) and place[: len(parent)] == parent


def _line(problem: Any, arguments: Mapping[str, str], model: type[BaseModel]) -> str:
    key = ".".join(str(part) for part in problem["loc"]) or model.__name__.lower()
    key = arguments.get(key, key)
    message = _message(problem)
    if problem["type"] == "extra_forbidden":
        message = unknown("key", str(problem["loc"][-1]), _keys(problem["loc"][:-1], model))
    elif problem["type"] == "missing":
        message = "is missing; add it"
    elif problem["type"] == "model_type":
        message = f"was {problem['input']!r}; allowed: a table of keys"
    elif not isinstance(problem["input"], (dict, list, tuple, bytes)):
        message = f"{message} (given {problem['input']!r})"
    return f"  {key}: {message[:_LONGEST]}" if key else f"  {message[:_LONGEST]}"


def _message(problem: Any) -> str:
    return str(problem["msg"]).removeprefix("Value error, ")


def _keys(location: tuple[Any, ...], model: type[BaseModel]) -> list[str]:
    """Return the names of the keys that are allowed at a location of a model."""
    for part in location:
        if part in model.model_fields:
            model = next(_models(model.model_fields[part].annotation), model)
    extra = ["extends"] if model is Protocol else []
    fields = ((field.alias or name) for name, field in model.model_fields.items())
    return [*(name for name in fields if name != "ad_hoc"), *extra]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the sections in the type of a field: in lists, in tables, and in unions with None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
