"""Environments from outside: a file or a module, an entry point; also in worker processes."""

import copy
import hashlib
import importlib
import json
import os
import pickle
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import builders
import pytest
import toy_pennies

import coopbench_envs
from coopbench.protocol.loading import ad_hoc
from coopbench.workflows.training_plan import Scope, runs
from coopbench.workflows.training_run import settings_and_facts
from coopbench_envs import registration

TEMPLATE = Path(__file__).resolve().parent.parent / "examples" / "own-environment"
FILE = TEMPLATE / "src" / "volunteers" / "environment.py"
# A test registers the environment again, which other processes do for the first time.
AGAIN = "test/Again-v0"
pytestmark = pytest.mark.filterwarnings("ignore:.*Overriding environment")


@pytest.fixture
def restored(monkeypatch):
    """Undo registrations and imports of a test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(registration, "_modules", dict(registration._modules))
    monkeypatch.setattr(registration, "_specs", dict(registration._specs))
    yield
    sys.modules.pop("environment", None)


def forget():
    """Make this process one that has not seen the environment."""
    for table in (registration._modules, registration._specs):
        table.pop("example/Volunteers-v0", None)
    sys.modules.pop("environment", None)
    sys.path[:] = [folder for folder in sys.path if folder != str(FILE.parent)]


def test_a_module_beside_an_environment_hides_none_of_python(file):
    (file.parent / "colorsys.py").write_text("raise SystemExit('hidden')\n")
    sys.modules.pop("colorsys", None)
    file.write_text("import colorsys\n" + file.read_text(encoding="utf-8"), encoding="utf-8")
    assert coopbench_envs.spec(f"{file}:SPEC").id == "example/Volunteers-v0"
    assert sys.path[-1] == str(file.parent)


@pytest.fixture
def file(restored, tmp_path):
    """A copy of the environment's file; this process knows nothing of it."""
    forget()
    return Path(shutil.copyfile(FILE, tmp_path / FILE.name))


@pytest.fixture
def results(file, command):
    """Results of the environment in the folder ``out``, which this process has forgotten."""
    command("evaluate", "environment.py:SPEC", "--episodes", 2, "--out", "out")
    forget()
    return file.parent / "out"


@pytest.mark.usefixtures("restored")
def test_a_file_is_an_environment(tmp_path):
    for name in ("SPEC", "example/Volunteers-v0"):
        assert ad_hoc(f"{FILE}:{name}", episodes=3).task[0].env == "example/Volunteers-v0"
    assert registration.added()["example/Volunteers-v0"] == "environment"
    file = tmp_path / "random.py"
    file.write_text("SPEC = None")
    with pytest.raises(ValueError, match="its name is that of another module"):
        coopbench_envs.spec(f"{file}:SPEC")


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(
    ("env", "message"),
    [
        (f"{FILE}:SPECK", r"Unknown environment 'SPECK' in .*Did you mean 'SPEC'"),
        ("none.py:SPEC", r"There is no file none\.py"),
        (f"{FILE}:Volunteers", r"is named gymnasium:FILE\.py:NAME"),
        ("no_such_module:me/Game-v0", "module 'no_such_module' of an environment cannot be"),
        ("me/Game-v0", r"'me/Game-v0' is not registered here\. Name the file"),
    ],
)
def test_what_is_no_environment_is_refused(env, message):
    with pytest.raises(ValueError, match=message):
        coopbench_envs.spec(env)


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("coopbench/Volunteers-v0", "is in the namespace of this package.*allowed: NAMESPACE/Name"),
        ("Volunteers-v0", "cannot have the id 'Volunteers-v0'; allowed: NAMESPACE/Name-v0"),
        ("me/Volunteers", "cannot have the id 'me/Volunteers'; allowed: NAMESPACE/Name-v0"),
    ],
)
def test_ids_that_no_other_package_may_have_are_refused(env_id, message):
    spec = coopbench_envs.register_file(FILE, "SPEC")
    with pytest.raises(ValueError, match=message):
        coopbench_envs.register(replace(spec, id=env_id))
    assert env_id not in coopbench_envs.ids()


