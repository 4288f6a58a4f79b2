"""SynergySearch-v1: one firm sees the times, the other reads it; all numbers worked out by hand."""

import numpy as np
import pettingzoo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbench_envs.engine import DISABLED, Engine

STILL = {
    "noise": (0.0, 0.0),
    "shock": (0.0, 0.0),
    "high": (1.5, 1.5),
    "low": (0.5, 0.5),
    "persistence": (1.0, 1.0),
    "trembles": 0.0,
}
ID = "coopbench/SynergySearch-v1"
FIRST = np.array([True, False])  # firm 0 is informed


def _venture(good, state=None, **parameters):
    engine = Engine("SynergySearch-v1", **(STILL | parameters))
    values = {"good": good, "productivity": 1.5 if good else 0.5, "informed": FIRST}
    engine.reset(np.array([0]), state=values | (state or {}))
    return engine


def _play(engine, *fractions):
    engine.step(np.array(fractions, np.float64)[None, :, None], DISABLED)
    return engine.control.rewards[0]


def test_one_firm_is_drawn_to_be_informed_for_the_whole_episode():
    engine = Engine("SynergySearch-v1", 1000)
    engine.reset(np.arange(1000))
    informed = engine.state.informed.copy()
    assert (informed.sum(axis=1) == 1).all()
    assert abs(informed[:, 0].mean() - 0.5) < 0.05
    assert abs(engine.state.good.mean() - 0.5) < 0.05
    for _ in range(5):
        engine.step(np.full(engine.actions.shape, 0.5), DISABLED)
        np.testing.assert_array_equal(engine.state.informed, informed)


@pytest.mark.parametrize("informed", [0, 1])
def test_one_observes_the_times_and_both_who_does(informed):
    flags = np.arange(2) == informed
    engine = _venture(True, {"informed": flags})
    seen, layout = engine.control.obs[0], engine.layout
    expected = np.where(flags, 1.5 / 2.5, 0.0)
    np.testing.assert_allclose(seen[:, layout["productivity"].index][:, 0], expected, rtol=1e-6)
    shown = seen[:, layout["informed"].index].tolist()
    assert shown == [[float(flag), float(not flag)] for flag in flags]
    assert list(layout)[-2:] == ["time", "informed"]
    assert "income" not in layout  # it would tell the times
    assert engine.global_state()[0, -2:].tolist() == flags.astype(float).tolist()


def test_nothing_but_the_other_firm_tells_the_times():
    """Two episodes of equal play in opposite times look the same to the uninformed firm."""
    twins = [Engine("SynergySearch-v1", 50) for _ in range(2)]
    for good, engine in enumerate(twins):
        state = {"good": bool(good), "productivity": 0.5 + good, "informed": FIRST}
        engine.reset(np.arange(50), state=state)
    rng = np.random.default_rng(1)
    for _ in range(99):
        actions = rng.uniform(0.0, 1.0, twins[0].actions.shape)
        for engine in twins:
            engine.step(actions, DISABLED)
        one, other = (engine.control for engine in twins)
        np.testing.assert_array_equal(one.obs[:, 1], other.obs[:, 1])
        np.testing.assert_array_equal(one.measures, other.measures)
        np.testing.assert_array_equal(twins[0].state.record, twins[1].state.record)


def test_no_info_tells_the_times_before_the_end():
    def infos(good):
        env = pettingzoo.make("parallel", ID)
        state = {"good": good, "productivity": 0.5 + good, "informed": FIRST}
        yield env.reset(seed=5, options={"state": state})[1]
        for _ in range(100):
            yield env.step({agent: np.full(1, 0.3, np.float32) for agent in env.agents})[4]

    pairs = [repr(one) == repr(other) for one, other in zip(infos(0), infos(1), strict=True)]
    assert pairs == [True] * 100 + [False]


def test_a_metric_names_the_informed_firm():
    engine = Engine("SynergySearch-v1", 50)
    engine.reset(np.arange(50))
    place = list(engine.spec.metrics).index("informed_firm")
    expected = np.where(engine.state.informed[:, 0], 0.0, 1.0)
    assert {*expected} == {0.0, 1.0}
    np.testing.assert_array_equal(engine.control.measures[:, place], expected)
    engine.step(np.full(engine.actions.shape, 0.5), DISABLED)
    np.testing.assert_array_equal(engine.control.measures[:, place], expected)
    assert _venture(True, {"informed": np.array([True, True])}).metrics()["informed_firm"] == -1.0


