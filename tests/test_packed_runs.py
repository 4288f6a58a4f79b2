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
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.registration import read_registration
from coopbench.protocol.variants import with_tasks
from coopbench.report.serialise import as_json
from coopbench.results import packed_runs, packed_scores
from coopbench.results.folder import stored_cells
from coopbench.results.packed_runs import SUFFIX, pack_runs, read_runs
from coopbench_envs.arrays import pack, unpack, write
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
    ship(protocol, file, monkeypatch)
    return protocol, results, file


def ship(protocol, file, monkeypatch):
    """Let the file be that of the runs of ippo that ship for a protocol, and the only one."""
    known, none = (protocol.protocol.name, "ippo"), file.with_name("none")
    for module in (packed_runs, packed_scores):
        monkeypatch.setattr(module, "shipped_file", lambda *of: file if of == known else none)
    packed_runs.digest_of_shipped.cache_clear()


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


def test_runs_that_were_packed_before_stay_in_the_file(made, tmp_path):
    protocol, _, file = made
    first, second = RUNS
    later = coopbench.TrainedRuns("ippo", {"dilemma": {second: trained("dilemma", second)}})
    coopbench.evaluate(protocol, [later], tmp_path)
    earlier = coopbench.TrainedRuns(
        "ippo", {"dilemma": {first: read_runs(file, protocol).trained["dilemma"][first]}}
    )
    both, again = tmp_path / f"both{SUFFIX}", tmp_path / f"ippo{SUFFIX}"
    pack_runs(tmp_path, "ippo", both, earlier=earlier)
    one, two = unpack(both), unpack(file)
    assert {name: values.tobytes() for name, values in one.items()} == {
        name: values.tobytes() for name, values in two.items()
    }
    played = (tmp_path / "dilemma/ippo" / f"run-{second}" / "episodes.npz").stat().st_mtime_ns
    coopbench.evaluate(protocol, [f"ippo:{both}"], tmp_path)  # adds the run that it lacks
    stored = (tmp_path / "dilemma/ippo" / f"run-{second}" / "episodes.npz").stat().st_mtime_ns
    assert stored == played
    pack_runs(tmp_path, "ippo", again)
    assert {name: values.tobytes() for name, values in unpack(again).items()} == {
        name: values.tobytes() for name, values in two.items()
    }


def test_a_study_of_stored_runs_is_registered_under_their_name(made, tmp_path, command):
    _, results, file = made
    for place in (results, file):
        words = ["plan", "register", results.parent / "small.toml", "-p", f"ippo:{place}"]
        command(*words, "--hypothesis", "ippo > random", "--out", tmp_path / place.stem)
        assert read_registration(tmp_path / place.stem).contestants == ("ippo", "random")


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
    cells = [cell for cell in report.metadata if cell.policy == "ippo"]
    for cell in (cells[0], cells[-1]):  # one run of another origin makes the policy another one
        changed = {cell: {"policy": "ippo", "training": {}}}
        assert replace(report, metadata={**report.metadata, **changed}).shipped == set()


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


def test_the_name_of_a_learner_is_its_shipped_runs(shipped, tmp_path, command):
    protocol, results, file = shipped
    for more, only in ([], False), ([], True), (["random"], True):
        report = coopbench.evaluate(protocol, ["ippo", *more], only=only)
        assert report.shipped == {"ippo"}
        assert {block.cell.run for block in report.episodes if block.cell.run} == {*RUNS}
        fixed = {block.cell.policy for block in report.episodes} - {"ippo"}
        assert fixed == {*(more if only else protocol.report.fixed)}
    source = results.parent / "small.toml"
    assert "ippo (shipped)" in command("evaluate", source, "-p", "ippo", "--out", tmp_path).out
    with pytest.raises(ValueError, match="Two policies are called ippo"):
        coopbench.evaluate(protocol, ["ippo", f"ippo:{file}"])


def test_runs_that_are_named_and_of_another_protocol_are_refused(shipped, tmp_path):
    with pytest.raises(OtherProtocolError, match="runs of another protocol"):
        coopbench.evaluate(required(tmp_path, count=21), ["ippo"], only=True)


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


