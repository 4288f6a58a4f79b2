"""Results leave as marl-eval JSON and frames, and come back; what is ambiguous is refused."""

import copy
import dataclasses
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from builders import make_block

import coopbench
from coopbench import exchange
from coopbench.analysis.score_matrix import score_scales
from coopbench.episodes.table import Cell, EpisodeTable, Progress
from coopbench.exchange import import_results
from coopbench.exchange.marl_eval_import import read_marl_eval
from coopbench.protocol.loading import ad_hoc
from coopbench.report.report import Report

GOLDEN = Path(__file__).parent / "golden" / "statistics.json"
TASK = "trustdilemma-v0"
LEARNERS = ("IPPO", "QMIX")


def _block(policy, run, returns):
    count = len(returns)
    return make_block(
        Cell(TASK, policy, run),
        np.stack([returns / 3.0, returns * 2.0 / 3.0], axis=1),
        agents=("a", "b"),
        seeds=np.arange(count, dtype=np.uint64) + np.uint64(2**63),
        lengths=np.full(count, 7),
        terminated=np.arange(count) % 2 == 0,
        metrics={"trust": returns / 7.0, "gap": np.where(np.arange(count) == 1, np.nan, 0.1)},
    )


def _report(*blocks, progress=()):
    table = EpisodeTable(tuple(blocks), tuple(progress))
    return Report(ad_hoc("TrustDilemma-v0", 3), table)


@pytest.fixture
def learned():
    """Two learners with two runs of three checkpoints, and a fixed policy."""
    rng = np.random.default_rng(5)
    cells = [(name, run) for name in LEARNERS for run in (11, 12)]
    blocks = [_block(name, run, rng.normal(10, 2, 6)) for name, run in cells]
    progress = [
        Progress(
            Cell(TASK, name, run),
            np.array([10, 20, 40]),
            {"return": rng.normal(8, 2, (3, 4)), "trust": rng.random((3, 4))},
        )
        for name, run in cells
    ]
    return _report(*blocks, _block("random", None, rng.normal(5, 1, 6)), progress=progress)


@pytest.fixture(scope="module")
def golden():
    return json.loads(GOLDEN.read_text(encoding="utf-8"))["marl_eval_pipeline"]


def _raw():
    """A small file in the format: two algorithms, two runs, two evaluations."""
    run = {
        "step_1": {"step_count": 10, "elapsed_time": 0.5, "return": [1.0, 2], "won": [0.5]},
        "step_2": {"step_count": 20, "elapsed_time": 0.9, "return": [3.0, 2.5], "won": [0.5]},
        "absolute_metrics": {"return": [4.0, 4.5, 5.0], "won": [1.0]},
    }
    runs = {"seed_0": run, "seed_1": copy.deepcopy(run)}
    return {"Hills": {"up": {"IPPO": runs, "QMIX": copy.deepcopy(runs)}}}


def _written(tmp_path, content):
    file = tmp_path / "results.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


# --- out -----------------------------------------------------------------------------------------


def test_what_is_exported_comes_back_bit_for_bit(learned, tmp_path):
    file = tmp_path / "out.json"
    notes = exchange.save_marl_eval(
        learned, file, policies={"IPPO": "IPPO", "QMIX": "mine"}, metrics=["return", "trust"]
    )
    assert notes == ()
    results = read_marl_eval(file).runs
    assert {run.environment for run in results} == {"ad-hoc-v1"}
    assert list(dict.fromkeys(run.algorithm for run in results)) == ["IPPO", "mine"]
    for run, block, progress in zip(
        results, learned.episodes.blocks[:4], learned.episodes.progress, strict=True
    ):
        assert run.name == f"seed_{block.cell.run}"
        assert [part.step for part in run.evaluations] == progress.steps.tolist()
        np.testing.assert_array_equal(run.absolute["return"], block.returns.sum(axis=1))
        np.testing.assert_array_equal(run.absolute["trust"], block.metrics["trust"])
        for name in ("return", "trust"):
            values = [part.samples[name] for part in run.evaluations]
            np.testing.assert_array_equal(values, progress.metrics[name])


