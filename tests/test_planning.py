"""What runs can show before they are trained, and the registration of a study."""

import csv
import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from builders import (
    edit_meta,
    group_blocks,
    group_protocol,
    make_block,
    make_task,
    make_training,
    protocol_file,
    protocol_of,
)

import coopbench
from coopbench.analysis.comparisons import comparisons, group_comparisons
from coopbench.analysis.planning import (
    LEARNER,
    SCRIPT,
    Plan,
    Prospect,
    Variation,
    prospect,
    shipped_variation,
    variation,
)
from coopbench.analysis.registered import study_deviations
from coopbench.cli.commands.planning import _spreads
from coopbench.episodes.table import Cell, EpisodeTable
from coopbench.errors import DamagedResultError
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.registration import (
    FILE,
    read_registration,
    registration,
    write_registration,
)
from coopbench.report import loading
from coopbench.report.facts import registration_text
from coopbench.report.report import Report
from coopbench.report.sections.registered import outcomes, registered_table
from coopbench.report.serialise import as_json
from coopbench.report.tables.power import power_table, task_power_table
from coopbench.results import store
from coopbench_envs.engine import Engine
from studies.reference import TABLES
from studies.spreads import EFFECT, POWER, RUNS, SHIPPED, TRIALS, rows_of, written

DATE = "2026-01-02T03:04:05+00:00"
TEN = tuple(range(900, 910))


@pytest.fixture(scope="module")
def protocol():
    return group_protocol(margin=0.05)


@pytest.fixture(scope="module")
def own():
    """The same protocol, with a model for each task."""
    return group_protocol(margin=0.05, training=make_training(runs=3), selection=(200, 2))


@pytest.fixture(scope="module")
def table():
    blocks = group_blocks({"low": 3.0, "same": 3.0}) + group_blocks({"mine": 8.0}, runs=TEN)
    return EpisodeTable(tuple(blocks))


@pytest.fixture(scope="module")
def findings(protocol, table):
    study = registration(
        protocol,
        ["low", "same", "mine"],
        ["mine > low on a", "low > mine on a-one", "mine > same on b", "low = same on a-two"],
        DATE,
    )
    metadata = {block.cell: {"created": "2026-01-03T00:00:00+00:00"} for block in table}
    return Report(protocol, table, (), metadata, registration=study)


# -- power ----------------------------------------------------------------------------------------


def test_the_variation_of_a_pilot(protocol, table):
    spreads = variation(protocol, table, 0.2)
    assert set(spreads) == {"a-one", "a-two", "b-one"}
    for spread in spreads.values():
        assert spread.runs == pytest.approx(0.03, abs=0.01)  # wobble of 0.1 per run, of 10
        assert spread.from_script == pytest.approx(0.021, abs=0.01)
        assert spread.between == 0.2  # no second learner
    fixed = EpisodeTable(tuple(group_blocks({"low": 3.0})))
    assert variation(protocol, fixed, 0.2) == {}
    alone = variation(protocol, EpisodeTable(tuple(group_blocks({"mine": 8.0}, runs=TEN))), 0.2)
    assert alone["a-one"].from_script == 0.2
    assert spreads["a-one"].assumed == ("between",)
    assert alone["a-one"].assumed == ("from_script", "between")


def test_stored_spreads_are_those_of_the_tasks_of_a_protocol():
    protocol = load_protocol("coopetition-standard")
    spreads = shipped_variation(protocol)
    assert set(spreads) <= {task.id for task in protocol.task}
    assert len(spreads) > 30
    assert all(0.0 < one.runs < 1.0 and 0.0 < one.between < 3.0 for one in spreads.values())
    assert shipped_variation(group_protocol()) == {}


def test_stored_spreads_are_those_of_the_stored_tables():
    with SHIPPED.open(encoding="utf-8", newline="") as file:
        stored = list(csv.DictReader(file))
    names = sorted(folder.name for folder in TABLES.iterdir())
    assert stored == [written(row) for name in names for row in rows_of(name)]


