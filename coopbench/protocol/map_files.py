"""Maps: the files that tasks on street maps read, those of the package or those of the user."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from coopbench.errors import ProtocolError
from coopbench_envs.pathfinding.maps.movingai import find_files

if TYPE_CHECKING:
    from coopbench.protocol.schema import Protocol

__all__ = ["are_replaced", "checksum", "told", "with_maps"]

FAMILY = "movingai"


def checksum(parameters: Mapping[str, Any]) -> str:
    """SHA-256 over names and contents of the map files that a task with ``parameters`` reads.

    Raises:
        ValueError: the task is not played on files, or there are none.
    """
    if parameters.get("map") != FAMILY:
        raise ValueError(f"maps goes with map = {FAMILY!r}; remove it")
    total = hashlib.sha256()
    for file in find_files(parameters.get("map_params", {}).get("path")):
        total.update(f"{file.name}\n{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def with_maps(protocol: "Protocol", folder: str | Path) -> "Protocol":
    """Put the user's map files in place of the package's; start positions are then drawn.

    Raises ``ProtocolError`` if no task is played on files, or if the files cannot be played on.
    """
    from coopbench.protocol.schema import Protocol, problems

    if not Path(folder).exists():
        raise ProtocolError(f"There is no folder {folder} to read maps from.")
    place = str(Path(folder).resolve())
    content = protocol.model_dump(mode="json")
    tasks = [task for task in content["task"] if task["parameters"].get("map") == FAMILY]
    if not tasks:
        raise ProtocolError(f"{protocol.name} has no task with map = {FAMILY!r}; remove --maps.")
    for task in tasks:
        given = task["parameters"].get("map_params", {})
        task["parameters"]["map_params"] = given | {"path": place}
        task["instances"] = None
        try:
            task["maps"] = checksum(task["parameters"])
        except ValueError as error:
            raise ProtocolError(str(error)) from None
    try:
        return Protocol.model_validate(content, strict=False)
    except ValidationError as error:
        found = (one["msg"].removeprefix("Value error, ") for one in problems(error))
        reasons = "\n  ".join(dict.fromkeys(found))
        raise ProtocolError(f"{protocol.name} cannot be played on {place}:\n  {reasons}") from None


def are_replaced(shipped: "Protocol", protocol: "Protocol") -> bool:
    """Whether a protocol is ``shipped`` with map files of the user, and nothing else differs."""
    paths = {task.parameters.get("map_params", {}).get("path") for task in protocol.task} - {None}
    return len(paths) == 1 and with_maps(shipped, paths.pop()).digest == protocol.digest


def told(protocol: "Protocol") -> str:
    """Say which map files a protocol is played on; empty if on none."""
    found = {
        task.parameters.get("map_params", {}).get("path"): task.maps
        for task in protocol.task
        if task.parameters.get("map") == FAMILY
    }
    texts = []
    for path, digest in found.items():
        count = len(find_files(path))
        files = f"{count} file{'s' if count > 1 else ''}"
        of = f"{files} of {path}" if path else f"{count} bundled synthetic city maps"
        texts.append(of + (f" (SHA-256 {digest})" if digest else ""))
    return "; ".join(texts)
