"""TrustDilemma: two equal firms invest in a venture and observe each other.

Investing increases the synergy for both and the partner's trust; what a firm does not invest is
its certain income. The episode ends early when mutual trust has collapsed. Page:
docs/environments/trust_dilemma.md.
"""

from typing import Annotated, NamedTuple

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.model import end
from coopbench_envs.coopetition.published import dynamics
from coopbench_envs.core import kernel
from coopbench_envs.parameters import between

COLLAPSE = 0.05  # mean trust below which the venture ends


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 100
    trust_sensitivity: Annotated[float, between(0, 1e3, "slope of the trust signal, per unit")] = (
        1.5
    )
    trust_building_rate: Annotated[float, between(0, 1, "trust gained at full signal")] = 0.15
    trust_erosion_rate: Annotated[float, between(0, 1, "trust lost at full signal")] = 0.45
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> dynamics.Constants:
    """Return the constants of two firms with equal endowments, shares and dependence."""
    return dynamics.make_constants(
        p,
        endowment=[100.0, 100.0],
        baseline_share=0.40,
        dependence=0.6,
        theta=20.0,
        gamma=0.70,
        trust_gain=p.trust_building_rate,
        trust_loss=p.trust_erosion_rate,
        damage_gain=0.50,
        damage_decay=0.02,
        dependence_loss=0.60,
        sensitivity=p.trust_sensitivity,
        initial_trust=0.50,
    )


@kernel
def collapse(c, s, i, rng, actions, rewards, terminated):
    end(c, i, s.mean_trust[i] < COLLAPSE, terminated)


SPEC = dynamics.game(
    id="coopbench/TrustDilemma-v0",
    module=__name__,
    kernels=dynamics.KERNELS._replace(step=(*dynamics.STEP, collapse)),
    params=Params,
    constants=constants,
    agents=model.named("firm"),
)
