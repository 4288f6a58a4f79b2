"""Reports show the numbers that were found, what is missing, and nothing that was not tested."""

import csv
import dataclasses
import io
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from builders import altered, content, group_blocks, group_protocol, make_block, make_task

from coopbench.analysis.aggregates import Aggregate
from coopbench.episodes.table import Cell, EpisodeTable, Failure, Progress
from coopbench.protocol.schema import Protocol
from coopbench.report import numbers as formats
from coopbench.report.document import document
from coopbench.report.explanations import explanations
from coopbench.report.markdown import as_markdown
from coopbench.report.page import as_html
from coopbench.report.plots.drawing import (
    HeatMap,
    IntervalChart,
    Line,
    LineChart,
    Row,
    has_interval,
)
from coopbench.report.plots.marks import ticks
from coopbench.report.plots.style import plain, styles
from coopbench.report.report import Report
from coopbench.report.sections import improvements, profiles
from coopbench.report.sections.agents import agent_estimates, agent_table
from coopbench.report.sections.aggregates import (
    aggregate,
    aggregate_table,
    information_entry,
    pictures,
)
from coopbench.report.sections.comparisons import NO_COMPARISON, comparison_table
from coopbench.report.sections.estimates import curves, overview_table, scores, task_table
from coopbench.report.sections.missing import missing_table
from coopbench.report.serialise import as_csv, as_json, columns_as_csv, indented
from coopbench.report.tables.entries import SAME, named_count, style_order, unit_text
from coopbench.report.terminal import as_text, encodable

NASTY = 'a|b $x$ <i>&"[bold]_y*'
NOISY, STILL, ALSO_STILL, ABSENT = "noisy", "still:0.5", NASTY, "absent"
EPISODES = 12
AGENTS = ("left_0", "right_0")
LOADING = {"src", "href", "xlink:href", "srcset", "action"}
VOID = {"meta", "link", "br", "img", "hr", "input"}
PARTS = (
    *("estimates", "comparisons", "group_comparisons", "aggregates", "agents"),
    *("improvements", "ranks"),
)
TASKS = (("first", "", 7), ("second-task", "", 9))
MANY = tuple((f"task-{k}", ("few", "large", "large", "large")[k % 4], 7 + k) for k in range(8))


def make_protocol(ad_hoc=False, count=EPISODES, tasks=TASKS):
    sections = content(
        "invented",
        citation="Nobody 2020, https://example.org/paper",
        tasks=[make_task(name, group=g, horizon=horizon, high=2e5) for name, g, horizon in tasks],
        train=(900, 901),
        first=5,
        count=count,
        metrics=["return", "fairness", "length", "mean_trust"],
        baselines=[] if ad_hoc else [NOISY, ABSENT],
    )
    sections["protocol"] |= {"version": 3, "description": "Two tasks that nobody plays & <more>."}
    return Protocol.model_validate(sections | {"ad_hoc": ad_hoc})


def cell_block(protocol, task, policy, rng):
    count = protocol.seeds.evaluation.count
    noise = rng.normal(size=(count, 2)) if policy == NOISY else np.zeros((count, 2))
    level = {NOISY: 10.0, STILL: 46266.819949874385, ALSO_STILL: 1234.5}[policy]
    returns = level / 2 + 3.0 * noise
    if policy == NOISY:
        returns[0] = (-5.0, 5.0)  # fairness is undefined where signs differ
    return make_block(
        Cell(task.id, policy),
        returns,
        agents=AGENTS,
        seeds=protocol.seeds_of(task),
        metrics={"mean_trust": 0.25 + 0.01 * noise[:, 0]},
        curves={"mean_trust": np.linspace(0.0, 0.5, 5)},
        agent_metrics={"mean_trust": np.array([0.25, 0.5]) + 0.01 * noise},
    )


def make_report(
    ad_hoc=False, names=(NOISY, STILL, ALSO_STILL), count=EPISODES, notes=(), tasks=TASKS
):
    protocol = make_protocol(ad_hoc, count, tasks)
    rng = np.random.default_rng(1)
    table = EpisodeTable(
        tuple(cell_block(protocol, task, name, rng) for task in protocol.task for name in names)
    )
    return Report(protocol, table, notes)


