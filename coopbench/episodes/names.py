"""Names of policies and other text of unknown origin, cleaned once where they enter."""

import unicodedata
from collections.abc import Iterable
from typing import Any

__all__ = ["check_name", "cleaned", "imitated", "one_line"]

_LONGEST = 1000  # characters of a name
_FORMULA = "=+-@"  # with which spreadsheets let formulas begin
# Letters of other scripts that look like Latin ones, in lower case.
_CONFUSABLE = {
    ord(other): letter
    for letter, others in {
        "a": "\u0430\u03b1\u0251",
        "e": "\u0435\u03b5",
        "o": "\u043e\u03bf\u03c3",
        "p": "\u0440\u03c1",
        "c": "\u0441",
        "y": "\u0443\u03b3",
        "x": "\u0445\u03c7",
        "i": "\u0456\u03b9\u0131",
        "j": "\u0458",
        "s": "\u0455",
        "h": "\u04bb\u043d",
        "d": "\u0501",
        "q": "\u051b",
        "w": "\u051d\u03c9",
        "l": "\u04cf\u01c0",
        "k": "\u043a\u03ba",
        "m": "\u043c",
        "t": "\u0442\u03c4",
        "b": "\u0432",
        "r": "\u0433",
        "n": "\u043f\u03b7",
        "v": "\u03bd",
        "u": "\u03c5",
        "g": "\u0261",
        "-": "\u2010\u2011\u2012\u2013\u2014\u2212\u02d7",
    }.items()
    for other in others
}


def check_name(name: str) -> None:
    """Raise ``ValueError`` for a name of a policy that tables cannot show as what it is."""
    text = name.encode("ascii", "backslashreplace").decode()
    shown = repr(text if len(text) <= 80 else f"{text[:80]}...")
    if not name or len(name) > _LONGEST:
        raise ValueError(
            f"The name {shown} of a policy has {len(name):,} characters; allowed: 1 to "
            f"{_LONGEST:,}."
        )
    if not name.isprintable() or name != name.strip() or name[0] in _FORMULA:
        raise ValueError(
            f"The name {shown} of a policy cannot be shown in tables; allowed: printable "
            f"characters, no blank at an end, and none of {' '.join(_FORMULA)} as the first."
        )


def imitated(name: str, names: Iterable[str]) -> str | None:
    """Return the one of ``names`` that ``name`` could be mistaken for; None if it is none.

    Names with values are compared by what stands before the colon, and a name does not imitate
    itself.
    """
    kind = name.partition(":")[0]
    reference = tuple(names)
    if kind in reference:
        return None
    looks = _appearance(kind)
    return next((other for other in reference if _appearance(other) == looks), None)


def _appearance(name: str) -> str:
    """Return what a name looks like: equal for names that a reader cannot tell apart."""
    plain = unicodedata.normalize("NFKD", name).casefold().translate(_CONFUSABLE)
    return "".join(c for c in plain if not unicodedata.combining(c) and c.isprintable()).strip()


def one_line(text: str) -> str:
    """Return text as one line that a terminal can show: other characters as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def cleaned(value: Any) -> Any:
    """Return a value of JSON with every text, keys included, as ``one_line`` does it."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {one_line(key): cleaned(item) for key, item in value.items()}
    return value
