"""Tasks that are played by the models of another one: what is asked of them, and what is not."""

from dataclasses import replace

import numpy as np
import pytest
from builders import (
    Invests,
    altered,
    first_task,
    make_block,
    make_task,
    make_training,
    small_protocol,
)

import coopbench
from coopbench.analysis.deviations import deviations, missing_learners, missing_runs
from coopbench.baselines.match import OWN, seating
from coopbench.describe import describe_protocol
from coopbench.episodes.table import Cell, EpisodeTable, Progress
from coopbench.errors import ProtocolError
from coopbench.playing.plan import plan
from coopbench.protocol.loading import load_protocol
from coopbench.report.answers import LACKING, YES
from coopbench.report.facts import training_text
from coopbench.report.sections import learning as efficiency
from coopbench.report.sections.cards import cards
from coopbench.report.sections.checklist import checklist

LONGER = {"trained_on": "dilemma", "parameters": {"horizon": 9}}
FOCAL = {"trained_on": "dilemma", "partners": ["always_defect", "random"]}
OWN_TASKS = ("dilemma", "slcd")
RUNS = (100, 101, 102)


def content(dilemma=None, focal=FOCAL, longer=LONGER, **parts):
    """The protocol of this file: two games, one of them in three forms."""
    tasks = [
        make_task("dilemma", group="own", **(dilemma or {})),
        make_task("slcd", "coopbench/SLCD-v1", group="own"),
        make_task("dilemma.focal", group="focal", **focal),
        make_task("dilemma.longer", group="own", **longer),
    ]
    budget = {"steps": 300, "interval": 100}
    budget = {"runs": 3, "episodes": 4, "budgets": {"on_policy": budget, "off_policy": budget}}
    report = {"score": "own_return", "metrics": ["return"], "learned": ["ippo"], "resamples": 200}
    seeds = {"train": RUNS, "count": 10, "selection": (50, 4)}
    parts = {"training": make_training(**budget), **seeds, **report} | parts
    return {"tasks": tasks, **parts}


@pytest.fixture(scope="module")
def protocol(tmp_path_factory):
    return small_protocol(tmp_path_factory.mktemp("carried"), "carried", **content())


def names(tasks):
    return [task.id for task in tasks]


def test_who_plays_what(protocol):
    assert names(protocol.trained_tasks) == ["dilemma", "slcd"]
    assert names(protocol.played_by("dilemma")) == ["dilemma", "dilemma.focal", "dilemma.longer"]
    assert names(protocol.played_by("slcd")) == ["slcd"]
    with pytest.raises(ValueError, match=r"Unknown task 'slcc'.*Did you mean 'slcd'"):
        protocol.played_by("slcc")
    with pytest.raises(ValueError, match=r"Unknown task 'dilemma.focal' .*Known: dilemma, slcd\."):
        protocol.played_by("dilemma.focal")


def test_models_that_play_all_tasks_play_their_own_first():
    protocol = load_protocol("routing-medium")
    own = protocol.task[3]
    others = [task.id for task in protocol.task if task is not own]
    assert protocol.trained_tasks == protocol.task
    assert names(protocol.played_by(own.id)) == [own.id, *others]


ALL = make_training(runs=3, episodes=4, steps=300, interval=100, plays="all")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"longer": LONGER | {"trained_on": "dilema"}}, "mean 'd"),
        ({"longer": LONGER | {"trained_on": "slcd"}}, r"SLCD-v1, not .*; allowed: dilemma$"),
        (
            {"longer": LONGER | {"trained_on": "dilemma.longer"}},
            r"task 'dilemma.longer' has .*, which is the task itself; allowed: dilemma$",
        ),
        (
            {"longer": LONGER | {"trained_on": "dilemma.focal"}},
            r"which has models of another task itself \('dilemma'\); allowed: dilemma$",
        ),
        (
            {"dilemma": {"partners": ["random"], "trained_on": "dilemma.longer"}},
            r"which has models of another task itself \('dilemma'\); allowed: none here$",
        ),
        ({"training": ALL}, r"on = 'each' and plays = 'all'; allowed: 'each' and"),
        (
            {"training": None},
            r"trained_on = 'dilemma', but there is no \[training\]; add it or remove the key",
        ),
        (
            {"focal": {"traned_on": "dilemma"}},
            r"Unknown key 'traned_on'.*Did you mean 'trained_on'",
        ),
    ],
)
def test_wrong_entries_of_a_protocol_are_named(tmp_path, change, message):
    with pytest.raises(ProtocolError, match=f"(?m){message}"):
        small_protocol(tmp_path, "carried", **content(**change))


