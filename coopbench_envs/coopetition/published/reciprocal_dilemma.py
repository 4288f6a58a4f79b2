"""ReciprocalDilemma: two equal firms respond to recent changes in each other's investment.

If a firm invests more than it recently did, the rewards of the other rise slightly. Page:
docs/environments/reciprocal_dilemma.md.
"""

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import dynamics, reciprocity
from coopbench_envs.parameters import joined

Params = joined(__name__, dynamics.Params)
SPEC = reciprocity.game(
    id="coopbench/ReciprocalDilemma-v0",
    module=__name__,
    params=Params,
    agents=model.named("firm"),
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
