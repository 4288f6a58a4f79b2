"""Parameters as data: what a user may write, checked once, with errors that say what to do."""

import functools
import math
from collections import namedtuple
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Annotated, Any, get_args, get_origin, get_type_hints

__all__ = [
    "Allowed",
    "between",
    "check_count",
    "describe",
    "is_whole",
    "joined",
    "named",
    "nearest",
    "one_of",
    "positive",
    "resolve",
    "span",
    "unknown",
]

_MANY = 20  # names that a message repeats


@dataclass(frozen=True, slots=True)
class Allowed:
    """Which values a parameter may take and what it means; stands in ``Annotated`` types.

    With ``text`` alone every value of the type is allowed; the environment checks the entries of
    mappings and lists.
    """

    text: str
    low: float = -math.inf
    high: float = math.inf
    above: bool = False  # True: low itself is not allowed
    choices: tuple[str, ...] = ()
    prefix: str = ""  # texts that begin with it, and go on, are allowed, too
    pair: bool = False  # True: two numbers, the first not above the second

    def __str__(self) -> str:
        if self.choices:
            texts = [repr(c) for c in self.choices]
            return "one of " + ", ".join([*texts, f"'{self.prefix}NAME'"] if self.prefix else texts)
        if self.pair:
            return f"two numbers {self.low:g} <= lowest <= highest <= {self.high:g}"
        if self.low == -math.inf and self.high == math.inf:
            return "any finite number"
        if self.high == math.inf:
            return f"{'>' if self.above else '>='} {self.low:g}"
        return f"in {'(' if self.above else '['}{self.low:g}, {self.high:g}]"

    def admits(self, value: Any) -> bool:
        """Tell whether ``value`` (already of the right type) may be used."""
        if self.choices:
            begins = bool(self.prefix) and value.startswith(self.prefix) and value != self.prefix
            return value in self.choices or begins
        if self.pair:
            ordered = len(value) == 2 and self.low <= value[0] <= value[1] <= self.high
            return ordered and all(map(math.isfinite, value))
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return True
        above_low = value > self.low if self.above else value >= self.low
        return math.isfinite(value) and above_low and value <= self.high


def between(low: float, high: float, text: str, *, above: bool = False) -> Allowed:
    """Allow numbers from ``low`` (excluded if ``above``) to ``high``."""
    return Allowed(text, low, high, above)


def positive(high: float, text: str) -> Allowed:
    """Allow numbers from 1e-9 to ``high``: dividing by smaller ones can overflow."""
    return Allowed(text, 1e-9, high)


def one_of(choices: Iterable[str], text: str, *, prefix: str = "") -> Allowed:
    """Allow one of a few names; with ``prefix`` also any name behind that."""
    return Allowed(text, choices=tuple(choices), prefix=prefix)


def span(low: float, high: float, text: str) -> Allowed:
    """Allow a pair of numbers in order, the ends of a range inside [``low``, ``high``]."""
    return Allowed(text, low, high, pair=True)


def unknown(kind: str, name: str, valid: Iterable[str], where: str = "", listing: str = "") -> str:
    """Sentence for an unknown name: the kind, what was given, the nearest name, all names.

    With ``listing``, a command that prints all names, those of a long list are not repeated: the
    sentence has up to three near names instead.
    """
    names = sorted(valid)
    place = f" in {where}" if where else ""
    if listing and len(names) > _MANY:
        hint = nearest(name, names, count=3)
        return f"Unknown {kind} {name!r}{place}.{hint} {listing!r} prints all {len(names)}."
    hint = nearest(name, names)
    return f"Unknown {kind} {name!r}{place}.{hint} Known: {', '.join(names) or 'none'}."


def nearest(name: Any, names: Iterable[str], count: int = 1) -> str:
    """Ask for up to ``count`` names that are spelled alike; namespaces and case do not matter.

    Returns "" if none is.
    """
    spelled = {known.rpartition("/")[2].lower(): known for known in names}
    wanted = str(name).rpartition("/")[2].lower()
    near = [repr(spelled[n]) for n in get_close_matches(wanted, spelled, n=count)]
    *first, last = near or [""]
    return f" Did you mean {', '.join(first) + ' or ' if first else ''}{last}?" if near else ""


