"""The leaderboard: only verified results of one protocol, estimated anew over all policies."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from builders import Invests, group_blocks, group_protocol, make_task, small_protocol
from results_folder import edit_row

import coopbench
from coopbench.analysis.deviations import deviations
from coopbench.episodes.table import EpisodeTable, Failure
from coopbench.playing.contestants import Failed, TrainedRuns
from coopbench.protocol.loading import ad_hoc
from coopbench.report.leaderboard import tables
from coopbench.report.report import Report
from coopbench.report.sections.checklist import checklist
from coopbench.results.manifest import NAME
from coopbench.workflows.leaderboard import _unranked


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two folders with some policies in common, and the protocol of both."""
    place = tmp_path_factory.mktemp("leaderboard")
    protocol = small_protocol(
        place, tasks=[make_task("short"), make_task("long", horizon=7)], count=8
    )
    runs = {50: Invests(0.2), 51: Invests(0.9), 52: Failed("out of <b>memory</b>")}
    coopbench.evaluate(protocol, ["random", "tit_for_tat", Invests(0.1)], place / "one")
    coopbench.evaluate(
        protocol, ["random", Invests(0.8), TrainedRuns("trained", runs)], place / "two"
    )
    return protocol, place


@pytest.fixture
def folders(results, tmp_path):
    _, place = results
    return [shutil.copytree(place / name, tmp_path / name) for name in ("one", "two")]


def test_the_numbers_are_those_of_one_evaluation_of_all(results):
    protocol, place = results
    board = coopbench.leaderboard([place / "one", place / "two"])
    digests = [source.results for source in board.sources]
    assert digests == [coopbench.load_report(place / n).results for n in ("one", "two")]
    names = [f"invests ({digest[:8]})" for digest in digests]
    investors = [Invests(0.1, names[0]), Invests(0.8, names[1])]
    trained = TrainedRuns("trained", {50: Invests(0.2), 51: Invests(0.9), 52: Failed("")})
    whole = coopbench.evaluate(protocol, ["random", "tit_for_tat", *investors, trained])
    rows = {row.policy: row for row in board.rows}
    means = {row.policy: row for row in whole.aggregates if row.statistic == "mean"}
    trimmed = {row.policy: row for row in whole.aggregates if row.statistic == "trimmed_mean"}
    assert set(rows) == set(means)
    ranks = {row.policy: (row.tie, row.low, row.high) for row in whole.ranks}
    for name, row in rows.items():
        one = means[name]
        shown = [row.mean, row.low, row.high, row.trimmed_mean]
        expected = [one.estimate, one.low, one.high, trimmed[name].estimate]
        np.testing.assert_array_equal(shown, expected)  # the run that failed counts
        assert (row.unit, row.count) == (one.unit, one.count)
        assert (row.tie, row.first, row.last) == ranks[name]
    assert [row.mean for row in board.rows] == sorted((r.mean for r in board.rows), reverse=True)
    assert rows["random"].results == tuple(digests)
    assert rows["random"].verified == rows["tit_for_tat"].verified == "all episodes"
    assert (rows["random"].acts_on, rows["trained"].acts_on) == ("none", "")
    assert rows["trained"].verified == "all episodes, from stored actions"
    assert any("run 52 of trained" in note for note in board.notes)


def test_every_column_shows_its_number(results):
    _, place = results
    board = coopbench.leaderboard(place / "one")
    row = dataclasses.replace(board.rows[0], mean=0.5, low=0.3, high=0.6, trimmed_mean=0.4)
    (table,) = tables(dataclasses.replace(board, rows=(row,)))
    (group,) = table.groups
    columns = [column.name for column in table.columns]
    shown = dict(zip(columns, group.rows[0], strict=True))
    assert (shown["Mean"].value, shown["Trimmed mean"].value) == (0.5, 0.4)
    texts = [shown[name].text for name in ("Mean", "95 % interval", "Trimmed mean")]
    assert [text.replace(" ", "") for text in texts] == ["0.50", "0.30to0.60", "0.40"]


def test_pages(results, tmp_path):
    _, place = results
    board = coopbench.leaderboard([place / "one", place / "two"])
    page, data = board.save(tmp_path / "page.html")
    text, content = page.read_text(), json.loads(data.read_text())
    assert "default-src 'none'" in text
    assert "<script" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert "out of &lt;b&gt;memory" in text
    for row in content["rows"]:
        assert row["policy"] in text
    assert [row["mean"] for row in content["rows"]] == [row.mean for row in board.rows]
    assert content["rows"][-1].keys() == {f.name for f in dataclasses.fields(board.rows[0])}
    with pytest.raises(ValueError, match=r"has to end in \.html"):
        board.save(tmp_path / "page.pdf")


