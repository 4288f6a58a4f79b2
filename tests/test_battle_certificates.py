"""Certificates of battles: stored figures are played again; pages and reports show them."""

import dataclasses

import builders
import numpy as np
import pytest

from coopbench.analysis.battles import load_battles
from coopbench.analysis.certificates import certified_tasks
from coopbench.analysis.findings import Findings
from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_policy
from coopbench.baselines.strategies.plans import BattlePlan, packed_plan, plan_of, unpacked_plan
from coopbench.episodes.table import Cell, EpisodeTable
from coopbench.protocol.loading import load_protocol
from coopbench.report.sections.certificates import certificate_table
from coopbench_envs import Engine
from studies.battles.pages import verdict
from studies.battles.play import EVALUATION, FIRST, figure_of, measured, play_battle
from studies.certificates import check
from studies.certificates.games import load_certificate

V0, V1 = "coopbench/Skirmish-v0", "coopbench/Skirmish-v1"
STORED = {
    f"{env_id.partition('/')[2]}/{name}": one
    for env_id in (V0, V1)
    for name, one in load_battles(env_id).items()
}


@pytest.mark.slow("plays the first episodes of all battles again")
@pytest.mark.parametrize("name", STORED)
def test_first_episodes_give_the_stored_returns(name):
    stored = STORED[name]
    assert tuple(stored.figures) == tuple(sorted(stored.players))
    for player, figure in stored.figures.items():
        _, returns = play_battle(stored, player, FIRST)
        assert returns.tolist() == figure.first, player


def test_trained_policies_of_shifted_starts_are_those_of_drawn_ones():
    battles = load_battles(V1)
    shifted = {name: one for name, one in battles.items() if one.parameters["start"] == "shifted"}
    assert shifted
    for name, one in shifted.items():
        assert one.policies_of == name.replace("-shifted", "-drawn")
        assert one.training == battles[one.policies_of].training
    assert battles["3m-fixed"].policies_of == "3m-fixed"


def test_a_difference_is_shown_if_the_intervals_agree():
    stored = STORED["Skirmish-v1/2s3z-drawn"]
    assert stored.is_shown_to_need_sight
    wins = np.zeros(100)
    rare = figure_of(np.append(wins[3:], np.ones(3)), np.arange(100.0))
    never = figure_of(wins, np.arange(100.0))
    figures = dict.fromkeys(stored.figures, never) | {stored.reactive: rare}
    unsure = dataclasses.replace(stored, figures=figures)
    assert not unsure.is_shown_to_need_sight
    assert verdict(unsure) == "lost"
    assert verdict(STORED["Skirmish-v1/1c3s5z-drawn"]) == "none"


def played(name, task_id, score=None):
    """Return a protocol, and a table in which somebody has played one of its tasks."""
    protocol = load_protocol(name)
    block = builders.make_block(Cell(task_id, "random", None), np.zeros((4, 3)))
    if score is not None:
        report = protocol.report.model_copy(update={"score": score})
        protocol = protocol.model_copy(update={"report": report})
    return protocol, EpisodeTable((block,))


@pytest.mark.parametrize(
    ("name", "task_id", "battle"),
    [
        ("skirmish-standard", "2s3z", "Skirmish-v1/2s3z-drawn"),
        ("skirmish-standard", "3s_vs_5z", "Skirmish-v1/3s_vs_5z-drawn"),
        ("skirmish-published", "2s3z", "Skirmish-v0/2s3z"),
    ],
)
def test_a_report_shows_the_certificates_of_its_battles(name, task_id, battle):
    protocol, table = played(name, task_id)
    (row,) = certified_tasks(protocol, table)
    stored = STORED[battle]
    assert (row.task, row.met) == (task_id, stored.is_shown_to_need_sight)
    assert (row.simple_score, row.simple_low) == (stored.blind.win, stored.blind.win_low)
    assert row.best_score == stored.figures[stored.reactive].win
    assert row.most == 0.5 * row.best_low
    assert (row.simple_high <= row.most) == row.met
    shown = certificate_table(builders.altered(Findings(protocol, table), certificates=(row,)))
    cells = [entry.text for entry in shown.groups[0].rows[0]]
    assert cells[-2:] == [f"{row.most:.3f}", "yes" if row.met else "no"]
    assert certificate_table(builders.altered(Findings(protocol, table), certificates=())) is None


def test_a_report_shows_the_certificates_of_its_games_by_their_score():
    name = "coopetition-standard"
    for task_id in ("trust-dilemma", "slcd.focal"):
        (row,) = certified_tasks(*played(name, task_id))
        stored = load_certificate(load_protocol(name).task_of(task_id).env)
        simple = ("best_script",) if "focal" in task_id else ("constant", "sequence")
        scores = [stored.score(task_id, kind) for kind in simple]
        assert row.simple_score == pytest.approx(max(scores))
        best = max(stored.score(task_id, kind) for kind in ("memory", "script"))
        assert row.best_score == pytest.approx(best)
        assert (row.most, row.met) == (0.85 if "focal" in task_id else 0.3, True)
    protocol, table = played(name, "trust-dilemma")
    (usual,), task = certified_tasks(protocol, table), protocol.task_of("trust-dilemma")
    bounds = task.bounds.model_copy(update={"low": 0.0})
    moved = protocol.model_copy(update={"task": (task.model_copy(update={"bounds": bounds}),)})
    (row,) = certified_tasks(moved, table)
    for key in ("simple_score", "simple_low", "best_score", "best_high", "most"):
        earned = task.bounds.low + getattr(usual, key) * (task.bounds.high - task.bounds.low)
        assert getattr(row, key) == pytest.approx(earned / task.bounds.high)
    report = protocol.report.model_copy(update={"normalisation": "minmax"})
    assert not certified_tasks(protocol.model_copy(update={"report": report}), table)
    for other in (("skirmish-standard", "2s3z"), ("coopetition-standard", "trust-dilemma")):
        assert not certified_tasks(*played(*other, "return"))
    assert not certified_tasks(*played("coopetition-published", "trust-dilemma"))


