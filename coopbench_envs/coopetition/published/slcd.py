"""SLCD: two rivals build display panels together and compete in selling the screens.

Modelled on the joint venture S-LCD of Samsung and Sony. Both invest. Sony depends more on Samsung
than Samsung on Sony. Page: docs/environments/slcd.md.
"""

from typing import Annotated, NamedTuple

import numpy as np

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import dynamics
from coopbench_envs.parameters import one_of


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 100
    trust_enabled: Annotated[bool, one_of((), "False: trust is permanently 1 and damage 0")] = True
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> dynamics.Constants:
    """Return the constants of Samsung (agent 0) and Sony (agent 1).

    With ``trust_enabled`` False all rates of change are 0: trust stays 1 and damage 0.
    """
    moves = 1.0 if p.trust_enabled else 0.0
    return dynamics.make_constants(
        p,
        endowment=[100.0, 100.0],
        baseline_share=0.30,
        alpha=[0.55, 0.45],
        dependence=np.array([[0.0, 0.64], [0.86, 0.0]]),
        theta=20.0,
        gamma=0.65,
        trust_gain=0.08 * moves,
        trust_loss=0.28 * moves,
        damage_gain=0.50 * moves,
        damage_decay=0.02 * moves,
        dependence_loss=0.45,
        sensitivity=1.0,
        initial_trust=0.65 if p.trust_enabled else 1.0,
    )


SPEC = dynamics.game(
    id="coopbench/SLCD-v0",
    module=__name__,
    params=Params,
    constants=constants,
    agents=lambda c: ("samsung_0", "sony_0"),
)
