"""Whole episodes of released games under many options: a seed gives the same bits for good.

If this fails for a game whose rules you changed, give it a new ``-vN`` and keep the old. For a new
case, run ``python tests/test_long_games.py``: it records the cases that are not recorded yet.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from coopbench_envs.engine import DISABLED, Engine

FILE = Path(__file__).parent / "golden" / "long-games.json"
LANES, STEPS = 6, 300
ROUTING = {"horizon": 100}
PRICES = {"shaping": 2.0, "arrival_bonus": 3.0, "time_cost": 0.5, "contact_cost": 0.25}
GRID = {"num_rows": 9, "num_cols": 8, "agent_rad_range": (0.03, 0.09)}
CAVES = {"num_rows": 40, "num_cols": 40}
SPEEDS = {"1": 0.4, "1/2": 0.2, "1/3": 0.2, "1/4": 0.2}
TRAINS = {
    "num_agents": 5,
    "speeds": SPEEDS,
    "malfunction_rate": 0.02,
    "malfunction_duration": (2, 6),
}
FAST = {"acceleration": "1/4", "braking": "1/2", "level_free": 1.0}
DRAWN = {"teams": "drawn", "num_agents": 10, "num_enemies": 11}
SEEN = {"obs_last_action": True, "obs_timestep_number": True, "obs_pathing_grid": True}
CASES = {
    "grid": ("Routing-v1", {"num_agents": 8, "map_params": GRID, **PRICES}),
    "maze": ("Routing-v1", {"num_agents": 12, "map": "labmaze_grid", "on_goal": "stay"}),
    "caves": ("Routing-v1", {"map": "caves_cont", "map_params": CAVES, "on_goal": "lifelong"}),
    "city": ("Routing-v1", {"map": "movingai", "dynamics": "diffdrive"}),
    "lifelong": ("Routing-v0", {"num_agents": 6, "lifelong": True, "map_params": GRID}),
    "tree": ("Rail-v1", TRAINS),
    "graph": ("Rail-v1", {**TRAINS, "observation": "graph", "shaping": 0.5}),
    "global": ("Rail-v1", {**TRAINS, "observation": "global", "on_deadlock": "end"}),
    "accelerating": ("Rail-v0", {**TRAINS, **FAST, "observation": "short"}),
    "three stops": (
        "Rail-v0",
        {**TRAINS, "height": 40, "width": 40, "line_length": 3, "cities": 4},
    ),
    "in 2020": ("Rail-v0", {**TRAINS, "reward": "challenge2020", "observation": "tree_raw"}),
    "healers": ("Skirmish-v1", {"map": "MMM2", "start": "shifted"}),
    "beams": ("Skirmish-v1", {"map": "1c3s5z", "opponent": "kite", "ranges": "smac"}),
    "explosions": ("Skirmish-v1", {"map": "bane_vs_bane", "field_of_view": 90}),
    "corridor": ("Skirmish-v1", {"map": "corridor", "opponent": "focus_fire", "reaction": 3}),
    "zerg": ("Skirmish-v1", {**DRAWN, "race": "zerg", "reward_abs_bug": True, **SEEN}),
    "terran": ("Skirmish-v1", {**DRAWN, "race": "terran", "free_orders": True}),
    "protoss": ("Skirmish-v1", {**DRAWN, "race": "protoss", "start": "shifted"}),
    "options": ("Skirmish-v0", {"map": "MMM2", "opponent": "kite", "free_orders": True, **SEEN}),
    "focus": ("Skirmish-v0", {"map": "6h_vs_8z", "opponent": "focus_fire", "smac_quirks": True}),
}


def actions_of(engine, rng):
    """Return actions that bring agents to their goals, trains forward, and armies together."""
    if not engine.discrete:
        way = engine.state.goal_pos - engine.state.agent_pos
        return way / np.linalg.norm(way, axis=-1, keepdims=True) + rng.normal(0, 0.5, way.shape)
    masks, choices = engine.control.masks, engine.control.masks.shape[-1]
    # East, and above all attacks; of trains: forward.
    weights = np.where(np.arange(choices) == (4 if choices > 5 else 2), 3.0, 1.0)
    weights[6:] = 8.0
    return (rng.random(masks.shape) * masks * weights).argmax(axis=-1)


def digests(env_id, parameters):
    """Return a digest of each array that an engine has shown in an episode of every lane."""
    parameters = ROUTING | parameters if env_id.startswith("Routing") else parameters
    engine, rng = Engine(env_id, LANES, global_state=True, **parameters), np.random.default_rng(0)
    engine.reset(np.arange(LANES))
    shown = {}
    for _ in range(STEPS):
        engine.step(actions_of(engine, rng), DISABLED)
        for name in ("obs", "state", "rewards", "masks", "done", "measures", "alive"):
            array = np.ascontiguousarray(getattr(engine.control, name))
            shown.setdefault(name, hashlib.sha256()).update(array)
    return {name: digest.hexdigest()[:16] for name, digest in shown.items()}


@pytest.mark.parametrize("name", CASES)
def test_whole_episodes_are_those_of_the_release(name):
    assert digests(*CASES[name]) == json.loads(FILE.read_text(encoding="utf-8"))[name]


if __name__ == "__main__":
    recorded = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    recorded = {name: recorded.get(name) or digests(*case) for name, case in CASES.items()}
    FILE.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")
