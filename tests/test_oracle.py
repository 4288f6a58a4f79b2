"""The published reference policies against investments recorded from their own code.

``golden/oracles.json`` has, by game and kind, what the first three agents invest in every step (of
``bounded_reciprocity`` in steps 0, 2 and 11), in units and clipped to the endowments.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_policy
from coopbench_envs import Engine, spec

RECORDED = json.loads((Path(__file__).parent / "golden" / "oracles.json").read_text())
STEPS = (0, 2, 11)
# There every weight that is drawn has a placeholder.
FIXED = {"SynergySearch-v0": {"gamma_range": (0.5, 0.5)}}
# The published product of forty investments exceeds what float32 can hold.
OVERFLOWS = ("ApacheProject-v0", "equilibrium")


@pytest.mark.parametrize("name", RECORDED)
def test_investments_are_the_recorded_ones(name):
    game = Game.at(name, **FIXED.get(name, {}))
    for kind, recorded in RECORDED[name].items():
        policy = make_policy(f"oracle:{kind}", game)
        memory, played = policy.initial(game, np.arange(2)), []
        for _ in range(1 + max(STEPS)):
            actions, memory = policy.act(np.zeros((2, len(game.agents), 0)), memory)
            played.append(actions)
        assert (played[-1][0] == played[-1][1]).all()
        ours = np.array(played)[list(STEPS[: len(recorded)]), 0, :3, 0]
        if (name, kind) != OVERFLOWS:  # their solver stops at a hundredth of a unit
            np.testing.assert_allclose(ours, recorded, atol=0.05, err_msg=kind)


def test_a_constant_earns_more_than_all_of_them():
    engine = Engine("TrustDilemma-v0")
    game, returns = Game.of(engine), {}
    for name in ("constant:0.414", *(f"oracle:{kind}" for kind in RECORDED["TrustDilemma-v0"])):
        match = Match(engine, [Player(make_policy(name, game), game)])
        returns[name] = round(float(match.play(np.zeros(1, np.uint64)).sum()))
    *_, best, constant = sorted(returns.items(), key=lambda item: item[1])
    assert (best, constant) == (("oracle:bounded_reciprocity", 46688), ("constant:0.414", 46849))


def test_all_games_are_recorded_and_others_refused():
    games = {name for name in RECORDED if spec(name).source.startswith("Coopetition-Gym")}
    assert len(games) == 20
    with pytest.raises(ValueError, match=r"cannot play coopbench/TrustDilemma-v1: .* version 0"):
        make_policy("oracle:nash", Game.at("TrustDilemma-v1"))
    with pytest.raises(ValueError, match=r"'kind'.*Did you mean 'equilibrium'"):
        make_policy("oracle:equilibria", Game.at("TrustDilemma-v0"))
