"""Results of other programs, from their files to a report."""

import json
import struct
import sys

import builders
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
    # Five runs of one value each: Student's interval, 2.776 standard errors to each side.
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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("algorithm,task,score\n", "is no header of scores: it lacks 'run'. Given: the columns 'a"),
        ("", r"scores\.csv is empty; allowed: a line with the names of columns"),
        ("\n" + HEADER, "it lacks 'algorithm', 'task', 'run'. Given: an empty line"),
        (HEADER.replace(",", ";"), "Given: the columns 'algorithm;task;run;score'. .* with commas"),
        (HEADER.title(), "it lacks 'algorithm', 'task', 'run'. Did you mean 'Algorithm'. Did you"),
        (f"{HEADER.strip()},score,run\n", "no header .*: it has 'run', 'score' more than once"),
        ("algorithm,task,score,score\n", "lacks 'run', and it has 'score' more than once"),
        ("algorithm,task,run\n", "no header of scores: it has no metric. Given: .*'run'. Allowed"),
        ("\x1b,".join("x" * 99 for _ in range(30)), r"'x{40}\.\.\.', 'x.*', 20 more. Allowed"),
        (HEADER, "has a header and no scores"),
        (f"{HEADER}a,one,0\n", "line 2 has 3 fields; allowed: 4"),
        (f"{HEADER.strip()},step\na,one,0,1,0.5\n", "the step is 0.5; allowed: whole numbers"),
        (f"{HEADER}a,one,0,nan\n", "line 2, column 'score' was 'nan'"),
        (f"{HEADER}a,one,0,1_0\n", "line 2, column 'score' was '1_0'"),
        (f"{HEADER},one,0,1\n", "line 2: algorithm is empty"),
        (f"{HEADER}a,one,0,1\na,one,0,2\n", "line 3: run '0' of 'a' on 'one' stands twice, first"),
        (
            "algorithm,task,run,step,episode,score\na,t,0,5,0,1\na,t,0,5,0,2\n",
            r"line 3: .* stands twice \(step 5, episode 0\), first in .*line 2; leave one out",
        ),
        (f'{HEADER}"a,one,0,1\n', "cannot be read as CSV"),
        (f"{HEADER}a,one,0,1\nA,one,0,2\n", "algorithms 'a' and 'A' differ in upper and lower"),
        (f"{HEADER.strip()},episode\na,t,,1,0\na,u,0,1,0\n", "line 3: 'a' has a run here and no"),
    ],
)
def test_what_is_no_table_of_scores_is_refused(tmp_path, content, message):
    file = tmp_path / "scores.csv"
    file.write_text(content)
    with pytest.raises(ValueError, match=message):
        import_results(file, "score")


def test_every_label_has_a_column_of_its_own(file, command):
    def refused(columns):
        words = ("import", file, "--metric", "score", "--columns", columns)
        return command(*words, status=2).message

    assert "each label once; 'algorithm' is named twice" in refused("algorithm=task, algorithm=run")
    assert "allowed: LABEL=NAME" in refused("algorithm= ")
    for columns in ("algorithm=run,run=run", "algorithm=run"):
        assert "column 'run' was given for algorithm and for run; allowed" in refused(columns)
    assert "lacks 'scor'. Did you mean 'score'? Given" in refused("run=scor")


def test_options_of_another_kind_of_source_are_refused(file, tmp_path):
    (tmp_path / "x.json").write_text("{}")
    for source, options, message in (
        (file, {"folders": "{task}/{run}"}, "scores.csv is not read for such files; leave"),
        (tmp_path / "x.json", {"columns": {"run": "seed"}}, "x.json is neither; leave them out"),
        (tmp_path, {"columns": {"run": "seed"}}, "columns go with a .csv file or a data frame"),
    ):
        with pytest.raises(ValueError, match=message):
            import_results(source, "score", **options)


