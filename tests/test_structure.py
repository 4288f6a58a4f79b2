"""The structure of the packages: rooms, imports, the wheel; and what is derived from it."""

import subprocess
import sys

import pytest

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
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _WHEEL],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    packed = {line.removeprefix("lib/") for line in done.stdout.splitlines() if "lib/" in line}
    assert packed == set(contents())


def test_importing_loads_no_heavy_library():
    """Nothing heavy is loaded before it is used."""
    code = "import sys, coopbench_envs, coopbench.cli.main"
    code += f"; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_generated_documentation_is_fresh():
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
