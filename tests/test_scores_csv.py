"""Scores that were made elsewhere, from a CSV file to a report."""

import numpy as np
import pytest

from coopbench.exchange import import_results

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
    report = import_results(file, "score", scale="given")
    assert report.missing_runs == ()
    assert list(report.scores) == ["a", "b"]
    np.testing.assert_array_equal(report.scores["b"]["two"], 0.2 + 0.01 * np.arange(5))
    assert [row.estimate for row in report.improvements] == [1.0]
    means = {r.policy: r.estimate for r in report.aggregates if r.statistic == "mean"}
    assert means == pytest.approx({"a": 0.52, "b": 0.22})


def test_a_value_of_a_run_is_one_observation(file):
    """Five runs of one value each: Student's interval, 2.776 standard errors to each side."""
    report = import_results(file, "score", scale="given")
    row = report.estimates[0]
    error = np.std(0.01 * np.arange(5), ddof=1) / np.sqrt(5)
    assert row.high - row.mean == pytest.approx(2.776445 * error)
    assert report.comparisons[0].p_value < 1e-6


def test_the_command_writes_the_report(file, tmp_path, command):
    words = ("--metric", "score", "--scale", "given", "--out", "report")
    assert "a vs b" in command("import", file, *words).out
    for name in ("report.md", "report.html"):
        text = (tmp_path / "report" / name).read_text()
        assert "nothing is verified" in text
        assert "a vs b" in text


def test_names_of_a_file_do_not_steer_a_terminal(file, tmp_path, command):
    text = file.read_text().replace("a,", "\x1b[31ma,").replace("one", "o\u202ene\t")
    file.write_text(text, encoding="utf-8")
    assert list(import_results(file, "score").scores) == ["\\x1b[31ma", "b"]
    printed = command("import", file, "--metric", "score", "--out", "report").out
    printed += (tmp_path / "report" / "report.md").read_text()
    assert "x1b" in printed
    assert not {"\x1b", "\u202e"} & set(printed)


def test_a_run_on_one_task_only_is_listed(file):
    file.write_text(file.read_text() + "a,one,9,0.5\n")
    missing = import_results(file, "score").missing_runs
    assert ("two", "a", 9) in {(run.task, run.policy, run.run) for run in missing}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("algorithm,task,score\n", "is no header of scores"),
        (HEADER, "has a header and no scores"),
        (f"{HEADER}a,one,0\n", "line 2 has 3 fields; allowed: 4"),
        (f"{HEADER}a,one,0,nan\n", "line 2, column 'score' was 'nan'"),
        (f"{HEADER}a,one,0,1_0\n", "line 2, column 'score' was '1_0'"),
        (f"{HEADER},one,0,1\n", "line 2: algorithm is empty"),
        (f"{HEADER}a,one,0,1\na,one,0,2\n", "line 3: this run of 'a' on 'one' stands twice"),
        (f'{HEADER}"a,one,0,1\n', "cannot be read as CSV"),
    ],
)
def test_what_is_no_table_of_scores_is_refused(tmp_path, content, message):
    file = tmp_path / "scores.csv"
    file.write_text(content)
    with pytest.raises(ValueError, match=message):
        import_results(file, "score")