# --- scores of the runs, which ship as well -------------------------------------------------------


def pack_own_scores(protocol, results, file):
    """Write the scores of the runs of ippo in a results folder next to their file."""
    cells = [pair for pair in stored_cells(results, protocol, []) if pair[0].policy == "ippo"]
    place = packed_scores.pack_scores(protocol, cells, file)
    packed_runs.digest_of_shipped.cache_clear()
    return place


@pytest.fixture
def scored(shipped):
    """The protocol, results of shipped runs, and the file of their scores, which ships as well."""
    protocol, results, file = shipped
    place = pack_own_scores(protocol, results, file)
    yield protocol, results, place
    place.unlink()


def own_returns(report):
    """Return the mean score of ippo on every task."""
    rows = [row for row in report.estimates if (row.policy, row.metric) == ("ippo", "own_return")]
    return {row.task: row.mean for row in rows}


def test_shipped_scores_take_the_place_of_play(scored, tmp_path, command):
    protocol, results, _ = scored
    report = coopbench.evaluate(protocol, ["random"], tmp_path)
    own = coopbench.load_report(results)
    assert own_returns(report) == pytest.approx(own_returns(own), rel=1e-7)
    assert report.deviations == own.deviations
    assert report.shipped == {"ippo"}
    assert any(
        note.startswith("Scores of ippo ship") and "runs 50, 51." in note for note in report.notes
    )
    lengths = [row for row in report.estimates if (row.policy, row.metric) == ("ippo", "length")]
    assert {row.mean for row in lengths} == {
        row.mean for row in own.estimates if (row.policy, row.metric) == ("ippo", "length")
    }
    assert [row for row in report.agents if row.policy == "ippo"] == []
    rates = {
        (row.count, row.flag)
        for row in report.estimates
        if (row.policy, row.metric) == ("ippo", "cooperation_rate")
    }
    assert rates == {(0, "not stored with the shipped scores")}
    assert [p.steps.tolist() for p in report.episodes.progress_of("dilemma", "ippo")] == [
        [10, 20]
    ] * len(RUNS)
    assert not any(tmp_path.glob("*/ippo*"))  # nothing was played
    again = coopbench.load_report(tmp_path)
    assert as_json(again) == as_json(report)
    exported = command("export", tmp_path, "--to", "all.json").out
    assert "the return is left out, which the scores of ippo" in " ".join(exported.split())
    assert (
        "return is undefined"
        in command(
            *("export", tmp_path, "--to", "all.json", "--metric", "return"), status=2
        ).message
    )
    assert "is left out" not in command("export", tmp_path, "--to", "a.json", "-p", "random").out
    assert "2 cells" not in (shown := command("verify", tmp_path).out)
    assert shown.count("shipped with coopbench") == 4
    assert "80 episodes have the scores that ship with coopbench" in shown


def test_shipped_scores_belong_to_a_choice_of_tasks(scored, tmp_path, monkeypatch):
    protocol, _, _ = scored
    monkeypatch.setattr(packed_scores, "whole_of", lambda part: protocol)
    report = coopbench.evaluate(protocol, ["random"], tmp_path, tasks=["dilemma"])
    assert [block.cell.run for block in report.episodes.runs("dilemma", "ippo")] == [*RUNS]
    assert coopbench.verify(tmp_path, backend="serial").holds


def test_shipped_runs_can_be_played_in_place_of_their_scores(scored, tmp_path, command):
    protocol, results, _ = scored
    source = results.parent / "small.toml"
    command("evaluate", source, "-p", "random", "--play-shipped", "--out", tmp_path)
    report = coopbench.load_report(tmp_path)
    assert report.estimates == coopbench.load_report(results).estimates
    shutil.rmtree(tmp_path / "focal" / "ippo" / "run-51")
    report = coopbench.evaluate(protocol, ["random"], tmp_path)  # plays what is missing
    assert len(report.episodes.of("focal", "ippo", 51)) == 20
    assert not (tmp_path / "shipped.json").exists()


