"""Certificates as policies read them: the best constants, sequences and rules of a game."""

import json
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from coopbench.baselines.game import Game

__all__ = [
    "battles_file",
    "certificate_entry",
    "certified",
    "certified_battles",
    "learned_policy",
]


@lru_cache(maxsize=16)
def certified(env_id: str) -> Mapping[str, Any]:
    """Return the content of an environment's certificate, which all callers share.

    Raises ``FileNotFoundError`` if the package holds none for it.
    """
    name = env_id.rpartition("/")[2]
    folder = resources.files("coopbench.baselines") / "certificates"
    file = folder / f"{name}.json"
    if not file.is_file():
        files = folder.iterdir() if folder.is_dir() else ()
        known = [path.name for path in files if path.name.endswith(".json")]
        names = sorted(name.removesuffix(".json") for name in known)
        raise FileNotFoundError(
            f"There is no certificate of {env_id}; there are those of {', '.join(names) or 'none'}."
        )
    content: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def battles_file(env_id: str) -> Path:
    """Return the archive of the battles of an environment, which exists where there are any.

    It holds ``MAP-START.json`` for every battle, and ``MAP-START.PLAYER.npz`` for a policy that was
    trained for it.
    """
    name = f"{env_id.rpartition('/')[2]}.zip"
    return Path(str(resources.files("coopbench.baselines"))) / "certificates" / name


def certified_battles(env_id: str) -> dict[str, dict[str, Any]]:
    """Return the certificates of the battles of an environment, by map and start; {} for none."""
    file = battles_file(env_id)
    if not file.is_file():
        return {}
    with zipfile.ZipFile(file) as packed:
        return {
            name.removesuffix(".json"): json.loads(packed.read(name))
            for name in sorted(packed.namelist())
            if name.endswith(".json")
        }


def learned_policy(env_id: str, battle: str, player: str) -> bytes:
    """Return the file of a policy that was trained for a battle, named by map and start.

    ``player`` is its name in the certificate.

    Raises ``FileNotFoundError`` if the package holds none.
    """
    file, name = battles_file(env_id), f"{battle}.{player}.npz"
    with zipfile.ZipFile(file) as packed:
        if name not in packed.namelist():
            raise FileNotFoundError(f"{file} holds no policy {name}.")
        return packed.read(name)


def certificate_entry(policy: str, game: Game, key: str) -> Any:
    """Return the entry ``key`` of the certificate of ``game``, for a policy that plays it.

    Raises ``ValueError`` naming the policy if there is no certificate.
    """
    try:
        return certified(game.env_id)[key]
    except FileNotFoundError as error:
        raise ValueError(f"Policy {policy!r} cannot play {game.env_id}: {error}") from None