def test_a_model_plays_all_tasks_that_name_its_own(protocol):
    runs = {
        "dilemma": {100: "constant:0.1", 101: "constant:0.2", 102: "constant:0.3"},
        "slcd": {100: "constant:0.4", 101: "constant:0.5", 102: "constant:0.6"},
    }
    cells = {
        (cell.task, cell.run): contestant.model
        for cell, contestant in plan(protocol, ["random", coopbench.TrainedRuns("mine", runs)])
        if cell.policy == "mine"
    }
    assert set(cells) == {(task.id, run) for task in protocol.task for run in RUNS}
    for (task, run), model in cells.items():
        assert model == runs["slcd" if task == "slcd" else "dilemma"][run], (task, run)


def test_models_of_two_tracks(tmp_path):
    """Those of self-play, and those trained beside partners, which play other tasks as well."""
    longer = LONGER | {"trained_on": "dilemma.focal", "partners": ["random"]}
    tracks = content(focal={"partners": FOCAL["partners"]}, longer=longer)
    protocol = small_protocol(tmp_path, "carried", **tracks)
    assert names(protocol.trained_tasks) == ["dilemma", "slcd", "dilemma.focal"]
    assert protocol.training_tasks == protocol.trained_tasks
    assert names(protocol.played_by("dilemma")) == ["dilemma"]
    assert names(protocol.played_by("dilemma.focal")) == ["dilemma.focal", "dilemma.longer"]
    runs = {task: {100: f"constant:0.{k}"} for k, task in enumerate(names(protocol.trained_tasks))}
    mine = coopbench.TrainedRuns("mine", runs)
    played = {cell.task: contestant.model for cell, contestant in plan(protocol, [mine])}
    assert played == {
        "dilemma": "constant:0.0",
        "slcd": "constant:0.1",
        "dilemma.focal": "constant:0.2",
        "dilemma.longer": "constant:0.2",
    }
    alone = coopbench.TrainedRuns("mine", {task: runs[task] for task in OWN_TASKS})
    with pytest.raises(ValueError, match=r"mine has no model for dilemma\.focal"):
        plan(protocol, [alone])


def test_models_play_a_chosen_task_without_the_one_that_they_were_trained_on(protocol):
    chosen = ["dilemma.focal", "dilemma.longer"]
    runs = {seed: Invests(0.6) for seed in RUNS}
    models = coopbench.TrainedRuns("mine", {"dilemma": runs})
    report = coopbench.evaluate(protocol, models, tasks=chosen)
    named = coopbench.TrainedRuns("mine", dict.fromkeys(chosen, runs))
    assert coopbench.evaluate(protocol, named, tasks=chosen).estimates == report.estimates
    assert {row.task for row in report.estimates} == {*chosen}
    one = coopbench.TrainedRuns("mine", {"dilemma": runs, "dilemma.focal": runs})
    with pytest.raises(ValueError, match="Unknown task 'dilemma' in the models of mine"):
        coopbench.evaluate(protocol, one, tasks=["dilemma.focal"])


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (
            ("dilemma", "slcd", "dilemma.focal"),
            r"has a model for 'dilemma.focal', which the models of 'dilemma' play; leave it out. "
            r"Models are for dilemma, slcd\.",
        ),
        (("dilemma",), "mine has no model for slcd; train one on each"),
        (("dilemma", "slcc"), "Unknown task 'slcc'.*Did you mean 'slcd'"),
    ],
)
def test_models_are_of_trained_tasks(protocol, tasks, message):
    mine = coopbench.TrainedRuns("mine", {task: {100: "random"} for task in tasks})
    with pytest.raises(ValueError, match=message):
        plan(protocol, [mine])