COMMANDS = [
    ("verify", "out"),
    ("report", "out"),
    ("merge", "out", "--out", "merged"),
    ("export", "out", "--to", "scores.json"),
    ("replay", "out/volunteers-v0/random/0"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_commands_on_results_take_the_file_of_an_environment(results, command, words):
    failed = command(*words, status=1 if words[0] == "verify" else 2)
    printed = " ".join((failed.out + failed.err).split())
    assert (
        "'example/Volunteers-v0' is not registered here. Name the file that defines it" in printed
    )
    if words[0] == "verify":
        assert "NOT VERIFIED: 1 of 1 parts" in printed
        assert "not verifiable:" in printed
        assert "emove it" not in printed
    option = "--execute" if words[0] == "verify" else "--register"
    command(*words, option, "environment.py:SPEC")


def test_results_hold_the_digest_of_the_file(results, file, command):
    meta = json.loads((results / "volunteers-v0" / "random" / "meta.json").read_text())
    code = {"environment.py": hashlib.sha256(file.read_bytes()).hexdigest()}
    assert meta["environment"]["code"] == code
    kept = command("evaluate", "environment.py:SPEC", "--episodes", 2, "--out", "out")
    assert "redone" not in kept.out
    assert f"(environment.py {code['environment.py'][:12]})" in kept.out


def test_a_changed_file_plays_anew_and_verifies_nothing(results, file, command):
    file.write_text(file.read_text().replace("p.cost if", "2 * p.cost if"))
    verified = command("verify", "out", "--execute", "environment.py:SPEC", status=1)
    assert "volunteers-v0/random not verifiable" in " ".join(verified.out.split())
    again = command("evaluate", "environment.py:SPEC", "--episodes", 2, "--out", "out")
    assert "redone: volunteers-v0/random was played with other code of example/Volu" in again.out
    file.write_text(file.read_text() + "# changed\n")
    with pytest.raises(ValueError, match="has changed since this process has imported it"):
        coopbench_envs.spec(f"{file}:SPEC")


def test_a_changed_module_beside_the_file_plays_anew(file, command):
    beside = file.parent / "helper_of_volunteers.py"
    beside.write_text("COST = 1\n")
    file.write_text("from helper_of_volunteers import COST\n" + file.read_text(encoding="utf-8"))
    words = ("evaluate", "environment.py:SPEC", "--episodes", 2, "--out", "out")
    command(*words)
    meta = json.loads((file.parent / "out/volunteers-v0/random/meta.json").read_text())
    assert meta["environment"]["code"].keys() == {file.name, beside.name}
    assert "redone" not in command(*words).out
    beside.write_text("COST = 20\n")
    refused = command(*words, status=2).message
    assert "since this process has imported it: helper_of_volunteers.py. Start Python" in refused
    forget()
    sys.modules.pop("helper_of_volunteers")
    assert "redone: volunteers-v0/random was played with other code" in command(*words).out
    sys.modules.pop("helper_of_volunteers")


@pytest.mark.usefixtures("restored")
def test_a_protocol_names_a_file(file, tmp_path):
    task = builders.make_task(env=f"{file}:SPEC", parameters={})
    training = builders.make_training(steps=4000, interval=2000)
    protocol = builders.small_protocol(tmp_path, tasks=[task], training=training, curve="help_rate")
    assert protocol.task[0].env == "example/Volunteers-v0"
    job = runs(protocol, "iql", tmp_path / "runs", Scope(), {})[0]
    code = {"environment.py": hashlib.sha256(file.read_bytes()).hexdigest()}
    assert settings_and_facts({}, job.facts)["(code)"] == code


def test_a_file_does_not_take_the_modules_of_another(file, monkeypatch):
    """The code of the first would play under the name of the second, with its digest."""
    import_helper = "from helper_of_volunteers import SHARE\n"
    file.write_text(import_helper + file.read_text(encoding="utf-8"), encoding="utf-8")
    for folder in (file.parent, file.parent / "other"):
        folder.mkdir(exist_ok=True)
        (folder / "helper_of_volunteers.py").write_text("SHARE = 1\n")
    monkeypatch.syspath_prepend(str(file.parent / "other"))
    message = r"imports 'helper_of_volunteers' from its folder.*there already: .*other.*Rename"
    with pytest.raises(ValueError, match=message):
        coopbench_envs.spec(f"{file}:SPEC")
    monkeypatch.setattr(sys, "path", [str(file.parent), *sys.path])
    assert coopbench_envs.spec(f"{file}:SPEC").id == "example/Volunteers-v0"
    sys.modules.pop("helper_of_volunteers")


def test_ids_are_sorted():
    ids = coopbench_envs.ids()
    assert list(ids) == sorted(ids)


@pytest.mark.usefixtures("restored")
def test_a_second_registration_replaces_the_first():
    first = replace(toy_pennies.SPEC, id=AGAIN)
    for each in (first, replace(first, agents=lambda p: ("left", "right"))):
        registration.register(each)
        assert coopbench_envs.spec(AGAIN) is each


@pytest.fixture
def two_games(restored, tmp_path, monkeypatch):
    """Names of two modules with different games of one id; only the first has been imported."""
    text = Path(toy_pennies.__file__).read_text(encoding="utf-8")
    text = text.replace("test/Pennies-v0", AGAIN).replace("SPEC_", "OTHER_")
    text += "\nimport coopbench_envs\ncoopbench_envs.register(SPEC)\n"
    (tmp_path / "early_game.py").write_text(text, encoding="utf-8")
    (tmp_path / "late_game.py").write_text(text.replace("0.25 *", "0.5 *"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("early_game")
    yield "early_game", "late_game"
    for name in ("early_game", "late_game"):
        sys.modules.pop(name, None)


def test_other_processes_play_the_game_that_was_registered_last(two_games):
    early, late = two_games
    assert registration.added()[AGAIN] == early
    importlib.import_module(late)
    assert registration.added()[AGAIN] == coopbench_envs.spec(AGAIN).module == late
    registration.restore({AGAIN: early})  # in a worker that has imported the other one
    assert coopbench_envs.spec(AGAIN).module == early


def test_copies_keep_the_game_that_was_registered_before(two_games):
    engine = coopbench_envs.Engine(AGAIN)
    content = pickle.dumps(engine)
    assert pickle.loads(content).spec is engine.spec
    importlib.import_module(two_games[1])
    assert copy.deepcopy(engine).spec is engine.spec is not coopbench_envs.spec(AGAIN)
    with pytest.raises(ValueError, match=f"Another environment has been registered as {AGAIN}"):
        pickle.dumps(engine)
    with pytest.raises(ValueError, match=f"Another environment has been registered as {AGAIN}"):
        pickle.loads(content)


@pytest.mark.usefixtures("restored")
def test_an_evaluation_needs_a_metric():
    registration.register(replace(toy_pennies.SPEC, id="test/Bare-v0", metrics={}))
    with pytest.raises(ValueError, match="test/Bare-v0 has no metrics, and a report draws"):
        ad_hoc("test/Bare-v0")


@pytest.mark.usefixtures("restored")
def test_entry_points_with_a_wrong_name_or_value(monkeypatch):
    def points(name, value):
        point = SimpleNamespace(name=name, value=value, module=value.partition(":")[0])
        monkeypatch.setattr(registration, "entry_points", lambda group: [point])

    points("coopbench/Mine-v0", "mine:SPEC")
    with pytest.warns(UserWarning, match="'coopbench/Mine-v0' of 'mine:SPEC' is not registered"):
        registration.register_all()
    assert "coopbench/Mine-v0" not in coopbench_envs.ids()
    points("me/Mine-v0", "coopbench.errors:SPEC")
    registration.register_all()
    with pytest.raises(ValueError, match=r"coopbench\.errors defines no SPEC with the id 'me/Mine"):
        coopbench_envs.spec("me/Mine-v0")


@pytest.mark.slow("starts a command and a worker process, which import everything and compile")
def test_worker_processes_have_the_environment_of_a_file(tmp_path):
    options = ["--episodes", 2, "--backend", "processes", "--workers", 1]
    env = [f"{FILE}:SPEC", "--out", tmp_path / "out"]
    builders.run_python("-m", "coopbench", "evaluate", *env, *options, cwd=tmp_path)
    assert (tmp_path / "out" / "volunteers-v0" / "random" / "meta.json").is_file()


@pytest.mark.slow("starts a process that compiles the game of an example")
def test_the_foraging_package_passes_its_own_tests():
    folder = TEMPLATE.with_name("foraging")
    path = os.pathsep.join([str(folder / "src"), os.environ.get("PYTHONPATH", "")])
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    builders.run_python(*words, cwd=folder, PYTHONPATH=path)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "\nSPEC = EnvSpec(id='example/Ring-v0')",
            "unfinished.py, line 3, .* TypeError: .*'kernels'",
        ),
        ("import nothing_there", "unfinished.py, line 2, .* No module named 'nothing_there'"),
        ("SPEC = 1", "SPEC in .*unfinished.py was 1; allowed: an EnvSpec"),
    ],
)
def test_an_unfinished_file_is_named(code, words, tmp_path, restored):
    sys.modules.pop("unfinished", None)
    (tmp_path / "unfinished.py").write_text(f"from coopbench_envs.core import EnvSpec\n{code}\n")
    with pytest.raises(ValueError, match=words):
        coopbench_envs.register_file(tmp_path / "unfinished.py", "SPEC")
