"""Maps of the user: a protocol on map files of the user in place of those of the package."""

from pathlib import Path

from pydantic import ValidationError

from coopbench.errors import ProtocolError
from coopbench.protocol.map_files import FAMILY, checksum
from coopbench.protocol.messages import reasons
from coopbench.protocol.schema import Protocol
from coopbench_envs.pathfinding.maps.movingai import find_files

__all__ = ["are_replaced", "maps_text", "with_maps"]


def with_maps(protocol: Protocol, folder: str | Path) -> Protocol:
    """Replace the package's map files by the user's; start positions are then drawn.

    Raises ``ProtocolError`` if no task is played on files, or if the files cannot be played on.
    """
    if not Path(folder).exists():
        raise ProtocolError(f"There is no folder {folder} to read maps from.")
    place = str(Path(folder).resolve())
    content = protocol.model_dump(mode="json")
    tasks = [task for task in content["task"] if task["parameters"].get("map") == FAMILY]
    if not tasks:
        raise ProtocolError(f"{protocol.name} has no task with map = {FAMILY!r}; remove --maps.")
    for task in tasks:
        options = task["parameters"].get("map_params", {})
        task["parameters"]["map_params"] = options | {"path": place}
        task["instances"] = None
        try:
            task["maps"] = checksum(task["parameters"])
        except ValueError as error:
            raise ProtocolError(str(error)) from None
    try:
        return Protocol.model_validate(content, strict=False)
    except ValidationError as error:
        lines = "\n  ".join(reasons(error))
        raise ProtocolError(f"{protocol.name} cannot be played on {place}:\n  {lines}") from None


def are_replaced(shipped: Protocol, protocol: Protocol) -> bool:
    """Whether a protocol is ``shipped`` with map files of the user, and nothing else differs."""
    paths = {task.parameters.get("map_params", {}).get("path") for task in protocol.task} - {None}
    return len(paths) == 1 and with_maps(shipped, paths.pop()).digest == protocol.digest


def maps_text(protocol: Protocol) -> str:
    """Say which map files a protocol is played on; empty if on none."""
    digests = {
        task.parameters.get("map_params", {}).get("path"): task.maps
        for task in protocol.task
        if task.parameters.get("map") == FAMILY
    }
    texts = []
    for path, digest in digests.items():
        count = len(find_files(path))
        files = f"{count} file{'s' if count > 1 else ''}"
        text = f"{files} of {path}" if path else f"{count} bundled synthetic city maps"
        texts.append(text + (f" (SHA-256 {digest})" if digest else ""))
    return "; ".join(texts)
