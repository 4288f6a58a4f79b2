"""Metrics over trajectories: values worked out by hand, and what must hold in every game."""

import dataclasses
from types import SimpleNamespace

import builders
import numpy as np
import pytest
import toy_pennies

import coopbench_envs
from coopbench.analysis.estimates import estimates
from coopbench.episodes import metrics
from coopbench.episodes.table import Cell, EpisodeTable
from coopbench.episodes.trajectories import Recorder, agent_metrics, episode_metrics
from coopbench.playing.plan import plan
from coopbench.playing.rollout import play
from coopbench.protocol.loading import ad_hoc
from coopbench_envs.coopetition import trajectories
from coopbench_envs.coopetition.published import dynamics
from coopbench_envs.coopetition.trajectories import AGENT, EPISODE, TRACES
from coopbench_envs.coopetition.ventures import ventures
from coopbench_envs.core import TrajectoryMetric
from coopbench_envs.engine import DISABLED, Engine

TRUST = "coopbench/TrustDilemma-v0"
ANYTHING = 0.9  # what stands where nothing must be looked at


def course(*episodes):
    """Trace (steps + 1, episodes, agents) from one list over time per episode."""
    return np.array(episodes, np.float64).swapaxes(0, 1)


def playing(*lengths):
    """Which steps the episodes of these lengths consist of."""
    return np.arange(max(lengths))[:, None] < np.array(lengths)


# --- formulas ------------------------------------------------------------------------------------

# Two episodes of three agents with baseline 0.4; the second is over after its first step.
PLAYED = playing(2, 1)
FRACTION = course(
    [[ANYTHING] * 3, [0.3, 0.4, 0.8], [0.1, 0.2, 0.9]],
    [[ANYTHING] * 3, [0.3, 0.4, 0.8], [ANYTHING, 0.0, 0.0]],
)
# In step 1 agent 0 exploits both others; in step 2, agents 0 and 1 exploit agent 2.
BASELINE = np.full((3, 1, 3), 0.4)


def test_exploitation_counts_pairs_and_steps():
    rate = trajectories.exploitation_rate(PLAYED, FRACTION, BASELINE)
    np.testing.assert_allclose(rate, [4 / 12, 2 / 6])
    agents = trajectories.exploiting(PLAYED, FRACTION, BASELINE)
    np.testing.assert_allclose(agents, [[3 / 4, 1 / 4, 0], [1, 0, 0]])
    victims = trajectories.exploited(PLAYED, FRACTION, BASELINE)
    np.testing.assert_allclose(victims, [[0, 1 / 4, 3 / 4], [0, 1 / 2, 1 / 2]])
    gap = trajectories.exploitation_asymmetry(PLAYED, FRACTION, BASELINE)
    np.testing.assert_allclose(gap, [3 / 4 + 3 / 4, 1 + 1 / 2])


def test_each_agent_is_held_to_its_own_baseline_of_the_step():
    fraction = course([[0.0, 0.0], [0.5, 0.5], [0.5, 0.5]])
    baseline = course([[0.0, 0.0], [0.6, 0.5], [0.6, 0.7]])  # in step 2 both are below
    rates = trajectories.exploiting(playing(2), fraction, baseline)
    np.testing.assert_array_equal(rates, [[0.5, 0.0]])


def test_one_of_two_always_exploits_the_other():
    fraction = course([[ANYTHING] * 2, [0.0, 1.0], [0.0, 1.0]])
    baseline = np.full((3, 1, 2), 0.4)
    assert trajectories.exploitation_asymmetry(playing(2), fraction, baseline) == 2.0
    assert trajectories.exploitation_rate(playing(2), fraction, baseline) == 0.5


def test_trust_of_agents_and_its_variance():
    trust = course(
        [[0.6, 0.4], [0.2, 0.4], [0.1, 0.1]],  # means 0.5, 0.3, 0.1
        [[0.6, 0.4], [0.2, 0.4], [ANYTHING] * 2],  # means 0.5, 0.3
    )
    stability = trajectories.trust_stability(PLAYED, trust)
    np.testing.assert_allclose(stability, [0.08 / 3, 0.01])
    np.testing.assert_allclose(trajectories.mean(PLAYED, trust), [[0.15, 0.25], [0.2, 0.4]])
    np.testing.assert_array_equal(trajectories.final(PLAYED, trust), [[0.1, 0.1], [0.2, 0.4]])


@pytest.mark.parametrize(
    ("means", "events"),
    [
        ([1.0, 0.4, 0.7, 0.8], 1),
        ([1.0, 0.4, 0.7, 0.79], 0),
        ([1.0, 0.5, 1.0], 0),  # half is not under half
        ([1.0, 0.1, 0.1], 0),
        ([0.5, 0.625, 0.2, 0.49, 0.5], 1),  # back to 80 % of the peak, not of the start
        ([0.5, 0.625, 0.2, 0.49], 0),
        ([1.0, 0.4, 0.9, 1.0, 0.4, 0.79], 1),  # the peak goes on rising after a recovery
        ([1.0, 0.4, 0.9, 1.0, 0.4, 0.81], 2),
        ([1.0, 0.4, 0.81, 0.4, 0.7], 2),  # 0.81 is the second peak, not 1
        ([1.0, 0.4, 0.81, 0.4, 0.65, 0.4, 0.53, 0.45, 0.46], 3),  # 0.46 > 0.8 * 0.53, but < half
        ([1.0, 0.4, 0.81, 0.4, 0.65, 0.4, 0.53, 0.45, 0.46, 0.5], 4),
        ([0.0, 0.5, 0.0, 0.5], 0),
    ],
)
def test_recoveries(means, events):
    trust = course([[value, value] for value in means])
    assert trajectories.recovery_events(playing(len(means) - 1), trust) == [events]


