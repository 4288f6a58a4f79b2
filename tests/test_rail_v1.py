"""Rail-v1: its rules, each by what trains do; rewards, masks, policies."""

from functools import cache, partial

import episodes
import numpy as np
import pytest
from episodes import measure
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench_envs.engine import DISABLED, Engine
from coopbench_envs.rail.cells import FORWARD, LEFT, RIGHT, STOP, exits, follow
from coopbench_envs.rail.trains import (
    ARRIVED,
    BROKEN,
    BROKEN_OFF_MAP,
    MOVING,
    READY,
    STOPPED,
    WAITING,
)

RAIL = "coopbench/Rail-v1"
TRAINS = 10
PARAMETERS = {
    "num_agents": TRAINS,
    "speeds": {"1": 0.4, "1/2": 0.2, "1/3": 0.2, "1/4": 0.2},
    "malfunction_rate": 0.02,
    "malfunction_duration": (2, 6),
    "observation": "none",
}
POLICIES = (
    *("never_depart", "forward", "shortest_path", "deadlock_avoidance", "one_by_one"),
    *("prioritised:effort=1000", "prioritised_replan:effort=1000,effort_at_strikes=1000"),
)
DEPARTURES = 64  # times at which a train departs that is alone
FEW = settings(deadline=None, max_examples=5)
# Fields of a state whose second axis is the train.
played = partial(episodes.played, RAIL, lanes=4, **PARAMETERS)


@cache
def shared_engine(lanes):
    """Return one engine for all examples; building one takes longer than playing."""
    return Engine(RAIL, lanes, **PARAMETERS)


@cache
def single_train(lanes):
    """Return one engine with a single train that does not break down."""
    return Engine(RAIL, lanes, num_agents=1, observation="none")


def drawn_actions(rng, lanes):
    return rng.choice(5, size=(lanes, TRAINS), p=[0.1, 0.1, 0.6, 0.1, 0.1])


def test_who_has_waited_longest_goes_first_then_the_lowest_rank():
    """Trains of one start cell all want to depart; the departures are made equal for that."""
    engine = Engine(RAIL, 8, **{**PARAMETERS, "malfunction_rate": 0.0})
    engine.reset(np.arange(8))
    state = engine.get_state()
    state["departure"][:] = 0
    engine.reset(np.arange(8), state=state)
    s, contested = engine.state, 0
    engine.step(np.zeros((8, TRAINS), np.int64), DISABLED)
    for _ in range(60):
        before = s.status.copy(), s.waited.copy(), s.rank.copy()
        occupied = [
            set((s.place[lane][(st_ >= MOVING) & (st_ < ARRIVED)] >> 2).tolist())
            for lane, st_ in enumerate(before[0])
        ]
        engine.step(np.full((8, TRAINS), FORWARD), DISABLED)
        for lane in range(8):
            status, waited, rank = (values[lane] for values in before)
            for cell in set((s.start[lane] >> 2).tolist()) - occupied[lane]:
                rivals = np.flatnonzero((status == READY) & (s.start[lane] >> 2 == cell))
                entered = [a for a in rivals if s.status[lane, a] >= MOVING]
                if len(entered) == 1 and len(rivals) > 1:
                    contested += 1
                    keys = [(-waited[a], rank[a]) for a in rivals]
                    assert entered[0] == rivals[keys.index(min(keys))]
    assert contested > 5


