"""Results leave as marl-eval JSON, CSV and frames, and come back; what is ambiguous is refused."""

import copy
import csv
import dataclasses
import io
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from builders import make_block

import coopbench
from coopbench import exchange
from coopbench.episodes.table import Cell, EpisodeTable, Progress
from coopbench.exchange import ABSOLUTE, inputs, read_marl_eval, summary_table
from coopbench.protocol.loading import ad_hoc
from coopbench.report.data import as_csv
from coopbench.report.report import Report
from coopbench.report.terminal import print_table

GOLDEN = Path(__file__).parent / "golden" / "statistics" / "marl_eval_pipeline.json"
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
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


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
    (results,) = read_marl_eval(file, "best_checkpoint").values()
    assert (results.environment, results.absolute) == ("ad-hoc-v1", "best_checkpoint")
    assert results.missing == ()
    assert results.algorithms == ("IPPO", "mine")
    for run, block, progress in zip(
        results.runs, learned.episodes.blocks[:4], learned.episodes.progress, strict=True
    ):
        assert run.name == f"seed_{block.cell.run}"
        np.testing.assert_array_equal(run.steps, progress.steps)
        np.testing.assert_array_equal(run.absolute["return"], block.returns.sum(axis=1))
        np.testing.assert_array_equal(run.absolute["trust"], block.metrics["trust"])
        for name in ("return", "trust"):
            np.testing.assert_array_equal(run.metrics[name], progress.metrics[name])


def test_learned_and_fixed_policies_come_back_from_one_file(learned, tmp_path, command):
    """A fixed policy has one evaluation, of more episodes than those of the checkpoints."""
    file = tmp_path / "out.json"
    exchange.save_marl_eval(learned, file)
    (results,) = read_marl_eval(file, "best_checkpoint").values()
    (fixed,) = (run for run in results.runs if run.algorithm == "random")
    block = learned.episodes.of(TASK, "random")
    np.testing.assert_array_equal(fixed.absolute["return"], block.returns.sum(axis=1))
    np.testing.assert_array_equal(fixed.metrics["return"], fixed.absolute["return"][None])
    assert f"{TASK} / random / run_0 has 1 of 3 evaluations" in results.missing
    assert {name: len(runs) for name, (runs,) in results.curves()[1].items()} == {
        **dict.fromkeys(LEARNERS, 2),
        "random": 0,
    }
    assert "QMIX" in command("import", file, "--metric", "return").out


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