def test_a_column_stands_for_one_label_alone(file):
    """Numbers of episodes can be the steps of a training log."""
    rows = [f"a,t,{run},{episode},{episode + run}" for run in range(2) for episode in range(3)]
    file.write_text("\n".join(["algorithm,task,run,episode,score", *rows]))
    report = import_results(file, "score", columns={"step": "episode"})
    assert [course.steps.tolist() for course in report.episodes.progress] == [[0, 1, 2]] * 2


def test_algorithms_do_not_pass_for_runs_that_ship(file):
    text = file.read_text()
    names = ("MAPPO (ours)", "QMIX+", "a/b", "=x", "(shipped) a", "-", "shipped")
    for name in names:
        file.write_text(text.replace("\na,", f"\n{name},"))
        assert list(import_results(file, "score").scores) == [name, "b"]
    for name in ("ippo (shipped)", "ippo (Shipped)", "x" * 1001):
        file.write_text(text.replace("\na,", f"\n{name},"))
        message = r"of an algorithm in .*scores\.csv (ends in \(shipped\)|has 1,001 characters)"
        with pytest.raises(ValueError, match=message):
            import_results(file, "score")


def test_estimates_count_the_episodes_of_all_runs(file):
    """Every run has played its own."""
    counts = {"a": [100] * 3, "b": [100] * 2, "c": [7]}
    lines = ["algorithm,task,run,episode,score"]
    for name, runs in counts.items():
        for run, count in enumerate(runs):
            number = "" if name == "c" else run
            lines += [f"{name},t,{number},{k},{(k + run) % 9}" for k in range(count)]
    file.write_text("\n".join(lines))
    report = import_results(file, "score", "given")
    found = {row.policy: (row.unit, row.count, row.episodes) for row in report.estimates}
    assert found == {"a": ("runs", 3, 300), "b": ("runs", 2, 200), "c": ("episodes", 7, 7)}


def test_no_column_takes_the_name_of_another(file):
    columns = ["win rate", "win-rate", "length", "file_length", *(55 * "x" + end for end in "ab")]
    rows = [f"{name},t,{run},0,1,2,3,4,5" for name in "ab" for run in range(3)]
    file.write_text("\n".join([f"algorithm,task,run,{','.join(columns)}", *rows]))
    names = ["win-rate", "win-rate", "file_length", "file_length", 55 * "x", 55 * "x"]
    for k, (column, name) in enumerate(zip(columns, names, strict=True)):
        report = import_results(file, column, scale="given")
        assert report.scores["a"]["t"].tolist() == [k, k, k]
        assert report.protocol.report.score == name
        assert len(set(report.protocol.report.metrics)) == 6
        other = columns[k ^ 1]  # of a pair the one that is not the score gets a number
        assert any(f"{other!r} is called {name}-2" in note for note in report.notes)


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


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        ({"a": "run-k3f7 run-zz9 run-ab12", "b": "run-c5 run-d44 run-e6"}, []),  # by chance
        ({"a": "k3f7 zz9 ab12", "b": "c5 d44"}, [("b", 2)]),
        ({"a": "t-0 t-1 t-2", "b": "3 4 5"}, []),
        ({"a": "s7 s8 s9", "b": "s7 s9"}, [("b", 8)]),
        ({"a": "0 1 2 4", "b": "0 1 3 4"}, [("a", 3), ("b", 2)]),  # each lost another one
        ({"a": "0 1 2", "b": "x y z"}, []),
    ],
)
def test_runs_are_missing_at_seeds_that_others_have(file, names, missing):
    """Run names of the second task are those of the first or, where they are ids, others."""
    ids = "k3f7" in names["a"]
    lines = ["algorithm,task,run,return"]
    for task in ("one", "two"):
        for name, runs in names.items():
            for k, run in enumerate(runs.split()):
                lines.append(f"{name},{task},{run}{'1' * (ids and task == 'two')},{k}")
    file.write_text("\n".join(lines))
    found = [(row.task, row.policy, row.run) for row in import_results(file).missing_runs]
    assert found == [(task, *row) for task in ("one", "two") for row in missing]


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


