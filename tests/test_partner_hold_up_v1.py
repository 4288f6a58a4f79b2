"""PartnerHoldUp-v1: edges of its metrics, and the capital that stays."""

import numpy as np
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


def test_metrics_with_nothing_to_divide_by():
    still = played(GOOD).metrics()
    own = ("capital", "conflict_rate", "hold_up", "income_asymmetry", "trust_asymmetry")
    assert [still[name] for name in own] == [0.0] * 5
    empty = played(GOOD | {"productivity": 0.0}, [[1.0, 1.0], [0.0, 0.5]], capital=(0.0, 0.0))
    assert empty.metrics()["hold_up"] == 0.0
    nothing = played(GOOD | {"productivity": 0.0}, [[1.0, 1.0], [1.0, 0.5]])
    assert nothing.metrics()["income_asymmetry"] == 0.0


def test_capital_is_steady_where_it_is_what_is_invested():
    """So the weak partner, held up, earns 0.15 of three quarters of 1.75 x 2."""
    actions = [[1.0, 1.0], [1.0, 0.5]]
    steady = game.steady(None, np.array([actions]))
    engine = played(GOOD | steady, actions)
    np.testing.assert_allclose(engine.state.capital, steady["capital"], rtol=1e-12)
    np.testing.assert_allclose(engine.control.rewards[0], [0.6375 * 3.5, 0.1125 * 3.5])
    wild = game.steady(None, np.array([[[2.0, 0.5], [-1.0, 0.5]]]))
    np.testing.assert_array_equal(wild["capital"], [[1.0, 0.0]])