@pytest.mark.parametrize("name", ["out.json", "episodes.csv", "frame"])
def test_learned_and_fixed_policies_come_back_from_one_file(learned, tmp_path, command, name):
    """A policy without training is a fixed one, whose unit is the episode."""
    file = tmp_path / name
    frame = learned.to_frame()
    if name == "out.json":
        exchange.save_marl_eval(learned, file)
    else:
        frame.to_csv(tmp_path / "episodes.csv", index=False)
    report = import_results(frame if name == "frame" else file)
    units = {row.policy: (row.unit, row.count) for row in report.estimates}
    assert units == {**dict.fromkeys(LEARNERS, ("runs", 2)), "random": ("episodes", 6)}
    returns = {block.cell: block.team_returns.tolist() for block in report.episodes}
    assert returns == {block.cell: block.team_returns.tolist() for block in learned.episodes}
    if name != "frame":
        assert "QMIX" in command("import", file, "--metric", "return").out


def test_one_trained_model_comes_back_as_a_run_of_a_learner(learned, tmp_path):
    """It has no rank and no decision, unlike a fixed policy."""
    rng = np.random.default_rng(3)
    blocks = [_block(name, None, rng.normal(10 * k, 1, 6)) for k, name in enumerate(("net", "up"))]
    table = EpisodeTable(tuple(blocks), bare={"net": "torch"})
    report = Report(ad_hoc("TrustDilemma-v0", 3), table)
    content = exchange.to_marl_eval(report)
    runs = {name: runs["run_0"] for name, runs in content["ad-hoc-v1"][TASK].items()}
    assert {name: list(parts) for name, parts in runs.items()} == {
        "net": ["absolute_metrics"],
        "up": ["step_0", "absolute_metrics"],
    }
    assert f"ad-hoc-v1 / {TASK} / net has a run without steps" in exchange.obstacles(content)
    frame = report.to_frame()
    assert frame[frame.policy == "net"]["run"].tolist() == [0] * 6
    assert frame[frame.policy == "up"]["run"].isna().all()
    file = tmp_path / "out.json"
    exchange.save_marl_eval(report, file)
    for source in (file, frame):
        back = import_results(source)
        units = {row.policy: (row.unit, row.count, row.episodes) for row in back.estimates}
        assert units == {"net": ("runs", 1, 6), "up": ("episodes", 6, 6)}
        assert [row.decided for row in back.comparisons] == [False]
        assert [row.basis for row in back.comparisons] == [row.basis for row in report.comparisons]


def _constant(**metrics):
    """Return a run of a policy without training, with the same values at step 0 and in the end."""
    return {"run_0": {"step_0": {"step_count": 0, **metrics}, "absolute_metrics": metrics}}


def test_the_episodes_of_a_fixed_policy_are_the_values_of_its_score(tmp_path):
    """Neither does one value count as many, nor do many values of another metric."""
    won = [1.0] * 60 + [0.0] * 40
    tasks = {
        "t": {name: _constant(score=[v], won=won) for name, v in (("a", 0.5), ("b", 0.4))},
        "u": {name: _constant(score=won, won=[0.25]) for name in "ab"},
    }
    report = import_results(_written(tmp_path, {"e": tasks}), "score", "given")
    rows = {(row.task, row.metric): row for row in report.estimates if row.policy == "a"}
    found = {key: (row.count, row.episodes, row.mean) for key, row in rows.items()}
    assert found == {
        ("t", "score"): (1, 1, 0.5),
        ("t", "won"): (1, 1, 0.6),
        ("u", "score"): (100, 100, 0.6),
        ("u", "won"): (1, 1, 0.25),
    }
    widths = {key for key, row in rows.items() if row.high - row.low > 0}
    assert widths == {("u", "score")}
    (alone,) = [row for row in report.comparisons if row.task == "t"]
    assert (alone.decided, math.isnan(alone.p_value)) == (False, True)
    text = "a / run_0 has 100 values of won and 1 of score: the mean of won counts as one value."
    assert [note for note in report.notes if "/ t / a" in note] == [
        f"Left out or changed: e / t / {text}"
    ]