@pytest.mark.parametrize(
    ("names", "metrics", "message"),
    [
        ({"IPPO": "qmix", "QMIX": "QMIX"}, None, "'QMIX' differs from 'qmix'.*another with"),
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
    results = read_marl_eval(_written(tmp_path, golden["raw"]))["Coop"].normalised()
    assert results.missing == ()
    for key, metric in (("mean_norm_return", "return"), ("mean_win_rate", "win_rate")):
        scores, (steps, curves) = results.scores(metric), results.curves(metric)
        np.testing.assert_array_equal(steps, [10_000, 20_000, 30_000, 40_000, 50_000])
        for name in results.algorithms:
            wanted = golden["absolute_matrices"][key][name.lower()]
            np.testing.assert_array_equal(np.stack(scores[name], axis=1), wanted)
            tensor = golden["sample_tensors"][key][name.lower()]
            np.testing.assert_array_equal(np.stack(curves[name], axis=1), tensor)
    for task, (low, high) in golden["true_min_max"].items():
        mapped = [
            part["return"]
            for run in results.runs
            for part in (run.metrics, run.absolute)
            if run.task == task
        ]
        assert min(part.min() for part in mapped) == 0.0
        assert max(part.max() for part in mapped) == (high - low) / (high - low + 1e-6)


def test_a_table_says_what_it_is(golden, tmp_path):
    from rich.console import Console

    from coopbench.statistics import bootstrap_interval, iqm

    read = read_marl_eval(_written(tmp_path, golden["raw"]), "last")["Coop"]
    normalised = read.normalised()
    rows = normalised.table(reps=200)
    assert {row.absolute for row in rows} == {"last"}
    assert {row.scale for row in rows} == {"minmax"}
    raw = read.table("win_rate", reps=200)
    assert {row.scale for row in raw} == {"given"}
    assert "optimality_gap" in {row.statistic for row in rows}
    assert "optimality_gap" not in {row.statistic for row in raw}  # a gap to what?
    assert len(rows) == 3 * 4
    assert all(row.low < row.estimate < row.high and "4 runs" in row.flag for row in rows)
    assert (rows[0].statistic, rows[0].tasks, rows[0].runs) == ("iqm", 3, 4)
    wanted = bootstrap_interval(normalised.scores()["IPPO"], iqm, method="expanded", reps=200)
    assert (rows[0].estimate, rows[0].low) == (wanted.estimate, wanted.low)
    out = io.StringIO()
    print_table(summary_table(normalised), Console(file=out, width=100))
    for text in ("IPPO", "IQM", ABSOLUTE["last"], "Unit of inference: runs", "compare nothing"):
        assert text in out.getvalue()


def test_missing_and_partial_runs_are_listed_never_filled(tmp_path):
    raw = _raw()
    raw["Hills"]["down"] = copy.deepcopy(raw["Hills"]["up"])
    del raw["Hills"]["down"]["IPPO"]["seed_1"]
    del raw["Hills"]["up"]["QMIX"]["seed_0"]["step_2"]
    raw["Hills"]["up"]["QMIX"]["seed_1"]["absolute_metrics"] = {}
    results = read_marl_eval(_written(tmp_path, raw))["Hills"]
    assert results.missing == (
        "down / IPPO / seed_1 is not in the file",
        "up / QMIX / seed_0 has 1 of 2 evaluations",
        "up / QMIX / seed_1 has no absolute metrics",
    )
    assert [len(runs) for runs in results.scores()["IPPO"]] == [2, 1]
    assert [len(runs) for runs in results.scores()["QMIX"]] == [1, 2]
    assert [runs.shape for runs in results.curves()[1]["QMIX"]] == [(1, 2), (2, 2)]
    del raw["Hills"]["down"]["IPPO"]
    results = read_marl_eval(_written(tmp_path, raw))["Hills"]
    rows = {(row.algorithm, row.statistic): row for row in results.table(reps=200)}
    assert math.isnan(rows["IPPO", "mean"].estimate)
    assert rows["IPPO", "mean"].flag == "no run on down"
    assert rows["QMIX", "mean"].estimate == 4.5
    del raw["Hills"]["up"]["QMIX"]["seed_1"], raw["Hills"]["down"]["QMIX"]["seed_1"]
    assert "QMIX: 1 runs, others have 2" in read_marl_eval(_written(tmp_path, raw))["Hills"].missing


def test_kinds_of_absolute_metric_are_not_mixed(tmp_path):
    raw = _raw()
    with pytest.raises(ValueError, match=r"kind of absolute metric 'best'.*best_checkpoint"):
        read_marl_eval(_written(tmp_path, raw), "best")
    with pytest.raises(ValueError, match=r"IPPO / seed_0: .* no 'max_episode'"):
        read_marl_eval(_written(tmp_path, raw), "max_episode")
    for runs in raw["Hills"]["up"].values():
        for run in runs.values():
            run["absolute_metrics"] = {"return": [3.0], "won": [0.5]}
    file = _written(tmp_path, raw)
    assert read_marl_eval(file, "max_episode")["Hills"].absolute == "max_episode"
    with pytest.raises(ValueError, match="that is 'max_episode', not 'best_checkpoint'"):
        read_marl_eval(file, "best_checkpoint")
    raw["Hills"]["up"]["QMIX"]["seed_0"]["absolute_metrics"]["return"] = [3.5]  # above all of them
    file = _written(tmp_path, raw)
    assert read_marl_eval(file, "best_checkpoint")["Hills"].absolute == "best_checkpoint"
    with pytest.raises(ValueError, match=r"QMIX / seed_0: .* no 'max_episode'"):
        read_marl_eval(file, "max_episode")


def _set(*path):
    *front, last, value = path

    def change(raw):
        for name in ("Hills", "up", *front):
            raw = raw[name]
        raw[last] = value

    return change


RUN = ("QMIX", "seed_1")
AT = "Hills / up / QMIX / seed_1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set(*RUN, "step_1", "return", [1.0, math.nan]), f"{AT} / step_1 / return has nan at"),
        (_set(*RUN, "step_1", "return", [10**400, 1]), "has a huge number at position 0"),
        (_set(*RUN, "step_1", "return", [True, 1.0]), "has True at position 0"),
        (_set(*RUN, "step_1", "return", ["1", 1.0]), "has '1' at position 0"),
        (_set(*RUN, "step_1", "return", 1.0), r"return is 1\.0; allowed: a list"),
        (_set(*RUN, "step_1", "return", []), "return is an empty list"),
        (_set(*RUN, "step_1", "return", [1.0]), f"{AT} / step_1 has 1 values of return, .*IPPO"),
        (_set(*RUN, "step_1", "won ", [1]), "step_1 has the metrics return, won, won , "),
        (_set(*RUN, "step_1", {"step_count": 10}), "step_1 has no metric"),
        (_set(*RUN, "step_2", "step_count", 10), f"{AT} / step_2: step_count is 10 after 10"),
        (_set(*RUN, "step_2", "step_count", 20.0), r"step_count is 20\.0; allowed: a whole"),
        (_set(*RUN, "step_2", "step_count", -1), "step_count is -1"),
        (_set(*RUN, "step_2", "step_count", 10**30), "step_count is a huge number"),
        (_set(*RUN, "absolute_2", {}), "has absolute_metrics, absolute_2; allowed: one"),
        (_set(*RUN, [1]), f"{AT} is a list; allowed: an object"),
        (_set("QMIX", {}), "Hills / up / QMIX has no run"),
        (_set("ippo", {}), "algorithm 'ippo' differs from 'IPPO' in upper and lower case"),
        (_set("IPPO,x", {}), "algorithm 'IPPO,x' has a comma"),
        (_set(" ", {}), "algorithm ' ' has no letters"),
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
        ("", "is not JSON"),
        ("[" * 200_000, "nested too deeply"),
        ("[]", "is an empty list; allowed: an object with a environment each"),
        ('{"e": {"t": {"A": {"r": {"step_1": {"step_count": ' + "1" * 5000, "is not JSON"),
        ('{"e": {"t": {"A": {"r": {}, "r": {}}}}}', "e / t / A has the run 'r' twice"),
        ('{"e": {"t": {"A": {"r": {}}}}}', "holds no run with absolute_metrics"),
        ('{"e": {"t": {"A": {"r": {"absolute": {"x": [1e999]}}}}}}', "has inf at position 0"),
    ],
)
def test_hostile_files_get_an_error(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_marl_eval(_written(tmp_path, text))


def test_names_of_a_file_are_printable(tmp_path):
    text = json.dumps(_raw()).replace("IPPO", "\\u001b[2JIPPO").replace("up", "u\\u202ep")
    (results,) = read_marl_eval(_written(tmp_path, text)).values()
    assert results.algorithms == ("\\x1b[2JIPPO", "QMIX")
    assert results.tasks == ("u\\u202ep",)


def test_files_that_are_none(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"no file .*none\.json"):
        read_marl_eval(tmp_path / "none.json")
    with pytest.raises(ValueError, match="is not a file"):
        read_marl_eval(tmp_path)
    monkeypatch.setattr(inputs, "_LIMIT", 10)
    with pytest.raises(ValueError, match="larger than 10 bytes"):
        read_marl_eval(_written(tmp_path, _raw()))


def test_normalising_needs_a_range_and_is_done_once(tmp_path):
    raw = _raw()
    results = read_marl_eval(_written(tmp_path, raw))["Hills"]
    with pytest.raises(ValueError, match="'return'"):
        results.normalised().normalised()
    with pytest.raises(ValueError, match="Unknown metric 'retrn' in the absolute metrics of Hills"):
        results.scores("retrn")
    raw["Hills"]["up"]["QMIX"]["seed_1"]["step_2"]["step_count"] = 21
    with pytest.raises(ValueError, match=r"Hills / up / QMIX / seed_1 .* other steps.*interp"):
        read_marl_eval(_written(tmp_path, raw))["Hills"].curves()
    for run in (run for runs in raw["Hills"]["up"].values() for run in runs.values()):
        for part in run.values():
            part["won"] = [0.0]
    with pytest.raises(ValueError, match=r"Hills / up: every won is 0\.0"):
        read_marl_eval(_written(tmp_path, raw))["Hills"].normalised("won")


# --- CSV and pandas ------------------------------------------------------------------------------


def test_episodes_come_back_from_csv_byte_for_byte(learned, tmp_path):
    text = as_csv(learned.episodes.rows())
    rows = exchange.read_episodes_csv(_written(tmp_path, text))
    assert as_csv(rows) == text
    for row, wanted in zip(rows, learned.episodes.rows(), strict=True):
        assert {type(row[name]) for name in ("seed", "run")} <= {int, type(None)}
        np.testing.assert_equal(row, wanted)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed", "sed", "first line is no header"),
        ("True", "true", "line 2, column 'terminated' was 'true'; allowed: True or False"),
        (",9223372036854775808,", ",1.5,", "line 2, column 'seed' was '1.5'; allowed: a whole"),
        (",7,", ",7,8,", "line 2 has 14 fields; allowed: 13"),
        (",11,", ",1_1,", "line 2, column 'run' was '1_1'; allowed: a whole number"),
        (",7,", f",{10**400},", "line 2, column 'length' was '1000"),
        ("0.1,", "inf,", "column 'gap' was 'inf'; allowed: a finite number"),
        ("0.1,", "0.1_0,", "column 'gap' was '0.1_0'; allowed: a finite number"),
        ("IPPO", '"IPPO', "cannot be read as CSV"),
    ],
)
def test_damaged_csv_is_refused(learned, tmp_path, old, new, message):
    text = as_csv(learned.episodes.rows())
    assert old in text
    with pytest.raises(ValueError, match=message):
        exchange.read_episodes_csv(_written(tmp_path, text.replace(old, new, 1)))


