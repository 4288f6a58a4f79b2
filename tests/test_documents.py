"""What published documents ask of protocols, training and reports, line by line."""

import json

import builders
import numpy as np
import pytest
import toy_lift

import coopbench
from coopbench.episodes.table import Cell, EpisodeTable, Failure, Progress
from coopbench.errors import ProtocolError
from coopbench.protocol.limits import LIMITS
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.task import Bounds
from coopbench.report.facts import training_text
from coopbench.report.markdown import as_markdown
from coopbench.report.report import Report
from coopbench.report.sections.checklist import checklist
from coopbench.report.sections.published_return import published_aggregates, published_returns
from coopbench.report.serialise import as_json
from coopbench.workflows.training_plan import Scope, runs
from coopbench_envs import registration

LIFT = "test/Lift-v0"
SHOWN = {"metrics": ["return", "share"], "curve": "share", "baselines": None, "resamples": 200}
SEEDS = {"train": [5, 6], "first": 100, "count": 4}


@pytest.fixture(autouse=True)
def lift(monkeypatch):
    """Make the toy known to the tests of this file alone."""
    monkeypatch.setitem(registration._modules, LIFT, toy_lift.__name__)
    monkeypatch.setitem(registration._specs, LIFT, toy_lift.SPEC)


def lift_task(name, agents, **fields):
    return builders.make_task(
        name, LIFT, low=-10, high=10, parameters={"num_agents": agents}, **fields
    )


def lift_tasks(**fields):
    sizes = {"three": 3, "two": 2}
    return [lift_task(name, agents, **fields) for name, agents in sizes.items()]


def reported(protocol, policies):
    """Return the report on invented episodes of policies {name: mean of the first agent}."""
    draws, blocks = np.random.default_rng(4), []
    for task in protocol.task:
        agents = tuple(f"carrier_{a}" for a in range(task.parameters["num_agents"]))
        for name, level in policies.items():
            returns = draws.normal(0.0, 0.2, (protocol.episodes(task), len(agents)))
            returns[:, 0] += level + 0.1 * len(agents)
            share = draws.uniform(size=len(returns))
            block = builders.make_block(
                Cell(task.id, name),
                returns,
                agents=agents,
                seeds=protocol.seeds_of(task),
                metrics={"share": share},
                curves={"share": np.zeros(task.parameters.get("horizon", 4))},
            )
            blocks.append(block)
    return Report(protocol, EpisodeTable(tuple(blocks)))


# --- training -------------------------------------------------------------------------------------


BUDGETED = {  # the learner, the steps of its budget, and how many tasks a model plays
    "routing-easy": ("ippo", 20_000_000, 1),
    "routing-medium": ("ippo_shared", 20_000_000, 12),
    "routing-hard": ("isac_shared", 2_000_000, 6),
    "routing-standard": ("ippo_shared", 2_000_000, 12),
    "rail-standard": ("iql_shared", 1_000_000, 2),
    "rail-scaling": ("ippo_shared", 2_000_000, 6),
}


@pytest.mark.slow("compiles Routing and Rail of every protocol")
@pytest.mark.parametrize(("name", "of"), BUDGETED.items())
def test_every_budget_can_be_trained_with_the_preset(name, of, tmp_path):
    """One model plays all that it has to play, and fits into memory; checked before training."""
    pytest.importorskip("torch")
    protocol, (learner, steps, plays) = load_protocol(name), of
    scope = Scope([protocol.training_tasks[-1].id], [123456])
    (job,) = runs(protocol, learner, tmp_path, scope, {})
    assert (job.budget.steps, len(job.plays)) == (steps, plays)
    assert job.task.parameters.get("map") not in protocol.training.held_out


def test_models_that_cannot_play_are_refused_before_training(tmp_path):
    pytest.importorskip("torch")
    protocol = load_protocol("routing-medium")
    scope = Scope(["random_grid_a8_o0"], [123456])
    for learner in ("ippo", "ippo_shared"):
        with pytest.raises(ValueError, match=r"agents 8 instead of 32.*seat_number = false"):
            runs(protocol, learner, tmp_path, scope, {"seat_number": True})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"on": "each", "held_out": [], "task": lift_task("t", 2)}, "goes with on = 'any'"),
        ({"evaluates": "last"}, "of protocols that play selection episodes"),
    ],
)
def test_wrong_training_is_named(tmp_path, change, message):
    training = builders.make_training(**change)
    with pytest.raises(ProtocolError, match=message):
        builders.small_protocol(tmp_path, tasks=lift_tasks(), training=training, **SEEDS, **SHOWN)


def test_the_last_checkpoint_is_chosen_where_the_protocol_says_so():
    means = np.array([[0.0], [3.0], [1.0]])
    course = Progress(Cell("three", "ippo", 5), np.array([20, 40, 60]), {"return": means})
    for evaluates, chosen in ((None, 1), ("last", 2)):
        training = builders.make_training() | ({"evaluates": evaluates} if evaluates else {})
        protocol = builders.protocol_of(
            tasks=lift_tasks(), training=training, selection=(200, 2), **SEEDS, **SHOWN
        )
        assert protocol.chosen(course) == chosen
    assert "the last checkpoint is evaluated" in training_text(protocol)


