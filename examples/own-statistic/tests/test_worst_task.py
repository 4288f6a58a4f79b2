"""The statistic by itself, and in a report."""

import numpy as np
from worst_task.statistic import weights

import coopbench

PROTOCOL = """
extends = "coopetition-published"

[protocol]
name = "two-tasks"
description = "Two tasks with a few short episodes."

[seeds]
evaluation = { first = 0, count = 5 }

[report]
score = "return"
metrics = ["return"]
learned = []

[[task]]
id = "short"
env = "coopbench/TrustDilemma-v1"
parameters = { horizon = 3 }
bounds = { low = 0.0, high = 1000.0 }

[[task]]
id = "long"
env = "coopbench/TrustDilemma-v1"
parameters = { horizon = 6 }
bounds = { low = 0.0, high = 1000.0 }
"""


def test_the_lowest_mean_has_all_the_weight():
    np.testing.assert_array_equal(weights(np.array([0.5, 0.2, 0.9])), [0.0, 1.0, 0.0])


def test_a_report_has_it_with_an_interval(tmp_path):
    file = tmp_path / "two-tasks.toml"
    file.write_text(PROTOCOL, encoding="utf-8")
    report = coopbench.evaluate(file, ["random"], tmp_path / "results", only=True)
    (worst,) = [row for row in report.aggregates if row.statistic == "worst_task"]
    bounds = {task.id: task.bounds for task in report.protocol.task}
    means = [
        float(bounds[row.task].normalise(np.array(row.mean)))
        for row in report.estimates
        if row.metric == "return"
    ]
    assert len(means) == 2
    assert np.isclose(worst.estimate, min(means))
    assert worst.low < worst.estimate < worst.high
    assert "Worst task" in (tmp_path / "results" / "report.md").read_text("utf-8")
