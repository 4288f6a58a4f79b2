"""Planners of railways: plans without conflicts, trains that arrive as planned, orders kept."""

import numpy as np
import pytest

from coopbench.baselines.dispatchers.planner import Planner, Settings
from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_policy
from coopbench_envs.engine import DISABLED, Engine
from coopbench_envs.rail.cells import follow
from coopbench_envs.rail.trains import ARRIVED

RAIL = "coopbench/Rail-v0"
FOUR_SPEEDS = {"1": 0.25, "1/2": 0.25, "1/3": 0.25, "1/4": 0.25}
CALM = {"num_agents": 14, "height": 30, "width": 35}
STRUCK = CALM | {"malfunction_rate": 0.01, "malfunction_duration": (5, 25)}
DENSE = CALM | {"num_agents": 40, "cities": 3, "malfunction_rate": 0.005}
LANES = 10


def begun(policy, lanes=LANES, env=RAIL, **parameters):
    """Return an engine and a policy, its memory, and its first actions.

    ``policy`` is a name, or the settings of a planner.
    """
    engine = Engine(env, lanes, observation="none", **parameters)
    engine.reset(np.arange(lanes))
    game = Game.of(engine)
    named = isinstance(policy, str)
    planner = make_policy(policy, game) if named else Planner(game, "planner", policy)
    memory = planner.initial(game, np.arange(lanes, dtype=np.uint64))
    actions, memory = act(planner, engine, memory)
    return engine, planner, memory, actions


def act(planner, engine, memory):
    masks = engine.control.masks.astype(bool)
    return planner.act(engine.control.obs, memory, engine.view(), masks)


def played(policy, **parameters):
    """Return an engine after one episode in each lane."""
    engine = Engine(RAIL, LANES, observation="none", **parameters)
    match = Match(engine, [Player(policy, Game.of(engine))])
    match.begin(np.arange(LANES, dtype=np.uint64))
    for _ in match.steps():
        pass
    return engine


def measure(engine, name):
    return engine.control.measures[:, list(engine.spec.metrics).index(name)]


def ways(memory, lane):
    """Return {train: (places, times)} of a lane's plan."""
    plan = memory.plan
    return {
        a: (plan.place[lane, a, :length].tolist(), plan.time[lane, a, :length].tolist())
        for a, length in enumerate(plan.length[lane])
        if length
    }


def check_plan(engine, lane, plan):
    """Assert that trains can run as planned; written from the rules alone."""
    c, s = engine.constants, engine.state
    where = {}  # (step, resource) -> train
    for a, (places, times) in plan.items():
        steps = -(-c.unit // int(s.top_speed[lane, a]))
        assert places[0] == s.start[lane, a]
        assert times[0] >= max(int(s.departure[lane, a]), 1) + 1
        assert times[-1] <= s.limit[lane]
        assert places[-1] >> 2 == s.target[lane, a]
        assert all(place >> 2 != s.target[lane, a] for place in places[:-1])
        for (place, time), (ahead, later) in zip(
            zip(places, times, strict=True),
            zip(places[1:], times[1:], strict=True),
            strict=False,
        ):
            assert ahead in {follow(s.rail, lane, c.delta, place, k) for k in (1, 2, 3)}
            assert later >= time + steps
        for place, first, after in zip(places, times, [*times[1:], times[-1] + 1], strict=True):
            resource = 2 * (place >> 2) + (place & 1) * int(s.level_free[lane, place >> 2])
            for time in range(first, after):
                assert where.setdefault((time, resource), a) == a, (time, resource)
    for (time, resource), a in where.items():
        other = where.get((time + 1, resource))
        if other is not None and other != a:
            here = [r for (t, r), b in where.items() if t == time and b == other]
            assert not here or where.get((time + 1, here[0])) != a, "two trains swap"


@pytest.mark.parametrize("speeds", [{"1": 1.0}, FOUR_SPEEDS])
@pytest.mark.parametrize("policy", ["prioritised:effort=0", "prioritised_replan:effort=100000"])
def test_plans_are_free_of_conflicts(policy, speeds):
    engine, _, memory, _ = begun(policy, speeds=speeds, **CALM)
    planned = [ways(memory, lane) for lane in range(LANES)]
    for lane, plan in enumerate(planned):
        check_plan(engine, lane, plan)
    assert sum(map(len, planned)) > 0.8 * LANES * CALM["num_agents"]


def test_the_check_of_plans_sees_conflicts():
    engine, _, memory, _ = begun("prioritised:effort=0", 1, **CALM)
    plan = ways(memory, 0)
    a = min(plan)
    late = [time + 1 for time in plan[a][1]]
    plan[len(plan) + 99] = plan[a]
    with pytest.raises((AssertionError, IndexError)):
        check_plan(engine, 0, plan)
    del plan[len(plan) - 1 + 99]
    plan[a] = plan[a][0], [*late[:1], *plan[a][1][1:]]
    with pytest.raises(AssertionError):
        check_plan(engine, 0, plan)


@pytest.mark.parametrize("speeds", [{"1": 1.0}, FOUR_SPEEDS])
def test_without_malfunctions_every_planned_train_arrives_as_planned(speeds):
    engine, planner, memory, actions = begun("prioritised:effort=0", speeds=speeds, **CALM)
    plans = [ways(memory, lane) for lane in range(LANES)]
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


def planned_loss(engine, memory, lane):
    """Return what the rewards of a plan's trains lack, arrivals as planned."""
    c, s = engine.constants, engine.state
    plan, loss = ways(memory, lane), 0.0
    for a in range(c.num_agents):
        if a in plan:
            loss += max(0, plan[a][1][-1] - int(s.due[lane, a]))
        else:
            cells = int(s.distances[lane, s.map_of[lane, a], s.start[lane, a]])
            loss += -(-(cells + 1) * c.unit // int(s.top_speed[lane, a]))
    return loss


def test_one_by_one_runs_a_train_at_a_time():
    engine = Engine(RAIL, LANES, observation="none", **CALM)
    match = Match(engine, [Player("one_by_one", Game.of(engine))])
    match.begin(np.arange(LANES, dtype=np.uint64))
    arrived = 0
    for _ in match.steps():
        on_map = (engine.state.status > 2) & (engine.state.status < ARRIVED)
        assert (on_map.sum(axis=1) <= 1).all()
        arrived = (engine.state.status == ARRIVED).sum()
    assert arrived >= 2 * LANES


def test_avoiding_deadlocks_brings_more_trains_home_than_shortest_ways():
    greedy, careful = (played(policy, **CALM) for policy in ("shortest_path", "deadlock_avoidance"))
    assert measure(careful, "arrived").mean() > measure(greedy, "arrived").mean() + 0.1
    assert measure(careful, "deadlocked").mean() < measure(greedy, "deadlocked").mean()


def test_the_same_seeds_give_the_same_plans_whatever_else_is_played():
    alone = begun("prioritised_replan:effort=20000", 1, **STRUCK)
    beside = begun("prioritised_replan:effort=20000", 4, **STRUCK)
    assert ways(alone[2], 0) == ways(beside[2], 0)
