"""Timed play: scores of what is played in time, -1 for the rest, and the evaluation goes on."""

import dataclasses
import json
import os
import sys
import time

import builders
import numpy as np
import pytest

from coopbench.episodes.table import Cell
from coopbench.errors import WorkerError
from coopbench.playing.contestants import Failed, TrainedRuns
from coopbench.playing.rollout import play
from coopbench.timed import policy as timed_policy
from coopbench.timed.evaluation import TimedEpisode, timed_evaluate
from coopbench.timed.policy import Clock

ENV = "coopbench/TrustDilemma-v0"
TASKS = [
    builders.make_task("alone", ENV, horizon=3, low=480, high=550),
    builders.make_task(
        "beside", ENV, horizon=3, high=1000, partners=["random", "tit_for_tat"], episodes=3
    ),
]
LIMITS = {"planning": 60, "step": 20.0, "total": 600}
SHORT = {"planning": 5, "step": 1, "total": 1000, "timeouts": 2}


class Script(Clock):
    """A clock for which answers take so many seconds, in turn, and nothing else does."""

    def __init__(self, *seconds):
        self.time, self._seconds = 0.0, iter(seconds)

    def now(self):
        return self.time

    def wait(self, pipe, seconds):
        taken = next(self._seconds)
        came = taken <= 2 * seconds and super().wait(pipe, 60)  # a later one counts as hanging
        self.time += min(taken, 2 * seconds)
        return came


class Looks:
    """Invests by chance, from the seeds, and more with every step, which it reads off the state."""

    name = "looks"
    uses_state = True

    def initial(self, game, seeds):
        return (seeds[:, None] >> np.uint64(57)) + np.zeros(len(game.agents), np.uint64)

    def act(self, observations, memory, state):
        return (memory + state.time[:, None])[:, :, None].astype(float), memory + np.uint64(1)


class Odd:
    """Invests ten; in each of its first episodes something else happens."""

    name = "odd"

    def __init__(self, folder):
        self._folder, self._asked = folder, 0

    def initial(self, game, seeds):
        self._episode = len(list(self._folder.iterdir()))
        (self._folder / str(self._episode)).touch()
        if self._episode == 0:
            raise RuntimeError("no way")

    def act(self, observations, memory):
        self._asked += 1
        actions = np.full((*observations.shape[:2], 1), 10.0)
        if (self._episode, self._asked) == (1, 2):
            time.sleep(3600)
        if (self._episode, self._asked) == (2, 2):
            os._exit(3)
        if (self._episode, self._asked) == (3, 3):
            return actions[..., 0], memory
        return actions, memory


def leaves(pipe):
    sys.exit(7)


@pytest.fixture
def protocol(tmp_path):
    return load(tmp_path)


def load(folder, limits=SHORT):
    shown = {"score": "own_return", "metrics": ["own_return"], "baselines": None}
    seeds = {"train": None, "first": 3, "count": 5}
    return builders.small_protocol(folder, tasks=TASKS, limits=limits, **seeds, **shown)


def outcomes(scores):
    return [episode.outcome for episode in scores.episodes]


def expected(protocol, policy):
    """Normalised returns of every task, from its episodes played all at once."""
    returns = []
    for task in protocol.task:
        block = play(protocol, Cell(task.id, "any"), policy)
        own = np.array([r[s].mean() for r, s in zip(block.returns, block.seats, strict=True)])
        low, high = task.bounds.low, task.bounds.high
        returns.append(np.clip((own - high) / (high - low), -1, 0))
    return returns


