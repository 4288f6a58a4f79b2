"""Policies from code of one's own: played by every command, stored as text, executed on trust."""

import pickle
import shutil
import sys

import builders
import numpy as np
import pytest

import coopbench
from coopbench.baselines.own_code import LARGEST_SOURCE, is_code, load_code, stored_code
from coopbench.baselines.registry import from_code
from coopbench.cli.main import app
from coopbench.errors import DamagedResultError
from coopbench.protocol.loading import load_protocol
from coopbench.results import store
from coopbench.results.manifest import write_manifest
from coopbench.workflows.replay import find_episode
from coopbench.workflows.verdicts import IDENTICAL, REPLAYED, RERUN
from coopbench.workflows.verification import verify

SOURCE = """
from pathlib import Path
import numpy as np

with Path(__file__).with_name("executed").open("a") as file:
    file.write("once\\n")

SHARE = 0.25

def quarter(observations):
    return np.full((*observations.shape[:2], 1), SHARE)

class Half:
    hyperparameters = {"share": 0.5}

    def act(self, observations):
        return np.full((*observations.shape[:2], 1), 0.5)

class Needy:
    def __init__(self, share): ...
    def act(self, observations): ...
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "pol.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def results(file, tmp_path):
    """A results folder of a policy from a file, and its protocol."""
    protocol = load_protocol(builders.protocol_file(tmp_path, tasks=[builders.make_task()]))
    folder = tmp_path / "results"
    coopbench.evaluate(protocol, ["random", f"{file}:quarter"], folder)
    return folder, protocol


def executions(folder):
    marks = folder / "executed"
    return len(marks.read_text().splitlines()) if marks.exists() else 0


def test_the_form_of_code():
    code = ("./pol.py:fair", "package.module:NAME", "C:/pol.py:NAME.attribute")
    others = ("constant:0.35", "random", "pol.py:")
    assert all(map(is_code, code))
    assert not any(map(is_code, others))
    assert from_code("rule:anything") == "rule:anything"  # a policy comes before a module


def test_a_copy_is_made_from_the_same_source(file):
    policy = load_code(f"{file}:quarter")
    file.write_text(SOURCE.replace("0.25", "0.75"))
    copy = pickle.loads(pickle.dumps(policy))
    assert copy.digest == policy.digest
    np.testing.assert_array_equal(copy.act(np.zeros((2, 2, 3))), 0.25)


def test_a_module_is_imported(file, monkeypatch):
    monkeypatch.syspath_prepend(str(file.parent))
    policy = load_code("pol:quarter")
    sys.modules.pop("pol")
    assert (policy.name, policy.source) == ("pol:quarter", SOURCE.encode())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pol.py:quartre", r"Unknown name 'quartre' in pol\.py\. Did you mean 'quarter'"),
        ("pol.py:SHARE", "of type float; allowed: a function"),
        ("pol.py:Needy", "class that cannot be made without arguments"),
        ("none.py:quarter", "there is no file"),
        ("pol.py", r"is a file; name the policy in it as .*pol\.py:NAME"),
        ("bad.py:quarter", "bad.py, line 3, cannot be executed: ZeroDivisionError"),
        ("long.py:quarter", "long.py has more than 1,048,576 bytes"),
    ],
)
def test_what_cannot_be_a_policy_is_refused(file, name, message):
    file.with_name("bad.py").write_text("# Line 3 fails.\n\n1 / 0")
    file.with_name("long.py").write_text(SOURCE + "#" * LARGEST_SOURCE)
    with pytest.raises(ValueError, match=message):
        from_code(str(file.with_name(name)))


def test_a_stored_module_is_executed_as_text_and_nothing_is_imported_by_its_name(file, monkeypatch):
    """Neither a package of that name beside us, nor the module itself, is imported."""
    package = file.parent / "pkg"
    package.mkdir()
    for name in ("__init__.py", "mod.py"):
        (package / name).write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(file.parent))
    monkeypatch.chdir(file.parent)
    policy = stored_code("pkg.mod", "quarter", SOURCE.encode())
    assert policy.name == "pkg.mod:quarter"
    assert not {"pkg", "pkg.mod"} & set(sys.modules)
    assert pickle.loads(pickle.dumps(policy)).digest == policy.digest
    assert not {"pkg", "pkg.mod"} & set(sys.modules)


def test_an_unknown_policy_is_refused_with_the_nearest_name():
    with pytest.raises(ValueError, match=r"Unknown policy 'ipo'\. Did you mean 'ippo'.*As code"):
        from_code("ipo:run")


def test_results_hold_the_source_whose_episodes_are_shown_without_it(file, results, tmp_path):
    folder, _ = results
    cell = folder / "dilemma" / "pol.py@quarter"
    assert builders.edit_meta(cell)["code"] == load_code(f"{file}:quarter").code
    assert (cell / "source.txt").read_text() == SOURCE
    assert "code" not in builders.edit_meta(folder / "dilemma" / "random")
    played = find_episode(f"{tmp_path / 'small.toml'}/dilemma/{file}:quarter/0")
    before = executions(file.parent)
    stored = find_episode(f"{folder}/dilemma/pol.py@quarter/0")
    assert (played.team_return, len(played)) == (stored.team_return, len(stored))
    assert executions(file.parent) == before


def test_verify_executes_code_only_if_its_digest_is_trusted(file, results):
    folder, _ = results
    before, digest = executions(file.parent), load_code(f"{file}:quarter").digest
    file.unlink()
    (file.parent / "executed").unlink()
    checks = {check.what: check for check in verify(folder).checks}
    assert checks["dilemma/pol.py@quarter"].how == REPLAYED
    assert executions(file.parent) == 0 < before
    assert checks["dilemma/pol.py@quarter"].code == digest


def test_trusted_code_plays_all_episodes_again(tmp_path):
    plain = "import numpy as np\ndef quarter(o):\n    return np.full((*o.shape[:2], 1), 0.25)\n"
    (tmp_path / "pol.py").write_text(plain)
    protocol = load_protocol(builders.protocol_file(tmp_path, tasks=[builders.make_task()]))
    folder, name = tmp_path / "results", f"{tmp_path / 'pol.py'}:quarter"
    coopbench.evaluate(protocol, [name], folder, only=True)
    digest = load_code(name).digest
    (check,) = verify(folder, trust=[digest[:12]]).cells
    assert (check.how, check.verdict, check.played) == (RERUN, IDENTICAL, check.episodes)
    for wrong in (digest[:11], "0" * 12):
        with pytest.raises(ValueError, match="No code in these results has the digest"):
            verify(folder, trust=[wrong])


def test_changed_source_and_another_name_are_damage(results):
    folder, protocol = results
    place = folder / "dilemma" / "pol.py@quarter"
    cell = store.cell_of(place / "meta.json")
    code = builders.edit_meta(place)["code"]
    builders.edit_meta(place, code=code | {"attribute": "other"})
    with pytest.raises(DamagedResultError, match="'code' is of another policy"):
        store.read(folder, protocol, cell)
    builders.edit_meta(place, code=code)
    (place / "source.txt").write_text("print('hello')")
    with pytest.raises(DamagedResultError, match="checksum"):
        store.read(folder, protocol, cell)


@pytest.mark.parametrize(("added", "other_name"), [("# of task two\n", "quarter"), ("", "same")])
def test_one_name_has_one_source(tmp_path, added, other_name):
    """Otherwise a policy could be another one on each task, with each digest to be trusted."""
    plain = "import numpy as np\ndef quarter(o):\n    return np.full((*o.shape[:2], 1), 0.25)\n"
    plain += "same = quarter\n"
    file, folder = tmp_path / "pol.py", tmp_path / "results"
    tasks = [builders.make_task("one"), builders.make_task("two", horizon=7)]
    protocol = load_protocol(builders.protocol_file(tmp_path, tasks=tasks))
    file.write_text(plain)
    coopbench.evaluate(protocol, {"mine": f"{file}:quarter"}, folder)
    assert verify(folder).identical
    other = tmp_path / "other"
    file.write_text(plain + added)
    coopbench.evaluate(protocol, {"mine": f"{file}:{other_name}"}, other)
    shutil.rmtree(folder / "two")
    shutil.copytree(other / "two", folder / "two")
    write_manifest(folder, protocol)
    checks = {check.what: check for check in verify(folder).cells}
    assert [what for what, check in checks.items() if not check.holds] == ["two/mine"]
    assert "another source than in one/mine" in checks["two/mine"].reasons[0]


@pytest.fixture
def edited(tmp_path):
    """Two tasks, a file with a policy, and a function that makes it play another constant."""
    tasks = [builders.make_task("one"), builders.make_task("two", horizon=7)]
    protocol = load_protocol(builders.protocol_file(tmp_path, tasks=tasks))
    file = tmp_path / "pol.py"

    def write(share):
        lines = (
            "import numpy as np",
            "def act(o):",
            f"    return np.full((*o.shape[:2], 1), {share})",
        )
        file.write_text("\n".join(lines))
        return f"{file}:act"

    return protocol, write


def tasks_of(report, policy="pol.py:act"):
    return {block.cell.task for block in report.episodes if block.cell.policy == policy}


def test_results_of_edited_code_and_of_earlier_code_are_not_mixed(edited, tmp_path):
    protocol, write = edited
    folder = tmp_path / "results"
    coopbench.evaluate(protocol, [write(0.1)], folder)
    again = coopbench.evaluate(protocol, [write(0.1)], folder, tasks=["one"])
    assert tasks_of(again) == {"one", "two"}
    assert "Earlier results of pol.py:act in the folder are included." in again.notes
    report = coopbench.evaluate(protocol, [write(0.9)], folder, tasks=["one"])
    assert tasks_of(report) == {"one"}
    assert "replaced: results of pol.py:act on one, which other code had played." in report.notes
    (left,) = [note for note in report.notes if note.startswith("left out: ")]
    assert "results of pol.py:act on two, where other code" in left
    assert any("pol.py:act lacks the tasks two" in reason for reason in report.deviations)
    later = coopbench.evaluate(protocol, ["cooperator"], folder)
    for mixed in (later, coopbench.load_report(folder)):
        assert tasks_of(mixed) == set()
        assert tasks_of(mixed, "random") == {"one", "two"}
        (left,) = [note for note in mixed.notes if note.startswith("left out: ")]
        assert "all results of pol.py:act" in left
        assert "played on one and others on two; play it on all tasks again" in left
    assert coopbench.load_report(folder).results == ""
    whole = coopbench.evaluate(protocol, [write(0.9)], folder)
    assert whole.notes == (
        "replaced: results of pol.py:act on two, which other code had played.",
        "Earlier results of cooperator in the folder are included.",
    )
    assert coopbench.verify(folder).holds


def test_folders_with_other_code_of_a_name_are_not_merged(edited, tmp_path):
    protocol, write = edited
    for task, share in (("one", 0.1), ("two", 0.9)):
        write(share)
        coopbench.evaluate(
            protocol, [write(share)], tmp_path / task, only=True, shard=(1 + (task == "one"), 2)
        )
    folders = [tmp_path / "one", tmp_path / "two"]
    with pytest.raises(ValueError, match=r"one/pol.*two/pol.* different code .*'pol.py:act'"):
        coopbench.merge(folders, tmp_path / "both")
    assert not (tmp_path / "both").exists()


def test_results_of_an_earlier_call_with_an_object_are_named(edited, tmp_path):
    protocol, _ = edited
    for share, tasks in ((0.1, None), (0.9, ["one"])):

        def mine(observations, share=share):
            return np.full((*observations.shape[:2], 1), share)

        report = coopbench.evaluate(protocol, {"mine": mine}, tmp_path / "results", tasks=tasks)
    assert any(
        note.startswith("Results of mine on two are from an earlier call.") for note in report.notes
    )
    assert "Earlier results of random in the folder are included." in report.notes
    assert not any("Earlier results of mine" in note for note in report.notes)


def test_commands_take_code(file, tmp_path, capsys):
    protocol = builders.protocol_file(tmp_path, tasks=[builders.make_task()])
    words = ["evaluate", str(protocol), "-p", f"{file}:Half", "--dry-run"]
    assert "pol.py:Half" in app(words, standalone_mode=False)
    app(["show", f"{file}:quarter"], standalone_mode=False)
    assert load_code(f"{file}:quarter").digest in capsys.readouterr().out
    out = tmp_path / "crossplay"
    names = ["-p", f"{file}:Half", "-p", "random"]
    app(["crossplay", str(protocol), *names, "--out", str(out)], standalone_mode=False)
    assert "pol.py:Half" in (out / "crossplay.md").read_text()
