"""CooperativeNegotiation: two parties invest, and their last agreement binds them.

When both invest about the same, their investments become the agreement. When a party later deviates
from it, both pay for their distance from it. Page: docs/environments/cooperative_negotiation.md.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import dynamics
from coopbench_envs.core import kernel
from coopbench_envs.parameters import between
from coopbench_envs.states import array, state

Constants = model.extended(
    dynamics.Constants,
    __name__,
    threshold="units within which two investments agree, and an agreement is kept",
    penalty="reward that a breach costs per unit of an agent's distance from the agreement",
)
State = state(
    __name__,
    dynamics.State,
    agreed=array("whether there is an agreement", dtype=np.bool_, start=False),
    agreement=array(
        "units that were agreed on; 0 without an agreement",
        "num_agents",
        start=0,
        bounds=dynamics.unit_bounds,
    ),
    was_agreed=array(
        "agreed before the last step, as the global state shows it", dtype=np.bool_, start=False
    ),
    old_agreement=array(
        "agreement before the last step, as the global state shows it",
        "num_agents",
        start=0,
        bounds=dynamics.unit_bounds,
    ),
    agreements=array("steps that made an agreement", dtype=np.int64, start=0),
    breaches=array("steps in which one was broken", dtype=np.int64, start=0),
)
METRICS = dynamics.METRICS | {
    "agreement_rate": "share of steps with an agreement: both invested about the same",
    "breach_rate": "share of steps in which a party broke the agreement in force",
}


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 100
    agreement_threshold: Annotated[
        float, between(0, 1e6, "largest difference in units that counts as agreement")
    ] = 10.0
    breach_penalty_multiplier: Annotated[
        float, between(0, 1e6, "reward lost per unit of distance from the agreement")
    ] = 3.0
    negotiation_rounds: Annotated[int, between(1, 1000, "published, but has no effect")] = 5
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> Any:
    """Return the constants of two equal parties."""
    return dynamics.make_constants(
        p,
        kind=Constants,
        endowment=[100.0, 100.0],
        baseline_share=0.35,
        dependence=0.55,
        theta=20.0,
        gamma=0.60,
        trust_gain=0.12,
        trust_loss=0.40,
        damage_gain=0.65,
        damage_decay=0.02,
        dependence_loss=0.55,
        sensitivity=1.2,
        initial_trust=0.50,
        threshold=p.agreement_threshold,
        penalty=p.breach_penalty_multiplier,
    )


@kernel
def negotiate(c, s, i, rng, actions, rewards, terminated):
    s.was_agreed[i] = s.agreed[i]
    for a in range(c.num_agents):
        s.old_agreement[i, a] = s.agreement[i, a]
    if s.agreed[i]:
        punish(c, s, i, rewards)
    if abs(s.last_action[i, 0] - s.last_action[i, 1]) <= c.threshold:
        s.agreed[i] = True
        s.agreements[i] += 1
        for a in range(c.num_agents):
            s.agreement[i, a] = s.last_action[i, a]


@kernel
def punish(c, s, i, rewards):
    """If any party has broken the agreement, reduce each reward by the distance from it."""
    broken = False
    for a in range(c.num_agents):
        broken = broken or abs(s.last_action[i, a] - s.agreement[i, a]) > c.threshold
    if broken:
        s.breaches[i] += 1
        for a in range(c.num_agents):
            rewards[i, a] -= c.penalty * abs(s.last_action[i, a] - s.agreement[i, a])


@kernel
def measure(c, s, i, measures):
    model.measure(c, s, i, measures)
    played = max(1, s.time[i])
    measures[i, 4] = s.agreements[i] / played
    measures[i, 5] = s.breaches[i] / played


@kernel
def global_state(c, s, i, out):
    """Write the common global state, the agreement before the last step, and if there was one."""
    dynamics.global_state(c, s, i, out)
    first = out.shape[1] - c.num_agents - 1
    for a in range(c.num_agents):
        out[i, first + a] = s.old_agreement[i, a]
    out[i, out.shape[1] - 1] = 1.0 if s.was_agreed[i] else 0.0


def global_state_space(c: Any) -> Box:
    """Return the bounds of the vector that ``global_state`` writes."""
    zeros = [0.0] * (c.num_agents + 1)
    return dynamics.appended(dynamics.global_state_space(c), zeros, [*c.endowment, 1.0])


SPEC = dynamics.game(
    id="coopbench/CooperativeNegotiation-v0",
    module=__name__,
    kernels=dynamics.KERNELS._replace(
        state=State,
        step=(*dynamics.STEP, negotiate),
        measure=measure,
        global_state=global_state,
    ),
    params=Params,
    constants=constants,
    agents=model.named("party"),
    metrics=METRICS,
    global_state_space=global_state_space,
)
