"""Learning curves, how early a policy learns, and the final medians of a report with medians."""

import dataclasses
import json
import warnings

import numpy as np
import pytest
from builders import altered, make_block, make_task, protocol_of
from scipy import stats

from coopbench.analysis.learning import last_rise, rise_of
from coopbench.analysis.score_matrix import score_scales
from coopbench.episodes.table import Cell, EpisodeTable, Progress
from coopbench.protocol.schema import Protocol
from coopbench.report.explanations import explanations
from coopbench.report.markdown import as_markdown
from coopbench.report.report import Report
from coopbench.report.sections import learning as efficiency
from coopbench.report.sections.aggregates import aggregate_table
from coopbench.report.sections.learning import NEVER, efficiency_table
from coopbench.report.sections.medians import final_medians, medians_table
from coopbench.report.serialise import as_json

STEPS = np.array([100_000, 200_000, 400_000, 800_000])
RUNS = 6
TASKS = ("first", "second")


def make_protocol(**report) -> Protocol:
    """Two tasks of one group; a score of 200 is 1."""
    return protocol_of(
        "invented",
        tasks=[make_task(name, horizon=5 + k, high=200) for k, name in enumerate(TASKS)],
        train=range(900, 900 + RUNS),
        count=4,
        selection=(50, 3),
        **({"metrics": ["return"], "baselines": None, "resamples": 200} | report),
    )


def make_progress(task, policy, run, means, steps=STEPS) -> Progress:
    """A run with the given mean scores; its three episodes differ."""
    scores = np.asarray(means, float)[:, None] + np.array([-9.0, 2.0, 7.0])
    return Progress(Cell(task, policy, run), np.asarray(steps), {"return": scores})


def make_table(means, steps=STEPS, **other) -> EpisodeTable:
    """Runs of a policy on both tasks, {policy: (tasks, runs, points)}; ``other`` steps by run."""
    return EpisodeTable(
        (),
        progress=tuple(
            make_progress(task, policy, 900 + r, *other.get(f"{task}_{r}", (row, steps)))
            for policy, values in means.items()
            for task, runs in zip(TASKS, values, strict=True)
            for r, row in enumerate(runs)
        ),
    )


@pytest.fixture
def means():
    """Rising scores, (tasks, runs, points)."""
    rng = np.random.default_rng(3)
    return np.sort(rng.uniform(0.0, 200.0, (2, RUNS, 4)), axis=-1)


def find(curves, task):
    return next(curve for curve in curves if curve.task == task)


def learning_of(protocol, table):
    """Learning curves, and the rows of sample efficiency."""
    return efficiency.learning_curves(protocol, table), efficiency.efficiencies(protocol, table)


def test_the_curve_of_a_task_is_the_mean_over_runs_with_its_two_way_interval(means):
    curves, _ = learning_of(make_protocol(), make_table({"mine": means}))
    curve = find(curves, "second")
    assert curve.steps.tolist() == STEPS.tolist()
    assert (curve.runs, curve.flag) == (RUNS, "")
    for k in range(4):
        runs = means[1, :, k]
        # The three episodes differ alike in all runs: both parts add, and nothing is in common.
        parts = [stats.t.ppf(0.975, len(x) - 1) * stats.sem(x) for x in (runs, [-9.0, 2.0, 7.0])]
        half = np.hypot(*parts)
        assert (curve.low[k], curve.high[k]) == pytest.approx(
            (runs.mean() - half, runs.mean() + half)
        )
        assert curve.estimate[k] == pytest.approx(runs.mean())


