"""Maps of the user: a protocol on map files of the user in place of those of the package."""

from pathlib import Path

from pydantic import ValidationError

import coopbench_envs
from coopbench.errors import ProtocolError
from coopbench.protocol.differences import are_same
from coopbench.protocol.map_files import checksum, files_of, place_of
from coopbench.protocol.messages import reasons
from coopbench.protocol.schema import Protocol

__all__ = ["are_replaced", "maps_text", "with_maps"]


def with_maps(protocol: Protocol, folder: str | Path) -> Protocol:
    """Replace the package's map files by the user's; start positions are then drawn.

    Raises ``ProtocolError`` if no task is played on files, or if the files cannot be played on.
    """
    if not Path(folder).exists():
        raise ProtocolError(f"There is no folder {folder} to read maps from.")
    place = str(Path(folder).resolve())
    content = protocol.model_dump(mode="json")
    tasks = [task for task in content["task"] if files_of(task["env"], task["parameters"])]
    if not tasks:
        raise ProtocolError(f"{protocol.name} has no task {_condition(protocol)}; remove --maps.")
    for task in tasks:
        files = coopbench_envs.spec(task["env"]).files
        assert files is not None
        task["parameters"] = files.moved(task["parameters"], place)
        task["instances"] = None
        try:
            task["maps"] = checksum(task["env"], task["parameters"])
        except ValueError as error:
            raise ProtocolError(str(error)) from None
    try:
        return Protocol.model_validate(content, strict=False)
    except ValidationError as error:
        lines = "\n  ".join(reasons(error))
        raise ProtocolError(f"{protocol.name} cannot be played on {place}:\n  {lines}") from None


def _condition(protocol: Protocol) -> str:
    """Say which tasks of the protocol's environments read map files."""
    kinds = [coopbench_envs.spec(task.env).files for task in protocol.task]
    conditions = dict.fromkeys(files.condition for files in kinds if files is not None)
    return f"with {' or '.join(conditions)}" if conditions else "that reads map files"


def are_replaced(shipped: Protocol, protocol: Protocol) -> bool:
    """Whether a protocol is ``shipped`` with map files of the user, and nothing else differs."""
    places = {place_of(task.env, task.parameters) for task in protocol.task}
    users = [place for place in places if place is not None]
    return len(users) == 1 and are_same(with_maps(shipped, users[0]), protocol)


def maps_text(protocol: Protocol) -> str:
    """Say which map files a protocol is played on; empty if on none."""
    texts: dict[tuple[str | None, str], str] = {}
    for task in protocol.task:
        files = coopbench_envs.spec(task.env).files
        if files is None or not (paths := files.paths(task.parameters)):
            continue
        place, count = files.place(task.parameters), len(paths)
        plural = "s" if count > 1 else ""
        text = f"{count} file{plural} of {place}" if place else f"{count} {files.bundled}"
        texts[place, files.bundled] = text + (f" (SHA-256 {task.maps})" if task.maps else "")
    return "; ".join(texts.values())
