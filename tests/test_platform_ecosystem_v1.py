"""PlatformEcosystem-v1: who knows, who deals with whom, commission and network, by hand."""

import numpy as np
import pytest
from venture_play import begun, step

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench_envs.coopetition.ventures import platform_ecosystem_v1 as game

PLAIN = {
    "num_developers": 2,
    "initial_trust": (0.8, 0.8),
    "outside": 0.05,
    "high": (2.0, 2.0),
    "low": (0.2, 0.2),
}
GOOD = {"good": True, "productivity": 2.0}
BAD = {"good": False, "productivity": 0.2}
INVEST, STAY, LEAVE = [1.0, 0.5, 0.5], [0.0, 0.5, 0.5], [0.0, 0.5, 1.0]


def played(state, *steps, **parameters):
    engine = begun("PlatformEcosystem-v1", state, 1, **(PLAIN | parameters))
    for actions in steps:
        step(engine, actions)
    return engine


@pytest.mark.parametrize("record", [0.6, 1.0])
def test_a_step_with_everybody_present(record):
    """Records pay nobody: 2 x (1 + 0.4 + 0.8) is divided 30 to 70 whatever they are."""
    engine = played(GOOD | {"record": np.full(3, record)}, [INVEST, [0.5, 0.5, 0.5], INVEST])
    worth = 2.0 * 2.2
    part = 0.7 * worth / 2
    np.testing.assert_allclose(engine.control.rewards[0], [0.3 * worth, 0.4 + part, part])
    np.testing.assert_array_equal(engine.state.present[0], True)
    assert not engine.control.terminated.any()