def test_the_curve_of_a_group_is_the_iqm_of_task_means(means):
    curves, rows = learning_of(make_protocol(), make_table({"mine": means}))
    curve, (row,) = find(curves, ""), rows
    tasks = means.mean(axis=1) / 200
    expected = [stats.trim_mean(tasks[:, k], 0.25) for k in range(4)]
    assert curve.estimate == pytest.approx(expected)
    assert (curve.low < curve.estimate).all()
    assert (curve.high > curve.estimate).all()
    area = np.trapezoid(expected, STEPS) / (STEPS[-1] - STEPS[0])  # by the true steps
    assert row.area == pytest.approx(area)
    assert row.area_low < row.area < row.area_high
    assert row.steps == STEPS[np.argmax(np.array(expected) >= efficiency.THRESHOLD)]
    assert (row.first, row.last, row.runs) == (100_000, 800_000, RUNS)


def test_a_run_counts_with_its_whole_curve():
    """Runs differ by a constant: the area is as uncertain as every single point."""
    levels = np.linspace(40.0, 160.0, RUNS)
    flat = np.broadcast_to(levels[None, :, None], (2, RUNS, 4))
    curves, (row,) = learning_of(make_protocol(), make_table({"mine": flat}))
    curve = find(curves, "")
    assert row.area_high - row.area_low == pytest.approx(curve.high[0] - curve.low[0])


def test_tasks_share_the_luck_of_selection_seeds_whatever_their_game():
    """All runs are alike: a band is as wide as episodes are uncertain, alone or of two tasks."""
    table = make_table({"mine": np.full((2, RUNS, 4), 100.0)})
    one = make_protocol()
    first, second = one.task
    other = second.model_copy(update={"env": "coopbench/PartnerHoldUp-v1"})
    for tasks in ((first, second), (first, other)):
        curves, (row,) = learning_of(one.model_copy(update={"task": tasks}), table)
        task, together = find(curves, "first"), find(curves, "")
        assert (together.high - together.low) * 200 == pytest.approx(task.high - task.low)
        assert row.area_high - row.area_low == pytest.approx(together.high[0] - together.low[0])


def test_tasks_of_which_one_has_fewer_selection_episodes_share_the_others():
    """The second task lacks the last of three episodes: a covariance over two of them."""
    whole = make_table({"mine": np.full((2, RUNS, 4), 100.0)})
    shorter = [
        dataclasses.replace(p, metrics={"return": p.metrics["return"][:, :2]})
        if p.cell.task == "second"
        else p
        for p in whole.progress
    ]
    curves, _ = learning_of(make_protocol(), EpisodeTable((), progress=tuple(shorter)))
    luck, fewer = np.array([-9.0, 2.0, 7.0]), np.array([-5.5, 5.5])
    shared = np.sum(luck[:2] * fewer) * np.sqrt(3 / 2 * 2)
    variance = np.var(luck, ddof=1) / 3 + np.var(fewer, ddof=1) / 2 + 2.0 * shared / 6
    half = stats.t.ppf(0.975, 1) * np.sqrt(variance) / 2 / 200
    curve = find(curves, "")
    assert curve.high - curve.estimate == pytest.approx(np.full(4, half))


def test_a_threshold_that_is_not_reached_is_said(means):
    report = make_report(make_table({"mine": means / 4}))
    (row,) = report.efficiency
    assert row.steps == row.steps_high == np.inf
    assert np.isfinite(row.area)
    text = as_markdown(report.document)
    assert NEVER in text
    assert "training runs, n = 6" in text


def test_other_steps_are_named_and_the_common_ones_used(means):
    table = make_table({"mine": means}, first_2=(means[0, 2, :2], STEPS[:2]))
    curves, (row,) = learning_of(make_protocol(), table)
    assert find(curves, "first").steps.tolist() == STEPS[:2].tolist()
    assert "run 902 has other checkpoints" in find(curves, "first").flag
    assert find(curves, "second").steps.tolist() == STEPS.tolist()
    assert find(curves, "second").flag == ""
    assert find(curves, "").steps.tolist() == STEPS[:2].tolist()
    assert row.last == STEPS[1]
    assert "first: run 902" in row.flag
    assert "over the 2 steps that all tasks have" in row.flag