@pytest.fixture(scope="module")
def report():
    return make_report(notes=("redone: a <damaged> file",))


def number(text):
    return float(text.replace(",", ""))


def rows_of(table):
    return [row for group in table.groups for row in group.rows]


# --- numbers as text -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "errors", "text"),
    [
        ((46266.8, 947.0), (310.0,), "46,267"),
        ((0.03612, 1.0), (0.0016,), "0.0361"),
        ((2.5, 1.0), (0.3, 0.002), "2.5000"),  # the smallest error counts
        ((0.5, 0.75), (), "0.5000"),
        ((46266.8,), (1e-13,), "46,267"),  # an error of rounding asks for no decimals
        ((2.5e10,), (), "2.500e+10"),
        ((0.0,), (), "0"),
    ],
)
def test_decimals_follow_the_error(values, errors, text):
    assert formats.scale_of(values, errors)(values[0]) == text


def test_special_numbers():
    assert formats.Scale(1)(-0.01) == "0.0"  # no minus before a zero
    assert formats.Scale(1)(math.nan) == formats.MISSING
    assert formats.p_text(1e-300) == "< 0.0001"
    assert formats.p_text(math.nan) == formats.MISSING
    assert formats.p_text(0.03125) == "0.0312"
    assert formats.interval_text(3.0, 3.0 + 1e-15, formats.Scale(1)) == "zero width"
    assert formats.interval_text(math.nan, 3.0, formats.Scale(1)) == formats.MISSING


# --- tables --------------------------------------------------------------------------------------


def test_task_tables_hold_the_estimates(report):
    by_key = {(row.task, row.metric, row.policy): row for row in report.estimates}
    for task in report.protocol.task:
        table = task_table(report, task)
        assert [group.name for group in table.groups] == list(
            report.protocol.report.metrics_of(task)
        )
        for group in table.groups:
            for name, mean, interval, count, std in group.rows:
                if name.value == ABSENT:
                    assert [mean.text, std.text] == ["missing", formats.MISSING]
                    continue
                row = by_key[task.id, group.name, name.value]
                assert (mean.value, std.value, count.value) == (row.mean, row.std, row.count)
                decimals = len(mean.text.partition(".")[2])
                assert number(mean.text) == pytest.approx(row.mean, abs=0.5001 * 10**-decimals)
                assert interval.value == row.high - row.low
                assert bool(interval.marks) == bool(row.flag)
            texts = [row[1].text for row in group.rows if row[1].text != "missing"]
            assert len({len(text.partition(".")[2]) for text in texts}) == 1


def test_flags_become_footnotes(report):
    table = task_table(report, report.protocol.task[0])
    notes = dict(table.footnotes)
    flags = {row.flag for row in report.estimates if row.flag}
    assert set(notes.values()) == flags
    assert any("undefined in 1 of" in text for text in flags)
    still = [row for row in rows_of(table) if row[0].value == STILL]
    assert still
    for row in still:
        assert ("not certainty" in notes[row[2].marks[0]]) == (row[2].text == "zero width")
        if row[2].text != "zero width":  # of the score, whose range is known
            assert "a bound on others" in notes[row[2].marks[0]]


def test_differences_that_do_not_vary_say_so(report):
    task = report.protocol.task[0]
    table = comparison_table(report, task)
    rows = [row for row in report.comparisons if row.task == task.id]
    by_pair = {f"{row.first} vs {row.second}": row for row in rows}
    bounded = 0
    for row in rows_of(table):
        source = by_pair[row[0].value]
        assert row[1].value == source.difference
        assert row[3].value == source.p_value
        assert row[4].strong == source.decided == (source.p_holm < report.protocol.report.alpha)
        if source.flag:
            bounded += 1
            assert source.basis == "bound"
            gap, width = abs(source.difference), 2e5
            assert source.p_value == pytest.approx(2 * (width / (width + gap)) ** EPISODES)
            assert dict(table.footnotes)[row[3].marks[0]] == source.flag
    assert bounded == 1