def test_who_leaves_keeps_its_endowment_and_is_not_judged():
    state = GOOD | {"seen": np.array([1.0, 0.0, 0.0]), "blurred": np.array([1.0, 0.0, 0.0])}
    engine = played(state, [INVEST, LEAVE, INVEST])
    s = engine.state
    worth = 0.8 * 2.0 * 1.8  # half of the network's gain from 0.6 to 1
    np.testing.assert_allclose(engine.control.rewards[0], [0.3 * worth, 0.84, 0.7 * worth])
    np.testing.assert_array_equal(s.present[0], [True, False, True])
    np.testing.assert_array_equal(s.fraction[0], [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(s.seen[0], [1.0, 0.0, 1.0])
    home = 0.8 + 0.1 * 0.07  # records of developers return to 0.87, and one answered in full
    np.testing.assert_allclose(s.record[0], [0.82, home, home + 0.1 * (1 - home)])
    assert engine.metrics()["cooperation_rate"] == pytest.approx(2 / 3)
    noisy = played(GOOD, [INVEST, LEAVE, INVEST], noise=(0.1, 0.1))
    assert noisy.state.seen[0, 1] == 0.0


def test_what_an_absent_developer_invests_is_lost_and_unseen():
    """Else a platform could keep developers out of bad times, and they had nothing to read."""
    engine = played(GOOD, [INVEST, [0.5, 0.5, 1.0], INVEST])
    worth = 0.8 * 2.0 * 1.8
    np.testing.assert_allclose(engine.control.rewards[0], [0.3 * worth, 0.44, 0.7 * worth])
    assert engine.state.fraction[0, 1] == 0.5
    assert engine.state.seen[0, 1] == 0.0


def test_a_platform_without_developers_earns_nothing():
    engine = played(GOOD, [[0.6, 0.5, 0.5], LEAVE, LEAVE])
    np.testing.assert_allclose(engine.control.rewards[0], [0.4, 0.84, 0.84])
    metrics = engine.metrics()
    assert (metrics["retention"], metrics["network_effect"], metrics["exits"]) == (0.0, 0.0, 2.0)
    engine = played(GOOD, [INVEST, LEAVE, LEAVE], outside=0.0)  # as it is by default
    np.testing.assert_allclose(engine.control.rewards[0], [0.0, 0.8, 0.8])


@pytest.mark.parametrize(
    ("platform", "developer", "bars", "stays"),
    [
        (0.8, 0.8, (0.8, 0.8), True),
        (0.8, 0.8, (0.81, 0.5), False),  # shut out
        (0.8, 0.8, (0.5, 0.81), False),  # left
        (0.2, 0.9, (0.9, 0.2), True),
        (0.9, 0.2, (0.2, 0.9), True),
        (1.0, 0.0, (-3.0, 9.0), True),  # bars are clipped
        (0.99, 1.0, (9.0, 9.0), False),
    ],
)
def test_each_side_has_a_bar_for_the_record_of_the_other(platform, developer, bars, stays):
    state = GOOD | {"record": np.array([platform, developer, 1.0])}
    engine = played(state, [[1.0, 0.5, bars[0]], [1.0, 0.5, bars[1]], [1.0, 0.5, 0.0]])
    np.testing.assert_array_equal(engine.state.present[0], [True, stays, True])
    assert engine.metrics()["exits"] == 1.0 - stays


@pytest.mark.parametrize(
    ("away", "record", "bar", "enters"),
    [(3, 0.3, 0.3, True), (9, 1.0, 0.5, True), (2, 1.0, 0.3, False), (3, 0.29, 0.3, False)],
)
def test_coming_back_takes_time_and_agreement(away, record, bar, enters):
    state = GOOD | {"present": [True, False, True], "away": [0, away, 0]}
    records = {"record": np.array([record, 0.8, 0.8])}
    actions = [STAY, [1.0, 0.5, bar], [0.0, 0.5, 0.0]]
    engine = played(state | records, actions, wait=3)
    np.testing.assert_array_equal(engine.state.present[0], [True, enters, True])
    assert engine.state.seen[0, 1] == enters
    assert engine.state.away[0, 1] == (0 if enters else away + 1)
    metrics = engine.metrics()
    assert (metrics["entries"], metrics["exits"]) == (enters, 0.0)


def test_the_way_out_and_back():
    back = [INVEST, INVEST, INVEST]
    engine = played(GOOD, wait=3)
    rows = []
    for actions in ([INVEST, LEAVE, INVEST], back, back, back):
        step(engine, actions)
        seen = engine.control.obs[0, 1]
        names = ("own_presence", "developers_present", "waiting")
        rows.append([seen[engine.layout[name].index][0] for name in names])
    expected = [[0, 0.5, 2 / 3], [0, 0.5, 1 / 3], [0, 0.5, 0], [1, 1, 0]]
    np.testing.assert_allclose(rows, expected, rtol=1e-6)
    metrics = engine.metrics()
    assert (metrics["exits"], metrics["entries"]) == (1.0, 1.0)
    assert metrics["retention"] == pytest.approx((3 * 0.5 + 1) / 4)
    engine = played(GOOD, [INVEST, LEAVE, INVEST], back, wait=1)
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
    engine = played(GOOD, [[1.0, terms, 0.5], INVEST, [1.0, 0.9, 0.5]], **rules)
    assert engine.state.commission[0] == pytest.approx(commission)
    assert engine.metrics()["mean_commission"] == pytest.approx(commission)
    worth = 2.0 * 2.6
    part = (1.0 - commission) * worth / 2
    expected = [commission * worth, part, part]
    np.testing.assert_allclose(engine.control.rewards[0], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("terms", "conduct"), [(0.5, 1.0), (0.0, 1.0), (0.55, 0.6), (0.625, 0.0), (1.0, 0.0)]
)
@pytest.mark.parametrize("times", [GOOD, BAD])
@pytest.mark.parametrize("fraction", [0.0, 1.0])
def test_the_record_of_the_platform_is_that_of_its_terms(times, fraction, terms, conduct):
    """A tenth of the way to 1 - 4 (2 d - 1), whatever it invests."""
    engine = played(times, [[fraction, terms, 0.5], STAY, STAY])
    assert engine.state.record[0, 0] == pytest.approx(0.8 + 0.1 * (conduct - 0.8))


@pytest.mark.parametrize(("received", "answer"), [(1.0, 1.0), (1.0, 0.0), (0.5, 0.2), (0.0, 0.7)])
@pytest.mark.parametrize("times", [GOOD, BAD])
def test_developers_are_judged_by_their_answers(times, received, answer):
    seen = np.array([received, 0.0, 0.0])
    engine = played(times | {"seen": seen}, [STAY, [answer, 0.5, 0.5], STAY])
    home = 0.8 + 0.1 * 0.07
    assert engine.state.record[0, 1] == pytest.approx(home + 0.1 * received * (answer - home))
    np.testing.assert_array_equal(engine.state.received[0], [0.0, received, received])


def test_nothing_is_expected_of_the_absent_and_an_answer_of_developers():
    engine = played(GOOD | {"seen": np.array([0.6, 0.0, 0.0])}, [INVEST, LEAVE, STAY])
    trace = engine.spec.trace(engine.constants, engine.state)
    np.testing.assert_allclose(trace["baseline"], [[0.5, 0.0, 0.3]])


def test_metrics_of_two_steps():
    engine = played(GOOD, [[1.0, 0.75, 0.5], LEAVE, INVEST], [[0.5, 0.5, 0.95], STAY, STAY])
    metrics = engine.metrics()
    assert metrics["retention"] == pytest.approx((0.5 + 0.0) / 2)
    assert metrics["exits"] == 2.0
    assert metrics["entries"] == 0.0
    assert metrics["mean_commission"] == pytest.approx((0.375 + 0.3) / 2)
    assert metrics["network_effect"] == pytest.approx(0.8 / 0.6 - 1.0)  # nothing in step two
    for times in (GOOD, BAD):  # which do not matter
        whole = played(times, [INVEST, INVEST, INVEST], [INVEST, LEAVE, INVEST], floor=0.4)
        units = np.array([2.6, 1.8])
        gained = (units * [1.0, 0.7]).sum() / (units * 0.4).sum() - 1.0
        assert whole.metrics()["network_effect"] == pytest.approx(gained)
    still = played(GOOD).metrics()
    own = ("retention", "exits", "entries", "network_effect", "mean_commission")
    assert [still[name] for name in own] == [0.0] * 5


def test_observation_and_global_state_end_with_presence_and_commission():
    engine = played(GOOD, [[1.0, 1.0, 0.5], INVEST, LEAVE], wait=3)
    assert list(engine.layout)[-6:] == [
        "time",
        "informed",
        "own_presence",
        "developers_present",
        "commission",
        "waiting",
    ]
    expected = [[1, 0.5, 0.45, 0], [1, 0.5, 0.45, 0], [0, 0.5, 0.45, 2 / 3]]
    np.testing.assert_allclose(engine.control.obs[0, :, -4:], np.float32(expected))
    world = engine.global_state()[0]
    assert world.shape == engine.state_space.shape == (2 * 3 + 2 + 5,)
    np.testing.assert_allclose(world[-5:], np.float32([1, 0, 0, 2 / 3, 0.45]))
    first = played(GOOD)
    np.testing.assert_allclose(
        first.control.obs[0, :, -4:], np.tile(np.float32([1, 1, 0.3, 0]), (3, 1))
    )


def test_steady_is_who_would_deal_with_a_full_record():
    engine = played(GOOD | {"record": np.ones(3)})
    actions = np.array([[[0.0, 0.5, 0.5], [0.0, 0.5, 0.9], [0.0, 0.5, 1.0]]])
    present = game.steady(engine.constants, actions)["present"]
    np.testing.assert_array_equal(present, [[True, True, False]])
    shut = game.steady(engine.constants, np.array([[LEAVE, STAY, STAY]]))["present"]
    np.testing.assert_array_equal(shut, [[True, False, False]])


@pytest.mark.parametrize(("record", "fraction"), [(0.81, 1.0), (0.8, 1.0), (0.79, 0.0)])
def test_a_reciprocator_does_not_invest_where_it_expects_to_be_shut_out(record, fraction):
    """With a bar of 0.8 for others it expects the same bar of the platform."""
    engine = played(GOOD)
    match = Match(engine, [Player("reciprocator:bar=0.8", Game.of(engine))])
    state = {"record": np.array([0.9, record, 0.9]), "seen": np.array([1.0, 0.0, 0.0])}
    match.begin(np.array([1], np.uint64), state=GOOD | state)
    actions = match.actions()[0]
    np.testing.assert_allclose(actions[:, 2], 0.8)
    np.testing.assert_allclose(actions[1:, 0], [fraction, 1.0])
