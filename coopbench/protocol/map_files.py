"""Map files: the files that tasks on street maps read, those of the package or of the user."""

import hashlib
from collections.abc import Mapping
from typing import Any

from coopbench_envs.pathfinding.maps.movingai import find_files

__all__ = ["FAMILY", "checksum"]

FAMILY = "movingai"


def checksum(parameters: Mapping[str, Any]) -> str:
    """Return the SHA-256 of names and contents of the map files that a task reads.

    Raises:
        ValueError: the task is not played on files, or there are none.
    """
    if parameters.get("map") != FAMILY:
        raise ValueError(f"maps goes with map = {FAMILY!r}; remove it")
    total = hashlib.sha256()
    for file in find_files(parameters.get("map_params", {}).get("path")):
        total.update(f"{file.name}\n{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()