def is_whole(value: Any) -> bool:
    """Tell whether ``value`` is a whole number; 1.0 and True are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_count(name: str, value: Any) -> None:
    """Raise ``ValueError`` unless the argument ``name`` is a whole number of at least 1."""
    if not (is_whole(value) and value >= 1):
        raise ValueError(f"{name} was {value!r}; allowed: whole numbers >= 1.")


def check_switch(name: str, value: Any) -> None:
    """Raise ``ValueError`` unless the argument ``name`` is True or False, or 1 or 0 for them."""
    plain = value.item() if hasattr(value, "item") else value  # of NumPy
    if not isinstance(plain, bool | int) or plain not in (0, 1):
        raise ValueError(f"{name} was {value!r}; allowed: True and False.")


def named(
    kind: str, name: str, table: Mapping[str, Any], where: str = "", listing: str = ""
) -> Any:
    """Look ``name`` up in ``table``; raise ``ValueError`` with the nearest name if it is absent."""
    try:
        known = name in table
    except TypeError:  # a list, for instance, which cannot be a key
        known = False
    if not known:
        raise ValueError(unknown(kind, name, table, where, listing))
    return table[name]


def describe(params: type) -> dict[str, tuple[str, Any, Allowed]]:
    """Map each parameter of a ``Params`` class to (type name, default, allowed)."""
    hints = _hints(params)
    defaults = getattr(params, "_field_defaults", {})
    rows = {}
    for name, hint in hints.items():
        kind, allowed = _unpacked(hint)
        rows[name] = (_type_name(kind), defaults.get(name), allowed)
    return rows


def resolve(params: type, chosen: Mapping[str, Any], where: str) -> Any:
    """Build ``params`` from the ``chosen`` values, with defaults for the others.

    Raises:
        TypeError: a key is unknown; the message names the nearest parameter. Or a parameter has
            neither a value nor a default.
        ValueError: a value has the wrong type or lies outside what is allowed.
    """
    hints = _hints(params)
    values = {}
    for name, value in chosen.items():
        if name not in hints:
            raise TypeError(unknown("parameter", name, hints, where))
        values[name] = _checked(name, value, hints[name], where)
    defaults = getattr(params, "_field_defaults", {})
    for name in hints:
        if name not in values and name not in defaults:
            raise TypeError(f"Parameter {name!r} of {where} is missing, and has no default.")
    return params(**values)


def joined(module: str, *parts: Any, **changed: Any) -> Any:
    """Return one NamedTuple with the parameters of all ``parts``; a later one wins over an earlier.

    It is called ``Params`` and must be bound to that name in ``module``, where pickle looks for it.
    Every parameter needs a default; those of parameters in ``changed`` are given there.
    """
    hints = {name: hint for part in parts for name, hint in _hints(part).items()}
    defaults = {name: value for part in parts for name, value in part._field_defaults.items()}
    values = [(defaults | changed)[name] for name in hints]
    kind: Any = namedtuple("Params", hints, defaults=values, module=module)  # type: ignore[misc]
    kind.__annotations__ = hints
    kind.__doc__ = "Parameters of one task; every field can be given to ``make`` and in a protocol."
    return kind


@functools.cache
def _hints(params: type) -> dict[str, Any]:
    """Return the annotations of a ``Params`` class; to read a protocol asks thousands of times."""
    return get_type_hints(params, include_extras=True)


_WORDS: dict[Any, str] = {
    bool: "True or False",
    dict: "a mapping",
    str: "text",
    tuple: "a list",
    tuple[str, ...]: 'a list of texts, as ["A", "B"]',
    type(None): "None",
}
_MEMBERS: dict[Any, str] = {int: "whole numbers", float: "numbers", str: "texts"}


def _checked(name: str, value: Any, hint: Any, where: str) -> Any:
    kind, allowed = _unpacked(hint)
    try:
        result = _plain(value, kind)
        fits = result is None or allowed.admits(result)
    except (TypeError, OverflowError):  # also a whole number that is larger than any float
        result = None
        fits = False
    if not fits:
        text, hint = _said(kind, allowed), nearest(value, allowed.choices)
        raise ValueError(f"Parameter {name!r} of {where} was {value!r}; allowed: {text}.{hint}")
    return result


def _said(kind: Any, allowed: Allowed) -> str:
    """Say which values a parameter may take: the choices, or its type, of numbers with a range."""
    if allowed.choices or allowed.pair:
        return str(allowed)
    options = _options(kind)
    if all(option in _WORDS for option in options):
        return " or ".join(_WORDS[option] for option in options)
    if not any(get_origin(option) is tuple for option in options):
        return f"{_type_name(kind)} {allowed}".strip()
    values = " or ".join(_word(option) for option in options if option is not type(None))
    bounds = "" if (allowed.low, allowed.high) == (-math.inf, math.inf) else f", each {allowed}"
    return values + bounds + (", or None" if type(None) in options else "")


def _word(option: Any) -> str:
    """Say in English what a value of this type is."""
    if option in _WORDS:
        return _WORDS[option]
    if get_origin(option) is tuple:
        return f"a list of {_members(option)}"
    return f"a {_MEMBERS[option][:-1]}" if option in _MEMBERS else _type_name(option)


def _members(kind: Any) -> str:
    """Say in English, in the plural, what lists of this type hold."""
    inner = get_args(kind)[0]
    if get_origin(inner) is tuple:
        return f"lists of {_members(inner)}"
    return _MEMBERS.get(inner, _type_name(inner))


def _unpacked(hint: Any) -> tuple[Any, Allowed]:
    """Split a hint into its type and what is allowed."""
    return get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, Allowed(""))


def _type_name(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind)) if not get_args(kind) else str(kind)


def _options(kind: Any) -> tuple[Any, ...]:
    """Return the types of a union; of any other type, that one."""
    return get_args(kind) if get_args(kind) and get_origin(kind) is not tuple else (kind,)


def _plain(value: Any, kind: Any) -> Any:
    """Convert to plain data of ``kind`` or raise TypeError; 3.0 is a valid int, True is not.

    Arrays and numbers of NumPy count as the lists and numbers that they hold.
    """
    value = value.tolist() if hasattr(value, "tolist") else value
    options = _options(kind)
    if value is None and type(None) in options:
        return None
    for option in options:
        if isinstance(value, bool):
            if option is bool:
                return value
            continue
        if option is int and (
            isinstance(value, Integral) or (isinstance(value, float) and value.is_integer())
        ):
            return int(value)
        if option is float and isinstance(value, Real):
            return float(value)
        if option is str and isinstance(value, str):
            return value
        if option is dict and isinstance(value, Mapping):
            return dict(value)
        if get_origin(option) is tuple and isinstance(value, (list, tuple)):
            return tuple(_plain(v, get_args(option)[0]) for v in value)
        if option is tuple and isinstance(value, (list, tuple)):
            return tuple(value)
    raise TypeError(kind)