def test_one_task_with_one_seed_makes_a_report(tmp_path):
    """All returns are equal, so that there is nothing to normalize by: a dash, and no error."""
    protocol = builders.protocol_of(
        tasks=[lift_task("three", 3)], **SEEDS, **SHOWN, reproduces={"published_return": True}
    )
    report = Report(protocol, returns_table({"mine": {"three": {5: 2.0}}}))
    assert "nothing to normalize by" in as_markdown(report.document)
    content = json.loads(as_json(report))
    assert content["published"][0]["normalised"] is None


# --- CAMAR ----------------------------------------------------------------------------------------


def returns_table(values):
    """Return a table with these mean returns, {policy: {task: {run: return}}}."""
    return EpisodeTable(
        tuple(
            builders.make_block(
                Cell(task, policy, run),
                [[value - 1.0], [value + 1.0]],
                metrics={"share": np.zeros(2)},
                curves={"share": np.zeros(4)},
            )
            for policy, tasks in values.items()
            for task, by_run in tasks.items()
            for run, value in by_run.items()
        )
    )


def test_published_returns_are_scaled_by_the_lowest_and_highest_run(tmp_path):
    """Minimum and maximum over policies, runs and tasks; IQM and gap of the runs x tasks matrix."""
    protocol = builders.small_protocol(
        tmp_path, tasks=lift_tasks(), **SEEDS, **SHOWN, reproduces={"published_return": True}
    )
    table = returns_table(
        {
            "mine": {"three": {5: 0.0, 6: 4.0, 7: 8.0}, "two": {5: 2.0, 6: 6.0, 7: 10.0}},
            "fixed": {"three": {None: 5.0}, "two": {None: 5.0}},
        }
    )
    rows = published_returns(protocol, table)
    assert {(r.task, r.run): r.normalised for r in rows if r.policy == "mine"} == {
        ("three", 5): 0.0,
        ("three", 6): 0.4,
        ("three", 7): 0.8,
        ("two", 5): 0.2,
        ("two", 6): 0.6,
        ("two", 7): 1.0,
    }
    mine, fixed = published_aggregates(protocol, table, rows)
    assert mine.iqm == pytest.approx(np.mean([0.2, 0.4, 0.6, 0.8]))  # one of six dropped each end
    assert mine.iqm_low < mine.iqm < mine.iqm_high
    assert mine.optimality_gap == pytest.approx(0.5)
    assert (mine.runs, mine.tasks, fixed.runs) == (3, 2, 1)
    assert (fixed.iqm, fixed.optimality_gap) == (0.5, 0.5)
    assert np.isnan(fixed.iqm_low)
    assert "one run" in fixed.flag
    unknown = returns_table({"mine": {"three": {5: 1.0, 6: 3.0}}, "far": {"three": {5: np.nan}}})
    lost = (Failure(Cell("three", "mine", 7), "out of memory"),)
    unknown = EpisodeTable(unknown.blocks, failures=lost)
    rows = published_returns(protocol, unknown)
    mine, far = published_aggregates(protocol, unknown, rows)
    assert [row.normalised for row in rows[:2]] == [0.0, 1.0]
    assert mine.flag.startswith("without 1 run that failed")
    assert np.isnan(far.iqm)
    assert far.flag == "the returns of some runs are not stored"


def test_every_metric_has_an_interquartile_mean_for_each_setting_and_group():
    shown = SHOWN | {"metrics": ["return", "share", "length"]}
    tasks = [lift_task(f"size{n}", n, group="all") for n in (2, 3, 4, 5)]
    protocol = builders.protocol_of(
        tasks=tasks, **SEEDS, **shown, reproduces={"interquartile": True}
    )
    report = reported(protocol, {"mine": 1.0})
    places = {(row.task, row.metric): row for row in report.interquartile}
    metrics = {"return", "share", "length"}
    sizes = [f"size{n}" for n in (2, 3, 4, 5)]
    assert set(places) == {(task, metric) for task in (*sizes, "") for metric in metrics}
    means = sorted(places[task, "return"].estimate for task in sizes)
    assert places["", "return"].estimate == pytest.approx(np.mean(means[1:3]))
    assert places["", "return"].low < places["", "return"].high
    assert "Interquartile means of all metrics, by task and group" in as_markdown(report.document)
    quiet = builders.protocol_of(tasks=lift_tasks(), **SEEDS, **SHOWN)
    assert reported(quiet, {"mine": 1.0}).interquartile == ()


# --- metrics of single tasks, one row per algorithm, effect sizes, sensitivity --------------------


def rich_protocol(folder, **report):
    tasks = [
        lift_task("three", 3, group="games", metrics=["share"]),
        lift_task("two", 2, group="games"),
        lift_task("varied", 4, group="varied", trained_on="three", varies="three"),
    ]
    shown = SHOWN | {"metrics": ["return", "length"]} | report
    training = builders.make_training()
    return builders.small_protocol(folder, tasks=tasks, training=training, **SEEDS, **shown)


