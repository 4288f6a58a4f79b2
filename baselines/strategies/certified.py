"""Certificates as policies read them: the best constants, sequences and rules of a game."""

import json
from importlib import resources
from typing import Any

from coopbench.baselines.game import Game

__all__ = ["certificate_entry", "certified", "certified_battles", "learned_policy"]


def certified(env_id: str) -> dict[str, Any]:
    """Return the content of an environment's certificate.

    Raises ``FileNotFoundError`` if the package holds none for it.
    """
    name = env_id.rpartition("/")[2]
    folder = resources.files("coopbench.baselines") / "certificates"
    file = folder / f"{name}.json"
    if not file.is_file():
        files = folder.iterdir() if folder.is_dir() else ()
        names = sorted(path.name.removesuffix(".json") for path in files if path.is_file())
        raise FileNotFoundError(
            f"There is no certificate of {env_id}; there are those of {', '.join(names) or 'none'}."
        )
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def certified_battles(env_id: str) -> dict[str, dict[str, Any]]:
    """Return the certificates of the battles of an environment, by map and start; {} for none."""
    folder = resources.files("coopbench.baselines") / "certificates" / env_id.rpartition("/")[2]
    files = list(folder.iterdir()) if folder.is_dir() else []
    files = [file for file in files if file.is_file() and file.name.endswith(".json")]
    return {
        file.name.removesuffix(".json"): json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(files, key=lambda file: file.name)
    }


def learned_policy(env_id: str, battle: str, player: str) -> bytes:
    """Return the file of a policy that was trained for a battle, named by map and start.

    ``player`` is its name in the certificate.

    Raises ``FileNotFoundError`` if the package holds none.
    """
    folder = resources.files("coopbench.baselines") / "certificates" / env_id.rpartition("/")[2]
    return (folder / f"{battle}.{player}.npz").read_bytes()


def certificate_entry(policy: str, game: Game, key: str) -> Any:
    """Return the entry ``key`` of the certificate of ``game``, for a policy that plays it.

    Raises ``ValueError`` naming the policy if there is no certificate.
    """
    try:
        return certified(game.env_id)[key]
    except FileNotFoundError as error:
        raise ValueError(f"Policy {policy!r} cannot play {game.env_id}: {error}") from None
