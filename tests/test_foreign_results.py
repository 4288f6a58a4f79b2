"""Environments of other packages: named, permitted, reported and verified like ours."""

import sys
from pathlib import Path

import builders
import gymnasium as gym
import numpy as np
import pytest
import toy_foreign
from builders import GUESSES, LAMPS, block_of, foreign_engine, lit
from results_folder import edit_row

import coopbench
from coopbench.errors import ProtocolError, ReplayError
from coopbench.playing import rollout
from coopbench.protocol.loading import ad_hoc
from coopbench.results import store
from coopbench.workflows.verdicts import DIFFERENT, IDENTICAL, REPLAYED, RERUN, UNVERIFIABLE
from coopbench_envs.engine import Engine
from coopbench_envs.foreign_names import (
    Keywords,
    check_permitted,
    is_foreign,
    parse_foreign,
    permit,
)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("gymnasium:CartPole-v1", ("gymnasium", "CartPole-v1", "")),
        ("gymnasium:ALE/Pong-v5", ("gymnasium", "ALE/Pong-v5", "")),
        ("gymnasium:package:Game-v0", ("gymnasium", "package:Game-v0", "")),
        ("gymnasium:a dir/game.py:make", ("gymnasium", "a dir/game.py", "make")),
        ("pettingzoo:mpe2.simple_v3", ("pettingzoo", "mpe2.simple_v3", "")),
        ("pettingzoo:package.game:Game", ("pettingzoo", "package.game", "Game")),
        ("pettingzoo:game.py", ("pettingzoo", "game.py", "")),
        ("python:make", ("python", "make", "")),
    ],
)
def test_names_say_what_is_made(name, parts):
    assert is_foreign(name)
    assert parse_foreign(name) == parts
    assert not is_foreign("coopbench/TrustDilemma-v1")
    assert not is_foreign("game.py:SPEC")


@pytest.mark.parametrize(
    "name",
    [
        *("gymnasium:", "gymnasium:game.py", "pettingzoo:a b", "python:a:b c", "other:x"),
        f"python:{300 * 'x'}",
    ],
)
def test_names_of_other_forms_are_errors(name):
    with pytest.raises(ValueError, match="Allowed: gymnasium:ID"):
        parse_foreign(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gymnasium:no_package:Nothing-v7", "no module 'no_package'.*pip install no_package"),
        ("pettingzoo:mpe7.spread_v0", "no module 'mpe7'.*pip install mpe7"),
        (
            "pettingzoo:gymnasium.none_v0",
            "gymnasium .* is installed, and has no module 'gymnasium.n",
        ),
        ("pettingzoo:toy_foreign:Lamp", "Unknown environment 'Lamp' in toy_foreign.*'Lamps'"),
        ("pettingzoo:none.py:make", "There is no file none.py"),
        ("python:toy_foreign:nothing", "makes a object; allowed: a pettingzoo.ParallelEnv"),
        ("python:elsewhere", "function of another process"),
    ],
)
def test_what_cannot_be_made_is_said_before_anything_is_played(name, message):
    with pytest.raises(ValueError, match=message):
        coopbench.evaluate(name, "random", episodes=1)


def test_arguments_and_objects_that_make_nothing_are_named():
    with pytest.raises(ValueError, match=r"cannot be made with .*'max_step': 3"):
        coopbench.evaluate(LAMPS, "random", episodes=1, max_step=3)
    for value in (object(), float("nan")):
        with pytest.raises(ValueError, match="cannot be written as JSON"):
            Keywords("a game", {"pay": value})
    with pytest.raises(ValueError, match=r"An object of TimeLimit.*: pass a function that makes"):
        coopbench.evaluate(gym.make("CartPole-v1"), "random", episodes=1)


@pytest.fixture
def protocol(tmp_path):
    return builders.loaded(tmp_path, GUESSES, "lamps")


def test_a_callable_makes_environments():
    def short_lamps(**keywords):
        return toy_foreign.Lamps(max_steps=2, **keywords)

    report = coopbench.evaluate(short_lamps, "random", episodes=2, pay=2.0)
    assert report.protocol.task[0].env == "python:short_lamps"
    assert (block_of(report).lengths == 2).all()
    report = coopbench.evaluate(toy_foreign.Lamps, "random", episodes=2)
    assert report.protocol.task[0].env == "python:toy_foreign:Lamps"
    report = coopbench.evaluate("python:toy_foreign:turns", {"lit": lit}, episodes=2)
    assert (block_of(report, "lit").lengths == 6).all()  # agents that take turns act at once


def test_a_file_makes_environments_and_its_code_is_known(tmp_path):
    file, beside = tmp_path / "game.py", tmp_path / "numbers_of_lamps.py"
    beside.write_text("NEW = 1\n", encoding="utf-8")
    source = Path(toy_foreign.__file__).read_text(encoding="utf-8")
    file.write_text(f"{source}\nfrom numbers_of_lamps import NEW\n", encoding="utf-8")

    def evaluated():
        return coopbench.evaluate(f"pettingzoo:{file}", "random", episodes=2, out=tmp_path / "out")

    assert block_of(evaluated()).environment["code"].keys() == {
        "game.py",
        "gymnasium",
        "numbers_of_lamps.py",
        "pettingzoo",
    }
    assert not any("redone" in note for note in evaluated().notes)
    for changed in (file, beside):
        changed.write_text(changed.read_text(encoding="utf-8") + "\nnew = 1\n", encoding="utf-8")
        assert any("redone" in note and "other code" in note for note in evaluated().notes)


