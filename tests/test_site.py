"""Pages of the site that are made at its build: files of the repository, and the public names."""

import ast
import csv
import fnmatch
import importlib
import os
import pkgutil
import re
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

import coopbench
import coopbench_envs
from coopbench.baselines.registry import learners, preset, presets
from coopbench.cli.main import app
from coopbench.protocol.loading import load_protocol

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def docs():
    """Import modules of the folder docs by name."""
    sys.path.insert(0, str(ROOT / "docs"))
    yield importlib.import_module
    sys.path.remove(str(ROOT / "docs"))


@pytest.fixture(scope="module")
def pages(docs):
    return docs("pages")


def test_the_api_page_describes_every_public_name(pages):
    page = pages.api()
    for name in [*coopbench._PUBLIC, *coopbench_envs.__all__]:
        assert f"\n### {name}\n\n```python\n" in page
    assert "`ProtocolError`" in page
    assert "``" not in page.replace("```", "")


def test_the_page_of_hyperparameters_has_every_preset_of_every_learner(docs):
    """Each learner has the column with its values; one without its name is of all on the table."""
    text = docs("hyperparameter_page").page()
    for name in presets():
        for learner in [learner for learner in learners() if preset(name, learner)]:
            (part,) = [p for p in text.split("\n## ") if f"`{learner}`" in p.split("\n")[0]]
            lines = [line.split(" | ") for line in part.split("\n") if line.startswith("| ")]
            headings = [head.strip(" |") for head in lines[0] if head.split(" ")[0] == name]
            (heading,) = [h for h in headings if h == name or learner in re.findall(r"\w+", h)]
            place = [head.strip(" |") for head in lines[0]].index(heading)
            told = {line[0].strip("| `"): line[place].strip(" |") for line in lines[1:]}
            for key, value in preset(name, learner).items():
                assert told[key] == str(value), (name, learner, key)


def test_links_of_copied_files_lead_to_pages_of_the_site(pages):
    for name in pages.COPIED.values():
        for link in re.findall(r"\]\(([^)#]+\.md)", pages.copied(name)):
            assert (ROOT / "docs" / link).is_file() or link in (*pages.COPIED, *pages.MADE)


def test_no_line_within_a_paragraph_or_formula_begins_a_list():
    """Markdown takes an operator at the beginning of a line for the mark of an item."""
    mark = re.compile(r"\s*([-+*]|\d+\.)\s")
    files = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"]
    for file in files:
        text = re.sub(r"^---\n.*?^---\n", "", file.read_text(encoding="utf-8"), flags=re.M | re.S)
        text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)
        for block in re.split(r"\n\s*\n", text):
            first, *rest = block.strip("\n").splitlines() or [""]
            starts = [line for line in rest if mark.match(line)]
            assert not starts or mark.match(first), (file.name, starts)


def test_links_lead_to_what_a_checkout_has(pages, docs):
    """Or to what the build makes, except from the pages of results, which work in a checkout."""
    folder = ROOT / "docs"
    plots = {f"environments/plots/{name}" for name in docs("plots").names()}
    made = {folder / place for place in (*pages.MADE, *pages.COPIED, *plots)}
    files = sorted(folder.rglob("*.md"))
    assert folder / "results" / "marl-standard.md" in files
    for file in files:
        results = "results" in (file.stem, file.parent.name)
        for link in re.findall(r"\]\(\s*([^)#\s]+)", file.read_text(encoding="utf-8")):
            if re.match("[a-z]+:", link) is None:
                target = Path(os.path.normpath(file.parent / link))
                assert target.exists() or (target in made and not results), (file.name, link)


_SOURCES = ("coopbench", "coopbench_envs")
_DATA = {".csv", ".json", ".jsonl", ".map", ".npz", ".toml", ".txt", ".zip"}
LONGEST = {"problems.md": 900} | dict.fromkeys(
    ("datasheet.md", "data-licenses.md", "compute.md", "maintenance.md"), 600
)
SCIENCE = {  # and the pages of environments
    *("statistics.md", "validity.md", "validity-tables.md", "games.md", "published.md"),
    "protocol-designs.md",
}
FENCED = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
GENERATED = re.compile(r"<!-- generated: begin.*?<!-- generated: end -->", re.DOTALL)


def test_pages_that_are_read_whole_are_short():
    """Words outside of code and generated tables; bars of tables are no words."""
    lengths = {}
    for file in (ROOT / "docs").rglob("*.md"):
        prose = GENERATED.sub("", FENCED.sub("", file.read_text(encoding="utf-8")))
        words = sum(any(map(str.isalnum, word)) for word in prose.split())
        lengths[file.relative_to(ROOT / "docs").as_posix()] = words
    assert lengths.keys() >= LONGEST.keys() | SCIENCE
    long = {name for name, words in lengths.items() if words > LONGEST.get(name, 1500)}
    assert {name for name in long - SCIENCE if not name.startswith("environments/")} == set()


def test_every_datum_has_a_license():
    """Places on the page are folders, files or patterns of files."""
    page = (ROOT / "docs" / "data-licenses.md").read_text(encoding="utf-8")
    places = re.findall(r"`([\w./*-]+/[\w./*-]+)`", page)
    folders = ("baselines", "benchmarks/results", *_SOURCES, "protocols", "studies", "tests/golden")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.*")]
    names = [str(file.relative_to(ROOT)) for file in files if file.suffix in _DATA]
    assert len(names) > 150
    listed = [place for each in places for place in (each, f"{each}/*")]
    assert [n for n in names if not any(fnmatch.fnmatch(n, place) for place in listed)] == []
    assert [place for place in places if not any(ROOT.glob(place))] == []


