"""The loop in which policies play: seats, streams of random numbers, ends of episodes."""

import numpy as np
import pytest

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match, Script
from coopbench.baselines.player import Player
from coopbench.protocol.loading import load_protocol
from coopbench_envs.engine import Engine

PENNIES = "test/Pennies-v0"
WAIT = 0


def _constant(choice, lanes=4):
    return Script(lambda step: np.full((lanes, 3), choice))


def test_a_match_ends_with_the_last_episode_and_can_be_repeated():
    engine = Engine(PENNIES, 4)
    match = Match(engine, [Player("random", Game.of(engine))])
    match.begin(np.arange(4))
    running, steps = ~engine.control.done, 0
    for actions in match.steps():
        assert running.any()
        assert actions.shape == (4, 3)
        running, steps = ~engine.control.done, steps + 1
    assert not running.any()
    assert steps == engine.state.time.max()
    first = engine.control.returns.copy()
    np.testing.assert_array_equal(match.play(np.arange(4)), first)
    assert not np.array_equal(match.play(np.arange(4, 8)), first)


def test_players_of_one_policy_draw_different_numbers():
    engine = Engine(PENNIES, 64)
    players = [Player("random", Game.of(engine)) for _ in range(2)]
    engine.reset(np.arange(64))
    control, view, lanes = engine.control, engine.view(), np.ones(64, np.bool_)

    def acts(player, stream):
        player.begin(control.seed, control.episode, lanes, stream)
        return player.act(control.obs, view, control.masks)

    first, second = (acts(player, stream) for stream, player in enumerate(players))
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(acts(players[1], 0), first)


def test_a_match_can_begin_in_a_given_state():
    engine = Engine(PENNIES, 2)
    match = Match(engine, [_constant(WAIT, 2)])
    match.begin(np.arange(2), {"pennies": np.array([[1, 2, 3], [3, 2, 1]])})
    next(match.steps())
    np.testing.assert_allclose(engine.control.rewards, [[0.25, 0.5, 0.75], [0.75, 0.5, 0.25]])


def test_a_script_counts_the_steps_of_each_episode():
    engine, numbers = Engine(PENNIES, 1), []

    def choose(step):
        numbers.append(step)
        return np.full((1, 3), WAIT)

    match = Match(engine, [Script(choose)])
    for _ in range(2):
        match.play(np.zeros(1))
    length = int(engine.state.time[0])
    assert numbers == [*range(length), *range(length)]


@pytest.mark.parametrize("task", ["partner-hold-up.focal", "partner-selection.held-out"])
def test_partners_act_alike_in_their_own_lanes_and_in_all(task):
    """Also those that remember, draw random numbers or are networks: to the bit."""
    task, returns = load_protocol("coopetition-standard").task_of(task), []
    for separable in (True, False):
        engine = Engine(task.env, 61, **task.parameters | {"horizon": 12})
        names = ["reciprocator:trembles=0.5", *task.partner_names]
        players = [Player(name, Game.of(engine)) for name in names]
        assert all(player.separable for player in players)
        for player in players:
            player.separable = separable
        match = Match(engine, players, task.seating(61, engine.agents))
        returns.append(match.play(np.arange(61)).copy())
    np.testing.assert_array_equal(*returns)


def test_lanes_that_begin_anew_draw_what_their_own_episodes_say():
    engine = Engine(PENNIES, 6)
    whole, part = (Player("random", Game.of(engine)) for _ in range(2))
    engine.reset(np.arange(6))
    seeds, episodes, everywhere = np.arange(6, dtype=np.uint64), np.zeros(6, int), np.ones(6, bool)
    for player in (whole, part):
        player.begin(seeds, episodes, everywhere)
    part.act(engine.control.obs)
    chosen = np.array([False, True, False, False, True, True])
    part.begin(seeds, episodes, chosen)
    first, again = whole.act(engine.control.obs), part.act(engine.control.obs)
    np.testing.assert_array_equal(again[chosen], first[chosen])
    assert (again != first).any()


class Seated:
    """Does in every lane what the lane says."""

    separable = True

    def begin(self, seeds, episodes, chosen, stream=0):
        self.seeds = seeds

    def act(self, observations, state=None, masks=None, seated=None):
        return np.broadcast_to((self.seeds % 2).astype(int)[:, None], seated.shape)


def test_a_partner_in_some_lanes_acts_in_these():
    engine = Engine(PENNIES, 5)
    seats = np.full((5, 3), -1)
    seats[[1, 2, 4], [0, 1, 2]] = 0
    match = Match(engine, [_constant(WAIT, 5), Seated()], seats)
    match.begin(np.array([0, 3, 4, 0, 9]))
    np.testing.assert_array_equal(match.actions().sum(axis=1), [0, 1, 0, 0, 1])
