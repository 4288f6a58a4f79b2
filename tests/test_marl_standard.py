"""marl-standard and protocols of its form: numbers, checkpoints, scripts of single groups."""

import numpy as np
import pytest
from builders import loaded, make_task, make_training, small_protocol

import coopbench
from coopbench.analysis.score_matrix import units_of
from coopbench.describe import describe_protocol
from coopbench.episodes.metrics import values
from coopbench.errors import ProtocolError
from coopbench.playing.contestants import Checkpoints, Failed, TrainedRuns
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.variants import with_tasks

BAD = {"horizon": 8, "good": 0.0, "trembles": 0.0}  # who invests more earns less
# A protocol of the published form: 2 tasks of 2 groups, 3 runs, 4 checkpoints.
SMALL = {
    "citation": "Gorsane et al. 2022",
    "tasks": [
        make_task(group="pair", parameters=BAD, high=200),
        make_task("race", "coopbench/RecoveryRace-v1", group="race", parameters=BAD, high=200),
    ],
    "train": [10, 11, 12],
    "first": 100,
    "selection": (200, 4),
    "training": make_training(runs=3, episodes=4, steps=400, interval=100),
    "metrics": ["return"],
    "resamples": 200,
    "normalisation": "minmax",
    "reproduces": {"bootstrap": "percentile", "medians": True},
    "domain": {"pair": {"metrics": ["final_trust"], "curve": "final_trust"}},
}


def learned(*levels) -> Checkpoints:
    """Checkpoints that invest so much, after 100, 200, ... steps."""
    return Checkpoints({100 * (k + 1): f"constant:{level}" for k, level in enumerate(levels)})


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return small_protocol(tmp_path_factory.mktemp("protocol"), "marl-standard", **SMALL)


@pytest.fixture(scope="module")
def mine():
    """Runs of which one failed, one stopped early, and one is missing on the second task."""
    return TrainedRuns(
        "mine",
        {
            "dilemma": {
                10: learned(0.5, 0.4, 0.1, 0.3),
                11: learned(0.4, 0.2),
                12: Failed("out of memory"),
            },
            "race": {10: learned(0.4, 0.1, 0.1, 0.2), 11: learned(0.4, 0.3, 0.2, 0.1)},
        },
    )


@pytest.fixture(scope="module")
def report(small, mine):
    return coopbench.evaluate(small, ["random", mine])


@pytest.mark.parametrize("group", ["games", "pathfinding", "battles"])
def test_scripts_play_the_tasks_of_their_group(group):
    marl = load_protocol("marl-standard")
    task = marl.groups[group][0]
    scripts = marl.report.domain[group].baselines
    report = coopbench.evaluate(with_tasks(marl, [task.id]), list(scripts), only=True)
    assert report.episodes.policies == scripts


def test_scores_between_lowest_and_highest_need_no_publication(tmp_path):
    text = 'extends = "marl-standard"\n[protocol]\nname = "other"\n[report]\n'
    text += 'normalisation = "minmax"\n'
    assert loaded(tmp_path, text, "other").report.normalisation == "minmax"
    with pytest.raises(ProtocolError, match="a margin is in units of the tasks' bounds"):
        loaded(tmp_path, f"{text}margin = 0.1\n", "other")
    domain = {"pear": SMALL["domain"]["pair"]}
    with pytest.raises(ProtocolError, match="'pair'"):
        small_protocol(tmp_path, "marl-standard", **(SMALL | {"domain": domain}))
    domain = {"pair": {"metrics": ["final_trst"], "curve": "final_trust"}}
    with pytest.raises(ProtocolError, match="'final_trust'"):
        small_protocol(tmp_path, "marl-standard", **(SMALL | {"domain": domain}))