def test_stored_power_is_that_of_the_stored_spreads():
    """Of every task of the groups that have spreads, and simulated again for some of them."""
    with POWER.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    stored = {(row["protocol"], row["group"], row["task"]): row for row in rows}
    expected = set()
    for name in {row["protocol"] for row in rows}:
        protocol = load_protocol(name)
        spreads = shipped_variation(protocol)
        for group, tasks in protocol.groups.items():
            if all(task.id in spreads for task in tasks):
                expected |= {(name, group, task) for task in ("", *(task.id for task in tasks))}
    assert set(stored) == expected
    protocol, group, trials = load_protocol("skirmish-standard"), "maps", 100
    for rival in (SCRIPT, LEARNER):
        plan = Plan(RUNS, EFFECT, rival, trials=trials, seed=1)
        again = prospect(protocol, group, shipped_variation(protocol), plan)
        shares = {"": again.over_group, **again.on_tasks}
        for task, share in shares.items():
            known = float(stored["skirmish-standard", group, task][rival])
            error = np.sqrt(max(known * (1.0 - known), 0.01) * (1 / trials + 1 / TRIALS))
            assert abs(share - known) < 3.5 * error, (task, rival)


def test_power_rises_with_effect_and_runs_and_falls_with_failures(own):
    spreads = dict.fromkeys(("a-one", "a-two"), Variation(0.1, 0.1, 0.1))
    small, large, many = (
        prospect(own, "a", spreads, Plan(runs, effect))
        for runs, effect in ((5, 0.05), (5, 0.2), (20, 0.05))
    )
    assert small.over_group < many.over_group < 1.0
    assert small.of_tasks < large.of_tasks
    assert large.over_group > 0.95
    failing = prospect(own, "a", spreads, Plan(5, 0.2, failing=0.2))
    assert failing.over_group < 0.5
    between = prospect(own, "a", spreads, Plan(5, 0.2, LEARNER))
    assert between.of_tasks < large.of_tasks
    nothing = prospect(own, "a", spreads, Plan(5, 0.0, trials=400))
    assert nothing.over_group < 0.05  # half of the false ones: those for the better one
    certain = dict.fromkeys(("a-one", "a-two"), Variation(0.0, 0.0, 0.0))
    assert prospect(own, "a", certain, Plan(5, 0.1)).of_tasks == 1.0


def test_a_model_for_all_tasks_tells_less_than_one_for_each(own, protocol):
    """Its runs are good or bad on all tasks at once, so that two tasks show no more than one."""
    assert [one.model_of(one.task[0]) for one in (own, protocol)] == ["a-one", ""]
    spreads = dict.fromkeys(("a-one", "a-two"), Variation(0.1, 0.0, 0.0))
    plan = Plan(5, 0.15, trials=400)
    alone, shared = (prospect(one, "a", spreads, plan) for one in (own, protocol))
    assert len(set(shared.on_tasks.values())) == 1
    assert len(set(alone.on_tasks.values())) == 2
    assert alone.over_group > shared.over_group + 5.0 * np.sqrt(0.25 / plan.trials)