def frame(folder):
    """Return the same as a data frame; run numbers are floats, as pandas makes them with gaps."""
    pandas = pytest.importorskip("pandas")
    file, options = long_table(folder)
    return pandas.read_csv(file).astype({"seed": float}), options


def events(folder, name="{task}__{algorithm}__{run}__17", tensors=False):
    """Write what CleanRL writes; the last record of every file is cut off."""
    for algorithm, task, run in RUNS:
        place = folder / name.format(algorithm=algorithm, task=task, run=run)
        log(place, [(step, score(algorithm, run, step)) for step in STEPS], tensors=tensors)
        (file,) = place.iterdir()
        file.write_bytes(file.read_bytes() + file.read_bytes()[-30:-10])
    return folder, {"folders": "{task}__{algorithm}__{run}__*"}


def log(place, points, *, start=None, tensors=False, suffix=""):
    """Write an event file, as torch's SummaryWriter does it, whose session begins at ``start``."""
    writer = pytest.importorskip("tensorboard.summary.writer.event_file_writer")
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.util.tensor_util import make_tensor_proto

    file = writer.EventFileWriter(str(place), filename_suffix=suffix)
    if start is not None:
        begin = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        file.add_event(event_pb2.Event(step=start, session_log=begin))
    for step, value in points:
        number = {"tensor": make_tensor_proto(value)} if tensors else {"simple_value": value}
        values = [summary_pb2.Summary.Value(tag="score", **number)]
        for tag, tensor in (("text", "lr 3"), ("histogram", [1.0, 2.0])):
            values.append(summary_pb2.Summary.Value(tag=tag, tensor=make_tensor_proto(tensor)))
        values.append(summary_pb2.Summary.Value(tag="loss", simple_value=9.0))
        file.add_event(event_pb2.Event(step=step, summary=summary_pb2.Summary(value=values)))
    file.close()
    if suffix:  # the writer's name ends with a counter, and 10 comes before 9 in one second
        (written,) = place.glob(f"events.*.*{suffix}")
        written.rename(place / f"events.out.tfevents.1{suffix}")


def tensor_events(folder):
    return events(folder, tensors=True)


def one_file_a_run(folder):
    """Write marl-eval JSON as Mava and BenchMARL do, and files that are something else."""
    for algorithm, task, run in RUNS:
        steps = {
            f"step_{k}": {"step_count": step, "score": [score(algorithm, run, step)]}
            for k, step in enumerate(STEPS)
        }
        final = {"absolute_metrics": {"score": [score(algorithm, run, 400)]}}
        place = folder / algorithm / task / str(run)
        (place / ".ipynb_checkpoints").mkdir(parents=True)
        content = {"arena": {task: {algorithm: {f"seed_{run}": steps | final}}}}
        (place / "metrics.json").write_text(json.dumps(content))
        (place / "config.json").write_text('{"lr": 0.1}')
    (place / ".ipynb_checkpoints" / "metrics.json").write_text(json.dumps(content))
    (folder / "cut.json").write_text(json.dumps(content)[:-20])
    return folder, {}


@pytest.mark.parametrize("write", [long_table, frame, events, tensor_events, one_file_a_run])
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
    assert ("last evaluation of each run" in text) == (write != one_file_a_run)
    odd = "u / a / 1 / step 200 has 2 values of score, most have 3"
    assert (odd in text) == (write in (long_table, frame))


def test_an_import_loads_no_policy(file, tmp_path):
    """Nor does a look at names; looking one up loads that one."""
    code = f"""
import sys
from coopbench.baselines import registry
from coopbench.exchange import import_results

def loaded():
    return [name for name, module in sys.modules.items() if hasattr(module, "ENTRY")]

import_results({str(file)!r}, "score").save({str(tmp_path / "report")!r})
assert "always_defect" in registry.entries() and registry.entry_of("a") is None
assert loaded() == [], loaded()
assert registry.entry_of("always_defect").information == "none"
assert loaded() == ["coopbench.baselines.strategies.always_defect"], loaded()
"""
    builders.run_python("-c", code)