def test_what_differs_is_refused_and_what_lacks_is_marked(folders):
    one, two = folders
    (two / NAME).unlink()
    assert (
        "two is not verified: manifest.json is missing" in coopbench.leaderboard(folders).notes[0]
    )
    board = coopbench.leaderboard(folders, unverified="mark")
    rows = {row.policy.partition(" ")[0]: row for row in board.rows}
    assert rows["trained"].verified == "unverified folder; all episodes, from stored actions"
    assert rows["random"].verified == "all episodes"  # it stands in a verified folder, too
    assert [source.unverified for source in board.sources] == ["", "manifest.json is missing"]
    assert "unverified: manifest.json is missing" in board.to_html()
    assert len(json.loads(board.to_json())["sources"]) == 2
    (two / "protocol.json").rename(two / "other.json")
    assert "two holds no results" in coopbench.leaderboard(folders).notes[0]
    with pytest.raises(FileNotFoundError, match="three does not exist"):
        coopbench.leaderboard([one, two.with_name("three")])
    (two / "other.json").rename(two / "protocol.json")
    edit_row("short/random", 0, lambda episode: episode.update(length=5))(two)
    board = coopbench.leaderboard(folders, unverified="mark")
    assert len(board.sources) == 1
    assert "two did not pass verification: short/random" in board.notes[0]
    assert "trained" not in {row.policy for row in board.rows}
    assert board.notes[0] in board.to_html()
    with pytest.raises(ValueError, match="two did not pass verification: short/random"):
        coopbench.leaderboard([two, one], unverified="mark")  # nor does the next one decide
    with pytest.raises(ValueError, match="Did you mean 'refuse'"):
        coopbench.leaderboard([one], unverified="refuze")
    with pytest.raises(ValueError, match="No folders"):
        coopbench.leaderboard([])


def test_one_protocol_with_bounds(source, folders, tmp_path):
    board = coopbench.leaderboard([folders[0], source])
    assert len(board.sources) == 1
    assert "results has small-v1" in board.notes[0]
    coopbench.evaluate(ad_hoc("TrustDilemma-v1", 4, horizon=5), ["random"], tmp_path / "ad-hoc")
    with pytest.raises(ValueError, match="no agreed bounds"):
        coopbench.leaderboard([tmp_path / "ad-hoc"])


def test_nobody_takes_the_name_of_another(results, folders):
    """Names of policies with different results end in the digests of their folders."""
    protocol, place = results
    digest = coopbench.load_report(folders[1]).results
    usual = {row.policy for row in coopbench.leaderboard(folders).rows}
    name, third = f"invests ({digest[:8]})", place / "digest"
    coopbench.evaluate(protocol, [Invests(0.5, name), Invests(0.6, "new")], third)
    board = coopbench.leaderboard([*folders, third])
    assert {row.policy for row in board.rows} == {*usual, "new"}
    assert f"left out: {name} of {third}, called like another policy" in board.notes


def test_who_lacks_a_task_has_no_place(folders):
    one, _ = folders
    shutil.rmtree(one / "long" / "tit_for_tat")
    board = coopbench.leaderboard([one], unverified="mark")
    assert "tit_for_tat" not in {row.policy for row in board.rows}
    assert "tit_for_tat lacks tasks: long" in board.notes


def test_a_task_on_which_all_runs_failed_is_not_lacking():
    protocol = group_protocol()
    blocks = group_blocks({"mine": 5.0}, runs=(900, 901, 902))
    lost = tuple(b.cell for b in blocks if b.cell.task == "a-two")
    table = EpisodeTable(
        tuple(block for block in blocks if block.cell not in lost),
        failures=tuple(Failure(cell, "out of memory") for cell in lost),
    )
    notes = list(_unranked(protocol, table, ["mine"]))
    assert [note for note in notes if "lacks" in note] == []
    assert len(notes) == 3
    assert not any("lacks" in reason for reason in deviations(protocol, table))
    known = {item.item: item.known for item in checklist(Report(protocol, table))}
    assert known["Runs that failed or are missing are listed"] == "3 runs"


def test_the_command(folders, tmp_path, command):
    assert "Note: invests (" in command("leaderboard", *folders, "--out", "board.html").out
    assert (tmp_path / "board.html").is_file()