def test_aggregates_and_their_gaps(report):
    table = aggregate_table(report)
    rows = {row[0].value: row for row in rows_of(table)}
    place = {"mean": 1, "trimmed_mean": 3, "optimality_gap": 5}
    for source in report.aggregates:
        row = rows[source.policy]
        if source.statistic in place:
            shown = row[place[source.statistic] : place[source.statistic] + 2]
            assert [entry.value for entry in shown] == [source.estimate, source.high - source.low]
        assert row[8].value == source.count == EPISODES
        assert row[9].text == "—"  # not a registered policy
    assert rows[ABSENT][1].text == "missing"
    assert "two-way" in table.columns[2].meaning


def test_the_interval_of_an_aggregate_is_called_a_bound_only_where_there_is_one(report):
    for rows in (report.aggregates, make_report(count=1).aggregates):
        bounds = {np.isfinite(row.low) for row in rows if "is a bound" in row.flag}
        assert bounds == ({True} if rows is report.aggregates else set())
        assert np.isfinite(rows[0].low) == (rows is report.aggregates)


def test_ranks_are_shown_with_their_intervals_only(report):
    rows = {row[0].value: row[7] for row in rows_of(aggregate_table(report))}
    assert rows[NOISY].text == "3"
    # The difference between the other two does not vary, but is too small for twelve episodes.
    assert rows[STILL].text == rows[ALSO_STILL].text == "1 to 2"
    assert {rows[row.policy].text for row in report.ranks} == {
        formats.range_text(row.low, row.high) for row in report.ranks
    }
    alone = make_report(names=(NOISY,))
    assert rows_of(aggregate_table(alone))[0][7].text == formats.MISSING


def test_aggregates_say_what_policies_act_on():
    names = ("random", "constant:0.5", "tit_for_tat", "orca", "astar_pibt:8")
    information = [information_entry(name).value for name in names]
    assert information == ["none", "none", "local", "neighbours", "global"]


def test_a_width_of_zero_is_explained_even_without_a_flag(report):
    flat = [dataclasses.replace(row, low=0.5, high=0.5, flag="") for row in report.aggregates]
    table = aggregate_table(altered(report, aggregates=tuple(flat)))
    assert table.footnotes[0] == ("a", SAME)


def test_agent_tables_hold_the_estimates(report):
    by_key = {(row.task, row.policy, row.agent, row.metric): row for row in report.agents}
    assert len(by_key) == len(report.agents) == 2 * 3 * 2 * 2
    for task in report.protocol.task:
        table = agent_table(report, task)
        assert [column.name for column in table.columns[4:]] == ["mean_trust"]
        assert [group.name for group in table.groups] == [NOISY, STILL, ALSO_STILL, ABSENT]
        *present, absent = table.groups
        assert absent.rows[0][1].text == "missing"
        for group in present:
            assert [row[0].value for row in group.rows] == list(AGENTS)
            for agent, mean, interval, count, trust in group.rows:
                row = by_key[task.id, group.name, agent.value, "return"]
                assert (mean.value, interval.value) == (row.mean, row.high - row.low)
                assert count.value == row.count == EPISODES
                assert trust.value == by_key[task.id, group.name, agent.value, "mean_trust"].mean


def test_agents_count_in_the_seats_of_the_policy(report):
    block = report.episodes.blocks[0]
    seats = np.zeros((EPISODES, 2), np.bool_)
    seats[:5, 0] = True  # and never in the other seat
    table = EpisodeTable((dataclasses.replace(block, seats=seats),))
    left, right = (
        [row for row in agent_estimates(report.protocol, table) if row.agent == agent]
        for agent in AGENTS
    )
    assert [row.count for row in left] == [5, 5]
    assert left[0].mean == pytest.approx(block.returns[:5, 0].mean())
    assert left[1].mean == pytest.approx(block.agent_metrics["mean_trust"][:5, 0].mean())
    assert [row.count for row in right] == [0, 0]
    assert all(math.isnan(row.mean) and row.flag == "no episodes" for row in right)


def test_ad_hoc_has_no_aggregate():
    report = make_report(ad_hoc=True)
    assert aggregate_table(report) is None
    assert "normalized" not in as_text(report.document)


def test_one_policy_one_episode():
    report = make_report(names=(NOISY,), count=1)
    assert comparison_table(report, report.protocol.task[0]) is None
    row = task_table(report, report.protocol.task[0]).groups[0].rows[0]
    assert formats.MISSING not in [entry.text for entry in row]
    assert NO_COMPARISON in as_html(document(report))


