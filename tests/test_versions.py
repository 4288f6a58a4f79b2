"""A released trajectory never changes: a seed gives the same for as long as the id lives.

If this fails for an environment whose rules you changed, give it a new ``-vN`` and keep the old.
For a new environment, run ``python -m studies.trajectories``.
"""

import json

import numpy as np
import pytest

from studies.trajectories import FILE, trajectory, written


def test_seeded_trajectories_are_those_of_the_release(env_id):
    recorded = json.loads(FILE.read_text(encoding="utf-8"))
    assert env_id in recorded, "run 'python -m studies.trajectories'"
    now = trajectory(env_id)
    assert now["rng"] == recorded[env_id]["rng"]
    for name in ("rewards", "observed"):  # the last digits may depend on the machine's libm
        assert np.array(now[name]) == pytest.approx(np.array(recorded[env_id][name]), rel=1e-6)


def test_recording_leaves_recorded_trajectories_as_they_are():
    text = FILE.read_text(encoding="utf-8")
    assert written(json.loads(text)) == text
