"""IndirectReciprocity: each of four neighbors responds to every other one.

As published, an agent responds to what others invest, not to their reputation. Page:
docs/environments/indirect_reciprocity.md.
"""

from typing import Any, NamedTuple

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import dynamics, reciprocity


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 150
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> Any:
    """Return the constants of equal neighbours."""
    return reciprocity.make_constants(
        p,
        endowment=[100.0] * 4,
        baseline_share=0.30,
        dependence=0.4,
        strength=0.8,
        elasticity=1.0,
        slope=1.0,
        window=7,
        trust_weight=1.5,
        dependence_weight=0.5,
    )


SPEC = reciprocity.game(
    id="coopbench/IndirectReciprocity-v0",
    module=__name__,
    params=Params,
    constants=constants,
    agents=model.named("neighbour"),
)
