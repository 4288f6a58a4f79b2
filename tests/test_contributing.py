"""The recipes of CONTRIBUTING.md, followed step by step in a copy of the project."""

import filecmp
import os
import re
import shutil
import subprocess
import sys
import textwrap

import pytest
from folders import FOLDERS, ROOT

_BLOCK = re.compile(r'^( *)```\w+ title="([^"]+)"\n(.*?)^\1```$', re.DOTALL | re.MULTILINE)
_COPIED = (*FOLDERS.values(), "docs", "tests", "benchmarks", "README.md", "mkdocs.yml")
_COPIED += ("pyproject.toml", "setup.py", "CONTRIBUTING.md")
# Compiled drivers come along: numba finds them by the time and size of the file beside them.
_IGNORED = shutil.ignore_patterns("*.pyc")
# What each recipe touches, apart from the pages that 'make docs' writes.
_TOUCHED = {
    "Add an environment": {
        "coopbench_envs/hunting/__init__.py",
        "coopbench_envs/hunting/stag_hunt.py",
        "docs/environments/stag_hunt.md",
        "mkdocs.yml",
        "tests/golden/trajectories.json",
    },
    "Add a policy": {"baselines/strategies/lone_hunter.py"},
    "Add a learner": {"baselines/learners/random_search.py"},
    "Add a protocol": {"protocols/stag-hunting.toml"},
}
# Tests that walk a registry name what they test; the others look at pages and folders.
_WALKING = "StagHunt or lone_hunter or random_search or stag-hunting or violations or wheel_holds"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project, packages where they are installed, after all recipes."""
    root = tmp_path_factory.mktemp("project")
    for name in _COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=_IGNORED)
        else:
            shutil.copy(ROOT / name, root / name)
    for package, folder in FOLDERS.items():
        link = root / package.replace(".", "/")
        if not link.exists():
            link.symlink_to(root / folder)
    for name, block in (block for title in _TOUCHED for block in _blocks(title)):
        file, _, part = name.partition(", in ")
        (root / file).parent.mkdir(exist_ok=True)
        if part:
            _enter(root / file, block)
        else:
            (root / file).write_text(block, encoding="utf-8")
    _run(root, "tests/record.py")
    return root


def _blocks(title):
    """Titles and contents of a recipe's blocks of code that have a title."""
    sections = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n## ")
    (recipe,) = [section for section in sections if section.startswith(f"{title}\n")]
    return [(name, textwrap.dedent(block)) for _, name, block in _BLOCK.findall(recipe)]


def _enter(file, line):
    """Add a page at the end of the navigation's list of environments."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    last = max(k for k, text in enumerate(lines) if ": environments/" in text)
    indent = lines[last][: len(lines[last]) - len(lines[last].lstrip())]
    lines.insert(last + 1, indent + line)
    file.write_text("".join(lines), encoding="utf-8")


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


def _changed(project):
    """Files of the copy that are new or other than those of the project."""
    tops = [project / name for name in _COPIED]
    files = [file for top in tops for file in ([top] if top.is_file() else top.rglob("*"))]
    return {
        str(file.relative_to(project))
        for file in files
        if file.is_file() and "__pycache__" not in file.parts and not _is_same(project, file)
    }


def _is_same(project, file):
    original = ROOT / file.relative_to(project)
    return original.is_file() and filecmp.cmp(file, original, shallow=False)


def test_recipes_touch_few_files(project):
    """At most five for an environment in a new family, one for anything else."""
    assert _changed(project) == set().union(*_TOUCHED.values())
    for title, files in _TOUCHED.items():
        named = {name.partition(", in ")[0] for name, _ in _blocks(title)}
        assert named == files - {"tests/golden/trajectories.json"}
        assert len(files) <= (5 if title == "Add an environment" else 1)


def test_the_new_things_are_listed_and_play(project, tmp_path):
    listed = _run(project, "-m", "coopbench", "list")
    for name in ("coopbench/StagHunt-v0", "lone_hunter", "random_search", "stag-hunting"):
        assert name in listed
    assert "two-hunters" in _run(project, "-m", "coopbench", "show", "stag-hunting")
    out = tmp_path / "results"
    text = _run(project, "-m", "coopbench", "evaluate", "stag-hunting", "--out", str(out))
    assert "lone_hunter:0.1" in text
    assert (out / "report.html").stat().st_size > 10_000


def test_the_new_things_pass_the_tests_that_walk_the_registries(project):
    """Every interface, seeds, pictures, policies, protocols, rooms and the wheel."""
    options = ("-v", "-n0", "-p", "no:cacheprovider", "-k", _WALKING)
    left_out = ("--ignore=tests/test_contributing.py", "--ignore=tests/test_cli.py")
    passed = _run(project, "-m", "pytest", *options, *left_out, "tests")
    assert int(re.search(r"(\d+) passed", passed)[1]) > 40


def test_pages_are_generated_for_the_new_environment(project):
    """Last, because it changes the pages."""
    _run(project, "docs/generate.py")
    page = (project / "docs" / "environments" / "stag_hunt.md").read_text(encoding="utf-8")
    assert "value of a share of the stag" in page
    _run(
        project, "-m", "pytest", "-q", "-n0", "-k", "fresh or navigation", "tests/test_structure.py"
    )
