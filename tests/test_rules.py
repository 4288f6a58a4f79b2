"""Rules: what inputs they read, and that they play what they say."""

import json

import numpy as np
import pytest

from coopbench.baselines.game import Game
from coopbench.baselines.match import OWN, Match
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_policy
from coopbench.baselines.rules.rules import Form
from coopbench.protocol.loading import load_protocol
from coopbench_envs import Engine
from studies.certificates.arena import STRIDE, Arena, Table, focal_tables

GAME = "coopbench/TrustDilemma-v1"
INVEST = {"investment": {"good": {"one": 1.0}}}


def _observations(game, **parts):
    """Return one lane of observations of one seat with these parts, all others 0."""
    width = max(part.stop for part in game.layout.values())
    row = np.zeros((1, width), np.float32)
    for name, value in parts.items():
        row[:, game.layout[name].index] = value
    return row


def test_a_rule_is_a_clipped_linear_function_of_its_regime():
    form = Form(Game.at(GAME), 0)
    rule = {
        "switch": 0.5,
        "investment": {
            "good": {"one": 0.25, "trust_in_others": 1.0, "after": 0.5},
            "bad": {"one": 2.0},
        },
    }
    weights = form.weights(rule)[None]
    seen = {"productivity": 0.6, "trust_in_others": 0.7}
    for parts, expected in (
        (seen, 0.45),
        (seen | {"time": 0.5}, 0.95),
        (seen | {"time": 0.5, "trust_in_others": 1.0}, 1.0),
        (seen | {"productivity": 0.2}, 1.0),
    ):
        actions, _ = form.act(weights, _observations(form.inputs.game, **parts), np.zeros((1, 0)))
        assert actions[0, 0] == pytest.approx(expected)
    assert form.weights(form.data(weights[0])) == pytest.approx(weights[0])


def test_memory_holds_means_of_what_was_given_in_good_times():
    form = Form(Game.at(GAME), 0)
    weights = form.weights({"investment": {"good": {"lately": 1.0, "one": 0.5}}})[None]
    memory = form.initial(1, weights)
    good = {"productivity": 0.6, "others_actions": 1.0}
    first, memory = form.act(weights, _observations(form.inputs.game, **good), memory)
    second, memory = form.act(weights, _observations(form.inputs.game, **good), memory)
    assert first[0, 0] == pytest.approx(0.5)  # nothing has been given before the first step
    assert second[0, 0] == pytest.approx(0.5 + 0.4 * 0.5)
    bad = good | {"productivity": 0.2}
    _, memory = form.act(weights, _observations(form.inputs.game, **bad), memory)
    third, _ = form.act(weights, _observations(form.inputs.game, **good), memory)
    assert third[0, 0] == pytest.approx(0.5 + 0.5 * (1 - 0.6**2))  # bad regimes do not count


def test_classes_of_rules_read_no_more_than_they_may():
    form = Form(Game.at(GAME), 0)
    names = np.array(form.inputs.names)
    for kinds, read, forbidden in (
        ("own", "own_action", "others_actions"),
        ("public", "productivity", "own_action"),
    ):
        free = form.free(kinds, ("bad", "good"))
        table = free[3:].reshape(3, 1, -1)
        assert (table[:, :, names == forbidden] < 0).all()
        assert (table[:2, :, names == read] >= 0).all()
        assert (table[2] < 0).all()  # a regime that is never met
    tied = form.free("time", ("bad", "good"), tied=True)[3:].reshape(3, -1)
    np.testing.assert_array_equal(tied[0], tied[1])
    latches = [form.free(kinds, ("good",))[2] for kinds in ("partner", "memory")]
    assert latches[0] < 0 <= latches[1]  # only classes with memory have a latch


def test_a_latch_holds_from_the_first_low_record_on():
    form = Form(Game.at(GAME), 0)
    rule = {"latch": 0.4, "investment": {"good": {"one": 1.0, "fallen": -0.75}}}
    weights = form.weights(rule)[None]
    assert form.weights(form.data(weights[0])) == pytest.approx(weights[0])
    memory, course = form.initial(1, weights), []
    for record in (0.9, 0.41, 0.39, 0.9, 0.9):
        seen = _observations(form.inputs.game, productivity=0.6, trust_in_others=record)
        actions, memory = form.act(weights, seen, memory)
        course.append(float(actions[0, 0]))
    assert course == [1.0, 1.0, 0.25, 0.25, 0.25]


