"""Rail-v1: its returns by hand, and policies that play it; recorded episodes hold its rules."""

from functools import partial

import episodes
import numpy as np
import pytest
from episodes import measure
from test_rail_planners import POLICIES

from coopbench_envs.rail.trains import ARRIVED

RAIL = "coopbench/Rail-v1"
TRAINS = 10
PARAMETERS = {
    "num_agents": TRAINS,
    "speeds": {"1": 0.4, "1/2": 0.2, "1/3": 0.2, "1/4": 0.2},
    "malfunction_rate": 0.02,
    "malfunction_duration": (2, 6),
    "observation": "none",
}
played = partial(episodes.played, RAIL, lanes=4, **PARAMETERS)


def test_returns_by_hand():
    engine = played("shortest_path", lanes=16)
    s = engine.state
    punctuality = np.minimum((s.due - s.departure) / (s.arrival - s.departure), 1)
    expected = np.where(s.status == ARRIVED, punctuality, 0)
    np.testing.assert_allclose(engine.control.returns, expected, rtol=1e-15)
    np.testing.assert_allclose(measure(engine, "normalised_return"), expected.mean(axis=1))
    assert (s.status == ARRIVED).any()
    assert (s.status != ARRIVED).any()


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