def test_cells_of_a_learner_take_the_place_of_its_shipped_scores(scored, tmp_path):
    protocol, _, _ = scored
    coopbench.evaluate(protocol, ["random"], tmp_path)
    models = {"dilemma": {50: trained("dilemma", 50)}}
    coopbench.evaluate(protocol, [coopbench.TrainedRuns("ippo", models)], tmp_path)
    report = coopbench.load_report(tmp_path)
    assert {b.cell.run for b in report.episodes if b.cell.policy == "ippo"} == {50}
    assert report.shipped == set()
    verdicts = {check.verdict for check in coopbench.verify(tmp_path, backend="serial").cells}
    assert "shipped with coopbench" not in verdicts


def test_a_later_evaluation_and_a_merge_keep_shipped_scores(scored, tmp_path):
    protocol, _, _ = scored
    for number in (1, 2):
        coopbench.evaluate(protocol, ["random"], tmp_path / "parts", shard=(number, 2))
    merged = coopbench.merge([tmp_path / "parts"], tmp_path / "merged")
    later = coopbench.evaluate(protocol, ["cooperator"], tmp_path / "merged", only=True)
    coopbench.evaluate(protocol, ["random"], tmp_path / "own", only=True)  # without shipped scores
    both = coopbench.merge([tmp_path / "own", tmp_path / "parts"], tmp_path / "both")
    for report in (merged, later, both, coopbench.load_report(tmp_path / "both")):
        assert len([note for note in report.notes if note.startswith("Scores of ippo ship")]) == 1
        assert {b.cell.run for b in report.episodes if b.cell.policy == "ippo"} == {*RUNS}
    assert later.results == coopbench.load_report(tmp_path / "merged").results
    (tmp_path / "merged" / "shipped.json").unlink()
    checks = {c.what: c.verdict for c in coopbench.verify(tmp_path / "merged", "serial").checks}
    assert checks["shipped.json"] == "missing"


def test_a_small_file_of_runs_does_not_fill_the_memory(tmp_path):
    with (tmp_path / "ippo.runs.npz").open("wb") as file:
        write(file, {"header": np.zeros(2, np.uint8), "zeros": np.zeros(8 << 20)}, compressed=True)
    with pytest.raises(ValueError, match=r"no training runs that can be read \(it unpacks to more"):
        read_runs(tmp_path / "ippo.runs.npz", load_protocol("coopetition-standard"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "cannot be read"),
        ('{"schema": 2, "scores": {}}', "its schema is 2"),
        ('{"schema": 1, "scores": [1]}', "cannot be read"),
        ('{"schema": 1, "scores": {"ippo": "00"}}', "does not have"),
        ('{"schema": 1, "scores": {"isac": ""}}', "does not have"),
    ],
)
def test_other_scores_than_those_of_this_package_are_left_out(scored, tmp_path, content, reason):
    protocol, _, _ = scored
    coopbench.evaluate(protocol, ["random"], tmp_path)
    (tmp_path / "shipped.json").write_text(content)
    report = coopbench.load_report(tmp_path)
    assert "ippo" not in report.episodes.policies
    assert any(note.startswith("left out: ") and reason in note for note in report.notes)
    checks = {check.what: check for check in coopbench.verify(tmp_path, backend="serial").checks}
    assert checks["shipped.json"].verdict == "different"
    assert any(reason in text for text in checks["shipped.json"].reasons)
    assert checks["manifest.json"].reasons[0].startswith("shipped.json was changed")


