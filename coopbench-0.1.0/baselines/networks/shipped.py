"""Trained policies that this package ships as data, for instance as partners in protocols.

A shipped policy is a folder ``partners/NAME`` with one policy file per game, ``GAME.npz``. Its
digest covers all of these files. It is part of the policy's name, so that a protocol that names the
policy also says which content it means.
"""

import hashlib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, NamedTuple

from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench.baselines.policy import Entry, Game
from coopbench_envs.parameters import Allowed, named

__all__ = ["ENDING", "shipped_digest", "shipped_folder"]

ENDING = ".npz"  # of the policy files, named like their games
_SHORTEST = 12  # hex digits that a name has to give
_WRITTEN = 16  # hex digits that messages state


class Params(NamedTuple):
    """What stands after the colon: ``shipped:own-full-a,0123456789ab``."""

    name: Annotated[str, Allowed("name of a folder in baselines/partners")]
    digest: Annotated[str, Allowed("first 12 or more hex digits of the digest of its files")] = ""


def shipped_folder() -> Path:
    """Return the folder that holds one folder per shipped policy."""
    return Path(str(resources.files("coopbench.baselines"))) / "partners"


def shipped_digest(folder: Path) -> str:
    """Return the SHA-256, in hex digits, of the names and contents of a policy's files."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob(f"*{ENDING}")):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.name} {content}\n".encode())
    return digest.hexdigest()


_digest = cache(shipped_digest)  # a file of a package does not change


@cache
def _policy(file: Path) -> TrainedPolicy:
    return read_policy(file.read_bytes())


def shipped(game: Game, parameters: Params) -> TrainedPolicy:
    """Return a shipped policy for a game.

    Raises ``ValueError`` for a policy that is not shipped, a digest that is not that of its files,
    and a game that it has no file for or cannot play.
    """
    root = shipped_folder()
    folders = {path.name: path for path in root.glob("*") if path.is_dir()}
    folder: Path = named("shipped policy", parameters.name, folders)
    digest, written = _digest(folder), parameters.digest
    if len(written) < _SHORTEST or not digest.startswith(written):
        raise ValueError(
            f"Policy 'shipped:{parameters.name}' was named with the digest {written!r}; this "
            f"package has 'shipped:{parameters.name},{digest[:_WRITTEN]}'. Allowed: the first "
            f"{_SHORTEST} or more digits."
        )
    files = {file.stem: file for file in folder.glob(f"*{ENDING}")}
    name = game.env_id.rpartition("/")[2]
    if name not in files:
        raise ValueError(
            f"Policy 'shipped:{parameters.name}' cannot play {game.env_id}; it plays "
            f"{', '.join(sorted(files))}."
        )
    policy = _policy(files[name])
    policy.check(game)
    return policy


ENTRY = Entry(
    "shipped", shipped, "trained in self-play and shipped with the package", "local", Params
)
