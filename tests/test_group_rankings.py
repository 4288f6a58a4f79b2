"""Rankings over groups of tasks: whole groups only, one unit of inference, never a bare rank."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from builders import (
    GROUP_EPISODES,
    GROUP_LEVELS,
    TRUST,
    group_blocks,
    group_protocol,
    make_training,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import coopbench
from coopbench.analysis import rankings
from coopbench.analysis.comparisons import GroupComparison
from coopbench.analysis.contrasts import adjusted
from coopbench.analysis.findings import Findings
from coopbench.analysis.score_matrix import group_units
from coopbench.episodes.table import Cell, EpisodeTable, Failure
from coopbench.protocol.variants import with_tasks
from coopbench.report.blocks import FILES
from coopbench.report.plots.style import styles
from coopbench.report.report import Report
from coopbench.report.sections import improvements, profiles
from coopbench.report.sections.ranks import standing
from coopbench.report.tables.entries import own_policies


@pytest.fixture(scope="module")
def protocol():
    return group_protocol()


@pytest.fixture(scope="module")
def table(protocol):
    return EpisodeTable(tuple(group_blocks(GROUP_LEVELS)))


def scores_of(protocol, table, group, policy):
    return group_units(protocol, table)[group][policy].tasks


def test_improvement_is_the_share_of_pairs_that_win(protocol, table):
    from scipy.stats import mannwhitneyu

    rows = improvements.improvements(protocol, table)
    assert [(row.group, row.first, row.second) for row in rows] == [
        (group, one, two)
        for group in ("a", "b")
        for one, two in (("low", "middle"), ("low", "high"), ("middle", "high"))
    ]
    for row in rows:
        x, y = (scores_of(protocol, table, row.group, name) for name in (row.first, row.second))
        shares = [
            mannwhitneyu(a, b).statistic / (len(a) * len(b)) for a, b in zip(x, y, strict=True)
        ]
        assert row.estimate == pytest.approx(np.mean(shares))
        assert row.low <= row.estimate <= row.high
        assert (row.tasks, row.count, row.unit) == (len(x), GROUP_EPISODES, "episodes")


def test_a_policy_takes_part_where_it_has_finished_the_group(protocol, table):
    partial = EpisodeTable(
        tuple(b for b in table if (b.cell.task, b.cell.policy) != ("a-two", "middle"))
    )
    pairs = [(r.group, r.first, r.second) for r in improvements.improvements(protocol, partial)]
    assert pairs[0] == ("a", "low", "high")
    assert len(pairs) == 1 + 3
    assert {r.contestants for r in Findings(protocol, partial).ranks if r.group == "a"} == {2}
    alone = EpisodeTable(tuple(b for b in table if b.cell.policy == "low"))
    assert Findings(protocol, alone).ranks == ()
    assert improvements.improvements(protocol, alone) == ()
    assert {p.policy for p in profiles.profile_points(protocol, alone)} == {"low"}
    adhoc = protocol.model_copy(update={"ad_hoc": True})
    assert profiles.profile_points(adhoc, table) == Findings(adhoc, table).ranks == ()


def test_profiles_count_the_scores_above(protocol, table):
    points = profiles.profile_points(protocol, table)
    for group in ("a", "b"):
        for policy in GROUP_LEVELS:
            own = [p for p in points if (p.group, p.policy) == (group, policy)]
            cells = np.concatenate(scores_of(protocol, table, group, policy))
            assert [p.estimate for p in own] == [np.mean(cells > p.threshold) for p in own]
            assert all(p.low <= p.estimate <= p.high for p in own)
            assert len(own) == profiles.THRESHOLDS
            taus = [p.threshold for p in own]
            assert min(taus) <= 0.0 < 1.0 <= max(taus)
            assert taus == sorted(taus)


def test_thresholds_reach_as_far_as_scores_but_not_further_than_is_useful():
    inside, outside = np.linspace(0.2, 0.8, 50), np.linspace(-9.0, 9.0, 50)
    assert profiles._thresholds([inside])[[0, -1]].tolist() == [0.0, 1.0]
    assert profiles._thresholds([inside, inside - 0.37])[0] == pytest.approx(-0.2)
    assert profiles._thresholds([outside])[[0, -1]].tolist() == list(profiles.WIDEST)


def test_shared_luck_does_not_blur_ranks(protocol, table):
    """Policies are compared on the same episodes, if all have played the same seeds."""
    paired = {(r.group, r.policy): r for r in Findings(protocol, table).ranks}
    rows = [paired["a", name] for name in GROUP_LEVELS]
    assert [(row.tie, row.low, row.high) for row in rows] == [("C", 3, 3), ("B", 2, 2), ("A", 1, 1)]
    other = [
        dataclasses.replace(b, seeds=b.seeds + np.uint64(1)) if b.cell.policy == "low" else b
        for b in table
    ]
    welch = group_protocol(comparison="welch")
    rows = {(r.group, r.policy): r for r in Findings(welch, table).ranks}
    assert (rows["a", "high"].low, rows["a", "high"].high) == (1, 2)
    assert rows["a", "middle"].tie == rows["a", "high"].tie == "A"
    assert (rows["a", "low"].low, rows["a", "low"].tie) == (3, "B")
    shifted = {(r.group, r.policy): r for r in Findings(protocol, EpisodeTable(tuple(other))).ranks}
    assert shifted["a", "low"].low == 3  # on the 19 episodes that it shares with the others


def test_units_are_not_mixed(protocol):
    blocks = group_blocks(GROUP_LEVELS)
    blocks += group_blocks({"mine": 6.0, "theirs": 2.0}, runs=(900, 901, 902))
    failure = Failure(Cell("a-one", "theirs", 903), "out of memory")
    table = EpisodeTable(tuple(blocks), failures=(failure,))
    rows = {
        (r.first, r.second): r for r in improvements.improvements(protocol, table) if r.group == "a"
    }
    assert len(rows) == 10
    mixed = rows["low", "mine"]
    assert all(map(math.isnan, (mixed.estimate, mixed.low, mixed.high)))
    assert mixed.flag == "not compared: low stands for its episodes, mine for its runs"
    own = rows["mine", "theirs"]
    assert (own.unit, own.count, own.estimate) == ("runs", 3, 1.0)
    # Every run beats every other, but there are three of each, which play both tasks.
    assert own.low == pytest.approx(0.353, abs=5e-4)
    assert own.flag == ""
    # Means have one estimand: learners and fixed policies are ranked together.
    ranks = {r.policy: r for r in Findings(protocol, table).ranks if r.group == "a"}
    assert {name: ranks[name].contestants for name in ranks} == dict.fromkeys(ranks, 5)
    assert {p.unit for p in profiles.profile_points(protocol, table)} == {"episodes", "runs"}


def test_models_of_one_method_are_not_compared():
    protocol = group_protocol(training=make_training(3, 4, 9, 3, plays="all"))
    names = {"mine:a-one": 3.0, "mine:a-two": 4.0, "other": 5.0}
    table = EpisodeTable(tuple(group_blocks(names)))
    pairs = {(r.first, r.second) for r in improvements.improvements(protocol, table)}
    assert pairs == {("mine:a-one", "other"), ("mine:a-two", "other")}
    levels = {"mine:a-one": 9.0, "other": 5.0, "mine:a-two": 1.0}
    (items, _) = standing(Report(protocol, EpisodeTable(tuple(group_blocks(levels)))))
    assert items.lines[0].startswith("a: no policy is decided to be above mine:a-one")


def test_runs_without_a_score_in_some_episode_are_drawn():
    """They have no aggregate, but means over the episodes in which the score is defined."""
    protocol = group_protocol(training=make_training(3, 4, 9, 3))
    blocks = group_blocks({f"learner{k}": k + 1.0 for k in range(6)}, runs=(900, 901, 902))
    for block in blocks:
        block.returns[3] = np.nan
    report = Report(protocol, EpisodeTable((*blocks, *group_blocks({"script": 5.0}))))
    drawn = improvements.drawn_pairs(report, "a")
    assert {pair.first for pair in drawn} == {"learner5"}
    assert len(drawn) == 5
    assert [row.policy for row in report.aggregates_of("mean", "a")] == ["script"]


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 6), st.data())
def test_ranks_part_two_policies_by_decisions_adjusted_over_the_group(protocol, count, data):
    """Places are claims about all pairs at once: Holm's steps, in their order."""
    names = [f"policy{k}" for k in range(count)]
    places = st.floats(0.0, 1.0) | st.sampled_from([1e-6, 1e-3, 0.01, 0.02, 0.04])
    pairs = [decided(one, two, data.draw(places)) for one, two in itertools.combinations(names, 2)]
    levels = adjusted(pairs)
    pairs = [dataclasses.replace(pair, p_ranks=p) for pair, p in zip(pairs, levels, strict=True)]
    rows = rankings._ranked(protocol, "a", names, pairs)
    parted = sum(row.low - 1 for row in rows)
    assert parted == sum(row.contestants - row.high for row in rows)
    # Holm rejects the k smallest of m if each is small enough for the number that it leaves.
    ordered = sorted(pair.p_value for pair in pairs)
    passed = [p < 0.05 / (len(pairs) - k) for k, p in enumerate(ordered)]
    assert parted == (passed.index(False) if False in passed else len(passed))


