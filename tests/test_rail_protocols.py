"""Protocols of railways: instances as exported, scores of the challenge by hand, the stop rule."""

import json
import math

import numpy as np
import pytest
from builders import loaded

import coopbench
from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.errors import ProtocolError
from coopbench.playing.plan import game_of
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import instance_state
from coopbench.timed.evaluation import timed_evaluate
from coopbench_envs.engine import Engine
from coopbench_envs.rail.distances import distances_at
from coopbench_envs.rail.trains import ARRIVED, BROKEN_OFF_MAP

PUBLISHED = ("rail-published-1", "rail-published-2")
CHALLENGE = ("rail-challenge-2020-1", "rail-challenge-2020-2")


def episode(task, level, policy):
    """Return an engine after one episode of a level, and the sum of every train's rewards."""
    engine = Engine(task.env, 1, **task.parameters | {"observation": "none"})
    fields = instance_state(task, engine.constants, level + 1)
    match = Match(engine, [Player(policy, Game.of(engine))])
    match.begin([level], {name: values[level] for name, values in fields.items()})
    total = np.zeros(len(engine.agents))
    for _ in match.steps():
        total += engine.control.rewards[0]
    return engine, total


@pytest.mark.slow("reads the networks of all tasks")
@pytest.mark.parametrize("name", PUBLISHED + CHALLENGE)
def test_instances_can_be_played(name):
    for task in load_protocol(name).task:
        fields = instance_state(task, game_of(task).constants, 10)
        assert len(fields["limit"]) == 10
        assert fields["limit"].max() == task.parameters["horizon"]
        if name in CHALLENGE:
            struck = (fields["strike_length"] > 0).any(axis=(1, 2))
            assert not struck[0]
            assert not fields["departure"].any()


def test_scores_of_the_challenge_by_hand():
    """The normalized return of three instances from arrivals, due times and distances alone."""
    task = load_protocol("rail-published-1").task[3]
    for level in range(3):
        engine, total = episode(task, level, "shortest_path")
        s, limit = engine.state, int(engine.state.limit[0])
        by_hand = []
        for a in range(task.parameters["num_agents"]):
            cells = int(distances_at(s, s.place)[0, a])
            travel = cells + 1  # at speed 1, the cell that it is in counted
            if s.status[0, a] == ARRIVED:
                by_hand.append(min(0, int(s.due[0, a]) - int(s.arrival[0, a])))
            elif s.status[0, a] <= BROKEN_OFF_MAP:
                by_hand.append(-travel)
            else:
                by_hand.append(min(0, int(s.due[0, a]) - limit - travel))
        assert by_hand == total.tolist()
        expected = sum(max(value, -limit) for value in by_hand) / (limit * len(by_hand))
        names = list(engine.spec.metrics)
        measured = engine.control.measures[0]
        assert math.isclose(measured[names.index("normalised_return")], expected)
        open_steps = sum(
            int(t) - 1 if t >= 0 else limit for t in s.arrival[0].tolist()
        )  # -1 in every step at whose end it has not arrived
        challenge = -open_steps / (limit * len(by_hand))
        assert math.isclose(measured[names.index("return_2020")], challenge)


def reduced(tasks, **limits):
    """Return the first tasks of the protocol with one level each, and other limits."""
    content = load_protocol("rail-published-1").model_dump(mode="json")
    content["task"] = [
        task | {"episodes": 1, "parameters": task["parameters"] | {"observation": "none"}}
        for task in content["task"][:tasks]
    ]
    content["limits"] |= limits
    return Protocol.model_validate(content)


def test_few_arrivals_end_the_evaluation():
    scores = timed_evaluate(reduced(3), "never_depart")
    assert [row.outcome for row in scores.episodes] == ["played", "left out", "left out"]
    assert [row.normalised for row in scores.episodes][1:] == [-1.0, -1.0]
    assert "the share arrived in test_00 is 0.000 on average, below 0.25" in str(scores)
    assert "mean share arrived below 0.25" in str(scores)
    assert [row.arrived for row in scores.episodes] == [0.0] * 3


def test_enough_arrivals_do_not_and_stand_beside_the_scores(tmp_path):
    scores = timed_evaluate(reduced(2, stop_below=None), "never_depart")
    assert [row.outcome for row in scores.episodes] == ["played"] * 2
    scores = timed_evaluate(reduced(2), "one_by_one")
    assert [row.outcome for row in scores.episodes] == ["played"] * 2
    shares = {row.task: row.arrived for row in scores.episodes}
    assert scores.arrived == pytest.approx(shares)
    assert min(shares.values()) > 0
    mean = f"share arrived {np.mean([*shares.values()]):.3f}"
    lines = str(scores).splitlines()
    assert [line.endswith(f", {mean}") for line in lines if line.startswith("Round")] == [True] * 2
    for task, share in shares.items():
        line = f"{task}: normalized return {scores.means[task]:.5f}, arrived {share:.3f}"
        assert line in lines
    scores.save(tmp_path / "scores.json")
    saved = json.loads((tmp_path / "scores.json").read_text())
    assert saved["arrived"] == scores.arrived


def test_a_share_arrived_needs_the_metric(tmp_path):
    limits = "planning = 1\nstep = 1\ntotal = 9\nstop_below = 0.5\n"
    with pytest.raises(ProtocolError, match="stop_below goes with tasks that have the metric"):
        loaded(tmp_path, f'extends = "coopetition-standard"\n[limits]\n{limits}', "mine")


def test_episodes_that_end_at_a_limit_of_their_own_verify(tmp_path):
    """A railway's limit follows from its ways: it is below the horizon, and not the same twice."""
    folder, game = tmp_path / "results", {"episodes": 4, "num_agents": 3}
    report = coopbench.evaluate("coopbench/Rail-v1", ["never_depart"], folder, **game)
    (block,) = report.episodes
    assert len(set(block.lengths.tolist())) > 1
    assert not block.terminated.any()
    assert coopbench.verify(folder).identical
