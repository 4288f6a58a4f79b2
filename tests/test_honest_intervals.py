"""Where a report knows less than a number seems to say: ends that are cut, failed runs, models."""

import dataclasses

import numpy as np
import pytest
from builders import (
    GROUP_EPISODES,
    GROUP_HIGH,
    group_block,
    group_blocks,
    group_protocol,
    make_training,
)

from coopbench.analysis.aggregates import aggregates
from coopbench.analysis.learning import course_of
from coopbench.analysis.planning import LEARNER, SCRIPT, Plan, Variation, _drawn, _runs
from coopbench.episodes.table import Cell, EpisodeTable, Failure, Progress
from coopbench.protocol.registration import registration
from coopbench.report.report import Report
from coopbench.report.sections.interquartile import interquartile_means
from coopbench.report.sections.models import model_estimates
from coopbench.report.sections.profiles import profile_points
from coopbench.report.sections.ranks import standing
from coopbench.report.sections.registered import outcomes
from coopbench.report.tables.entries import SAME
from coopbench.report.tables.model import Table

RUNS = (900, 901, 902, 903, 904)


@pytest.fixture
def protocol():
    return group_protocol()


def table_of(*blocks, **parts):
    return EpisodeTable(tuple(blocks), **parts)


def test_the_overview_shows_the_longer_side_of_an_interval_that_ends_at_the_bounds(protocol):
    """All episodes have the highest score: others could be lower, and none higher."""
    blocks = [
        group_block(task.id, "mine", np.full(GROUP_EPISODES, GROUP_HIGH)) for task in protocol.task
    ]
    report = Report(protocol, table_of(*blocks))
    (row,) = (r for r in report.aggregates_of("mean", "b") if r.policy == "mine")
    assert (row.estimate, row.high) == (1.0, 1.0)
    table = next(block for block in standing(report) if isinstance(block, Table))
    (line,) = table.groups[0].rows
    assert line[2].text.startswith(f"1.000 ± {1.0 - row.low:.3f}")


def test_a_gap_of_zero_has_no_interval_unless_nothing_varies(protocol):
    rng = np.random.default_rng(1)
    for spread in (0.3, 0.0):
        blocks = [
            group_block(task.id, "mine", 11.0 + spread * rng.normal(size=GROUP_EPISODES), run)
            for task in protocol.task
            for run in RUNS
        ]
        rows = aggregates(protocol, table_of(*blocks))
        for row in (row for row in rows if row.statistic == "optimality_gap"):
            assert row.estimate == 0.0
            assert np.isnan(row.low) == np.isnan(row.high) == (spread > 0.0)
            assert ("no task mean is below 1" in row.flag) == (spread > 0.0)


def test_points_of_a_profile_on_one_side_of_all_scores_are_not_certain(protocol):
    table = table_of(*group_blocks({"mine": 5.0}, runs=RUNS))
    points = [p for p in profile_points(protocol, table) if p.group == "a"]
    assert {0.0, 1.0} < {p.estimate for p in points}
    assert min(p.high - p.low for p in points) > 0.1


def test_courses_and_interquartile_means_name_runs_that_failed():
    protocol = group_protocol(
        reproduces={"interquartile": True}, metrics=["return", "length"], train=RUNS
    )
    failed = tuple(Failure(Cell("b-one", "mine", run), "out of memory") for run in RUNS[3:])
    blocks = [b for b in group_blocks({"mine": 5.0}, runs=RUNS[:3]) if b.cell.task == "b-one"]
    progress = tuple(
        Progress(Cell("b-one", "mine", run), np.array([10, 20]), {"return": np.ones((2, 4))})
        for run in RUNS[:3]
    )
    table = table_of(*blocks, failures=failed, progress=progress)
    course = course_of(protocol, table, protocol.task_of("b-one"), "mine")
    assert course.flag == "without 2 runs that failed"
    rows = {r.metric: r for r in interquartile_means(protocol, table) if r.task == "b-one"}
    assert (rows["return"].count, rows["length"].count) == (5, 3)
    assert rows["return"].flag.startswith("2 of 5 runs failed and count with the floor")
    assert rows["length"].flag.startswith("2 of 5 runs failed and are left out")
    assert rows["length"].flag.endswith(SAME)


def test_methods_of_several_models_share_the_luck_of_their_episodes():
    """Three models that hardly differ: other episodes would move all of them alike."""
    protocol = group_protocol(training=make_training(runs=3, plays="all"))
    names = {f"mine:{task.id}": 5.0 for task in protocol.task}
    table = table_of(*group_blocks(names, runs=RUNS[:3]))
    rows = {row.task: row for row in model_estimates(protocol, table)}
    for task in protocol.task:
        luck = np.std(next(b for b in table if b.cell.task == task.id).returns[:, 0], ddof=1)
        half = rows[task.id].high - rows[task.id].mean
        assert half > 1.9 * luck / np.sqrt(GROUP_EPISODES)
    apart = [
        dataclasses.replace(b, returns=b.returns + 3.0 * (b.cell.policy[-3:] == "two"))
        for b in table
    ]
    wide = {row.task: row for row in model_estimates(protocol, table_of(*apart))}
    deviation = wide["b-one"].std
    assert wide["b-one"].high - wide["b-one"].mean == pytest.approx(
        4.3027 * deviation / 3**0.5, 1e-4
    )


@pytest.mark.parametrize("rival", [SCRIPT, LEARNER])
def test_the_effect_of_a_plan_is_that_of_means_with_the_runs_that_fail(rival):
    protocol = group_protocol(training=make_training(runs=4), train=RUNS[:4])
    task, plan = protocol.task_of("b-one"), Plan(4, 0.2, rival, failing=0.25, trials=3000)
    rng = np.random.default_rng(0)
    sides = _runs(plan, plan.trials, rng), _runs(plan, plan.trials, rng)
    pairs = _drawn(protocol, task, Variation(0.05, 0.1, 0.1), plan, sides, rng)
    gaps = [better.values.mean() - worse.values.mean() for better, worse in pairs]
    assert np.mean(gaps) == pytest.approx(0.2, abs=4.0 * np.std(gaps) / np.sqrt(len(gaps)))


def test_a_hypothesis_without_a_test_says_why():
    protocol = group_protocol(margin=0.1)
    blocks = group_blocks({"low": 3.0}) + group_blocks({"mine": 3.0}, runs=RUNS[:2])
    study = registration(
        protocol, ["low", "mine"], ["mine = low on b-one"], "2026-01-01T00:00:00+00:00"
    )
    (row,) = outcomes(Report(protocol, table_of(*blocks), registration=study))
    assert row.outcome == "not shown"
    assert "no test: mine has 2 runs" in row.reason
    assert "nan" not in row.reason