# --- training runs -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained():
    """Fixed policies beside one with three runs and one of whose two one failed."""
    blocks = group_blocks({"low": 3.0, "middle": 3.05})
    blocks += group_blocks({"mine": 6.0}, runs=(900, 901, 902))
    blocks += group_blocks({"theirs": 5.0}, runs=(900, 902))
    failures = (Failure(Cell("a-one", "theirs", 901), "out of memory"),)
    courses = [
        Progress(Cell("b-one", "mine", run), steps, {"return": np.zeros((len(steps), 2))})
        for run, steps in ((900, np.arange(1, 5)), (901, np.arange(1, 3)))
    ]
    table = EpisodeTable(tuple(blocks), tuple(courses), failures)
    return Report(group_protocol(margin=0.05), table)


def test_units_of_inference_are_told_apart(trained, report):
    first, _, last = trained.protocol.task
    for table, runs in (
        (aggregate_table(trained), "2 to 3"),
        (task_table(trained, first), "3"),  # of one, a run failed, which counts
        (task_table(trained, last), "2 to 3"),
    ):
        assert "episodes of a fixed policy, n = 20" in table.unit
        assert f"training runs of learned policies, n = {runs}" in table.unit
    assert "not over training runs" in comparison_table(report, report.protocol.task[0]).unit
    counts = {row[0].value: row[8].text for row in aggregate_table(trained).groups[0].rows}
    scripts = {"low": "20 episodes", "middle": "20 episodes"}
    assert counts == {**scripts, "mine": "3 runs", "theirs": "2 runs, 1 of 5 failed"}
    assert named_count(SimpleNamespace(count=1, unit="runs")).text == "1 run"
    assert "none here" in unit_text([])
    content = json.loads(as_json(trained), parse_constant=refuse)
    units = {"low": "episodes", "middle": "episodes", "mine": "runs", "theirs": "runs"}
    assert content["unit_of_inference"] == units
    assert content["schema"] == 3


def test_missing_runs_are_listed(trained, report):
    missing = trained.missing_runs
    rows = [(row.task, row.policy, row.run, row.state) for row in missing]
    assert rows == [
        ("a-one", "theirs", 901, "failed"),
        ("a-two", "theirs", 901, "missing"),
        ("b-one", "mine", 901, "partial"),
        ("b-one", "mine", 902, "partial"),
        ("b-one", "theirs", 901, "missing"),
    ]
    reasons = {row.state: row.reason for row in reversed(missing)}
    assert reasons["failed"] == "out of memory"
    assert reasons["partial"] == "2 of 4 checkpoints, to step 2"
    shown = [[entry.text for entry in row] for row in rows_of(missing_table(trained))]
    assert shown[0] == ["a-one", "theirs", "failed", "901", "out of memory"]
    assert shown[1] == ["a-two and 1 other", "theirs", "missing", "901", "no result"]
    assert len(shown) == 4
    for text in (as_text(trained.document, 60), as_markdown(trained.document)):
        assert "2 of 4 checkpoints" in text
    content = json.loads(as_json(trained))
    assert [row["state"] for row in content["missing_runs"]] == [row[3] for row in rows]
    assert missing_table(report) is None


def test_no_difference_is_claimed_only_through_a_test(trained, report):
    task = trained.protocol.task[0]
    table = comparison_table(trained, task)
    rows = {row[0].value: row for row in rows_of(table)}
    assert table.columns[-1].name == "Equivalence p"
    for source in (row for row in trained.comparisons if row.task == task.id):
        entry = rows[f"{source.first} vs {source.second}"][-1]
        assert entry.value == (None if math.isnan(source.p_equivalence) else source.p_equivalence)
        assert entry.strong == (source.p_equivalence < 0.05)
    assert rows["low vs middle"][-1].strong
    assert not rows["low vs mine"][-1].strong
    place = [column.name for column in table.columns].index("r")
    assert rows["low vs middle"][place].value == pytest.approx(1.0, abs=0.02)
    names = [c.name for c in comparison_table(report, report.protocol.task[0]).columns]
    assert names[-1] == "Hedges g"  # no margin; and no correlation, as all but one hold still
    assert "declares no margin" in explanations(report)["Equivalence"]
    assert "0.05 of normalized score" in explanations(trained)["Equivalence"]


