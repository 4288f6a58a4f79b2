"""Packed runs: one file for all runs of a learner; those that ship with the package are played."""

import json
import shutil
from dataclasses import replace

import builders
import numpy as np
import pytest

import coopbench
from coopbench.analysis.deviations import choosing
from coopbench.baselines.networks.network import NetworkPolicy
from coopbench.episodes.table import Cell, EpisodeTable, Progress
from coopbench.errors import OtherProtocolError
from coopbench.protocol.variants import with_tasks
from coopbench.results import packed_runs
from coopbench.results.packed_runs import SUFFIX, pack_runs, read_runs
from coopbench_envs.arrays import pack, unpack
from coopbench_envs.registration import register, spec

RUNS, STEPS = (50, 51), 20
TASKS = {8: "short", 12: "long"}  # by horizon


def trained(task, seed):
    """Return a run on a task with two checkpoints."""
    scores = np.array([[1.0, 2.0], [3.0, 4.0]]) * seed / 3.0
    metrics = {"return": scores, "own_return": scores / 2.0, "final_trust": scores / 99.0}
    scores[0, 0] = np.nextafter(scores[0, 0], 0.0)  # a sum is rounded
    progress = Progress(Cell(task, "ippo", seed), np.array([10, 20]), metrics)
    facts = {"task": task, "steps": STEPS, "interval": 10, "chosen_step": 20, "seconds": 1.0}
    return coopbench.Trained(builders.trained_to_invest(seed / 100.0, seed), progress, facts)


