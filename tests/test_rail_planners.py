"""Dispatchers and planners of railways: what their trains do, and what they may not look at."""

from functools import partial
from types import SimpleNamespace

import builders
import episodes
import numpy as np
import pytest
from episodes import measure

from coopbench.baselines.dispatchers.planner import Planner, Settings
from coopbench.baselines.dispatchers.planning import withdraw_late
from coopbench.baselines.dispatchers.railway import Railway
from coopbench.baselines.dispatchers.visits import append_way, make_plan
from coopbench.baselines.game import Game
from coopbench.baselines.registry import make_policy
from coopbench_envs.engine import DISABLED, Engine
from coopbench_envs.rail.cells import FORWARD, STOP, follow
from coopbench_envs.rail.distances import UNREACHABLE, distances_at
from coopbench_envs.rail.trains import ARRIVED, MOVING, READY

RAIL = "coopbench/Rail-v0"
POLICIES = (
    *("never_depart", "forward", "shortest_path", "deadlock_avoidance", "one_by_one"),
    *("prioritised:effort=1000", "prioritised_replan:effort=1000,effort_at_strikes=1000"),
)
SHORT = {"num_agents": 6, "malfunction_rate": 0.02, "malfunction_duration": (2, 6)}
FOUR_SPEEDS = {"1": 0.25, "1/2": 0.25, "1/3": 0.25, "1/4": 0.25}
CALM = {"num_agents": 14, "height": 30, "width": 35}
STRUCK = CALM | {"malfunction_rate": 0.01, "malfunction_duration": (5, 25)}
DENSE = CALM | {"num_agents": 40, "cities": 3, "malfunction_rate": 0.005}
LANES = 10
NORTH, EAST, WEST = 0, 1, 3
playing, played = (
    partial(play, RAIL, lanes=LANES, observation="none")
    for play in (episodes.playing, episodes.played)
)


def begun(policy, lanes=LANES, env=RAIL, **parameters):
    """Return an engine and a policy, its memory, and its first actions.

    ``policy`` is a name, or the settings of a planner.
    """
    engine = builders.begun(env, lanes, observation="none", **parameters)
    game = Game.of(engine)
    named = isinstance(policy, str)
    planner = make_policy(policy, game) if named else Planner(game, "planner", policy)
    memory = planner.initial(game, np.arange(lanes, dtype=np.uint64))
    actions, memory = act(planner, engine, memory)
    return engine, planner, memory, actions


def act(planner, engine, memory):
    masks = engine.control.masks.astype(bool)
    return planner.act(engine.control.obs, memory, engine.view(), masks)


def test_a_train_that_would_arrive_in_the_last_step_departs():
    """One that would come later is kept at home, but not one that is on its way already."""
    plan = make_plan(1, 3, 4, 2)
    for a, (arrival, at) in enumerate(((7, -1), (8, -1), (8, 0))):
        plan.length[0, a], plan.at[0, a], plan.time[0, a] = 2, at, (3, arrival)
        append_way(plan, 0, a, np.array([a, a + 3]), 0)
    withdraw_late(SimpleNamespace(limit=np.array([7]), horizon=9), plan, 0)
    assert plan.length[0].tolist() == [2, 0, 2]
    assert np.flatnonzero(plan.first[0] >= 0).tolist() == [0, 2, 3, 5]


# --- dispatchers ----------------------------------------------------------------------------------


def test_a_train_alone_arrives_on_its_shortest_way():
    engine = played("shortest_path", lanes=8, num_agents=1)
    assert (measure(engine, "arrived") == 1).all()
    c, s = engine.constants, engine.state
    assert c.num_agents == 1
    for lane in range(8):
        cells = distances_at(s, s.start)[lane, 0]
        # Ready after one step, on the map after another one, then a cell per step.
        assert s.arrival[lane, 0] == max(s.departure[lane, 0], 1) + 1 + cells


