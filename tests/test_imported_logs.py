"""Logs of other programs as they come: steps that differ or go back, runs that end early, links."""

import re

import numpy as np
import pytest
from test_imports import log

from coopbench.exchange import import_results
from coopbench.report.markdown import as_markdown
from coopbench.report.sections import checklist


@pytest.fixture
def file(tmp_path):
    return tmp_path / "scores.csv"


def irregular(extra=()):
    """Write logs of three runs of two algorithms: all begin at step 0, no other step is shared."""
    lines = ["algorithm,task,run,step,return"]
    for k, (name, run) in enumerate((name, run) for name in "ab" for run in range(3)):
        steps = [0, *(100 * n + k for n in range(1, 11))]
        lines += [f"{name},t,{run},{step},{step / 100 + run}" for step in steps]
    return "\n".join([*lines, *extra])


def finals(report):
    return {(b.cell.policy, b.cell.run): b.team_returns.tolist() for b in report.episodes}


def test_step_0_and_a_run_that_crashed_there_do_not_decide_how_others_are_judged(file):
    file.write_text(irregular())
    alone = import_results(file)
    assert "values are means over" in " ".join(alone.notes)
    file.write_text(irregular(["b,t,3,0,0.5"]))
    report = import_results(file)
    text = " ".join(report.notes)
    assert "t / b / 3, which ends at step 0, others at about 1002" in text
    assert finals(report) == finals(alone)


def test_a_policy_that_was_not_trained_keeps_its_values_beside_averaged_logs(file):
    """Three values at step 0, where runs have one value for each evaluation."""
    file.write_text(irregular(f"random,t,0,0,{value}" for value in (0.25, 0.5, 0.75)))
    report = import_results(file)
    assert finals(report)["random", None] == [0.25, 0.5, 0.75]
    assert list(report.scores) == ["a", "b", "random"]
    assert not any("seeds" in reason for reason in report.deviations)
    text = " ".join(report.notes)
    assert "random, " not in text
    assert "completed. Policies that were not trained are judged by all of their values." in text
    assert "over a part of the training, or value of a policy that was not trained: they" in text
    steps = [f"{n},t,{r},{s},{s + r}" for n in "ab" for r in range(3) for s in (10, 20)]
    rows = [f"random,t,0,0,{value}" for value in (1, 2, 3)]
    file.write_text("\n".join(["algorithm,task,run,step,return", *steps, *rows]))
    report = import_results(file)
    assert finals(report)["random", None] == [1, 2, 3]
    assert "values are means" not in " ".join(report.notes)


def test_the_run_that_ends_first_is_named_where_all_are_judged_by_its_steps(file):
    lines = irregular().splitlines()
    cut = [row for row in lines if row.startswith("b,t,1,") and int(row.split(",")[3]) > 650]
    shorter = [row for row in lines if row not in cut]
    file.write_text("\n".join(shorter))
    note = next(note for note in import_results(file).notes if "values are means" in note)
    assert re.search(r"of the first 604 steps, where b / 1 ends; the longest run has 1005\.$", note)


def test_steps_that_go_back_are_named(file):
    """A session began again at 500 and played 600 and 800; step 1000 is of the one before."""
    head, steps = "algorithm,task,run,step,return", (0, 250, 500, 750, 1000, 600, 800)
    rows = [f"a,t,{run},{step},{step + run}" for run in range(2) for step in steps]
    file.write_text("\n".join([head, *rows]))
    report = import_results(file)
    (note,) = [note for note in report.notes if "go back" in note]
    assert note == (
        "Left out or changed: the order of a / t / 0, and 1 other runs, whose steps go back "
        f"({file}, line 7, from step 1000 to 600): all rows count, by rising step; leave out what "
        "a later session has replaced."
    )
    (curve,) = [row for row in report.learning if row.task == "t"]
    assert curve.steps.tolist() == [0, 250, 500, 600, 750, 800, 1000]
    file.write_text("\n".join([head, *sorted(rows, key=lambda row: int(row.split(",")[3]))]))
    assert "go back" not in " ".join(import_results(file).notes)


def test_an_algorithm_of_which_nothing_is_left_is_named_first(file):
    """Half of the algorithms have three values in each evaluation, the others one."""
    lines = ["algorithm,task,run,step,return"]
    for name, count in (("a", 1), ("b", 1), ("c", 3), ("d", 1)):
        for run, step in ((run, step) for run in range(9) for step in range(10, 110, 10)):
            lines += [f"{name},t,{run},{step},{step + run + k}" for k in range(count)]
    file.write_text("\n".join(lines))
    report = import_results(file)
    changed = [note for note in report.notes if note.startswith("Left out")]
    assert changed[0] == "Left out or changed: c, all of its runs."
    assert changed[1] == (
        "Left out or changed: scores / t / c / 0 / step 10 has 3 values of return, most have 1, as "
        "9 more of it."
    )
    assert len(changed) == 10  # and a line for each run


