"""Read the protocol of an untrusted results folder without revealing anything of other files.

What it names, environments and files, is checked before it is used.
"""

import hashlib
import time
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import coopbench_envs
from coopbench.errors import DamagedResultError, ProtocolError, UnregisteredError
from coopbench.files import UNREADABLE, parsed, read_bounded
from coopbench.protocol.map_files import place_of, users_checksum
from coopbench.protocol.messages import explained
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import instance_file
from coopbench_envs.foreign_names import is_foreign, parse_foreign

PROTOCOL = "protocol.json"
_VALUES = 500_000  # in a protocol
_SECONDS = 20.0  # of the processor, after which no further maps are made
_REMEDY = "Remove it and evaluate into its folder again, or choose another folder."


def read_protocol(root: Path) -> Protocol:
    """Return the protocol of a results folder; the places that it names are checked before use.

    Raises:
        FileNotFoundError: the folder holds no results.
        ProtocolError: it is damaged, or using it would import modules or read large files.
    """
    file = root / PROTOCOL
    if not file.is_file():
        check_is_folder(root)
        raise FileNotFoundError(f"{root} holds no results: there is no {PROTOCOL} in it.")
    try:
        content = parsed(read_bounded(file), _VALUES)
        tasks = content.get("task") if isinstance(content, dict) else None
        for task in tasks if isinstance(tasks, list) else ():
            _check_places(task)
        until = time.process_time() + _SECONDS
        return Protocol.model_validate(content, strict=False, context=until)
    except ValidationError as error:
        raise ProtocolError(
            f"{file} is damaged or of another version:\n{explained(error)}\nIf files that it "
            f"names have moved, put them back; is it damaged itself? {_REMEDY}"
        ) from None
    except UnregisteredError:
        raise
    except (DamagedResultError, *UNREADABLE) as error:
        remedy = "" if file.is_symlink() else f" {_REMEDY}"  # the error says what to do with a link
        reason = str(error).removesuffix(".")
        raise ProtocolError(f"{file} cannot be used: {reason}.{remedy}") from None


def check_is_folder(root: Path) -> None:
    """Raise ``FileNotFoundError`` if there is no such folder."""
    if not root.is_dir():
        reason = "is a file; name a folder with results" if root.exists() else "does not exist"
        raise FileNotFoundError(f"{root} {reason}.")


def _check_places(task: dict[str, Any]) -> None:
    """Raise ``ValueError`` if a task names modules to import, or files that must not be read."""
    env = task["env"]
    if not isinstance(env, str):
        raise ValueError(f"its environment is {str(env)[:100]}; allowed: an id, which is text")
    if is_foreign(env):  # executed only by a user who names it
        parse_foreign(env)
    elif ":" in env:
        raise ValueError(
            f"its environment {env!r} names a module to import; import that yourself and name the "
            f"environment alone; registered: {', '.join(coopbench_envs.ids())}"
        )
    else:
        _check_registered(env)
    _check_instances(task.get("instances") or {})
    _check_files(env, task.get("parameters") or {}, task.get("maps"))


def _check_registered(env: str) -> None:
    """Raise ``UnregisteredError`` for an environment that this installation does not know."""
    try:
        coopbench_envs.spec(env)
    except ValueError as error:
        raise UnregisteredError(str(error)) from None


def _check_instances(instances: dict[str, Any]) -> None:
    """Raise ``ValueError`` if instances are in another file than the one with their checksum.

    A name without a folder is that of a file of this package, or of one in the current folder.
    """
    file = str(instances.get("file", "plain"))
    if Path(file).name == file:
        return
    try:
        total = hashlib.sha256(instance_file(file)).hexdigest()
    except UNREADABLE:
        total = ""
    if total != instances.get("sha256"):
        raise ValueError(
            f"a task names instances at {file!r}; allowed: a file with the checksum that its key "
            "'sha256' states. If it has moved, put it back"
        )


def _check_files(env: str, parameters: dict[str, Any], stated: Any) -> None:
    """Raise ``ValueError`` if a task reads other files than those whose checksum it states.

    The author of a folder that states it has the files: errors about their content reveal nothing
    new. Of any other file, the error says only this one sentence.
    """
    place = place_of(env, parameters)
    if place is None:
        return
    try:
        total = users_checksum(env, parameters)
    except UNREADABLE:
        total = ""
    if total is not None and total != stated:
        raise ValueError(
            f"a task names files at {place!r}; allowed: files with the checksum that its key "
            f"'maps' states. If they have moved, put them back"
        )
