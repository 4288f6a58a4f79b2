"""The packages of examples/own-*: each registers by its entry points, and everything works with it.

They are not installed. What pip would write, the sources on the path and the entry points in the
metadata, is made from their pyproject.toml.
"""

import json
import os
import re
import sys
import tomllib
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import builders
import pytest

import coopbench
from coopbench.analysis import aggregates
from coopbench.baselines import registry
from coopbench.baselines.networks import kinds
from coopbench.report.explanations import explanations
from coopbench.report.markdown import as_markdown
from coopbench.report.sections.aggregates import aggregate
from coopbench.report.serialise import as_json, tables_as_csv
from coopbench.workflows.verdicts import BY_INTERVAL, IDENTICAL, REPLAYED, RERUN
from coopbench.workflows.verification import verify
from coopbench_envs import packages, registration

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = sorted((ROOT / "examples").glob("own-*"))
HIGH = {"hard": 40.0, "easy": 10.0}  # upper bounds of the scores of two tasks; the lower are 0
CACHES = (
    aggregates._installed,
    registry._entries,
    registry._installed_policies,
    registry._learners,
    registry._resolved,
    registry.reads_file,
)
# A test registers the environment again, which other processes do for the first time.
pytestmark = pytest.mark.filterwarnings("ignore:.*Overriding environment")


def _path_of(package, folder):
    """Write the metadata of a package into ``folder``; return what has to be on the path."""
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))
    facts = project["project"]
    metadata = folder / f"{facts['name'].replace('-', '_')}-{facts['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {facts['name']}\nVersion: {facts['version']}\n",
        encoding="utf-8",
    )
    lines = []
    for group, points in facts["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    places = project["tool"]["setuptools"]["packages"]["find"]["where"]
    return [str(package / place) for place in places]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Folders with the sources and the metadata of all packages."""
    folder = tmp_path_factory.mktemp("installed")
    return [str(folder), *(entry for package in PACKAGES for entry in _path_of(package, folder))]


@pytest.fixture(scope="module")
def installed(path):
    """All packages are installed in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*path, *sys.path])
        for name in ("_modules", "_specs"):
            patch.setattr(registration, name, dict(getattr(registration, name)))
        for cached in CACHES:
            cached.cache_clear()
        registration.register_all()
        yield
    for cached in CACHES:
        cached.cache_clear()
    names = {folder.name for package in PACKAGES for folder in (package / "src").iterdir()}
    for module in [module for module in sys.modules if module.partition(".")[0] in names]:
        del sys.modules[module]


@pytest.fixture(scope="module")
def protocol(tmp_path_factory):
    """Two tasks of one game, of which one has higher bounds."""
    return builders.small_protocol(
        tmp_path_factory.mktemp("protocol"),
        tasks=[
            builders.make_task("hard", high=HIGH["hard"]),
            builders.make_task("easy", high=HIGH["easy"], horizon=5),
        ],
        selection=(100, 2),
        training=builders.make_training(steps=96, interval=48),
    )


@pytest.fixture(scope="module")
def results(installed, protocol, tmp_path_factory):
    """Results of the policy and of a shipped one."""
    folder = tmp_path_factory.mktemp("results")
    coopbench.evaluate(protocol, ["random", "impulsive:0.3"], folder)
    return folder


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["example/Volunteers-v0", "impulsive", "random_search"])
def test_it_is_listed_and_described(name, command):
    assert name in command("list").out
    assert name in command("show", name).out


@pytest.mark.usefixtures("installed")
def test_the_environment_is_played_and_verified(tmp_path):
    coopbench.evaluate("example/Volunteers-v0", ["random"], tmp_path, episodes=3)
    (check,) = verify(tmp_path).cells
    assert (check.how, check.verdict, check.played) == (RERUN, IDENTICAL, 3)


def test_the_policy_is_verified(results):
    checks = [check for check in verify(results).cells if "impulsive" in check.what]
    assert [(check.how, check.verdict) for check in checks] == [(REPLAYED, BY_INTERVAL)] * 2


def test_the_policy_plays_again_as_its_package_may_have_changed(results, protocol, tmp_path):
    folder, told = builders.copied(results, tmp_path / "copy"), []
    coopbench.evaluate(
        protocol,
        ["random", "impulsive:0.3"],
        folder,
        progress=lambda cell, share, state: told.append((cell.policy, state)),
    )
    assert {state for policy, state in told if policy == "random"} == {"kept"}
    assert {state for policy, state in told if policy == "impulsive:0.3"} == {"plays", "done"}


