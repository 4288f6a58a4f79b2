"""Base of the sections of a protocol: frozen values, strict about keys and types."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Strict(BaseModel):
    """Base of all sections: frozen, no further keys, no conversion of types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _unset(value: object) -> bool:
    return value is None


def later(**facts: Any) -> Any:
    """Declare a key that a later version added: protocols without it keep their digest."""
    return Field(default=None, exclude_if=_unset, **facts)


def as_float(value: Any) -> Any:
    """Turn a whole number into a float, for which strict checks ask."""
    try:
        return float(value) if type(value) is int else value
    except OverflowError:
        raise ValueError("is too large for a float; allowed: up to 1.8e308") from None


def as_tuple(value: Any) -> Any:
    """Turn the lists of TOML and JSON into tuples."""
    return tuple(value) if isinstance(value, list) else value
