"""The version 1 games: parameters at their ends, sizes, steady states, what no episode shows."""

import builders
import numpy as np
import pytest
from venture_play import begun, step

import coopbench_envs
from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench_envs import Engine
from coopbench_envs.coopetition.ventures import partner_hold_up_v1, platform_ecosystem_v1
from coopbench_envs.engine import DISABLED
from coopbench_envs.parameters import describe

VENTURES = [i for i in coopbench_envs.ids() if i.endswith("-v1") and coopbench_envs.spec(i).trace]
NAMES = [i.split("/")[1] for i in VENTURES]


def _fits(engine):
    """Observations and global states of all lanes are in their spaces."""
    for agent, space in enumerate(engine.observation_spaces):
        assert all(space.contains(row) for row in engine.control.obs[:, agent])
    assert all(engine.state_space.contains(row) for row in engine.global_state())


def test_one_step_of_good_times_by_hand():
    """r = 1 - a + A/2 (a0 + a1); a record moves a quarter of the way to the observed investment."""
    engine = begun("TrustDilemma-v1", {"record": [0.8, 0.6], "good": True, "productivity": 1.4})
    engine.step(np.array([[[1.0], [0.25]]]))
    worth = 0.7 * 1.25
    np.testing.assert_allclose(engine.control.rewards[0], [worth, 0.75 + worth], rtol=1e-15)
    np.testing.assert_allclose(engine.state.record[0], [0.85, 0.6 + 0.25 * (0.25 - 0.6)])
    assert engine.state.expected[0] == 0.5


@pytest.mark.parametrize(("persistence", "share"), [(0.9, 0.3), (0.0, 0.6 / 1.6)])
def test_the_share_of_the_good_regime(persistence, share):
    """Its own parameter, unless a regime would have to end with a probability above 1."""
    engine = builders.begun("TrustDilemma-v1", 400, good=0.3, persistence=(persistence,) * 2)
    seen = []
    for _ in range(100):
        engine.step(np.zeros(engine.actions.shape))
        seen.append(engine.state.good.mean())
    assert np.mean(seen) == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("wrong", [(0.9, 0.6), (0.1,), (-0.1, 0.5), (0.5, 1.1), (0.1, np.nan)])
def test_ranges_are_checked(wrong):
    with pytest.raises(ValueError, match=r"'initial_trust'.*two numbers 0 <= lowest <= highest"):
        Engine("TrustDilemma-v1", initial_trust=wrong)


# --- held up partners and platforms ---------------------------------------------------------------

CALM = {"initial_trust": (0.8, 0.8), "low": (0.2, 0.2)}
ALLIES = CALM | {"capital": (0.4, 0.4), "speed": (0.35, 0.35), "high": (1.75, 1.75), "reach": 0.35}
PLATFORM = CALM | {"num_developers": 2, "outside": 0.05, "high": (2.0, 2.0)}
GOOD = {"good": True, "productivity": 1.75}


def held_up(state, *steps, **parameters):
    """Return a game of two partners after some steps."""
    engine = begun("PartnerHoldUp-v1", state, 1, **(ALLIES | parameters))
    for actions in steps:
        step(engine, actions)
    return engine


def test_a_step_by_the_contract():
    engine = held_up(GOOD, [[1.0, 0.5], [0.5, 0.5]])
    s = engine.state
    # 0.4 + 0.35 * 0.6 and 0.4 + 0.35 * 0.1
    np.testing.assert_allclose(s.capital[0], [0.61, 0.435])
    worth = 1.75 * (1.1 * 0.61 + 0.9 * 0.435)
    assert worth == pytest.approx(1.859375)
    # The weak partner keeps half of 0.9; records pay nobody.
    rewards = [0.53 * worth, 0.45 + 0.47 * worth]
    np.testing.assert_allclose(engine.control.rewards[0], rewards)
    np.testing.assert_allclose(s.income[0], rewards)
    # 0.8 + 0.25 * 0.2 and 0.8 - 0.25 * 0.3
    np.testing.assert_allclose(s.record[0], [0.85, 0.725])
    assert not engine.control.terminated.any()


def test_metrics_with_nothing_to_divide_by():
    still = held_up(GOOD).metrics()
    own = ("capital", "conflict_rate", "hold_up", "income_asymmetry", "trust_asymmetry")
    assert [still[name] for name in own] == [0.0] * 5
    empty = held_up(GOOD | {"productivity": 0.0}, [[1.0, 1.0], [0.0, 0.5]], capital=(0.0, 0.0))
    assert empty.metrics()["hold_up"] == 0.0
    nothing = held_up(GOOD | {"productivity": 0.0}, [[1.0, 1.0], [1.0, 0.5]])
    assert nothing.metrics()["income_asymmetry"] == 0.0


def test_capital_is_steady_where_it_is_what_is_invested():
    """So the weak partner, held up, earns 0.15 of three quarters of 1.75 x 2."""
    actions = [[1.0, 1.0], [1.0, 0.5]]
    steady = partner_hold_up_v1.steady(None, np.array([actions]))
    engine = held_up(GOOD | steady, actions)
    np.testing.assert_allclose(engine.state.capital, steady["capital"], rtol=1e-12)
    np.testing.assert_allclose(engine.control.rewards[0], [0.6375 * 3.5, 0.1125 * 3.5])
    wild = partner_hold_up_v1.steady(None, np.array([[[2.0, 0.5], [-1.0, 0.5]]]))
    np.testing.assert_array_equal(wild["capital"], [[1.0, 0.0]])


