"""Routing protocols: cities, frozen starts, training data, models, charts, maps of the user."""

import dataclasses
import re
import runpy
from pathlib import Path

import builders
import numpy as np
import pytest

import coopbench
from coopbench import statistics
from coopbench.analysis.comparisons import comparisons
from coopbench.analysis.deviations import deviations
from coopbench.episodes.metrics import values
from coopbench.episodes.table import EpisodeTable
from coopbench.errors import ProtocolError
from coopbench.playing.plan import game_of, plan
from coopbench.protocol.loading import ad_hoc, load_protocol
from coopbench.protocol.map_files import checksum
from coopbench.protocol.task import instance_file
from coopbench.protocol.variants import maps_text, with_maps
from coopbench.report.markdown import as_markdown
from coopbench.report.sections.charts import ChartPoint, chart
from coopbench.report.serialise import as_csv

ROOT = Path(__file__).resolve().parent.parent
HARD = load_protocol("routing-hard")
CITIES = 12

SMALL = """
[protocol]
name = "small"
version = 1
description = "Four small settings."

[seeds]
training = [900, 901]
evaluation = {{ first = 0, count = 12 }}

[report]
score = "success_rate"
metrics = ["success_rate", "coordination", "return"]
curve = "success_rate"
comparison = "paired"
resamples = 200
chart = [
  {{ metric = "success_rate", x = "agents" }},
  {{ metric = "coordination", x = "agents" }},
  {{ metric = "return", x = "density", per = "agents", scale = "log2" }},
]

[report.reproduces]
published_return = true

[training]
on = "each"
runs = 2
episodes = 10

[training.budgets]
short = {{ steps = 100, interval = 10 }}

{tasks}
"""
TASK = """
[[task]]
id = "a{a}_d{d}"
axes = {{ agents = {a}, density = {d} }}
env = "coopbench/Routing-v0"
bounds = {{ low = 0.0, high = 0.5 }}
[task.parameters]
num_agents = {a}
map_params = {{ num_rows = 6, num_cols = 6, obstacle_density = {d} }}
horizon = 30
"""
TEXT = SMALL.format(tasks="".join(TASK.format(a=a, d=d) for a in (2, 4) for d in (0.125, 0.25)))
TASKS = ("a2_d0.125", "a2_d0.25", "a4_d0.125", "a4_d0.25")


def still(observations):
    return np.zeros((*observations.shape[:-1], 2), np.float32)


@pytest.fixture(scope="module")
def cities():
    return runpy.run_path(str(ROOT / "studies" / "cities.py"))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return builders.loaded(tmp_path_factory.mktemp("small"), TEXT)


@pytest.fixture(scope="module")
def report(small):
    trained = dict(zip(TASKS, ("greedy", "random", still, "greedy"), strict=True))
    return coopbench.evaluate(small, ["random", "greedy", coopbench.TrainedRuns("mine", trained)])


# --- cities --------------------------------------------------------------------------------------


def test_cities_and_starts_are_remade_byte_for_byte(cities):
    files = dict(cities["files"](agents=(8,)))
    assert sorted(path.suffix for path in files) == [".map"] * CITIES + [".npz"]
    for path, content in files.items():
        kept = instance_file(path.name) if path.suffix == ".npz" else path.read_bytes()
        assert kept == content, path.name


# --- protocols as data ---------------------------------------------------------------------------


ALONE = "placed right after it"
POINT = '{ metric = "success_rate", x = "agents" },'
EACH = 'on = "each"'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("runs = 2", "runs = 3", r"3 runs.*2 training seeds"),
        ("interval = 10", "interval = 1000", r"interval 1000 is longer than the 100"),
        (EACH, 'on = "any"', r"held_out goes with on = 'any'"),
        (EACH, 'on = "any"\nheld_out = ["caves"]', r"held-out map 'caves'"),
        (EACH, 'on = "any"\nheld_out = ["a"]\nplays = "own"', r"allowed with 'any': 'all'"),
        ('"success_rate", "coordination"', '"coordination", "success_rate"', ALONE),
        (POINT, "", r"needs one of 'success_rate'"),
        ('score = "success_rate"', 'score = "coordination"', "score .* means nothing alone"),
        ('metrics = ["success_rate"', 'metrics = ["return", "success_rate"', ALONE),
        ('curve = "success_rate"', 'curve = "coordination"', "curve .* means nothing alone"),
        ('per = "agents", scale', 'group = "one", scale', r"group 'one'"),
        (POINT, f"{POINT} {POINT}", r"two charts are called 'success_rate-by-agents'"),
        ("density = 0.125 }", "density = 0 }", r"log2 chart against 'density' has 0"),
        ("[task.parameters]", f'maps = "{"0" * 64}"\n[task.parameters]', r"map = 'movingai'"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, old, new, message):
    assert old in TEXT
    with pytest.raises(ProtocolError) as error:
        builders.loaded(tmp_path, TEXT.replace(old, new))
    assert re.search(message, str(error.value)), error.value


