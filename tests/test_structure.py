"""The structure of the packages: rooms, imports, the wheel; and what is derived from it."""

import ast
from pathlib import Path

import pytest
from builders import run_python

from studies.checks import structure
from studies.checks.folders import ROOT, contents

HEAVY = ("numba", "torch", "stable_baselines3", "scipy.stats", "matplotlib", "pandas", "ray")
_WHEEL = """
import setuptools
from distutils.core import run_setup
build = run_setup("setup.py", ["build_py"], stop_after="commandline").get_command_obj("build_py")
build.build_lib = "lib"
build.ensure_finalized()
print("\\n".join(build.get_outputs(include_bytecode=False)))
"""


@pytest.mark.parametrize("check", structure.CHECKS, ids=lambda check: check.__name__)
def test_structure_has_no_violations(check):
    violations = check()
    assert not violations, "\n".join(violations)


def test_wheel_holds_every_file_of_the_packages_and_nothing_else():
    """A folder without an __init__.py, or a file with a new ending, would be missing."""
    printed = run_python("-W", "ignore", "-c", _WHEEL, cwd=ROOT)
    packed = {line.removeprefix("lib/") for line in printed.splitlines() if "lib/" in line}
    assert packed == set(contents())


def test_importing_loads_no_heavy_library():
    """Nothing heavy is loaded before it is used."""
    code = "import sys, coopbench_envs, coopbench.cli.main"
    code += f"; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert run_python("-c", code).strip() == "[]"


def test_generated_documentation_is_fresh():
    run_python(ROOT / "docs" / "generate.py", "--check")


_WAITS = {"run", "check_call", "check_output", "communicate", "wait", "join", "waitpid"}


def endless(source):
    """Return the lines with a call that may wait for another process or thread for ever."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        name, of = call.func.attr, ast.unparse(call.func.value)
        if name not in _WAITS or (name == "run" and of != "subprocess"):
            continue
        if name == "waitpid":
            ends = "WNOHANG" in ast.unparse(call.args[1])
        else:
            short = name in ("wait", "join") and call.args
            ends = short or any(word.arg == "timeout" for word in call.keywords)
        if not ends:
            yield call.lineno


def test_no_test_waits_for_ever():
    here = Path(__file__).parent
    files = [*here.glob("**/*.py"), *(ROOT / "examples").glob("*/tests/*.py")]
    found = [f"{f.name}:{n}" for f in files for n in endless(f.read_text(encoding="utf-8"))]
    assert not found
    for text in ("subprocess.run(x)", "os.waitpid(1, 0)", "child.wait()", "worker.join()"):
        assert list(endless(text)) == [1]
    for text in ("subprocess.run(x, timeout=1)", "worker.join(9)", "', '.join(x)", "bars.run(x)"):
        assert not list(endless(text))
