"""PartnerHoldUp-v1: capital that is sunk, claims, conflict and its price, by hand."""

import numpy as np
import pytest
from venture_play import begun, step

from coopbench_envs import Engine
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
BAD = {"good": False, "productivity": 0.2}
INVEST, KEEP = [[1.0, 0.5], [1.0, 0.5]], [[0.0, 0.5], [0.0, 0.5]]


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


def test_capital_fades_and_pays_nobody_back():
    engine = played(GOOD, KEEP, KEEP)
    np.testing.assert_allclose(engine.state.capital[0], 0.4 * 0.65**2)
    noisy = played(GOOD, INVEST, noise=(0.1, 0.1))  # which is in the eye and not in the capital
    assert (noisy.state.seen[0] < 1.0).any()
    np.testing.assert_allclose(noisy.state.capital[0], 0.61)
    stranded = played(BAD, KEEP)
    worth = 0.2 * 2.0 * 0.4 * 0.65
    rewards = [1.1 + 0.53 * worth, 0.9 + 0.47 * worth]
    np.testing.assert_allclose(stranded.control.rewards[0], rewards)


@pytest.mark.parametrize(
    ("demands", "parts", "conflict"),
    [
        ((0.5, 0.5), (0.53, 0.47), False),
        ((1.0, 0.5), (0.75 * 0.85, 0.75 * 0.15), True),  # claims 0.88, has power for 0.85
        ((0.8, 0.5), (0.75 * 0.74, 0.75 * 0.26), True),  # claims 0.53 + 0.35 * 0.6
        ((0.5, 1.0), (0.75 * 0.53, 0.75 * 0.47), True),  # the weak one only destroys
        ((0.0, 1.0), (0.75 * 0.48, 0.75 * 0.52), True),
        ((1.0, 0.0), (0.75 * 0.85, 0.75 * 0.15), True),  # too little waived for so much
        ((0.0, 0.0), (0.48 + 0.53 * 0.1, 0.42 + 0.47 * 0.1), False),
        ((0.55, 0.0), (0.565 + 0.53 * 0.015, 0.42 + 0.47 * 0.015), False),
        ((0.5 + 1 / 14, 0.0), (0.58, 0.42), False),
        # Claims that fit exactly add up to 1 + 6e-17.
        ((0.5 + 0.0375 / 7, 0.4625), (0.53375, 0.46625), False),
    ],
)
def test_claims_are_met_or_power_decides(demands, parts, conflict):
    engine = played(GOOD, [[1.0, demands[0]], [1.0, demands[1]]])
    np.testing.assert_allclose(engine.state.part[0], parts)
    assert engine.metrics()["conflict_rate"] == conflict
    worth = 1.75 * 2.0 * 0.61
    np.testing.assert_allclose(engine.control.rewards[0], np.array(parts) * worth, rtol=1e-12)


def test_claims_stay_within_the_surplus():
    engine = played(GOOD, [[1.0, 1.0], [1.0, 0.0]], contract=0.9, reach=1.0, waiver=1.0, power=1.0)
    np.testing.assert_allclose(engine.state.part[0], [1.0, 0.0])  # 1 and 0, without a conflict
    assert engine.metrics()["conflict_rate"] == 0.0


def test_actions_are_clipped():
    wild = played(GOOD, [[-3.0, 7.0], [9.0, -1.0]])
    tame = played(GOOD, [[0.0, 1.0], [1.0, 0.0]])
    for name, value in tame.get_state().items():
        np.testing.assert_array_equal(wild.get_state()[name], value, err_msg=name)
    np.testing.assert_array_equal(wild.state.demand[0], [1.0, 0.0])


@pytest.mark.parametrize(
    ("times", "action", "blame", "record"),
    [
        (GOOD, (1.0, 0.25), 1.0, 0.85),  # to waive adds nothing
        (GOOD, (1.0, 0.75), 1.0, 0.725),  # conduct 1 - 0.5
        (GOOD, (1.0, 0.75), 0.5, 0.7875),  # conduct 1 - 0.25
        (GOOD, (1.0, 1.0), 1.0, 0.6),  # as if it had invested nothing
        (GOOD, (0.0, 1.0), 1.0, 0.6),  # nothing is worse than that
        (BAD, (1.0, 0.75), 1.0, 0.7),  # 0.25 * 0.5 of the way to 0: nothing is judged but demands
        (BAD, (1.0, 1.0), 3.0, 0.6),
        (BAD, (0.0, 0.5), 1.0, 0.8),
    ],
)
@pytest.mark.parametrize("agent", [game.STRONG, game.WEAK])
def test_demands_lower_the_record(times, action, blame, record, agent):
    actions = np.array(KEEP)
    actions[agent] = action
    engine = played(times, actions, blame=blame)
    assert engine.state.record[0, agent] == pytest.approx(record)


def test_metrics_of_two_steps():
    engine = played(GOOD, [[1.0, 1.0], [1.0, 0.5]], [[0.0, 0.75], [0.0, 0.2]])
    metrics = engine.metrics()
    first, second = 0.61, 0.61 * 0.65
    assert metrics["capital"] == pytest.approx((first + second) / 2)
    assert metrics["conflict_rate"] == 1.0  # 0.705 and 0.44 is too much, too
    assert metrics["hold_up"] == pytest.approx((first + 0.5 * second) / (first + second))
    strong, weak = engine.control.returns[0] / [1.1, 0.9]
    assert metrics["income_asymmetry"] == pytest.approx((strong - weak) / (strong + weak))
    # The strong one: 0.8 * 0.75 twice; the weak one: 0.85, then nothing invested.
    assert metrics["trust_asymmetry"] == pytest.approx(0.8 * 0.75**2 - 0.85 * 0.75)
    assert metrics["cooperation_rate"] == 0.5


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


def test_an_episode_draws_its_capital_and_speed():
    engine = Engine("PartnerHoldUp-v1", 500)
    engine.reset(np.arange(500))
    for values, low, high in ((engine.state.capital, 0.2, 0.5), (engine.state.speed, 0.3, 0.4)):
        assert low <= values.min() < low + 0.02 * (high - low)
        assert high - 0.02 * (high - low) < values.max() <= high
    assert np.ptp(engine.state.capital, axis=1).min() > 0.0


def test_capital_is_steady_where_it_is_what_is_invested():
    """So the weak partner, held up, earns 0.15 of three quarters of 1.75 x 2."""
    actions = [[1.0, 1.0], [1.0, 0.5]]
    steady = game.steady(None, np.array([actions]))
    engine = played(GOOD | steady, actions)
    np.testing.assert_allclose(engine.state.capital, steady["capital"], rtol=1e-12)
    np.testing.assert_allclose(engine.control.rewards[0], [0.6375 * 3.5, 0.1125 * 3.5])
    wild = game.steady(None, np.array([[[2.0, 0.5], [-1.0, 0.5]]]))
    np.testing.assert_array_equal(wild["capital"], [[1.0, 0.0]])