def decided(first, second, p_value):
    """Return a comparison over a group in which the first policy is ahead."""
    texts = {"group": "a", "first": first, "second": second, "flag": ""}
    ends = dict.fromkeys(("difference", "trimmed_difference"), 1.0)
    ends |= dict.fromkeys(("low", "high", "trimmed_low", "trimmed_high"), 1.0)
    decision = {"p_value": p_value, "decided": p_value < 0.05, "basis": "test", "p_ranks": math.nan}
    return GroupComparison(**texts, **ends, **decision, tasks=2)


# -- how the summary tells it ----------------------------------------------------------------------


def summary_of(protocol, levels):
    """Return the sentences and the table of the summary of policies with these mean returns."""
    (items, table) = standing(Report(protocol, EpisodeTable(tuple(group_blocks(levels)))))
    return items.lines, table


def test_the_summary_says_who_leads_and_where_the_readers_policies_stand():
    protocol = group_protocol(baselines=["low", "high"])
    sentences, _ = summary_of(protocol, {"middle": 5.0, "low": 3.0, "high": 5.5})
    first = "high has the highest mean, above every other policy"
    assert sentences == tuple(f"{g}: {first}; middle is above 1 of 2 and below 1." for g in "ab")
    tied, _ = summary_of(protocol, {"low": 3.0, "high": 5.5, "alike": 5.5})
    assert tied[0].startswith("a: the highest mean is not decided between alike, high; alike is ")
    assert tied[0].endswith("alike is above 1 of 2 and below 0, undecided against 1.")


