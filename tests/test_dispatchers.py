"""Dispatchers of railways: what their trains do, and what they may not look at."""

import numpy as np
import pytest

from coopbench.baselines.dispatchers.railway import Railway
from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_policy
from coopbench_envs.engine import Engine
from coopbench_envs.rail.cells import follow

RAIL = "coopbench/Rail-v0"
POLICIES = (
    *("never_depart", "forward", "shortest_path", "deadlock_avoidance", "one_by_one"),
    *("prioritised:effort=1000", "prioritised_replan:effort=1000,effort_at_strikes=1000"),
)
SHORT = {"num_agents": 6, "malfunction_rate": 0.02, "malfunction_duration": (2, 6)}


def played(policy, lanes=4, **parameters):
    """Return an engine after one episode in each lane."""
    engine = Engine(RAIL, lanes, observation="none", **parameters)
    match = Match(engine, [Player(policy, Game.of(engine))])
    match.begin(np.arange(lanes, dtype=np.uint64))
    for _ in match.steps():
        pass
    return engine


def measure(engine, name):
    return engine.control.measures[:, list(engine.spec.metrics).index(name)]


def test_no_train_departs():
    engine = played("never_depart", **SHORT)
    assert (measure(engine, "never_departed") == 1).all()
    assert (measure(engine, "arrived") == 0).all()


def test_a_train_alone_arrives_on_its_shortest_way():
    engine = played("shortest_path", lanes=8, num_agents=1)
    assert (measure(engine, "arrived") == 1).all()
    c, s = engine.constants, engine.state
    assert c.num_agents == 1
    for lane in range(8):
        cells = s.distances[lane, 0, s.start[lane, 0]]
        # Ready after one step, on the map after another one, then a cell per step.
        assert s.arrival[lane, 0] == max(s.departure[lane, 0], 1) + 1 + cells


def test_trains_that_go_forward_depart():
    assert (measure(played("forward", **SHORT), "never_departed") < 1).all()


def test_where_actions_lead_is_what_the_game_says():
    engine = Engine(RAIL, 3, observation="none", num_agents=20)
    engine.reset(np.arange(3))
    railway, c, s = Railway(Game.of(engine), "test"), engine.constants, engine.state
    rng = np.random.default_rng(0)
    rails = [np.flatnonzero(s.rail[lane]) for lane in range(3)]
    for _ in range(20):
        for lane in range(3):
            s.place[lane] = 4 * rng.choice(rails[lane], 20) + rng.integers(4, size=20)
        for action in range(1, 4):
            places = railway.ahead(s, action)
            for lane in range(3):
                for a in range(20):
                    expected = follow(s.rail, lane, c.delta, int(s.place[lane, a]), action)
                    assert places[lane, a] == expected


@pytest.mark.parametrize("policy", POLICIES)
def test_malfunctions_to_come_change_no_action(policy):
    engine = Engine(RAIL, 2, observation="none", **SHORT)
    engine.reset(np.array([4, 4]))
    game = Game.of(engine)
    chosen, rng = make_policy(policy, game), np.random.default_rng(0)
    memory = chosen.initial(game, np.zeros(2, np.uint64))
    for _ in range(60):
        hidden = engine.state.strike_time[0] > engine.state.time[0]
        engine.state.strike_time[0][hidden] += rng.integers(1, 9)
        engine.state.strike_length[0] = rng.permuted(engine.state.strike_length[0])
        arguments = [engine.control.obs, memory]
        if getattr(chosen, "uses_state", False):
            arguments.append(engine.view())
        if getattr(chosen, "uses_masks", False):
            arguments.append(engine.control.masks.astype(bool))
        actions, memory = chosen.act(*arguments)
        np.testing.assert_array_equal(actions[0], actions[1])
        state = {name: values[1] for name, values in engine.get_state().items()}
        engine.reset(np.array([4, 4]), state=state)
        engine.step(actions)


@pytest.mark.parametrize("policy", POLICIES)
def test_other_games_are_refused(policy):
    with pytest.raises(ValueError, match="it runs trains"):
        make_policy(policy, Game.at("coopbench/TrustDilemma-v0"))
