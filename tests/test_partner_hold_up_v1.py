"""PartnerHoldUp-v1: one step by hand, edges of its metrics, and what is observed."""

import numpy as np
import pytest
from venture_play import begun, step

from coopbench_envs.coopetition.ventures import partner_hold_up_v1 as game

PLAIN = {
    "initial_trust": (0.8, 0.8),
    "capital": (0.4, 0.4),
    "speed": (0.35, 0.35),
    "high": (1.75, 1.75),
    "low": (0.2, 0.2),
    "reach": 0.35,  # so that a claim can exceed the power of the strong
}
GOOD = {"good": True, "productivity": 1.75}


def played(state, *steps, **parameters):
    engine = begun("PartnerHoldUp-v1", state, 1, **(PLAIN | parameters))
    for actions in steps:
        step(engine, actions)
    return engine


def test_a_step_by_the_contract():
    engine = played(GOOD, [[1.0, 0.5], [0.5, 0.5]])
    s = engine.state
    # 0.4 + 0.35 * 0.6 and 0.4 + 0.35 * 0.1
    np.testing.assert_allclose(s.capital[0], [0.61, 0.435])
    worth = 1.75 * (1.1 * 0.61 + 0.9 * 0.435)
    assert worth == pytest.approx(1.859375)
    # The weak partner keeps half of 0.9; records pay nobody.
    rewards = [0.53 * worth, 0.45 + 0.47 * worth]
    np.testing.assert_allclose(engine.control.rewards[0], rewards)
    np.testing.assert_allclose(s.income[0], rewards)
    # 0.8 + 0.25 * 0.2 and 0.8 - 0.25 * 0.3
    np.testing.assert_allclose(s.record[0], [0.85, 0.725])
    assert not engine.control.terminated.any()


def test_metrics_with_nothing_to_divide_by():
    still = played(GOOD).metrics()
    own = ("capital", "conflict_rate", "hold_up", "income_asymmetry", "trust_asymmetry")
    assert [still[name] for name in own] == [0.0] * 5
    empty = played(GOOD | {"productivity": 0.0}, [[1.0, 1.0], [0.0, 0.5]], capital=(0.0, 0.0))
    assert empty.metrics()["hold_up"] == 0.0
    nothing = played(GOOD | {"productivity": 0.0}, [[1.0, 1.0], [1.0, 0.5]])
    assert nothing.metrics()["income_asymmetry"] == 0.0


def test_observation_and_global_state_end_with_capital_and_demands():
    engine = played(GOOD, [[1.0, 0.6], [0.5, 0.3]])
    layout, seen = engine.layout, engine.control.obs[0]
    own = ("own_capital", "others_capital", "own_demand", "others_demands")
    assert list(layout)[-5:] == ["income", *own]
    rows = np.stack([seen[:, layout[name].index][:, 0] for name in own], axis=1)
    expected = [[0.61, 0.435, 0.6, 0.3], [0.435, 0.61, 0.3, 0.6]]
    np.testing.assert_allclose(rows, np.float32(expected))
    world = engine.global_state()[0]
    assert world.shape == engine.state_space.shape == (10,)
    np.testing.assert_allclose(world[-4:], np.float32([0.61, 0.435, 0.6, 0.3]))
    assert played(GOOD).state.demand.tolist() == [[0.5, 0.5]]


def test_capital_is_steady_where_it_is_what_is_invested():
    """So the weak partner, held up, earns 0.15 of three quarters of 1.75 x 2."""
    actions = [[1.0, 1.0], [1.0, 0.5]]
    steady = game.steady(None, np.array([actions]))
    engine = played(GOOD | steady, actions)
    np.testing.assert_allclose(engine.state.capital, steady["capital"], rtol=1e-12)
    np.testing.assert_allclose(engine.control.rewards[0], [0.6375 * 3.5, 0.1125 * 3.5])
    wild = game.steady(None, np.array([[[2.0, 0.5], [-1.0, 0.5]]]))
    np.testing.assert_array_equal(wild["capital"], [[1.0, 0.0]])