# --- groups, and more tasks than one can look at -------------------------------------------------


@pytest.fixture(scope="module")
def many():
    return make_report(tasks=MANY)


def test_scores_far_outside_of_the_bounds_are_named(report):
    task, policy = report.protocol.task[0], report.estimates[0].policy
    low = task.bounds.low - 2 * (task.bounds.high - task.bounds.low)
    rows = [
        dataclasses.replace(row, mean=low) if (row.task, row.policy) == (task.id, policy) else row
        for row in report.estimates
    ]
    table = aggregate_table(altered(report, estimates=tuple(rows)))
    sentence = f"far outside of the declared bounds: {task.id} (-2); check the bounds"
    (mark,) = [mark for mark, text in table.footnotes if text.endswith(sentence)]
    assert [row[0].value for row in rows_of(table) if mark in row[1].marks] == [policy]
    assert not any("declared bounds" in text for _, text in aggregate_table(report).footnotes)


def test_aggregates_are_shown_per_group(many, report):
    table = aggregate_table(many)
    assert [(group.name, group.meaning) for group in table.groups] == [
        ("few", "2 tasks"),
        ("large", "6 tasks"),
    ]
    means = {(r.group, r.policy): r for r in many.aggregates if r.statistic == "mean"}
    for group in table.groups:
        for row in group.rows:
            if row[0].value == ABSENT:
                assert row[1].text == "missing"
            else:
                assert row[1].value == means[group.name, row[0].value].estimate
    assert not aggregate_table(report).grouped


def test_every_group_has_its_plot(many):
    made = (*pictures(many), *profiles.pictures(many), *improvements.pictures(many))
    kinds = ("scores", "profiles", "improvements")
    named = [f"{kind}-{group}" for kind in kinds for group in ("few", "large")]
    assert [picture.name for picture in made] == named
    for statistic in ("trimmed_mean", "optimality_gap"):
        drawn = aggregate(many, "large", statistic)
        assert drawn.title == "large"
        wanted = ("large", NOISY, statistic)
        row = next(r for r in many.aggregates if (r.group, r.policy, r.statistic) == wanted)
        assert row_of(drawn, NOISY).ends == (row.estimate, row.low, row.high)


def test_few_pairs_are_drawn_whole_and_many_against_the_best(many, monkeypatch):
    chart = improvements.chart(many, "large")
    assert [row.label.count("\nover ") for row in chart.rows] == [1] * 3
    monkeypatch.setattr(improvements, "PAIRS", 2)
    drawn = improvements.drawn_pairs(many, "large")
    assert [(row.first, row.second) for row in drawn] == [(STILL, NOISY), (STILL, ALSO_STILL)]
    chart = improvements.chart(many, "large")
    assert chart.rows[0].label == NOISY
    assert STILL in chart.x_label
    # The same pair seen from the other side.
    first = next(row for row in many.improvements if row.group == "large")
    assert (first.first, first.estimate) == (NOISY, 0.0)
    unsure = dataclasses.replace(first, low=0.0, high=0.25)
    rows = tuple(unsure if row is first else row for row in many.improvements)
    (seen, *_) = improvements.drawn_pairs(altered(many, improvements=rows), "large")
    assert (seen.estimate, seen.low, seen.high) == (1.0, 0.75, 1.0)


def test_files_of_parts_that_a_report_leaves_out_go(report, tmp_path):
    kept, stale = tmp_path / "notes.csv", tmp_path / "outside.csv"
    for file in (kept, stale):
        file.write_text("of an earlier report\n", encoding="utf-8")
    report.save(tmp_path)
    assert kept.exists()
    assert not stale.exists()


def test_tasks_that_nobody_played_are_left_out(many):
    names = [task.id for task in many.protocol.task]
    played = tuple(row for row in many.estimates if row.task in names[:3])
    some = altered(many, estimates=played)
    assert [row[0].value for row in rows_of(overview_table(some))] == names[:3]
    text = as_markdown(document(some))
    assert [f"### {name}\n" in text for name in names] == [True] * 3 + [False] * 5


