"""Battles of units at given places, on a map that is made for them."""

import json

import builders
import numpy as np

from coopbench_envs.engine import DISABLED

STOP, NORTH, SOUTH, EAST, WEST, FIRST = range(1, 7)


def map_of(allies, enemies, **entries):
    """Return a map with one group for each unit: (kind, x, y)."""
    groups = [
        {"x": x, "y": y, "faction": faction, "units": {kind: 1}}
        for faction, units in (("ALLY", allies), ("ENEMY", enemies))
        for kind, x, y in units
    ]
    content = {"groups": groups, "attack_point": [9, 16], "terrain_preset": "SIMPLE", "limit": 50}
    return content | entries


def begun(folder, env_id, allies, enemies, *, lanes=1, **parameters):
    """Begin a battle of units at given places; enemies stand where they are."""
    file = folder / "map.json"
    file.write_text(json.dumps(map_of(allies, enemies)))
    parameters = {"map_file": str(file), "opponent": "hold"} | parameters
    return builders.begun(env_id, lanes, **parameters)


def play(engine, *actions, steps=1):
    """Play the same actions in all lanes; return the state."""
    for _ in range(steps):
        engine.step(np.array([actions] * engine.lanes), DISABLED)
    return engine.state