def test_progress_as_csv_and_as_frame(learned):
    first = learned.episodes.progress[0]
    odd = dataclasses.replace(first, metrics={"return": first.metrics["return"] * np.inf})
    table = dataclasses.replace(learned.episodes, progress=(*learned.episodes.progress, odd))
    report = dataclasses.replace(learned, episodes=table)
    frame = report.to_frame("progress")
    assert list(frame) == ["task", "policy", "run", "step", "episode", "return", "trust"]
    assert len(frame) == 5 * 3 * 4
    assert frame["trust"].isna().sum() == 12
    ours = frame[(frame.policy == "QMIX") & (frame.run == 12) & (frame.step == 40)]
    wanted = table.progress[3].metrics["return"][2]
    np.testing.assert_array_equal(ours["return"], wanted)
    header, *lines = csv.reader(io.StringIO(exchange.progress_csv(table)))
    assert header == list(frame)
    assert lines[0][:5] == [TASK, "IPPO", "11", "10", "0"]
    for line, row in zip(lines, frame.itertuples(index=False), strict=True):
        assert line[:5] == [str(value) for value in row[:5]]
        for text, value in zip(line[5:], row[5:], strict=True):
            assert float(text) == value if text else not math.isfinite(value)
    assert len(_report().to_frame("progress")) == 0


