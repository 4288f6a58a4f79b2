"""The recipes of CONTRIBUTING.md, followed step by step in a copy of the project."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
_FILE = re.compile(r'^( *)```\w+ title="([^"]+)"\n(.*?)^\1```$', re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the packages in the form in which they are installed, with the recipes' files."""
    root = tmp_path_factory.mktemp("project")
    for folder in ("coopbench", "coopbench_envs", "baselines", "protocols", "docs"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "README.md", root)
    (root / "coopbench" / "baselines").symlink_to(root / "baselines")
    (root / "coopbench" / "protocols").symlink_to(root / "protocols")
    blocks = _FILE.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert len(blocks) == 5
    for _, name, content in blocks:
        (root / name).write_text(textwrap.dedent(content), encoding="utf-8")
    return root


def _run(project, *arguments):
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project), "COLUMNS": "120"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_the_new_things_are_found_and_play(project):
    listed = _run(project, "-m", "coopbench", "list")
    for name in ("coopbench/StagHunt-v0", "lone_hunter", "stag-hunting"):
        assert name in listed
    assert "two-hunters" in _run(project, "-m", "coopbench", "show", "stag-hunting")
    text = _run(project, "-m", "coopbench", "evaluate", "stag-hunting", "--out", "found")
    assert "lone_hunter:0.1" in text
    assert (project / "found" / "report.html").stat().st_size > 10_000


def test_the_new_environment_passes_the_checkers_and_gets_its_facts(project):
    _run(
        project,
        "-W",
        "ignore",
        "-c",
        "import gymnasium, pettingzoo, coopbench_envs;"
        "from gymnasium.utils.env_checker import check_env;"
        "from pettingzoo.test import parallel_api_test;"
        "check_env(gymnasium.make('coopbench/StagHunt-v0').unwrapped);"
        "parallel_api_test(pettingzoo.make('parallel', 'coopbench/StagHunt-v0'), 50)",
    )
    (project / "tests").symlink_to(ROOT / "tests")
    rendering = "StagHunt and (render or frames)"
    _run(
        project,
        *("-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-k", rendering),
        *("tests/test_interfaces.py", "tests/test_pictures.py"),
    )
    _run(project, "docs/generate.py")
    page = (project / "docs" / "environments" / "stag_hunt.md").read_text(encoding="utf-8")
    assert "value of a share of the stag" in page