def test_trains_of_one_start_cell_are_released_a_cell_time_apart():
    engine = shared_engine(8)
    engine.reset(np.arange(8))
    c, s, shared = engine.constants, engine.state, 0
    for lane in range(8):
        queues = 0
        for cell in set((s.start[lane] >> 2).tolist()):
            trains = np.flatnonzero(s.start[lane] >> 2 == cell)
            times = -(-c.unit // s.top_speed[lane, trains])
            np.testing.assert_array_equal(
                s.departure[lane, trains], np.concatenate([[0], np.cumsum(times)[:-1]])
            )
            queues += times[:-1].sum()
            shared += len(trains) > 1
        cells = s.distances[lane, s.map_of[lane], s.start[lane]].astype(np.int64) + 1
        longest = np.ceil(2 * (cells * c.unit / s.top_speed[lane]).max())
        assert s.limit[lane] == longest + queues + 20
        assert (s.due[lane] <= s.limit[lane]).all()
    assert shared > 8


def test_trains_break_down_on_the_map_only():
    engine, rng = shared_engine(8), np.random.default_rng(0)
    engine.reset(np.arange(8))
    s, broken = engine.state, 0
    while not engine.control.done.all():
        engine.step(drawn_actions(rng, 8), DISABLED)
        assert (s.status != BROKEN_OFF_MAP).all()
        on_map = (s.status >= MOVING) & (s.status < ARRIVED)
        assert (s.broken[~on_map] == 0).all()
        broken += (s.status == BROKEN).sum()
    assert broken > 0


@pytest.mark.parametrize("policy", ["one_by_one", "shortest_path"])
def test_trains_break_down_at_the_rate_of_the_task_however_long_they_wait(policy):
    """One by one, trains spend most of their time at home, where strikes are void."""
    engine = Engine(RAIL, 128, **PARAMETERS | {"malfunction_duration": (20, 50)})
    match, s = Match(engine, [Player(policy, Game.of(engine))]), engine.state
    match.begin(np.arange(128, dtype=np.uint64))
    schedule = s.strike_time.copy(), s.strike_length.copy()
    steps, lengths = 0, []
    count, exposed = s.malfunctions.copy(), np.zeros(s.status.shape, np.bool_)
    for _ in match.steps():
        struck = s.malfunctions > count
        assert exposed[struck].all()
        steps += exposed.sum()
        lengths.extend(s.broken[struck] + 1)
        on_map = (s.status >= MOVING) & (s.status < ARRIVED)
        count = s.malfunctions.copy()
        exposed = on_map & (s.broken == 0) & ~engine.control.done[:, None]
    for values, drawn in zip((s.strike_time, s.strike_length), schedule, strict=True):
        np.testing.assert_array_equal(values, drawn, err_msg="it depends on actions")
    chance = 1 - np.exp(-PARAMETERS["malfunction_rate"])
    error = np.sqrt(chance * (1 - chance) * steps)
    assert abs(len(lengths) - chance * steps) < 3 * error < chance * steps / 5
    # The steps that a malfunction lasts are 21 to 51, each as likely.
    assert (min(lengths), max(lengths)) == (21, 51)
    assert abs(np.mean(lengths) - 36) < 3 * np.sqrt((31**2 - 1) / 12 / len(lengths))


def test_masks_name_the_exits_that_exist_and_stop_always_stops():
    engine, rng = shared_engine(8), np.random.default_rng(1)
    engine.reset(np.arange(8))
    c, s, counts = engine.constants, engine.state, np.zeros(5, np.int64)
    while not engine.control.done.all():
        masks = engine.control.masks.astype(bool)
        for lane in np.flatnonzero(~engine.control.done):
            for a in range(TRAINS):
                status, place = s.status[lane, a], int(s.place[lane, a])
                legal = masks[lane, a]
                counts += legal
                assert legal[0]
                if status in (WAITING, ARRIVED) or s.broken[lane, a] > 0:
                    assert not legal[1:].any()
                    continue
                ways = {follow(s.rail, lane, c.delta, place, k) for k in (LEFT, FORWARD, RIGHT)}
                named = [
                    follow(s.rail, lane, c.delta, place, k)
                    for k in (LEFT, FORWARD, RIGHT)
                    if legal[k]
                ]
                assert len(set(named)) == len(named) == exits_of(s, lane, place)
                assert set(named) == ways
                assert legal[STOP] == (status == MOVING)
        actions = drawn_actions(rng, 8)
        stops = (actions == STOP) & masks[..., STOP] & ~engine.control.done[:, None]
        engine.step(actions, DISABLED)
        assert np.isin(s.status[stops], (STOPPED, BROKEN)).all()
    assert (counts > 100).all()


def exits_of(s, lane, place):
    return bin(exits(s.rail[lane, place >> 2], place & 3)).count("1")


def test_returns_by_hand():
    engine = played("shortest_path", lanes=16)
    s = engine.state
    punctuality = np.minimum((s.due - s.departure) / (s.arrival - s.departure), 1)
    expected = np.where(s.status == ARRIVED, punctuality, 0)
    np.testing.assert_allclose(engine.control.returns, expected, rtol=1e-15)
    np.testing.assert_allclose(measure(engine, "normalised_return"), expected.mean(axis=1))
    assert (s.status == ARRIVED).any()
    assert (s.status != ARRIVED).any()


@FEW
@given(st.integers(0, 2**62))
def test_of_two_that_arrive_the_less_late_scores_higher(seed):
    """A train alone on its shortest way; the further the lane, the later it departs."""
    engine = single_train(1)
    match, way = Match(engine, [Player("shortest_path", Game.of(engine))]), []
    match.begin(np.array([seed], np.uint64))
    for _ in match.steps():
        way.append(engine.actions[0].copy())
    limit, home = int(engine.state.limit[0]), np.zeros_like(way[0])
    engine = single_train(DEPARTURES)
    engine.reset(np.full(DEPARTURES, seed, np.uint64))
    waits = np.linspace(0, limit, DEPARTURES).astype(np.int64)
    for t in range(limit):
        actions = [way[t - wait] if 0 <= t - wait < len(way) else home for wait in waits]
        engine.step(np.array(actions), DISABLED)
    s, score = engine.state, measure(engine, "normalised_return")
    arrived = s.status[:, 0] == ARRIVED
    late = np.where(arrived, s.arrival[:, 0] - s.due[:, 0], 0)
    np.testing.assert_array_equal(score[late <= 0], arrived[late <= 0])
    assert not arrived.all()
    delays, lanes = np.unique(np.maximum(late, 0), return_index=True)
    assert len(delays) > 2
    falling = score[lanes[delays > 0]]
    assert (np.diff(falling) < 0).all()
    assert (falling > 0).all()
    assert (falling < 1).all()


def test_staying_at_home_scores_nothing():
    engine = played("never_depart")
    assert (measure(engine, "normalised_return") == 0).all()
    assert (measure(engine, "never_departed") == 1).all()
    assert (engine.control.returns == 0).all()
    assert engine.control.truncated.all()


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_of_version_0_play_legally(policy):
    engine = played(policy)
    assert engine.control.done.all()
    assert (engine.control.invalid == 0).all()
    if policy != "never_depart":
        assert (measure(engine, "progress") > 0).any()
