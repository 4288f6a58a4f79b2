"""Fingerprints: the same for an episode however it is played, another for whatever differs."""

import hashlib

import numpy as np
import pytest
from builders import make_block

from coopbench.episodes import fingerprints
from coopbench.episodes.fingerprints import Fingerprints, extremes
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell, Progress
from coopbench_envs.engine import DISABLED, Engine

GAMES = {
    "TrustDilemma-v0": {"horizon": 9},
    "Routing-v1": {"num_agents": 2, "horizon": 40, "map_params": {"num_rows": 6, "num_cols": 6}},
}


def played(env, seeds, bump=None):
    """Fingerprints of random play; ``bump`` is a (step, lane) whose action is another one."""
    engine = Engine(env, len(seeds), **GAMES[env])
    engine.reset(np.array(seeds, np.uint64))
    prints = Fingerprints(engine)
    low, high = (np.asarray(x) for x in _bounds(engine))
    for step in range(engine.horizon):
        if engine.control.done.all():
            break
        draws = [np.random.default_rng([seed, step]).random(low.shape) for seed in seeds]
        actions = low + np.stack(draws) * (high - low)
        if bump is not None and bump[0] == step:
            actions[bump[1], 0, 0] += 1e-9
        engine.step(actions, DISABLED)
        prints.note()
    scores = engine.control.returns.sum(axis=1)
    return prints.trace(extremes(scores[: prints.recordable]), engine.state.time), engine


def _bounds(engine):
    spaces = [engine.spec.action_space(engine.constants, a) for a in range(len(engine.agents))]
    return [s.low for s in spaces], [s.high for s in spaces]


@pytest.mark.parametrize("env", GAMES)
def test_an_episode_has_one_fingerprint(env, monkeypatch):
    together, _ = played(env, [5, 6, 7])
    alone, _ = played(env, [6])
    assert alone.episodes[0] == together.episodes[1]
    assert len(set(together.episodes)) == 3
    monkeypatch.setattr(fingerprints, "_BLOCK", 1)  # rows are hashed one by one
    assert played(env, [5, 6, 7])[0].episodes == together.episodes


@pytest.mark.parametrize("env", GAMES)
def test_a_difference_is_found_in_its_step_and_episode(env):
    right, _ = played(env, [5, 6, 7])
    wrong, _ = played(env, [5, 6, 7], bump=(4, 1))
    differ = [a != b for a, b in zip(right.episodes, wrong.episodes, strict=True)]
    assert differ == [False, True, False]
    assert np.flatnonzero(right.steps[: len(wrong.steps)] != wrong.steps)[0] == 4


def test_a_fingerprint_is_of_actions_rewards_metrics_and_terminations():
    """Not of an end by time alone, which the number of steps tells."""
    engine, content = Engine("TrustDilemma-v0", 1, horizon=3), b""
    engine.reset(np.array([5]))
    prints, control = Fingerprints(engine), engine.control
    while not control.done.all():
        engine.step(np.full(engine.actions.shape, 40.0), DISABLED)
        prints.note()
        parts = (engine.actions.ravel(), control.rewards[0], control.measures[0], control.ended)
        content += np.concatenate(parts, dtype="<f8").tobytes()
    assert control.truncated.all()
    expected = hashlib.sha256(content).hexdigest()
    assert prints.trace((0,), engine.state.time).episodes == (expected,)


def test_of_equal_checkpoints_the_earliest_is_the_best():
    scores = {"return": np.array([[1.0, 3.0], [2.0, 4.0], [4.0, 2.0], [0.0, 0.0]])}
    progress = Progress(Cell("task", "mine", 5), np.arange(4), scores)
    assert progress.best("return") == 1
    nan = float("nan")
    scores = {"return": np.array([[1.0, nan], [nan, nan], [nan, 4.0], [3.0, 4.0]])}
    assert Progress(progress.cell, np.arange(4), scores).best("return") == 2


def test_the_own_return_is_that_of_the_policys_seats():
    seats = np.array([[True, False], [False, True], [True, True]])
    block = make_block(Cell("task", "mine"), [[1.0, 8.0], [2.0, 4.0], [3.0, 6.0]], seats=seats)
    assert values(block, "own_return").tolist() == [1.0, 4.0, 4.5]


def test_the_best_and_the_worst_episode_are_recorded(monkeypatch):
    trace, engine = played("TrustDilemma-v0", [5, 6, 7, 8])
    scores = engine.control.returns.sum(axis=1)
    assert list(trace.recorded) == [np.argmax(scores), np.argmin(scores)]
    for k, (actions, rewards) in trace.recorded.items():
        assert actions.shape == (engine.state.time[k], 2, 1)
        assert np.array_equal(np.cumsum(rewards, axis=0)[-1], engine.control.returns[k])
    monkeypatch.setattr(fingerprints, "_COURSE", 1)  # memory for the first episode only
    assert list(played("TrustDilemma-v0", [5, 6, 7, 8])[0].recorded) == [0]
    assert fingerprints.extremes(np.array([np.nan, 2.0, 2.0])) == (1,)
    assert fingerprints.extremes(np.array([np.nan, np.nan])) == (0,)