def test_a_recovery_after_the_end_does_not_count():
    trust = course([[1.0] * 2, [0.4] * 2, [0.9] * 2], [[1.0] * 2, [0.4] * 2, [0.9] * 2])
    np.testing.assert_array_equal(trajectories.recovery_events(PLAYED, trust), [1, 0])


def test_nothing_was_played():
    played, trace = np.zeros((0, 1), np.bool_), course([[0.2, 0.6]])
    for metric in (*EPISODE.values(), *AGENT.values()):
        value = metric.function(played, *(trace for _ in metric.needs))
        expected = trace[0] if metric.function is trajectories.final else np.zeros_like(value)
        np.testing.assert_array_equal(value, expected)


# --- games ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dilemma():
    return play_all(ad_hoc(TRUST, episodes=4), "constant:0.35")


def play_all(protocol, policy):
    ((cell, contestant),) = plan(protocol, [policy])
    return play(protocol, cell, contestant.model)


def test_an_early_end_counts_its_own_steps(dilemma):
    """Trust of 0.5 is multiplied by 1 - 0.45 * (1 + 0.6 * 0.6) three times, then all is over."""
    np.testing.assert_array_equal(dilemma.lengths, 3)
    trust = 0.5 * 0.388 ** np.arange(4)
    np.testing.assert_allclose(dilemma.agent_metrics["cooperation_rate"], 0.35, rtol=1e-6)
    np.testing.assert_allclose(dilemma.agent_metrics["mean_trust"], trust[1:].mean(), rtol=1e-5)
    np.testing.assert_allclose(dilemma.agent_metrics["final_trust"], trust[3], rtol=1e-5)
    spread = ((trust - trust.mean()) ** 2).mean()
    np.testing.assert_allclose(dilemma.metrics["trust_stability"], spread, rtol=1e-5)
    np.testing.assert_array_equal(dilemma.metrics["exploitation_rate"], 0.0)  # both defect
    assert dilemma.agent_metrics["exploitation_rate"].shape == (4, 2)


def recorded(*levels):
    """Metrics of TrustDilemma in which both firms of lane i invest ``levels[i]`` units."""
    engine = Engine(TRUST, len(levels), horizon=12)
    engine.reset(np.zeros(len(levels), np.uint64))
    recorder = Recorder(engine)
    recorder.note()
    while not engine.control.done.all():
        engine.step(np.array(levels)[:, :, None], DISABLED)
        recorder.note()
    return recorder.metrics() | {f"each {k}": v for k, v in recorder.agent_metrics().items()}


def test_lanes_that_end_early_are_as_if_alone():
    levels = [[35.0, 35.0], [50.0, 50.0], [30.0, 60.0], [10.0, 35.0]]
    together = recorded(*levels)
    for k, level in enumerate(levels):
        for name, value in recorded(level).items():
            np.testing.assert_allclose(value[0], together[name][k], rtol=1e-12, err_msg=name)
    np.testing.assert_array_equal(together["exploitation_rate"], [0, 0, 0.5, 0])
    np.testing.assert_array_equal(together["exploitation_asymmetry"], [0, 0, 2, 0])
    np.testing.assert_array_equal(together["each exploitation_rate"][2], [1, 0])


def test_every_game_with_a_trace_has_sensible_values(kind_id):
    spec = coopbench_envs.spec(kind_id)
    block = play_all(ad_hoc(kind_id, episodes=3, horizon=10), "random")
    known, each = metrics.known_metrics(kind_id), metrics.known_agent_metrics(kind_id)
    assert set(block.metrics) == set(known) - set(metrics.COMMON) | set(spec.metrics)
    assert {"return", *block.agent_metrics} == set(each)
    for name in known:
        assert metrics.values(block, name).shape == (3,)
    if spec.trace is None:
        assert not block.agent_metrics
        assert not set(EPISODE) & set(known)
        return
    tops = {"exploitation_asymmetry": 2.0, "recovery_events": 10.0, "trust_stability": 0.25}
    for name in {*EPISODE} & {*block.metrics} - {*spec.metrics}:
        values = block.metrics[name]
        assert ((values >= 0) & (values <= tops.get(name, 0.5))).all(), name
    for name, values in block.agent_metrics.items():
        assert values.shape == (3, len(block.agents))
        assert ((values >= 0) & (values <= 1)).all(), name
        if name in block.metrics:  # what is said of all is the mean of what is said of each
            np.testing.assert_allclose(values.mean(axis=1), block.metrics[name], atol=1e-12)


