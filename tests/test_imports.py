"""Results of other programs, from their files to a report."""

import json
import struct
import zipfile

import numpy as np
import pytest
from scipy import stats

from coopbench.exchange import import_results

HEADER = "algorithm,task,run,score\n"


@pytest.fixture
def file(tmp_path):
    rows = [
        f"{algorithm},{task},{run},{level + 0.01 * run}"
        for algorithm, level in (("a", 0.5), ("b", 0.2))
        for task in ("one", "two")
        for run in range(5)
    ]
    path = tmp_path / "scores.csv"
    path.write_text(HEADER + "\n".join(rows) + "\n")
    return path


def test_scores_come_back_by_algorithm_and_task(file):
    report = import_results(file, "score", scale="given")
    assert report.missing_runs == ()
    assert list(report.scores) == ["a", "b"]
    np.testing.assert_array_equal(report.scores["b"]["two"], 0.2 + 0.01 * np.arange(5))
    assert [row.estimate for row in report.improvements] == [1.0]
    means = {r.policy: r.estimate for r in report.aggregates if r.statistic == "mean"}
    assert means == pytest.approx({"a": 0.52, "b": 0.22})


def test_a_value_of_a_run_is_one_observation(file):
    """Five runs of one value each: Student's interval, 2.776 standard errors to each side."""
    report = import_results(file, "score", scale="given")
    row = report.estimates[0]
    error = np.std(0.01 * np.arange(5), ddof=1) / np.sqrt(5)
    assert row.high - row.mean == pytest.approx(2.776445 * error)
    assert report.comparisons[0].p_value < 1e-6


def test_the_command_writes_the_report(file, tmp_path, command):
    words = ("--metric", "score", "--scale", "given", "--out", "report")
    assert "report/report.html" in command("import", file, *words).out
    for name in ("report.md", "report.html"):
        text = (tmp_path / "report" / name).read_text()
        assert "nothing is verified" in text
        assert "a vs b" in text


def test_names_of_a_file_do_not_steer_a_terminal(file, tmp_path, command):
    text = file.read_text().replace("a,", "\x1b[31ma,").replace("one", "o\u202ene\t")
    file.write_text(text, encoding="utf-8")
    assert list(import_results(file, "score").scores) == ["\\x1b[31ma", "b"]
    printed = command("import", file, "--metric", "score", "--out", "report").out
    printed += (tmp_path / "report" / "report.md").read_text()
    assert "x1b" in printed
    assert not {"\x1b", "\u202e"} & set(printed)


def test_a_run_on_one_task_only_is_listed(file):
    file.write_text(file.read_text() + "a,one,9,0.5\n")
    missing = import_results(file, "score").missing_runs
    assert ("two", "a", 9) in {(run.task, run.policy, run.run) for run in missing}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("algorithm,task,score\n", "is no header of scores"),
        (HEADER, "has a header and no scores"),
        (f"{HEADER}a,one,0\n", "line 2 has 3 fields; allowed: 4"),
        (f"{HEADER.strip()},step\na,one,0,1,0.5\n", "the step is 0.5; allowed: whole numbers"),
        (f"{HEADER}a,one,0,nan\n", "line 2, column 'score' was 'nan'"),
        (f"{HEADER}a,one,0,1_0\n", "line 2, column 'score' was '1_0'"),
        (f"{HEADER},one,0,1\n", "line 2: algorithm is empty"),
        (f"{HEADER}a,one,0,1\na,one,0,2\n", "line 3: this run of 'a' on 'one' stands twice"),
        (f'{HEADER}"a,one,0,1\n', "cannot be read as CSV"),
        (f"{HEADER}a,one,0,1\nA,one,0,2\n", "algorithm 'A' differs from 'a' in upper and lower"),
        (f"{HEADER.strip()},episode\na,t,,1,0\na,u,0,1,0\n", "line 3: 'a' has a run here and no"),
        ("Step,a_1 - score,a_1 - score\n1,1,2\n", "'a_1' and 'a_1' are both the run '1' of 'a'"),
        ("Step,t__a__1__5 - score,t__a__1__6 - score\n1,1,2\n", "'t__a__1__6' are both the run"),
        ("Step,a_1 - score,a_2 - score\n0.5,1,2\n0.7,3,4\n", "the step is 0.5; allowed: whole"),
    ],
)
def test_what_is_no_table_of_scores_is_refused(tmp_path, content, message):
    file = tmp_path / "scores.csv"
    file.write_text(content)
    with pytest.raises(ValueError, match=message):
        import_results(file, "score")


def test_no_column_takes_the_name_of_another(file):
    columns = ["win rate", "win-rate", "length", "file_length", *(55 * "x" + end for end in "ab")]
    rows = [f"{name},t,{run},0,1,2,3,4,5" for name in "ab" for run in range(3)]
    file.write_text("\n".join([f"algorithm,task,run,{','.join(columns)}", *rows]))
    for k, column in enumerate(columns):
        report = import_results(file, column, scale="given")
        assert report.scores["a"]["t"].tolist() == [k, k, k]
        assert sum(" is called " in note for note in report.notes) == 3  # one of each pair