def test_frames_of_a_report(learned, monkeypatch):
    frame = learned.to_frame()
    rows = list(learned.episodes.rows())
    assert list(frame) == list(rows[0])
    np.testing.assert_array_equal(frame["return"], [row["return"] for row in rows])
    assert (frame["seed"].to_numpy() == [row["seed"] for row in rows]).all()
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
    text = as_csv(report.episodes.rows())  # of a game that measures more than the toy above
    assert as_csv(exchange.read_episodes_csv(_written(tmp_path, text))) == text
    assert "Exported" in command("export", source, "--to", "episodes.csv").out
    table = tmp_path / "episodes.csv"
    assert sorted(table.read_text().splitlines()) == sorted(text.splitlines())
    refused = command("export", source, "--to", table, "-p", "random", status=2)
    assert "all policies and metrics" in refused.message
    file = tmp_path / "out.json"
    assert "Exported" in command("export", source, "--to", file, "-p", "random=chance").out
    shown = command("import", file, "--metric", "return", "--absolute", "last").out
    assert "chance" in shown
    assert "absolute metric: last" in " ".join(shown.split())
    (results,) = read_marl_eval(file).values()
    block = report.episodes.of(results.runs[0].task, "random")
    np.testing.assert_array_equal(results.runs[0].absolute["return"], block.returns.sum(axis=1))
    assert "Unknown scale 'raw'" in command("import", file, "--scale", "raw", status=2).message
