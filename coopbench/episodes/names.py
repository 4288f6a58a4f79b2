"""Names of policies and other text of unknown origin, cleaned once where they enter."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

__all__ = ["check_name", "cleaned", "imitations", "one_line"]

_LONGEST = 1000  # characters of a name
_FORMULA = "=+-@"  # with which spreadsheets let formulas begin
_MARK = "(shipped)"  # what reports write behind the names of runs that ship with this package
# What is printable and shows nothing: fillers, variation selectors, a braille cell without dots.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U0001d159\U000e0100-\U000e01ef]"
)
# A Latin letter in another form, by its name: LATIN LETTER SMALL CAPITAL I, DOTLESS I.
_LATIN = re.compile(r"LATIN .*\b([A-Z])(?: WITH .*)?")
# Characters that look like others, after case folding: of other scripts, and 1, l and capital i.
_CONFUSABLE = {
    ord(other): letter
    for letter, others in {
        "a": "\u0430\u03b1\u0251\u13aa\ua4ee",
        "b": "\u0432\u03b2\u13f4\ua4d0",
        "c": "\u0441\u03f2\u13df\ua4da",
        "d": "\u0501\u13a0\ua4d3",
        "e": "\u0435\u03b5\u13ac\ua4f0",
        "f": "\u03dd\ua4dd",
        "g": "\u0261\u0581\u13c0\ua4d6",
        "h": "\u04bb\u043d\u0570\u13bb\ua4e7",
        "j": "\u0458\u0575\u13ab\ua4d9",
        "k": "\u043a\u03ba\u13e6\ua4d7",
        "l": "\u04cf\u01c0\u056c\u13de\ua4e1i1|\u0456\u03b9\u0131\u13a5\ua4f2",
        "m": "\u043c\u13b7\ua4df",
        "n": "\u043f\u03b7\u0578\ua4e0",
        "o": "\u043e\u03bf\u03c3\u0585\ua4f30",
        "p": "\u0440\u03c1\u13e2\ua4d1",
        "q": "\u051b\u0566",
        "r": "\u0433\u13a1\ua4e3",
        "s": "\u0455\u13da\ua4e2",
        "t": "\u0442\u03c4\u13a2\ua4d4",
        "u": "\u03c5\u057d\ua4f4",
        "v": "\u03bd\u0475\u13d9\ua4e6",
        "w": "\u051d\u03c9\u13b3\ua4ea",
        "x": "\u0445\u03c7\ua4eb",
        "y": "\u0443\u03b3\u13bd\ua4ec",
        "z": "\u03b6\u13c3\ua4dc",
        "_": " -\u2010\u2011\u2012\u2013\u2014\u2212\u02d7",
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
    if (
        not name.isprintable()
        or name != name.strip()
        or name[0] in _FORMULA
        or _INVISIBLE.search(name) is not None
        or not _appearance(name)
    ):
        raise ValueError(
            f"The name {shown} of a policy cannot be shown in tables; allowed: visible printable "
            f"characters, no blank at an end, and none of {' '.join(_FORMULA)} as the first."
        )
    if _appearance(name).endswith(_appearance(_MARK)):
        raise ValueError(
            f"The name {shown} of a policy ends in {_MARK}, which marks runs that ship with this "
            f"package; leave that out."
        )


def imitations(names: Iterable[str], registered: Iterable[str] = ()) -> dict[str, str]:
    """Return {name: other} for ``names`` that a reader could mistake for another one.

    The other is one of those before it, or one of the ``registered`` names, with which what stands
    before the colon is compared.
    """
    taken = {_appearance(name): name for name in registered}
    seen, alike = dict[str, str](), dict[str, str]()
    for name in dict.fromkeys(names):
        kind, looks = name.partition(":")[0], _appearance(name)
        other = taken.get(_appearance(kind), kind)
        if other != kind:
            alike[name] = other
        elif seen.setdefault(looks, name) != name:
            alike[name] = seen[looks]
    return alike


def _appearance(name: str) -> str:
    """Return what a name looks like: equal for names that a reader cannot tell apart."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    shown = _INVISIBLE.sub("", "".join(c for c in plain if not unicodedata.combining(c)))
    latin = "".join(_in_latin(c) for c in shown if c.isprintable())
    folded = latin.translate(_CONFUSABLE).replace("rn", "m").replace("vv", "w")
    return re.sub("_+", "_", folded).strip("_")


def _in_latin(character: str) -> str:
    match = _LATIN.fullmatch(unicodedata.name(character, ""))
    return character if match is None else match[1].lower()


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
