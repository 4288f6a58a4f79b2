"""What whole episodes of games are worth: best constants against known returns."""

import numpy as np
import pytest

from coopbench_envs import Engine
from studies.equilibria import best_constant

# Published sweep on a grid of 0.01: best common fraction, its return summed over agents.
CONSTANTS = {
    "TrustDilemma-v0": (0.42, 46830),
    "PartnerHoldUp-v0": (0.37, 46972),
    "PlatformEcosystem-v0": (0.32, 148888),
}


@pytest.mark.parametrize(("env_id", "published"), CONSTANTS.items())
def test_best_constants_are_the_known_ones(env_id, published):
    constant = best_constant(env_id)
    best = constant.returns.argmax()
    assert (constant.grid[best].round(6), round(constant.returns[best])) == published
    assert constant.value >= constant.returns[best]
    assert abs(constant.fraction - constant.grid[best]) <= 0.01
    endowment = Engine(env_id).constants.endowment
    np.testing.assert_allclose(constant.actions, constant.fraction * endowment)