def test_values_that_a_file_lacks_are_not_made_up(tmp_path):
    """An import has as many values of every metric as the file, and exports these."""
    raw = _raw()
    report = import_results(_written(tmp_path, raw), scale="given")
    counts = {(row.policy, row.metric): (row.count, row.episodes) for row in report.estimates}
    assert counts == {
        **dict.fromkeys(((name, "return") for name in ("IPPO", "QMIX")), (2, 6)),
        **dict.fromkeys(((name, "won") for name in ("IPPO", "QMIX")), (2, 2)),
    }
    content = exchange.to_marl_eval(report, metrics=["return", "won"])
    for name, runs in content["imported-v1"]["up"].items():
        for run, parts in runs.items():
            (step_0, step_1, final), wanted = parts.values(), raw["Hills"]["up"][name][run]
            assert final == wanted["absolute_metrics"]
            for part, source in ((step_0, "step_1"), (step_1, "step_2")):
                assert part == {k: v for k, v in wanted[source].items() if k != "elapsed_time"}


def test_whole_steps_may_be_spelled_as_floats(tmp_path):
    raw = _raw()
    raw["Hills"]["up"]["IPPO"]["seed_0"]["step_1"]["step_count"] = 10.0
    (run, *_) = read_marl_eval(_written(tmp_path, raw)).runs
    assert [repr(part.step) for part in run.evaluations] == ["10", "20"]


def test_the_export_avoids_what_marl_eval_trips_over(learned):
    content = exchange.to_marl_eval(learned, {"random": "random"}, ["return", "own_return"])
    (run,) = content["ad-hoc-v1"][TASK]["random"].values()
    # It reads no run without a step, takes the absolute metrics from the end, and loses a metric
    # with the name of a normalised one between underscores.
    assert list(run) == ["step_0", "absolute_metrics"]
    assert run["step_0"] == {"step_count": 0, **run["absolute_metrics"]}
    assert list(run["absolute_metrics"]) == ["return", "own-return"]
    assert exchange.obstacles(content) == ()
    mixed = exchange.to_marl_eval(learned)
    assert [note for note in exchange.obstacles(mixed) if "random has other runs" in note]
    del mixed["ad-hoc-v1"][TASK]["random"]
    assert exchange.obstacles(mixed) == ()
    assert exchange.obstacles(mixed | {"more": {}}) != ()


def test_names_of_exports_may_be_a_list_or_a_text(learned):
    listed = exchange.to_marl_eval(learned, ["random"], "return")
    assert listed == exchange.to_marl_eval(learned, {"random": "random"}, ["return"])
    assert exchange.to_marl_eval(learned, "random") == exchange.to_marl_eval(learned, ["random"])


@pytest.mark.parametrize(
    ("names", "metrics", "message"),
    [
        ({"IPPO": "qmix", "QMIX": "QMIX"}, None, "'qmix' and 'QMIX' differ.*another with"),
        ({"IPPO": "a,b"}, None, "'a,b' has a comma.*another with"),
        ({"IPPO": "x", "QMIX": "x"}, None, "Two policies are to be called 'x'"),
        ({"IPO": "x"}, None, "Unknown policy 'IPO'.*Did you mean 'IPPO'"),
        (None, ["gap"], "gap is undefined in 1 of 6 episodes"),
        ({"IPPO": "IPPO"}, ["fairness"], "Unknown metric 'fairness' in the checkpoints"),
        ({"IPPO": "IPPO"}, ["retrun"], "Did you mean 'return'"),
        ({}, None, "Nothing to export"),
    ],
)
def test_exports_that_are_refused(learned, names, metrics, message):
    with pytest.raises(ValueError, match=message):
        exchange.to_marl_eval(learned, names, metrics)


# --- in ------------------------------------------------------------------------------------------


def test_recorded_normalisation_scores_and_curves(golden, tmp_path):
    file = _written(tmp_path, golden["raw"])
    report = import_results(file)
    for name, tasks in report.scores.items():
        wanted = golden["absolute_matrices"]["mean_norm_return"][name.lower()]
        np.testing.assert_allclose(np.stack(list(tasks.values()), axis=1), wanted, rtol=1e-12)
    for metric, key in (("return", "mean_norm_return"), ("win_rate", "mean_win_rate")):
        report = import_results(file, metric, scale="minmax" if metric == "return" else "given")
        scales = score_scales(report.protocol, report.episodes)
        for row in report.learning:
            if not row.task:
                continue
            assert row.steps.tolist() == [10_000, 20_000, 30_000, 40_000, 50_000]
            task = [task.id for task in report.protocol.task].index(row.task)
            tensor = np.array(golden["sample_tensors"][key][row.policy.lower()])[:, task]
            shown = scales[row.task].normalise(row.estimate)
            np.testing.assert_allclose(shown, tensor.mean(axis=0), rtol=1e-12)


