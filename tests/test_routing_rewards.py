"""Rewards of Routing-v1: they pay for arriving early, and never for waiting."""

import numpy as np
import pytest
from episodes import begun as playing_in

from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED

ID = "coopbench/Routing-v1"
MAPS = {
    "grid": {"map_params": {"num_rows": 12, "num_cols": 12, "obstacle_density": 0.1}},
    "maze": {"map": "labmaze_grid", "map_params": {"extra_connection_probability": 0.8}},
}


def begun(seeds, **parameters):
    engine = Engine(ID, len(seeds), **{"num_agents": 4, **parameters})
    engine.reset(np.asarray(seeds))
    return engine


@pytest.mark.parametrize("on_goal", ["stop", "stay", "lifelong"])
@pytest.mark.parametrize("name", ["grid", "maze"])
def test_a_return_is_progress_and_arrivals_less_time_and_contacts(name, on_goal):
    """The progress telescopes: no sequence of actions earns by going back and forth."""
    prices = {"shaping": 2.0, "arrival_bonus": 3.0, "time_cost": 0.5, "contact_cost": 0.25}
    world = {"horizon": 300, "num_agents": 6, "on_goal": on_goal, **prices}
    engine = begun(range(5), **{**MAPS[name], **world})
    player = playing_in(engine, "greedy")
    c, s = engine.constants, engine.state
    rng, expected, returns = np.random.default_rng(0), np.zeros((5, 6)), np.zeros((5, 6))
    way = s.way_left.copy()
    earned = np.zeros((5, 6), bool)
    while not engine.control.done.all():
        live = ~engine.control.done[:, None]
        engine.step(player.act(engine.control.obs) + rng.normal(0, 0.7, (5, 6, 2)), DISABLED)
        rewards = np.where(live, engine.control.rewards, 0.0)
        pays = s.on_goal & live & (~earned | (on_goal == "lifelong"))
        off = ~s.on_goal & live
        step = 3.0 * pays - (0.5 * off + 0.25 * (off & s.hit_agent)) / 300
        left = np.where(s.on_goal, 0.0, s.way_left)
        step += np.where(live, 2.0 / c.own.diagonal * (way - left), 0.0)
        np.testing.assert_allclose(rewards, step / 6, atol=1e-12)
        earned |= pays
        way = s.way_left.copy()
        expected, returns = expected + step / 6, returns + rewards
    np.testing.assert_allclose(engine.control.returns, returns, atol=1e-9)
    np.testing.assert_allclose(returns, expected, atol=1e-9)
    assert earned.sum() > 5
    assert s.agent_contacts.any()


def test_the_shortest_way_leads_around_a_wall():
    """An agent before a wall is paid for going round it, not for pressing against it."""
    wall = ".....\n.....\n####.\n.....\n....."
    cells = {"agent_idx": ((1, 1), (4, 4)), "goal_idx": ((3, 1), (0, 0))}
    engine = begun([0], num_agents=2, map="string_grid", map_params={"map_str": wall, **cells})
    # Three cells to the gap, over it and back; six cells and a diagonal, of 1.4.
    np.testing.assert_allclose(engine.state.way_left[0] + 0.012, [0.8, 0.74])
    earned = []
    for x, y in ((0.0, 1.0), (1.0, 0.0)):
        engine.reset(np.zeros(1))
        for _ in range(3):
            engine.step(np.array([[[x, y], [0.0, 0.0]]]), DISABLED)
        earned.append(engine.control.returns[0, 0])
    assert earned[0] < 0.0 < earned[1]
