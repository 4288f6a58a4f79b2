"""Trained policies that this package ships as data, for instance as partners in protocols.

A shipped policy is a file ``partners/NAME.npz`` with the bytes of one policy file per game. Its
digest covers all of these. It is part of the policy's name, so that a protocol that names the
policy also says which content it means.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np

from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench.baselines.policy import Entry, Game
from coopbench_envs.arrays import pack, unpack
from coopbench_envs.parameters import Allowed, named

__all__ = ["ENDING", "read_files", "shipped_digest", "shipped_folder", "written"]

ENDING = ".npz"  # of policy files
_SHORTEST = 12  # hex digits that a name has to give
_WRITTEN = 16  # hex digits that messages state


class Params(NamedTuple):
    """What stands after the colon: ``shipped:own-full-a,0123456789ab``."""

    name: Annotated[str, Allowed("name of a file in baselines/partners")]
    digest: Annotated[str, Allowed("first 12 or more hex digits of the digest of its files")] = ""


def shipped_folder() -> Path:
    """Return the folder that holds one file per shipped policy."""
    return Path(str(resources.files("coopbench.baselines"))) / "partners"


def read_files(file: Path) -> dict[str, bytes]:
    """Return the policy files of a shipped policy by game, such as ``TrustDilemma-v1``."""
    return {game: content.tobytes() for game, content in unpack(file).items()}


def written(files: Mapping[str, bytes]) -> bytes:
    """Return the content of the file of a shipped policy; the inverse of ``read_files``."""
    arrays = {game: np.frombuffer(content, np.uint8) for game, content in sorted(files.items())}
    return pack(arrays, compressed=False)


def shipped_digest(files: Mapping[str, bytes]) -> str:
    """Return the SHA-256, in hex digits, of the games and contents of a policy's files."""
    digest = hashlib.sha256()
    for game, content in sorted(files.items()):
        digest.update(f"{game}{ENDING} {hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()


@cache  # a file of a package does not change
def _shipped(file: Path) -> tuple[dict[str, bytes], str]:
    """Return the policy files of a shipped policy, and their digest."""
    files = read_files(file)
    return files, shipped_digest(files)


@cache
def _policy(file: Path, game: str) -> TrainedPolicy:
    return read_policy(_shipped(file)[0][game])


def shipped(game: Game, parameters: Params) -> TrainedPolicy:
    """Return a shipped policy for a game.

    Raises ``ValueError`` for a policy that is not shipped, a digest that is not that of its files,
    and a game that it has no file for or cannot play.
    """
    root = shipped_folder()
    places = {path.stem: path for path in root.glob(f"*{ENDING}")}
    place: Path = named("shipped policy", parameters.name, places)
    (files, digest), stated = _shipped(place), parameters.digest
    if len(stated) < _SHORTEST or not digest.startswith(stated):
        raise ValueError(
            f"Policy 'shipped:{parameters.name}' was named with the digest {stated!r}; this "
            f"package has 'shipped:{parameters.name},{digest[:_WRITTEN]}'. Allowed: the first "
            f"{_SHORTEST} or more digits."
        )
    name = game.env_id.rpartition("/")[2]
    if name not in files:
        raise ValueError(
            f"Policy 'shipped:{parameters.name}' cannot play {game.env_id}; it plays "
            f"{', '.join(sorted(files))}."
        )
    policy = _policy(place, name)
    policy.check(game)
    return policy


ENTRY = Entry(
    "shipped", shipped, "trained in self-play and shipped with the package", "local", Params
)