def test_missing_and_partial_runs_are_listed_never_filled(tmp_path):
    raw = _raw()
    raw["Hills"]["down"] = copy.deepcopy(raw["Hills"]["up"])
    del raw["Hills"]["down"]["IPPO"]["seed_1"]
    del raw["Hills"]["up"]["QMIX"]["seed_0"]["step_2"]
    raw["Hills"]["up"]["QMIX"]["seed_1"]["absolute_metrics"] = {}
    report = import_results(_written(tmp_path, raw))
    missing = {(m.task, m.policy, m.run): m.state for m in report.missing_runs}
    assert missing == {
        ("down", "IPPO", 1): "missing",
        ("up", "QMIX", 0): "partial",
        ("up", "QMIX", 1): "missing",
    }
    counts = {(row.task, row.policy): row.count for row in report.estimates}
    assert counts == {
        ("up", "IPPO"): 2,
        ("up", "QMIX"): 1,
        ("down", "IPPO"): 1,
        ("down", "QMIX"): 2,
    }
    del raw["Hills"]["down"]["IPPO"]
    report = import_results(_written(tmp_path, raw))
    assert {row.policy for row in report.aggregates} == {"QMIX"}  # the other lacks a task
    assert any("IPPO lacks the tasks down" in reason for reason in report.deviations)


def test_algorithms_without_absolute_metrics_are_left_out_by_name(tmp_path):
    raw = _raw()
    for run in raw["Hills"]["up"]["QMIX"].values():
        del run["absolute_metrics"]
    report = import_results(_written(tmp_path, raw))
    assert any("QMIX, whose runs have no absolute metrics" in note for note in report.notes)
    assert {row.policy for row in report.learning} == {"IPPO"} == {*report.scores}
    report.save(tmp_path / "report")
    for run in raw["Hills"]["up"]["IPPO"].values():
        del run["absolute_metrics"]
    with pytest.raises(ValueError, match="Nothing is left to compare: IPPO, whose runs have no"):
        import_results(_written(tmp_path, raw))


def test_environments_are_groups_of_tasks(tmp_path):
    """Metrics that one environment has alone are shown of its tasks; one value stands for all."""
    raw = _raw()
    raw["Dunes"] = copy.deepcopy(raw["Hills"])
    for run in (run for runs in raw["Dunes"]["up"].values() for run in runs.values()):
        for part in run.values():
            part["length"] = part.pop("won")
    report = import_results(_written(tmp_path, raw))
    assert {g: [t.id for t in ts] for g, ts in report.protocol.groups.items()} == {
        "hills": ["hills-up"],
        "dunes": ["dunes-up"],
    }
    shown = {(row.task, row.metric): row.mean for row in report.estimates if row.policy == "IPPO"}
    assert shown == {
        ("hills-up", "return"): 4.5,
        ("hills-up", "won"): 1.0,
        ("dunes-up", "return"): 4.5,
        ("dunes-up", "file_length"): 1.0,
    }
    won = import_results(_written(tmp_path, raw), "won", scale="given")
    assert [task.id for task in won.protocol.task] == ["up"]
    assert any("Dunes has no won" in note for note in won.notes)
    with pytest.raises(ValueError, match=r"played by another program.*nothing can"):
        coopbench.evaluate(report.protocol, ["random"])


def test_names_that_give_one_id_are_numbered(tmp_path):
    up = _raw()["Hills"]["up"]
    for raw, ids in (
        ({"E": {"level 2": up, "level": up, "level!": up}}, {"": ["level-2", "level", "level-3"]}),
        ({"E": {"m" * 200: up}}, {"": ["m" * 90]}),
        ({"环境一": {"m": up}, "环境二": {"m": up}}, {"task": ["m"], "task-2": ["m-2"]}),
    ):
        groups = import_results(_written(tmp_path, raw)).protocol.groups
        assert {name: [task.id for task in tasks] for name, tasks in groups.items()} == ids


