"""Environments that flatland-rl 4.3.0 draws and plays, beside what becomes of them here.

    FLATLAND_PYTHON=... python -m pytest studies/checks/on_flatland.py

needs an interpreter with flatland-rl, which the variable names; skipped without.
"""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from coopbench_envs.engine import DISABLED, Engine
from coopbench_envs.rail import importing
from coopbench_envs.rail.trains import ARRIVED, BROKEN_OFF_MAP
from studies.checks.folders import ROOT

PYTHON = os.environ.get("FLATLAND_PYTHON", "")
needs_flatland = pytest.mark.skipif(not PYTHON, reason="FLATLAND_PYTHON names no interpreter")
NAMES, MIXES = ("a", "b", "c", "again"), ("random", "moving", "forward")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with exported environments, their pickles and recorded episodes."""
    path = tmp_path_factory.mktemp("flatland")
    script = str(ROOT / "studies" / "rail" / "flatland_play.py")
    subprocess.run([PYTHON, "-W", "ignore", script, str(path)], check=True, timeout=600)
    return path


def alone(folder, file, tmp_path):
    """Return the arrays of one file, read as a folder with one environment."""
    (tmp_path / file).write_bytes((folder / file).read_bytes())
    return importing.read_folder(tmp_path)


@needs_flatland
@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("name", NAMES)
def test_exported_environments_play_as_in_flatland(folder, tmp_path, name, mix):
    arrays = alone(folder, f"{name}.npz", tmp_path)
    parameters = importing.task_of(arrays)
    engine = Engine("coopbench/Rail-v0", 1, observation="none", **parameters)
    fields = engine.spec.instances(engine.constants, arrays)
    engine.reset(np.zeros(1, np.int64), state={key: value[0] for key, value in fields.items()})
    with np.load(folder / f"{name}.{mix}.played.npz") as stored:
        played = {key: stored[key] for key in stored.files}
    c, s = engine.constants, engine.state
    for t, actions in enumerate(played["actions"]):
        assert not engine.control.done[0]
        engine.step(actions[None].astype(np.int64), DISABLED)
        on_map = (s.status[0] > BROKEN_OFF_MAP) & (s.status[0] < ARRIVED)
        cell = s.place[0] >> 2
        places = np.stack([cell // c.map.columns - 1, cell % c.map.columns - 1], axis=-1)
        ours = {
            "state": s.status[0],
            "pos": np.where(on_map[:, None], places, -1),
            "dir": np.where(on_map, s.place[0] & 3, -1),
            "broken": s.broken[0],
            "rewards": engine.control.rewards[0],
            "speed": s.speed[0] / c.drive.unit,
        }
        for field, values in ours.items():
            np.testing.assert_array_equal(values, played[field][t], err_msg=f"{field}, step {t}")
    assert engine.control.done[0]


@needs_flatland
@pytest.mark.parametrize("name", NAMES)
def test_pickles_of_flatland_are_the_exported_environments(folder, tmp_path, name):
    for kind in ("npz", "pkl"):
        (tmp_path / kind).mkdir()
    exported = alone(folder, f"{name}.npz", tmp_path / "npz")
    pickled = alone(folder, f"{name}.pkl", tmp_path / "pkl")
    for field in ("grid", "init_pos", "init_dir", "target", "max_speed", "max_episode_steps"):
        np.testing.assert_array_equal(pickled[field], exported[field], err_msg=field)
    engine = Engine("coopbench/Rail-v0", 1, observation="none", **importing.task_of(exported))
    both = [engine.spec.instances(engine.constants, arrays) for arrays in (exported, pickled)]
    for field, values in both[0].items():
        np.testing.assert_array_equal(both[1][field], values, err_msg=field)