def test_both_can_be_informed():
    for good in (True, False):
        engine = Engine("SynergySearch-v1", reveal_times=True)
        engine.reset(np.array([0]), state={"good": good, "productivity": 0.5 + good})
        seen = engine.control.obs[0, :, engine.layout["productivity"].index].ravel()
        np.testing.assert_allclose(seen, (0.5 + good) / (1.5 + good), rtol=1e-6)
        for _ in range(100):
            _play(engine, 0.3, 0.4)
        metrics = engine.metrics()
        assert (metrics["inference_accuracy"], metrics["following"]) == (1.0, 1.0)


def test_a_step_pays_by_the_hidden_times_and_not_by_records():
    for record in (0.0, 1.0):
        records = {"record": np.full(2, record)}
        assert _play(_venture(True, records), 0.4, 1.0) == pytest.approx([0.6 + 1.05, 1.05])
        assert _play(_venture(False, records), 0.4, 1.0) == pytest.approx([0.6 + 0.35, 0.35])


@pytest.mark.parametrize("good", [True, False])
def test_records_are_answers_to_what_was_received(good):
    """Of records of 0.6 a full answer to a half closes 0.25 x 0.5 of the gap, then drifts."""
    seen = np.array([1.0, 0.5])
    engine = _venture(good, {"record": np.full(2, 0.6), "seen": seen, "blurred": seen})
    _play(engine, 1.0, 0.2)
    assert engine.state.received[0].tolist() == [0.5, 1.0]
    answered = [0.6 + 0.25 * 0.5 * 0.4, 0.6 - 0.25 * 1.0 * 0.4]
    expected = [r + 0.03 * (0.75 - r) for r in answered]
    np.testing.assert_allclose(engine.state.record[0], expected, rtol=1e-12)
    _play(engine, 0.0, 0.0)
    assert engine.state.received[0].tolist() == [0.2, 1.0]


def test_a_late_view_delays_answers():
    """With a delay of 1 what was invested in step 1 is received in step 3."""
    engine = _venture(True, delay=1)
    received = []
    for fractions in ((1.0, 0.2), (0.6, 0.4), (0.0, 0.0), (0.0, 0.0)):
        _play(engine, *fractions)
        received.append(engine.state.received[0].tolist())
    assert received == [[0, 0], [0, 0], [0.2, 1.0], [0.4, 0.6]]


@pytest.mark.parametrize(("good", "right"), [(True, 2), (False, 3)])
def test_inference_accuracy_judges_the_uninformed_firm(good, right):
    """Of five fractions two are above a half; exactly a half is not."""
    engine = _venture(good, horizon=5)
    for fraction in (0.9, 0.1, 0.5, 0.6, 0.2):
        assert engine.metrics()["inference_accuracy"] == 0.0
        _play(engine, 1.0, fraction)
    assert engine.metrics()["inference_accuracy"] == pytest.approx(right / 5)


def test_following_compares_with_the_step_before():
    """Distances of 0.1, 0.6 and 0 from 0.5, 1.0 and 0.2; the first step answers nothing."""
    engine = _venture(True)
    for fractions in ((0.5, 1.0), (1.0, 0.4), (0.2, 0.4), (0.9, 0.2)):
        _play(engine, *fractions)
    assert engine.metrics()["following"] == pytest.approx(1 - 0.7 / 3)
    assert _venture(True).metrics()["following"] == 0.0


def test_regret():
    """Good: 2 x 1.5 minus 0.5 + 1.5 x 1.5; bad: 2 minus 0.6 + 1 + 0.5 x 0.4."""
    good = _venture(True, horizon=1)
    _play(good, 0.5, 1.0)
    assert good.metrics()["regret"] == pytest.approx(0.25)
    bad = _venture(False, horizon=1)
    _play(bad, 0.4, 0.0)
    assert bad.metrics()["regret"] == pytest.approx(0.2)
    # Over steps it adds up, and shocks do not move it: it goes by the mean worth.
    long = _venture(True, {"shock": 0.9, "productivity": 0.3}, horizon=2)
    _play(long, 0.5, 1.0)
    assert long.metrics()["regret"] == 0.0
    _play(long, 0.5, 1.0)
    assert long.metrics()["regret"] == pytest.approx(0.5)