def test_what_a_folder_has_beside_runs_is_named(tmp_path):
    folder, options = one_file_a_run(tmp_path)
    text = " ".join(import_results(folder, "score", **options).notes)
    assert "config.json: lr: Input should be a valid dictionary (given 0.1)" in text
    assert "cut.json is not JSON" in text
    assert "metrics.json, which is hidden" in text
    copy = folder / "copy.JSON"
    with pytest.raises(ValueError, match="is not read for such files"):
        import_results(folder, "return", folders="{task}/{run}")
    copy.write_text((folder / "a" / "t" / "0" / "metrics.json").read_text())
    with pytest.raises(ValueError, match=r"metrics\.json and .*copy\.JSON both hold the run arena"):
        import_results(folder, "score", **options)
    with pytest.raises(TypeError, match="source was a dict; allowed: a path, or a DataFrame"):
        import_results({}, "score")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"no \.json file of marl-eval and no event file"):
        import_results(tmp_path / "empty", "score")


@pytest.mark.parametrize(
    ("start", "steps", "kept", "lost"),
    [
        (500, (600, 800), [0, 250, 600, 800], 3),  # it says where it begins
        (None, (600, 800), [0, 250, 500, 600, 800], 2),  # it does not, and goes back
        (None, (1000, 1200), [0, 250, 500, 750, 1000, 1000, 1200], 0),
    ],
)
def test_a_later_session_replaces_what_it_plays_again(tmp_path, start, steps, kept, lost, caplog):
    """A run crashed at step 1000; another session of it is written to the same folder."""
    for run in range(2):
        place = tmp_path / "a" / "coopbench" / "Game-v0" / str(run)
        log(place, [(step, step + run) for step in (0, 250, 500, 750, 1000)], suffix=".0")
        log(place, [(step, 10 * step) for step in steps], start=start, suffix=".1")
    report = import_results(tmp_path, "score", scale="given")
    (course, _) = report.episodes.progress
    assert report.protocol.task[0].parameters == {"task": "coopbench/Game-v0"}
    assert [block.metrics["score"].tolist()[-1] for block in report.episodes] == [10 * kept[-1]] * 2
    assert course.steps.tolist() == sorted(set(kept) - ({1000} if kept.count(1000) > 1 else set()))
    notes = [note for note in report.notes if "later session" in note]
    assert [f"{lost} points of score" in note for note in notes] == [True] * (2 if lost else 0)
    assert not caplog.messages  # of TensorBoard's reader


def test_folders_within_that_of_a_run_are_no_runs(tmp_path):
    """Hyperparameters are written into one, with the last value of a metric."""
    for run in range(2):
        log(tmp_path / "a" / "t" / str(run), [(0, 1.0), (10, 2.0 + run)])
        log(tmp_path / "a" / "t" / str(run) / "17.5", [(10, 9.0)])
    report = import_results(tmp_path, "score", scale="given")
    assert {name: values.tolist() for name, values in report.scores["a"].items()} == {"t": [2, 3]}
    notes = [note for note in report.notes if "17.5, which lies in the folder of another" in note]
    assert len(notes) == 2


@pytest.mark.parametrize("content", [b"\x0b\xff\xff", None])
def test_damaged_event_files_are_errors(tmp_path, content):
    """A record that is no event, and the length of one that would be larger than any memory."""
    reader = pytest.importorskip("tensorboard.compat.tensorflow_stub.pywrap_tensorflow")
    length = struct.pack("<Q", len(content) if content else 1 << 60)
    record = length + struct.pack("<I", reader.masked_crc32c(length)) + (content or b"end")
    if content:
        record += struct.pack("<I", reader.masked_crc32c(content))
    place = tmp_path / "a" / "t" / "0"
    place.mkdir(parents=True)
    (place / "events.out.tfevents.1").write_bytes(record)
    with pytest.raises(ValueError, match=r"event files in .* are damaged"):
        import_results(tmp_path, "score")


