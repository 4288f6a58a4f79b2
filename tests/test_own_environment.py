"""Environments from outside: a file, a package with an entry point; also in worker processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import coopbench_envs
from coopbench.protocol.loading import ad_hoc
from coopbench_envs import registration

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "examples" / "own-environment"
FILE = TEMPLATE / "src" / "volunteers" / "environment.py"


@pytest.fixture
def restored(monkeypatch):
    """Undo registrations and imports of a test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(registration, "_modules", dict(registration._modules))
    monkeypatch.setattr(registration, "_specs", dict(registration._specs))
    yield
    sys.modules.pop("environment", None)


@pytest.mark.usefixtures("restored")
def test_a_file_is_an_environment():
    for name in ("SPEC", "example/Volunteers-v0"):
        assert ad_hoc(f"{FILE}:{name}", episodes=3).task[0].env == "example/Volunteers-v0"
    assert registration.added()["example/Volunteers-v0"] == "environment"


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(
    ("env", "message"),
    [
        (f"{FILE}:SPECK", r"Unknown environment 'SPECK' in .*Did you mean 'SPEC'"),
        ("none.py:SPEC", r"There is no file none\.py"),
        ("no_such_module:me/Game-v0", "module 'no_such_module' of an environment cannot be"),
    ],
)
def test_what_is_no_environment_is_refused(env, message):
    with pytest.raises(ValueError, match=message):
        coopbench_envs.spec(env)


@pytest.mark.usefixtures("restored")
def test_a_file_named_like_another_module_is_refused(tmp_path):
    file = tmp_path / "random.py"
    file.write_text("SPEC = None")
    with pytest.raises(ValueError, match="its name is that of another module"):
        coopbench_envs.spec(f"{file}:SPEC")


@pytest.mark.usefixtures("restored")
def test_an_entry_point_with_a_wrong_name_is_not_registered(monkeypatch):
    class Point:
        name, value, module = "coopbench/Mine-v0", "mine:SPEC", "mine"

    monkeypatch.setattr(registration, "entry_points", lambda group: [Point])
    with pytest.warns(UserWarning, match="'coopbench/Mine-v0' of 'mine:SPEC' is not registered"):
        registration.register_all()
    assert "coopbench/Mine-v0" not in coopbench_envs.ids()


@pytest.mark.usefixtures("restored")
def test_an_entry_point_whose_module_has_no_such_environment_is_named(monkeypatch):
    class Point:
        name, value, module = "me/Mine-v0", "coopbench.errors:SPEC", "coopbench.errors"

    monkeypatch.setattr(registration, "entry_points", lambda group: [Point])
    registration.register_all()
    with pytest.raises(ValueError, match=r"coopbench\.errors defines no SPEC with the id 'me/Mine"):
        coopbench_envs.spec("me/Mine-v0")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder into which pip has installed the template."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    subprocess.run(["cp", "-r", str(TEMPLATE), str(source)], check=True)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder / "site")]
    subprocess.run([*command, str(source)], check=True, capture_output=True, text=True)
    return folder / "site"


def _run(site, *arguments):
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False
    )


def test_the_installed_template_passes_its_tests(installed):
    done = _run(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TEMPLATE / "tests"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_worker_processes_have_the_environment_of_a_file(tmp_path):
    options = ["--episodes", "2", "--backend", "processes", "--workers", "1"]
    env = ["--env", f"{FILE}:SPEC", "--out", str(tmp_path / "out")]
    done = _run(tmp_path, "-m", "coopbench", "evaluate", *env, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "out" / "volunteers-v0" / "random" / "meta.json").is_file()
