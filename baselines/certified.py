"""What certificates say to policies: the best constant and the best fixed sequence of a game."""

import json
from importlib import resources
from typing import Any

__all__ = ["certified"]


def certified(env_id: str) -> dict[str, Any]:
    """Return the content of an environment's certificate.

    Raises ``FileNotFoundError`` if the package holds none for it.
    """
    name = env_id.rpartition("/")[2]
    folder = resources.files(__package__) / "certificates"
    file = folder / f"{name}.json"
    if not file.is_file():
        known = sorted(path.name.removesuffix(".json") for path in folder.iterdir())
        raise FileNotFoundError(
            f"There is no certificate of {env_id}; there are those of {', '.join(known) or 'none'}."
        )
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content
