"""Pages of the site that are made at its build: files of the repository, and the public names."""

import ast
import pkgutil
import re
import runpy
import textwrap
from pathlib import Path

import pytest

import coopbench
import coopbench_envs

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def pages():
    return runpy.run_path(str(ROOT / "docs" / "pages.py"))


def test_the_api_page_describes_every_public_name(pages):
    page = pages["api"]()
    for name in [*coopbench._PUBLIC, *coopbench_envs.__all__]:
        assert f"\n### {name}\n\n```python\n" in page
    assert "`ProtocolError`" in page
    assert "``" not in page.replace("```", "")


def test_links_of_copied_files_lead_to_pages_of_the_site(pages):
    for name in pages["COPIED"].values():
        for link in re.findall(r"\]\(([^)#]+\.md)", pages["copied"](name)):
            assert (ROOT / "docs" / link).is_file() or link in (*pages["COPIED"], "api.md")


def test_every_page_is_in_the_navigation(pages):
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    files = [file.relative_to(ROOT / "docs") for file in (ROOT / "docs").rglob("*.md")]
    for page in [*map(str, files), *pages["COPIED"], "api.md"]:
        assert f": {page}\n" in navigation


@pytest.mark.parametrize("number", range(3))
def test_code_of_the_first_steps_runs(number):
    page = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")
    codes = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(codes) == 3
    exec(codes[number], {"__name__": "__main__"})


# Not the changelog, which names what has moved.
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
_FOLDERS = "baselines|benchmarks|coopbench|coopbench_envs|docs|examples|protocols|tests"
_GROUPS = ("coopbench.learners", "coopbench.networks", "coopbench.policies")  # of entry points
_RECIPES = ("stag_hunt", "stag-hunting", "lone_hunter")  # in CONTRIBUTING.md, tested on its own


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_modules_and_files_that_exist(page):
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`(coopbench(?:_envs)?(?:\.[A-Za-z_]\w*)+)[`(]", text):
        if name not in _GROUPS:
            pkgutil.resolve_name(name)
    for path in re.findall(rf"`((?:{_FOLDERS})/[\w./-]*)(?<!-v\d)`", text):
        assert (ROOT / path).exists() or any(name in path for name in _RECIPES), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_of_pages_imports_what_exists(page):
    text = page.read_text(encoding="utf-8")
    for code in re.findall(r"^ *```python[^\n]*\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
        for node in ast.walk(ast.parse(textwrap.dedent(code))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("coopbench"):
                for alias in node.names:
                    exec(f"from {node.module} import {alias.name}")


def test_the_architecture_names_files_that_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    files = [file for folder in _FOLDERS.split("|") for file in (ROOT / folder).rglob("*.py")]
    paths = [f"/{file.relative_to(ROOT).as_posix()}" for file in [*files, ROOT / "setup.py"]]
    for name in re.findall(r"`([\w/]+\.py)`", text):
        assert any(path.endswith(f"/{name}") for path in paths), name
