"""What type checkers and editors know of the packages, from a user's file."""

import ast
import inspect
import re
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest
from builders import PATIENCE

import coopbench
import coopbench_envs
from coopbench.report.sections import parts
from studies.checks.folders import ROOT

# A user's file: what is wrong is marked with the word that a checker's message must hold.
USER = """
import coopbench
import coopbench_envs
import coopbench.protocols
from coopbench.baselines.registry import learners

report = coopbench.evaluate("coopbench/TrustDilemma-v1", ["random"])
print(report.estimates, coopbench.protocol_names()[0].upper(), coopbench_envs.spec("Routing-v1").id)
coopbench.evalute("coopbench/TrustDilemma-v1", ["random"])  # wrong: evalute
coopbench.evaluate("coopbench/TrustDilemma-v1", ["random"], backend=4)  # wrong: evaluate
report.nonsense()  # wrong: nonsense
coopbench_envs.Engin("coopbench/TrustDilemma-v1")  # wrong: Engin
coopbench.verify(3)  # wrong: verify
learners().nonsense()  # wrong: nonsense
coopbench.protocols.nonsense()  # wrong: nonsense
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A user's project: one file, and nothing that says where the packages are."""
    folder = tmp_path_factory.mktemp("types")
    (folder / "user.py").write_text(USER)
    return folder


def _wrong():
    """Return {line: word} of what is wrong in the user's file."""
    marks = (line.partition("# wrong: ")[2] for line in USER.splitlines())
    return {number: word for number, word in enumerate(marks, 1) if word}


TYPES = ROOT / "build" / "types" / ".mypy_cache"  # what ``make lint`` has stored, where it has run
CHECKERS = {
    "mypy": (
        *("--config-file", ROOT / "pyproject.toml", "--no-error-summary", "--cache-dir", TYPES),
        r"^user\.py:(\d+): error: (.*)$",
    ),
    "pyright": ("--pythonpath", sys.executable, r"user\.py:(\d+):\d+ - error: (.*)$"),
}


@pytest.mark.slow("runs a type checker")
@pytest.mark.parametrize("checker", CHECKERS)
def test_type_checkers_find_what_is_wrong_in_a_users_file(checker, project):
    """Each mark has a message that holds its word, and nothing else has one."""
    pytest.importorskip(checker)
    *options, pattern = CHECKERS[checker]
    command = [sys.executable, "-m", checker, *map(str, options), "user.py"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=PATIENCE)
    messages = {int(n): text for n, text in re.findall(pattern, done.stdout, re.MULTILINE)}
    assert set(messages) == set(_wrong()), done.stdout
    for line, word in _wrong().items():
        assert word in messages[line], done.stdout


def test_python_does_not_import_through_the_links_that_type_checkers_follow():
    """A file under two paths would be two modules."""
    folders = [f for f in sys.path if Path(f, "coopbench", "baselines", "__init__.py").is_file()]
    assert folders, "Install the checkout again: make test."
    assert PathFinder.find_spec("coopbench", folders) is None
    for folder, module in (("coopbench", coopbench), ("coopbench_envs", coopbench_envs)):
        assert Path(module.__file__) == ROOT / folder / "__init__.py"


@pytest.mark.parametrize("package", [coopbench, coopbench_envs])
def test_type_checkers_know_exactly_the_lazy_names(package):
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    blocks = (n for n in tree.body if isinstance(n, ast.If))
    (block,) = (n for n in blocks if ast.unparse(n.test) == "TYPE_CHECKING")
    imports = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    if package is coopbench:
        assert imports == coopbench._PUBLIC
    # A star must not import what an extra has to install.
    assert set(imports) - {"sb3_vec_env"} <= set(package.__all__)


def test_editors_say_what_every_part_of_a_report_holds():
    for name, part in parts().items():
        text, row = inspect.getdoc(part), part.row
        assert f"\n\n{row.__name__}: " in text, name
        assert inspect.cleandoc(row.__doc__) in text, name