def test_ad_hoc_protocols_show_coordination_beside_success():
    shown = ad_hoc("coopbench/Routing-v0").report.metrics
    assert shown[shown.index("coordination") - 1] == "success_rate"


def test_changed_maps_are_refused(tmp_path):
    text = (ROOT / "protocols" / "routing-hard.toml").read_text(encoding="utf-8")
    with pytest.raises(ProtocolError, match="map files are not those of the protocol"):
        builders.loaded(tmp_path, text.replace(HARD.task[0].maps, "0" * 64))


# --- models --------------------------------------------------------------------------------------


def test_models_are_checked_against_the_protocol(small):
    with pytest.raises(ValueError, match=r"mine has no model for a4_d0.25"):
        plan(small, [coopbench.TrainedRuns("mine", dict.fromkeys(TASKS[:3], "random"))])
    with pytest.raises(ValueError, match=r"'a4_d0.26'.*Did you mean 'a4_d0.25'"):
        plan(
            small,
            [coopbench.TrainedRuns("mine", dict.fromkeys((*TASKS[:3], "a4_d0.26"), "random"))],
        )
    with pytest.raises(ValueError, match="does not train on each"):
        plan(HARD, [coopbench.TrainedRuns("mine", {})])


def test_models_are_estimated_over_models(report):
    for task in TASKS:
        means = [
            values(report.episodes.of(task, f"mine:{t}"), "success_rate").mean() for t in TASKS
        ]
        estimate = next(row for row in report.models if row.task == task)
        assert (estimate.policy, estimate.count) == ("mine", 4)
        assert estimate.mean == pytest.approx(np.mean(means))
        expected = statistics.t_interval(np.array(means))
        assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high))
    overall = next(row for row in report.models if row.task == "all tasks")
    assert overall.mean == pytest.approx(
        np.mean([row.mean for row in report.models if row.task in TASKS]) / 0.5
    )
    assert "mine" in str(report)


# --- charts --------------------------------------------------------------------------------------


def trimmed(sample):
    ordered = np.sort(sample)
    cut = len(ordered) // 4
    return ordered[cut : len(ordered) - cut].mean()


def test_chart_points_are_interquartile_means_of_task_means(report):
    names = {point.chart for point in report.charts}
    by_density = {f"return-by-density-agents-{a}" for a in (2, 4)}
    assert names == {"success_rate-by-agents", "coordination-by-agents", *by_density}
    for point in report.charts:
        if point.policy == "mine":
            assert (point.unit, point.count) == ("models", 4)
            continue
        agents = int(point.at) if point.axis == "agents" else int(point.chart[-1])
        tasks = [
            t
            for t in TASKS
            if t.startswith(f"a{agents}")
            and (point.axis == "agents" or t.endswith(f"d{point.at:g}"))
        ]
        assert (point.tasks, point.count, point.unit) == (len(tasks), 12, "episodes")
        samples = [values(report.episodes.of(t, point.policy), point.metric) for t in tasks]
        means = np.array([sample.mean() for sample in samples])
        assert point.estimate == pytest.approx(trimmed(means))
        assert point.low <= point.estimate <= point.high
    for point in report.charts:
        if (point.policy, point.chart, point.at) == ("mine", "return-by-density-agents-4", 0.25):
            played = [report.episodes.of("a4_d0.25", f"mine:{t}") for t in TASKS]
            expected = np.mean([values(block, "return").mean() for block in played])
            assert point.estimate == pytest.approx(expected)


def test_charts_are_drawn_and_shown(report):
    lines = {line.label: line for line in chart(report, "success_rate-by-agents").lines}
    assert set(lines) == {"random", "greedy", "mine"}
    assert list(lines["greedy"].x) == [2.0, 4.0]
    assert all(line.low is not None for line in lines.values())  # a band each
    log = chart(report, "return-by-density-agents-2")
    assert log.log
    assert log.title == "agents = 2"
    rows = as_csv(report.charts, ChartPoint).splitlines()
    assert len(rows) == 1 + len(report.charts) == 1 + 4 * 2 * 3
    text = as_markdown(report.document)
    assert "plots/chart-coordination-by-agents.svg" in text