def test_event_files_need_a_known_tag_and_tensorboard(tmp_path, monkeypatch):
    folder, options = events(tmp_path)
    log(folder / "only_text", [])
    log(folder / ".trash" / "t__a__0__17", [(900, 99.0)])
    notes = import_results(folder, "score", **options).notes
    assert any("0 points of score in" in note and "only_text" in note for note in notes)
    assert any(".trash" in note and "which is hidden" in note for note in notes)
    with pytest.raises(ValueError, match=r"Unknown metric 'scor' in the scalars of .*'score'"):
        import_results(folder, "scor", **options)
    for tag in ("text", "histogram"):  # tensors, as scalars may be
        with pytest.raises(ValueError, match=f"Unknown metric '{tag}' .*Known: loss, score"):
            import_results(folder, tag, **options)
    monkeypatch.setitem(sys.modules, "tensorboard.backend.event_processing.event_accumulator", None)
    with pytest.raises(ModuleNotFoundError, match="pip install tensorboard"):
        import_results(folder, "score", **options)


def test_episodes_of_the_training_are_averaged_over_equal_parts(file):
    """Two games of one run end episodes in turn; steps are counted over both."""
    lines = ["algorithm,task,run,step,return"]
    for run in range(2):
        for k in range(1, 41):
            lines += [
                f"a,t,{run},{2 * k * (40 + run) - (1 - game)},{10 * k + run}" for game in range(2)
            ]
    lines.append("a,t,2,90,1")
    file.write_text("\n".join(lines))
    report = import_results(file)
    text = " ".join(report.notes)
    assert "means over 20 equal parts of the first 3200 steps" in text
    assert "t / a / 2, which ends at step 90, others at about 3200" in text
    (curve,) = [row for row in report.learning if row.task == "t"]
    assert curve.steps.tolist() == [160 * k for k in range(1, 21)]
    # Of the first run four episodes of 40 steps end in each part: its means are 15, 35, 55 ...
    first = next(p for p in report.episodes.progress if p.cell.run == 0)
    np.testing.assert_allclose(first.metrics["return"][:, 0], 20 * np.arange(20) + 15)


def _irregular(late=True):
    """Return a log of eight runs whose steps differ; one begins where another has ended."""
    lines = ["algorithm,task,run,step,return"]
    for name, run in ((name, run) for name in "ab" for run in range(4)):
        steps = (500, 1000, 1500, 2000) if run % 2 else (480, 970, 1530, 2010)
        steps = {("a", 0): (1600, 2000) if late else steps, ("b", 0): (300, 600, 1100)}.get(
            (name, run), steps
        )
        lines += [f"{name},t,{run},{step},{step / 100 + run}" for step in steps]
    return "\n".join(lines)


def test_a_run_that_begins_after_another_has_ended_is_left_out_by_name(file):
    file.write_text(_irregular())
    report = import_results(file)
    text = " ".join(report.notes)
    assert "t / a / 0, which begins at step 1600, after step 1100, where others end." in text
    assert {name: len(scores["t"]) for name, scores in report.scores.items()} == {"a": 3, "b": 4}
    assert all(np.isfinite(scores["t"]).all() for scores in report.scores.values())
    assert {row.policy for row in report.aggregates} == {"a", "b"}
    # Two parts, which all others have: up to 550 and to 1100.
    assert "means over 2 equal parts of the first 1100 steps" in text
    final = {(b.cell.policy, b.cell.run): b.team_returns.tolist() for b in report.episodes}
    assert final["b", 0] == [(6 + 11) / 2]
    assert final["a", 1] == [10 + 1]
    file.write_text(_irregular(late=False))
    assert "begins at" not in " ".join(import_results(file).notes)


