"""Training runs: the unit of inference of learned policies, their checkpoints and their gaps."""

import shutil
from dataclasses import replace

import builders
import numpy as np
import pytest

import coopbench
from coopbench import statistics
from coopbench.analysis.deviations import missing_runs
from coopbench.analysis.score_matrix import score_scales
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell
from coopbench.errors import ProtocolError
from coopbench.playing.rollout import play
from coopbench.workflows.replay import find_episode

TASKS = {"dilemma": "coopbench/TrustDilemma-v0", "gift": "coopbench/GiftExchange-v0"}
PARTS = {
    "tasks": [builders.make_task(task, env, high=900.0) for task, env in TASKS.items()],
    "train": [100, 101, 102],
    "count": 10,
    "selection": (50, 4),
    "training": builders.make_training(runs=3, episodes=4, steps=300, interval=100),
    "curve": "final_trust",
    "resamples": 200,
    "margin": 0.05,
}
# After 200 and 300 steps the policies are equal: the earlier one counts.
COURSE = coopbench.Checkpoints({100: "constant:0.2", 300: "constant:0.5", 200: "constant:0.5"})
RUNS = {100: COURSE, 101: COURSE, 102: COURSE}


@pytest.fixture(scope="module")
def protocol(tmp_path_factory):
    return builders.small_protocol(tmp_path_factory.mktemp("learned"), "learned", **PARTS)


def models(name="mine", **changed):
    return coopbench.TrainedRuns(name, {task: RUNS | changed.get(task, {}) for task in TASKS})