def test_intervals_of_a_share():
    figure = figure_of(np.repeat([1.0, 0.0], [30, 70]), np.linspace(0.0, 20.0, 100))
    assert (figure.win_low, figure.win_high) == pytest.approx((0.2189, 0.3958), abs=1e-4)
    never = figure_of(np.zeros(100), np.full(100, 5.0))
    assert never.win_low == 0.0
    assert never.win_high == pytest.approx(0.0370, abs=1e-4)
    assert (never.score_low, never.score_high) == (0.25, 0.25)


@pytest.mark.parametrize("masks", [True, False])
def test_packed_plans_are_the_same_plans(masks):
    rng = np.random.default_rng(3)
    ranks = rng.permuted(np.tile(np.arange(9, dtype=np.uint8), (5, 3, 1)), axis=2)
    ranks = ranks.repeat([1, 4, 2, 1, 3], axis=0)
    plan = packed_plan(ranks, masks=masks)
    assert all(len(runs) == 5 if masks else len(runs) <= 5 for runs in plan)
    again = unpacked_plan(plan, 9)
    assert (again.argmax(axis=2) == ranks.argmax(axis=2)).all()
    assert not masks or (again == ranks).all()


@pytest.mark.parametrize("run", ["3:1 1 2", "3:9", "3:-1"])
def test_a_plan_with_wrong_choices_says_so(run):
    with pytest.raises(ValueError, match=r"allowed: 'STEPS:CHOICE CHOICE \.\.\.'"):
        unpacked_plan([[run]], 9)


def test_a_plan_takes_the_first_legal_choice_and_ends_with_its_last_step():
    ranks = unpacked_plan([["1:3 2 1", "1:2 1"]], 4)
    masks = np.array([[[0, 1, 1, 0]], [[0, 1, 1, 1]], [[1, 0, 0, 0]]], np.bool_)
    policy = BattlePlan(ranks, masks=True)
    actions, memory = policy.act(np.zeros((3, 1, 1)), np.array([0, 0, 7]), masks)
    assert actions.tolist() == [[2], [3], [0]]
    assert memory.tolist() == [1, 1, 8]
    actions, _ = BattlePlan(ranks, masks=False).act(np.zeros((3, 1, 1)), np.array([0, 1, 9]))
    assert actions.tolist() == [[3], [2], [2]]


@pytest.mark.parametrize("masks", [True, False])
def test_the_policy_plays_the_plan_of_the_certificate_on_skirmish_v1(masks):
    engine = Engine(V1, FIRST, map="3m")
    player = Player(f"open_loop:{masks:d}", Game.of(engine))
    returns = Match(engine, [player]).play(np.arange(EVALUATION, EVALUATION + FIRST))
    figure = STORED["Skirmish-v1/3m-drawn"].figures["masked" if masks else "unmasked"]
    assert returns[:, 0].tolist() == figure.first


@pytest.mark.parametrize(
    ("parameters", "battle"),
    [
        ({"map": "3m", "start": "shifted"}, "3m-drawn"),
        (
            {"teams": "drawn", "race": "terran", "num_agents": 5, "num_enemies": 5},
            "terran-5-5-drawn",
        ),
    ],
)
def test_the_policy_finds_plans_for_shifted_starts_and_drawn_teams(parameters, battle):
    game = Game.at(V1, **parameters)
    stored = dataclasses.asdict(load_battles(V1)[battle])
    plan = plan_of(stored, masks=True, choices=game.action_space.n)
    np.testing.assert_array_equal(make_policy("open_loop", game)._ranks, plan)
    with pytest.raises(ValueError, match=r"no certificate; there are those of .*3m-drawn"):
        make_policy("open_loop", Game.at(V1, map="3m", side="enemies"))


def test_what_is_played_is_compared_with_what_is_stored(monkeypatch, capsys):
    def checked(*words, status=0):
        monkeypatch.setattr("sys.argv", ["check", "Skirmish-v1", *words])
        with pytest.raises(SystemExit) as stop:
            check.main()
        assert stop.value.code == status
        return capsys.readouterr().out

    name = "3m-drawn"
    short = measured(load_battles(V1)[name], 6)
    figures = short.figures | {"kite": dataclasses.replace(short.figures["kite"], wins=6)}
    wrong = dataclasses.replace(short, figures=figures)
    monkeypatch.setattr(check, "load_battles", lambda _: {name: short})
    assert f"{name}: as stored" in checked()
    monkeypatch.setattr(check, "load_battles", lambda _: {name: wrong})
    text = checked("--task", name, status=1)
    assert f"{name}: 1 of {len(figures)} figures differ from what is stored" in text
    checked("--stored", "mine.json", status=2)