def test_notes_say_which_scores_are_averages(file):
    file.write_text(_irregular(late=False))
    text = " ".join(import_results(file).notes)
    assert "Scores are means over the last part of the training that all runs" in text
    assert "the lowest and highest mean of each task over a part of the training: they" in text
    assert "last evaluation" not in text
    same = [f"{n},u,{r},{s},{s + r}" for n in "ab" for r in range(4) for s in (0, 9)]
    file.write_text("\n".join([_irregular(late=False), *same]))
    text = " ".join(import_results(file).notes)
    assert "last evaluation of each run; where values are averaged, scores are their means" in text
    assert "in this file, or the lowest and highest mean over a part" in text
    file.write_text("\n".join(["algorithm,task,run,step,return", *same]))
    text = " ".join(import_results(file).notes)
    assert "Scores are those of the last evaluation of each run. " in text
    assert "are the lowest and highest value of each task in this file: they" in text


def test_rows_without_a_score_are_listed_unless_they_are_about_another_metric(file):
    """Run 0 diverges after step 20; losses are logged between the evaluations."""
    lines = ["algorithm,task,run,step,score,loss,note"]
    for run, step in ((run, step) for run in range(2) for step in (10, 20, 30, 40)):
        lines += [f"a,t,{run},{step - 5},,0.5,x"]
        lines += [f"a,t,{run},{step},{step + run},,x" if run or step < 30 else f"a,t,0,{step},,,x"]
    file.write_text("\n".join(lines))
    notes = [note for note in import_results(file, "score").notes if "rows without" in note]
    place = "Left out or changed: rows without score of scores / t / a"
    assert notes == [f"{place} / 0: 2, the last at step 40; its last value is at step 20."]
    file.write_text(file.read_text().replace("0,10,10,", "0,10,,").replace("0,20,20,", "0,20,,"))
    notes = import_results(file, "score").notes
    assert f"{place} / 0: 4, the last at step 40; it has no value." in notes


def test_runs_that_end_before_others_are_listed(file):
    """All runs of b, so that none of its own is missing; a policy without training never ends."""
    lines = ["algorithm,task,run,step,return", "fixed,t,0,0,7", "c,t,0,0,1", "c,t,1,0,2"]
    for name, run, step in ((n, r, s) for n in "ab" for r in range(2) for s in (0, 20, 30)):
        lines += [f"{name},t,{run},{step},{step + run}"] if name == "a" or step < 30 else []
    file.write_text("\n".join(lines))
    report = import_results(file)
    assert report.missing_runs == ()
    assert [note for note in report.notes if "ends at" in note] == [
        f"Judged early: scores / t / {name}: the training of 0, 1 ends at step {step}, that of "
        f"others at step 30; scores are compared as they are."
        for name, step in (("c", 0), ("b", 20))
    ]


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


def test_the_largest_scores_have_intervals(file, recwarn):
    rows = [f"{name},t,{run},{run + 1}e69" for name in "ab" for run in range(5)]
    file.write_text(HEADER + "\n".join(rows))
    (row, _) = import_results(file, "score", scale="given").estimates
    assert (row.mean - row.low) / row.mean == pytest.approx(2.776445 * np.sqrt(2.5 / 5) / 3)
    assert not [str(warning.message) for warning in recwarn]
    file.write_text(file.read_text().replace("5e69", "2e70"))
    with pytest.raises(
        ValueError, match=r"score of t.* is 2e[+]70 .*up to 1e[+]70 .*Scale this met"
    ):
        import_results(file, "score")


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        ("{algorithm}-{run}", "does not fit {algorithm}-{run}; name a pattern"),
        ("{algo}__*", "has other braces; allowed: {algorithm}, {task}, {run}, once"),
        ("{task}__{algorithm}__*", "__17 and .*__17 both hold the run .*; .* or tell folders"),
    ],
)
def test_patterns_of_folders_fit_all_runs(tmp_path, folders, message):
    source, _ = events(tmp_path)
    with pytest.raises(ValueError, match=message):
        import_results(source, "score", folders=folders)