@pytest.fixture(scope="module")
def results(protocol, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    policies = ["constant:0.35", models(gift={101: "constant:0.8", 102: "random"}), "random"]
    return coopbench.evaluate(protocol, policies, out=folder), folder


def test_the_best_checkpoint_plays_the_evaluation(results, protocol):
    report, folder = results
    courses = report.episodes.progress_of("dilemma", "mine")
    assert [course.cell.run for course in courses] == [100, 101, 102]
    fixed = play(protocol, Cell("dilemma", "constant:0.5"), "constant:0.5")
    for course in courses:
        assert course.steps.tolist() == [100, 200, 300]
        assert course.metrics["return"].shape == (3, 4)
        means = course.metrics["return"].mean(axis=1)
        assert means[1] == means[2] > means[0]
        assert course.best("return") == 1
        meta = builders.edit_meta(folder / course.cell.folder)
        assert (meta["chosen_step"], meta["run"]) == (200, course.cell.run)
        block = report.episodes.of("dilemma", "mine", course.cell.run)
        assert np.array_equal(block.returns, fixed.returns)


def test_the_best_checkpoint_is_that_of_the_best_score(tmp_path):
    """By the return it would be that of 200 steps; agents are equal at all of them."""
    protocol = builders.small_protocol(tmp_path, "learned", **PARTS, score="gini")
    one = builders.first_task(protocol)
    mine = coopbench.TrainedRuns("mine", {"dilemma": RUNS})
    report = coopbench.evaluate(one, ["random", mine], out=tmp_path / "out")
    for course in report.episodes.progress_of("dilemma", "mine"):
        assert not course.metrics["gini"].any()
        assert builders.edit_meta(tmp_path / "out" / course.cell.folder)["chosen_step"] == 100


def test_the_run_is_the_unit(results):
    report, _ = results
    blocks = report.episodes.runs("gift", "mine")
    means = [values(block, "return").mean() for block in blocks]
    row = next(r for r in report.estimates if (r.task, r.policy) == ("gift", "mine"))
    assert (row.count, row.unit, row.metric) == (3, "runs", "return")
    assert (row.mean, row.std) == pytest.approx((np.mean(means), np.std(means, ddof=1)))
    assert np.array_equal(report.scores["mine"]["gift"], np.array(means) / 900.0)
    fixed = next(r for r in report.estimates if r.policy == "random")
    assert (fixed.count, fixed.unit) == (10, "episodes")
    aggregates = {r.statistic: r for r in report.aggregates if r.policy == "mine"}
    scores = [report.scores["mine"][task] for task in TASKS]
    means = np.array([[part.mean() for part in scores]])
    assert aggregates["mean"].estimate == pytest.approx(means.mean())
    assert aggregates["trimmed_mean"].estimate == pytest.approx(statistics.iqm(means))
    assert aggregates["optimality_gap"].estimate == pytest.approx(statistics.optimality_gap(means))
    assert aggregates["iqm"].estimate == pytest.approx(statistics.iqm(scores))
    assert {(r.unit, r.method, r.count) for r in aggregates.values()} == {("runs", "two-way", 3)}
    agents = [r for r in report.agents if (r.task, r.policy) == ("gift", "mine")]
    assert {r.count for r in agents} == {3}


def test_a_report_from_the_folder_equals_the_first(results):
    report, folder = results
    again = coopbench.load_report(folder)
    assert again.episodes.policies == ("constant:0.35", "mine", "random")  # required ones last
    for what in ("estimates", "aggregates", "comparisons"):
        assert getattr(again, what) == getattr(report, what)
    assert again.deviations == report.deviations
    for one, two in zip(report.episodes.progress, again.episodes.progress, strict=True):
        assert one.cell == two.cell
        assert np.array_equal(one.metrics["return"], two.metrics["return"])


def test_missing_runs_are_listed_and_the_others_are_reported(protocol, tmp_path):
    short = coopbench.Checkpoints({100: "constant:0.5"})
    broken = {
        "dilemma": {100: COURSE, 101: coopbench.Failed("the loss was nan at step 120")},
        "gift": {100: COURSE, 101: short, 102: "constant:0.5"},
    }
    policies = ["random", coopbench.TrainedRuns("mine", broken)]
    report = coopbench.evaluate(protocol, policies, out=tmp_path)
    for shown in (report, coopbench.load_report(tmp_path)):
        text = "\n".join(shown.deviations)
        assert "run 101 of mine on dilemma failed: the loss was nan at step 120" in text
        assert "mine lacks the runs 102 on dilemma" in text
        assert "run 101 of mine on gift has 1 checkpoints up to step 100" in text
        assert "the protocol has 3 up to step 300" in text
        assert "run 102 of mine on gift has no checkpoints" in text
        counts = {r.task: r.count for r in shown.estimates if r.policy == "mine"}
        assert counts == {"dilemma": 1, "gift": 3}
        assert any(r.policy == "mine" for r in shown.aggregates)


@pytest.mark.parametrize(
    ("trained", "message"),
    [
        ({}, "has no model for dilemma, gift"),
        (RUNS, "one model per training seed; learned-v1 trains on each"),
        ({"dilemma": RUNS, 100: RUNS}, "by task .text. or by training seed"),
        ({"dilema": RUNS, "gift": RUNS}, "Did you mean 'dilemma'"),
        ({"dilemma": {}, "gift": RUNS}, "by training seed: whole numbers >= 0; given 'none'"),
        ({"dilemma": {"a": "random"}, "gift": RUNS}, "given 'a'"),
        (
            {"dilemma": COURSE, "gift": RUNS},
            "Checkpoints, which only makes sense for a training run",
        ),
        ({"dilemma": "random", "gift": RUNS}, "fixed policy on 'dilemma' and has training runs on"),
        ({"dilemma": {1: coopbench.Checkpoints({})}, "gift": RUNS}, "by steps trained"),
        ({"dilemma": {1: coopbench.Checkpoints({5: "rendom"})}, "gift": RUNS}, "'random'"),
    ],
)
def test_models_that_are_refused(protocol, trained, message):
    with pytest.raises(ValueError, match=message):
        coopbench.evaluate(protocol, [coopbench.TrainedRuns("mine", trained)])


@pytest.mark.parametrize("model", [coopbench.Failed("nan"), 7])
def test_what_is_no_policy_is_said_before_anything_is_played(protocol, tmp_path, model):
    runs = {"dilemma": {100: coopbench.Checkpoints({5: model})}, "gift": RUNS}
    with pytest.raises(TypeError, match=rf"A policy is a name.*given {type(model).__name__}"):
        coopbench.evaluate(
            protocol, ["random", coopbench.TrainedRuns("mine", runs)], tmp_path / "r"
        )
    assert not (tmp_path / "r").exists()


def test_checkpoints_need_selection_seeds(protocol):
    seeds = protocol.seeds.model_copy(update={"selection": None})
    without = protocol.model_copy(update={"seeds": seeds})
    with pytest.raises(ValueError, match="no selection seeds"):
        coopbench.evaluate(without, [models()])


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"selection": (8, 4)}, "selection seeds 8 to 11 overlap"),
        ({"train": [51, 101, 102]}, r"training seeds \[51\] are also"),
        ({"selection": (50, 5)}, "evaluates 4 episodes, but there are 5 selection seeds"),
        ({"margin": 0.0}, "margin"),
    ],
)
def test_protocols_that_are_refused(tmp_path, part, message):
    with pytest.raises(ProtocolError, match=message):
        builders.small_protocol(tmp_path, **(PARTS | part))


