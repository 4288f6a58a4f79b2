"""Reference runs: shipped with the package, part of reports, marked, checked, and left out."""

import json
import shutil

import builders
import numpy as np
import pytest

import coopbench
from coopbench.baselines.game import Game
from coopbench.baselines.registry import make_policy
from coopbench.episodes.metrics import agent_values, values
from coopbench.episodes.table import Cell, Progress
from coopbench.files import write_text
from coopbench.report.data import as_json
from coopbench.report.document import document
from coopbench.report.markdown import as_markdown
from coopbench.report.page import as_html
from coopbench.results import reference
from coopbench.results.rounding import COARSE, FINE, pack_columns, unpack_columns
from coopbench.results.shipping import ship

RUNS, STEPS = (50, 51), 20


def trained(task, seed):
    """Return a run on a task with two checkpoints."""
    scores = np.array([[1.0, 2.0], [3.0, 4.0]]) * seed
    course = Progress(
        Cell(task, "ippo", seed),
        np.array([10, 20]),
        {"return": scores, "own_return": scores / 2.0},
    )
    facts = {"task": task, "steps": STEPS, "interval": 10, "chosen_step": 20, "seconds": 1.0}
    return coopbench.Trained(builders.trained_to_invest(seed / 100.0, seed), course, facts)