def test_where_actions_lead_is_what_the_game_says():
    engine = builders.begun(RAIL, 3, observation="none", num_agents=20)
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
                    expected = follow(s.rail, lane, c.map.delta, int(s.place[lane, a]), action)
                    assert places[lane, a] == expected


@pytest.mark.parametrize("policy", POLICIES)
def test_malfunctions_to_come_change_no_action(policy):
    engine = Engine(RAIL, 2, observation="none", **SHORT)
    engine.reset(np.array([4, 4]))
    player, rng = episodes.begun(engine, policy), np.random.default_rng(0)
    for _ in range(60):
        hidden = engine.state.strike_time[0] > engine.state.time[0]
        engine.state.strike_time[0][hidden] += rng.integers(1, 9)
        engine.state.strike_length[0] = rng.permuted(engine.state.strike_length[0])
        actions = player.act(engine.control.obs, engine.view(), engine.control.masks)
        np.testing.assert_array_equal(actions[0], actions[1])
        state = {name: values[1] for name, values in engine.get_state().items()}
        engine.reset(np.array([4, 4]), state=state)
        engine.step(actions)


# --- planners -------------------------------------------------------------------------------------


def ways(memory, lane):
    """Return {train: (places, times)} of a lane's plan."""
    plan = memory.plan
    return {
        a: (plan.place[lane, a, :length].tolist(), plan.time[lane, a, :length].tolist())
        for a, length in enumerate(plan.length[lane])
        if length
    }


@pytest.mark.parametrize("speeds", [{"1": 1.0}, FOUR_SPEEDS])
@pytest.mark.parametrize("policy", ["prioritised:effort=0", "prioritised_replan:effort=100000"])
def test_without_malfunctions_every_planned_train_arrives_as_planned(policy, speeds):
    """So plans keep to the rails, and none is in the way of another."""
    engine, planner, memory, actions = begun(policy, speeds=speeds, **CALM)
    plans = [ways(memory, lane) for lane in range(LANES)]
    assert sum(map(len, plans)) > 0.8 * LANES * CALM["num_agents"]
    over = np.zeros(LANES, bool)
    while not over.all():
        engine.step(actions, DISABLED)
        over |= engine.control.done
        actions, memory = act(planner, engine, memory)
    for lane, plan in enumerate(plans):
        arrivals = {a: times[-1] for a, (_, times) in plan.items()}
        for a, arrival in enumerate(engine.state.arrival[lane].tolist()):
            assert arrival == arrivals.get(a, -1)


@pytest.mark.parametrize("policy", ["prioritised", "prioritised_replan:effort=20000"])
def test_planned_trains_never_block_each_other(policy):
    engine = played(policy, speeds=FOUR_SPEEDS, **STRUCK)
    assert measure(engine, "malfunctions").min() > 0
    assert (measure(engine, "deadlocked") == 0).all()


def test_planning_anew_at_malfunctions_brings_more_trains_home():
    policies = "prioritised", "prioritised_replan:effort=100000,effort_at_strikes=20000"
    orders, anew = (measure(played(policy, **STRUCK), "arrived").mean() for policy in policies)
    assert anew > orders + 0.05


@pytest.mark.parametrize(("env", "pays"), [(RAIL, True), ("coopbench/Rail-v1", False)])
def test_trains_stay_at_home_only_where_all_together_lose_less(env, pays):
    """Under the rewards of version 1 a train that stays at home loses all that there is."""
    ends = []
    for keeps_home in (False, True):
        settings = Settings(1, 20_000, 0, reserve=100, weight=1.0, keeps_home=keeps_home)
        engine, planner, memory, actions = begun(settings, env=env, **DENSE)
        while not engine.control.done.all():
            engine.step(actions, DISABLED)
            actions, memory = act(planner, engine, memory)
        ends.append([measure(engine, name) for name in ("normalised_return", "never_departed")])
    (before, left), (after, stayed) = ends
    if pays:
        assert after.mean() > before.mean() + 0.02
        assert stayed.mean() > left.mean()
    else:
        np.testing.assert_array_equal(ends[0], ends[1])


