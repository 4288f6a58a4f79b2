"""The house itself: imports point down, drivers know their sources, generated docs are fresh."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# From the bottom up; a layer may import itself and those before it.
LAYERS = (
    ("coopbench_envs", "coopbench_envs"),
    ("coopbench.baselines", "baselines"),
    ("coopbench", "coopbench"),
)
HEAVY = ("numba", "torch", "stable_baselines3", "scipy.stats", "matplotlib", "pandas", "ray")


def _imports(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            yield node.module


def _layer(module):
    matches = [
        k for k, (name, _) in enumerate(LAYERS) if module == name or module.startswith(name + ".")
    ]
    return min(matches) if matches else None


@pytest.mark.parametrize(("package", "folder"), LAYERS)
def test_imports_point_down(package, folder):
    own = _layer(package)
    files = list((ROOT / folder).rglob("*.py"))
    assert files
    for file in files:
        for module in _imports(file):
            layer = _layer(module)
            if layer is not None:
                assert layer <= own, f"{file.relative_to(ROOT)} imports {module}"


@pytest.mark.parametrize("module", ["coopbench_envs", "coopbench", "coopbench.cli.main"])
def test_importing_is_light(module):
    """Nothing heavy is loaded before it is used."""
    code = f"import sys, {module}; print([m for m in {HEAVY!r} if m in sys.modules])"
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
