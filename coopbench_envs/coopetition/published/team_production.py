"""TeamProduction: a team invests in a common output; shirking costs a tenth of the reward.

As published, the output itself is reported but not paid out. Page:
docs/environments/team_production.md.
"""

from typing import Annotated, Any, NamedTuple

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import collective, dynamics
from coopbench_envs.core import kernel
from coopbench_envs.parameters import between
from coopbench_envs.states import array, state

SHIRKS, SHIRKER_FACTOR = 0.2, 0.9  # share of the endowment below which a reward is scaled

Constants = model.extended(
    collective.Constants,
    __name__,
    optimum="units per agent that maximise the output minus all costs",
)
State = state(
    __name__,
    dynamics.State,
    output=array("running sum of the common output", start=0),
    riders=array("running sum of the share of agents that ride free", start=0),
)
METRICS = (
    dynamics.METRICS
    | collective.TEAM_METRICS
    | {"efficiency": "mean investment over the one that maximizes output minus costs; 0 if none"}
)


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    num_agents: Annotated[int, between(2, 128, "equal members")] = 4
    horizon: model.Horizon = 100
    omega: collective.Omega = 25.0
    beta: collective.Beta = 0.7
    c: collective.Cost = 1.0
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> Any:
    """Return the constants of equal members."""
    return collective.make_constants(
        p,
        p.num_agents,
        kind=Constants,
        omega=p.omega,
        beta=p.beta,
        loyalty_cap=1.0,
        optimum=collective.optimum(p.omega, p.beta, p.c, p.num_agents, 50.0),
    )


@kernel
def sanction(c, s, i, rng, actions, rewards, terminated):
    for a in range(c.num_agents):
        if s.last_action[i, a] / c.endowment[a] < SHIRKS:
            rewards[i, a] *= SHIRKER_FACTOR


@kernel
def measure(c, s, i, measures):
    collective.measure_team(c, s, i, measures)
    units = s.invested[i] / max(1, s.time[i]) * c.endowment[0]
    measures[i, 6] = units / c.optimum if c.optimum > 0.0 else 0.0


SPEC = dynamics.game(
    id="coopbench/TeamProduction-v0",
    module=__name__,
    kernels=dynamics.KERNELS._replace(
        state=State,
        step=(*dynamics.STEP, collective.tally, sanction),
        measure=measure,
    ),
    params=Params,
    constants=constants,
    agents=model.named("member"),
    metrics=METRICS,
)
