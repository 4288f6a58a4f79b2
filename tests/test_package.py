"""What a distributor and the visitors of an index get."""

import fnmatch
import importlib
import re
import runpy
import subprocess
import sys
import tomllib

import pytest
from builders import PATIENCE, run_python

import coopbench
import coopbench_envs
from studies.checks.folders import ROOT, contents

SETUP = runpy.run_path(str(ROOT / "setup.py"), run_name="setup")


def test_a_star_imports_what_environments_are_made_and_registered_with():
    names = {}
    exec("from coopbench_envs import *", names)
    del names["__builtins__"]
    made = {"Engine", "make_vec", "pymarl"}
    assert set(names) == made | {"ids", "register", "register_file", "spec"}


def test_public_names_are_completed():
    assert set(coopbench.__all__) <= set(dir(coopbench))


@pytest.mark.parametrize("package", [coopbench, coopbench_envs])
def test_public_names_exist_and_misspelt_ones_are_errors(package):
    assert all(getattr(package, name) is not None for name in package.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'evalaute'"):
        package.evalaute  # noqa: B018


@pytest.mark.parametrize("address", ["", "https://example.org/coopbench"])
def test_the_long_description_has_no_relative_link(address):
    text = SETUP["long_description"](address)
    targets = re.findall(r"\]\(([^)]*)\)", text)
    assert all(target.startswith(("https:", "#")) for target in targets)
    assert f"{address}/blob/main/docs/training.md" in text or not address
    assert "[Quickstart](" in text or not address
    assert set(SETUP["project_urls"](address)) in (
        {*()},
        {"Source", "Issues", "Documentation", "Changelog"},
    )


@pytest.mark.parametrize("package", ["coopbench", "coopbench_envs"])
def test_an_import_registers_the_environments(package):
    code = f"""import {package}, gymnasium, pettingzoo
gymnasium.spec("coopbench/TrustDilemma-v1")
pettingzoo.make("parallel", "coopbench/TrustDilemma-v1")"""
    run_python("-c", code)


def test_a_checkout_is_the_package_whatever_is_installed(tmp_path):
    script = tmp_path / "without_links.py"
    script.write_text(
        "import sys\n"
        "def kept(finders): return [one for one in finders if 'ditable' not in repr(one)]\n"
        "sys.meta_path[:], sys.path_hooks[:] = kept(sys.meta_path), kept(sys.path_hooks)\n"
        f"sys.path[:] = [{str(ROOT)!r}, *(p for p in sys.path if 'links' not in p)]\n"
        "import coopbench, coopbench.baselines\n"
        "print(coopbench.baselines.__file__)\n"
        "print('coopetition-standard' in coopbench.protocol_names(), len(coopbench.policies()))\n"
    )
    file, found = run_python(script).splitlines()
    assert file == str(ROOT / "baselines" / "__init__.py")
    assert found == f"True {len(coopbench.policies())}"


def test_citations_name_the_version_of_the_package():
    """It is written in ``coopbench/__init__.py``, where builds and commands read it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    for file, pattern in (
        ("CITATION.cff", r"^version: (\S+)$"),
        ("docs/citing.md", r"^  version = {(\S+)},$"),
    ):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert re.findall(pattern, text, re.MULTILINE) == [coopbench.__version__], file
    (newest, *_) = re.findall(r"^## (\S+) ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest == coopbench.__version__


def test_no_instruction_installs_a_name_that_is_on_no_index():
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("coopbench*/**/*.py")]
    wrong = [f for f in files if re.search(r"pip install [^\n]*\bcoopbench\b\[?", f.read_text())]
    assert wrong == []


def test_no_module_beside_the_script_shadows_the_standard_library():
    names = {path.stem for path in (ROOT / "baselines").iterdir() if path.suffix in ("", ".py")}
    assert names & sys.stdlib_module_names == set()
    assert "hyperparameter" in run_python(ROOT / "baselines" / "train_learner.py", "--help")


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    """Return the folder in which setuptools describes the distribution, without building it."""
    folder = tmp_path_factory.mktemp("described")
    run_python("-W", "ignore", "setup.py", "--quiet", "egg_info", "--egg-base", folder, cwd=ROOT)
    return folder / "coopbench.egg-info"


def test_the_source_distribution_holds_the_packages_and_what_installs_them(described):
    """Results, documentation and tests are in the checkout alone; nothing that a build leaves."""
    listed = (described / "SOURCES.txt").read_text(encoding="utf-8").splitlines()
    files = {name for name in listed if not name.startswith(str(described))}
    packages = {str(file.relative_to(ROOT)) for file in contents().values()}
    assert files - packages == {
        *("CHANGELOG.md", "CITATION.cff", "LICENSE", "MANIFEST.in", "NOTICE", "README.md"),
        *("constraints.txt", "pyproject.toml", "setup.py"),
    }
    assert packages <= files


def test_notices_of_included_data_are_installed(described):
    """Whoever has a wheel alone sees from whom its data are; the page has the same projects."""
    facts = (described / "PKG-INFO").read_text(encoding="utf-8")
    assert re.findall(r"^License-File: (.+)$", facts, re.MULTILINE) == ["LICENSE", "NOTICE"]
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "data-licenses.md").read_text(encoding="utf-8")
    holders = re.findall(r"© ([^;)|]+)", page)
    assert len(holders) >= 4
    assert [holder for holder in holders if f"Copyright (c) {holder}." not in notice] == []
    places = re.findall(r"coopbench(?:_envs)?/[\w/*]+(?:\.\w+)?", notice)
    assert len(places) >= 9
    for place in places:
        assert any(fnmatch.fnmatch(name, f"{place}*") for name in contents()), place


_WITHOUT = "import sys; sys.modules.update(dict.fromkeys({!r})); import gymnasium, coopbench_envs\n"
_WINDOW = """
env = gymnasium.make("coopbench/TrustDilemma-v1", render_mode="human", horizon=3)
env.reset(seed=0)
"""
_ROWS = "from coopbench_envs import sb3_vec_env"


@pytest.mark.parametrize(
    ("lacking", "code", "advice"),
    [
        ("pygame", _WINDOW, "pygame is not installed, run `pip install"),
        ("stable_baselines3", _ROWS, "the extra 'train' of coopbench: pip install"),
        ("stable_baselines3", "from coopbench_envs import *", ""),
    ],
)
def test_what_an_extra_installs_is_named_where_it_is_missing(lacking, code, advice, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _WITHOUT.format([lacking]) + code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=PATIENCE,
    )
    assert (done.returncode != 0) == bool(advice), done.stderr
    assert advice.lower() in done.stderr.splitlines()[-1].lower() if advice else not done.stderr


def test_an_import_says_which_systems_are_supported(monkeypatch):
    monkeypatch.delattr("os.getuid")
    with pytest.raises(ImportError, match="runs on Linux and macOS, and on Windows inside WSL"):
        importlib.reload(coopbench_envs)
