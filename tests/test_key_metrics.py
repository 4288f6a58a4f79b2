"""Metrics that the published protocol names for single games, against definitions by hand."""

import numpy as np
import pytest

from coopbench.episodes.trajectories import Recorder
from coopbench_envs.coopetition.published import key_metrics
from coopbench_envs.engine import DISABLED, Engine


def played(name, fractions, steps=None, **parameters):
    """Play fractions (steps, agents); return the engine, payoffs and the metrics by name."""
    engine = Engine(f"coopbench/{name}-v0", 1, **parameters)
    engine.reset(np.array([3], np.uint64))
    recorder = Recorder(engine)
    recorder.note()
    total = 0.0
    for row in fractions:
        engine.step(
            (np.array(row) * engine.constants.endowment)[None, :, None].astype(np.float32), DISABLED
        )
        recorder.note()
        total += engine.state.payoff[0].sum()
    return engine, total, {k: v[0] for k, v in recorder.metrics().items()}


def test_metrics_of_the_platform():
    fractions = [(0.5, 0.5, 0.5, 0.5, 0.0), (0.4, 0.4, 0.4, 0.4, 0.4), (0.5, 0.5, 0.0, 0.5, 0.5)]
    engine, total, metrics = played("PlatformEcosystem", fractions, horizon=3)
    trust = engine.state.trust[0]
    assert metrics["welfare"] == pytest.approx(total)
    both = (trust[0, 1:].mean() + trust[1:, 0].mean()) / 2
    assert metrics["platform_developer_trust"] == pytest.approx(both)
    assert metrics["retention"] == np.mean(trust[1:, 0] >= 0.15) == 1.0
    assert metrics["network_effect"] == pytest.approx(0.4 / 3)


def test_developers_are_lost_when_the_platform_gives_nothing():
    fractions = [(0.0, 0.5, 0.5, 0.5, 0.5)] * 6  # the game ends before
    engine, _, metrics = played("PlatformEcosystem", fractions, horizon=10)
    lost = engine.state.trust[0][1:, 0] < 0.15
    assert metrics["retention"] == 1.0 - lost.mean() == 0.0


def test_metrics_of_partners():
    """Five stay in the others' trust, and one that defects from the start loses it."""
    fractions = [(0.5, 0.5, 0.5, 0.5, 0.5, 0.0)] * 8 + [(0.5, 0.5, 0.5, 0.5, 0.5, 0.1)] * 2
    engine, total, metrics = played("DynamicPartnerSelection", fractions, horizon=10)
    received = (engine.state.trust[0].sum(axis=0) - 1.0) / 5
    assert received[5] < 0.15 < received[:5].min()
    assert metrics["retention"] == pytest.approx(5 / 6)
    assert metrics["welfare"] == pytest.approx(total)
    assert metrics["network_effect"] == pytest.approx(0.2 * (0.5**5 * 0.1) ** (1 / 6), rel=1e-6)


def test_metrics_of_the_search_for_synergy():
    """Regret is 0 at the investment that is best at the weight, and grows away from it."""
    gamma = 0.55
    best = 2 * 20 / (2 - gamma) - 1
    settings = {"horizon": 4, "gamma_range": [gamma, gamma]}
    regrets = {}
    for units in (best, best + 5, best - 5):
        _, total, metrics = played("SynergySearch", [(units / 100,) * 2] * 4, **settings)
        regrets[units] = metrics["regret"]
        assert metrics["welfare"] == pytest.approx(total)
        assert metrics["synergy_weight"] == gamma
    assert regrets[best] == pytest.approx(0.0, abs=1e-3)  # actions are float32
    assert min(regrets[best + 5], regrets[best - 5]) > 1.0
    path = [(0.9, 0.1), (0.5, 0.5), (0.3, 0.3), (0.32, 0.28)]
    _, _, metrics = played("SynergySearch", path, **settings)
    assert metrics["exploration_steps"] == 2.0


def test_inference_is_right_on_the_side_of_the_weight():
    low, high = 2 * 20 / (2 - 0.2) - 1, 2 * 20 / (2 - 0.9) - 1
    middle = 2 * 20 / (2 - 0.55) - 1
    engine, _, metrics = played("SynergySearch", [(low / 100, high / 100)] * 3, horizon=3)
    assert low < middle < high
    assert engine.state.gamma[0] != 0.55
    assert metrics["inference_accuracy"] == 0.5


def test_inferred_weight_is_the_one_at_which_the_last_investments_are_best():
    best = {weight: 2 * 20 / (2 - weight) - 1 for weight in (0.3, 0.8)}
    path = [(0.9, 0.9), (best[0.3] / 100, best[0.8] / 100)]
    _, _, metrics = played("SynergySearch", path, horizon=2)
    assert metrics["inferred_weight"] == pytest.approx((0.3 + 0.8) / 2, abs=1e-6)
    _, _, metrics = played("SynergySearch", [(0.0, 1.0)], horizon=1)  # beyond both ends
    assert metrics["inferred_weight"] == pytest.approx((0.2 + 0.9) / 2)


def test_phase_matching_is_the_distance_from_the_equilibrium():
    """The equilibrium is where no agent's utility rises with a small change of its investment."""
    engine = Engine("coopbench/RenaultNissan-v0", 1, phase="crisis", horizon=2)
    level = np.array(key_metrics.alliance_trace(engine.constants, engine.state)["level"])
    c, weight = engine.constants, min(0.30, 1.0 - 0.45)

    def utility(i, units):
        payoff = c.endowment - units + c.theta * np.log1p(units)
        payoff = payoff + c.alpha * c.gamma * np.sqrt(units.prod())
        return payoff[i] + weight * c.dependence[i, 1 - i] * payoff[1 - i]

    for i in range(2):
        for change in (0.5, -0.5):
            units = level * c.endowment
            moved = units.copy()
            moved[i] += change
            assert utility(i, moved) < utility(i, units)
    for shift in (0.0, 0.1):
        _, _, metrics = played(
            "RenaultNissan", [tuple(level + shift)] * 2, phase="crisis", horizon=2
        )
        assert metrics["phase_matching"] == pytest.approx(1.0 - shift, abs=1e-6)
