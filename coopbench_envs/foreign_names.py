"""Names of environments of other packages, and which of them may be executed.

``gymnasium:ID`` is an environment that Gymnasium makes, ``pettingzoo:MODULE`` the ``parallel_env``
or ``env`` of a module. ``KIND:MODULE:NAME`` and ``KIND:FILE.py:NAME`` are functions or classes that
make one, of any of these kinds; ``python:NAME`` is one that a caller has handed over, and
``imported:NAME`` one on which another program has played and that cannot be made here.

A name is data. To make its environment is to execute code, and that takes a permission, which only
a user's own words give: an argument of a function, an option, a protocol file. What a results
folder names is not executed.
"""

import functools
import hashlib
import json
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

__all__ = [
    "HOWS",
    "IMPORTED",
    "ForeignName",
    "How",
    "Keywords",
    "check_permitted",
    "function_of",
    "handed_over",
    "is_foreign",
    "name_of_function",
    "parse_foreign",
    "permit",
    "permitted",
]

How = Literal["last", "sum", "mean", "max", "min"]
# What becomes of the values that ``info`` has over the steps of an episode.
HOWS: dict[How, str] = {
    "last": "last value",
    "sum": "sum over steps",
    "mean": "mean over steps",
    "max": "largest value",
    "min": "smallest value",
}
IMPORTED = "imported"  # kind of environments of which there are only results
KINDS = ("gymnasium", "pettingzoo", "python", IMPORTED)
_LONGEST = 300  # characters of a name
_ID = re.compile(r"-v\d+$")  # ends the ids of Gymnasium
_permitted: set[str] = set()
_functions: dict[str, Callable[..., Any]] = {}  # by name; those that cannot be imported


class ForeignName(NamedTuple):
    """The parts of a name; ``attribute`` is empty where the place alone says what is made."""

    kind: str  # one of KINDS
    place: str  # an id, a module or a file
    attribute: str

    @property
    def short(self) -> str:
        """The name without its kind and without folders."""
        place = self.place.rpartition("/")[2] if self.place.endswith(".py") else self.place
        return f"{place}:{self.attribute}" if self.attribute else place


class Keywords:
    """Parameters that are the keyword arguments of a constructor, which alone checks them.

    Raises ``ValueError`` for what JSON cannot hold.
    """

    _fields = ()

    def __init__(self, where: str, values: Mapping[str, Any]) -> None:
        try:
            self._text = json.dumps(dict(values), sort_keys=True, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(
                f"Parameters of {where} cannot be written as JSON ({error}); allowed: numbers, "
                f"texts, lists and dictionaries."
            ) from None

    def _asdict(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads(self._text)
        return values

    def __repr__(self) -> str:
        return self._text


def is_foreign(name: str) -> bool:
    """Whether a name is that of an environment of another package."""
    return name.partition(":")[0] in KINDS and ":" in name


def parse_foreign(name: str) -> ForeignName:
    """Split a name; raise ``ValueError`` for one of another form. Nothing is imported."""
    kind, _, rest = name.partition(":")
    place, _, attribute = rest.rpartition(":")
    if kind == "gymnasium" and _ID.search(attribute):
        place, attribute = rest, ""
    elif not place:
        place, attribute = attribute, ""
    # Folders have spaces in their names, modules and ids do not.
    plain = rest.isprintable() and (place.endswith(".py") or " " not in rest)
    dotted = not attribute or all(part.isidentifier() for part in attribute.split("."))
    lacking = place.endswith(".py") and not attribute and kind != "pettingzoo"
    if kind not in KINDS or not place or not plain or not dotted or lacking or len(name) > _LONGEST:
        raise ValueError(
            f"Unknown form of an environment, {name[:_LONGEST]!r}. Allowed: gymnasium:ID, "
            f"pettingzoo:MODULE, and KIND:MODULE:NAME or KIND:FILE.py:NAME with a function or class"
            f" that makes one."
        )
    return ForeignName(kind, place, attribute)


def permit(name: str) -> None:
    """Let the environment of this name be made in this process; call it for a user's own words."""
    parse_foreign(name)
    _permitted.add(name)


def permitted() -> tuple[str, ...]:
    """Return the names whose environments may be made in this process."""
    return tuple(sorted(_permitted))


def check_permitted(name: str) -> None:
    """Raise ``ValueError`` unless the environment of this name may be made."""
    if parse_foreign(name).kind == IMPORTED:
        raise ValueError(
            f"{name!r} was played by another program: there are only its results, and nothing can "
            f"be played on it."
        )
    if name not in _permitted:
        raise ValueError(
            f"The code of {name!r} is not executed because results name it; name it yourself: "
            f"'coopbench evaluate {shlex.quote(name)}', 'coopbench verify --execute "
            f"{shlex.quote(name)}', or 'env' in a protocol file."
        )


def name_of_function(function: Callable[..., Any]) -> str:
    """Return the name under which the environments that ``function`` makes are evaluated.

    A function or class that can be imported is named by its module; any other one belongs to this
    process, where a later one of the same name replaces it. Raises ``ValueError`` for an
    environment that is made already, and for anything else that cannot be called.
    """
    if not callable(function):
        raise ValueError(
            f"An object of {type(function).__name__} cannot be evaluated, as every evaluation makes"
            f" environments of its own: pass a function that makes one, for instance "
            f"lambda: gymnasium.make('CartPole-v1'), or a name, for instance "
            f"'gymnasium:CartPole-v1'."
        )
    name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", None)
    if module and module != "__main__" and name and "<" not in name:
        return f"python:{module}:{name}"
    short = re.sub(r"\W+", "", name.rpartition(".")[2]) or type(function).__name__
    if isinstance(function, functools.partial):  # with other arguments it is another one
        given = repr((function.func, function.args, sorted(function.keywords.items())))
        digest = hashlib.sha256(given.encode()).hexdigest()[:8]
        short = f"{getattr(function.func, '__name__', short)}_{digest}"
    _functions[f"python:{short}"] = function
    return f"python:{short}"


def function_of(name: str) -> Callable[..., Any] | None:
    """Return the function of this process that has a name now; None if there is none."""
    return _functions.get(name)


def handed_over(name: str) -> Callable[..., Any]:
    """Return the function that ``name_of_function`` has named in this process."""
    if name not in _functions:
        raise ValueError(
            f"{name!r} is a function of another process, which has not been handed over to this "
            f"one. Define it at the top level of a module that can be imported, or name "
            f"python:FILE.py:NAME."
        )
    return _functions[name]
