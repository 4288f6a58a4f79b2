"""Names of policies and other text of unknown origin, cleaned once where they enter."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

_LONGEST = 1000  # characters of a name
_FORMULA = "=+-@"  # with which spreadsheets let formulas begin
_MARK = "(shipped)"  # what reports write behind the names of runs that ship with this package
# A name has letters of one script: of ASCII, or of one of these, of which none looks Latin.
_SCRIPTS = ("CJK UNIFIED IDEOGRAPH", "HIRAGANA LETTER", "KATAKANA LETTER", "HANGUL SYLLABLE")
# Characters that look like others, after case folding.
_ALIKE = str.maketrans("1i|!05$28- .,", "llllossz" + "b____")


def check_name(name: str) -> None:
    """Raise ``ValueError`` for a name of a policy that tables cannot show as what it is."""
    text = name.encode("ascii", "backslashreplace").decode()
    shown = repr(text if len(text) <= 80 else f"{text[:80]}...")
    if not name or len(name) > _LONGEST:
        raise ValueError(
            f"The name {shown} of a policy has {len(name):,} characters; allowed: 1 to "
            f"{_LONGEST:,}."
        )
    scripts = {_script(c) for c in name if c.isalpha() or not c.isascii()}
    if (
        not name.isprintable()
        or name != name.strip()
        or name[0] in _FORMULA
        or "" in scripts
        or len(scripts) > 1
    ):
        raise ValueError(
            f"The name {shown} of a policy cannot be shown in tables; allowed: printable ASCII, or "
            f"letters of one of {', '.join(s.split()[0] for s in _SCRIPTS)} in place of those of "
            f"ASCII, no blank at an end, and none of {' '.join(_FORMULA)} as the first."
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


def _script(character: str) -> str:
    """Return the script of a character; empty if names have no letters of it."""
    if character.isascii():
        return "ASCII"
    described = unicodedata.name(character, "")
    return next((script for script in _SCRIPTS if described.startswith(script)), "")


def _appearance(name: str) -> str:
    """Return what a name looks like: equal for names that a reader may not tell apart."""
    folded = name.casefold().translate(_ALIKE)
    for pair, letter in (("rn", "m"), ("vv", "w"), ("cl", "d")):
        folded = folded.replace(pair, letter)
    return re.sub("_+", "_", folded).strip("_")


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