@pytest.mark.filterwarnings("ignore:any takes actions outside")  # 1.08 of the endowment at times
def test_scores_are_those_of_the_same_episodes_played_together(tmp_path):
    """Both rounds recomputed from play without limits; the tasks have 5 and 3 episodes."""
    protocol, events = load(tmp_path, LIMITS), []
    scores = timed_evaluate(protocol, Looks(), progress=lambda *event: events.append(event))
    assert set(outcomes(scores)) == {"played"}
    by_task = expected(protocol, Looks())
    flat = np.concatenate(by_task)
    assert {-1.0, 0.0} < {*flat}  # some are clipped at either end, some are not
    assert [each.normalised for each in scores.episodes] == pytest.approx(flat, abs=1e-12)
    assert scores.round_one == pytest.approx(np.mean([each.mean() for each in by_task]))
    assert scores.round_two == pytest.approx((1 + flat).sum())
    assert [each.seed for each in scores.episodes] == [3, 4, 5, 6, 7, 3, 4, 5]
    assert {each.arrived for each in scores.episodes} == {None}
    assert "arrived" not in str(scores)
    assert events[4] == ("alone", 1.0)
    assert events[-1] == ("beside", 1.0)
    assert all(each.slowest > 0 and 0 < each.planning < each.seconds for each in scores.episodes)
    some = timed_evaluate(protocol, Looks(), tasks=["beside"])
    assert [each.normalised for each in some.episodes] == pytest.approx(by_task[1], abs=1e-12)


def test_a_late_action_ends_its_episode_alone(tmp_path):
    """What takes exactly the limit is on time; a late answer and none at all are the same."""
    protocol = load(tmp_path, SHORT | {"timeouts": 3})
    times = [5, 1, 1, 5.5, 0, 0.5, 1.5, 99, 0, 1.01, *[0] * 9]
    scores = timed_evaluate(protocol, "random", clock=Script(*times))
    assert outcomes(scores) == ["played", *["timed out"] * 4, *["played"] * 3]
    first, second, third, fourth, fifth = scores.episodes[:5]
    assert (first.planning, first.slowest, first.reason) == (5.0, 1.0, "")
    assert second.reason == "'random' took more than 5 s of planning"
    assert third.reason == "'random' took more than 1 s at step 3"
    assert (third.planning, third.slowest) == (0.0, 1.5)
    assert (fourth.planning, fourth.slowest) == (10.0, None)
    assert fifth.reason == "'random' took more than 1 s at step 2"
    plain = np.concatenate(expected(protocol, "random"))
    plain[1:5] = -1.0
    assert [each.normalised for each in scores.episodes] == pytest.approx(plain, abs=1e-12)
    assert scores.troubles[0] == f"2 timed out: {second.reason}"
    assert all(line in str(scores) for line in scores.troubles)


def test_timeouts_in_a_row_end_the_evaluation_unless_an_action_comes_between(protocol):
    times = [6, 0, 2, 6]  # the first action of the second episode is on time
    scores = timed_evaluate(protocol, "random", clock=Script(*times))
    assert outcomes(scores) == ["timed out"] * 3 + ["left out"] * 5
    assert scores.round_one == -1.0
    assert scores.round_two == 0.0
    last = scores.episodes[-1]
    assert (last.task, last.planning, last.slowest, last.seconds) == ("beside", None, None, 0.0)
    assert last.reason == "2 timeouts in a row ended the evaluation"


def test_the_whole_evaluation_has_a_limit(tmp_path):
    """The episode at play and all later ones score -1, whoever's time it was."""
    times = [4, 1, 1, 3.5, 0.25, 0.5]
    protocol = load(tmp_path, SHORT | {"total": 10, "timeouts": 1})
    scores = timed_evaluate(protocol, "random", clock=Script(*times))
    assert outcomes(scores) == ["played", "timed out", *["left out"] * 6]
    assert scores.episodes[1].slowest == 0.5
    assert len(scores.troubles) == 2
    assert all("the 10 s of the whole evaluation were over" in line for line in scores.troubles)
    first = scores.episodes[0].normalised
    assert -1 < first < 0
    assert scores.means == {"alone": pytest.approx((first - 4) / 5), "beside": -1.0}
    assert scores.round_two == 1 + first