def test_a_protocol_of_one_group_of_its_tasks_drops_the_other_domains(tmp_path):
    head = 'extends = "marl-standard"\n[protocol]\nname = "one"\n'
    task = '[[task]]\nid = "3m"\ngroup = "GROUP"\nenv = "coopbench/Skirmish-v1"\n'
    task += "bounds = { low = 0.0, high = 20.0 }\n"
    report = loaded(tmp_path, head + task.replace("GROUP", "battles"), "one").report
    assert {group: domain.metrics for group, domain in report.domain.items()} == {
        "battles": ("win",)
    }
    curve = '[report]\ncurve = "win"\n'
    plain = loaded(tmp_path, head + curve + task.replace("GROUP", "mine"), "one")
    assert plain.report.domain is None
    own = '[report.domain]\nbattls = { metrics = ["win"], curve = "win" }\n'
    with pytest.raises(ProtocolError, match="Unknown group 'battls'"):
        loaded(tmp_path, head + own + task.replace("GROUP", "battles"), "one")


def test_scores_lie_between_the_lowest_and_highest_episode(report):
    """Of all policies, runs and checkpoints, as published: with 1e-6 in the divisor."""
    episodes = [values(block, "return") for block in report.episodes if block.cell.task == "race"]
    episodes += [
        p.metrics["return"].ravel() for p in report.episodes.progress if p.cell.task == "race"
    ]
    low, high = np.concatenate(episodes).min(), np.concatenate(episodes).max()
    runs = units_of(
        report.protocol, report.episodes, report.protocol.task_of("race"), "mine", "return"
    )
    shares = (runs - low) / (high - low + 1e-6)
    np.testing.assert_allclose(report.scores["mine"]["race"], shares)
    rows = {r.statistic: r for r in report.aggregates if (r.group, r.policy) == ("race", "mine")}
    assert rows["trimmed_mean"].estimate == pytest.approx(shares.mean())
    assert rows["trimmed_mean"].method == "two-way"
    assert rows["iqm"].estimate == pytest.approx(shares.mean())
    assert rows["iqm"].method == "percentile"  # as published, over runs alone


# --- baselines of single groups ------------------------------------------------------------------


SCRIPTED = SMALL | {
    "tasks": [
        make_task(group="pair", parameters=BAD, high=200),
        make_task("3m", "coopbench/Skirmish-v1", group="battle", parameters={"map": "3m"}),
    ],
    "domain": {
        "pair": {"metrics": ["final_trust"], "curve": "final_trust", "baselines": ["cooperator"]},
        "battle": {"metrics": ["win"], "curve": "win", "baselines": ["kite"]},
    },
}


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    """A protocol whose scripts play one group each: a game, or battles."""
    return small_protocol(tmp_path_factory.mktemp("scripted"), "scripted", **SCRIPTED)


def test_baselines_of_a_group_play_its_tasks_alone(scripted):
    """No deviation says that they lack the others; tables leave these open."""
    report = coopbench.evaluate(scripted, ["random"])
    assert scripted.report.fixed == ("random", "cooperator", "kite")
    assert set(report.episodes.pairs) == {
        *((task, "random") for task in ("dilemma", "3m")),
        *(("dilemma", "cooperator"), ("3m", "kite")),
    }
    lacking = [text for text in report.deviations if "cooperator" in text or "kite" in text]
    assert not lacking
    groups = {(row.group, row.policy) for row in report.aggregates}
    assert {("pair", "cooperator"), ("battle", "kite")} <= groups
    assert not {("pair", "kite"), ("battle", "cooperator")} & groups
    assert "Required baselines of battle" in describe_protocol(scripted)
    part = with_tasks(scripted, ["3m"])
    assert part.report.fixed == ("random", "kite")


def test_a_missing_baseline_of_a_group_is_a_deviation(scripted):
    report = coopbench.evaluate(scripted, ["random"], only=True)
    text = "the required baselines cooperator, kite are missing"
    assert text in report.deviations


def test_other_policies_have_to_play_all_tasks(scripted):
    with pytest.raises(ValueError, match="matcher"):
        coopbench.evaluate(scripted, ["random", "matcher"])


def test_a_baseline_is_of_all_tasks_or_of_groups(tmp_path):
    for name, learned in (("random", []), ("ippo", ["ippo"])):
        pair = SCRIPTED["domain"]["pair"] | {"baselines": [name]}
        content = SCRIPTED | {"domain": {"pair": pair}, "learned": learned}
        with pytest.raises(ProtocolError, match=f"'{name}' is .*; keep it in one"):
            small_protocol(tmp_path, "twice", **content)