def test_tables_of_power_have_a_row_for_each_plan(protocol):
    """With the share over the group, the mean and the lowest of its tasks, or with every task."""
    rows = [
        Prospect("a", rival, runs, effect, over, {"a-one": 0.9 * over, "a-two": 0.5 * over}, 100)
        for runs, effect, over in ((5, 0.1, 0.2), (5, 0.3, 0.6), (9, 0.1, 0.4))
        for rival, over in ((SCRIPT, over), (LEARNER, over / 2))
    ]
    (group,) = power_table(protocol, rows, "").groups
    values = [[entry.value for entry in row] for row in group.rows]
    for (_, _, *shares), over in zip(values, (0.2, 0.6, 0.4), strict=True):
        expected = [over, 0.7 * over, 0.5 * over]
        assert shares == pytest.approx([*expected, *(share / 2 for share in expected)])
    assert [row[:2] for row in values] == [[5, 0.1], [5, 0.3], [9, 0.1]]
    (group,) = task_power_table(protocol, rows, "").groups
    values = {tuple(entry.value for entry in row[:3]): row[3:] for row in group.rows}
    assert len(values) == 6
    for effect, over in ((0.1, 0.2), (0.3, 0.6)):
        shares = [entry.value for entry in values["a-two", 5, effect]]
        assert shares == pytest.approx([0.5 * over, 0.25 * over])


def test_spreads_that_are_given_replace_those_of_their_kind_alone():
    protocol = load_protocol("marl-standard")  # whose learners differ less than from scripts
    known, tasks = shipped_variation(protocol), [task.id for task in protocol.task]
    runs, source = _spreads(protocol, tasks, None, 0.07, None)
    assert runs == {
        task.id: dataclasses.replace(known[task.id], runs=0.07)
        if task.id in known
        else Variation(0.07, 0.2, 0.2, ("from_script", "between"))
        for task in protocol.task
    }
    assert "0.07 for run means." in source
    episodes, _ = _spreads(protocol, tasks, None, None, 0.3)
    assert episodes == {
        name: dataclasses.replace(one, from_script=0.3, between=0.3) for name, one in known.items()
    }
    assert any(one.from_script != one.between for one in known.values())


def test_the_source_of_spreads_is_said_where_they_are_used(protocol):
    """Of tasks that are simulated: stored results show the spreads of some, or of none."""
    stored = load_protocol("marl-standard")
    known = [task.id for task in stored.task if task.id in shipped_variation(stored)]
    runs, both = "0.1 for run means", "0.1 for run means, 0.2 for differences from episode to epis"
    shown, assumed = "stored reference results", "Where no results show one it is 0.2 for"
    assert shown in _spreads(stored, known, None, None, None)[1]
    for where, tasks, sds, texts, absent in (
        (stored, known, (0.1, None), (runs, shown), (assumed,)),
        (stored, known, (None, 0.2), ("0.2 for differences", shown), (assumed,)),
        (stored, known, (0.1, 0.2), (both,), (shown, assumed)),
        (protocol, ["a-one"], (0.1, 0.2), (both,), (shown, assumed)),
        (protocol, ["a-one"], (0.1, None), (runs, assumed), (shown,)),
    ):
        _, source = _spreads(where, tasks, None, *sds)
        assert [text for text in (*texts, *absent) if text in source] == [*texts], source


def test_spreads_that_a_pilot_does_not_show_are_said_to_be_assumed(protocol, table, monkeypatch):
    """A pilot of a learner alone shows no differences, and one with a script those from it."""
    alone = EpisodeTable(tuple(group_blocks({"mine": 8.0}, runs=TEN)))
    episodes = "Where no results show one it is 0.2 for differences from episode to episode"
    for pilot, sds, expected in (
        (alone, (None, None), f"Spreads of runs are those of pilot. {episodes}."),
        (alone, (0.1, None), f"Given standard deviations: 0.1 for run means. {episodes}."),
        (
            table,
            (None, None),
            f"Spreads of runs and episodes are those of pilot. {episodes} between learners.",
        ),
        (
            table,
            (0.1, None),
            "Given standard deviations: 0.1 for run means. Others are those of pilot. "
            f"{episodes} between learners.",
        ),
    ):
        report = Report(protocol, pilot)
        monkeypatch.setattr(loading, "load_report", lambda folder, report=report: report)
        assert _spreads(protocol, ["a-one", "b-one"], Path("pilot"), *sds)[1] == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"runs": 2}, "at least 3 runs"),
        ({"effect": -0.3}, "effect is -0.3; allowed are finite numbers >= 0"),
        ({"effect": math.nan}, "effect is nan; allowed"),
        ({"effect": math.inf}, "effect is inf; allowed"),
        ({"level": math.nan}, "level is nan; allowed are finite numbers"),
        ({"level": -math.inf}, "level is -inf; allowed"),
        ({"trials": 0}, "at least 1 trial"),
        ({"failing": 1.0}, "below 1"),
        ({"failing": math.nan}, "failing is nan; allowed"),
        ({"rival": "nobody"}, "allowed are 'script' and 'learner'"),
        ({}, "the spread of runs on a-two is unknown"),
    ],
)
def test_what_cannot_be_planned_is_refused(protocol, changes, message):
    plan = dataclasses.replace(Plan(5, 0.1), **changes)
    with pytest.raises(ValueError, match=message):
        prospect(protocol, "a", {"a-one": Variation(0.1, 0.1, 0.1)}, plan)