def test_a_policy_that_raises_hangs_or_dies_is_named_and_the_next_episode_goes_on(tmp_path):
    (tmp_path / "marks").mkdir()
    protocol = load(tmp_path, {"planning": 60, "step": 2, "total": 600})
    scores = timed_evaluate(protocol, Odd(tmp_path / "marks"))
    assert outcomes(scores) == ["failed", "timed out", "failed", "failed", *["played"] * 4]
    plain = np.concatenate(expected(protocol, "constant:0.1"))
    plain[:4] = -1.0
    assert [each.normalised for each in scores.episodes] == pytest.approx(plain, abs=1e-12)
    reasons = [each.reason for each in scores.episodes[:4]]
    assert all(reason.startswith("'odd' ") for reason in reasons)
    assert "raised RuntimeError: no way Your code: test_timed.py, line" in reasons[0]
    assert reasons[1].endswith("took more than 2 s at step 2")
    assert reasons[2].endswith("ended its process (exit status 3)")
    assert "raised ValueError: Policy 'odd' returned actions of shape (1, 2)" in reasons[3]


def test_a_process_that_does_not_start_is_not_the_policy_s_fault(protocol, monkeypatch):
    monkeypatch.setattr(timed_policy, "_serve", leaves)
    with pytest.raises(WorkerError, match=r"before it began to work \(exit status 7\)"):
        timed_evaluate(protocol, "random")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("randm", "Unknown policy 'randm'. Did you mean 'random'"),
        (lambda observations: 0, r"Cannot send .*lambda.* to another process"),
        (Failed("nan"), "A policy is a name, a callable .* given Failed"),
        (TrainedRuns("mine", {1: "random"}), "A policy is a name, a callable .* given TrainedRuns"),
    ],
)
def test_what_cannot_be_played_is_said_at_once(protocol, policy, message):
    with pytest.raises((ValueError, TypeError), match=message):
        timed_evaluate(protocol, policy, clock=Script())


def test_limits_belong_to_the_protocol(tmp_path):
    free = load(tmp_path, None)
    with pytest.raises(ValueError, match=r"small-v1 has no \[limits\]; write a file that extends"):
        timed_evaluate(free, "random")
    text = 'extends = "small.toml"\nlimits = "flatland"\n'
    limited = builders.loaded(tmp_path, text, "limited")
    assert limited.limits.timeouts == 10
    assert limited.digest != free.digest
    own = load(tmp_path)
    other = builders.loaded(tmp_path, 'extends = "small.toml"\n[limits]\nstep = 7\n', "other")
    assert other.limits == own.limits.model_copy(update={"step": 7.0})


def test_the_command_writes_data(tmp_path, command):
    protocol = load(tmp_path, LIMITS)
    printed = command("timed", "small.toml", "-p", "constant:0.5", "--out", "scores.json").out
    scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert scores["digest"] == protocol.digest
    names = {field.name for field in dataclasses.fields(TimedEpisode)}
    assert [set(row) for row in scores["episodes"]] == [names] * 8
    normalised = np.array([row["normalised"] for row in scores["episodes"]])
    assert scores["round_two"] == pytest.approx((1 + normalised).sum())
    assert f"Round 1, mean normalized return: {scores['round_one']:.5f}" in printed
    assert f"Round 2, sum of 1 + normalized return: {scores['round_two']:.3f}" in printed


def test_the_command_names_own_code(tmp_path, command):
    load(tmp_path, LIMITS)
    code = "def half(observations):\n    return 0.5 + 0.0 * observations[:, :, :1]\n"
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    for text, name in (("my one=mine.py:half", "my one"), ("mine.py:half", "mine.py:half")):
        words = ("timed", "small.toml", "--task", "alone", "-p", text)
        assert f"policy {name!r}" in command(*words, "--out", "s.json").out
        scores = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
        assert scores["policy"] == name
        assert {row["outcome"] for row in scores["episodes"]} == {"played"}
    refused = command("timed", "small.toml", "-p", "random=mine.py:half", status=2)
    assert "'random' is a policy of this package" in refused.message
