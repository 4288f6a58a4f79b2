"""Reading the JSON files of maps and units: bounded, and with errors that name file and place."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from coopbench_envs.parameters import unknown
from coopbench_envs.reading import read_regular

__all__ = ["Fields", "read_json"]

_LARGEST = 1 << 22  # bytes of a file
_LONG = 10**50  # numbers from here on are not quoted


def read_json(path: Path, what: str) -> dict[str, Any]:
    """Return the object in a JSON file; ``what`` says in errors what the file describes.

    Raises:
        ValueError: there is no such regular file, it is too large, or it is not a JSON object.
    """
    where = f"The {what} {str(path)!r}"
    try:
        # Editors of Windows write a byte order mark at the beginning.
        text = read_regular(path, _LARGEST).decode("utf-8-sig")
    except OSError as error:
        raise ValueError(f"{where} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"{where} is not text in UTF-8.") from None
    try:
        content = json.loads(text, object_pairs_hook=_object)
    except _RepeatedError as error:
        raise ValueError(f"{where} has the entry {error.args[0]!r} twice; keep one.") from None
    except (json.JSONDecodeError, RecursionError):
        raise ValueError(f"{where} is not valid JSON.") from None
    except ValueError:
        raise ValueError(f"{where} has a number of too many digits.") from None
    if not isinstance(content, dict):
        raise ValueError(f"{where} must be a JSON object, {{...}}.")
    return content


class _RepeatedError(Exception):
    """A JSON object has an entry twice; the argument is its name."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these entries; raise ``_RepeatedError`` if two have the same name."""
    content: dict[str, Any] = {}
    for name, value in pairs:
        if name in content:
            raise _RepeatedError(name)
        content[name] = value
    return content


class Fields:
    """The entries of a JSON object, each checked as it is read; ``where`` begins every error."""

    def __init__(self, content: Mapping[str, Any], where: str, names: Collection[str]) -> None:
        self.content, self.where = content, where
        for name in content:
            if name not in names:
                raise ValueError(unknown("entry", name, names, where))

    def __contains__(self, name: str) -> bool:
        return name in self.content

    def wrong(self, name: str, allowed: str) -> ValueError:
        """Return the error that the entry ``name`` is not what is ``allowed``."""
        if name not in self.content:
            return ValueError(f"{self.where} lacks the entry {name!r}; it must be {allowed}.")
        value = self.content[name]
        if isinstance(value, int) and abs(value) >= _LONG:
            short = f"a number of more than {len(str(_LONG)) - 1} digits"
        else:
            short = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}..."
        return ValueError(f"{self.where}: {name!r} was {short}; allowed: {allowed}.")

    def number(
        self,
        name: str,
        low: float,
        high: float,
        default: float | None = None,
        *,
        above: bool = False,
    ) -> float:
        """Return a finite number in [low, high], or above ``low``."""
        value = self.content.get(name, default)
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not fits or not low <= value <= high:  # nan is not
            raise self.wrong(name, f"a number in [{low:g}, {high:g}]")
        if above and value == low:
            raise self.wrong(name, f"a number in ({low:g}, {high:g}]")
        return float(value)

    def whole(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """Return a whole number in [low, high]."""
        value = self.content.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.wrong(name, f"a whole number in [{low}, {high}]")
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        """Return true or false."""
        value = self.content.get(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def word(self, name: str, words: Collection[str], default: str | None = None) -> str:
        """Return one of ``words``."""
        value = self.content.get(name, default)
        if not isinstance(value, str):
            raise self.wrong(name, f"one of {', '.join(words)}")
        if value not in words:
            raise ValueError(unknown("word", value, words, f"{name!r} of {self.where}"))
        return value

    def words(self, name: str, words: Collection[str]) -> frozenset[str]:
        """Return a list of some of ``words``, as a set."""
        value = self.content.get(name)
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise self.wrong(name, f"a list of some of {', '.join(words)}")
        for word in value:
            if word not in words:
                raise ValueError(unknown("word", word, words, f"{name!r} of {self.where}"))
        return frozenset(value)

    def mapping(self, name: str) -> dict[str, Any]:
        """Return an object, empty if the entry is absent."""
        value = self.content.get(name, {})
        if not isinstance(value, dict):
            raise self.wrong(name, "an object, {...}")
        return value
