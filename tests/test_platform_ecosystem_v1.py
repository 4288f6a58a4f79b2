"""PlatformEcosystem-v1: commission, leaving and entering, network effects, by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbench_envs import Engine, spec
from coopbench_envs.coopetition.ventures import platform_ecosystem_v1 as game
from coopbench_envs.engine import DISABLED

PLAIN = {
    "num_developers": 2,
    "initial_trust": (0.8, 0.8),
    "platform_dependence": (0.4, 0.4),
    "developer_dependence": (0.75, 0.75),
    "high": (1.75, 1.75),
    "low": (0.2, 0.2),
    "persistence": (1.0, 1.0),
    "shock": (0.0, 0.0),
    "noise": (0.0, 0.0),
}
GOOD = {"good": True, "productivity": 1.75}
BAD = {"good": False, "productivity": 0.2}
STAY, LEAVE = [0.0, 0.5], [1.0, 0.49]  # who leaves keeps everything, whatever it asks for
INVEST = [1.0, 0.5]


def begun(state, **parameters):
    engine = Engine("PlatformEcosystem-v1", **(PLAIN | parameters))
    engine.reset(np.array([1]), state=state)
    return engine


def played(state, *steps, **parameters):
    engine = begun(state, **parameters)
    for actions in steps:
        engine.step(np.array([actions]), DISABLED)
    return engine


def trusting(level, n=3):
    """State in which all trust each other, and everybody the platform by ``level``."""
    trust = np.full((n, n), 0.8)
    trust[1:, 0] = level
    np.fill_diagonal(trust, 1.0)
    return {"trust": trust}


def test_a_step_with_everybody_present():
    engine = played(GOOD, [INVEST, [0.5, 0.5], [1.0, 0.9]])
    worth = 1.75 * (1.5 + 0.4 + 0.8)
    # Standing 1 - 0.4 * 0.2 of the platform, 1 - 0.75 * 0.2 of developers.
    each = 0.7 * worth / 2 * 0.85
    np.testing.assert_allclose(
        engine.control.rewards[0], [0.3 * worth * 0.92, 0.4 + each, each], rtol=1e-12
    )
    np.testing.assert_array_equal(engine.state.present[0], True)
    expected = [[1.0, 0.8, 0.83], [0.83, 1.0, 0.83], [0.83, 0.8, 1.0]]
    np.testing.assert_allclose(engine.state.trust[0], expected)
    assert not engine.control.terminated.any()


def test_who_leaves_keeps_its_endowment_and_is_not_judged():
    engine = played(GOOD, [INVEST, LEAVE, INVEST])
    s = engine.state
    worth = 0.75 * 1.75 * (1.5 + 0.8)  # half of the network's gain from 0.5 to 1
    rewards = [0.3 * worth * 0.92, 0.8 * 1.05, 0.7 * worth * 0.85]
    np.testing.assert_allclose(engine.control.rewards[0], rewards, rtol=1e-12)
    np.testing.assert_array_equal(s.present[0], [True, False, True])
    np.testing.assert_array_equal(s.fraction[0], [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(s.seen[0], [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(s.trust[0, [0, 2], 1], 0.8)
    np.testing.assert_allclose(s.trust[0, 1, [0, 2]], 0.83)  # but it sees the others
    assert engine.metrics()["cooperation_rate"] == pytest.approx(2 / 3)


def test_who_is_absent_exploits_nobody():
    """Nothing is expected of an absent developer, as nobody judges it."""
    engine = played(GOOD, [INVEST, LEAVE, STAY])
    trace = engine.spec.trace(engine.constants, engine.state)
    np.testing.assert_array_equal(trace["baseline"], [[0.5, 0.0, 0.5]])
    below = trace["fraction"] < trace["baseline"]
    np.testing.assert_array_equal(below, [[False, False, True]])


def test_noise_does_not_make_the_absent_seen():
    engine = played(GOOD, [INVEST, LEAVE, INVEST], noise=(0.1, 0.1))
    assert engine.state.seen[0, 1] == 0.0
    assert engine.state.trust[0, 0, 1] == 0.8


def test_a_platform_without_developers_earns_nothing():
    engine = played(GOOD, [[0.6, 0.5], LEAVE, LEAVE])
    np.testing.assert_allclose(engine.control.rewards[0], [1.5 * 0.4, 0.84, 0.84])
    metrics = engine.metrics()
    assert (metrics["retention"], metrics["network_effect"], metrics["exits"]) == (0.0, 0.0, 2.0)
    assert engine.state.trust[0, 1, 0] > 0.8  # who is gone still sees what it does


@pytest.mark.parametrize(("trust", "stays"), [(0.16, True), (0.15, True), (0.149, False)])
def test_distrust_makes_developers_leave(trust, stays):
    engine = played(GOOD | trusting(trust), [STAY, STAY, STAY])
    np.testing.assert_array_equal(engine.state.present[0], [True, stays, stays])
    assert engine.metrics()["exits"] == 2.0 * (not stays)


@pytest.mark.parametrize(
    ("away", "trust", "terms", "enters"),
    [
        (3, 0.3, 0.5, True),
        (9, 1.0, 1.0, True),
        (2, 0.3, 0.5, False),
        (3, 0.29, 0.5, False),
        (3, 0.3, 0.49, False),
    ],
)
def test_coming_back_takes_time_trust_and_will(away, trust, terms, enters):
    state = GOOD | trusting(trust) | {"present": [True, False, True], "away": [0, away, 0]}
    engine = played(state, [STAY, [1.0, terms], STAY])
    np.testing.assert_array_equal(engine.state.present[0], [True, enters, True])
    assert engine.state.fraction[0, 1] == enters
    assert engine.state.away[0, 1] == (0 if enters else away + 1)
    metrics = engine.metrics()
    assert (metrics["entries"], metrics["exits"]) == (enters, 0.0)


def test_the_way_out_and_back():
    back = [INVEST, INVEST, INVEST]
    engine = begun(GOOD)
    rows = []
    for actions in ([INVEST, LEAVE, INVEST], back, back, back):
        engine.step(np.array([actions]), DISABLED)
        seen = engine.control.obs[0, 1]
        names = ("own_presence", "developers_present", "waiting")
        rows.append([seen[engine.layout[name].index][0] for name in names])
    expected = [[0, 0.5, 2 / 3], [0, 0.5, 1 / 3], [0, 0.5, 0], [1, 1, 0]]
    np.testing.assert_allclose(rows, expected, rtol=1e-6)
    metrics = engine.metrics()
    assert (metrics["exits"], metrics["entries"]) == (1.0, 1.0)
    assert metrics["retention"] == pytest.approx((3 * 0.5 + 1) / 4)


def test_a_delay_of_one_keeps_a_developer_away_for_one_step():
    back = [INVEST, INVEST, INVEST]
    engine = played(GOOD, [INVEST, LEAVE, INVEST], back, delay=1)
    assert engine.state.present.all()


@pytest.mark.parametrize(
    ("terms", "rules", "commission"),
    [
        (0.5, {}, 0.3),
        (0.0, {}, 0.15),
        (1.0, {}, 0.45),
        (0.75, {}, 0.375),
        (-4.0, {}, 0.15),
        (9.0, {}, 0.45),
        (0.0, {"customary": 0.05, "reach": 0.2}, 0.0),
        (1.0, {"customary": 0.9, "reach": 0.2}, 1.0),
    ],
)
def test_commission(terms, rules, commission):
    engine = played(GOOD, [[1.0, terms], INVEST, INVEST], **rules)
    assert engine.state.commission[0] == pytest.approx(commission)
    assert engine.metrics()["mean_commission"] == pytest.approx(commission)
    worth = 1.75 * 3.1
    each = (1.0 - commission) * worth / 2 * 0.85
    np.testing.assert_allclose(
        engine.control.rewards[0], [commission * worth * 0.92, each, each], atol=1e-12
    )


@pytest.mark.parametrize(
    ("times", "action", "trust"),
    [
        (GOOD, (1.0, 0.5), 0.83),
        (GOOD, (1.0, 0.625), 0.8),  # 1 - 4 * 0.25
        (GOOD, (1.0, 1.0), 0.56),
        (GOOD, (1.0, 0.0), 0.83),  # nothing is better than 1
        (GOOD, (0.0, 0.0), 0.68),  # -1 + 0.5
        (GOOD, (0.0, 0.5), 0.56),
        (BAD, (0.0, 0.0), 0.815),
        (BAD, (0.0, 0.5), 0.8),
        (BAD, (0.0, 0.75), 0.56),
    ],
)
def test_developers_read_investment_and_commission(times, action, trust):
    engine = played(times, [list(action), STAY, LEAVE])
    np.testing.assert_allclose(engine.state.trust[0, 1:, 0], trust)


def test_six_steps_of_greed_empty_the_platform():
    trust = {"trust": np.ones((3, 3))}
    greed = [[1.0, 1.0], INVEST, INVEST]
    engine = played(GOOD | trust, *[greed] * 6)
    assert engine.state.present.all()
    np.testing.assert_allclose(engine.state.trust[0, 1:, 0], 0.7**6)
    engine.step(np.array([greed]), DISABLED)
    np.testing.assert_array_equal(engine.state.present[0], [True, False, False])
    assert engine.control.rewards[0, 0] == 0.0


def test_metrics_of_two_steps():
    engine = played(GOOD, [[1.0, 0.75], LEAVE, INVEST], [[0.5, 0.5], STAY, [0.0, 0.3]])
    metrics = engine.metrics()
    assert metrics["retention"] == pytest.approx((0.5 + 0.0) / 2)
    assert metrics["exits"] == 2.0
    assert metrics["entries"] == 0.0
    assert metrics["mean_commission"] == pytest.approx((0.375 + 0.3) / 2)
    assert metrics["network_effect"] == pytest.approx(0.75 / 0.5 - 1.0)  # nothing in step two
    whole = played(GOOD, [INVEST, INVEST, INVEST], [INVEST, LEAVE, INVEST], floor=0.4)
    units = 1.75 * np.array([3.1, 2.3])
    gained = (units * [1.0, 0.7]).sum() / (units * 0.4).sum() - 1.0
    assert whole.metrics()["network_effect"] == pytest.approx(gained)
    still = begun(GOOD).metrics()
    own = ("retention", "exits", "entries", "network_effect", "mean_commission")
    assert [still[name] for name in own] == [0.0] * 5


def test_times_turn():
    engine = played(GOOD, [STAY, STAY, STAY], persistence=(0.0, 0.0))
    assert not engine.state.good[0]
    assert engine.state.productivity[0] == 0.2


def test_observation_and_global_state_end_with_presence_and_commission():
    engine = played(GOOD, [[1.0, 1.0], INVEST, LEAVE])
    assert list(engine.layout)[-5:] == [
        "time",
        "own_presence",
        "developers_present",
        "commission",
        "waiting",
    ]
    expected = [[1, 0.5, 0.45, 0], [1, 0.5, 0.45, 0], [0, 0.5, 0.45, 2 / 3]]
    np.testing.assert_allclose(engine.control.obs[0, :, -4:], np.float32(expected))
    world = engine.global_state()[0]
    assert world.shape == engine.state_space.shape == (2 * 3 + 9 + 2 + 5,)
    np.testing.assert_allclose(world[-5:], np.float32([1, 0, 0, 2 / 3, 0.45]))
    first = begun(GOOD)
    np.testing.assert_allclose(
        first.control.obs[0, :, -4:], np.tile(np.float32([1, 1, 0.3, 0]), (3, 1))
    )


def test_steady_is_who_wants_to_be_there():
    engine = begun(GOOD)
    actions = np.array([[[0.0, 0.1], [0.0, 0.5], [0.0, 0.2]]])
    present = game.steady(engine.constants, actions)["present"]
    np.testing.assert_array_equal(present, [[True, True, False]])
    engine.reset(np.array([1]), state=GOOD | {"present": present})
    engine.step(actions, DISABLED)
    np.testing.assert_array_equal(engine.state.present, present)
    assert engine.metrics()["exits"] == 0.0


@settings(max_examples=30, deadline=None)
@given(
    developers=st.sampled_from([1, 2, 5, 12]),
    seed=st.integers(0, 2**32 - 1),
    thresholds=st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)),
    delay=st.integers(1, 5),
)
def test_any_play(developers, seed, thresholds, delay):
    rules = {"exit_trust": thresholds[0], "entry_trust": thresholds[1], "delay": delay}
    engine = Engine("PlatformEcosystem-v1", 8, num_developers=developers, **rules)
    engine.reset(np.arange(8) + seed)
    random, moves, steps = np.random.default_rng(seed), np.zeros(8), 15
    for _ in range(steps):
        before, state = engine.state.present.copy(), engine.get_state()
        engine.step(random.uniform(size=engine.actions.shape), DISABLED)
        s, e = engine.state, engine.constants.endowment
        moves += (before != s.present).sum(axis=1)
        assert s.present[:, 0].all()
        assert ((s.away == 0) == s.present).all()
        assert (s.fraction[~s.present] == 0.0).all()
        # Nobody gets more than its part of a whole network, and who is out gets what it should.
        received = engine.control.rewards - e * (1.0 - s.fraction)
        absent = np.broadcast_to(0.05 * e, s.present.shape)[~s.present]
        np.testing.assert_allclose(received[~s.present], absent)
        worth = state["productivity"] * (e * s.fraction).sum(axis=1)
        assert (np.where(s.present, received, 0.0).sum(axis=1) <= worth + 1e-9).all()
        assert ((s.trust >= 0.0) & (s.trust <= 1.0)).all()
        for space, seen in zip(
            engine.observation_spaces, engine.control.obs.swapaxes(0, 1), strict=True
        ):
            assert all(space.contains(row) for row in seen)
    rows = [engine.metrics(lane) for lane in range(8)]
    np.testing.assert_allclose([m["exits"] + m["entries"] for m in rows], moves)
    np.testing.assert_allclose(
        [m["exits"] - m["entries"] for m in rows], (~engine.state.present).sum(axis=1)
    )


def test_pictures_show_commission_and_presence():
    engine = played(GOOD, [[1.0, 1.0], INVEST, LEAVE])
    text = spec("PlatformEcosystem-v1").text(engine.constants, engine.lane_state(), engine.agents)
    assert "commission 45 %" in text
    assert "1 of 2 developers present" in text
