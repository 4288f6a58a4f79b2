"""Map files: the files that a task reads, those of the package or of a user, their checksum."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import coopbench_envs
from coopbench_envs.reading import read_regular

LARGEST = 1 << 24  # bytes of a map file


def files_of(env: str, parameters: Mapping[str, Any]) -> tuple[Path, ...]:
    """Return the map files that a task of ``env`` with these ``parameters`` reads, if any.

    Raises ``ValueError`` if there is no file at the place that the parameters name.
    """
    files = coopbench_envs.spec(env).files
    return () if files is None else tuple(files.paths(parameters))


def place_of(env: str, parameters: Mapping[str, Any]) -> str | None:
    """Return the file or folder of the user that a task reads; None if it reads none of a user."""
    files = coopbench_envs.spec(env).files
    return None if files is None else files.place(parameters)


def checksum(env: str, parameters: Mapping[str, Any]) -> str:
    """Return the SHA-256 of names and contents of the map files that a task of ``env`` reads.

    Raises:
        ValueError: the task is not played on files, or there are none.
    """
    paths = files_of(env, parameters)
    if not paths:
        files = coopbench_envs.spec(env).files
        condition = "an environment that reads files" if files is None else files.condition
        raise ValueError(f"maps goes with {condition}; remove it")
    total = hashlib.sha256()
    for file in paths:
        total.update(f"{file.name}\n{_digest(file)}\n".encode())
    return total.hexdigest()


def users_checksum(env: str, parameters: Mapping[str, Any]) -> str | None:
    """Return the ``checksum`` of the files of the user that a task reads; None if it reads none.

    Raises ``ValueError`` if there is no file at the place that the parameters name.
    """
    if place_of(env, parameters) is None or not files_of(env, parameters):
        return None
    return checksum(env, parameters)


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(read_regular(file, LARGEST)).hexdigest()
    except OSError as error:
        raise ValueError(f"the map file {file} cannot be read: {error.strerror}") from None