# --- deviations ----------------------------------------------------------------------------------


def episodes(protocol, task, policy, run):
    """Episodes with the seeds and seats of the protocol; all returns are 5."""
    count = protocol.episodes(task)
    seats = seating(count, 2, len(task.partners)) == OWN
    return make_block(
        Cell(task.id, policy, run),
        np.full((count, 2), 5.0),
        seeds=protocol.seeds_of(task),
        lengths=np.full(count, 6),
        seats=seats,
    )


def course(task, run, steps=(100, 200, 300)):
    metrics = {name: np.full((len(steps), 4), 5.0) for name in ("return", "own_return")}
    return Progress(Cell(task, "ippo", run), np.array(steps), metrics)


def table(protocol, courses=None, **further):
    """Complete results of random play and of ippo, with checkpoints on the trained tasks."""
    blocks = [
        episodes(protocol, task, policy, run)
        for task in protocol.task
        for policy, runs in (("random", (None,)), ("ippo", RUNS))
        for run in runs
    ]
    if courses is None:
        courses = [course(task, run) for task in OWN_TASKS for run in RUNS]
    return EpisodeTable(tuple(blocks), tuple(courses), **further)


def reasons_of(protocol, episodes):
    """Deviations but for that it is no protocol of this package."""
    reasons = deviations(protocol, episodes)
    assert reasons[0] == "carried-v1 is not a protocol of this package"
    return list(reasons[1:])


def test_checkpoints_are_asked_for_on_trained_tasks_alone(protocol):
    assert reasons_of(protocol, table(protocol)) == []
    planned = "; the protocol has 3 up to step 300"
    assert reasons_of(protocol, table(protocol, ())) == [
        f"runs 100, 101, 102 of ippo on dilemma, slcd have no checkpoints{planned}"
    ]
    courses = [course("dilemma", run) for run in RUNS] + [course("slcd", 100)]
    courses += [course("slcd", 101, (100, 200)), course("dilemma.focal", 101, (7,))]
    assert reasons_of(protocol, table(protocol, courses)) == [
        f"run 101 of ippo on slcd has 2 checkpoints up to step 200{planned}",
        f"run 102 of ippo on slcd has no checkpoints{planned}",
    ]


def test_other_steps_of_training_are_deviations(protocol):
    cells = [Cell(task.id, "ippo", run) for task in protocol.task for run in RUNS]
    planned = dict.fromkeys(cells, 300)
    assert reasons_of(protocol, table(protocol, trained=planned)) == []
    short = dict.fromkeys(cells, 20_000)
    what = "been trained for 20,000 steps; the protocol asks for 300"
    assert reasons_of(protocol, table(protocol, trained=short)) == [
        f"runs 100, 101, 102 of ippo on dilemma, slcd have {what}"
    ]
    one = planned | {Cell("slcd", "ippo", 101): 20_000, Cell("dilemma.focal", "ippo", 100): 7}
    assert reasons_of(protocol, table(protocol, trained=one)) == [
        f"run 101 of ippo on slcd has {what}"
    ]


def test_steps_are_those_of_one_of_the_budgets_and_said_once(protocol, tmp_path):
    courses = [course(task, run, (100, 200)) for task in OWN_TASKS for run in RUNS]
    short = {each.cell: 200 for each in courses}
    (reason,) = reasons_of(protocol, table(protocol, courses, trained=short))
    assert "2 checkpoints up to step 200" in reason
    budgets = {name: {"steps": steps, "interval": 100} for name, steps in (("a", 300), ("b", 900))}
    training = make_training(runs=3, episodes=4, budgets=budgets)
    parts = content(selection=None, training=training)
    without = small_protocol(tmp_path, "carried", **parts)
    steps = {course("slcd", run).cell: k for run, k in zip(RUNS, (300, 900, 800), strict=True)}
    assert reasons_of(without, table(without, (), trained=steps)) == [
        "run 102 of ippo on slcd has been trained for 800 steps; the protocol asks for 300 or 900"
    ]
    assert reasons_of(without, table(without, ())) == []  # nothing is known of their steps


