"""SynergySearch-v1: one firm sees the times, the other reads it; all numbers worked out by hand."""

import numpy as np
import pytest
from venture_play import begun, step

from coopbench_envs.engine import DISABLED, Engine

FIRST = np.array([True, False])  # firm 0 is informed


def _venture(good, state=None, **parameters):
    values = {"good": good, "productivity": 1.5 if good else 0.5, "informed": FIRST}
    levels = {"high": (1.5, 1.5), "low": (0.5, 0.5)}
    return begun("SynergySearch-v1", values | (state or {}), **(levels | parameters))


def test_one_firm_is_drawn_to_be_informed_for_the_whole_episode():
    """Which one is a metric, too."""
    engine = Engine("SynergySearch-v1", 1000)
    engine.reset(np.arange(1000))
    informed, place = engine.state.informed.copy(), [*engine.spec.metrics].index("informed_firm")
    assert (informed.sum(axis=1) == 1).all()
    assert abs(informed[:, 0].mean() - 0.5) < 0.05
    assert abs(engine.state.good.mean() - 0.5) < 0.05
    for _ in range(5):
        np.testing.assert_array_equal(engine.control.measures[:, place], informed[:, 1])
        engine.step(np.full(engine.actions.shape, 0.5), DISABLED)
        np.testing.assert_array_equal(engine.state.informed, informed)
    assert _venture(True, {"informed": np.array([True, True])}).metrics()["informed_firm"] == -1.0


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


def test_both_can_be_informed():
    for good in (True, False):
        engine = Engine("SynergySearch-v1", reveal_times=True)
        engine.reset(np.array([0]), state={"good": good, "productivity": 0.5 + good})
        seen = engine.control.obs[0, :, engine.layout["productivity"].index].ravel()
        np.testing.assert_allclose(seen, (0.5 + good) / (1.5 + good), rtol=1e-6)
        for _ in range(100):
            step(engine, 0.3, 0.4)
        metrics = engine.metrics()
        assert (metrics["inference_accuracy"], metrics["following"]) == (1.0, 1.0)


def test_a_step_pays_by_the_hidden_times_and_not_by_records():
    for record in (0.0, 1.0):
        records = {"record": np.full(2, record)}
        assert step(_venture(True, records), 0.4, 1.0) == pytest.approx([0.6 + 1.05, 1.05])
        assert step(_venture(False, records), 0.4, 1.0) == pytest.approx([0.6 + 0.35, 0.35])


@pytest.mark.parametrize("good", [True, False])
def test_records_are_answers_to_what_was_received(good):
    """Of records of 0.6 a full answer to a half closes 0.25 x 0.5 of the gap, then drifts."""
    seen = np.array([1.0, 0.5])
    engine = _venture(good, {"record": np.full(2, 0.6), "seen": seen, "blurred": seen})
    step(engine, 1.0, 0.2)
    assert engine.state.received[0].tolist() == [0.5, 1.0]
    answered = [0.6 + 0.25 * 0.5 * 0.4, 0.6 - 0.25 * 1.0 * 0.4]
    expected = [r + 0.03 * (0.75 - r) for r in answered]
    np.testing.assert_allclose(engine.state.record[0], expected, rtol=1e-12)
    step(engine, 0.0, 0.0)
    assert engine.state.received[0].tolist() == [0.2, 1.0]


@pytest.mark.parametrize(("good", "right"), [(True, 2), (False, 3)])
def test_inference_accuracy_judges_the_uninformed_firm(good, right):
    """Of five fractions two are above a half; exactly a half is not."""
    engine = _venture(good, horizon=5)
    for fraction in (0.9, 0.1, 0.5, 0.6, 0.2):
        assert engine.metrics()["inference_accuracy"] == 0.0
        step(engine, 1.0, fraction)
    assert engine.metrics()["inference_accuracy"] == pytest.approx(right / 5)


def test_following_compares_with_the_step_before():
    """Distances of 0.1, 0.6 and 0 from 0.5, 1.0 and 0.2; the first step answers nothing."""
    engine = _venture(True)
    for fractions in ((0.5, 1.0), (1.0, 0.4), (0.2, 0.4), (0.9, 0.2)):
        step(engine, *fractions)
    assert engine.metrics()["following"] == pytest.approx(1 - 0.7 / 3)
    assert _venture(True).metrics()["following"] == 0.0


def test_regret():
    """Good: 2 x 1.5 minus 0.5 + 1.5 x 1.5; bad: 2 minus 0.6 + 1 + 0.5 x 0.4."""
    good = _venture(True, horizon=1)
    step(good, 0.5, 1.0)
    assert good.metrics()["regret"] == pytest.approx(0.25)
    bad = _venture(False, horizon=1)
    step(bad, 0.4, 0.0)
    assert bad.metrics()["regret"] == pytest.approx(0.2)
    # Over steps it adds up, and shocks do not move it: it goes by the mean worth.
    long = _venture(True, {"shock": 0.9, "productivity": 0.3}, horizon=2)
    step(long, 0.5, 1.0)
    assert long.metrics()["regret"] == 0.0
    step(long, 0.5, 1.0)
    assert long.metrics()["regret"] == pytest.approx(0.5)


def test_an_uninformed_firm_is_expected_to_follow():
    """Half of what it received, whatever the times; of the informed one the norm in good ones."""
    for good in (True, False):
        engine = _venture(good, {"seen": np.array([0.8, 0.2])})
        step(engine, 0.1, 0.3)
        traces = engine.spec.trace(engine.constants, engine.state)
        np.testing.assert_allclose(traces["baseline"], [[0.5 * good, 0.4]])
        np.testing.assert_array_equal(traces["trust_received"], engine.state.record)
