"""The structure of the packages: rooms, imports, the wheel; and what is derived from it."""

import subprocess
import sys
from pathlib import Path

import pytest
import structure
from folders import ROOT, contents

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


def test_driver_names_follow_every_source(tmp_path):
    """An edit of any module that a kernel inlines gives the driver a new name, hence new code."""
    package = tmp_path / "othersuite"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text("GAIN = 2.0\n")
    (package / "game.py").write_text("from othersuite.helper import GAIN\n")
    (package / "planner.py").write_text(
        "from coopbench_envs.compiling import compiled\n"
        "from othersuite.helper import GAIN\n"
        "@compiled\ndef fill(out):\n    for k in range(len(out)):\n        out[k] = GAIN\n"
    )
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r});"
        "import numpy, othersuite.game; from coopbench_envs.compiling import _source_hash;"
        "from othersuite.planner import fill; out = numpy.zeros(1); fill(out);"
        "print(_source_hash({'othersuite.game'}, []), fill.__name__, *out)"
    )

    def names():
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()

    first = names()
    assert names() == first
    assert first[2] == "2.0"
    (package / "helper.py").write_text("GAIN = 3.0\n")
    second = names()
    assert second[2] == "3.0"
    assert set(second).isdisjoint(first)


def test_sources_are_found_in_packages_that_lie_elsewhere():
    import coopbench.baselines
    from coopbench_envs.compiling import _file

    folder = Path(coopbench.baselines.__file__).parent
    assert _file("coopbench.baselines") == folder / "__init__.py"
    assert (
        _file("coopbench.baselines.strategies.open_loop") == folder / "strategies" / "open_loop.py"
    )
    assert _file("coopbench_envs.core.drivers") is None


def test_generated_documentation_is_fresh():
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_environment_has_a_page_in_the_navigation():
    import coopbench_envs

    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for env_id in coopbench_envs.ids():
        if env_id.startswith("coopbench/"):
            stem = coopbench_envs.spec(env_id).module.rsplit(".", 1)[1]
            assert (ROOT / "docs" / "environments" / f"{stem}.md").is_file()
            assert f"environments/{stem}.md" in navigation