def test_an_uninformed_firm_is_expected_to_follow():
    """Half of what it received, whatever the times; of the informed one the norm in good ones."""
    for good in (True, False):
        engine = _venture(good, {"seen": np.array([0.8, 0.2])})
        _play(engine, 0.1, 0.3)
        traces = engine.spec.trace(engine.constants, engine.state)
        np.testing.assert_allclose(traces["baseline"], [[0.5 * good, 0.4]])
        np.testing.assert_array_equal(traces["trust_received"], engine.state.record)


@settings(max_examples=30, deadline=None)
@given(levels=st.lists(st.floats(-0.5, 1.5), min_size=9, max_size=9), seed=st.integers(0, 999))
def test_bounds_hold_for_any_play(levels, seed):
    engine = Engine("SynergySearch-v1", horizon=9, noise=(0.0, 1.0), shock=(0.0, 1.0))
    engine.reset(np.array([seed]))
    for t in range(9):
        engine.step(np.array([[[levels[t]], [levels[-t]]]]), DISABLED)
        for agent, space in enumerate(engine.observation_spaces):
            assert space.contains(engine.control.obs[0, agent])
        assert engine.state_space.contains(engine.global_state()[0])
    metrics = engine.metrics()
    assert metrics["regret"] >= -1e-12
    assert 0.0 <= metrics["inference_accuracy"] <= 1.0
    assert 0.0 <= metrics["following"] <= 1.0


def test_expected_dilemma():
    """A unit pays both together in good times, and never the one who invests it."""
    c = Engine("SynergySearch-v1").constants
    assert (c.share * c.high[1] * (1 + c.shock[1]) < 1).all()
    assert c.high[0] * (1 - c.shock[1]) > 1 > c.low[1] * (1 + c.shock[1])
    assert 1 + 0.5 * (c.high.mean() - 1) >= 1.2  # price of anarchy


def _returns(act, **parameters):
    """Mean returns of the informed and the uninformed firm over 4000 episodes of ``act``."""
    engine = Engine("SynergySearch-v1", 4000, **parameters)
    engine.reset(np.arange(4000) + 77_000)
    informed, layout = engine.state.informed.copy(), engine.layout
    while not engine.control.done.all():
        obs = engine.control.obs.astype(np.float64)
        good = layout["productivity"].view(obs)[:, :, 0] > 0.5
        seen = layout["others_actions"].view(obs)[:, :, 0]
        engine.step(act(informed, good, seen).astype(np.float64)[:, :, None], DISABLED)
    returns = engine.control.returns
    return returns[informed].mean(), returns[~informed].mean()


def _followed(seen):
    return np.clip(3 * seen - 1, 0, 1)


def test_what_the_game_asks():
    """Leading and following pays both by a fifth, and blind play has a good part less of it."""
    both = _returns(lambda informed, good, seen: np.where(informed, good, _followed(seen)))
    none = _returns(lambda informed, good, seen: np.zeros(seen.shape))
    all_know = _returns(lambda informed, good, seen: good.any(axis=1)[:, None] * np.ones((1, 2)))
    alone = _returns(lambda informed, good, seen: informed & good)
    always = _returns(lambda informed, good, seen: good | ~informed)
    assert min(np.divide(both, none)) > 1.2
    scores = [(sum(r) - sum(none)) / (sum(all_know) - sum(none)) for r in (both, alone, always)]
    assert scores[0] > 0.88
    assert max(scores[1:]) < 0.6
    # A follower that keeps everything gains by it, a leader that nobody follows loses.
    free = _returns(lambda informed, good, seen: informed & good)
    assert free[1] > 1.05 * both[1]
    assert free[0] < 0.95 * none[0]
    # Whoever leads is not better off by keeping its signal to itself, or everything.
    mute = _returns(lambda informed, good, seen: ~informed * _followed(seen))
    assert mute[0] < 0.95 * both[0]


def test_pictures_say_who_is_informed():
    for flags, name in ((FIRST, "firm_0"), (~FIRST, "firm_1")):
        engine = _venture(True, {"informed": flags})
        words = engine.spec.text(engine.constants, engine.lane_state(), engine.agents)
        assert f"informed of the times: {name}" in words
