"""LoyaltyTeam: sustained investment pays more in a team, and full cooperation pays most.

Sustained and full cooperation increase rewards, free riding halves them. Page:
docs/environments/loyalty_team.md.
"""

from typing import Annotated, Any, NamedTuple

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import collective, dynamics
from coopbench_envs.core import kernel
from coopbench_envs.elementary import power
from coopbench_envs.parameters import between

Constants = model.extended(
    collective.Constants,
    __name__,
    nash_output="output in the equilibrium of members who maximise their own payoff",
)
METRICS = collective.METRICS | {
    "loyalty_lift": "mean output over that of self-interested members; 0 if none",
}


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    num_agents: Annotated[int, between(2, 128, "equal members")] = 4
    horizon: model.Horizon = 100
    omega: collective.Omega = 25.0
    beta: collective.Beta = 0.7
    c: collective.Cost = 1.0
    phi_b: collective.Phi = 0.8
    phi_c: collective.Phi = 0.3
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> Any:
    """Return the constants of equal members."""
    alone = collective.nash(p.omega, p.beta, p.c, p.num_agents, 50.0)
    return collective.make_constants(
        p,
        p.num_agents,
        kind=Constants,
        omega=p.omega,
        beta=p.beta,
        loyalty_cap=1.0,
        nash_output=p.omega * float(power(p.num_agents * alone, p.beta)),
    )


@kernel
def measure(c, s, i, measures):
    collective.measure(c, s, i, measures)
    measures[i, 7] = measures[i, 4] / c.nash_output if c.nash_output > 0.0 else 0.0


SPEC = dynamics.game(
    id="coopbench/LoyaltyTeam-v0",
    module=__name__,
    kernels=collective.KERNELS._replace(measure=measure),
    params=Params,
    constants=constants,
    agents=model.named("member"),
    metrics=METRICS,
)