def test_the_summary_names_policies_without_a_rank():
    """The leader is above none of them: they have not played all tasks of the group."""
    protocol = group_protocol(baselines=["low", "high"])
    blocks = group_blocks({"low": 3.0, "high": 5.5, "part": 9.0})
    gone = next(block for block in blocks if block.cell.policy == "part")
    table = EpisodeTable(tuple(block for block in blocks if block is not gone))
    (items, _) = standing(Report(protocol, table))
    assert items.lines == (
        "a: high has the highest mean, above every other ranked policy (without a rank: part).",
        "b: part has the highest mean, above every other policy; part is above 2 of 2 and below 0.",
    )


def test_the_summary_is_sorted_by_the_first_group_and_marks_the_readers_policies():
    protocol = group_protocol(baselines=["low", "high"])
    _, table = summary_of(protocol, {"low": 3.0, "middle": 5.0, "high": 5.5})
    (body,) = (group.rows for group in table.groups)
    assert [row[0].text for row in body] == ["high", "middle *", "low"]
    assert [row[0].value for row in body] == ["high", "middle", "low"]
    assert all(row[1].text.endswith(f" ({rank})") for rank, row in enumerate(body, start=1))
    assert all("±" in row[1].text for row in body)
    assert [column.name for column in table.columns] == ["Policy", "a", "b"]
    assert table.unit.endswith("* not required by the protocol.")
    found = group_protocol(baselines=["best_script", "open_loop"])
    _, required = summary_of(found, {"best_script": 3.0, "open_loop": 5.5})
    assert "*" not in required.unit
    words = " Found by search: best_script with the training partners; open_loop in self-play."
    assert required.unit.endswith(words)


def test_the_readers_policies_look_like_no_other():
    names = [f"policy {k}" for k in range(40)]
    looks = styles([*names, "mine", "yours"], ["mine", "yours"])
    others = [looks[name] for name in names]
    for own in ("mine", "yours"):
        assert looks[own].colour not in {look.colour for look in others}
        assert looks[own].marker not in {look.marker for look in others}
    assert looks["mine"].marker != looks["yours"].marker
    assert styles(names) == {name: looks[name] for name in names}
    protocol = group_protocol(baselines=["low", "high"])
    report = Report(protocol, EpisodeTable(tuple(group_blocks({"low": 3.0, "middle": 5.0}))))
    assert own_policies(report) == ["middle"]
    assert report.document.looks["middle"].glyph == "★"
    assert (
        own_policies(dataclasses.replace(report, protocol=group_protocol())) == []
    )  # it requires none


def test_a_report_that_was_written_names_its_page(written_reports, tmp_path):
    options = {"episodes": 2, "horizon": 3, "only": True}
    report = coopbench.evaluate(TRUST, "random", tmp_path, backend="serial", **options)
    assert str(report).splitlines()[-1] == f"Report: {tmp_path / 'report.html'}"
    assert (tmp_path / "report.html").is_file()
    assert "Report:" not in str(coopbench.evaluate(TRUST, "random", **options))


def test_of_one_task_the_terminal_shows_the_summary_and_nothing_stands_twice():
    protocol = with_tasks(group_protocol(baselines=["low", "high"]), ["a-one"])
    blocks = [block for block in group_blocks(GROUP_LEVELS) if block.cell.task == "a-one"]
    report = Report(protocol, EpisodeTable(tuple(blocks)))
    titles = {section.title: section.shown for section in report.document.sections}
    assert "All tasks" not in titles
    assert titles["a-one"] == FILES
    text = str(report)
    assert len(text.splitlines()) <= 35
    assert "trimmed" not in text
    (row,) = [line.split() for line in text.splitlines() if line.startswith("middle *")]
    assert row[-1] == "(2)"