def test_playing_shipped_runs_again_tells_other_scores(scored, tmp_path):
    protocol, _, place = scored
    coopbench.evaluate(protocol, ["random"], tmp_path)
    same = coopbench.verify(tmp_path, backend="serial", play_shipped=True)
    assert same.identical
    assert {check.played for check in same.cells if "ippo" in check.what} == {20}
    arrays = dict(unpack(place))
    arrays["focal/score"] = arrays["focal/score"].copy()
    arrays["focal/score"][1, 7] *= 1.5
    arrays["dilemma/lengths"] = arrays["dilemma/lengths"].copy()
    arrays["dilemma/lengths"][0, 3] += 1
    place.write_bytes(pack(arrays))
    packed_runs.digest_of_shipped.cache_clear()
    (tmp_path / "shipped.json").unlink()
    coopbench.evaluate(protocol, ["random"], tmp_path)
    assert coopbench.verify(tmp_path, backend="serial").holds  # it is what this package has
    checks = coopbench.verify(tmp_path, backend="serial", play_shipped=True).checks
    wrong = {check.what: check for check in checks if check.verdict == "different"}
    assert wrong["focal/ippo/run-51"].differing == (7,)
    assert wrong["dilemma/ippo/run-50"].reasons[0].startswith("dilemma/lengths differs in 1 of 20")
    assert set(wrong) == {"focal/ippo/run-51", "dilemma/ippo/run-50"}


def test_shipped_scores_of_several_folders_count_once(tmp_path, monkeypatch):
    protocol, file = required(tmp_path, selection=None), tmp_path / f"ippo{SUFFIX}"
    models = {seed: replace(trained("dilemma", seed), progress=None) for seed in RUNS}
    runs = coopbench.TrainedRuns("ippo", {"dilemma": models})
    coopbench.evaluate(protocol, [runs], tmp_path / "trained", only=True)
    pack_runs(tmp_path / "trained", "ippo", file)
    ship(protocol, file, monkeypatch)
    coopbench.evaluate(protocol, ["ippo"], tmp_path / "played", only=True)
    place = pack_own_scores(protocol, tmp_path / "played", file)
    one, two, played = (tmp_path / name for name in ("one", "two", "played"))
    coopbench.evaluate(protocol, ["random"], one)
    coopbench.evaluate(protocol, ["tit_for_tat"], two)
    for folders, verified in (
        ([one, two], "0 of 80 episodes"),
        ([one, one], "0 of 80 episodes"),
        ([one, played], "all episodes"),
        ([played, one], "all episodes"),
    ):
        board = coopbench.leaderboard(folders, backend="serial")
        assert board.notes == ()
        (row,) = [row for row in board.rows if row.policy.startswith("ippo")]
        assert (row.policy, row.verified) == ("ippo", verified)
        results = [coopbench.load_report(folder).results for folder in folders]
        assert row.results == tuple(dict.fromkeys(results))
    arrays = dict(unpack(place))
    place.write_bytes(pack(arrays | {"focal/score": arrays["focal/score"] * 1.5}))
    packed_runs.digest_of_shipped.cache_clear()
    coopbench.evaluate(protocol, ["random"], tmp_path / "other")
    board = coopbench.leaderboard([tmp_path / "other", played], backend="serial")
    assert len([row for row in board.rows if row.policy.startswith("ippo (")]) == 2


def test_scores_of_another_protocol_stay_out_with_a_reason(scored, tmp_path):
    other = required(tmp_path, count=21)
    report = coopbench.evaluate(other, ["random"])
    (note,) = [note for note in report.notes if "shipped scores of ippo are left out" in note]
    assert other.digest[:12] in note


def test_failed_runs_have_no_scores(shipped, tmp_path):
    protocol, _, file = shipped
    models = {"dilemma": {50: trained("dilemma", 50), 51: coopbench.Failed("out of numbers")}}
    results = tmp_path / "results"
    coopbench.evaluate(protocol, [coopbench.TrainedRuns("ippo", models)], results)
    place = pack_own_scores(protocol, results, file)
    report = coopbench.evaluate(protocol, ["random"])
    place.unlink()
    assert {failure.cell.run for failure in report.episodes.failures} == {51}
    assert [block.cell.run for block in report.episodes.runs("focal", "ippo")] == [50]
    shutil.rmtree(results / "focal" / "ippo" / "run-50")
    with pytest.raises(ValueError, match="have not played all tasks"):
        pack_own_scores(protocol, results, file)
