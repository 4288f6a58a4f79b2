"""The protocol of a results folder: whoever wrote it, nothing outside of the folder is told.

What it names, environments and files, is checked before it is used.
"""

from pathlib import Path
from typing import Any

from pydantic_core import from_json

import coopbench_envs
from coopbench.errors import DamagedResultError, ProtocolError
from coopbench.files import check_values, parsed, read_bounded
from coopbench.protocol.loading import stored_protocol
from coopbench.protocol.map_files import place_of, users_checksum
from coopbench.protocol.schema import Protocol
from coopbench_envs.foreign_names import is_foreign, parse_foreign

__all__ = ["read_protocol"]

_PROTOCOL = 500_000  # values in a protocol
# What a content of unknown origin can raise.
_BROKEN = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    OSError,
)


def read_protocol(file: Path) -> Protocol:
    """Return the protocol of a results folder; the places that it names are checked before use.

    Raises ``ProtocolError`` if it is damaged, or if using it would import modules or read large
    files.
    """
    try:
        text = read_bounded(file)
    except DamagedResultError as error:
        raise ProtocolError(str(error)) from None
    try:
        check_values(text, _PROTOCOL)
    except ValueError as error:
        raise ProtocolError(f"{file} cannot be used: {error}.") from None
    try:
        content = from_json(text)  # as the protocol is read below
    except ValueError:  # raises the same error with more detail
        return stored_protocol(file)
    try:
        parsed(text)  # which refuses keys that are there twice
    except ValueError as error:
        raise ProtocolError(f"{file} cannot be used: {error}.") from None
    tasks = content.get("task") if isinstance(content, dict) else None
    for task in tasks if isinstance(tasks, list) else ():
        try:
            _check_places(task)
        except _BROKEN as error:
            raise ProtocolError(f"{file} cannot be used: {error}") from None
    return stored_protocol(file)


def _check_places(task: dict[str, Any]) -> None:
    """Raise ``ValueError`` if a task names modules to import, or files that must not be read."""
    env = str(task["env"])
    if is_foreign(env):  # executed only by a user who names it
        parse_foreign(env)
    elif ":" in env:
        raise ValueError(
            f"its environment {env!r} names a module to import; import that yourself and name the "
            f"environment alone; registered: {', '.join(coopbench_envs.ids())}"
        )
    file = str((task.get("instances") or {}).get("file", "plain"))
    if Path(file).name != file:
        raise ValueError(f"its instances are in {file!r}; allowed: the name of a file")
    _check_files(env, task.get("parameters") or {}, task.get("maps"))


def _check_files(env: str, parameters: dict[str, Any], stated: Any) -> None:
    """Raise ``ValueError`` if a task reads other files than those whose checksum it states.

    Who states it has the files: errors about their content then tell nobody anything new. Nothing
    but this one sentence is said of any other file.
    """
    place = place_of(env, parameters)
    if place is None:
        return
    try:
        total = users_checksum(env, parameters)
    except _BROKEN:
        total = ""
    if total is not None and total != stated:
        raise ValueError(
            f"a task names files at {place!r}; allowed: files with the checksum that its key "
            f"'maps' states. If they have moved, put them back"
        )