def test_the_command_power(command):
    words = ("coopetition-standard", "--group", "focal", "--runs", "5")
    table = command("plan", "power", *words, "--effect", "0.5").out
    twice = command("plan", "power", *words, *words[1:], "--effect", "0.5", "--effect", "0.5").out
    assert twice == table
    out = " ".join(table.split())
    assert "Power under coopetition-standard" in out
    assert "Spreads of runs and episodes are those of stored reference results" in out
    given = ("--sd", "0.1", "--by-task", "--effect", "0.5")
    out = " ".join(command("plan", "power", *words, *given).out.split())
    assert "trust-dilemma.focal 5 0.5" in out
    assert "Given standard deviations: 0.1 for run means" in out


CASES = {"coopetition-standard": "focal", "routing-standard": "cities", "skirmish-small": "v1"}


def simulated(protocol, group, spreads, plan, rng, agents):
    """Return the episodes of a learner and a script as a report reads them."""
    blocks, score = [], protocol.report.score
    of_models = {}  # a model that plays several tasks is as good on each of them
    for task in protocol.groups[group]:
        model = task.id if protocol.training.plays == "own" else "all"
        above = of_models.setdefault(model, rng.normal(size=plan.runs))
        spread, bounds = spreads[task.id], task.bounds
        seeds = protocol.seeds_of(task)
        luck = rng.normal(0.0, spread.from_script, len(seeds))
        learned = [plan.level + spread.runs * above[run] + luck for run in range(plan.runs)]
        played = [("script", None, np.full(len(seeds), plan.level - plan.effect))]
        played += [("learner", run, values) for run, values in enumerate(learned)]
        for name, run, values in played:
            raw = (bounds.low + values * (bounds.high - bounds.low))[:, None]
            names = agents[task.id]
            returns = np.repeat(raw, len(names), axis=1)
            parts = {"agents": names, "seeds": seeds, "metrics": {score: raw[:, 0]}}
            blocks.append(make_block(Cell(task.id, name, run), returns, **parts))
    return EpisodeTable(tuple(blocks))


@pytest.mark.slow("simulates 2500 reports for each protocol")
@pytest.mark.parametrize("name", CASES)
def test_printed_power_is_the_share_of_decided_reports(name):
    """Of tables of episodes, through the comparisons of reports, drawn by another generator."""
    protocol, group, trials = load_protocol(name), CASES[name], 100
    spreads, rng = shipped_variation(protocol), np.random.default_rng(6)
    spreads = {t.id: spreads.get(t.id, Variation(0.1, 0.3, 0.3)) for t in protocol.task}
    agents = {
        task.id: Engine(task.env, 1, **task.parameters).agents for task in protocol.groups[group]
    }
    for effect in (0.05, 0.1, 0.2, 0.3, 0.5):
        plan = Plan(5, effect, trials=400)
        printed = prospect(protocol, group, spreads, plan)
        over_group, on_tasks = 0, 0.0
        for _ in range(trials):
            table = simulated(protocol, group, spreads, plan, rng, agents)
            (row,) = group_comparisons(protocol, table)
            over_group += row.decided and (row.difference > 0.0) == (row.first == "learner")
            rows = comparisons(protocol, table)
            on_tasks += np.mean(
                [r.decided and (r.difference > 0.0) == (r.first == "learner") for r in rows]
            )
        for share, found in (
            (printed.over_group, over_group / trials),
            (printed.of_tasks, on_tasks / trials),
        ):
            error = np.sqrt(max(share * (1.0 - share), 0.01) * (1 / trials + 1 / plan.trials))
            assert abs(share - found) < 3.5 * error, (effect, share, found)


