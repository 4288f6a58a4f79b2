"""DynamicPartnerSelection-v1: who is matched with whom, what pairs earn, what records become."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from venture_play import STILL

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED
from coopbench_envs.layouts import Part

NAME = "DynamicPartnerSelection-v1"
FIXED = STILL | {
    "initial_trust": (0.6, 0.6),
    "high": (1.8, 1.8),
    "low": (0.2, 0.2),
}


def _game(num_agents, lanes=1, **parameters):
    """Lanes seeded 0, 1, ... in good times that stay, without noise."""
    # Lane by lane, by code that is compiled once for all numbers of agents.
    engine = Engine(NAME, lanes, order="C", num_agents=num_agents, **(FIXED | parameters))
    times = {"good": np.True_, "productivity": np.float64(1.8)}
    engine.reset(np.arange(lanes, dtype=np.uint64), state=times)
    return engine


def _actions(fractions, wishes):
    """Actions of one lane; ``wishes`` is a matrix of each agent's wish for each."""
    n = len(fractions)
    others = np.asarray(wishes, np.float64)[~np.eye(n, dtype=bool)].reshape(n, n - 1)
    return np.concatenate([np.asarray(fractions, np.float64)[:, None], others], axis=1)


def _play(engine, fractions, wishes):
    engine.step(np.broadcast_to(_actions(fractions, wishes), engine.actions.shape), DISABLED)
    return engine.state.partner


def _only(n, *pairs):
    """Wishes under which just these pairs can form."""
    wishes = np.zeros((n, n))
    for a, b in pairs:
        wishes[a, b] = wishes[b, a] = 1.0
    return wishes


def test_a_pair_earns_half_each_whatever_the_records():
    engine = _game(3)
    record = [0.4, 0.8, 0.6]
    engine.reset(state={"record": record, "good": np.True_, "productivity": np.float64(1.8)})
    assert _play(engine, [0.8, 0.4, 0.0], _only(3, (0, 1))).tolist() == [[1, 0, -1]]
    half = 0.5 * 1.8 * 1.2
    np.testing.assert_allclose(engine.control.rewards[0, :2], [0.2 + half, 0.6 + half])
    np.testing.assert_array_equal(engine.state.income[0], engine.control.rewards[0])


def test_records_follow_conduct_in_good_times_and_become_neutral_alone():
    engine = _game(3, initial_trust=(0.8, 0.8))
    _play(engine, [1.0, 0.25, 0.9], _only(3, (0, 1)))
    # 0.8 + 0.25 * 0.2, 0.8 - 0.25 * 0.55 and, alone, 0.8 - 0.05 * 0.2
    assert engine.state.record[0] == pytest.approx([0.85, 0.6625, 0.79])
    assert engine.metrics()["final_trust"] == engine.metrics()["mean_trust"]
    assert engine.metrics()["final_trust"] == pytest.approx((0.85 + 0.6625 + 0.79) / 3)
    engine = _game(3, initial_trust=(0.2, 0.2))
    engine.reset(state={"good": np.False_, "productivity": np.float64(0.2)})
    _play(engine, [1.0, 0.0, 0.9], _only(3, (0, 1)))
    assert engine.state.record[0] == pytest.approx([0.2, 0.2, 0.22])


def test_who_is_alone_keeps_everything_and_shows_nothing():
    engine = _game(3, noise=(1.0, 1.0))
    assert _play(engine, [1.0, 1.0, 0.9], _only(3, (0, 1))).tolist() == [[1, 0, -1]]
    assert engine.control.rewards[0, 2] == 1.0
    assert engine.state.fraction[0, 2] == engine.state.seen[0, 2] == 0.0
    assert engine.metrics()["cooperation_rate"] == pytest.approx(2 / 3)
    baseline = engine.spec.trace(engine.constants, engine.state)["baseline"]
    assert baseline.tolist() == [[0.5, 0.5, 0.0]]
    _play(engine, [0.9, 0.9, 0.9], np.zeros((3, 3)))
    assert engine.state.partner.tolist() == [[-1, -1, -1]]
    assert engine.control.rewards.tolist() == [[1.0, 1.0, 1.0]]
    assert engine.metrics()["cooperation_rate"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("forth", "back", "pair"), [(0.5, 0.5, True), (1.0, 0.49, False), (0.49, 1.0, False)]
)
def test_both_must_wish_at_least_what_is_customary(forth, back, pair):
    partner = _play(_game(2, lanes=20), [1.0, 1.0], [[0.0, forth], [back, 0.0]])
    assert (partner == ([1, 0] if pair else [-1, -1])).all()


