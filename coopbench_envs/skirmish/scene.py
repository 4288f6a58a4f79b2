"""What is seen of a battle of either version: for pictures, and for the player of recordings."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.rendering import BLUE, GREEN, SKY, VERMILION
from coopbench_envs.scenes import Course, Places, css, packed, turns
from coopbench_envs.skirmish.army import ENERGY, HP, RADIUS, words
from coopbench_envs.skirmish.army import SHIELD as SHIELDS
from coopbench_envs.skirmish.features import SIGHT as USUAL_SIGHT
from coopbench_envs.skirmish.native import SIGHT

__all__ = ["Battle", "battle_of", "scene"]

_UNIT_BYTES = 11  # of a unit in a step: place, health, reserve, target, whether it lives, heading
_SHARES = 255  # parts of a health or reserve

_FIELDS = ("x", "y", "hp", "shield", "energy", "living", "target")
_NATIVE = ("kind", "face_x", "face_y")  # which only version 1 has
_USUAL = {
    **{"marine": "m", "marauder": "r", "medivac": "v", "stalker": "s", "zealot": "z"},
    **{"colossus": "c", "hydralisk": "h", "zergling": "g", "baneling": "b", "spine_crawler": "p"},
}


class Battle(NamedTuple):
    """Two armies in the plane. Lengths are in cells; x points right and y up, from a corner.

    Arrays over units hold the agents and then the enemies. ``ground``, ``kinds``, ``letters``,
    ``reserves``, ``radii``, ``sight`` and ``view`` are the same throughout an episode.
    """

    ground: np.ndarray  # (rows, columns) bool, cells that can be walked on; row 0 is the lowest
    num_agents: int
    kinds: tuple[str, ...]  # (units,) words
    letters: tuple[str, ...]  # (units,) one for each kind
    reserves: tuple[str, ...]  # (units,) shield, energy, or nothing: ""
    radii: np.ndarray  # (units,)
    places: np.ndarray  # (units, 2) of their centres
    health: np.ndarray  # (units,) share that is left, in [0, 1]
    reserve: np.ndarray  # (units,) share that is left of what ``reserves`` names, in [0, 1]
    living: np.ndarray  # (units,) bool
    targets: np.ndarray  # (units,) unit that is aimed at; -1: none
    sight: np.ndarray  # (agents,) how far agents see
    view: float  # radians that an agent sees, half of them on each side; 2 pi: all around
    headings: np.ndarray | None = None  # (units,) radians, the middle of the view; None: no matter

    @staticmethod
    def course(engine: Any) -> Course:
        """Return what notes an episode for the page."""
        return BattleCourse(engine)


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


class BattleCourse(Course):
    """Places, health, reserves, targets and deaths of units."""

    file = Path(__file__)
    followed = "a unit"

    def __init__(self, engine: Any) -> None:
        super().__init__(engine)
        self._scenes: list[Any] = []  # of type ``Battle``

    def row_bytes(self) -> int:
        """Return the bytes of all units."""
        return _UNIT_BYTES * len(self.drawn().living)

    def note(self, shown: bool) -> None:
        """Note the battle if it is ``shown``; deaths stay visible until the end."""
        super().note(shown)
        if shown:
            scene = self.drawn()
            views = scene._asdict().items()
            copies: dict[str, Any] = {n: v.copy() for n, v in views if isinstance(v, np.ndarray)}
            self._scenes.append(scene._replace(**copies))

    def stage(self) -> dict[str, Any]:
        """Return ground, units and their courses as packed arrays."""
        scene = self._scenes[0]
        whole = np.array([one.places for one in self._scenes])
        places, seen = Places(whole), scene.view < 2 * math.pi
        return {
            **places.extent(),
            "ground": packed(scene.ground, "u1"),
            "size": list(scene.ground.shape[::-1]),
            "agents": scene.num_agents,
            "kinds": scene.kinds,
            "letters": scene.letters,
            "radii": packed(scene.radii, "<f4"),
            "positions": places.packed(whole),
            "health": self._shares("health"),
            "reserve": self._shares("reserve"),
            "reserves": scene.reserves,
            "living": self._packed("living", "u1"),
            "targets": self._packed("targets", "<i2"),
            "sight": packed(scene.sight, "<f4"),
            "view": scene.view,
            "headings": packed(turns(self._course("headings")), "<u2") if seen else None,
            "sides": [css(BLUE), css(VERMILION)],
            "healthColour": css(GREEN),
            "reserveColour": css(SKY),
        }

    def _course(self, name: str) -> np.ndarray:
        return np.array([getattr(scene, name) for scene in self._scenes])

    def _packed(self, name: str, kind: str) -> str:
        return packed(self._course(name), kind)

    def _shares(self, name: str) -> str:
        # A unit that is almost dead still shows something.
        return packed(np.ceil(_SHARES * self._course(name)), "u1")