# -- registration ---------------------------------------------------------------------------------


def test_a_registered_study_is_shown_as_such(findings):
    assert registration_text(findings) == f"registered on {DATE} with 4 hypotheses"
    rows = outcomes(findings)
    assert [row.outcome for row in rows] == ["supported", "refuted", "supported", "supported"]
    shown = [entry.text for row in registered_table(findings).groups[0].rows for entry in row[:2]]
    assert shown[:2] == ["mine > low on a", "supported"]
    content = json.loads(as_json(findings))["registration"]
    assert (content["schema"], content["date"], content["deviations"]) == (1, DATE, [])
    assert content["outcomes"][1]["outcome"] == "refuted"


def test_few_runs_leave_a_hypothesis_open(protocol):
    blocks = group_blocks({"low": 3.0}) + group_blocks({"mine": 8.0}, runs=(900, 901))
    study = registration(protocol, ["low", "mine"], ["mine > low on b"], DATE)
    (row,) = outcomes(Report(protocol, EpisodeTable(tuple(blocks)), registration=study))
    assert (row.outcome, row.reason[:7]) == ("not shown", "no test")


def test_deviations_are_named(findings, protocol, table):
    study = registration(protocol, ["low", "absent"], [], DATE)
    early = {cell: {"created": "2025-12-31T00:00:00+00:00"} for cell in findings.metadata}
    other = protocol.model_copy(update={"ad_hoc": True})
    text = "; ".join(study_deviations(study, other, table, early))
    for words in ("another content", "absent are missing", "same, mine were not", "before 2026"):
        assert words in text
    assert study_deviations(study, protocol, table, {})[-1] == "the results have no dates"
    changed = dataclasses.replace(findings, registration=study, metadata=early)
    assert registration_text(changed).startswith("deviates from the registration of 2026")
    without = dataclasses.replace(findings, registration=None)
    assert registration_text(without) == "not registered"
    assert registered_table(without) is None
    assert json.loads(as_json(without))["registration"] is None


def test_a_learner_is_registered_as_its_models():
    """Where each of them plays all tasks; reports compare them, and not the learner."""
    training = make_training(runs=3, plays="all")
    protocol = group_protocol(training=training, selection=(200, 2))
    models = [f"ippo:{task.id}" for task in protocol.task]
    study = registration(protocol, ["ippo", "low"], [f"{models[0]} > low on a"], DATE)
    assert study.contestants == (*models, "low")
    blocks = group_blocks({"low": 3.0}) + group_blocks(dict.fromkeys(models, 8.0), runs=TEN)
    table = EpisodeTable(tuple(blocks))
    metadata = {block.cell: {"created": DATE} for block in table}
    assert study_deviations(study, protocol, table, metadata) == ()
    (row,) = outcomes(Report(protocol, table, (), metadata, registration=study))
    assert row.outcome == "supported"
    earlier = study.model_copy(update={"contestants": ("ippo", "low")})
    assert study_deviations(earlier, protocol, table, metadata) == ()
    for text, message in (
        ("ippo > low on a", "contestant 'ippo'"),
        (f"{models[0]} > {models[1]} on a", "compares ippo with itself; name two methods"),
    ):
        with pytest.raises(ValueError, match=message):
            registration(protocol, ["ippo", "low"], [text], DATE)