def test_rules_and_policies_play_the_same_episodes():
    """The same rule, played in an arena and as a policy in a match beside a fixed partner."""
    table = Table(GAME, {}, ("reciprocator",), np.array([[OWN, 0]]))
    weights = {"firm": table.forms["firm"].weights(INVEST)[None]}
    played = Arena(table).play(weights, np.zeros(1, np.int64), 16, 123)
    engine = Engine(GAME, 16)
    players = [Player("cooperator", Game.of(engine)), Player("reciprocator", Game.of(engine))]
    seats = np.tile([OWN, 0], (16, 1))
    returns = Match(engine, players, seats).play(np.arange(123, 139))
    np.testing.assert_allclose(played.returns[0], returns[:, 0])
    seated = Arena(table.seating("cooperator")).play({}, np.zeros(1, np.int64), 16, 123)
    np.testing.assert_allclose(seated.returns, played.returns)


def test_every_seat_of_a_role_is_played_and_trained_partners_play_their_own():
    """The partner has a network for each seat; both seats play the episodes of a match."""
    task = load_protocol("coopetition-standard").task_of("trust-dilemma.focal")
    trained = next(name for name in task.partner_names if name.startswith("shipped:"))
    pool = (trained, "reciprocator")
    (table,) = focal_tables(task.model_copy(update={"partners": pool})).values()
    assert table.lineups.tolist() == [[OWN, 0], [0, OWN], [OWN, 1], [1, OWN]]
    assert (table.names, table.alike) == (pool, 2)
    played = Arena(table.seating("matcher")).play({}, np.arange(4), 8, 123).returns
    for row, lineup in enumerate(table.lineups):
        engine = Engine(GAME, 8, **task.parameters)
        players = [Player(name, Game.of(engine)) for name in ("matcher", *pool)]
        seeds = 123 + STRIDE * row + np.arange(8)
        returns = Match(engine, players, np.tile(lineup, (8, 1))).play(seeds)
        np.testing.assert_array_equal(played[row], returns[:, list(lineup).index(OWN)])
    both = Arena(table.seating("cooperator", "matcher")).play({}, np.arange(8), 8, 123).returns
    np.testing.assert_array_equal(both[4:], played)  # all policies play the same episodes


def test_wishes_are_functions_of_each_other_agent():
    game = Game.at("DynamicPartnerSelection-v1")
    form = Form(game, 0)
    rule = {"wishes": {"good": {"one": 0.5, "trust_in_others": 1.0, "place.2": -1.0}}}
    records = np.linspace(0.0, 1.0, len(game.agents) - 1)
    seen = _observations(game, productivity=0.6, trust_in_others=records)
    actions, _ = form.act(form.weights(rule)[None], seen, np.zeros((1, 0)))
    expected = records.astype(np.float32).copy()
    expected[2] = 0.0
    np.testing.assert_allclose(actions[0, game.action_layout["wishes"].index], expected, atol=1e-6)


def test_rules_are_played_from_files_and_errors_name_them(tmp_path):
    path, game = tmp_path / "rules.json", Game.at(GAME)
    path.write_text(json.dumps({"firm": INVEST}), encoding="utf-8")
    policy = make_policy(f"rule:{path}", game)
    memory = policy.initial(game, np.zeros(2, np.uint64))
    observations = np.tile(_observations(game, productivity=0.6)[:, None], (2, 2, 1))
    actions, _ = policy.act(observations, memory)
    np.testing.assert_array_equal(actions, np.ones((2, 2, 1)))
    for content, message in (
        ({"firm": {"demand": {}}}, "'demand'"),
        ({"firm": {"investment": {"great": {}}}}, "'great'"),
        ({"firm": {"investment": {"good": {"colour": 1.0}}}}, "'colour'"),
        ({"firm": {"investment": {"good": {"one": "much"}}}}, "'much'"),
        ({"firm": {"investment": {"good": {"one": np.inf}}}}, "was inf; allowed: a number"),
        ({"firm": {"switch": np.nan}}, "was nan; allowed: a number"),
        ({"bank": INVEST}, "firm"),
        ([], "no table"),
    ):
        path.write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            make_policy(f"rule:{path}", game)