def test_absolute_metrics_that_are_highest_values_are_called_optimistic(tmp_path):
    raw = _raw()
    optimistic = "equals the highest of its evaluations"
    assert optimistic not in " ".join(import_results(_written(tmp_path, raw)).notes)
    for runs in raw["Hills"]["up"].values():
        for run in runs.values():
            run["absolute_metrics"] = {"return": [3.0], "won": [0.5]}
    assert optimistic in " ".join(import_results(_written(tmp_path, raw)).notes)
    raw["Hills"]["up"]["QMIX"]["seed_0"]["absolute_metrics"]["return"] = [3.5]  # above all of them
    assert optimistic not in " ".join(import_results(_written(tmp_path, raw)).notes)


def _set(*path):
    *front, last, value = path

    def change(raw):
        for name in ("Hills", "up", *front):
            raw = raw[name]
        raw[last] = value

    return change


RUN = ("QMIX", "seed_1")
AT = "Hills / up / QMIX / seed_1"
PART = '{"absolute_metrics": {"return": [1]}}'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            _set(*RUN, "step_1", "return", [1.0, math.nan]),
            f"{AT} / step_1 / return / 1: .*finite.*given nan",
        ),
        (_set(*RUN, "step_1", "return", [10**400, 1]), "return / 0: .*valid number.*given 10{37}"),
        (_set(*RUN, "step_1", "return", [True, 1.0]), "return / 0: .* a valid number .given True"),
        (_set(*RUN, "step_1", "return", 1.0), r"return: .* a valid list .given 1\.0"),
        (_set(*RUN, "step_1", {"step_count": 10}), "step_1 has no metric"),
        (_set(*RUN, "step_1", "step_count", 0.5), r"step_count: .* a valid integer .given 0\.5"),
        (_set(*RUN, "step_1", "step_count", 1e19), r"step_count: .*less than .*given 1e\+19"),
        (_set(*RUN, "step_1", "step_count", True), "step_count: .* a valid integer .given True"),
        (_set(*RUN, "step_1", {"return": [1.0]}), "step_1: step_count is None; allowed"),
        (_set(*RUN, "step_1", "return", []), "return: .* at least 1 item"),
        (_set(*RUN, "step_2", "step_count", 10), f"{AT} / step_2: step_count is 10;.*above 10"),
        (_set(*RUN, "absolute_2", {}), "has absolute_metrics, absolute_2; allowed: one"),
        (_set(*RUN, [1]), f"{AT}: .* a valid dictionary; JSON of marl-eval has"),
        (_set("QMIX", {}), "QMIX: .* at least 1 item.*; JSON of marl-eval has .*/ run /"),
    ],
)
def test_strict_reading_names_the_place(tmp_path, change, message):
    raw = _raw()
    change(raw)
    with pytest.raises(ValueError, match=message):
        read_marl_eval(_written(tmp_path, raw))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 200_000, "nested too deeply"),
        ("[]", r"json: .* a valid dictionary; JSON of marl-eval has environment /"),
        ('{"e": {"t": {"A": {"r": {}, "r": {}}}}}', "an object has 'r' twice; remove one"),
        ('{"e": {"t": {"A": {"r": {}}}}}', "A / r: .* at least 1 item"),
        (f'{{"": {{"t": {{"A": {{"r": {PART}}}}}}}}}', "name of the environment is empty; name it"),
        (f'{{"e": {{" ": {{"A": {{"r": {PART}}}}}}}}}', "name of the task is empty; name it"),
        (f'{{"e": {{"t": {{"": {{"r": {PART}}}}}}}}}', "name of the algorithm is empty; name it"),
        ("{", r"results\.json is not JSON"),
        ("1" * 5000, "cannot be read: Exceeds the limit"),
    ],
)
def test_hostile_files_get_an_error(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_marl_eval(_written(tmp_path, text))


def test_scores_need_a_range_and_a_known_ending(tmp_path):
    raw = _raw()
    with pytest.raises(ValueError, match=r"Unknown metric 'retrn' in .*results\.json"):
        import_results(_written(tmp_path, raw), "retrn")
    for run in (run for runs in raw["Hills"]["up"].values() for run in runs.values()):
        for part in run.values():
            part["won"] = [0.0]
    raw["Hills"]["up"]["ippo"] = raw["Hills"]["up"]["IPPO"]
    with pytest.raises(ValueError, match="algorithms 'IPPO' and 'ippo' differ in upper and lower"):
        import_results(_written(tmp_path, raw))
    del raw["Hills"]["up"]["ippo"]
    with pytest.raises(ValueError, match="environments 'Hills' and 'hills' differ in upper and"):
        import_results(_written(tmp_path, raw | {"hills": {"down": raw["Hills"]["up"]}}))
    with pytest.raises(ValueError, match=r"Hills / up, where every won is 0 and gives no scale"):
        import_results(_written(tmp_path, raw), "won")
    (tmp_path / "scores.txt").touch()
    with pytest.raises(ValueError, match=r"scores\.txt is of no kind that can be imported"):
        import_results(tmp_path / "scores.txt")


def test_evaluations_unlike_others_are_left_out_by_name(tmp_path):
    """One with fewer values, one without the score, and a metric that one run alone has."""
    raw = _raw()
    runs = raw["Hills"]["up"]
    runs["QMIX"]["seed_0"]["step_1"]["return"] = [1.0]
    runs["QMIX"]["seed_1"]["absolute_metrics"] = {"won": [1.0]}
    for part in runs["IPPO"]["seed_0"].values():
        part["extra"] = [1.0]
    report = import_results(_written(tmp_path, raw))
    notes = " ".join(report.notes)
    for text in (
        "QMIX / seed_0 / step 10 has 1 values of return, most have 2",
        "QMIX / seed_1 / absolute_metrics lacks return",
        "some evaluations lack extra",
    ):
        assert text in notes
    assert {(m.policy, m.run, m.state) for m in report.missing_runs} == {
        ("QMIX", 0, "partial"),
        ("QMIX", 1, "missing"),
    }
    assert "extra" not in {row.metric for row in report.estimates}


# --- CSV and pandas ------------------------------------------------------------------------------


def test_progress_as_a_frame(learned):
    first = learned.episodes.progress[0]
    odd = dataclasses.replace(first, metrics={"return": first.metrics["return"] * np.nan})
    table = dataclasses.replace(learned.episodes, progress=(*learned.episodes.progress, odd))
    report = dataclasses.replace(learned, episodes=table)
    frame = report.to_frame("progress")
    assert list(frame) == ["task", "policy", "run", "step", "episode", "return", "trust"]
    assert len(frame) == 5 * 3 * 4
    assert frame["trust"].isna().sum() == 12
    ours = frame[(frame.policy == "QMIX") & (frame.run == 12) & (frame.step == 40)]
    wanted = table.progress[3].metrics["return"][2]
    np.testing.assert_array_equal(ours["return"], wanted)
    assert frame.iloc[0].tolist()[:5] == [TASK, "IPPO", 11, 10, 0]
    assert len(_report().to_frame("progress")) == 0


def test_frames_of_a_report(learned, monkeypatch):
    frame = learned.to_frame()
    parts = list(learned.episodes.columns())
    assert list(frame) == list(parts[0])
    for name in ("return", "seed"):
        assert frame[name].tolist() == [value for part in parts for value in part[name]]
    assert frame["run"].isna().sum() == 6
    assert "p_holm" in learned.to_frame("comparisons")
    assert len(_report().to_frame()) == 0
    with pytest.raises(ValueError, match=r"Unknown table 'estimate' in a report.*'estimates'"):
        learned.to_frame("estimate")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install \"\.\[pandas\]\""):
        learned.to_frame()


# --- command line --------------------------------------------------------------------------------


def test_export_and_import_on_the_command_line(source, tmp_path, command):
    report = coopbench.load_report(source)
    # Of a game that measures more than the toy above.
    refused = command("export", source, "--to", "episodes.csv", status=2)
    assert "to_frame().to_csv('episodes.csv')" in refused.message
    table = tmp_path / "episodes.csv"
    report.to_frame().to_csv(table, index=False)
    assert "imported" in command("import", table).out  # episodes of scripts come back
    refused = command("import", table, "--out", source, status=2)
    assert "holds results of another protocol" in refused.message
    file = tmp_path / "out.json"
    assert "Exported" in command("export", source, "--to", file, "-p", "random=chance").out
    shown = command("import", file, "--out", "imported").out
    assert "chance" in shown
    assert "which does not say what they are" in " ".join(shown.split())
    assert (tmp_path / "imported" / "report.html").is_file()
    run = read_marl_eval(file).runs[0]
    block = report.episodes.of(run.task, "random")
    np.testing.assert_array_equal(run.absolute["return"], block.returns.sum(axis=1))
    assert "Unknown scale 'raw'" in command("import", file, "--scale", "raw", status=2).message
