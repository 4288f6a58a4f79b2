"""Whole episodes of released games under many options: a seed gives the same bits for good.

The rules of these games are tested here; other files test what no episode shows. A rule or an
option that no case reaches needs a case that does.

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
ROOMS = {"map_params": {"map_str_batch": ["....\n.##.\n....", "####\n#..#\n#..#"]}}
CAVES = {"num_rows": 40, "num_cols": 40}
BLOCKS = [
    {"count": 2, "dynamics_params": {"accel": 10.0, "damping": 0.5}},
    {"count": 2, "dynamics": "diffdrive", "dynamics_params": {"linear_speed": [-0.2, 0.6]}},
    {"count": 2, "dynamics_params": {"mass": 4.0}},
]
MIXED = {"dynamics": "mixed", "dynamics_params": {"blocks": BLOCKS}}
SMALL = {"max_agents": 2, "max_obstacles": 1, "window": 0.1}
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
SEEN |= {"state_timestep_number": True}
UNSEEN = {"obs_all_health": False, "obs_own_health": False, "state_last_action": False}
COSTLY = {"reward_only_positive": False, "reward_death_value": 5.0, "reward_defeat": -100.0}
CASES = {
    "grid": ("Routing-v1", {"num_agents": 8, "map_params": GRID, **PRICES}),
    "maze": ("Routing-v1", {"num_agents": 12, "map": "labmaze_grid", "on_goal": "stay"}),
    "two rooms": ("Routing-v1", {"num_agents": 2, "map": "batched_string_grid", **ROOMS}),
    "caves": ("Routing-v1", {"map": "caves_cont", "map_params": CAVES, "on_goal": "lifelong"}),
    "city": ("Routing-v1", {"map": "movingai", "dynamics": "diffdrive"}),
    "lifelong": ("Routing-v0", {"num_agents": 6, "lifelong": True, "map_params": GRID}),
    "mixed": ("Routing-v0", {"num_agents": 6, "map_params": GRID, **MIXED}),
    "driving": ("Routing-v1", {"num_agents": 6, "map_params": GRID, **MIXED, "on_goal": "stay"}),
    "standing": ("Routing-v1", {"num_agents": 12, "map_params": GRID, "patience": 5, **SMALL}),
    "tree": ("Rail-v1", TRAINS),
    "graph": ("Rail-v1", {**TRAINS, "observation": "graph", "shaping": 0.5}),
    "global": ("Rail-v1", {**TRAINS, "observation": "global", "on_deadlock": "end"}),
    "accelerating": ("Rail-v0", {**TRAINS, **FAST, "observation": "short"}),
    "three stops": (
        "Rail-v0",
        {**TRAINS, "height": 40, "width": 40, "line_length": 3, "cities": 4},
    ),
    "dense": ("Rail-v1", {"num_agents": 20, "grid_mode": True, "level_free": 0.5}),
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
    "losses": ("Skirmish-v0", {"map": "2s3z", **COSTLY}),
    "defeats": ("Skirmish-v0", {"map": "5m_vs_6m", "reward_sparse": True, "smac_quirks": True}),
    "heights": ("Skirmish-v0", {"map": "2c_vs_64zg", "obs_terrain_height": True, **UNSEEN}),
    "still": ("Skirmish-v0", {"map": "bane_vs_bane", "opponent": "hold", "free_orders": True}),
    "paid": ("Skirmish-v1", {"map": "3s5z", "start": "fixed", "jitter": False, **COSTLY}),
    "won": ("Skirmish-v1", {"map": "8m", "opponent": "hold", "reward_sparse": True, **UNSEEN}),
    "ranges": ("Skirmish-v1", {"map": "MMM2", "ranges": "smacv2", "reaction": 8}),
    "private": ("TrustDilemma-v0", {"reward_type": "private", "normalize": True}),
    "cooperative": ("PlatformEcosystem-v0", {"reward_type": "cooperative", "reward_scale": 3.0}),
    "trusting": ("SLCD-v0", {"trust_enabled": False}),
    "damaged": ("RecoveryRace-v0", {"recovery_target": 0.5, "initial_reputation_damage": 0.0}),
    "secret": ("SynergySearch-v0", {}),
    "revealed": ("SynergySearch-v0", {"reveal_gamma_in_obs": True}),
    "market": ("ReputationMarket-v0", {"reputation_visibility": 0.9}),
    "one tier": ("ReputationMarket-v0", {"tier_enabled": False}),
    "coalition": ("CoalitionFormation-v0", {"num_agents": 4, "exit_threshold": 0.14}),
    "strict": ("CooperativeNegotiation-v0", {"agreement_threshold": 0.0}),
    "late": ("TrustDilemma-v1", {"delay": 2, "trembles": 0.3}),
    "rival": ("PartnerHoldUp-v1", {"reach": 0.35}),
    "contract": ("PartnerHoldUp-v1", {"contract": 0.9, "reach": 1.0, "waiver": 1.0, "power": 1.0}),
    "platform": ("PlatformEcosystem-v1", {"initial_trust": (0.3, 0.9), "outside": 0.05}),
    "long waits": ("PlatformEcosystem-v1", {"num_developers": 2, "wait": 3, "reach": 0.4}),
    "recovery": ("RecoveryRace-v1", {"delay": 1}),
    "unharmed": ("RecoveryRace-v1", {"initial_trust": (0.5, 1.0), "damage": (0.0, 0.1)}),
    "phases": ("RenaultNissan-v1", {}),
    "short phases": ("RenaultNissan-v1", {"horizon": 2}),
    "ramps": ("SLCD-v1", {}),
    "search": ("SynergySearch-v1", {}),
    "told search": ("SynergySearch-v1", {"reveal_times": True}),
    "partners": ("DynamicPartnerSelection-v1", {"num_agents": 7}),
    "pairs": ("DynamicPartnerSelection-v1", {"num_agents": 2, "noise": (1.0, 1.0)}),
}


def actions_of(engine, rng):
    """Return actions that bring agents to their goals, trains forward, and armies together.

    Firms of the first lane invest little, those of the last lane much, and each of them changes
    its mind for 25 of 75 steps.
    """
    if engine.spec.trace is not None:
        level = np.linspace(-0.2, 1.1, LANES)[:, None]
        turns = (engine.state.time[:, None] // 25 + np.arange(len(engine.agents))) % 3 == 0
        level = np.where(turns, 1.0 - level, level)[:, :, None]
        low, high = engine.action_bounds()
        return low + (high - low) * (level + rng.uniform(-0.4, 0.4, engine.actions.shape))
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
        if engine.spec.trace is not None:
            for name, array in engine.spec.trace(engine.constants, engine.state).items():
                shown.setdefault(name, hashlib.sha256()).update(np.ascontiguousarray(array))
    return {name: digest.hexdigest()[:16] for name, digest in shown.items()}


@pytest.mark.parametrize("name", CASES)
def test_whole_episodes_are_those_of_the_release(name):
    assert digests(*CASES[name]) == json.loads(FILE.read_text(encoding="utf-8"))[name]


if __name__ == "__main__":
    recorded = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    recorded = {name: recorded.get(name) or digests(*case) for name, case in CASES.items()}
    FILE.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")
