"""Protocols of battles: what they play, how long they train, and what their reports show."""

from pathlib import Path

import numpy as np
import pytest

import coopbench
from coopbench.analysis.battles import load_battles
from coopbench.baselines.registry import entries
from coopbench.episodes.table import Cell
from coopbench.protocol.loading import load_protocol, protocol_files
from coopbench.protocol.variants import with_tasks
from coopbench.report.facts import training_text
from coopbench.workflows.replay import find_episode
from coopbench_envs.skirmish.teams import RACES
from studies.battles.pages import verdict

STUDIES = Path(__file__).resolve().parent.parent / "studies" / "protocols"
CERTIFIED = STUDIES / "skirmish-certified.toml"
REASONS = {  # why a battle is no task of the standard, by what its certificate says
    "none": "blind play wins more than half as often",
    "open": "the intervals leave it open",
    "lost": "nobody wins a tenth of the battles",
}
CLASSES = {  # of Samvelyan et al. 2019
    "easy": "2s_vs_1sc 2s3z 3s5z 1c3s5z 10m_vs_11m",
    "hard": "2c_vs_64zg bane_vs_bane 5m_vs_6m 3s_vs_5z",
    "super-hard": "3s5z_vs_3s6z 6h_vs_8z 27m_vs_30m MMM2 corridor",
}


def test_the_published_protocol_has_the_maps_and_numbers_of_the_paper():
    protocol = load_protocol("skirmish-published")
    maps = {
        group: " ".join(task.parameters["map"] for task in tasks)
        for group, tasks in protocol.groups.items()
    }
    assert maps == CLASSES
    (budget,) = protocol.training.budgets.values()
    assert (budget.steps, budget.interval) == (2_000_000, 10_000)
    training, seeds = protocol.training, protocol.seeds
    assert (training.runs, training.episodes, seeds.evaluation.count) == (5, 32, 1000)
    assert protocol.report.reproduces.medians
    assert protocol.report.score == "win"


def test_the_small_protocol_trains_longer_where_more_is_to_be_learned():
    protocol = load_protocol("skirmish-small")
    steps = {
        task.id: [budget.steps for budget in protocol.budgets_of(task).values()]
        for task in protocol.task
    }
    assert steps["3m"] == steps["8m"] == [200_000]
    assert steps["2s3z"] == [600_000]
    assert steps["3m-drawn"] == [500_000]
    assert "on 2s3z 600,000 steps" in training_text(protocol)
    assert "on 2s3z" not in training_text(with_tasks(protocol, ["3m"]))


def test_the_standard_protocol_plays_the_battles_that_measure_reacting():
    """Of the maps of SMAC, 3m and 8m, and the drawn teams; its file names all others, and why."""
    protocol = load_protocol("skirmish-standard")
    maps, teams, shifted = (protocol.groups[name] for name in ("maps", "teams", "shifted"))
    verdicts = {
        task.id: verdict(one)
        for task in load_protocol(CERTIFIED).task
        for one in load_battles(task.env).values()
        if one.parameters == task.parameters
    }
    published = {
        task.parameters["map"].lower() for task in load_protocol("skirmish-published").task
    }
    drawn = {f"{race}_{sizes}" for race in RACES for sizes in ("5_vs_5", "10_vs_11")}
    assert verdicts.keys() == published | {"3m", "8m"} | drawn
    trained = {task.id: task for task in (*maps, *teams)}
    assert trained.keys() == {name for name, said in verdicts.items() if said == "need"}
    text = protocol_files()["skirmish-standard"].read_text(encoding="utf-8")
    for said, reason in REASONS.items():
        (line,) = (line for line in text.splitlines() if line.endswith(reason))
        names = line.removeprefix("#").removesuffix(reason).strip().split(", ")
        assert set(names) == {name for name, other in verdicts.items() if other == said}
    assert all("map" in task.parameters for task in maps)
    assert all(task.parameters["teams"] == "drawn" for task in teams)
    assert [task.trained_on for task in shifted] == list(trained)
    for task in shifted:
        usual = trained[task.trained_on].parameters
        assert usual["start"] == "drawn"
        assert task.parameters == usual | {"start": "shifted"}
    assert all(task.env == "coopbench/Skirmish-v1" for task in protocol.task)


