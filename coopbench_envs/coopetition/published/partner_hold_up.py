"""PartnerHoldUp: a weak partner depends on a strong one more than the strong one on it.

Both invest in a venture; the weak partner cannot retaliate. The episode ends early when its trust
in the strong one has collapsed. Page: docs/environments/partner_hold_up.md.
"""

from typing import Annotated, NamedTuple

import numpy as np

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.model import end
from coopbench_envs.coopetition.published import dynamics
from coopbench_envs.core import kernel
from coopbench_envs.parameters import between

STRONG, WEAK = range(2)
WALKS_AWAY = 0.10  # the venture ends when the weak partner's trust in the strong one is below

METRICS = dynamics.METRICS | {
    "trust_asymmetry": "trust of the weak in the strong minus the reverse, after the last step",
}


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 100
    strong_dependency: Annotated[
        float, between(0, 1, "dependence of the strong partner on the weak one")
    ] = 0.35
    weak_dependency: Annotated[
        float, between(0, 1, "dependence of the weak partner on the strong one")
    ] = 0.85
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> dynamics.Constants:
    """Return the constants; the strong partner has more to invest and a larger synergy share."""
    return dynamics.make_constants(
        p,
        endowment=[120.0, 80.0],
        baseline_share=0.35,
        alpha=[0.60, 0.40],
        dependence=np.array([[0.0, p.strong_dependency], [p.weak_dependency, 0.0]]),
        theta=20.0,
        gamma=0.60,
        trust_gain=0.10,
        trust_loss=0.35,
        damage_gain=0.55,
        damage_decay=0.025,
        dependence_loss=0.70,
        sensitivity=1.2,
        initial_trust=0.55,
    )


@kernel
def walk_away(c, s, i, rng, actions, rewards, terminated):
    end(c, i, s.trust[i, WEAK, STRONG] < WALKS_AWAY, terminated)


@kernel
def measure(c, s, i, measures):
    model.measure(c, s, i, measures)
    measures[i, 4] = s.trust[i, WEAK, STRONG] - s.trust[i, STRONG, WEAK]


SPEC = dynamics.game(
    id="coopbench/PartnerHoldUp-v0",
    module=__name__,
    kernels=dynamics.KERNELS._replace(step=(*dynamics.STEP, walk_away), measure=measure),
    params=Params,
    constants=constants,
    agents=lambda c: ("strong_0", "weak_0"),
    metrics=METRICS,
)