@pytest.mark.parametrize("record", [0.6, 1.0])
def test_a_step_with_everybody_present(record):
    """Records pay nobody: 2 x (1 + 0.4 + 0.8) is divided 30 to 70 whatever they are."""
    state = {"good": True, "productivity": 2.0, "record": np.full(3, record)}
    engine = begun("PlatformEcosystem-v1", state, 1, **PLATFORM)
    invest, some = [1.0, 0.5, 0.5], [0.5, 0.5, 0.5]
    step(engine, [invest, some, invest])
    worth = 2.0 * 2.2
    part = 0.7 * worth / 2
    np.testing.assert_allclose(engine.control.rewards[0], [0.3 * worth, 0.4 + part, part])
    np.testing.assert_array_equal(engine.state.present[0], True)
    assert not engine.control.terminated.any()


@pytest.mark.parametrize(
    ("bars", "present"),
    [((0.5, 0.9, 1.0), [True, True, False]), ((1.0, 0.5, 0.5), [True, False, False])],
)
def test_steady_is_who_would_deal_with_a_full_record(bars, present):
    engine = begun("PlatformEcosystem-v1", GOOD | {"record": np.ones(3)}, 1, **PLATFORM)
    actions = np.array([[[0.0, 0.5, bar] for bar in bars]])
    steady = platform_ecosystem_v1.steady(engine.constants, actions)["present"]
    np.testing.assert_array_equal(steady, [present])


@pytest.mark.parametrize(("record", "fraction"), [(0.81, 1.0), (0.8, 1.0), (0.79, 0.0)])
def test_a_reciprocator_does_not_invest_where_it_expects_to_be_shut_out(record, fraction):
    """With a bar of 0.8 for others it expects the same bar of the platform."""
    engine = begun("PlatformEcosystem-v1", GOOD, 1, **PLATFORM)
    match = Match(engine, [Player("reciprocator:bar=0.8", Game.of(engine))])
    state = {"record": np.array([0.9, record, 0.9]), "seen": np.array([1.0, 0.0, 0.0])}
    match.begin(np.array([1], np.uint64), state=GOOD | state)
    actions = match.actions()[0]
    np.testing.assert_allclose(actions[:, 2], 0.8)
    np.testing.assert_allclose(actions[1:, 0], [fraction, 1.0])


# --- every game -----------------------------------------------------------------------------------

SIZES = [
    *((name, {"horizon": 1}) for name in NAMES),
    *(("PlatformEcosystem-v1", {"num_developers": m, "horizon": 9}) for m in (1, 2, 127)),
    *(("DynamicPartnerSelection-v1", {"num_agents": n, "horizon": 9}) for n in (2, 3, 64)),
]


@pytest.mark.parametrize(("name", "parameters"), SIZES)
@pytest.mark.parametrize("policy", ["reciprocator", "best_constant", "open_loop"])
def test_certified_policies_play_at_every_size(name, parameters, policy):
    engine = Engine(name, 3, **parameters)
    control, match = engine.control, Match(engine, [Player(policy, Game.of(engine))])
    match.begin(np.arange(3, dtype=np.uint64))
    for actions in match.steps():
        for agent, space in enumerate(engine.action_spaces):
            assert space.contains(actions[0, agent].astype(space.dtype))
        _fits(engine)
    assert (engine.state.time == parameters["horizon"]).all()
    assert np.isfinite(control.measures).all()
    assert np.isfinite(control.returns).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("end", ["low", "high"])
def test_ranges_may_end_where_they_begin(name, end):
    """Every range at its least, or at its most: all numbers stay finite."""
    allowed = describe(coopbench_envs.spec(name).params).items()
    values = {field: (getattr(a, end),) * 2 for field, (_, _, a) in allowed if a.pair}
    engine = builders.begun(name, 2, horizon=5, **values)
    rng = np.random.default_rng(0)
    while not engine.control.done.all():
        engine.step(rng.uniform(0, 1, engine.actions.shape), DISABLED)
        _fits(engine)
    assert np.isfinite(engine.control.returns).all()
    assert np.isfinite(engine.control.measures).all()


@pytest.mark.parametrize("name", NAMES)
def test_no_given_state_leads_out_of_the_spaces(name):
    """What it may hold shows in observations that fit; all that play leads to may be given."""
    engine = Engine(name, delay=1, high=(100.0, 100.0), shock=(1.0, 1.0), noise=(1.0, 1.0))
    engine.reset(np.arange(1, dtype=np.uint64))
    draws = np.random.default_rng(0)
    for _ in range(9):
        engine.step(draws.uniform(*engine.action_bounds(), engine.actions.shape))
        engine.restore(engine.get_state())
    state, refused = engine.get_state(), []
    for field in set(state) - {"time", "seed", "episode", "rng", "returns", "invalid"}:
        values = state[field]
        for number in (-1, 2, -1e17, 1e17) if values.dtype != np.bool_ else ():
            try:
                engine.reset(state=state | {field: np.full_like(values, number)})
            except ValueError:
                refused.append(field)
            for _ in range(3):
                _fits(engine)
                engine.step(np.full(engine.actions.shape, 0.5), DISABLED)
    assert refused.count("record") == 4
    assert refused.count("income") == refused.count("productivity") == 3
