"""Studies: none of them names what has moved. What they compute is tested by subject."""

import importlib

import pytest
from builders import run_python

from studies.checks.folders import ROOT

# Those that run in the interpreter of flatland-rl are not imported here.
ELSEWHERE = tuple(
    f"studies.rail.{name}" for name in ("export_flatland", "flatland_maps", "flatland_play")
)
FILES = sorted((ROOT / "studies").rglob("*.py"))
STUDIES = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in FILES]


@pytest.mark.parametrize("name", [name for name in STUDIES if name not in ELSEWHERE])
def test_a_study_can_be_imported(name):
    importlib.import_module(name)


@pytest.mark.parametrize("name", ["studies.certificates", "studies.validity", "studies.series"])
def test_a_study_is_run_from_a_checkout(name):
    assert run_python("-m", name, "--help", cwd=ROOT).startswith("usage:")