def test_the_overview_holds_all_scores(many):
    table = overview_table(many)
    assert [column.name for column in table.columns] == ["Task", NOISY, STILL, ALSO_STILL]
    assert [row[0].value for row in rows_of(table)] == [
        task.id for tasks in many.protocol.groups.values() for task in tasks
    ]
    for row in rows_of(table):
        for entry, name in zip(row[1:], (NOISY, STILL, ALSO_STILL), strict=True):
            assert entry.value == pytest.approx(many.scores[name][row[0].value].mean())
            (estimate,) = (e for e in many.estimates_of(row[0].value, "return") if e.policy == name)
            bounds = many.protocol.task_of(row[0].value).bounds
            longer = max(estimate.high - estimate.mean, estimate.mean - estimate.low)
            half = longer / (bounds.high - bounds.low)
            varies = np.isfinite(half) and estimate.high > estimate.low
            assert entry.text.partition(" ± ")[2] == (f"{half:.3f}" if varies else "")


# --- terminal and Markdown -----------------------------------------------------------------------


def test_text_fits_and_is_plain(report, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    for width in (60, 120):
        text = as_text(report.document, width)
        assert max(len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text
    assert "Not a standard report" in text
    assert all(reason in " ".join(text.split()) for reason in report.deviations)
    assert "46,2" in as_markdown(report.document)


def test_text_survives_narrow_encodings():
    assert encodable("— é ─", "ascii") == "-- ? -"
    assert encodable("— é", "utf-8") == "— é"


def test_markdown_tables_are_rectangular(report):
    text = as_markdown(report.document)
    blocks = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    assert len(blocks) > 3 * len(report.protocol.task)
    for block in blocks:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1
    assert "plots/score-first.svg" in text
    assert "<damaged>" not in text.replace("\\<damaged\\>", "")


# --- files for machines --------------------------------------------------------------------------


def refuse(name):
    raise AssertionError(f"{name} is not JSON")


def same(text, value):
    if isinstance(value, float):
        return text == "" if math.isnan(value) else float(text) == value
    return text == ("" if value is None else str(value))


def test_json_round_trip(report):
    content = json.loads(as_json(report), parse_constant=refuse)
    assert content["digest"] == report.protocol.digest
    assert content["deviations"] == list(report.deviations)
    assert content["standard"] is False
    undefined = 0
    for name in PARTS:
        for read, row in zip(content[name], getattr(report, name), strict=True):
            for key, value in dataclasses.asdict(row).items():
                missing = isinstance(value, float) and math.isnan(value)
                undefined += missing
                assert read[key] == (None if missing else value)
    assert undefined > 0
    assert (
        content["curves"][0]["values"]
        == report.episodes.blocks[0].curves[report.protocol.report.curve].tolist()
    )


@pytest.mark.parametrize(
    "value",
    [
        *('ß"\\\n', None, True, -0.0, 1e22, [], {}, ()),
        {"a": [], "b": {}, "c": [[]], "é, ": (1, 2.5, "x: {}, []"), "d": {"e": [{"f": None}, 3]}},
        [{"a": 1, "b": "["}, {"a": 2}, [1, [2, [3]]]],
    ],
)
def test_indented_json_is_that_of_python(value):
    assert indented(value) == json.dumps(value, indent=1, ensure_ascii=False)
    with pytest.raises(ValueError, match="not JSON compliant"):
        indented([value, {"a": math.inf}])


def test_csv_keeps_every_bit(report):
    for name in (*PARTS, "profiles"):
        rows = getattr(report, name)
        read = list(csv.DictReader(io.StringIO(as_csv(rows, type(rows[0])))))
        for line, row in zip(read, rows, strict=True):
            assert all(same(line[key], value) for key, value in dataclasses.asdict(row).items())


def test_csv_without_rows_has_a_header():
    fields = [field.name for field in dataclasses.fields(Aggregate)]
    assert as_csv((), Aggregate) == ",".join(fields) + "\n"


def test_save_is_complete_and_repeatable(report, tmp_path):
    first, second = report.save(tmp_path / "a"), report.save(tmp_path / "deep" / "b")
    assert {"html", "md", "json", "tex", "episodes", "profiles", *PARTS} < set(first)
    kinds = {".html", ".md", ".json", ".tex", ".csv", ".svg"}
    assert {path.suffix for path in first.values()} == kinds
    for name, path in first.items():
        assert path.read_bytes() == second[name].read_bytes(), name
    written = {path for path in (tmp_path / "a").rglob("*") if path.is_file()}
    assert written == set(first.values())  # nothing temporary is left


def test_save_removes_the_plots_of_an_earlier_report_alone(report, tmp_path):
    report.save(tmp_path)
    kept, gone = tmp_path / "plots" / "score-mine.svg", tmp_path / "plots" / "score-old.svg"
    for file in (kept, gone):
        file.write_text("<svg/>", encoding="utf-8")
    with (tmp_path / "report.md").open("a", encoding="utf-8") as page:
        page.write("![Old](plots/score-old.svg)\n![Not ours](plots/../report.svg)\n")
    (tmp_path / "report.svg").write_text("<svg/>", encoding="utf-8")
    first = report.save(tmp_path)
    assert kept.is_file()
    assert not gone.exists()
    assert (tmp_path / "report.svg").is_file()
    assert all(file.is_file() for file in first.values())


# --- page ----------------------------------------------------------------------------------------


class Checker(HTMLParser):
    """Collects what a page opens, closes, loads and names."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.stack, self.loads, self.ids = [], [], []

    def handle_starttag(self, tag, attrs):
        self.loads += [value for name, value in attrs if name in LOADING]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.stack.pop() == tag


def test_page_is_self_contained(report):
    page, checked = as_html(report.document), Checker()
    checked.feed(page)
    checked.close()
    assert checked.stack == []
    assert all(load.startswith("#") or load == "data:," for load in checked.loads)
    assert {load[1:] for load in checked.loads if load.startswith("#")} <= set(checked.ids)
    assert len(set(checked.ids)) == len(checked.ids)
    assert "@import" not in page
    assert set(re.findall(r"url\((.)", page)) <= {"#"}
    assert not re.search(r"https?://(?!example\.org/paper)", page)


# --- plots ---------------------------------------------------------------------------------------


def row_of(chart, policy):
    return next(row for row in chart.rows if row.label == policy)


def test_plots_draw_every_policy_alike(report):
    charts = aggregate(report, "", "mean"), scores(report, "first")
    looks = {tuple((row.label, row.look) for row in chart.rows) for chart in charts}
    (rows,) = looks  # a policy looks the same everywhere
    lines = curves(report, "first").lines
    # The fourth policy has no results.
    assert [(line.label, line.look) for line in lines] == list(rows[:3])
    assert len({look for _, look in rows}) == 4


def test_sixty_policies_look_different():
    names = [f"policy {k}" for k in range(60)]
    assert len({(s.colour, s.marker) for s in styles(names).values()}) == 60


def test_policies_keep_their_looks_in_whatever_order_they_come(report):
    required = (*report.protocol.report.baselines, *report.protocol.report.learned)
    assert style_order(report)[: len(required)] == required
    turned = SimpleNamespace(policies=report.policies[::-1], protocol=report.protocol)
    assert style_order(turned) == style_order(report)


def test_long_names_that_differ_at_their_ends_differ_in_plots():
    names = [f"the_same_method_with_another_value_{k}" for k in range(3)]
    assert len({plain(name) for name in names}) == 3
    assert max(len(plain(name)) for name in names) <= 26


def test_intervals_are_drawn_only_where_they_are(report):
    chart = scores(report, "first")
    row = next(row for row in report.estimates if row.policy == NOISY)
    assert row_of(chart, NOISY).ends == (row.mean, row.low, row.high)
    assert has_interval(row_of(chart, STILL).ends)  # within a bound
    assert chart.rows[-1].text == "missing"
    marks = [IntervalChart((one,), "", "").svg.count("<path") for one in chart.rows]
    bare = IntervalChart((chart.rows[0]._replace(ends=(1.0, math.nan, math.nan)),), "", "")
    assert 'fill="#ffffff"' in bare.svg  # an open marker
    assert 'fill="#ffffff"' not in IntervalChart(chart.rows[:1], "", "").svg
    assert marks[-1] < bare.svg.count("<path")  # nothing is drawn of what is missing


def test_curves_start_after_the_first_step(report):
    line = next(line for line in curves(report, "first").lines if line.label == STILL)
    assert list(line.x) == [1, 2, 3, 4]
    assert line.y[-1] == 0.5


def texts_of(svg):
    """Return the texts of an SVG with the places of their middles."""
    root = ElementTree.fromstring(svg)
    return {e.text: (float(e.get("x")), float(e.get("y"))) for e in root.iter() if e.get("x")}


def test_values_lie_where_the_numbers_of_their_axis_say():
    line = Line("a", styles(["a"])["a"], [0, 50, 100], [0, 5, 10])
    svg = LineChart((line,), "", "x", "y").svg
    path = re.search(r'stroke-width="2.4" d="M(\S+) (\S+)L.*L(\S+) (\S+)"', svg)
    left, bottom, right, top = map(float, path.groups())
    places = texts_of(svg)
    assert [places[text][0] for text in ("25", "100")] == pytest.approx(
        [left + 0.25 * (right - left), right], abs=0.2
    )
    # Texts stand on a foot that is the same way below their middle.
    below = places["10"][1] - top
    assert places["4"][1] - below == pytest.approx(bottom + 0.4 * (top - bottom), abs=0.2)


def test_a_line_breaks_where_it_has_no_value():
    look = styles(["a"])["a"]
    whole = LineChart((Line("a", look, [1, 2, 3, 4], [1, 2, 3, 4]),), "", "", "").svg
    broken = LineChart((Line("a", look, [1, 2, 3, 4], [1, math.nan, 3, 4]),), "", "", "").svg
    line = re.compile(r'<path fill="none"[^>]* d="([^"]*)"')
    assert [line.search(svg)[1].count("M") for svg in (whole, broken)] == [1, 2]
    assert "nan" not in broken


@pytest.mark.parametrize("name", ["多智能体", "سلام", "<b>&"])
def test_names_of_all_scripts_are_drawn(name):
    look = styles([name])[name]
    for chart in (
        IntervalChart((Row(name, look, (1.0, 0.5, 2.0), "1"),), name, name),
        LineChart((Line(name, look, [1, 2], [1, 2]),), name, name, name),
        HeatMap((name,), np.zeros((1, 1)), ("0",), name, name, name),
    ):
        root = ElementTree.fromstring(chart.svg)
        assert sum(element.text == name for element in root.iter()) >= 3


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-0.03, 1.03), (5, 5.001), (-2e6, 3e9)])
def test_numbers_of_an_axis_are_round_and_within_it(low, high):
    values = ticks(low, high, 5)
    assert 2 <= len(values) <= 6
    assert low <= values[0] < values[-1] <= high
    steps = np.diff(values)
    assert steps == pytest.approx(steps[0])
    assert 10 * steps[0] / 10 ** math.floor(math.log10(steps[0])) % 5 == pytest.approx(0, abs=1e-6)


def test_svg_is_small_and_well_formed(report):
    for picture in report.document.pictures:
        ElementTree.fromstring(picture.svg)
        assert len(picture.svg) < 20_000


def test_a_report_says_how_many_of_its_decisions_may_be_false():
    """Three pairs, each over two groups and on the tasks of both: twelve, of which 5 %."""
    blocks = group_blocks({"low": 3.0, "same": 3.0, "mine": 8.0})
    report = Report(group_protocol(), EpisodeTable(tuple(blocks)))
    words = "at most 0.6 of the 12 decisions are expected to be false"
    assert words in as_markdown(report.document)
    assert words in explanations(report)["Decisions"]


def test_parts_of_a_file_with_other_columns_are_united():
    first = {
        "task": ["a, b", 'say "so"', "=1+1", "-2"],
        "run": [None] * 4,
        "seed": [0, 2**63, 3, 4],
        "over": [True, False, True, False],
        "score": [0.1, float("nan"), float("inf"), -0.0],
    }
    second = {"task": ["plain"], "run": [7], "length": [1.0], "score": [1e-300]}
    assert columns_as_csv([first, second]).splitlines() == [
        "task,run,seed,over,score,length",
        '"a, b",,0,True,0.1,',
        '"say ""so""",,9223372036854775808,False,,',
        "'=1+1,,3,True,,",
        "'-2,,4,False,-0.0,",
        "plain,7,,,1e-300,1.0",
    ]
    assert columns_as_csv([]) == "\n"