def any_task(protocol):
    """The same tasks, without a table that says what models are trained on."""
    return protocol.model_copy(update={"training": None})


def test_a_policy_has_runs_everywhere_or_nowhere(protocol, tmp_path):
    anything = any_task(protocol)
    policies = {
        "fixed": builders.Invests(10.0, "mine"),
        "runs": coopbench.TrainedRuns("mine", {100: "random"}),
    }
    for name, policy in policies.items():
        coopbench.evaluate(anything, [policy], out=tmp_path / name)
    with pytest.raises(ValueError, match="mine already holds a fixed policy of the name"):
        coopbench.evaluate(anything, [policies["runs"]], out=tmp_path / "fixed")
    with pytest.raises(ValueError, match="run-100 already holds training runs of the name"):
        coopbench.evaluate(anything, [policies["fixed"]], out=tmp_path / "runs")
    with pytest.raises(ValueError, match="mine is a fixed policy on 'dilemma' and has training"):
        coopbench.merge([tmp_path / "fixed", tmp_path / "runs"], tmp_path / "both")
    assert not (tmp_path / "both").exists()
    shutil.copytree(tmp_path / "runs", tmp_path / "fixed", dirs_exist_ok=True)
    with pytest.raises(ValueError, match="episodes and runs cannot be pooled"):
        coopbench.load_report(tmp_path / "fixed")


def test_a_run_played_again_replaces_all_files_of_the_old_one(protocol, tmp_path):
    one = builders.first_task(protocol, training=None)
    episodes = {"meta.json", "episodes.npz", "actions.npz"}
    for model, files in (
        (COURSE, episodes),
        (coopbench.Failed("nan"), {"meta.json"}),
        ("constant:0.5", episodes),
    ):
        mine = coopbench.TrainedRuns("mine", {100: model})
        report = coopbench.evaluate(one, ["random", mine], out=tmp_path)
        assert {file.name for file in (tmp_path / "dilemma/mine/run-100").iterdir()} == files
        again = coopbench.load_report(tmp_path)
        assert again.episodes.failures == report.episodes.failures
        assert len(again.episodes.progress) == len(report.episodes.progress)
        assert len(again.episodes.blocks) == len(report.episodes.blocks)


def test_runs_may_be_added_in_any_order(protocol, tmp_path):
    """The report is about all that the folder holds of a policy, in whatever order it came."""
    one = builders.first_task(protocol, training=None)
    runs = {101: "constant:0.5", 100: COURSE, 102: coopbench.Failed("nan")}
    for seed, model in runs.items():
        mine = coopbench.TrainedRuns("mine", {seed: model})
        report = coopbench.evaluate(one, [mine, "random"], out=tmp_path)
    assert [block.cell.run for block in report.episodes.runs("dilemma", "mine")] == [100, 101]
    assert report.notes == ("Earlier runs of mine in the folder are included: 100, 101.",)
    again = coopbench.load_report(tmp_path)
    for what in ("estimates", "comparisons", "deviations"):
        assert getattr(report, what) == getattr(again, what)
    report.save(tmp_path)
    assert coopbench.verify(tmp_path).holds
    (tmp_path / "dilemma/mine/run-101/episodes.npz").write_bytes(b"")
    only = coopbench.evaluate(one, [coopbench.TrainedRuns("mine", {100: COURSE})], out=tmp_path)
    assert [note for note in only.notes if "left out" in note and "episodes.npz" in note]