def test_the_strongest_wish_is_chosen_whatever_the_order():
    """All may be with all, but 0 and 3, 1 and 2 like each other best."""
    wishes = np.full((4, 4), 0.5) + 0.4 * _only(4, (0, 3), (1, 2))
    partner = _play(_game(4, lanes=100), [1.0] * 4, wishes)
    assert (partner == [3, 2, 1, 0]).all()


def test_who_comes_first_gets_the_one_whom_both_want():
    """0 and 1 want 2, who likes both alike: each of them gets it half of the time."""
    wishes = [[0, 0.5, 0.9], [0.5, 0, 0.9], [0.7, 0.7, 0]]
    partner = _play(_game(3, lanes=3000), [1.0] * 3, wishes)
    assert set(partner[:, 2].tolist()) == {0, 1}
    assert (partner[:, 2] == 0).mean() == pytest.approx(0.5, abs=0.04)


@pytest.mark.parametrize("wish", [0.5, 7.0])
def test_equal_wishes_are_drawn_and_wishes_end_at_one(wish):
    """With 7 for the first and 1 for the others all count as 1."""
    wishes = np.full((4, 4), min(wish, 1.0))
    wishes[0, 1] = wish
    partner = _play(_game(4, lanes=4000), [1.0] * 4, wishes)
    for other in (1, 2, 3):
        assert (partner[:, 0] == other).mean() == pytest.approx(1 / 3, abs=0.04)


def test_in_an_odd_round_everybody_is_left_out_as_often():
    partner = _play(_game(5, lanes=4000), [1.0] * 5, np.full((5, 5), 0.5))
    np.testing.assert_allclose((partner < 0).mean(axis=0), 0.2, atol=0.03)


def test_rates_of_matches_and_loyalty():
    engine = _game(4)
    assert engine.metrics()["matched_rate"] == engine.metrics()["loyalty"] == 0.0
    _play(engine, [1.0] * 4, _only(4, (0, 1), (2, 3)))
    assert engine.metrics()["matched_rate"] == 1.0
    assert engine.metrics()["loyalty"] == 0.0  # there is no step before
    _play(engine, [1.0] * 4, _only(4, (0, 1)))
    assert engine.metrics()["matched_rate"] == 0.75
    assert engine.metrics()["loyalty"] == 1.0
    _play(engine, [1.0] * 4, _only(4, (0, 1), (2, 3)))  # 2 and 3 come back after a step alone
    assert engine.metrics()["loyalty"] == pytest.approx(4 / 6)
    _play(engine, [1.0] * 4, _only(4, (0, 2), (1, 3)))
    assert engine.metrics()["matched_rate"] == pytest.approx(14 / 16)
    assert engine.metrics()["loyalty"] == pytest.approx(4 / 10)


@pytest.mark.parametrize(
    ("fractions", "pairs", "value"),
    [
        ([1.0, 1.0, 0.2, 0.2], [(0, 1), (2, 3)], 1.0),
        ([1.0, 1.0, 0.2, 0.2], [(0, 2), (1, 3)], -0.5),  # (-1 + 1/3) / (1 + 1/3)
        ([0.7] * 4, [(0, 1), (2, 3)], 0.0),  # nobody differs
        ([1.0, 0.2, 0.9, 0.1], [(0, 1)], 0.0),  # two can only meet each other
        ([1.0, 1.0, 0.2, 0.2], [], 0.0),
    ],
)
def test_assortment(fractions, pairs, value):
    engine = _game(4)
    _play(engine, fractions, _only(4, *pairs))
    assert engine.metrics()["assortment"] == pytest.approx(value)


