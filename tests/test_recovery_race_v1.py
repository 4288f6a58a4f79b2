"""RecoveryRace-v1: damage that caps trust, acts that repair it, and the market's doubt."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench_envs import Engine
from coopbench_envs.coopetition.ventures.recovery_race_v1 import HARM, HEAL, REPAIR
from coopbench_envs.engine import DISABLED

NAME = "RecoveryRace-v1"
FIXED = {
    "initial_trust": (0.2, 0.2),
    "damage": (0.4, 0.4),
    "dependence": (0.5, 0.5),
    "high": (1.8, 1.8),
    "low": (0.2, 0.2),
    "persistence": (1.0, 1.0),
    "shock": (0.0, 0.0),
    "noise": (0.0, 0.0),
}


def _game(good=True, state=None, **parameters):
    """One lane in times that stay, without noise."""
    engine = Engine(NAME, **(FIXED | parameters))
    seed = next(seed for seed in range(100) if _times(engine, seed) == good)
    engine.reset(np.array([seed], np.uint64), state=state)
    return engine


def _times(engine, seed):
    engine.reset(np.array([seed], np.uint64))
    return bool(engine.state.good[0])


def _pair(first, second, diagonal):
    """Matrix with what 0 holds of 1 and 1 holds of 0."""
    return np.array([[diagonal, first], [second, diagonal]])


def _play(engine, *fractions):
    engine.step(np.array(fractions).reshape(1, 2, 1), DISABLED)
    return engine.metrics()


def test_a_breach_leaves_damage_that_caps_trust():
    engine = Engine(NAME, 500)
    engine.reset(np.arange(500, dtype=np.uint64))
    damage = engine.state.damage[:, [0, 1], [1, 0]]
    assert damage.min() >= 0.3
    assert damage.max() <= 0.6
    assert damage.std() > 0.05
    assert np.abs(damage[:, 0] - damage[:, 1]).max() > 0.1  # drawn for each of the two
    assert (engine.state.damage[:, [0, 1], [0, 1]] == 0.0).all()
    capped = _game(initial_trust=(0.9, 0.9))
    np.testing.assert_array_equal(capped.state.trust[0], _pair(0.6, 0.6, 1.0))
    assert capped.metrics()["final_trust"] == capped.metrics()["peak_trust"] == 0.6


def test_the_market_pays_less_in_good_times_until_they_have_recovered():
    assert _game().state.productivity[0] == pytest.approx(1.8 * 0.85)
    assert _game(good=False).state.productivity[0] == 0.2
    assert _game(market_penalty=0.0).state.productivity[0] == 1.8
    engine = _game()
    _play(engine, 0.8, 0.4)
    standing = 1 - 0.5 * (1 - 0.2)
    worth = 0.5 * 1.8 * 0.85 * 1.2 * standing
    np.testing.assert_allclose(engine.control.rewards[0], [0.2 + worth, 0.6 + worth])
    assert engine.state.productivity[0] == pytest.approx(1.8 * 0.85)  # of the coming step, too


def test_costly_acts_in_good_times_repair_and_shortfalls_harm():
    engine = _game()
    _play(engine, 1.0, 0.25)
    held = engine.state.damage[0]
    assert held[1, 0] == pytest.approx(0.4 * (1 - HEAL - REPAIR))
    assert held[0, 1] == pytest.approx(0.4 * (1 - HEAL) + HARM * 0.5 * 0.6)
    trust = engine.state.trust[0]
    assert trust[1, 0] == pytest.approx(0.2 + 0.15 * (1 - held[1, 0] - 0.2))
    assert trust[0, 1] == pytest.approx(0.2 - 0.30 * 0.5 * 0.2)
    assert held[0, 0] == held[1, 1] == 0.0
    assert trust[0, 0] == trust[1, 1] == 1.0


def test_half_way_repairs_half_as_much_and_the_norm_only_heals():
    engine = _game()
    _play(engine, 0.75, 0.5)
    assert engine.state.damage[0, 1, 0] == pytest.approx(0.4 * (1 - HEAL - 0.5 * REPAIR))
    assert engine.state.damage[0, 0, 1] == pytest.approx(0.4 * (1 - HEAL))
    assert engine.state.trust[0, 0, 1] == 0.2


def test_in_bad_times_damage_only_heals():
    engine = _game(good=False)
    _play(engine, 1.0, 0.0)
    np.testing.assert_allclose(engine.state.damage[0], _pair(0.4, 0.4, 0.0) * (1 - HEAL))
    ceiling = 1 - 0.4 * (1 - HEAL)
    assert engine.state.trust[0, 1, 0] == pytest.approx(0.2 + 0.15 * (ceiling - 0.2))
    assert engine.state.trust[0, 0, 1] == 0.2


def test_trust_never_stays_above_the_ceiling():
    engine = _game(state={"trust": _pair(0.9, 0.9, 1.0), "damage": _pair(0.5, 0.2, 0.0)})
    _play(engine, 0.5, 0.5)
    trust = engine.state.trust[0]
    assert trust[0, 1] == pytest.approx(1 - 0.5 * (1 - HEAL))
    assert trust[1, 0] == pytest.approx(1 - 0.2 * (1 - HEAL))


def test_recovery_counts_once_and_for_good():
    near = {"trust": _pair(0.79, 0.79, 1.0), "damage": _pair(0.1, 0.1, 0.0)}
    engine = _game(state=near, horizon=50)
    assert engine.metrics()["recovered"] == 0.0
    assert engine.metrics()["recovery_time"] == 1.0
    block = _play(engine, 0.5, 0.5)
    assert block["recovered"] == 0.0
    block = _play(engine, 1.0, 1.0)
    assert block["final_trust"] >= 0.8
    assert (block["recovered"], block["recovery_time"]) == (1.0, 2 / 50)
    assert engine.state.productivity[0] == 1.8
    peak = block["peak_trust"]
    for _ in range(20):
        block = _play(engine, 0.0, 0.0)
    assert block["final_trust"] < 0.1
    assert (block["recovered"], block["recovery_time"]) == (1.0, 2 / 50)
    assert block["peak_trust"] == peak > 0.8
    assert engine.state.productivity[0] == 1.8
    assert not engine.control.ended[0]


def test_the_mean_of_both_trusts_decides():
    state = {"trust": _pair(0.95, 0.6, 1.0), "damage": _pair(0.0, 0.3, 0.0)}
    engine = _game(state=state, recovery_target=0.78)
    assert _play(engine, 0.5, 0.5)["recovered"] == 0.0
    assert _play(engine, 1.0, 1.0)["recovered"] == 1.0
    assert engine.state.trust[0, 1, 0] < 0.78


def test_who_starts_above_the_target_has_recovered_at_once():
    engine = _game(initial_trust=(0.9, 0.9), damage=(0.0, 0.0))
    assert engine.metrics()["recovered"] == 1.0
    assert engine.metrics()["recovery_time"] == 0.0
    assert engine.state.productivity[0] == 1.8
    assert engine.control.obs[0, :, engine.layout["recovered"].index].tolist() == [[1.0], [1.0]]


def test_mean_damage_is_the_mean_over_steps_and_pairs():
    engine = _game()
    assert engine.metrics()["mean_damage"] == 0.0
    seen = []
    for fractions in ((1.0, 0.0), (0.0, 0.3), (0.6, 0.6)):
        block = _play(engine, *fractions)
        seen.append(engine.state.damage[0, [0, 1], [1, 0]].mean())
    assert block["mean_damage"] == pytest.approx(np.mean(seen))


def test_what_agents_and_the_global_state_see():
    engine = _game(state={"damage": _pair(0.3, 0.5, 0.0)})
    layout, obs = engine.layout, engine.control.obs[0]
    np.testing.assert_allclose(obs[:, layout["damage_against_me"].index], [[0.5], [0.3]])
    np.testing.assert_allclose(obs[:, layout["damage_held"].index], [[0.3], [0.5]])
    assert obs[:, layout["recovered"].index].tolist() == [[0.0], [0.0]]
    assert layout["recovered"].stop == obs.shape[1]
    np.testing.assert_allclose(engine.global_state()[0, -5:], [0.0, 0.3, 0.5, 0.0, 0.0])
    engine.reset(state={"recovery": np.int64(4)})
    assert engine.global_state()[0, -1] == 1.0


def test_conditional_cooperators_nearly_always_recover_in_time():
    engine = Engine(NAME, 200)
    control, player = engine.control, Player("conditional_cooperator", Game.of(engine))
    Match(engine, [player]).play(np.arange(200, dtype=np.uint64))
    metrics = dict(zip(engine.spec.metrics, control.measures.T, strict=True))
    assert metrics["recovered"].mean() > 0.99
    assert 0.25 < metrics["recovery_time"].mean() < 0.45
    assert (control.returns > engine.horizon).all()  # more than by keeping everything


def test_pictures_tell_the_damage_and_the_recovery():
    engine = _game(state={"damage": _pair(0.3, 0.5, 0.0)})
    text = engine.spec.text(engine.constants, engine.lane_state(), engine.agents)
    assert "damage held: 0.30 by partner 0, 0.50 by partner 1" in text
    assert "not recovered" in text
    engine.reset(state={"recovery": np.int64(4)})
    text = engine.spec.text(engine.constants, engine.lane_state(), engine.agents)
    assert "recovered after 4 steps" in text


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    trust=st.floats(0.0, 1.0),
    damage=st.floats(0.0, 1.0),
    target=st.floats(0.0, 1.0),
    plays=st.lists(st.tuples(st.floats(-0.5, 1.5), st.floats(-0.5, 1.5)), min_size=1, max_size=12),
)
def test_what_holds_for_any_play(seed, trust, damage, target, plays):
    engine = Engine(
        NAME,
        initial_trust=(trust, 1.0),
        damage=(0.0, damage),
        recovery_target=target,
        horizon=len(plays),
    )
    engine.reset(np.array([seed], np.uint64))
    was, recovered = engine.metrics(), False
    for fractions in plays:
        now = _play(engine, *fractions)
        held, state = engine.state.damage[0], engine.state
        assert (state.trust[0] <= 1.0 - held).all()
        assert state.trust.min() >= 0.0
        assert held.min() >= 0.0
        assert held.max() <= 1.0
        assert now["peak_trust"] == max(was["peak_trust"], now["final_trust"])
        recovered = recovered or was["recovered"] == 1.0 or now["final_trust"] >= target
        assert now["recovered"] == recovered
        assert (now["recovered"] == 1.0) == (now["peak_trust"] >= target)
        assert 0.0 <= now["recovery_time"] <= 1.0
        obs = engine.control.obs
        assert obs.min() >= 0.0
        assert obs.max() <= 1.0
        was = now
    assert engine.control.truncated[0]
    assert not engine.control.ended[0]