def test_improving_a_plan_never_costs_more():
    totals = []
    for effort in (0, 100_000):
        engine, _, memory, _ = begun(f"prioritised_replan:effort={effort},weight=0.0", **CALM)
        totals.append([planned_loss(engine, memory, lane) for lane in range(LANES)])
    assert all(after <= before for before, after in zip(*totals, strict=True))
    assert sum(totals[1]) < sum(totals[0])


def test_planners_save_steps_where_every_step_on_the_way_costs():
    """Under the rewards of 2020 a train that is in time costs less the sooner it arrives."""
    rules = CALM | {"reward": "challenge2020", "horizon": 520}
    returns = [
        measure(played(f"prioritised:orders=1,effort={effort}", **rules), "return_2020").mean()
        for effort in (0, 100_000)
    ]
    assert returns[1] > returns[0] + 0.001


def planned_loss(engine, memory, lane):
    """Return what the rewards of a plan's trains lack, arrivals as planned."""
    c, s = engine.constants, engine.state
    plan, loss = ways(memory, lane), 0.0
    for a in range(c.num_agents):
        if a in plan:
            loss += max(0, plan[a][1][-1] - int(s.due[lane, a]))
        else:
            cells = int(distances_at(s, s.start)[lane, a])
            loss += -(-(cells + 1) * c.drive.unit // int(s.top_speed[lane, a]))
    return loss


@pytest.mark.parametrize(
    ("leave", "goes_on"),
    [((2,), False), ((3,), True), ((3, 3), False), ((4, 3), False), ((4, 4), True)],
)
def test_a_train_enters_the_line_of_others_only_if_all_of_them_can_pass(leave, goes_on):
    """Of each train that comes: the column up to which it uses the line, from column 6 or 7."""
    engine = builders.begun(RAIL, observation="none", num_agents=3)
    c, s = engine.constants, engine.state
    ways = [[(1, column, EAST) for column in range(1, 9)]]
    for number, last in enumerate(leave):
        line = [(1, column, WEST) for column in range(6 + number, last - 1, -1)]
        ways.append([*line, (0, last, NORTH)])
    s.rail[:] = 0xFFFF  # every turn is possible everywhere
    s.distances[:] = UNREACHABLE
    s.status[:], s.distance[:], s.top_speed[:] = READY, 0, c.drive.unit
    row = s.numbers.shape[1]
    s.numbers[0], s.map_of[0] = np.arange(row), row * np.arange(1, 4)
    for a, way in enumerate(ways):
        places = [4 * ((row + 1) * (c.map.width + 2) + column) + turn for row, column, turn in way]
        s.distances[0, s.map_of[0, a] + np.array(places)] = np.arange(len(way))[::-1]
        s.status[0, a], s.place[0, a] = MOVING, places[0]
    policy = make_policy("deadlock_avoidance", Game.of(engine))
    legal = np.ones((1, 3, 5), bool)
    actions, _ = policy.act(engine.control.obs, None, engine.view(), legal)
    assert actions[0, 0] == (FORWARD if goes_on else STOP)


def test_one_by_one_runs_a_train_at_a_time():
    for engine in playing("one_by_one", **CALM):
        on_map = (engine.state.status > 2) & (engine.state.status < ARRIVED)
        assert (on_map.sum(axis=1) <= 1).all()
        arrived = (engine.state.status == ARRIVED).sum()
    assert arrived >= 2 * LANES


def test_avoiding_deadlocks_brings_more_trains_home_than_shortest_ways():
    greedy, careful = (played(policy, **CALM) for policy in ("shortest_path", "deadlock_avoidance"))
    assert measure(careful, "arrived").mean() > measure(greedy, "arrived").mean() + 0.1
    assert measure(careful, "deadlocked").mean() < measure(greedy, "deadlocked").mean()
