"""The state of a learner as arrays: parts under names, and whose training it is."""

from collections.abc import Mapping

import numpy as np

from coopbench_envs.arrays import LIMIT

__all__ = ["LARGEST", "check_saved", "origin", "part", "under"]

LARGEST = int(0.75 * LIMIT)  # bytes of a saved state that steps and episodes in it may take


def under(name: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return arrays with ``name.`` before their names, as parts of a larger whole."""
    return {f"{name}.{key}": array for key, array in arrays.items()}


def part(arrays: Mapping[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """Return the arrays that ``under`` has put under a name, without it."""
    start = f"{name}."
    return {k.removeprefix(start): array for k, array in arrays.items() if k.startswith(start)}


def origin(learner: str, game: str, seed: int, hyperparameters: str) -> np.ndarray:
    """Return which training it is, as bytes of a text, uint8: learner, game, seed, settings."""
    text = f"{learner} on {game}, seed {seed}, with {hyperparameters}"
    return np.frombuffer(text.encode(), np.uint8).copy()


def check_saved(
    saved: Mapping[str, np.ndarray], current: Mapping[str, np.ndarray], learner: str
) -> None:
    """Raise ``ValueError`` unless ``saved`` may replace the ``current`` arrays of a learner.

    They must have the same names, shapes and types, and "origin" the same content.
    """
    before, now = (bytes(arrays.get("origin", b"")).decode() for arrays in (saved, current))
    if before != now:
        raise ValueError(
            f"The saved state does not fit {learner}: it is of {before or 'unknown origin'}; "
            f"allowed: {now}."
        )
    for name in sorted({*saved, *current}):
        before, now = (_form(arrays, name) for arrays in (saved, current))
        if before != now:
            raise ValueError(
                f"The saved state does not fit {learner}: {name!r} is {before}; allowed: {now}."
            )


def _form(arrays: Mapping[str, np.ndarray], name: str) -> str:
    """Return type and shape of an array as text; "absent" if there is none of that name."""
    return f"{arrays[name].dtype} {arrays[name].shape}" if name in arrays else "absent"