def test_hypotheses_that_no_report_can_show_are_refused():
    """On a place of two meanings, of a baseline that does not play there, or twice."""
    tasks = [make_task("a", group="a"), make_task("b", group="a", horizon=7)]
    tasks.append(make_task("c", group="d", horizon=8))
    domain = {"d": {"metrics": [], "curve": "mean_trust", "baselines": ["cooperator"]}}
    protocol = protocol_of(tasks=tasks, domain=domain)
    names, other = ["random", "cooperator", "mine"], "does not play 'b'; name a place"
    for texts, message in (
        (["mine > random on a"], "'a' is a task of small-v1 and a group; rename one"),
        (["mine > cooperator on b"], f"cooperator is a baseline of other groups, and {other}"),
        (["mine > random on b", "mine >random on  b"], "'mine > random on b' is registered twice"),
    ):
        with pytest.raises(ValueError, match=message):
            registration(protocol, names, texts, DATE)
    assert registration(protocol, names, ["mine > cooperator on d"], DATE).hypotheses


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mine beats low", "FIRST > SECOND on PLACE"),
        ("mine > lwo on a", "Did you mean 'low'"),
        ("mine > low on c", "task or group 'c'"),
        ("mine > low", "name one"),
        ("mine = low on a", "equality is tested on single tasks"),
        ("> low on a", "FIRST > SECOND on PLACE"),
        ("lwo on a>mine on a", "contestant 'lwo on a'"),
        ("mine > the lwo on a", "contestant 'the lwo'.* Did you mean 'the low'"),
        ("mine > the low on c", "task or group 'c'"),
        ("mine > the low", "name one"),
        ("constnt:fraction=0.5 > the lwo on c", "contestant 'constnt:fraction=0.5'"),
        ("mine > mine on a", "compares mine with itself; name two methods"),
    ],
)
def test_hypotheses_that_are_refused(protocol, text, message):
    with pytest.raises(ValueError, match=message):
        registration(protocol, ["low", "mine", "the low"], [text], DATE)


NAMES = ["mine", "mine without memory", "low", "low on a", "constant:fraction=0.5", "a > b", "= ="]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("mine>low on a", ("mine", ">", "low", "a")),
        (" mine  >low\ton  a-one ", ("mine", ">", "low", "a-one")),
        ("mine=low on a-one", ("mine", "=", "low", "a-one")),
        ("mine > mine without memory on a", ("mine", ">", "mine without memory", "a")),
        ("mine without memory>mine on a", ("mine without memory", ">", "mine", "a")),
        ("mine > low on a on b-one", ("mine", ">", "low on a", "b-one")),
        ("low on a > low on a", ("low on a", ">", "low", "a")),
        ("constant:fraction=0.5=mine on a-one", ("constant:fraction=0.5", "=", "mine", "a-one")),
        ("mine > constant:fraction=0.5 on a", ("mine", ">", "constant:fraction=0.5", "a")),
        ("a > b > = = on a", ("a > b", ">", "= =", "a")),
        ("a > b = = = on a-one", ("a > b", "=", "= =", "a-one")),
    ],
)
def test_contestants_in_hypotheses_have_any_name(protocol, text, parts):
    (found,) = registration(protocol, NAMES, [text], DATE).hypotheses
    assert (found.first, found.relation, found.second, found.where) == parts


def test_a_hypothesis_without_a_place_is_about_the_only_group():
    """Unless a name that ends as a place does leaves open what is meant."""
    protocol = protocol_of("invented", tasks=[make_task("first")], baselines=None)
    (task, *_) = protocol.task
    names = ["mine", "low on c", "low", f"low on {task.id}"]
    (found,) = registration(protocol, names, ["mine > low on c"], DATE).hypotheses
    assert (found.second, found.where) == ("low on c", "")
    both = rf"\('mine', '>', 'low on {task.id}'\) or \('mine', '>', 'low', '{task.id}'\)"
    with pytest.raises(ValueError, match=f"can be read as {both}; give a contestant another"):
        registration(protocol, names, [f"mine > low on {task.id}"], DATE)