# --- published returns, paired tests -------------------------------------------------------------


def test_other_seeds_are_not_paired(small, report):
    one, two = (report.episodes.of(TASKS[0], name) for name in ("random", "greedy"))
    table = EpisodeTable((one, dataclasses.replace(two, seeds=two.seeds + np.uint64(1000))))
    (row,) = comparisons(small, table)
    assert np.isnan(row.p_value)
    assert "same seeds" in row.flag
    table = EpisodeTable((one, dataclasses.replace(two, seeds=two.seeds + np.uint64(1))))
    (row,) = comparisons(small, table)
    assert row.flag == f"over the {len(one) - 1} episodes that both have played"


# --- maps of the user ----------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "maps").mkdir()
    rows = ["@" * 20, *["@" + "." * 18 + "@"] * 18, "@" * 20]
    for name in ("one", "two"):
        text = "\n".join(["type octile", "height 20", "width 20", "map", *rows]) + "\n"
        (tmp_path / "maps" / f"{name}.map").write_text(text, encoding="utf-8")
    return tmp_path / "maps"


def test_maps_of_the_user_are_a_standard_of_their_own(folder):
    protocol = with_maps(HARD, folder)
    assert protocol.digest != HARD.digest
    assert all(task.instances is None for task in protocol.task)
    assert len(game_of(protocol.task[0]).constants.map.discs) == 2
    reasons = deviations(protocol, EpisodeTable(()))
    assert any("it uses map files of the user: 2 files of" in reason for reason in reasons)
    assert not any("differs from the routing-hard" in reason for reason in reasons)
    assert not any("maps" in reason for reason in deviations(HARD, EpisodeTable(())))
    assert maps_text(protocol).startswith(f"2 files of {folder} (SHA-256 {protocol.task[0].maps}")
    assert maps_text(HARD).startswith("12 bundled synthetic city maps (SHA-256 ")
    shorter = builders.first_task(protocol)
    reasons = deviations(shorter, EpisodeTable(()))
    assert any("differs from the routing-hard" in reason for reason in reasons)


def test_maps_that_cannot_be_played_on_are_named_once(folder):
    with pytest.raises(ProtocolError, match=r"There is no folder .*nowhere"):
        with_maps(HARD, folder / "nowhere")
    text = (folder / "two.map").read_text()
    (folder / "two.map").write_text(text.replace("@...", "@..?", 1))
    with pytest.raises(ProtocolError, match=r"(?s)two\.map.*unknown terrain") as error:
        with_maps(HARD, folder)
    assert str(error.value).count("unknown terrain") == 1
    assert "Tuple" not in str(error.value)


def test_the_checksum_is_of_names_and_contents(folder):
    parameters = {"map": "movingai", "map_params": {"path": str(folder)}}
    first = checksum("coopbench/Routing-v0", parameters)
    (folder / "two.map").rename(folder / "three.map")
    second = checksum("coopbench/Routing-v0", parameters)
    (folder / "one.map").write_text((folder / "one.map").read_text().replace("..", "@.", 1))
    assert len({first, second, checksum("coopbench/Routing-v0", parameters)}) == 3


def test_a_command_plays_on_the_maps_of_the_user(folder, tmp_path, command):
    parameters = {
        "num_agents": 2,
        "map": "movingai",
        "map_params": {"height": 20, "width": 20},
        "horizon": 5,
    }
    shown = {"score": "success_rate", "metrics": ["success_rate"], "curve": "success_rate"}
    tasks = [builders.make_task("a2", "coopbench/Routing-v0", high=1, parameters=parameters)]
    file = builders.protocol_file(
        tmp_path, tasks=tasks, train=None, baselines=None, count=3, **shown
    )
    words = ["evaluate", file, "-p", "random", "--out", "results", "--maps"]
    command(*words, folder)
    page = (tmp_path / "results" / "report.html").read_text(encoding="utf-8")
    assert f"2 files of {folder}" in page
    for place, reason in ((tmp_path, "there is no map"), (tmp_path / "none", "There is no folder")):
        assert reason in command(*words, place, status=2).message
    (folder / "one.map").write_text("type octile\nheight 2\n", encoding="utf-8")
    assert "one.map" in command(*words, folder, status=2).message
    printed = command("evaluate", "routing-easy", "--maps", folder, status=2)
    assert "no task with map = 'movingai'" in printed.message
