"""Bare trained models: one run of a learner, without interval, decision and rank."""

import functools
import math
import pickle

import builders
import numpy as np
import pytest

import coopbench
from coopbench.cli.main import app
from coopbench.playing.trained_models import SB3, TORCH, WEIGHTS, trained_kind
from coopbench.report.loading import load_report
from coopbench.report.sections.cards import cards

torch = pytest.importorskip("torch")
FEATURES = 7


class Net(torch.nn.Linear):
    """Invests a little, by its weights."""

    def __init__(self):
        super().__init__(FEATURES, 1)
        torch.nn.init.constant_(self.bias, 0.3)
        torch.nn.init.zeros_(self.weight)


class Holder:
    """An ordinary object that plays with a module."""

    def __init__(self, net):
        self.parts = {"net": [net]}

    def act(self, observations):
        with torch.no_grad():
            return self.parts["net"][0](torch.tensor(observations)).numpy()


NET = Net()


def by_the_module(observations):
    return NET(torch.tensor(observations)).detach().numpy()


def half(observations):
    return np.full((*observations.shape[:2], 1), 0.5)


@pytest.fixture(scope="module")
def protocol(tmp_path_factory):
    return builders.small_protocol(
        tmp_path_factory.mktemp("p"),
        tasks=[builders.make_task("one"), builders.make_task("two", horizon=7)],
        baselines=["random"],
        count=20,
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A file of a model of Stable-Baselines3 that has not learned much."""
    models = pytest.importorskip("stable_baselines3")
    import coopbench_envs

    model = models.PPO("MlpPolicy", coopbench_envs.sb3_vec_env(builders.TRUST, 1), seed=0)
    file = tmp_path_factory.mktemp("m") / "model.zip"
    model.save(file)
    return file, model


def _kept(module):
    return lambda observations: module(torch.tensor(observations)).detach().numpy()


@pytest.mark.parametrize(
    "policy",
    [NET, Holder(NET), by_the_module, _kept(NET), functools.partial(Holder(NET).act), NET.forward],
    ids=["module", "attribute", "global", "closure", "partial", "method"],
)
def test_a_torch_module_is_recognized_where_it_is_held(policy):
    assert trained_kind(policy) == TORCH
    assert trained_kind(coopbench.Fixed(policy)) == ""
    assert trained_kind(Holder(coopbench.Fixed(policy))) == ""


def test_other_policies_stay_fixed():
    for policy in (half, Holder(half), "random", "constant:0.5", Holder):
        assert trained_kind(policy) == ""
    for policy in ("ippo:folder", builders.trained_to_invest(0.5, 7)):
        assert trained_kind(policy) == WEIGHTS


def test_a_model_of_stable_baselines3_is_recognized_without_importing_it(saved):
    _, model = saved
    for one in (model, model.policy, Holder(model), model.predict):
        assert trained_kind(one) == SB3


def test_fixed_takes_objects():
    with pytest.raises(TypeError, match=r"takes an object that plays.*given 'ippo:runs'"):
        coopbench.Fixed("ippo:runs")
    fixed = pickle.loads(pickle.dumps(coopbench.Fixed(half)))
    assert fixed.name == "half"
    assert np.array_equal(fixed(np.zeros((1, 2, 3))), half(np.zeros((1, 2, 3))))


def _bare(report, name):
    """Check what a report says of one trained model."""
    assert not report.is_standard
    (reason,) = [text for text in report.deviations if text.startswith(f"{name} is one trained")]
    assert "one run of a learner" in reason
    assert reason in " ".join(str(report).split())
    assert report.units[name] == "runs"
    assert name not in {row.policy for row in report.ranks}
    rows = [row for row in report.estimates if row.policy == name]
    assert rows
    assert all(row.count == 1 and math.isnan(row.low) for row in rows)
    compared = [r for r in report.comparisons if name in (r.first, r.second)]
    compared += [r for r in report.group_comparisons if name in (r.first, r.second)]
    assert compared
    assert not any(row.decided for row in compared)
    assert all("a single run, and a test needs 3" in row.flag for row in compared)


def test_a_bare_module_is_one_run_and_stays_one_without_its_code(protocol, tmp_path):
    policies = {"net": NET, "fixed": coopbench.Fixed(NET), "half": half}
    report = coopbench.evaluate(protocol, [*_named(policies), "random"], tmp_path / "r")
    _bare(report, "net")
    assert {row.policy for row in report.ranks} == {"fixed", "half", "random"}
    assert {row.contestants for row in report.ranks} == {3}
    fixed = [row for row in report.estimates if row.policy == "fixed"]
    assert all(row.unit == "episodes" for row in fixed)
    means = {(row.task, row.policy): row.mean for row in report.estimates if row.metric == "return"}
    assert means["one", "net"] == means["one", "fixed"]
    again = load_report(tmp_path / "r")
    _bare(again, "net")
    assert again.deviations == report.deviations
    assert "one trained model (torch module)" in cards(again)["net"]["Training runs"]
    assert coopbench.verify(tmp_path / "r").identical


def _named(policies):
    from coopbench.playing.contestants import policy_list

    return policy_list(policies)


def test_one_model_per_task_without_seeds_is_one_run(tmp_path):
    training = builders.make_training()
    protocol = builders.small_protocol(tmp_path, training=training, selection=(90, 2))
    models = coopbench.TrainedRuns("mine", {"dilemma": NET})
    _bare(coopbench.evaluate(protocol, [models, "random"]), "mine")


def test_several_runs_are_no_bare_model(tmp_path):
    training = builders.make_training()
    protocol = builders.small_protocol(tmp_path, training=training, selection=(90, 2))
    models = coopbench.TrainedRuns("mine", {"dilemma": {50: NET, 51: NET}})
    report = coopbench.evaluate(protocol, [models, "random"])
    assert not report.episodes.bare
    assert "mine" in {row.policy for row in report.ranks}


def test_the_report_of_an_environment_names_it_too():
    short = {"episodes": 4, "horizon": 6}
    report = coopbench.evaluate(builders.TRUST, {"net": NET}, **short)
    assert "net is one trained model" in " ".join(str(report).split())


def test_crossplay_takes_one_model(protocol):
    result = coopbench.crossplay(protocol, {"net": NET, "half": half}, tasks=["one"])
    assert len(result.meetings) == 4


def test_a_leaderboard_gives_no_rank(protocol, tmp_path):
    coopbench.evaluate(protocol, [*_named({"net": NET, "half": half}), "random"], tmp_path / "r")
    rows = {row.policy: row for row in coopbench.leaderboard([tmp_path / "r"]).rows}
    assert math.isnan(rows["net"].first)
    assert rows["net"].tie == ""
    assert rows["half"].first >= 1


def test_a_file_of_stable_baselines3_plays_as_its_model(saved, tmp_path, protocol):
    file, model = saved
    report = coopbench.evaluate(protocol, [*_named({"file": str(file), "model": model}), "random"])
    _bare(report, "file")
    _bare(report, "model")
    means = {(row.task, row.policy): row.mean for row in report.estimates if row.metric == "return"}
    assert means["one", "file"] == means["one", "model"]


def test_the_command_line_takes_files_and_objects(saved, tmp_path, monkeypatch):
    file, _ = saved
    code = tmp_path / "mine.py"
    code.write_text(
        f"import coopbench\nfrom stable_baselines3 import PPO\nMODEL = PPO.load({str(file)!r})\n"
        "FIXED = coopbench.Fixed(MODEL)\n"
    )
    path = builders.protocol_file(tmp_path, tasks=[builders.make_task()])
    named = [f"file={file}", f"object={code}:MODEL", f"fixed={code}:FIXED", "random"]
    words = ["evaluate", str(path), *(w for n in named for w in ("-p", n)), "--out"]
    app([*words, str(tmp_path / "r")], standalone_mode=False)
    report = load_report(tmp_path / "r")
    _bare(report, "file")
    _bare(report, "object")
    assert report.units["fixed"] == "episodes"
    assert coopbench.verify(tmp_path / "r").identical


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.zip", "There is no file missing.zip"),
        ("net.pt", "does not say what plays with its weights.*FILE.py:OBJECT"),
        ("damaged.zip", "damaged.zip cannot be read"),
    ],
)
def test_files_that_are_no_models_are_refused(name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "damaged.zip").write_bytes(b"PK")
    with pytest.raises(ValueError, match=message):
        coopbench.evaluate(builders.TRUST, {"mine": name}, episodes=2)


def test_a_folder_of_one_run_is_one_run(protocol, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a terminal would break a long name
    policy = builders.trained_to_invest(0.5, 7)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "policy.npz").write_bytes(policy.pack())
    name = f"{policy.name}:run"
    _bare(coopbench.evaluate(protocol, [name, "random"], tmp_path / "r"), name)
    _bare(load_report(tmp_path / "r"), name)
    assert coopbench.verify(tmp_path / "r").identical


def test_an_unknown_kind_of_model_is_damage(protocol, tmp_path):
    coopbench.evaluate(protocol, [*_named({"net": NET}), "random"], tmp_path / "r")
    meta = tmp_path / "r" / "one" / "net" / "meta.json"
    meta.write_text(meta.read_text().replace('"torch module"', '"best module"'))
    assert "'model' is none of" in " ".join(load_report(tmp_path / "r").notes)
