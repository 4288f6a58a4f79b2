"""Pickles: environments that flatland-rl has saved, read without executing anything they name.

A pickle is a program. Here it can only build lists, dictionaries, numbers, texts and records: names
of flatland-rl and of a few types of numbers become records, which hold what they were made of and
do nothing; every other name ends the reading, and so does every operation beyond these. Some
releases of Python pickle a member of an enumeration as a call of its class, others (3.11.2) as one
of ``getattr``, which here only finds the members that a table lists.
"""

import io
import pickle
import struct
from typing import Any

__all__ = ["Record", "read"]

# Types of numbers, and how numpy puts its own together; nothing of numpy is called.
_NUMBERS = {
    ("fractions", "Fraction"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    *((f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")),
    *((f"numpy.{core}.multiarray", "scalar") for core in ("core", "_core")),
}
# Enumerations that agents of flatland-rl hold, with their members, whose values are 0, 1, 2, ...
_ENUMERATIONS = {
    "flatland.core.grid.grid4.Grid4TransitionsEnum": ("NORTH", "EAST", "SOUTH", "WEST"),
    "flatland.envs.step_utils.states.TrainState": (
        *("WAITING", "READY_TO_DEPART", "MALFUNCTION_OFF_MAP", "MOVING"),
        *("STOPPED", "MALFUNCTION", "DONE"),
    ),
}
_OPERATIONS = (
    *("PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1"),
    *("BININT2", "LONG1", "LONG4", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE"),
    *("SHORT_BINBYTES", "BINBYTES", "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_TUPLE", "TUPLE"),
    *("TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_DICT", "SETITEM", "SETITEMS", "EMPTY_SET", "ADDITEMS"),
    *("FROZENSET", "BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT", "MEMOIZE", "GLOBAL"),
    *("STACK_GLOBAL", "REDUCE", "BUILD", "NEWOBJ"),
)
_FAILURES = (
    *(pickle.UnpicklingError, EOFError, IndexError, TypeError, AttributeError, ValueError),
    *(OverflowError, MemoryError, RecursionError, struct.error),
)


class _RefusedError(ValueError):
    """A name that is not allowed."""


class Record:
    """Stands for an object of another package: its name, what it was made of, and its state."""

    name = ""
    args: tuple[Any, ...]
    state: Any

    def __new__(cls, *args: Any) -> "Record":
        """Keep the arguments."""
        record = object.__new__(cls)
        record.args, record.state = args, None
        return record

    def __setstate__(self, state: Any) -> None:
        """Keep the state."""
        self.state = state


class _Member(Record):
    """Stands for ``getattr``: what it makes is the record of a call of an enumeration."""

    def __new__(cls, *args: Any) -> Any:
        """Look up a member in the table, which no pickle can change."""
        kind, member = args
        name = kind.name if isinstance(kind, type) and issubclass(kind, Record) else ""
        members = _ENUMERATIONS.get(name, ())
        if type(member) is not str or member not in members:
            raise _RefusedError(
                f"it takes an attribute of {name[:60] or 'no class'}; allowed: members of "
                f"{' and '.join(_ENUMERATIONS)}."
            )
        return kind(members.index(member))


class _Entries(dict[Any, Any]):
    """Dictionary with texts and whole numbers as keys; others, costly to hash, are left out."""

    __slots__ = ()  # a pickle can give it no attributes

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key) in (str, int):
            super().__setitem__(key, value)


class _Ordered(_Entries):
    """Stands for the ordered sets that observations of flatland-rl hold, as dictionaries."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()


class _Members(list[Any]):
    """Members of a set, of which none is hashed."""

    __slots__ = ()

    add = list.append


# The machine of the standard library that is written in Python.
_Machine: Any = vars(pickle)["_Unpickler"]


class _Reader(_Machine):
    """The same machine with fewer operations."""

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content))
        self._types: dict[str, type[Record]] = {}  # one for each name: a type takes a kilobyte

    dispatch: dict[int, Any] = {  # noqa: RUF012
        getattr(pickle, name)[0]: _Machine.dispatch[getattr(pickle, name)[0]]
        for name in _OPERATIONS
    }

    def find_class(self, module: str, name: str) -> type[Any]:
        """Return a type of records for a name that is allowed."""
        if (module, name) == ("builtins", "getattr"):
            return _Member
        if (module, name) == ("flatland.utils.ordered_set", "OrderedSet"):
            return _Ordered
        if not module.startswith("flatland.") and (module, name) not in _NUMBERS:
            raise _RefusedError(
                f"it names {module[:60]}.{name[:60]}; allowed: names of flatland and numbers."
            )
        full = f"{module}.{name}"
        if full not in self._types:
            self._types[full] = type("Record", (Record,), {"name": full})
        return self._types[full]

    def load_empty_dict(self) -> None:
        self.append(_Entries())

    def load_empty_set(self) -> None:
        self.append(_Members())

    def load_frozenset(self) -> None:
        self.append(_Members(self.pop_mark()))

    dispatch[pickle.EMPTY_DICT[0]] = load_empty_dict
    dispatch[pickle.EMPTY_SET[0]] = load_empty_set
    dispatch[pickle.FROZENSET[0]] = load_frozenset


def read(content: bytes) -> Any:
    """Return what a pickle holds: numbers, texts, lists, tuples, dictionaries and records.

    Raises ``ValueError`` for a name or an operation that is not allowed, and for a damaged one.
    """
    try:
        return _Reader(content).load()
    except _RefusedError:
        raise
    except KeyError as error:
        raise ValueError(f"it has an operation that is not allowed: {error}.") from None
    except _FAILURES as error:
        raise ValueError(f"it is no pickle of flatland-rl: {error}") from None
