"""Rail: what holds in every episode, whatever trains do."""

from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbench_envs.engine import DISABLED, Engine
from coopbench_envs.rail.cells import exits
from coopbench_envs.rail.trains import ARRIVED, BROKEN_OFF_MAP

RAIL = "coopbench/Rail-v0"
TRAINS = 12
PARAMETERS = {
    "num_agents": TRAINS,
    "speeds": {"1": 0.4, "1/2": 0.2, "1/3": 0.2, "1/4": 0.2},
    "level_free": 1.0,
    "malfunction_rate": 0.02,
    "malfunction_duration": (2, 6),
    "observation": "none",
}
SEEDS = st.integers(0, 2**62)
# How often trains do nothing, go left, forward and right, and stop, as relative weights.
HABITS = st.lists(st.integers(0, 10), min_size=5, max_size=5).filter(any)
FEW = settings(deadline=None, max_examples=10)


@cache
def shared_engine(lanes):
    """Return one engine for all examples; building one takes longer than playing."""
    return Engine(RAIL, lanes, **PARAMETERS)


def drawn_actions(rng, lanes, habits):
    return rng.choice(5, size=(lanes, TRAINS), p=np.array(habits) / sum(habits))


def held_resources(engine, lane):
    """Return what the trains on the map of a lane hold: cells, or levels of cells."""
    s = engine.state
    on_map = (s.status[lane] > BROKEN_OFF_MAP) & (s.status[lane] < ARRIVED)
    places = s.place[lane][on_map]
    return 2 * (places >> 2) + (places & 1) * s.level_free[lane, places >> 2]


@FEW
@given(SEEDS, HABITS)
def test_trains_stay_apart_on_the_rails_and_within_their_cells(seed, habits):
    engine, rng = shared_engine(2), np.random.default_rng(seed)
    engine.reset(np.array([seed, seed + 1]))
    c, s = engine.constants, engine.state
    arrived = s.status == ARRIVED
    for _ in range(120):
        engine.step(drawn_actions(rng, 2, habits), DISABLED)
        assert (s.status[arrived] == ARRIVED).all(), "a train that arrived is under way again"
        arrived = s.status == ARRIVED
        assert ((s.distance >= 0) & (s.distance < c.drive.unit)).all()
        assert ((s.speed >= 0) & (s.speed <= s.top_speed)).all()
        for lane in range(2):
            resources = held_resources(engine, lane).tolist()
            assert len(set(resources)) == len(resources), "two trains hold the same resource"
            for place in s.place[lane].tolist():
                assert exits(s.rail[lane, place >> 2], place & 3) != 0, "a train left the rails"


@FEW
@given(SEEDS, HABITS, HABITS)
def test_the_schedule_of_malfunctions_does_not_depend_on_actions(seed, first, second):
    engine, rng = shared_engine(2), np.random.default_rng(seed)
    engine.reset(np.array([seed, seed]))
    s = engine.state
    schedule = s.strike_time.copy(), s.strike_length.copy()
    np.testing.assert_array_equal(schedule[0][0], schedule[0][1])
    while not engine.control.done.any():
        one, other = (drawn_actions(rng, 1, habits) for habits in (first, second))
        engine.step(np.concatenate([one, other]), DISABLED)
        np.testing.assert_array_equal(s.broken[0], s.broken[1])
    np.testing.assert_array_equal(schedule[0], s.strike_time)
    np.testing.assert_array_equal(schedule[1], s.strike_length)