@pytest.mark.usefixtures("installed")
def test_the_learner_is_trained_and_verified(protocol, tmp_path):
    pytest.importorskip("torch")
    report = coopbench.train(
        protocol, "random_search", tmp_path, tasks=["hard"], seeds=[50], rollout=48
    )
    assert {row.policy for row in report.estimates} == {"random_search"}
    (check,) = verify(tmp_path).cells
    assert (check.how, check.verdict) == (RERUN, IDENTICAL)


def test_the_statistic_is_in_every_rendering(results):
    report = coopbench.load_report(results)
    worst = [row for row in report.aggregates if row.statistic == "worst_task"]
    assert {row.policy for row in worst} == {"random", "impulsive:0.3"}
    scores = [row for row in report.estimates if (row.task, row.metric) == ("hard", "return")]
    means = {row.policy: row.mean for row in scores}
    for row in worst:
        assert row.estimate == pytest.approx(means[row.policy] / HIGH["hard"])
    assert "worst_task" in tables_as_csv(report)["aggregates"]
    assert "worst_task" in {row["statistic"] for row in json.loads(as_json(report))["aggregates"]}
    assert "| Worst task |" in as_markdown(report.document)
    assert "& Worst task &" in report.latex()
    assert "trimmed mean, optimality gap, worst task and rank" in report.latex()
    assert explanations(report)["Worst task"].endswith("where it is lowest.")
    chart = aggregate(report, "", "worst_task")
    assert chart.x_label.startswith("worst task, mean of normalized")
    (drawn,) = [picture for picture in report.document.pictures if picture.name == "scores"]
    assert drawn.caption.startswith("Mean, trimmed mean, optimality gap and worst task of")


def point(name, loaded):
    return SimpleNamespace(name=name, value="mine:IT", dist=None, load=lambda: loaded)


@pytest.mark.parametrize("name", ["median", "iqm"])
def test_names_of_statistics_are_not_taken_twice(name, monkeypatch):
    points = [point(name, aggregates.STATISTICS["mean"])]
    monkeypatch.setattr(packages, "entry_points", lambda group: points)
    with pytest.warns(match=f"'{name}' = 'mine:IT' of .* is taken; allowed: any but mean"):
        assert aggregates._installed.__wrapped__() == {}


def test_learners_of_this_package_are_not_replaced(monkeypatch):
    shipped = registry.learners()["ippo"]
    others = [replace(shipped, name=name, cores=99) for name in ("ippo", "mine")]
    points = [point(entry.name, entry) for entry in others]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    table = registry._learners.__wrapped__()
    assert table["ippo"] == shipped
    assert table["mine"].cores == 99


@pytest.mark.usefixtures("torch")  # without it no learner is listed
def test_a_broken_package_is_named_and_hides_no_other(monkeypatch, command):
    points = [EntryPoint("broken", "nope:IT", "coopbench.learners"), point("median", "median")]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    table = registry._learners.__wrapped__()
    monkeypatch.setattr(registry, "_learners", lambda: table)
    out = command("list").out
    for name, reason in (("broken", r"cannot be loaded \(Module"), ("median", "is of type str")):
        assert re.search(rf"{name} +cannot be used: .* of coopbench\.learners {reason}", out)
        with pytest.raises(ValueError, match=rf"'{name}' = '.*:IT' .* {reason}.*allowed: "):
            registry.make_learner(name, builders.TRUST, {}, 0)
    assert "proximal policy" in out


@pytest.mark.parametrize(
    ("find", "group", "kept"),
    [
        (registry._installed_policies, "policies", ()),
        (aggregates._installed, "statistics", {}),
        (kinds._installed, "networks", {}),
    ],
)
def test_what_a_broken_package_declares_is_left_out(find, group, kept, monkeypatch):
    points = [EntryPoint("broken", "nope:IT", group), point("text", "text")]
    monkeypatch.setattr(packages, "entry_points", lambda group: points)
    said = rf"of coopbench\.{group} "
    with pytest.warns(match=said + "cannot be loaded"), pytest.warns(match=said + "is of type str"):
        assert find.__wrapped__() == kept


@pytest.mark.slow("starts pytest, which imports everything once more")
def test_the_tests_of_the_packages_pass(path):
    options = ["-q", "-p", "no:cacheprovider", "--confcutdir", str(ROOT / "examples")]
    folders = [str(package / "tests") for package in PACKAGES]
    places = os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")])
    builders.run_python("-m", "pytest", *options, *folders, PYTHONPATH=places)
