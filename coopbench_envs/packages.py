"""Objects that other installed packages declare as entry points."""

import warnings
from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points
from typing import Any


def installed(group: str, kind: Any, taken: Collection[str] = ()) -> dict[str, Any]:
    """Return the objects of a group of entry points by the names of these.

    Each is of the type ``kind``, and none has a name in ``taken``. A warning names any other, which
    is left out: one broken package must not hide the others.
    """
    table: dict[str, Any] = {}
    for point in entry_points(group=group):
        try:
            _check_free(point, group, [*taken, *table])
            table[point.name] = load(point, group, kind)
        except ValueError as error:
            warnings.warn(str(error), stacklevel=3)
    return table


def load(point: EntryPoint, group: str, kind: Any) -> Any:
    """Return the ``kind`` of object that an entry point of a group names.

    Raises ``ValueError`` if it cannot be loaded, or is of another type.
    """
    try:
        loaded = point.load()
    except Exception as error:  # importing another package may raise anything
        raise ValueError(
            f"{_place(point, group)} cannot be loaded ({type(error).__name__}: {error}); allowed: "
            f"MODULE:NAME of an object of type {kind.__name__}. Repair that package, or uninstall "
            f"it."
        ) from error
    if not isinstance(loaded, kind):
        raise ValueError(
            f"{_place(point, group)} is of type {type(loaded).__name__}; allowed: {kind.__name__}. "
            f"Repair that package, or uninstall it."
        )
    return loaded


def _check_free(point: EntryPoint, group: str, taken: Collection[str]) -> None:
    """Raise ``ValueError`` if the name of an entry point is taken."""
    if point.name in taken:
        raise ValueError(
            f"{_place(point, group)} is not registered: the name is taken; allowed: any but "
            f"{', '.join(taken)}."
        )


def _place(point: EntryPoint, group: str) -> str:
    """Return an entry point and its package as the subject of a sentence."""
    place, package = f"The entry point {point.name!r} = {point.value!r} of {group}", point.dist
    if package is not None:
        place += f", installed by {package.name} {package.version},"
    return place