def test_traces_have_the_names_and_shapes_that_are_listed(env_id):
    engine = Engine(env_id, 3)
    if engine.spec.trace is None:
        return
    engine.reset(np.arange(3, dtype=np.uint64))
    low, high = engine.action_bounds()
    engine.step(np.broadcast_to(low + 0.6 * (high - low), engine.actions.shape))
    trace = engine.spec.trace(engine.constants, engine.state)
    needed = {need for metric in engine.spec.episode_metrics.values() for need in metric.needs}
    assert set(TRACES) <= set(trace)
    assert set(trace) - set(TRACES) <= needed  # those of a game's own metrics
    for name, values in trace.items():
        assert values.shape in {(3, len(engine.agents)), (len(engine.agents),)}, name
        assert name not in TRACES or ((values >= 0) & (values <= 1)).all(), name


# --- registry ------------------------------------------------------------------------------------


def test_a_game_has_the_metrics_whose_traces_it_gives():
    spec = coopbench_envs.spec(TRUST)
    assert set(episode_metrics(spec)) == set(EPISODE)
    assert set(agent_metrics(spec)) == set(AGENT)
    bare = dataclasses.replace(spec, trace=lambda c, s: {"fraction": s.last_action})
    assert not episode_metrics(bare)
    assert set(agent_metrics(bare)) == {"cooperation_rate"}
    own = dataclasses.replace(spec, metrics={"exploitation_rate": "as the game has it"})
    assert "exploitation_rate" not in episode_metrics(own)
    assert "exploitation_rate" in agent_metrics(own)
    assert {need for m in (*EPISODE.values(), *AGENT.values()) for need in m.needs} <= set(TRACES)


def test_a_toy_brings_metrics_of_its_own():
    richest = TrajectoryMetric(
        "most pennies that a player ever held",
        ("pennies",),
        lambda played, pennies: pennies.max(axis=(0, 2)),
    )
    most = TrajectoryMetric(
        "most pennies", ("pennies",), lambda played, pennies: pennies.max(axis=0)
    )
    spec = dataclasses.replace(
        toy_pennies.SPEC,
        id="test/PenniesTraced-v0",
        trace=lambda c, s: {"pennies": s.pennies},
        episode_metrics={"richest": richest, "other": richest._replace(needs=("none",))},
        agent_metrics={"most": most},
    )
    coopbench_envs.register(spec)
    assert list(episode_metrics(spec)) == ["richest"]
    block = play_all(ad_hoc(spec.id, episodes=5, horizon=10), "random")
    assert metrics.known_metrics(spec.id)["richest"] == "most pennies that a player ever held"
    np.testing.assert_array_equal(block.metrics["richest"], block.agent_metrics["most"].max(axis=1))
    assert (block.metrics["richest"] >= 1).all()
    assert not episode_metrics(toy_pennies.SPEC)


def test_unknown_metrics_are_named(dilemma):
    with pytest.raises(ValueError, match="Did you mean 'exploitation_rate'"):
        metrics.values(dilemma, "exploitation")
    with pytest.raises(ValueError, match="Unknown metric of an agent 'trust_stability'"):
        metrics.agent_values(dilemma, "trust_stability")


def test_gini_of_mixed_signs_is_undefined():
    returns = [[-1.0, 2.0], [1.0, 3.0], [-1.0, -3.0], [5.0, 5.0]]
    block = builders.make_block(
        Cell("trustdilemma-v0", "random"), returns, agents=("firm_0", "firm_1")
    )
    # 2 * |1 - 3| / (2 * 2 * (1 + 3)) = 1/4
    np.testing.assert_allclose(metrics.values(block, "gini"), [np.nan, 0.25, -0.25, 0.0])
    protocol = ad_hoc(TRUST)
    shown = protocol.report.model_copy(update={"metrics": ("gini",)})
    protocol = protocol.model_copy(update={"report": shown})
    row = estimates(protocol, EpisodeTable((block,)))[1]
    assert (row.metric, row.count) == ("gini", 3)
    assert "undefined in 1 of 4 episodes" in row.flag


def test_trust_that_is_given_is_not_that_which_is_received():
    """By hand: of three agents, row a is how much a trusts the others."""
    trust = np.array([[[1.0, 0.8, 0.6], [0.1, 1.0, 0.3], [0.5, 0.5, 1.0]]])
    numbers = {"last_action": np.zeros((1, 3)), "trust": trust}
    constants = SimpleNamespace(num_agents=3, endowment=np.ones(3), baseline=np.zeros(3))
    shown = dynamics.trace(constants, SimpleNamespace(**numbers))
    np.testing.assert_allclose(shown["trust_given"], [[0.7, 0.2, 0.5]])
    np.testing.assert_allclose(shown["trust_received"], [[0.3, 0.65, 0.45]])
    record = {"record": np.array([[0.2, 0.4, 0.9]]), "fraction": np.zeros((1, 3))}
    told = ventures.trace(constants, SimpleNamespace(**record, expected=np.zeros(1)))
    np.testing.assert_allclose(told["trust_given"], [[0.65, 0.55, 0.3]])
