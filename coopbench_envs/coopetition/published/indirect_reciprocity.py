"""IndirectReciprocity: each of four neighbors responds to every other one.

As published, an agent responds to what others invest, not to their reputation. Page:
docs/environments/indirect_reciprocity.md.
"""

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import dynamics, reciprocity
from coopbench_envs.parameters import joined

Params = joined(__name__, dynamics.Params, horizon=150)
SPEC = reciprocity.game(
    id="coopbench/IndirectReciprocity-v0",
    module=__name__,
    params=Params,
    agents=model.named("neighbour"),
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
