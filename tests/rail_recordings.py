"""Recorded episodes of flatland-rl 4.3.0, in the form in which ``instances`` takes them."""

import json
from fractions import Fraction

import numpy as np

ECML_2026 = {
    "cancellation_factor": 5,
    "min_penalty": 100,
    "not_served_penalty": 50,
    "late_factor": 0.5,
    "early_factor": 0.5,
    "collision_factor": 250,
}


def load(file):
    """Return the arrays of a recording and its ``meta``."""
    with np.load(file, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return arrays, json.loads(str(arrays.pop("meta")))


def parameters(arrays, meta, **others):
    """Return the parameters of the task that a recording was made under."""
    height, width = arrays["grid"].shape
    malfunction = meta["malfunction"] or (0.0, 20, 50)
    return {
        "num_agents": len(arrays["init_dir"]),
        "height": height,
        "width": width,
        "cities": 0,
        "acceleration": meta["acceleration_delta"],
        "braking": str(-Fraction(meta["braking_delta"])),
        "malfunction_rate": malfunction[0],
        "malfunction_duration": tuple(malfunction[1:]),
        "line_length": meta["line_length"],
        "horizon": int(arrays["max_episode_steps"]),
        "observation": "none",
        **(ECML_2026 if meta["rewards"] == "ECML2026Rewards" else {}),
        **others,
    }


def instance(arrays):
    """Return the arrays of a recording as an instance, with the malfunctions that took effect."""
    steps, trains = np.nonzero(arrays["malf_new"])
    strikes = np.stack([steps + 1, trains, arrays["malf_new"][steps, trains]], axis=1)
    names = ("grid", "level_free", "init_pos", "init_dir", "target", "target_dirs", "max_speed")
    names += ("init_speed", "earliest_departure", "latest_arrival", "waypoints")
    return {name: arrays[name] for name in (*names, "max_episode_steps")} | {"strikes": strikes}
