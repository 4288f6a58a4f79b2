"""The venture model of the version 1 games: parameters at their ends, and games of every size."""

import builders
import numpy as np
import pytest
from venture_play import begun

import coopbench_envs
from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED
from coopbench_envs.parameters import describe

VENTURES = [i for i in coopbench_envs.ids() if i.endswith("-v1") and coopbench_envs.spec(i).trace]
NAMES = [i.split("/")[1] for i in VENTURES]


def _fits(engine):
    """Observations and global states of all lanes are in their spaces."""
    for agent, space in enumerate(engine.observation_spaces):
        assert all(space.contains(row) for row in engine.control.obs[:, agent])
    assert all(engine.state_space.contains(row) for row in engine.global_state())


@pytest.mark.parametrize("wrong", [(0.9, 0.6), (0.1,), (-0.1, 0.5), (0.5, 1.1), (0.1, np.nan)])
def test_ranges_are_checked(wrong):
    with pytest.raises(ValueError, match=r"'initial_trust'.*two numbers 0 <= lowest <= highest"):
        Engine("TrustDilemma-v1", initial_trust=wrong)


def test_a_market_without_a_penalty_pays_in_full():
    ranges = {"high": (1.8, 1.8), "low": (0.2, 0.2), "initial_trust": (0.2, 0.2)}
    for penalty, worth in ((0.0, 1.8), (0.15, 1.8 * 0.85)):
        engine = begun("RecoveryRace-v1", market_penalty=penalty, **ranges)
        assert engine.state.good[0]
        assert engine.state.productivity[0] == pytest.approx(worth)


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
