"""DynamicPartnerSelection-v1: what pairs earn, what any match fulfills, what is observed."""

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

NAME = "DynamicPartnerSelection-v1"
FIXED = STILL | {"initial_trust": (0.6, 0.6), "high": (1.8, 1.8), "low": (0.2, 0.2)}


def _game(num_agents, lanes=1, **parameters):
    """Lanes seeded 0, 1, ... in good regimes that stay, without noise."""
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
