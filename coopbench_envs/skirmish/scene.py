"""What is seen of a battle of either version: for pictures, and for the player of recordings."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from coopbench_envs.scenes import Battle
from coopbench_envs.skirmish.army import ENERGY, HP, RADIUS, words
from coopbench_envs.skirmish.army import SHIELD as SHIELDS
from coopbench_envs.skirmish.features import SIGHT as USUAL_SIGHT
from coopbench_envs.skirmish.native import SIGHT

__all__ = ["battle_of", "scene"]

_FIELDS = ("x", "y", "hp", "shield", "energy", "living", "target")
_NATIVE = ("kind", "face_x", "face_y")  # which only version 1 has
_USUAL = {
    **{"marine": "m", "marauder": "r", "medivac": "v", "stalker": "s", "zealot": "z"},
    **{"colossus": "c", "hydralisk": "h", "zergling": "g", "baneling": "b", "spine_crawler": "p"},
}


def scene(constants: Any, state: Any, lane: int) -> Battle:
    """Return what the player of recordings draws of one lane."""
    names = (name for name in _FIELDS + _NATIVE if hasattr(state, name))
    return battle_of(constants, {name: getattr(state, name)[lane] for name in names})


def battle_of(constants: Any, fields: Mapping[str, np.ndarray]) -> Battle:
    """Return what is seen of one lane, from the fields of its state."""
    army, kinds = constants.army, _kinds(constants, fields)
    stats, agents = _stats(constants, fields), constants.army.num_agents
    sight, view, headings = np.full(agents, USUAL_SIGHT), 2 * math.pi, None
    if "kind" in fields:
        sight = stats[:agents, SIGHT]
    if "kind" in fields and constants.rules.faces:
        view = 2 * math.acos(constants.rules.half_cosine)
        headings = np.arctan2(fields["face_y"], fields["face_x"])
    most = np.where(stats[:, SHIELDS] > 0, stats[:, SHIELDS], stats[:, ENERGY])
    held = np.where(stats[:, SHIELDS] > 0, fields["shield"], fields["energy"])
    return Battle(
        ground=army.terrain,
        num_agents=agents,
        kinds=kinds,
        letters=_letters(kinds),
        reserves=tuple(_reserve(numbers) for numbers in stats),
        radii=stats[:, RADIUS],
        places=np.stack([fields["x"], fields["y"]], axis=1).astype(np.float64),
        health=np.clip(fields["hp"] / stats[:, HP], 0.0, 1.0),
        reserve=np.clip(held / np.maximum(most, 1e-9), 0.0, 1.0),
        living=fields["living"],
        targets=fields["target"],
        sight=sight,
        view=view,
        headings=headings,
    )


def _stats(constants: Any, fields: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the numbers of each unit, (units, columns); kinds may differ between episodes."""
    if "kind" in fields:
        numbers: np.ndarray = constants.rules.kinds.stats[fields["kind"]]
        return numbers
    usual: np.ndarray = constants.army.stats
    return usual


def _reserve(numbers: np.ndarray) -> str:
    """Return what a unit has in addition to its health."""
    return "shield" if numbers[SHIELDS] > 0 else "energy" if numbers[ENERGY] > 0 else ""


def _kinds(constants: Any, fields: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """Return the word for each unit."""
    names = words(constants.army)
    if "kind" in fields:
        word_of = dict(zip(constants.rules.kind.tolist(), names, strict=True))
        names = [word_of[kind] for kind in fields["kind"].tolist()]
    return tuple(names)


def _letters(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return a letter for each unit; a kind of a user has the first one that is still free."""
    letters = dict(_USUAL)
    for name in dict.fromkeys(names):
        if name in letters:
            continue
        free = [letter for letter in name if letter not in letters.values()]
        letters[name] = free[0] if free else name[0]
    return tuple(letters[name].upper() for name in names)
