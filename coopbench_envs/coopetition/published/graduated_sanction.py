"""GraduatedSanction: six users of a commons respond to each other over a long memory.

As published, there are no sanctions; responses scale rewards slightly. Page:
docs/environments/graduated_sanction.md.
"""

from typing import Any, NamedTuple

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import dynamics, reciprocity


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 200
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> Any:
    """Return the constants of equal users."""
    return reciprocity.make_constants(
        p,
        endowment=[100.0] * 6,
        baseline_share=0.40,
        dependence=0.35,
        strength=0.6,
        elasticity=1.5,
        slope=0.8,
        window=10,
        trust_weight=1.8,
        dependence_weight=1.0,
    )


SPEC = reciprocity.game(
    id="coopbench/GraduatedSanction-v0",
    module=__name__,
    params=Params,
    constants=constants,
    agents=model.named("user"),
)