def test_a_registration_is_written_once_and_read_again(protocol, tmp_path):
    study = registration(protocol, ["low", "mine"], ["mine > low on a"], DATE)
    assert read_registration(tmp_path / "results") is None
    file = write_registration(tmp_path / "results", study)
    assert read_registration(tmp_path / "results") == study
    with pytest.raises(FileExistsError, match="is not edited"):
        write_registration(tmp_path / "results", study)
    known = "contestants, date, digest, hypotheses, protocol, schema"
    for text, message in (
        ('{"schema": 1}', "contestants: is missing; add it"),
        ('{"dat": ""}', f"dat: Unknown key 'dat'. Did you mean 'date'.*Known: {known}[.]"),
        ("[1]", r"registration: was \[1\]; allowed: a table of keys"),
    ):
        file.write_text(text)
        with pytest.raises(DamagedResultError, match=f"is not a registration:[^$]*{message}"):
            read_registration(tmp_path / "results")


def test_the_command_register(tmp_path, command):
    words = ["plan", "register", "coopetition-standard", "-p", "ippo", "-p", "best_constant"]
    words += ["--hypothesis", "ippo > best_constant on trust-dilemma"]
    for more in ([], ["--only"]):
        command(*words, *more, "--out", tmp_path / f"{len(more)}")
    whole, only = (json.loads((tmp_path / name / FILE).read_text()) for name in "01")
    assert only["contestants"] == ["ippo", "best_constant"]
    assert {"ippo", "random", "cooperator"} < set(whole["contestants"])
    assert whole["hypotheses"][0]["where"] == "trust-dilemma"
    code = "def half(observations):\n    return 0.5 + 0.0 * observations[:, :, :1]\n"
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    words = ["plan", "register", protocol_file(tmp_path), "-p", "my one=mine.py:half"]
    command(*words, "--hypothesis", "my one > random on dilemma", "--out", tmp_path / "2")
    (hypothesis,) = json.loads((tmp_path / "2" / FILE).read_text())["hypotheses"]
    assert (hypothesis["first"], hypothesis["second"]) == ("my one", "random")
    for refused, message in (
        (["-p", "best_constnt"], "Unknown policy 'best_constnt'"),
        (["--only"], "--only plays the policies of -p alone; name one with -p."),
    ):
        words = ["plan", "register", "coopetition-standard", *refused]
        assert message in command(*words, "--out", tmp_path / "3", status=2).message
    assert not (tmp_path / "3").exists()


def test_results_of_own_code_that_plays_again_keep_their_date(tmp_path, monkeypatch):
    dates = iter(["2026-01-01", "2026-01-02", "2026-01-03"])
    found = []
    for share in (0.2, 0.2, 0.7):
        date = next(dates)
        monkeypatch.setattr(store, "now", lambda date=date: date)

        def mine(observations, share=share):
            return np.full((*observations.shape[:2], 1), share)

        coopbench.evaluate("TrustDilemma-v1", {"mine": mine}, tmp_path, episodes=2, horizon=5)
        (meta,) = tmp_path.glob("*/mine/meta.json")
        found.append(json.loads(meta.read_text(encoding="utf-8"))["created"])
    assert found == ["2026-01-01", "2026-01-01", "2026-01-03"]
    for damaged in ("x", "2027-01-01"):
        edit_meta(meta.parent, created=damaged)
        coopbench.evaluate("TrustDilemma-v1", {"mine": mine}, tmp_path, episodes=2, horizon=5)
        assert json.loads(meta.read_text(encoding="utf-8"))["created"] == "2026-01-03"