def test_the_code_of_a_module_is_that_of_what_it_imports_beside(tmp_path, monkeypatch):
    source = Path(toy_foreign.__file__).read_text(encoding="utf-8")
    (tmp_path / "envmod_beside.py").write_text(f"import helper_beside\n{source}", encoding="utf-8")
    (tmp_path / "helper_beside.py").write_text("A = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    name = "pettingzoo:envmod_beside:Lamps"
    code = block_of(coopbench.evaluate(name, "random", episodes=1)).environment["code"]
    assert {"envmod_beside.py", "helper_beside.py"} < set(code)


@pytest.mark.slow("starts a process")
def test_processes_play_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(toy_foreign.__file__).parent))
    protocol = ad_hoc(LAMPS, 5, 3)
    one = coopbench.evaluate(protocol, ["random"])
    two = coopbench.evaluate(protocol, ["random"], backend="processes", workers=1)
    assert block_of(one).trace.episodes == block_of(two).trace.episodes


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('normalisation = "minmax"', "", "task 'short' has no bounds"),
        ('hit = "mean"', 'hit = "median"', "info.hit"),
        ('hit = "mean", ', "", "Unknown metric 'hit'"),
        ("steps = 7", "steps = 0", "steps"),
        ('env = "pettingzoo:toy_foreign"', 'env = "coopbench/TrustDilemma-v1"', "'info' goes with"),
        ('env = "pettingzoo:toy_foreign"', 'env = "pettingzoo:a b"', "Unknown form"),
    ],
)
def test_mistakes_in_protocols_are_named(tmp_path, before, after, message):
    text = GUESSES.replace(before, after, 1) if "env" in before else GUESSES.replace(before, after)
    with pytest.raises(ProtocolError, match=message):
        builders.loaded(tmp_path, text.replace("parameters = { max_steps = 4 }\n", ""), "wrong")


def test_code_is_executed_only_with_a_permission():
    with pytest.raises(ValueError, match="is not executed because results name it; name it"):
        check_permitted("pettingzoo:nobody_has_named_it")
    permit(LAMPS)
    check_permitted(LAMPS)


def test_reading_a_protocol_executes_nothing(tmp_path):
    builders.loaded(
        tmp_path, GUESSES.replace("pettingzoo:toy_foreign", "python:this:does_not_exist")
    )
    assert "this" not in sys.modules


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    coopbench.evaluate(LAMPS, ["random", lit], episodes=4, out=folder)
    return folder


def by_cell(verification):
    return {check.what.rpartition("/")[2]: check for check in verification.cells}


def test_verify_executes_only_what_the_user_names(results):
    checks = by_cell(coopbench.verify(results))
    assert {check.verdict for check in checks.values()} == {UNVERIFIABLE}
    assert (
        "executed only if you name it: --execute pettingzoo:toy_foreign" in checks["lit"].reasons[0]
    )
    assert "pettingzoo 1" in checks["lit"].reasons[0]
    verification = coopbench.verify(results, env=[LAMPS])
    checks = by_cell(verification)
    assert verification.holds
    assert {check.verdict for check in checks.values()} == {IDENTICAL}
    assert checks["random"].how == RERUN
    assert checks["lit"].how == REPLAYED
    assert checks["lit"].played == 4
    with pytest.raises(ValueError, match="Unknown environment 'gymnasium:Other-v0'"):
        coopbench.verify(results, env=["gymnasium:Other-v0"])


def test_verify_sees_a_changed_episode_and_other_code(results):
    row = store.cell_of(next(results.glob("*/lit/meta.json")))
    edit_row(row.folder, 0, lambda episode: episode.update(length=5))(results)
    meta = builders.edit_meta(results / "toy_foreign" / "random")
    code = meta["environment"] | {"code": meta["environment"]["code"] | {"pettingzoo": "0.1"}}
    builders.edit_meta(results / "toy_foreign" / "random", environment=code)
    checks = by_cell(coopbench.verify(results, env=[LAMPS]))
    assert checks["lit"].verdict == DIFFERENT
    reasons = checks["random"].reasons
    assert any("pettingzoo 0.1" in reason and "here with" in reason for reason in reasons)


def test_episodes_that_were_cut_off_are_not_those_that_are_played(tmp_path, monkeypatch):
    """Environments of other packages may truncate at any step: only a longer replay tells."""
    whole = rollout._Watch.is_over
    cut = property(lambda watch: whole.fget(watch) or len(watch._course) == 6)
    monkeypatch.setattr(rollout._Watch, "is_over", cut)
    name = "gymnasium:Pendulum-v1"
    policies = ["random", {"still": lambda observations: np.zeros((*observations.shape[:2], 1))}]
    for number, policy in enumerate(policies):
        folder = tmp_path / str(number)
        report = coopbench.evaluate(name, policy, folder, episodes=3, backend="serial")
        assert {int(length) for block in report.episodes for length in block.lengths} == {5}
        with monkeypatch.context() as undone:
            undone.setattr(rollout._Watch, "is_over", whole)
            verdicts = {check.verdict for check in coopbench.verify(folder, env=[name]).cells}
        assert verdicts == {DIFFERENT}


