"""Protocols of battles: what they play, how long they train, and what their reports show."""

import numpy as np
import pytest

import coopbench
from coopbench.episodes.table import Cell
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.variants import with_tasks
from coopbench.report.sections.cards import cards
from coopbench.workflows.replay import find_episode


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
    report = coopbench.evaluate(protocol, policies, out=tmp_path, only=True)
    wins = {row.policy: row.mean for row in report.estimates if row.metric == "win"}
    assert wins["smac_heuristic_free"] > wins["smac_heuristic"] + 0.2
    assert cards(report)["smac_heuristic_free"]["Acts on"] == "global, with free_orders"
    assert cards(report)["smac_heuristic"]["Acts on"] == "global"
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