def test_runs_without_a_common_step_have_no_curve_but_are_named(means):
    late = {f"{task}_1": (means[k, 1], STEPS + 1) for k, task in enumerate(TASKS)}
    curves, rows = learning_of(make_protocol(), make_table({"mine": means[:, :2]}, **late))
    assert not rows
    assert all(len(curve.steps) == 0 and "other checkpoints" in curve.flag for curve in curves)


def test_missing_runs_leave_the_others(means):
    table = make_table({"mine": means})
    short = EpisodeTable((), progress=table.progress[:-2])
    curves, (row,) = learning_of(make_protocol(), short)
    assert (find(curves, "first").runs, find(curves, "second").runs) == (RUNS, RUNS - 2)
    assert row.runs == RUNS - 2
    tasks = [means[0, :, 0].mean() / 200, means[1, :-2, 0].mean() / 200]
    assert find(curves, "").estimate[0] == pytest.approx(np.mean(tasks))
    half = EpisodeTable((), progress=table.progress[:RUNS])  # of one task
    curves, rows = learning_of(make_protocol(), half)
    assert [curve.task for curve in curves] == ["first"]
    assert not rows


def test_two_runs_have_no_interval(means):
    curves, (row,) = learning_of(make_protocol(), make_table({"mine": means[:, :2]}))
    assert all(np.isnan(curve.low).all() and np.isfinite(curve.estimate).all() for curve in curves)
    assert np.isnan([row.area_low, row.steps_low, row.steps_high]).all()
    assert "it needs 3 runs" in row.flag


def test_steps_to_the_threshold_lie_between_those_of_the_ends_of_the_band(means):
    curves, (row,) = learning_of(make_protocol(), make_table({"mine": means}))
    curve = find(curves, "")
    for ends, steps in ((curve.high, row.steps_low), (curve.low, row.steps_high)):
        reached = STEPS[ends >= efficiency.THRESHOLD]
        assert steps == (reached[0] if len(reached) else np.inf)
    assert row.steps_low <= row.steps <= row.steps_high


def test_late_scores_are_the_highest_late_medians():
    """Only checkpoints of the last 250,000 steps count, and medians before maxima."""
    steps = np.array([100_000, 551_000, 700_000, 800_000])
    runs = np.array([[199, 60, 80, 10], [199, 70, 20, 90], [199, 80, 50, 40.0]])
    values = np.broadcast_to(runs, (2, 3, 4))
    close = values - 0.9 * 200 / 32
    table = make_table({"mine": values, "close": close, "poor": values - 50}, steps)
    protocol = make_protocol(reproduces={"medians": True})
    rows = {(row.task, row.policy): row for row in final_medians(protocol, table)}
    row = rows["first", "mine"]
    assert (row.median, row.low, row.high, row.step) == (70.0, 65.0, 75.0, 551_000)
    assert not any(row.leads for row in rows.values())  # 0.9 of 1/32 is too little
    without = make_table({"mine": values, "poor": values - 50}, steps)
    led = [row.policy for row in final_medians(protocol, without) if row.leads]
    assert led == ["mine", "mine"]
    assert final_medians(make_protocol(), table) == ()


def make_report(table, **settings):
    """The part of a report that is about training."""
    protocol = make_protocol(**settings)
    table = EpisodeTable(
        tuple(make_block(p.cell, np.ones((4, 2))) for p in table.progress), table.progress
    )
    curves, rows = learning_of(protocol, table)
    final = final_medians(protocol, table)
    parts = {"learning": curves, "efficiency": rows, "final_medians": final}
    return altered(Report(protocol, table), **parts)


