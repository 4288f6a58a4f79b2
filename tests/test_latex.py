"""LaTeX tables: complete, escaped, in bold what is not significantly worse than the best."""

import dataclasses
import re
import shutil
import subprocess

import pytest
from builders import GROUP_LEVELS, altered, group_blocks, group_protocol

from coopbench.episodes.table import EpisodeTable
from coopbench.report import latex
from coopbench.report.report import Report
from coopbench.report.sections import estimates

NASTY = r"50%_of\{$x^2$} ~ <a> & #1|2"


@pytest.fixture(scope="module")
def report():
    blocks = group_blocks(GROUP_LEVELS | {NASTY: 4.0})
    blocks += group_blocks({"mine": 9.0, "theirs": 8.9}, runs=tuple(range(900, 910)))
    report = Report(group_protocol(), EpisodeTable(tuple(blocks)))
    return altered(report, deviations=("edited\n\\input{/etc/passwd}",))


def tables_of(text):
    """Cells of every table, below its head; a policy has a line of values and one of intervals."""
    tables = []
    for body in re.findall(r"\\midrule\n(.*?)\\bottomrule", text, flags=re.DOTALL):
        lines = [line for line in body.splitlines() if "multicolumn" not in line]
        tables.append([re.split(r"(?<!\\) & ", line) for line in lines])
    return tables


def bold(cells):
    return {row[0] for row in cells if any(cell.startswith(r"\textbf") for cell in row[1:2])}


def test_every_table_is_whole(report):
    text = report.latex()
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 3
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule")
    names = [
        latex.escaped(n) for n in dict.fromkeys(block.cell.policy for block in report.episodes)
    ]
    for columns, cells in zip(re.findall(r"@\{\}([lr]+)@", text), tables_of(text), strict=True):
        assert {len(row) for row in cells} == {len(columns)}
        assert [row[0] for row in cells[::2]][-len(names) :] == names
        assert all(row[-1].endswith(r"\\[2pt]") for row in cells[1::2])
    assert re.findall(r"\\emph\{(.*)\}\}", text) == ["a", "b"]
    for words in (
        "n = 20",
        "training runs of learned policies, n = 10",
        "ntervals are for new runs and new episodes",
        "Not a standard",
        report.protocol.digest[:12],
        "Bold:",
    ):
        assert words in text
    assert r"% Needs in the preamble: \usepackage{booktabs}" in text.splitlines()


def test_nothing_in_a_name_or_reason_is_a_command(report):
    text = report.latex()
    assert [latex.escaped(name) for name in ("[2pt]", "*star")] == ["{}[2pt]", "{}*star"]
    assert r"50\%\_of\textbackslash{}\{\$x\textasciicircum{}2\$\} \textasciitilde{}" in text
    assert r"\textless{}a\textgreater{} \& \#1\textbar{}2" in text
    commented = [line for line in text.splitlines() if "input" in line]
    assert commented == [r"% - edited \input{/etc/passwd}"]


def test_bold_is_the_best_and_what_is_not_significantly_worse(report):
    task = report.protocol.task[2]
    aggregate, _, values = tables_of(report.latex())
    second = aggregate[len(aggregate) // 2 :]  # the rows of group b
    ranks = {row.policy: row for row in report.ranks if row.group == "b"}
    assert bold(second) == {name for name, row in ranks.items() if row.low == 1}
    assert {"mine", "theirs"} <= bold(second)
    assert bold(values) == {"mine", "theirs"}
    worse = [
        dataclasses.replace(row, p_holm=0.01, decided=True) if row.task == task.id else row
        for row in report.comparisons
    ]
    assert bold(tables_of(altered(report, comparisons=tuple(worse)).latex())[2]) == {"mine"}
    even = [dataclasses.replace(row, p_holm=0.2, decided=False) for row in worse]
    assert bold(tables_of(altered(report, comparisons=tuple(even)).latex())[2]) == {
        row[0] for row in values[::2]
    }
    alone = altered(report, comparisons=(), ranks=())
    assert [bold(cells) for cells in tables_of(alone.latex())] == [{"mine"}] * 3


def test_wide_and_long_reports_are_cut_to_pages(report, monkeypatch):
    monkeypatch.setattr(estimates, "TASKS", 1)
    monkeypatch.setattr(latex, "LINES", 4)
    text = report.latex()
    cut = tables_of(text)
    assert len(cut) == 3 + 3 * 2
    assert {len(cells) for cells in cut} == {8, 4}
    assert "the tasks of a (2 of 2)" in text


def test_it_compiles(report, tmp_path):
    installed = shutil.which("pdflatex") and shutil.which("kpsewhich")
    if (
        not installed
        or subprocess.run(["kpsewhich", "booktabs.sty"], check=False, timeout=60).returncode
    ):
        pytest.skip("no pdflatex with booktabs here")
    (tmp_path / "report.tex").write_text(report.latex(), encoding="utf-8")
    paper = (
        r"\documentclass{article}\usepackage{booktabs}\begin{document}\input{report}\end{document}"
    )
    (tmp_path / "paper.tex").write_text(paper, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-draftmode", "paper.tex"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout
    assert "Undefined" not in done.stdout