def required(folder, **parts):
    """Return a protocol that requires a learner: alone, and beside a partner."""
    focal = builders.make_task("focal", partners=["cooperator"], trained_on="dilemma")
    defaults = {
        "tasks": [builders.make_task(), focal],
        "training": builders.make_training(),
        "selection": (200, 2),
        "score": "own_return",
        "metrics": ["own_return", "fairness", "cooperation_rate", "length"],
        "learned": ["ippo"],
        "train": RUNS,
        "first": 1000,
        "count": 400,
    }
    return builders.small_protocol(folder, **(defaults | parts))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The protocol, and a folder with its trained runs as results and as they ship."""
    place = tmp_path_factory.mktemp("reference")
    protocol = required(place)
    models = {"dilemma": {seed: trained("dilemma", seed) for seed in RUNS}}
    coopbench.evaluate(protocol, ["random", coopbench.Models("ippo", models)], place / "trained")
    assert ship(place / "trained", place / "package" / "small", "ippo") == {"ippo": RUNS}
    return protocol, place


@pytest.fixture
def package(made, tmp_path, monkeypatch):
    """The protocol, its trained runs as results, and the folder that they ship in."""
    protocol, place = made
    source, shipped = (shutil.copytree(place / n, tmp_path / n) for n in ("trained", "package"))
    monkeypatch.setattr(reference, "reference_folder", lambda: shipped)
    reference._digest.cache_clear()
    return protocol, source, shipped


def test_shipped_runs_complete_a_report_like_runs_of_ones_own(package):
    protocol, source, _ = package
    own = coopbench.load_report(source)
    report = coopbench.evaluate(protocol, ["random"])
    assert own.reference == ()
    assert [(part.policy, part.runs) for part in report.reference] == [("ippo", RUNS)]
    assert report.departures == own.departures
    for mine, theirs in zip(own.estimates, report.estimates, strict=True):
        assert (mine.task, mine.policy, mine.metric) == (theirs.task, theirs.policy, theirs.metric)
        assert theirs.mean == pytest.approx(mine.mean, rel=1e-3, abs=1e-4)
        assert theirs.low == pytest.approx(mine.low, rel=1e-3, abs=1e-4, nan_ok=True)
    assert report.efficiency == own.efficiency


def test_shipped_episodes_are_those_that_were_played_but_for_rounding(package):
    protocol, source, _ = package
    own, report = coopbench.load_report(source), coopbench.evaluate(protocol, ["random"])
    for task in ("dilemma", "focal"):
        for run in RUNS:
            played = own.episodes.of(task, "ippo", run)
            shipped = report.episodes.of(task, "ippo", run)
            assert shipped.trace is None
            for name in ("seeds", "lengths", "terminated", "seats"):
                np.testing.assert_array_equal(getattr(shipped, name), getattr(played, name))
            width = np.ptp(played.returns)
            np.testing.assert_allclose(shipped.returns, played.returns, atol=0.51 * width / FINE)
            rate = values(played, "cooperation_rate")
            near = {"atol": 0.51 * np.ptp(rate) / COARSE}
            np.testing.assert_allclose(values(shipped, "cooperation_rate"), rate, **near)
            for name in played.agent_metrics:
                seated = agent_values(shipped, name)
                assert np.isfinite(seated[shipped.seats]).all()
                assert np.isnan(seated[~shipped.seats]).all()


def test_reports_mark_what_is_shipped(package, tmp_path):
    protocol, _, _ = package
    report = coopbench.evaluate(protocol, ["random"], tmp_path)
    stored = json.loads(as_json(report))
    assert [(part["policy"], part["runs"]) for part in stored["reference"]] == [("ippo", [*RUNS])]
    shown = document(report, drawn=False)
    for text in (as_html(shown), as_markdown(shown), report.latex()):
        assert "ippo (shipped)" in text
        assert "shipped with coopbench" in text
    assert "random vs ippo (shipped)" in as_markdown(report.document)
    assert "ippo (shipped)" in str(coopbench.load_report(tmp_path))


def test_shipped_runs_can_be_left_out(package, tmp_path, command):
    protocol, _, _ = package
    report = coopbench.evaluate(protocol, ["random"], tmp_path / "out", reference=False)
    assert report.reference == ()
    assert any("ippo (to be trained) is missing" in reason for reason in report.departures)
    assert "reference" not in json.loads(as_json(report))
    assert coopbench.load_report(tmp_path / "out", reference=False).reference == ()
    printed = command("report", tmp_path / "out", "--no-reference").out
    assert "ippo (shipped)" not in printed
    assert "ippo (shipped)" in command("report", tmp_path / "out").out


def test_shipped_runs_are_neither_exported_nor_ranked(package, tmp_path, command):
    protocol, _, _ = package
    coopbench.evaluate(protocol, ["random"], tmp_path / "out")
    for file in ("episodes.csv", "scores.json"):
        printed = command("export", tmp_path / "out", "--to", tmp_path / file).out
        assert "Not exported: ippo" in printed
        assert "ippo" not in (tmp_path / file).read_text()
    board = coopbench.leaderboard([tmp_path / "out"])
    assert {row.policy for row in board.rows} == {"random"}
    assert [note for note in board.notes if note.startswith("ippo is left out")]


def test_runs_of_another_protocol_stay_out_with_a_reason(package, tmp_path):
    (tmp_path / "other").mkdir()
    other = required(tmp_path / "other", count=401)
    report = coopbench.evaluate(other, ["random"])
    assert report.reference == ()
    (note,) = [note for note in report.notes if "reference runs of ippo" in note]
    assert "left out" in note
    assert other.digest[:12] in note
    assert any("ippo (to be trained) is missing" in reason for reason in report.departures)


def test_runs_that_lack_what_a_protocol_reports_stay_out_with_a_reason(package, tmp_path):
    """The digest covers neither metrics nor curves; shipped runs hold what was reported."""
    (tmp_path / "other").mkdir()
    other = required(tmp_path / "other", metrics=["gini", "final_trust"], curve="final_trust")
    assert other.digest == package[0].digest
    report = coopbench.evaluate(other, ["random"])
    assert report.reference == ()
    (note,) = [note for note in report.notes if "reference runs of ippo" in note]
    assert note.endswith("they lack final_trust, the course of final_trust.")


def test_runs_of_ones_own_take_the_place_of_shipped_ones(package, tmp_path):
    protocol, _, _ = package
    models = {"dilemma": {50: trained("dilemma", 50)}}
    report = coopbench.evaluate(protocol, [coopbench.Models("ippo", models)])
    assert report.reference == ()
    assert any("ippo lacks the runs 51" in reason for reason in report.departures)
    assert any("these results have their own" in note for note in report.notes)


def test_a_run_that_lacks_a_task_is_not_shipped_and_named(package):
    protocol, source, shipped = package
    (source / "focal" / "ippo" / "run-51" / "meta.json").unlink()
    assert ship(source, shipped / "small", "ippo") == {"ippo": (50,)}
    assert not (shipped / "small" / "runs" / "ippo" / "run-51.json").exists()
    reference._digest.cache_clear()
    report = coopbench.evaluate(protocol, ["random"])
    assert report.reference[0].runs == (50,)
    assert any("ippo lacks the runs 51" in reason for reason in report.departures)
    (source / "focal" / "ippo" / "run-50" / "meta.json").unlink()
    with pytest.raises(ValueError, match="no run of ippo on all tasks"):
        ship(source, shipped / "small", "ippo")


def test_shipped_policies_can_be_played_by_name(package):
    _, _, shipped = package
    folder = shipped / "small" / "runs" / "ippo" / "run-50" / "dilemma"
    game = Game.at(builders.TRUST, horizon=6)
    assert make_policy(f"ippo:{folder}", game).pack() == builders.trained_to_invest(0.5, 50).pack()


def test_verification_compares_shipped_runs_and_plays_them_again(package, tmp_path):
    protocol, _, shipped = package
    out = tmp_path / "out"
    write_text(out / "report.json", as_json(coopbench.evaluate(protocol, ["random"], out)))
    plain = coopbench.verify(out)
    assert plain.identical
    assert not any("ippo" in check.what for check in plain.checks)
    again = coopbench.verify(out, play_reference=True)
    assert again.identical
    played = [check for check in again.checks if check.what.startswith("reference/")]
    assert [check.played for check in played] == [400] * 4
    # Another package ships other runs: the report cannot be compared.
    (shipped / "small" / "runs" / "ippo" / "run-51.json").unlink()
    reference._digest.cache_clear()
    (check,) = [check for check in coopbench.verify(out).checks if check.what == "report.json"]
    assert not check.holds
    assert "other reference runs" in check.reasons[0]


def test_shipped_results_that_differ_are_found(package, tmp_path):
    protocol, _, shipped = package
    file = shipped / "small" / "runs" / "ippo" / "run-50.json"
    content = json.loads(file.read_text())
    content["cells"]["dilemma"]["trajectories"] = "0" * 64
    file.write_text(json.dumps(content))
    reference._digest.cache_clear()
    out = tmp_path / "out"
    write_text(out / "report.json", as_json(coopbench.evaluate(protocol, ["random"], out)))
    verified = coopbench.verify(out, play_reference=True)
    differing = [check.what for check in verified.checks if not check.holds]
    assert differing == ["reference/dilemma/ippo/run-50"]


def test_failed_runs_ship_as_failures(tmp_path, monkeypatch):
    protocol = required(tmp_path)
    models = {"dilemma": {50: trained("dilemma", 50), 51: coopbench.Failed("out of numbers")}}
    source, shipped = tmp_path / "trained", tmp_path / "package"
    coopbench.evaluate(protocol, [coopbench.Models("ippo", models)], source)
    monkeypatch.setattr(reference, "reference_folder", lambda: shipped)
    assert ship(source, shipped / "small", "ippo") == {"ippo": RUNS}
    report = coopbench.evaluate(protocol, ["random"])
    assert any(
        "run 51 of ippo" in reason and "out of numbers" in reason for reason in report.departures
    )


@pytest.mark.parametrize(
    ("column", "exact"),
    [
        (np.array([0.1, 0.2, np.nan] * 50), True),
        (np.arange(5000.0) * 3, True),
        (np.linspace(-1.0, 7.0, 5000) ** 3, False),
        (np.append(np.linspace(0.0, 1.0, 999), np.nan), False),
        (np.full(7, np.nan), True),
    ],
)
@pytest.mark.parametrize("steps", [FINE, COARSE])
def test_columns_come_back_exactly_or_within_half_a_step(column, exact, steps):
    packed, forms = pack_columns([(column, steps), (column[::-1], steps)])
    for back, first in zip(
        unpack_columns(packed, forms, [column.size] * 2), (column, column[::-1]), strict=True
    ):
        width = np.nanmax(first) - np.nanmin(first) if np.isfinite(first).any() else 0.0
        np.testing.assert_allclose(back, first, rtol=0, atol=0 if exact else 0.51 * width / steps)


def test_what_ships_is_small_and_of_its_protocol():
    """Every shipped run has its files; reports leave out those of another digest and say so."""
    root = reference.reference_folder()
    runs = sorted(root.glob("*/runs/*/run-*.json"))
    for file in runs:
        content = json.loads(file.read_text())
        protocol = coopbench.load_protocol(file.parts[-4])
        if content["digest"] != protocol.digest:
            references, cells, (note,) = reference.reference_runs(protocol, [])
            assert (references, cells) == ((), [])
            assert f"left out: they were trained under {protocol.name} with the digest" in note
            continue
        assert set(content["cells"]) == {task.id for task in protocol.task}
        assert file.with_suffix(".npz").is_file()
    size = sum(path.stat().st_size for path in root.glob("*/runs/**/*") if path.is_file())
    assert size <= 10e6