def test_tables_and_plots_show_what_was_found(means):
    report = make_report(
        make_table({"mine": means, "other": means / 2}), reproduces={"medians": True}
    )
    early, final = efficiency_table(report), medians_table(report)
    assert [row[0].text for row in early.groups[0].rows] == ["mine", "other"]
    assert final.groups[0].rows[0][1].value == report.final_medians[0].median
    led = [entry.value for entry in final.groups[1].rows[0][1:]]
    assert led == [
        sum(row.leads for row in report.final_medians if row.policy == p) for p in ("mine", "other")
    ]
    nothing = make_report(EpisodeTable(()))
    assert efficiency_table(nothing) is medians_table(nothing) is None
    stored = json.loads(as_json(report))
    assert [row["leads"] for row in stored["final_medians"]] == [
        row.leads for row in report.final_medians
    ]
    assert stored["efficiency"][0]["area"] == report.efficiency[0].area
    chart = efficiency.task_chart(report, "first")
    assert [line.label for line in chart.lines] == ["mine", "other"]
    assert list(chart.lines[0].x) == STEPS.tolist()
    chart = efficiency.efficiency(report, "")
    assert chart.lines[1].y[0] == pytest.approx(find(report.learning, "").estimate[0] / 2)


def test_a_curve_that_still_rises_is_named_in_the_row():
    """A mean of 1 more of 200 in each of eight checkpoints, or flat after the fourth."""
    steps, rising = np.arange(1, 9) * 100, np.arange(8.0)
    assert last_rise(steps, rising) == pytest.approx(2.0)  # 6 and 7 against 4 and 5
    assert last_rise(steps, np.minimum(rising, 3.0)) == 0.0
    assert np.isnan(last_rise(steps[:1], rising[:1]))
    assert np.isnan(last_rise(steps[:0], rising[:0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(last_rise(np.array([0]), np.array([0.1])))

    means = {"grows": np.full((2, RUNS, 8), 10.0) + 4 * rising, "flat": np.full((2, RUNS, 8), 10.0)}
    report = make_report(make_table(means, steps))
    scales = score_scales(report.protocol, report.episodes)
    for policy, rise in {"grows": 8 / 200, "flat": 0.0}.items():
        tasks = report.protocol.task
        got = rise_of(report.protocol, report.episodes, tasks, policy, scales)
        assert got == pytest.approx(rise)
    columns = [column.name for column in efficiency_table(report).columns]
    rows = {row[0].text: row for group in efficiency_table(report).groups for row in group.rows}
    said = {name: row[columns.index("Last quarter")].text for name, row in rows.items()}
    assert said == {"grows": "+0.04, still rising", "flat": "+0.00"}
    rows = {row[0].text: row for group in aggregate_table(report).groups for row in group.rows}
    notes = dict(aggregate_table(report).footnotes)
    texts = {name: " ".join(notes[mark] for mark in row[1].marks) for name, row in rows.items()}
    assert "still rising: by 0.04 in the last quarter" in texts["grows"]
    assert "still rising" not in texts["flat"]
    assert "more than 0.02 there" in explanations(report)["Area, steps to 0.5"]


def test_a_run_without_a_last_quarter_shows_no_rise_and_hides_none():
    """The other runs rise by 4, 8, ... 20 of 200: a mean of 0.06. A task without any has none."""
    steps = np.arange(1, 9) * 100
    slopes = 2.0 * np.arange(RUNS)[:, None]
    means = {"mine": 10.0 + np.tile(slopes * np.arange(8.0), (2, 1, 1))}
    early = (np.array([10.0]), np.array([0]))
    report = make_report(make_table(means, steps, first_0=early))
    scales, (first, second) = score_scales(report.protocol, report.episodes), report.protocol.task
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other, both = (
            rise_of(report.protocol, report.episodes, tasks, "mine", scales)
            for tasks in ((first,), (second,), (first, second))
        )
    assert one == pytest.approx(np.mean([4, 8, 12, 16, 20]) / 200)
    assert other == pytest.approx(np.mean([0, 4, 8, 12, 16, 20]) / 200)
    assert both == pytest.approx((one + other) / 2)
    none = make_table(means, steps, **{f"first_{run}": early for run in range(RUNS)})
    assert np.isnan(rise_of(report.protocol, none, (first, second), "mine", scales))