def test_equal_places_on_two_tasks_are_not_one_episode_or_run(file):
    """Of two fixed policies and a learner, whose values rise on one task and fall on the other."""
    values, lines = np.linspace(0.1, 0.9, 10), ["algorithm,task,run,episode,score"]
    for k, (x, y) in enumerate(zip(values, values[::-1], strict=True)):
        lines += [f"p,one,,{k},{x}", f"p,two,,{k},{y}", f"q,one,,{k},{y}", f"q,two,,{k},{x}"]
        lines += [f"ppo,one,{k},0,{x}", f"ppo,two,{k},0,{y}"]
    file.write_text("\n".join(lines))
    report = import_results(file, "score", scale="given")
    rows = {row.policy: row for row in report.aggregates if row.statistic == "mean"}
    assert {name: row.runs for name, row in rows.items()} == {"p": 0, "q": 0, "ppo": 20}
    half = stats.t.ppf(0.975, 18) * np.sqrt(values.var(ddof=1) / 20)  # two samples of ten
    assert [row.high - row.estimate for row in rows.values()] == pytest.approx([half] * 3)
    assert np.isnan([row.correlation for row in report.comparisons]).all()
    assert report.improvements[0].low < 0.4 < report.improvements[0].estimate


# --- along the training --------------------------------------------------------------------------

RUNS = [(algorithm, task, run) for algorithm in "ab" for task in ("t", "u") for run in range(3)]
STEPS = (100, 200, 400)


def score(algorithm, run, step, episode=0):
    """Return what a run scores: algorithm b learns twice as fast."""
    return (1 + (algorithm == "b")) * step / 100 + run / 8 + episode / 32


def long_table(folder):
    """Write a table with three episodes for each evaluation; one evaluation lacks one of them."""
    lines = ["algo,env,seed,at,score,note"]
    for algorithm, task, run in RUNS:
        for step, episode in ((step, episode) for step in STEPS for episode in range(3)):
            if (algorithm, task, run, step, episode) != ("a", "u", 1, 200, 2):
                value = score(algorithm, run, step, episode)
                lines.append(f"{algorithm},{task},{run},{step},{value},x")
    file = folder / "long.csv"
    file.write_text("\n".join(lines))
    return file, {"columns": {"algorithm": "algo", "task": "env", "run": "seed", "step": "at"}}


def evaluations(folder):
    for algorithm, task, run in RUNS:
        place = folder / algorithm / task / f"seed-{run}"
        place.mkdir(parents=True)
        rows = [[score(algorithm, run, step, k) for k in range(3)] for step in STEPS]
        arrays = {"timesteps": np.array(STEPS), "results": np.array(rows), "ep_lengths": rows}
        np.savez(place / "evaluations.npz", **arrays)
    return folder, {"metric": "return", "names": "{algorithm}/{task}/seed-{run}"}


