"""GraduatedSanction: six users of a commons respond to each other over a long memory.

As published, there are no sanctions; responses scale rewards slightly. Page:
docs/environments/graduated_sanction.md.
"""

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import dynamics, reciprocity
from coopbench_envs.parameters import joined

Params = joined(__name__, dynamics.Params, horizon=200)
SPEC = reciprocity.game(
    id="coopbench/GraduatedSanction-v0",
    module=__name__,
    params=Params,
    agents=model.named("user"),
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
