"""Instances: frozen start positions of a task, read from the file that its protocol names."""

import hashlib
import io
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

import coopbench_envs
from coopbench.errors import ProtocolError
from coopbench.protocol.sections import Task
from coopbench_envs.reading import read_regular

__all__ = ["instance_state"]

_LARGEST = 1 << 28  # bytes of an instance file


def instance_state(task: Task, constants: Any, episodes: int) -> dict[str, np.ndarray] | None:
    """Return start states of a task's first ``episodes`` instances, or None if it has none.

    Raises ``ProtocolError`` if the file is missing, is not the one of the protocol, or has too few.
    """
    if task.instances is None:
        return None
    spec = coopbench_envs.spec(task.env)
    if spec.instances is None:
        raise ProtocolError(f"Task {task.id!r}: {spec.id} takes no instances; remove the key.")
    path = Path(str(resources.files("coopbench.protocols"))) / "instances" / task.instances.file
    try:
        content = read_regular(path, _LARGEST)
    except FileNotFoundError:
        raise ProtocolError(f"Task {task.id!r}: there is no instance file {path}.") from None
    if hashlib.sha256(content).hexdigest() != task.instances.sha256:
        raise ProtocolError(
            f"Task {task.id!r}: {path} is not the file of the protocol (its checksum differs)."
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    shortest = min(len(array) for array in arrays.values())
    if shortest < episodes:
        raise ProtocolError(
            f"Task {task.id!r} has {episodes} episodes; {path} has {shortest} instances."
        )
    return spec.instances(constants, {name: array[:episodes] for name, array in arrays.items()})
