"""A released trajectory never changes: a seed gives the same for as long as the id lives.

If this fails for an environment whose rules you changed, give it a new ``-vN`` and keep the old.
For a new environment, add what the failure prints to ``golden/trajectories.json``.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from coopbench_envs import Engine

FILE = Path(__file__).parent / "golden" / "trajectories.json"
SEEDS, STEPS = (0, 7, 2**63), 5


def trajectory(env_id):
    """Random state and rewards of the first agents after a few steps that depend on the state."""
    engine = Engine(env_id, len(SEEDS))
    engine.reset(np.array(SEEDS, np.uint64))
    for t in range(STEPS):
        if engine.discrete:
            actions = np.full(engine.actions.shape, t % engine.action_spaces[0].n)
        else:
            low = np.stack([space.low for space in engine.action_spaces])
            high = np.stack([space.high for space in engine.action_spaces])
            actions = np.broadcast_to(low + (high - low) * (0.45 + 0.02 * t), engine.actions.shape)
        engine.step(actions)
    control = engine.control
    return {
        "rng": [str(state) for state in control.rng],
        "rewards": control.rewards[:, :4].tolist(),
        "observed": control.obs.astype(np.float64).sum(axis=(1, 2)).tolist(),
    }


def test_seeded_trajectories_are_those_of_the_release(env_id):
    recorded = json.loads(FILE.read_text())
    now = trajectory(env_id)
    assert env_id in recorded, f'"{env_id}": {json.dumps(now)}'
    assert now["rng"] == recorded[env_id]["rng"]
    for name in ("rewards", "observed"):  # the last digits may depend on the machine's libm
        assert np.array(now[name]) == pytest.approx(np.array(recorded[env_id][name]), rel=1e-6)