def test_the_standard_protocol_has_the_numbers_of_marl_standard():
    protocol, marl = load_protocol("skirmish-standard"), load_protocol("marl-standard")
    assert protocol.report.score == "win"
    assert protocol.training.budgets == marl.training.budgets
    assert protocol.training.runs == marl.training.runs == 10
    assert protocol.seeds.evaluation.count == 10 * protocol.seeds.selection.count == 320
    assert protocol.training.evaluates is None  # the best checkpoint: the absolute metric
    assert protocol.report.baselines[:2] == ("random", "open_loop")
    assert all(entries()[name].information == "none" for name in protocol.report.baselines[:2])


def test_its_seeds_are_no_other_protocols():
    seeds = load_protocol("skirmish-standard").seeds
    own = {*seeds.training, *seeds.evaluation.seeds, *seeds.selection.seeds}
    assert len(own) == 10 + 320 + 32
    for name in set(coopbench.protocol_names()) - {"skirmish-standard"}:
        other = load_protocol(name).seeds
        assert own.isdisjoint({*other.training, *other.evaluation.seeds}), name


@pytest.mark.parametrize("name", ["skirmish-small", "skirmish-published", "skirmish-standard"])
def test_smacs_heuristic_with_orders_from_afar_stands_beside_learners(name):
    protocol = load_protocol(name)
    assert protocol.report.learned
    assert "smac_heuristic_free" in protocol.report.baselines
    for task in protocol.task:
        assert protocol.task_of(task.id) is task is protocol.played_in(Cell(task.id, "focus_fire"))
        own = protocol.played_in(Cell(task.id, "smac_heuristic_free"))
        assert own.parameters == task.parameters | {"free_orders": True}
        assert own.model_copy(update={"parameters": task.parameters}) == task
    (other,) = (task for task in load_protocol("marl-standard").task if task.id == "slcd")
    assert other.as_played_by("smac_heuristic_free") is other  # a game without orders


def test_what_it_plays_is_verified_and_shown_again(tmp_path):
    """It wins more than a script with legal orders, and is played again from its own battles."""
    protocol = with_tasks(load_protocol("skirmish-small"), ["3m-drawn"])
    policies = ["smac_heuristic_free", "smac_heuristic"]
    report = coopbench.evaluate(protocol, policies, out=tmp_path, reference=False)
    wins = {row.policy: row.mean for row in report.estimates if row.metric == "win"}
    assert wins["smac_heuristic_free"] > wins["smac_heuristic"] + 0.2
    assert report.cards["smac_heuristic_free"]["Acts on"] == "global, with free_orders"
    assert report.cards["smac_heuristic"]["Acts on"] == "global"
    assert coopbench.verify(tmp_path).identical
    episode = find_episode(f"{tmp_path}/3m-drawn/smac_heuristic_free/5")
    assert episode.parameters["free_orders"]
    (block,) = report.episodes.runs("3m-drawn", "smac_heuristic_free")
    assert episode.team_return == pytest.approx(block.returns[5].mean())


class _Named:
    name = "smac_heuristic_free"

    def act(self, observations, memory):
        return np.zeros(observations.shape[:2], np.int64), memory


def test_nobody_else_gets_its_orders():
    protocol = with_tasks(load_protocol("skirmish-small"), ["3m-drawn"])
    with pytest.raises(ValueError, match="another one was given under that name"):
        coopbench.evaluate(protocol, [_Named()])
    with pytest.raises(ValueError, match="partners and opponents do not have: leave it out"):
        coopbench.crossplay(protocol, ["smac_heuristic_free", "kite"])
