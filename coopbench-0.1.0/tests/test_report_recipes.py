"""The recipes of CONTRIBUTING.md for reports, followed in a copy of the project."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import typing
from dataclasses import is_dataclass
from pathlib import Path

import pytest

from coopbench.analysis.findings import MAKERS, Findings, row_types

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r'^( *)```(?:python title="([^"]+)"|diff)\n(.*?)^\1```$', re.DOTALL | re.M)


def changes(recipe):
    """The blocks of a recipe: new files {path: content}, and patches."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", text[text.index(f"\n## {recipe}\n") :], flags=re.M)[1]
    blocks = [(path, textwrap.dedent(body)) for _, path, body in _BLOCK.findall(section)]
    return {p: body for p, body in blocks if p}, [body for p, body in blocks if not p]


def touched(recipe):
    files, patches = changes(recipe)
    return {*files, *re.findall(r"^\+\+\+ b/(.+)$", "\n".join(patches), flags=re.M)}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the packages, changed as both recipes say, and recorded results."""
    root = tmp_path_factory.mktemp("project")
    for folder in ("coopbench", "coopbench_envs", "baselines", "protocols"):
        shutil.copytree(ROOT / folder, root / folder)  # with compiled statistics
    (root / "coopbench" / "baselines").symlink_to(root / "baselines")
    (root / "coopbench" / "protocols").symlink_to(root / "protocols")
    for recipe in ("Add a table to the report", "Add a statistic"):
        files, patches = changes(recipe)
        for path, content in files.items():
            (root / path).write_text(content, encoding="utf-8")
        for patch in patches:
            git = ["git", "apply", "--recount", "-"]
            subprocess.run(git, cwd=root, input=patch, text=True, check=True)
    shutil.copytree(ROOT / "tests" / "golden" / "results-0.1.0", root / "results")
    for file in (root / "results").glob("*.gz"):
        file.with_suffix("").write_bytes(gzip.decompress(file.read_bytes()))
    return root


@pytest.fixture(scope="module")
def shown(project):
    """What the changed project shows of the recorded results, by the kind of file."""
    code = """
import json, coopbench
from matplotlib.figure import Figure
from coopbench.report import plots
from coopbench.report.data import as_json, tables_as_csv
from coopbench.report.markdown import as_markdown
from coopbench.report.reading import reading
report = coopbench.load_report("results")
csv = tables_as_csv(report)
ax = plots.aggregate(report, Figure().add_subplot(), statistic="worst_task")
print(json.dumps({
    "text": str(report), "markdown": as_markdown(report), "latex": report.latex(),
    "wins.csv": csv["wins"], "aggregates.csv": csv["aggregates"],
    "json": json.loads(as_json(report)), "frame": list(report.to_frame("wins").columns),
    "axis": ax.get_xlabel(), "reading": reading(report),
}))
"""
    environment = os.environ | {"PYTHONPATH": str(project), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_part_of_a_report_has_a_maker():
    parts = {
        name: typing.get_args(hint)[0]
        for name, hint in typing.get_type_hints(Findings).items()
        if typing.get_origin(hint) is tuple and is_dataclass(typing.get_args(hint)[0])
    }
    assert parts == row_types()
    assert list(row_types()) == list(MAKERS)


def test_a_table_takes_three_files_and_a_statistic_as_many():
    assert len(touched("Add a table to the report")) == 3
    assert len(touched("Add a statistic")) == 3  # and the page that explains it


def test_a_new_table_is_in_every_rendering(shown):
    assert shown["wins.csv"].splitlines()[0] == "policy,tasks,won"
    assert shown["frame"] == ["policy", "tasks", "won"]
    rows = shown["json"]["wins"]
    assert {row["policy"] for row in rows} >= {"random", "tit_for_tat"}
    assert sum(row["won"] for row in rows) >= 3  # tasks
    assert "Tasks won" in shown["text"]
    assert "**Tasks won**" in shown["markdown"]


def test_a_new_statistic_is_in_every_rendering(shown):
    assert "worst_task" in shown["aggregates.csv"]
    assert "worst_task" in {row["statistic"] for row in shown["json"]["aggregates"]}
    assert "Worst task" in shown["text"]
    assert "| Worst task |" in shown["markdown"]
    assert "& Worst task &" in shown["latex"]
    assert "interquartile mean (IQM), worst task and rank" in shown["latex"]
    assert shown["axis"].startswith("worst task, mean of normalised")
    assert "where it is lowest" in shown["reading"]["Worst task"]