def test_assortment_adds_up_over_steps_and_is_zero_by_chance():
    engine = _game(4)
    _play(engine, [1.0, 1.0, 0.0, 0.0], _only(4, (0, 1), (2, 3)))  # 2 * (1/4 + 1/12), of as much
    _play(engine, [1.0, 1.0, 0.0, 0.0], _only(4, (0, 2), (1, 3)))  # 2 * (-1/4 + 1/12)
    assert engine.metrics()["assortment"] == pytest.approx((1 / 3 - 1 / 6) / (2 / 3))
    many = _game(6, lanes=2000)
    _play(many, [1.0, 0.9, 0.5, 0.3, 0.0, 0.0], np.full((6, 6), 0.5))
    assert many.state.shared.sum() / many.state.spread.sum() == pytest.approx(0.0, abs=0.04)


def test_what_agents_and_the_global_state_see():
    engine = _game(4)
    layout = engine.layout
    assert engine.control.obs[0, :, layout["last_partner"].index].sum() == 0.0
    assert engine.control.obs[0, :, layout["matched"].index].sum() == 0.0
    assert engine.global_state()[0, -4:].tolist() == [0.0] * 4
    _play(engine, [1.0, 0.9, 0.8, 0.7], _only(4, (1, 3)))
    rows = engine.control.obs[0, :, layout["last_partner"].index].tolist()
    assert rows == [[0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert (engine.control.obs[0, :, layout["matched"].index] == 0.5).all()
    assert engine.global_state()[0, -4:].tolist() == [0.0, 1.0, 0.0, 0.5]
    assert engine.action_layout == {"investment": Part(0, 1), "wishes": Part(1, 4)}
    assert layout["matched"].stop == engine.control.obs.shape[2]


def test_the_reference_prefers_its_last_partner_and_answers_its_record():
    engine = _game(4)
    _play(engine, [1.0] * 4, _only(4, (0, 2)))
    match = Match(engine, [Player("reciprocator:0.4,1", Game.of(engine))])
    state = engine.get_state() | {"record": np.array([[0.8, 0.9, 0.7, 0.4]])}
    match.begin(np.zeros(1, np.uint64), state=state)
    actions = match.actions()[0]
    # 0.7 + 0.2 for the first, whose partner was the third; the second had none, and goes by the
    # mean of 0.8 and 0.7, which it accepts.
    expected = [(0.9 - 0.4) / 0.6, (0.85 - 0.4) / 0.6, 1.0, 1.0]
    assert actions[:, 0] == pytest.approx(expected, rel=1e-6)
    wishes = [[0.5, 1.0, 0.0], [0.5, 0.5, 0.0], [1.0, 0.5, 0.0], [0.5, 0.5, 0.5]]
    assert actions[:, 1:].tolist() == wishes


@settings(max_examples=30, deadline=None)
@given(
    num_agents=st.sampled_from([2, 3, 6, 9, 64]),
    seed=st.integers(0, 2**32),
    keen=st.floats(0.0, 1.5),
)
def test_any_match_is_mutual_wished_for_and_maximal(num_agents, seed, keen):
    draws = np.random.default_rng(seed)
    engine = Engine(NAME, 2, num_agents=num_agents)
    engine.reset(np.array([seed, seed + 1], np.uint64))
    everybody = np.arange(num_agents)
    for _ in range(3):
        actions = np.clip(draws.normal(keen, 0.4, engine.actions.shape), -0.5, 2.0)
        engine.step(actions)
        for lane, partner in enumerate(engine.state.partner):
            wishes = np.zeros((num_agents, num_agents))
            wishes[~np.eye(num_agents, dtype=bool)] = actions[lane, :, 1:].ravel()
            both = (wishes >= 0.5) & (wishes.T >= 0.5)
            paired, alone = everybody[partner >= 0], everybody[partner < 0]
            assert (partner[partner[paired]] == paired).all()
            assert both[paired, partner[paired]].all()
            assert not both[np.ix_(alone, alone)].any()
            assert (engine.control.rewards[lane, alone] == 1.0).all()
            assert sorted(engine.state.order[lane]) == everybody.tolist()