def test_metrics_do_not_take_the_names_of_columns(file):
    names = ["seed", "seats", "terminated", "policy", "return_team", "step_"]
    values = [",".join(str(run + k / 8) for k in range(6)) for run in (0, 1)]
    rows = [f"{name},t,{run},{values[run]}" for name in "ab" for run in (0, 1)]
    file.write_text("\n".join([f"algorithm,task,run,{','.join(names)}", *rows]))
    frame = import_results(file, "seed", "given").to_frame()
    assert frame["file_seed"].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert frame["file_return_team"].tolist() == [0.5, 1.5, 0.5, 1.5]
    assert "step_" in frame


def test_the_index_of_a_frame_is_no_metric(file):
    rows = [f"{k},a,t,{k},{k}" for k in range(3)]
    file.write_text("\n".join([",algorithm,task,run,score", *rows]))
    report = import_results(file, "score", "given")
    assert report.protocol.report.metrics == ("score",)
    assert "''" not in " ".join(report.notes)
    file.write_text("\n".join([",algorithm,task,run", *(row.rpartition(",")[0] for row in rows)]))
    with pytest.raises(ValueError, match="it has no metric"):
        import_results(file, "score", "given")


def test_names_of_runs_have_one_number_on_all_tasks(file):
    """Alice has not played the second task."""
    lines = ["algorithm,task,run,return", *(f"a,one,{run},1" for run in ("alice", "bob", "carol"))]
    file.write_text("\n".join([*lines, "a,two,bob,2", "a,two,carol,3"]))
    report = import_results(file, scale="given")
    assert [(row.task, row.run) for row in report.missing_runs] == [("two", 0)]
    assert finals(report) == {("a", 0): [1], ("a", 1): [2], ("a", 2): [3]}
    (note,) = [note for note in report.notes if "names of runs" in note]
    assert note.endswith("so that runs are counted: scores / one / a / alice is run 0.")


def test_a_report_of_an_import_claims_nothing_about_seeds_or_a_protocol(file):
    rows = [f"{name},t,{run},{run + k}" for k, name in enumerate("ab") for run in range(3)]
    file.write_text("\n".join(["algorithm,task,run,return", *rows]))
    report = import_results(file)
    states = {item["item"]: item["state"] for item in checklist.items(report)}
    for item in ("Tasks were fixed before the policies", "Raw data of every episode"):
        assert states[item] == "missing"
    assert states["Seeds of training and evaluation are apart"] == "missing"
    assert states["The protocol was followed"] == "not needed"
    text = " ".join(as_markdown(report.document).split())
    assert "Every run has played episodes of its own: the interval is Student's t" in text
    assert "All runs play the same episodes" not in text
    assert "the same for all policies" not in text
    assert "0 and 1 are the lowest and the highest value of each task" in text


def test_links_to_folders_are_named(tmp_path):
    for run in range(2):
        log(tmp_path / "logs" / "a" / "t" / str(run), [(10, 1.0 + run), (20, 2.0)])
        log(tmp_path / "elsewhere" / "t" / str(run), [(10, 1.0), (20, 3.0 + run)])
    (tmp_path / "logs" / "b").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    notes = " ".join(import_results(tmp_path / "logs", "score").notes)
    assert f"{tmp_path / 'logs' / 'b'}, which is a link to a folder" in notes


def test_points_before_step_0_and_folders_called_like_files_are_refused(tmp_path):
    log(tmp_path / "logs" / "a" / "t" / "0", [(-1, 9.0), (10, 1.0), (20, 2.0)])
    report = import_results(tmp_path / "logs", "score")
    (progress,) = report.episodes.progress
    assert progress.steps.tolist() == [10, 20]
    assert np.isfinite(progress.metrics["score"]).all()
    assert any("not finite, before step 0, or replaced" in note for note in report.notes)
    log(tmp_path / "more" / "a" / "t" / "my-tfevents-run", [(10, 1.0)])
    with pytest.raises(ValueError, match=r"my-tfevents-run cannot be read: its path contains 'tf"):
        import_results(tmp_path / "more", "score")


def test_an_unknown_tag_names_the_folders_that_were_not_read(tmp_path):
    """Writers of several lines in one chart put each into a folder of its own."""
    run = tmp_path / "logs" / "a" / "t" / "0"
    log(run, [(10, 1.0)])
    log(run / "charts", [(10, 1.0)])
    with pytest.raises(
        ValueError, match=r"Not read: .*charts, which lies in the folder of another run"
    ):
        import_results(tmp_path / "logs", "reward")