def required(folder, **parts):
    """Return a protocol that requires a learner: alone, and with a partner."""
    focal = builders.make_task("focal", partners=["cooperator"], trained_on="dilemma")
    defaults = {
        "tasks": [builders.make_task(), focal],
        "training": builders.make_training(),
        "selection": (200, 2),
        "score": "own_return",
        "metrics": ["own_return", "fairness", "cooperation_rate", "length"],
        "learned": ["ippo"],
        "train": RUNS,
        "first": 1000,
        "count": 20,
    }
    return builders.small_protocol(folder, **(defaults | parts))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The protocol, a folder with results of two trained runs, and the file of these runs."""
    place = tmp_path_factory.mktemp("runs")
    protocol = required(place)
    models = {"dilemma": {seed: trained("dilemma", seed) for seed in RUNS}}
    coopbench.evaluate(
        protocol, ["random", coopbench.TrainedRuns("ippo", models)], place / "trained"
    )
    file = place / f"ippo{SUFFIX}"
    pack_runs(place / "trained", "ippo", file)
    return protocol, place / "trained", file


@pytest.fixture
def shipped(made, monkeypatch):
    """The protocol, results of the trained runs, and their file, which ships with the package."""
    protocol, results, file = made
    known, none = (protocol.protocol.name, "ippo"), file.with_name("none")
    monkeypatch.setattr(packed_runs, "shipped_file", lambda *of: file if of == known else none)
    packed_runs._digest.cache_clear()
    return protocol, results, file


def test_runs_come_back_as_they_were(made):
    protocol, _, file = made
    models = read_runs(file, protocol)
    assert models.name == "ippo"
    assert list(models.trained) == ["dilemma"]
    np.testing.assert_array_equal(unpack(file)["dilemma/50/return"], [[-1, 0], [0, 0]])
    for seed, model in models.trained["dilemma"].items():
        first = trained("dilemma", seed)
        assert model.policy.pack() == first.policy.pack()
        np.testing.assert_array_equal(model.progress.steps, first.progress.steps)
        assert set(model.progress.metrics) == {"return", "own_return"}
        for name, values in model.progress.metrics.items():
            np.testing.assert_array_equal(values, first.progress.metrics[name])
        assert {name: model.facts[name] for name in first.facts} == first.facts
    with pytest.raises(ValueError, match="no runs of 'isac'"):
        pack_runs(made[1], "isac", file.with_name("isac"))


def test_a_file_of_runs_plays_the_same_episodes_bit_for_bit(made, tmp_path, command):
    protocol, results, file = made
    command("evaluate", results.parent / "small.toml", "-p", f"ippo:{file}", "--out", tmp_path)
    cells = sorted(path.relative_to(results) for path in results.glob("*/ippo/run-*"))
    assert len(cells) == 4
    for cell in cells:
        one, two = (unpack(root / cell / "episodes.npz") for root in (tmp_path, results))
        for name in one.keys() - {"progress"}:  # of which a file of runs holds a part
            assert one[name].tobytes() == two[name].tobytes()
        policies = (root / cell / "policy.npz" for root in (tmp_path, results))
        assert len({policy.read_bytes() for policy in policies}) == 1
    with pytest.raises(ValueError, match="holds runs of ippo, not of isac"):
        coopbench.evaluate(protocol, [f"isac:{file}"])


def test_shipped_runs_of_required_learners_are_played(shipped, tmp_path):
    protocol, results, _ = shipped
    report = coopbench.evaluate(protocol, ["random"], tmp_path / "out")
    own = coopbench.load_report(results)
    assert report.deviations == own.deviations
    assert report.estimates == own.estimates
    assert report.efficiency == own.efficiency
    assert report.shipped == {"ippo"}
    assert own.shipped == set()
    assert "Runs of ippo ship with coopbench: 50, 51." in report.notes
    assert "ippo (shipped)" in str(coopbench.load_report(tmp_path / "out"))


def test_an_interrupted_evaluation_plays_the_rest_of_the_shipped_runs(shipped, tmp_path):
    protocol, _, _ = shipped
    coopbench.evaluate(protocol, ["random"], tmp_path)
    shutil.rmtree(tmp_path / "focal" / "ippo" / "run-51")
    report = coopbench.evaluate(protocol, ["random"], tmp_path)
    assert len(report.episodes.of("focal", "ippo", 51)) == 20


def test_shipped_runs_can_be_left_out(shipped, tmp_path, command):
    protocol, results, _ = shipped
    report = coopbench.evaluate(protocol, ["random"], only=True)
    assert report.shipped == set()
    assert any("learner ippo is missing" in reason for reason in report.deviations)
    source = results.parent / "small.toml"
    for flags, expected in ([], True), (["--only"], False):
        out = tmp_path / str(expected)
        printed = command("evaluate", source, "-p", "random", "--out", out, *flags).out
        assert ("ippo (shipped)" in printed) == expected


def test_runs_of_ones_own_take_the_place_of_shipped_ones(shipped, tmp_path):
    protocol, _, _ = shipped
    models = {"dilemma": {50: trained("dilemma", 50)}}
    models["dilemma"][50].facts["chosen_step"] = 10  # its training chose among other tasks, too
    report = coopbench.evaluate(
        protocol, [coopbench.TrainedRuns("ippo", models)], tmp_path / "given"
    )
    meta = json.loads(
        (tmp_path / "given" / "dilemma" / "ippo" / "run-50" / "meta.json").read_text()
    )
    assert meta["chosen_step"] == 10
    assert report.shipped == set()
    assert any("ippo lacks the runs 51" in reason for reason in report.deviations)
    again = coopbench.evaluate(protocol, ["random"], tmp_path / "given")
    assert again.shipped == set()
    assert {block.cell.run for block in again.episodes} == {None, 50}


def test_runs_of_another_protocol_stay_out_with_a_reason(shipped, tmp_path):
    _, _, file = shipped
    other = required(tmp_path, count=21)
    report = coopbench.evaluate(other, ["random"])
    assert report.shipped == set()
    (note,) = [note for note in report.notes if "shipped runs of ippo are left out" in note]
    assert other.digest[:12] in note
    part = with_tasks(coopbench.load_protocol("coopetition-standard"), ["trust-dilemma"])
    for protocol in (other, part):
        with pytest.raises(OtherProtocolError, match="runs of another protocol"):
            read_runs(file, protocol)


def test_runs_need_checkpoints_where_the_whole_protocol_trains():
    whole = coopbench.load_protocol("coopetition-standard")
    for task, asked in (("slcd", True), ("slcd.focal", True), ("slcd.shifted", False)):
        part, cells = with_tasks(whole, [task]), [Cell(task, "ippo", 1000)]
        assert choosing(part, EpisodeTable(()), cells) == (cells if asked else [])


def test_failed_runs_stay_failures(tmp_path):
    protocol = required(tmp_path)
    models = {"dilemma": {50: trained("dilemma", 50), 51: coopbench.Failed("out of numbers")}}
    coopbench.evaluate(protocol, [coopbench.TrainedRuns("ippo", models)], tmp_path / "results")
    pack_runs(tmp_path / "results", "ippo", tmp_path / f"ippo{SUFFIX}")
    report = coopbench.evaluate(protocol, [f"ippo:{tmp_path / f'ippo{SUFFIX}'}"])
    assert any("run 51 of ippo" in text and "out of numbers" in text for text in report.deviations)


def test_one_model_for_all_tasks_comes_back(tmp_path):
    env = "test/TrustOfAnyLength-v0"
    register(replace(spec(builders.TRUST), id=env, held_out="horizon"))
    tasks = [builders.make_task(name, env, horizon=n) for n, name in TASKS.items()]
    training = builders.make_training(on="any", plays="all", held_out=["8"])
    protocol = required(tmp_path, tasks=tasks, training=training, selection=None)
    models = {}
    for seed in RUNS:
        policy = builders.trained_to_invest(seed / 100.0, seed)
        policy = NetworkPolicy(policy.network, policy.facts | {"environment": env})
        facts = {"task": "any", "steps": STEPS, "interval": 10, "chosen_step": 20, "seconds": 1.0}
        models[seed] = coopbench.Trained(policy, None, facts)
    report = coopbench.evaluate(
        protocol, [coopbench.TrainedRuns("ippo", models)], tmp_path / "results"
    )
    pack_runs(tmp_path / "results", "ippo", tmp_path / f"ippo{SUFFIX}")
    again = read_runs(tmp_path / f"ippo{SUFFIX}", protocol)
    assert {seed: model.policy.pack() for seed, model in again.trained.items()} == {
        seed: model.policy.pack() for seed, model in models.items()
    }
    replayed = coopbench.evaluate(protocol, [again])
    assert replayed.estimates == report.estimates
    assert {block.cell.task for block in replayed.episodes} == set(TASKS.values())


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, header: header.update(schema=2),
        lambda arrays, header: header.update(agents={"dilemma": "two"}),
        lambda arrays, header: header.pop("digest"),
        lambda arrays, header: header.update(runs=[1]),
        lambda arrays, header: arrays.pop("dilemma/50/policy"),
        lambda arrays, header: arrays.update({"dilemma/50/policy": np.zeros(9, np.uint8)}),
        lambda arrays, header: header["runs"].update({"dilemma/many": {}}),
    ],
)
def test_damaged_files_are_refused(made, tmp_path, change):
    protocol, _, file = made
    arrays = dict(unpack(file))
    header = json.loads(arrays.pop("header").tobytes())
    change(arrays, header)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    damaged = tmp_path / file.name
    damaged.write_bytes(pack(arrays))
    with pytest.raises(ValueError, match="holds no training runs that can be read"):
        read_runs(damaged, protocol)
    damaged.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(ValueError, match="holds no training runs that can be read"):
        read_runs(damaged, protocol)


def test_what_ships_is_of_its_protocol():
    for file in sorted(packed_runs.shipped_file("", "").parents[1].glob(f"*/*{SUFFIX}")):
        protocol = coopbench.load_protocol(file.parent.name)
        models = read_runs(file, protocol)
        assert file.name == f"{models.name}{SUFFIX}"
        assert models.name in protocol.report.learned
