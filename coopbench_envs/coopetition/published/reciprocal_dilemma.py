"""ReciprocalDilemma: two equal firms respond to recent changes in each other's investment.

If a firm invests more than it recently did, the rewards of the other rise slightly. Page:
docs/environments/reciprocal_dilemma.md.
"""

from typing import Any, NamedTuple

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import dynamics, reciprocity


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 100
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> Any:
    """Return the constants of two equal firms."""
    return reciprocity.make_constants(
        p,
        endowment=[100.0, 100.0],
        baseline_share=0.30,
        dependence=0.5,
        strength=1.0,
        elasticity=1.0,
        slope=1.0,
        window=5,
        trust_weight=1.0,
        dependence_weight=0.6,
    )


SPEC = reciprocity.game(
    id="coopbench/ReciprocalDilemma-v0",
    module=__name__,
    params=Params,
    constants=constants,
    agents=model.named("firm"),
)