def test_metrics_of_a_task_are_reported_of_it_alone(tmp_path):
    report = reported(rich_protocol(tmp_path), {"mine": 1.0})
    named = {(row.task, row.metric) for row in report.estimates}
    assert ("three", "share") in named
    assert ("two", "share") not in named
    with pytest.raises(ProtocolError, match=r"metric 'shar'.*Did you mean 'share'"):
        builders.small_protocol(
            tmp_path, tasks=[lift_task("three", 3, metrics=["shar"])], **SEEDS, **SHOWN
        )


def test_the_summary_has_one_row_per_algorithm_with_the_published_spread(tmp_path):
    asked = {"summary": ["return", "length"]}
    protocol = rich_protocol(tmp_path, effect="cohens_d", reproduces=asked)
    report = reported(protocol, {"mine": 1.0, "other": 2.0})
    text = as_markdown(report.document)
    assert "Algorithms, one row each" in text
    spread = np.std(report.episodes.of("three", "mine").team_returns)  # divisor n, as published
    assert f"{spread:.3f}" in text
    assert "Cohen's d" in text
    assert {row.task for row in report.effects} == {"three", "two", "varied"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"summary": ["shar"]}, "'shar'.*the summary of 'three'"),
        ({"sumary": ["return"]}, "section 'sumary'.*Did you mean 'summary'"),
    ],
)
def test_what_no_section_can_give_is_said_before_anything_is_played(tmp_path, wrong, message):
    protocol = rich_protocol(tmp_path, reproduces=wrong)
    with pytest.raises(ValueError, match=message):
        coopbench.evaluate(protocol, ["random"])


def test_sections_that_nobody_asks_for_leave_no_trace_in_a_protocol(tmp_path):
    """Earlier versions stored them as false or empty."""
    asked = {"summary": ["return"], "medians": False, "interquartile": False}
    old, new = (rich_protocol(tmp_path, reproduces=r) for r in (asked, {"summary": ["return"]}))
    assert old.content_digest == new.content_digest


def test_sensitivity_is_the_range_over_the_variants(tmp_path):
    report = reported(rich_protocol(tmp_path), {"mine": -1.0})
    (row,) = report.sensitivity
    means = [report.episodes.of(t, "mine").team_returns.mean() for t in ("three", "varied")]
    assert (row.base, row.low, row.high) == pytest.approx((means[0], min(means), max(means)))
    assert row.sensitivity == pytest.approx(abs(means[0] - means[1]) / abs(means[0]))
    assert "Parameter sensitivity" in as_markdown(report.document)
    for wrong, message in (("thre", "Did you mean 'three'"), ("two", "varies a task itself")):
        tasks = [*lift_tasks(), lift_task("more", 4, varies=wrong)]
        tasks[1] |= {"varies": "three"}
        with pytest.raises(ProtocolError, match=message):
            builders.small_protocol(tmp_path, tasks=tasks, **SEEDS, **SHOWN)


# --- cooperative evaluation -----------------------------------------------------------------------


def test_minmax_is_allowed_under_any_name_and_without_a_publication():
    protocol = builders.protocol_of(
        "mine", tasks=lift_tasks(), **SEEDS, **SHOWN, normalisation="minmax"
    )
    report = reported(protocol, {"mine": 1.0, "other": 2.0})
    scores = [values for tasks in report.scores.values() for values in tasks.values()]
    assert min(map(np.min, scores)) == 0.0
    assert max(map(np.max, scores)) == pytest.approx(1.0, abs=1e-5)
    assert "cannot be compared" in as_markdown(report.document)


# --- Flatland -------------------------------------------------------------------------------------


def test_limits_have_presets():
    """600 s, 10 s and 8 h in all, as announced together."""
    announced = LIMITS["flatland"]
    assert (announced.planning, announced.step, announced.total) == (600.0, 10.0, 28_800.0)
    parts = {"tasks": lift_tasks(), **SEEDS, **SHOWN}
    assert builders.protocol_of(limits="flatland", **parts).limits == announced
    with pytest.raises(ValueError, match=r"preset of limits 'flatlan'.*'flatland'"):
        builders.protocol_of(limits="flatlan", **parts)


def test_normalised_returns_are_exact():
    """The sum of rewards over T N, to the last bit."""
    bounds = Bounds(low=-61.0 * 50, high=0.0)
    for score in (-3050.0, -1.0, -123.0, -0.1, 0.0):
        assert bounds.shortfall(score) == score / (61 * 50)


def test_the_checklist_asks_for_code_and_its_optimisations(tmp_path):
    """An object declares both; nothing is made up for one that does not."""
    protocol = builders.small_protocol(tmp_path, tasks=[lift_task("three", 3)], **SEEDS, **SHOWN)
    declared = {"code": "https://example.org/mine", "code_level": "scaled rewards"}
    for settings, state in (({"rate": 1}, "missing"), (declared, "yes")):
        report = coopbench.evaluate(protocol, [builders.Invests(0.0, **settings)])
        states = {item.item: item.state for item in checklist(report)}
        assert states["Code"] == states["Code-level optimisations"] == state
        assert states["Ablations"] == "missing"