def test_an_environment_with_chance_is_not_verifiable(tmp_path):
    chance, out = {"chance": True}, tmp_path / "r"
    report = coopbench.evaluate(LAMPS, "random", episodes=2, **chance, out=out)
    assert not block_of(report).environment["repeats"]
    for each in (report, coopbench.load_report(out)):
        assert any("not deterministic" in note for note in each.notes)
    check = by_cell(coopbench.verify(out, env=[LAMPS]))["random"]
    assert check.verdict == UNVERIFIABLE
    assert "not deterministic" in check.reasons[0]


def test_reports_of_results_execute_nothing(results, monkeypatch, tmp_path):
    def refuse(*arguments):
        raise AssertionError("an environment was made")

    for each in ("environment.make_world", "engine.make_world", "environment.check_permitted"):
        monkeypatch.setattr(f"coopbench_envs.foreign.{each}", refuse)
    report = coopbench.load_report(results)
    assert block_of(report, "lit").environment["repeats"]
    assert any("another package" in note for note in report.notes)
    page = report.save(tmp_path / "report")["html"].read_text(encoding="utf-8")
    assert "environment of another package" in page
    assert "in environments that draw themselves" in page


@pytest.mark.parametrize("facts", [{"code": 1}, [1], {"code": {"a": "b c"}, "repeats": 1}])
def test_what_results_say_of_an_environment_is_checked(results, facts):
    builders.edit_meta(results / "toy_foreign" / "random", environment=facts)
    assert any("left out" in note for note in coopbench.load_report(results).notes)


@pytest.mark.slow("trains two runs and verifies them")
def test_a_training_run_is_reported_and_verified(tmp_path, torch):
    selection = "[seeds]\nselection = { first = 100, count = 6 }\ntraining = [1, 2]\n"
    training = '[training]\non = "each"\nplays = "own"\nruns = 2\nepisodes = 6\n'
    training += "budgets.on_policy = { steps = 64, interval = 32 }\n"
    protocol = builders.loaded(
        tmp_path, GUESSES.replace("[seeds]\n", selection) + training, "lamps"
    )
    values = {"lanes": 2, "rollout": 16, "batch_size": 8}
    report = coopbench.train(protocol, "ippo", tmp_path / "out", **values)
    lengths = [block.lengths for block in report.episodes if block.cell.task == "long"]
    assert np.unique(lengths).tolist() == [7]  # steps of the task
    checks = coopbench.verify(tmp_path / "out", env=[LAMPS])
    assert checks.holds, checks.to_json()


def test_what_cannot_be_done_is_said(results):
    permit(LAMPS)
    with pytest.raises(ValueError, match="another package, which is not compiled"):
        Engine(LAMPS)
    with pytest.raises(ValueError, match="another package"):
        coopbench.play_episode(LAMPS, "random")
    with pytest.raises(ReplayError, match="cannot be shown here"):
        coopbench.find_episode(f"{results}/toy_foreign/random/0")
    with pytest.raises(ValueError, match="neither saved nor restored"):
        foreign_engine(LAMPS).reset(np.zeros(1, np.uint64), state={"time": 1})


def test_a_module_beside_a_file_hides_none_of_python(tmp_path):
    (tmp_path / "colorsys.py").write_text("raise SystemExit('hidden')\n")
    code = "import colorsys\nimport toy_foreign\nparallel_env = toy_foreign.Lamps\n"
    (tmp_path / "own_lamps.py").write_text(code)
    sys.modules.pop("colorsys", None)
    coopbench.evaluate(f"pettingzoo:{tmp_path / 'own_lamps.py'}", "random", episodes=1, only=True)
    assert str(tmp_path) not in sys.path


def test_numbers_that_differ_when_an_episode_is_played_again_are_no_metrics(tmp_path):
    source = """
import itertools
import gymnasium

COUNTS = itertools.count()


class Timed(gymnasium.Wrapper):
    def step(self, action):
        *turn, info = self.env.step(action)
        return *turn, info | {"time": next(COUNTS), "angle": float(turn[0][2])}


def make():
    return Timed(gymnasium.make("CartPole-v1"))
"""
    (tmp_path / "timed.py").write_text(source, encoding="utf-8")
    name = f"gymnasium:{tmp_path / 'timed.py'}:make"
    report = coopbench.evaluate(name, "random", episodes=2)
    assert "angle" in report.episodes.blocks[0].metrics
    assert "time" not in report.episodes.blocks[0].metrics
    assert report.episodes.blocks[0].environment["repeats"]
    engine = foreign_engine(name, metrics={"time": "last"})
    engine.reset(np.zeros(1, np.uint64))
    engine.step(np.zeros((1, 1), np.int64))
    assert not engine.repeats()