def test_certificates_begin_with_what_a_difference_means(docs):
    """In at most ten lines, with the scores that the tables below have."""
    for name, make in docs("certificate_pages").MADE.items():
        question, _, figures = make().partition("\n## Figures\n")
        _, _, answer = question.partition("\n## Can I trust this difference?\n\n")
        lines = answer.strip().split("\n- ")
        assert 5 <= len(lines) <= 10, name
        for score in re.findall(r"-?\d\.\d\d", answer):
            assert f"| {score} ±" in figures, (name, score)


def test_croissant_describes_all_tables_and_instances(docs):
    """That the file is fresh is tested with all generated files, in test_structure.py."""
    made = docs("croissant").content()
    described = [one["includes"] for one in made["distribution"]]
    names = {file for pattern in described for file in ROOT.glob(pattern)}
    assert names >= {*ROOT.glob("benchmarks/results/tables/*/*.csv")}
    assert names >= {*ROOT.glob("protocols/instances*")}


@pytest.mark.slow("reads all stored tables with another package")
def test_croissant_is_valid_and_its_records_can_be_read():
    mlcroissant = pytest.importorskip("mlcroissant")
    data = mlcroissant.Dataset(jsonld=str(ROOT / "croissant.json"))
    assert not data.metadata.ctx.issues.errors
    for records in data.metadata.record_sets:
        row = next(iter(data.records(records.id)))
        assert row[f"{records.id}/protocol"].decode() in coopbench.protocol_names()


def test_the_site_puts_all_tables_on_the_pages_of_results(pages, docs):
    made = docs("results_pages")
    text = (ROOT / "docs" / "results" / "rail-scaling.md").read_text(encoding="utf-8")
    place = SimpleNamespace(file=SimpleNamespace(src_uri="results/rail-scaling.md"))
    page = pages.on_page_markdown(text, place)
    head, _, tail = text.partition(made.DETAILS)
    assert page.startswith(head)
    assert tail not in page
    for part in ("rail-scaling.svg", "rail-scaling-learning.svg", "## Score: normalised_return"):
        assert part in page
    with pytest.raises(ValueError, match=r"rail-scaling\.md has no"):
        pages.on_page_markdown(head, place)
    assert made.DETAILS in made.new_page("rail-scaling")


def test_the_page_of_keys_has_every_key_with_a_meaning(pages, docs):
    page = pages.MADE["protocol-keys.md"]()
    reference = docs("reference")
    for name, title in reference._SECTIONS.items():
        part = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        for key in reference.section(name).model_fields:
            assert re.search(rf"^\| `{key}` +\|.*\| +\S.* \|$", part, re.MULTILINE), key


def test_the_page_of_a_protocol_says_where_ten_runs_are_too_few(docs):
    made = docs("protocol_pages")
    protocol = load_protocol("skirmish-standard")
    (cells,) = made.powers(protocol).values()
    said = dict(zip((task.id for task in protocol.task), cells, strict=True))
    with made.POWER.open(encoding="utf-8", newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["protocol"] == "skirmish-standard"]
    shown = {r["task"]: min(float(r["script"]), float(r["learner"])) for r in rows if r["task"]}
    assert {task for task, cell in said.items() if cell != "yes"} == {
        task for task, share in shown.items() if share < 0.9
    }
    page = made.page("skirmish-standard")
    for task, cell in said.items():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{task}` |")]
        assert row.endswith(f"| {cell} |")
    assert made._cell(0.95, 0.5) == "no: above ten runs in 50 % of reports"
    assert made.HEAD not in made.page("rail-published-1")  # has no stored runs


def test_every_environment_has_picture_question_and_example(docs):
    front = docs("front")
    for place, env_id in front.pages().items():
        text = (ROOT / "docs" / place).read_text(encoding="utf-8")
        page = front.on_page_markdown(text, SimpleNamespace(file=SimpleNamespace(src_uri=place)))
        order = ["**The question.**", ".webp)", "```python", "| Fact"]
        assert [page.index(part) for part in order] == sorted(page.index(part) for part in order)
        assert f'gymnasium.make("{env_id}")' in page
        assert f"environments/{Path(place).stem}.md" in front.tiles("")


def test_every_page_is_in_the_navigation(pages):
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    files = [file.relative_to(ROOT / "docs") for file in (ROOT / "docs").rglob("*.md")]
    for page in [*map(str, files), *pages.COPIED, *pages.MADE]:
        assert f": {page}\n" in navigation, page


def test_code_of_the_first_steps_runs():
    page = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")
    codes = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(codes) == 3
    for code in codes:
        exec(code, {"__name__": "__main__"})


# Not the changelog, which names what has moved.
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
_FOLDERS = "baselines|benchmarks|coopbench|coopbench_envs|docs|examples|protocols|studies|tests"
# Groups of entry points.
_GROUPS = tuple(f"coopbench.{name}" for name in ("learners", "networks", "policies", "sections"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_and_import_what_exists(page):
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`(coopbench(?:_envs)?(?:\.[A-Za-z_]\w*)+)[`(]", text):
        needs_torch = name.startswith("coopbench.baselines.learners.")
        if name not in _GROUPS and not (needs_torch and find_spec("torch") is None):
            pkgutil.resolve_name(name)
    for path in re.findall(rf"`((?:{_FOLDERS})/[\w./-]*)(?<!-v\d)`", text):
        assert (ROOT / path).exists(), path
    for command in re.findall(r"`coopbench ([a-z]\w*)", text):
        assert command in typer.main.get_command(app).commands
    for code in re.findall(r"^ *```python[^\n]*\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
        for node in ast.walk(ast.parse(textwrap.dedent(code))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("coopbench"):
                for alias in node.names:
                    exec(f"from {node.module} import {alias.name}")