def varint(number):
    parts = [number >> 7 * k & 127 for k in range(max(1, (number.bit_length() + 6) // 7))]
    return bytes([*(part | 128 for part in parts[:-1]), parts[-1]])


def field(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def event(step, tag, value, *, tensor=False):
    """Return a record of an event file, with a number of TensorBoardX or of TensorFlow 2."""
    number = varint(2 << 3 | 5) + struct.pack("<f", value)
    if tensor:
        number = field(8, field(1, 1) + field(2, b"") + field(4, struct.pack("<f", value)))
    summary = field(5, field(1, field(1, tag.encode()) + number))
    message = varint(1 << 3 | 1) + struct.pack("<d", 0.0) + field(2, step) + summary
    return struct.pack("<Q", len(message)) + bytes(4) + message + bytes(4)


def events(folder):
    for algorithm, task, run in RUNS:
        place = folder / f"{task}__{algorithm}__{run}__17"
        place.mkdir()
        rows = [
            event(step, "score", score(algorithm, run, step), tensor=task == "u") for step in STEPS
        ]
        start, other = event(0, "", 0.0), event(100, "loss", 9.0)
        content = start + other + b"".join(rows) + rows[0][:20]  # the last is being written
        (place / "events.out.tfevents.1").write_bytes(content)
    return folder, {}


def wandb(folder):
    runs = [f"{task}__{algorithm}__{run}" for algorithm, task, run in RUNS]
    header = ["Step", *(f"{run} - score{end}" for run in runs for end in ("", "__MIN"))]
    lines = [",".join(header)]
    for step in STEPS:
        values = [f"{score(algorithm, run, step)},7" for algorithm, _, run in RUNS]
        lines.append(",".join([str(step), *values]))
    file = folder / "wandb.csv"
    file.write_text("\n".join(lines))
    return file, {}


def mlflow(folder):
    for k, (algorithm, task, run) in enumerate(RUNS):
        place = folder / task / f"{k:032}"
        for kind in ("metrics", "params"):
            (place / kind).mkdir(parents=True)
        (place.parent / "meta.yaml").write_text(f"experiment_id: 7\nname: {task}\n")
        (place / "meta.yaml").write_text("status: 3\n")
        (place / "params" / "algorithm").write_text(algorithm)
        (place / "params" / "seed").write_text(str(run))
        lines = [f"0 {score(algorithm, run, step)} {step}" for step in STEPS]
        (place / "metrics" / "score").write_text("\n".join(lines))
    return folder, {}


@pytest.mark.parametrize("write", [long_table, evaluations, events, wandb, mlflow])
def test_scores_along_the_training_become_curves(tmp_path, write):
    source, options = write(tmp_path)
    report = import_results(source, **{"metric": "score"} | options)
    finals = {
        (block.cell.task, block.cell.policy, block.cell.run): block for block in report.episodes
    }
    assert sorted(finals) == sorted((task, algorithm, run) for algorithm, task, run in RUNS)
    for (_, algorithm, run), block in finals.items():
        values = block.metrics["score"] if "score" in block.metrics else block.returns[:, 0]
        wanted = [score(algorithm, run, 400, k) for k in range(len(values))]
        np.testing.assert_allclose(values, wanted)
    curves = {row.policy: row for row in report.learning if row.task == "t"}
    assert {name: tuple(row.steps) for name, row in curves.items()} == {"a": STEPS, "b": STEPS}
    assert [row.estimate for row in report.improvements] == [0.0]
    assert report.profiles
    text = " ".join(report.notes)
    assert "(last)" in text
    odd = "1 of 3 evaluations of u / a / 1, with another number of values than 3"
    assert (odd in text) == (write is long_table)


def test_episodes_of_the_training_are_averaged_over_equal_parts(tmp_path):
    """Two games of one run end episodes in turn; steps are counted over both."""
    for run in range(2):
        place = tmp_path / "a" / "t" / str(run)
        place.mkdir(parents=True)
        for game in range(2):
            rows = [f"{10 * k + run},{40 + run},{k + game / 2}" for k in range(1, 41)]
            head = json.dumps({"t_start": 0.0, "env_id": "x"})
            text = "\r\n".join(["r,l,t", *rows])
            (place / f"{game}.monitor.csv").write_text(f"#{head}\n{text}\r\n")
    report = import_results(tmp_path)
    assert any("means over 20 equal parts of the first 3200 steps" in note for note in report.notes)
    (curve,) = [row for row in report.learning if row.task == "t"]
    assert curve.steps.tolist() == [160 * k for k in range(1, 21)]
    # Of the first run four episodes of 40 steps end in each part: its means are 15, 35, 55 ...
    first = next(p for p in report.episodes.progress if p.cell.run == 0)
    np.testing.assert_allclose(first.metrics["return"][:, 0], 20 * np.arange(20) + 15)


def test_what_cannot_be_compared_is_left_out_by_name(file, tmp_path):
    solved = "".join(f"{name},solved,{run},1.0\n" for name in "ab" for run in range(5))
    file.write_text(file.read_text() + solved)
    report = import_results(file, "score")
    assert [task.id for task in report.protocol.task] == ["one", "two"]
    assert any("solved, where every score is 1" in note for note in report.notes)
    assert len(import_results(file, "score", scale="given").protocol.task) == 3
    file.write_text(HEADER + solved)
    with pytest.raises(ValueError, match=r"Nothing is left to compare: .*solved"):
        import_results(file, "score")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("{algorithm}-{run}", "does not fit {algorithm}-{run}; name a pattern"),
        ("{algo}__*", "has {algo}; allowed: {algorithm}, {task}, {run}, each once"),
    ],
)
def test_patterns_of_names_fit_all_runs(tmp_path, names, message):
    source, _ = events(tmp_path)
    with pytest.raises(ValueError, match=message):
        import_results(source, "score", names=names)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (b"\x0b", "unknown kind 3"),
        (b"\x2a\x7f", "longer than its message"),
        (b"\xff" * 11, "too long"),
        (b"\x80", "out of range"),
    ],
)
def test_damaged_event_files_are_errors(tmp_path, message, words):
    content = struct.pack("<Q", len(message)) + bytes(4) + message + bytes(4)
    (tmp_path / "events.out.tfevents.1").write_bytes(content)
    with pytest.raises(ValueError, match=f"is no event file of TensorBoard: .*{words}"):
        import_results(tmp_path, "score")


@pytest.mark.parametrize("shape", ["(10000000000000,)", "((((((((((((((("])
def test_damaged_evaluations_are_errors(tmp_path, shape):
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    with zipfile.ZipFile(tmp_path / "evaluations.npz", "w") as archive:
        archive.writestr("timesteps.npy", b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text)
    with pytest.raises(ValueError, match=r"is no evaluations.npz: timesteps.npy"):
        import_results(tmp_path, names="{run}")


def test_two_runs_of_mlflow_with_one_seed_are_refused(tmp_path):
    mlflow(tmp_path)
    (tmp_path / "t" / f"{1:032}" / "params" / "seed").write_text("0")
    with pytest.raises(ValueError, match=r"both the run '0' of 'a' on 't'; .* as run=run_id"):
        import_results(tmp_path, "score")
