"""Scores that were made elsewhere, from a CSV file to a report."""

import numpy as np
import pytest

from coopbench.exchange import (
    comparison_table,
    read_scores_csv,
    save_scores_report,
    summary_table,
)

HEADER = "algorithm,task,run,score\n"


@pytest.fixture
def file(tmp_path):
    rows = [
        f"{algorithm},{task},{run},{level + 0.01 * run}"
        for algorithm, level in (("a", 0.5), ("b", 0.2))
        for task in ("one", "two")
        for run in range(5)
    ]
    path = tmp_path / "scores.csv"
    path.write_text(HEADER + "\n".join(rows) + "\n")
    return path


def test_scores_come_back_by_algorithm_and_task(file):
    imported = read_scores_csv(file)
    assert (imported.tasks, imported.algorithms) == (("one", "two"), ("a", "b"))
    assert (imported.environment, imported.missing) == ("scores", ())
    np.testing.assert_array_equal(imported.scores("score")["b"][1], 0.2 + 0.01 * np.arange(5))


def test_the_tables_hold_summaries_and_comparisons(file):
    imported = read_scores_csv(file)
    means = {r.algorithm: r.estimate for r in imported.table("score") if r.statistic == "mean"}
    assert means == pytest.approx({"a": 0.52, "b": 0.22})
    assert summary_table(imported, "score").title.startswith("score on scores")
    (group,) = comparison_table(imported, "score").groups
    assert [entry.text for entry in group.rows[0]][:2] == ["a vs b", "1.000"]


@pytest.mark.parametrize("name", ["report.md", "report.html"])
def test_the_command_writes_the_report(file, tmp_path, command, name):
    words = ("--metric", "score", "--scale", "given", "--out", name)
    assert "a vs b" in command("import", file, *words).out
    text = (tmp_path / name).read_text()
    assert "nothing is verified" in text
    assert "a vs b" in text
    assert ("<caption>" in text) is (name == "report.html")


def test_a_report_of_another_kind_is_refused(file, tmp_path):
    with pytest.raises(ValueError, match=r"report\.pdf is no name of a report; allowed: names in"):
        save_scores_report(read_scores_csv(file), "score", tmp_path / "report.pdf")


def test_names_of_a_file_do_not_steer_a_terminal(file, tmp_path, command):
    text = file.read_text().replace("a,", "\x1b[31ma,").replace("one", "o\u202ene\t")
    file.write_text(text, encoding="utf-8")
    assert read_scores_csv(file).algorithms == ("\\x1b[31ma", "b")
    printed = command("import", file, "--metric", "score", "--out", "report.md").out
    printed += (tmp_path / "report.md").read_text()
    assert "x1b" in printed
    assert not {"\x1b", "\u202e"} & set(printed)


def test_a_run_on_one_task_only_is_listed(file):
    file.write_text(file.read_text() + "a,one,9,0.5\n")
    assert any("two / a / 9 is not in the file" in text for text in read_scores_csv(file).missing)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("algorithm,task,score\n", "is no header of scores"),
        (HEADER, "has a header and no scores"),
        (f"{HEADER}a,one,0\n", "line 2 has 3 fields; allowed: 4"),
        (f"{HEADER}a,one,0,nan\n", "line 2, column 'score' was 'nan'"),
        (f"{HEADER},one,0,1\n", "line 2: algorithm is empty"),
        (f"{HEADER}a,one,0,1\na,one,0,2\n", "line 3: this run of 'a' on 'one' stands twice"),
    ],
)
def test_what_is_no_table_of_scores_is_refused(tmp_path, content, message):
    file = tmp_path / "scores.csv"
    file.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_scores_csv(file)
