"""Names of policies and other text of unknown origin, cleaned once where they enter."""

from collections.abc import Iterable
from typing import Any

_LONGEST = 1000  # characters of a name
_FORMULA = "=+-@"  # with which spreadsheets let formulas begin
_MARK = "(shipped)"  # what reports write behind the names of runs that ship with this package


def check_name(name: str) -> None:
    """Raise ``ValueError`` for a name of a policy that tables cannot show as what it is."""
    check_foreign_name(name, "a policy")
    if not name.isprintable() or name != name.strip() or name[0] in _FORMULA:
        raise ValueError(
            f"The name {_shown(name)} of a policy cannot be shown in tables; allowed: printable "
            f"characters, no blank at an end, and none of {' '.join(_FORMULA)} as the first."
        )


def check_foreign_name(name: str, what: str) -> None:
    """Raise ``ValueError`` for a name that would pass for that of runs that ship, or is too long.

    Logs of other programs may have any other name that is not empty. ``what`` it names stands in
    the message.
    """
    if not name or len(name) > _LONGEST:
        raise ValueError(
            f"The name {_shown(name)} of {what} has {len(name):,} characters; allowed: 1 "
            f"to {_LONGEST:,}."
        )
    if name.rstrip().casefold().endswith(_MARK):
        raise ValueError(
            f"The name {_shown(name)} of {what} ends in {_MARK}, which marks runs that "
            f"ship with this package; leave that out."
        )


def _shown(name: str) -> str:
    """Return a name as messages quote it: in ASCII, the first characters of a long one."""
    text = name.encode("ascii", "backslashreplace").decode()
    return repr(text if len(text) <= 80 else f"{text[:80]}...")


def check_case(what: str, names: Iterable[str], advice: str) -> None:
    """Raise ``ValueError`` for two names that differ by case alone: they may share a folder.

    ``what`` they name begins the message; ``advice`` says what to do, without a full stop.
    """
    spelled: dict[str, str] = {}
    for name in names:
        other = spelled.setdefault(name.casefold(), name)
        if other != name:
            raise ValueError(
                f"{what} {other!r} and {name!r} differ in upper and lower case only; {advice}."
            )


def names_given(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return names that a caller gives as a list, or as one text; none for None."""
    return (names,) if isinstance(names, str) else tuple(names or ())


def one_line(text: str) -> str:
    """Return text as one line that a terminal can show: other characters as escapes."""
    if text.isprintable():
        return text
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
