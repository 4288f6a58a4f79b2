"""PublicGoods: citizens decide how much to contribute to a common good.

As published, the good itself is reported but not paid out; rewards are those of collective action.
Page: docs/environments/public_goods.md.
"""

from typing import Annotated, Any, NamedTuple

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import collective, dynamics
from coopbench_envs.core import kernel
from coopbench_envs.parameters import between, positive
from coopbench_envs.states import array, state

Constants = model.extended(
    collective.Constants,
    __name__,
    phi_b="weight of the others' gain in a citizen's welfare, times its loyalty",
    phi_c="weight of a citizen's contribution in its welfare, times its loyalty",
)
State = state(
    __name__,
    collective.State,
    efficiency=array("running sum of social efficiency", start=0),
)
METRICS = dynamics.METRICS | {
    "public_good": "mean over steps of the multiplier times the sum of investments, units",
    "free_riders": collective.METRICS["free_riders"],
    "mean_loyalty": collective.METRICS["mean_loyalty"],
    "social_efficiency": "mean over steps of the citizens' welfare over that of full contributions",
}


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    num_agents: Annotated[int, between(2, 128, "equal citizens")] = 5
    horizon: model.Horizon = 100
    multiplier: Annotated[
        float, between(0, 1e6, "units of the common good per contributed unit")
    ] = 2.0
    endowment: Annotated[float, positive(1e6, "endowment of each citizen in units")] = 50.0
    phi_b: Annotated[
        float, between(0, 10, "weight of others' gain in a loyal citizen's welfare; only reported")
    ] = 0.6
    phi_c: Annotated[
        float,
        between(
            0, 10, "weight of the own contribution in a loyal citizen's welfare; only reported"
        ),
    ] = 0.2
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> Any:
    """Return the constants of equal citizens; the good is linear in contributions (beta = 1)."""
    return collective.make_constants(
        p,
        p.num_agents,
        kind=Constants,
        endowment=p.endowment,
        omega=p.multiplier,
        beta=1.0,
        loyalty_cap=1.0,
        phi_b=p.phi_b,
        phi_c=p.phi_c,
    )


@kernel
def compare(c, s, i, rng, actions, rewards, terminated):
    s.efficiency[i] += efficiency(c, s, i)


@kernel
def efficiency(c, s, i):
    """Return the citizens' total welfare, divided by that of full contributions by all."""
    invested, total, highest = 0.0, 0.0, 0.0
    for a in range(c.num_agents):
        invested += s.last_action[i, a]
    part = c.omega * invested / c.num_agents
    for a in range(c.num_agents):
        units, loyalty = s.last_action[i, a], s.loyalty[i, a]
        others = part - (invested - units) / (c.num_agents - 1)  # their mean gain
        total += c.endowment[a] - units + part + loyalty * (c.phi_b * others + c.phi_c * units)
        best = c.omega * c.endowment[a]
        gain = c.phi_b * (best - c.endowment[a]) + c.phi_c * c.endowment[a]
        highest += best + loyalty * gain
    return total / highest if highest != 0.0 else 0.0


@kernel
def measure(c, s, i, measures):
    collective.measure(c, s, i, measures)
    measures[i, 7] = s.efficiency[i] / max(1, s.time[i])


SPEC = dynamics.game(
    id="coopbench/PublicGoods-v0",
    module=__name__,
    kernels=collective.KERNELS._replace(
        state=State, step=(*collective.STEP, compare), measure=measure
    ),
    params=Params,
    constants=constants,
    agents=model.named("citizen"),
    metrics=METRICS,
)
