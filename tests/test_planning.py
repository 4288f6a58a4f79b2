"""What runs can show before they are trained, and the registration of a study."""

import dataclasses
import json

import numpy as np
import pytest
from builders import group_blocks, group_protocol
from scipy import stats

from coopbench.analysis.planning import Variation, prospects, variation
from coopbench.analysis.registered import outcomes, study_deviations
from coopbench.episodes.table import EpisodeTable
from coopbench.errors import DamagedResultError
from coopbench.protocol.registration import (
    FILE,
    read_registration,
    registration,
    write_registration,
)
from coopbench.report.facts import registration_text
from coopbench.report.report import Report
from coopbench.report.serialise import as_json
from coopbench.report.tables.comparisons import power_table
from coopbench.report.tables.overall import registered_table
from coopbench.statistics import detectable, power

DATE = "2026-01-02T03:04:05+00:00"
TEN = tuple(range(900, 910))


@pytest.fixture(scope="module")
def protocol():
    return group_protocol(margin=0.05)


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


@pytest.mark.parametrize("runs", [3, 10])
def test_what_is_detectable_is_found_with_the_wanted_chance(runs):
    difference = detectable(runs, 0.1)
    assert power(difference / 0.1, runs) == pytest.approx(0.8, abs=1e-6)
    one = detectable(runs, 0.1, sides=1)
    limit = stats.t.ppf(0.975, runs - 1)
    shift = one / (0.1 / np.sqrt(runs))
    chance = stats.nct.sf(limit, runs - 1, shift) + stats.nct.cdf(-limit, runs - 1, shift)
    assert chance == pytest.approx(0.8, abs=1e-6)
    assert detectable(runs, 0.1, tasks=8) < difference / 2.5
    assert detectable(runs, 0.1, episode_error=0.05) > difference * 0.99
    assert detectable(runs, 0.0) == 0.0
    many = detectable(runs, 0.0, episode_error=0.05)  # runs do not vary: a normal test
    assert many == pytest.approx(0.05 * (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)), rel=1e-3)


@pytest.mark.parametrize("changes", [{"runs": 2}, {"run_sd": -1.0}, {"sides": 3}, {"power": 0.01}])
def test_what_cannot_be_planned_is_refused(changes):
    with pytest.raises(ValueError, match="allowed"):
        detectable(**({"runs": 5, "run_sd": 0.1} | changes))


def test_prospects_and_the_variation_of_a_pilot(protocol, table):
    spread = variation(protocol, table, 0.2)
    assert spread.runs == pytest.approx(0.03, abs=0.01)  # wobble of 0.1 per run, of 10
    assert spread.episodes == pytest.approx(0.021, abs=0.01)
    five, ten = prospects(protocol, spread, (5, 10), family=1)
    assert ten.against_fixed < five.against_fixed < five.between
    assert ten.over_group < five.over_group < five.between
    fixed = EpisodeTable(tuple(group_blocks({"low": 3.0})))
    assert variation(protocol, fixed, 0.2) is None
    alone = variation(protocol, EpisodeTable(tuple(group_blocks({"mine": 8.0}, runs=TEN))), 0.2)
    assert (alone.runs, alone.episodes, alone.assumed) == (spread.runs, 0.2, True)
    assert "0.2 from episode to episode (given" in power_table(protocol, alone, [ten], 0.8, 1).unit
    assert prospects(protocol, Variation(0.0, 0.0), (3,))[0].between == 0.0


def test_a_task_is_planned_at_the_first_step_of_holm(protocol):
    """Two tasks are judged together, as in the reports of the protocol; a group is one decision."""
    spread = Variation(0.1, 0.0)
    (single,), (pair,) = (prospects(protocol, spread, (5,), family=size) for size in (1, 2))
    assert prospects(protocol, spread, (5,)) == (pair,)
    assert pair.between == pytest.approx(detectable(5, 0.1, alpha=0.025))
    assert pair.against_fixed == pytest.approx(detectable(5, 0.1, sides=1, alpha=0.025))
    assert single.between == pytest.approx(detectable(5, 0.1))
    assert pair.over_group == single.over_group
    with pytest.raises(ValueError, match="allowed: at least 1"):
        prospects(protocol, spread, (5,), family=0)


@pytest.mark.parametrize(
    ("option", "level"),
    [
        ([], "at 0.0063, the first step of Holm's method for alpha 0.05 and 8 tasks"),
        (["--tasks", "1"], "at alpha 0.05, a single decision"),
    ],
)
def test_the_command_power(option, level, command):
    words = ("coopetition-standard", "--runs", "5", "--run-sd", "0.1", *option)
    out = command("plan", "power", *words).out
    assert level in " ".join(out.split())
    assert "What runs can show under coopetition-standard" in out


# -- registration ---------------------------------------------------------------------------------


def test_a_registered_study_is_shown_as_such(findings):
    assert registration_text(findings) == f"registered on {DATE} with 4 hypotheses"
    rows = outcomes(
        findings.registration, findings.protocol, findings.comparisons, findings.group_comparisons
    )
    assert [row.outcome for row in rows] == ["supported", "refuted", "supported", "supported"]
    shown = [entry.text for row in registered_table(findings).groups[0].rows for entry in row[:2]]
    assert shown[:2] == ["mine > low on a", "supported"]
    content = json.loads(as_json(findings))["registration"]
    assert (content["schema"], content["date"], content["deviations"]) == (1, DATE, [])
    assert content["outcomes"][1]["outcome"] == "refuted"


def test_few_runs_leave_a_hypothesis_open(protocol):
    blocks = group_blocks({"low": 3.0}) + group_blocks({"mine": 8.0}, runs=(900, 901))
    few = Report(protocol, EpisodeTable(tuple(blocks)))
    study = registration(protocol, ["low", "mine"], ["mine > low on b"], DATE)
    (row,) = outcomes(study, protocol, few.comparisons, few.group_comparisons)
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mine beats low", "FIRST > SECOND on PLACE"),
        ("mine > lwo on a", "Did you mean 'low'"),
        ("mine > low on c", "task or group 'c'"),
        ("mine > low", "name one"),
        ("mine = low on a", "equality is tested on single tasks"),
    ],
)
def test_hypotheses_that_are_refused(protocol, text, message):
    with pytest.raises(ValueError, match=message):
        registration(protocol, ["low", "mine"], [text], DATE)


def test_a_registration_is_written_once_and_read_again(protocol, tmp_path):
    study = registration(protocol, ["low", "mine"], ["mine > low on a"], DATE)
    assert read_registration(tmp_path / "results") is None
    file = write_registration(tmp_path / "results", study)
    assert read_registration(tmp_path / "results") == study
    with pytest.raises(FileExistsError, match="is not edited"):
        write_registration(tmp_path / "results", study)
    file.write_text('{"schema": 1}')
    with pytest.raises(DamagedResultError, match="is not a registration"):
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