def test_a_failed_run_is_reported_once(protocol):
    lost = {"dilemma": dict.fromkeys(RUNS, "random"), "slcd": dict.fromkeys(RUNS, "random")}
    lost["dilemma"] |= {101: coopbench.Failed("the loss was nan")}
    report = coopbench.evaluate(protocol, ["random", coopbench.TrainedRuns("mine", lost)])
    assert [reason for reason in report.deviations if "nan" in reason] == [
        "run 101 of mine on dilemma, dilemma.focal, dilemma.longer failed: the loss was nan"
    ]


# --- reports -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def report(protocol):
    fixed = coopbench.evaluate(protocol, ["random"])
    episodes = table(protocol, trained={Cell("dilemma", "ippo", 100): 300})
    curves = efficiency.learning_curves(protocol, episodes)
    early = efficiency.efficiencies(protocol, episodes)
    return altered(replace(fixed, episodes=episodes), learning=curves, efficiency=early)


def test_learning_curves_are_over_the_trained_tasks(report):
    """Also of a group with tasks that nobody trains on; of one with nothing else there is none."""
    assert [(c.group, c.task) for c in report.learning] == [
        ("own", "dilemma"),
        ("own", "slcd"),
        ("own", ""),
    ]
    assert report.learning[-1].estimate == pytest.approx([0.25] * 3)  # 5 of 20
    assert [(row.group, row.runs) for row in report.efficiency] == [("own", 3)]


def test_nothing_is_missing_where_nothing_is_trained(protocol, report):
    assert missing_runs(protocol, report.episodes) == ()
    more = (*report.episodes.progress, course("dilemma.focal", 100))
    assert missing_runs(protocol, replace(report.episodes, progress=more)) == ()
    fewer = replace(report.episodes, progress=report.episodes.progress[:-1])
    (row,) = missing_runs(protocol, fewer)
    assert (row.task, row.run, row.state) == ("slcd", 102, "partial")


def answer(report, question):
    return next((i.state, i.known) for i in checklist(report) if i.item == question)


def test_the_card_asks_for_a_choice_on_the_trained_tasks_and_knows_their_steps(report):
    question = "Checkpoints were chosen on episodes of their own"
    expected = "highest mean own_return on the seeds 50 to 53"
    assert answer(report, question) == (YES, expected)
    fewer = replace(report.episodes, progress=report.episodes.progress[:-1])
    state = (LACKING, "no checkpoints of 1 of 6 runs")
    assert answer(replace(report, episodes=fewer), question) == state
    bare = replace(report, episodes=replace(report.episodes, progress=()))
    state, text = answer(bare, "Budget of training")
    assert (state, text.split(";")[0]) == (YES, "ippo: 300 steps")
    assert cards(bare)["ippo"]["Training steps"] == "300"


def test_training_on_other_tasks_is_described(protocol):
    start = "one model trained on each of 2 tasks, evaluated on that task and on its variants"
    text = f"{start}; 3 runs"
    assert training_text(protocol).startswith(text)
    page = describe_protocol(protocol)
    assert "| Evaluation seeds | 0 to 9 |" in page
    rows = [line for line in page.splitlines() if "focal" in line]
    assert rows[0].split(" | ")[5] == "`dilemma`"
    assert "Trained on" not in describe_protocol(load_protocol("marl-standard"))


# --- the protocols of this package ---------------------------------------------------------------


def test_a_missing_learner_comes_with_what_to_do():
    protocol = load_protocol("coopetition-standard")
    part = first_task(protocol)
    (advice,) = missing_learners(part, EpisodeTable(()))
    assert advice.startswith("the required learners ippo, ")
    assert advice.endswith("; to add the first: coopbench train coopetition-standard ippo")
    runs = tuple(
        episodes(part, part.task[0], learner, run)
        for learner in protocol.report.learned
        for run in protocol.seeds.training
    )
    assert not any("coopbench train" in reason for reason in deviations(part, EpisodeTable(runs)))
