"""rail-standard: the plans of its instances bring all trains home, played as they are."""

import io
import json
import runpy
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from coopbench.protocol.loading import load_protocol
from coopbench.protocol.task import instance_file
from coopbench_envs.engine import DISABLED, Engine
from coopbench_envs.rail.rail_v1 import fields_of
from coopbench_envs.rail.trains import ARRIVED

TASKS = {task.id: task for task in load_protocol("rail-standard").task}
PLAIN = ("trains_7", "trains_20")
INSTANCES = 100


@cache
def arrays_of(task_id):
    """Return the arrays of a task's file."""
    content = instance_file(TASKS[task_id].instances.file)
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


@pytest.mark.parametrize("task_id", PLAIN)
def test_plans_bring_all_trains_home_within_the_limit(task_id):
    """The actions are played by the engine, without the planner that found them."""
    arrays = arrays_of(task_id)
    parameters = TASKS[task_id].parameters
    engine = Engine("coopbench/Rail-v1", INSTANCES, **parameters | {"observation": "none"})
    engine.reset(np.arange(INSTANCES), state=fields_of(engine.constants, arrays))
    s, plan = engine.state, arrays["plan"].astype(np.int64)
    for step in range(plan.shape[1]):
        engine.step(plan[:, step], DISABLED)
    assert (s.status == ARRIVED).all()
    assert engine.control.terminated.all()
    assert not engine.control.invalid.any()
    assert (s.arrival.max(axis=1) <= arrays["max_episode_steps"]).all()
    np.testing.assert_array_equal(s.arrival.max(axis=1), arrays["plan_makespan"])
    delays = np.maximum(s.arrival - s.due, 0).sum(axis=1)
    np.testing.assert_array_equal(delays, arrays["plan_delay"])
    solvable = engine.control.measures[:, list(engine.spec.metrics).index("solvable")]
    assert (solvable == 1).all()


@cache
def certificate_script():
    """Return the script that measures what kinds of play reach."""
    root = Path(__file__).resolve().parent.parent
    return runpy.run_path(str(root / "studies" / "rail" / "certificate.py"))


@cache
def certificate():
    return json.loads(certificate_script()["FILE"].read_text(encoding="utf-8"))


PLANNER = "prioritised:effort=20000"
REPLANNER = "prioritised_replan:effort=20000,effort_at_strikes=5000"


@pytest.mark.slow("certificates")
@pytest.mark.parametrize("task_id", ["trains_7", "trains_7_malfunctions"])
def test_episodes_of_the_certificate_are_played_again(task_id):
    script, stored = certificate_script(), certificate()[task_id]
    stage = script["Stage"](TASKS[task_id], script["SHOWN"])
    trains = stage.engine.constants.num_agents
    scores = {
        "constant": stage.score_sequence(np.full((1, trains), stored["constant"]["action"])),
        "sequence": stage.score_sequence(
            np.array([list(map(int, row)) for row in stored["sequence"]["actions"]]).T
        ),
    }
    for name in ("never_depart", "forward", "random", "shortest_path", PLANNER, REPLANNER):
        scores[name] = stage.score_policy(name)
    for name, values in scores.items():
        np.testing.assert_allclose(values, stored[name]["first"], atol=1e-9, err_msg=name)


def test_the_page_shows_the_certificate():
    page = Path(__file__).resolve().parent.parent / "docs" / "environments" / "rail_results.md"
    text = page.read_text(encoding="utf-8")
    for name in certificate()["trains_7"]:
        cells = " | ".join(f"{certificate()[task][name]['mean']:.2f}" for task in certificate())
        assert f"| {cells} |" in text, (name, cells)