def test_a_report_includes_everything_in_the_folder(protocol, tmp_path):
    """Policies that are not named again are included, fixed or trained."""
    one = builders.first_task(protocol, training=None)
    mine, theirs = (coopbench.TrainedRuns(name, {100: COURSE}) for name in ("mine", "theirs"))
    coopbench.evaluate(one, ["random", mine, theirs], out=tmp_path)
    report = coopbench.evaluate(one, ["constant:0.5"], out=tmp_path, only=True)
    played = {(block.cell.policy, block.cell.run) for block in report.episodes}
    assert played == {("constant:0.5", None), ("random", None), ("mine", 100), ("theirs", 100)}
    assert report.notes == (
        "Earlier runs of mine in the folder are included: 100.",
        "Earlier results of random in the folder are included.",
        "Earlier runs of theirs in the folder are included: 100.",
    )


def test_runs_count_without_a_table_of_training(protocol):
    seeds = np.array([100, 7])  # whole numbers of any kind
    mine = coopbench.TrainedRuns("mine", dict.fromkeys(seeds, "random"))
    report = coopbench.evaluate(any_task(protocol), ["random", mine])
    assert "mine lacks the runs 101, 102 on dilemma, gift" in report.deviations
    assert "mine has extra runs: 7 on dilemma, gift" in report.deviations
    listed = [
        (row.task, row.run, row.state) for row in missing_runs(report.protocol, report.episodes)
    ]
    assert listed == [(task, run, "missing") for task in TASKS for run in (101, 102)]


def test_a_single_run_is_not_called_constant(protocol):
    single = coopbench.TrainedRuns("mine", {100: "constant:0.5"})
    report = coopbench.evaluate(any_task(protocol), ["random", single])
    reason = "no test: mine has a single run, and a test needs 3"
    assert {row.flag for row in report.comparisons} == {reason}
    assert all(np.isnan([row.p_value, row.low, row.hedges_g]).all() for row in report.comparisons)


def test_the_published_scale_takes_what_is_defined(results, protocol):
    """Lowest and highest of what there is; nan on a task that nobody has played."""
    settings = protocol.report.model_copy(update={"normalisation": "minmax", "score": "fairness"})
    block = results[0].episodes.of("gift", "mine", 102)
    mixed = np.vstack([[1.0, -1.0], block.returns[1:]])  # of mixed signs: no fairness
    block = replace(block, returns=mixed)
    part = coopbench.episodes.table.EpisodeTable((block,))
    scales = score_scales(protocol.model_copy(update={"report": settings}), part)
    defined = values(block, "fairness")[1:]
    assert scales["gift"].low == defined.min()
    assert scales["gift"].width == pytest.approx(np.ptp(defined) + 1e-6)
    assert np.isnan(scales["dilemma"].low)


def test_replays_of_two_runs_have_two_names(results):
    titles = [find_episode(results[1] / f"gift/mine/run-{run}/0").title for run in (100, 102)]
    assert titles == ["gift, mine, run 100, episode 0", "gift, mine, run 102, episode 0"]


def test_models_by_task_meet_others_on_their_own_task(protocol):
    mine = coopbench.TrainedRuns("mine", {"dilemma": "constant:0.2", "gift": "constant:0.8"})
    result = coopbench.crossplay(protocol, [mine, "constant:0.5"])
    for task, policy in (("dilemma", "constant:0.2"), ("gift", "constant:0.8")):
        same = coopbench.crossplay(protocol, [policy, "constant:0.5"], tasks=[task])
        assert np.array_equal(result.matrix(task), same.matrix(task))
