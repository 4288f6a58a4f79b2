"""ReputationMarket: sellers invest, and their public reputation scales their reward.

Reputation rises with investments above half of the endowment and falls with lower ones. The tier of
a reputation, one of four, determines the factor on the reward. Page:
docs/environments/reputation_market.md.
"""

import math
from typing import Annotated, Any, NamedTuple

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import dynamics
from coopbench_envs.core import kernel, uniform
from coopbench_envs.elementary import cosine, logarithm
from coopbench_envs.parameters import between, one_of
from coopbench_envs.states import array, state

START = 0.5  # initial reputation
SPEED = 0.1  # change of a reputation per unit of (share of the endowment - NEUTRAL)
NEUTRAL = 0.5
PREMIUM, STANDARD, PROBATION = 0.80, 0.50, 0.25  # lowest reputation of the three upper tiers

Constants = model.extended(
    dynamics.Constants,
    __name__,
    noise="standard deviation of the noise on reputations in the global state",
    tiers="bool: rewards are scaled by tier",
)
State = state(
    __name__,
    dynamics.State,
    public_reputation=array("in [0, 1]", "num_agents", start=START, bounds=model.share_bounds),
    shown=array(
        "reputation before the last step, with noise, in the global state",
        "num_agents",
        bounds=model.share_bounds,
    ),
)
METRICS = dynamics.METRICS | {
    "mean_reputation": "mean public reputation after the last step, in [0, 1]",
    "reputation_inequality": "standard deviation of the public reputations after the last step",
}


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    num_agents: Annotated[int, between(2, 128, "sellers")] = 5
    horizon: model.Horizon = 100
    reputation_visibility: Annotated[
        float, between(0, 1, "1 minus the noise on reputations in the global state")
    ] = 1.0
    tier_enabled: Annotated[bool, one_of((), "False: reputation does not scale rewards")] = True
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> Any:
    """Return the constants of equal sellers."""
    return dynamics.make_constants(
        p,
        kind=Constants,
        endowment=[100.0] * p.num_agents,
        baseline_share=0.35,
        dependence=0.35,
        theta=18.0,
        gamma=0.50,
        trust_gain=0.10,
        trust_loss=0.30,
        damage_gain=0.55,
        damage_decay=0.015,
        dependence_loss=0.45,
        sensitivity=1.0,
        initial_trust=0.50,
        noise=1.0 - p.reputation_visibility,
        tiers=p.tier_enabled,
    )


@kernel
def reset(c, s, i, rng):
    dynamics.reset(c, s, i, rng)
    show(c, s, i, rng)


@kernel
def publish(c, s, i, rng, actions, rewards, terminated):
    show(c, s, i, rng)
    for a in range(c.num_agents):
        share = s.last_action[i, a] / c.endowment[a]
        reputation = s.public_reputation[i, a] + SPEED * (share - NEUTRAL)
        s.public_reputation[i, a] = min(max(reputation, 0.0), 1.0)
        if c.tiers:
            rewards[i, a] *= tier(s.public_reputation[i, a])


@kernel
def tier(reputation):
    """Return the factor on the reward of a seller with this reputation."""
    if reputation >= PREMIUM:
        return 1.30
    if reputation >= STANDARD:
        return 1.00
    if reputation >= PROBATION:
        return 0.70
    return 0.40


@kernel
def show(c, s, i, rng):
    """Record the reputations for the global state, with normal noise, clipped to [0, 1]."""
    for a in range(c.num_agents):
        noisy = s.public_reputation[i, a]
        if c.noise > 0.0:  # Box-Muller transform; 1 - u is never 0
            radius = math.sqrt(-2.0 * logarithm(1.0 - uniform(rng, i)))
            noisy += c.noise * radius * cosine(2.0 * math.pi * uniform(rng, i))
        s.shown[i, a] = min(max(noisy, 0.0), 1.0)


@kernel
def measure(c, s, i, measures):
    model.measure(c, s, i, measures)
    total, squares = 0.0, 0.0
    for a in range(c.num_agents):
        total += s.public_reputation[i, a]
    mean = total / c.num_agents
    for a in range(c.num_agents):
        squares += (s.public_reputation[i, a] - mean) ** 2
    measures[i, 4] = mean
    measures[i, 5] = math.sqrt(squares / c.num_agents)


SPEC = dynamics.game(
    id="coopbench/ReputationMarket-v0",
    module=__name__,
    kernels=dynamics.KERNELS._replace(
        state=State,
        reset=reset,
        step=(*dynamics.STEP, publish),
        measure=measure,
        global_state=dynamics.global_state_and_shown,
    ),
    params=Params,
    constants=constants,
    agents=model.named("seller"),
    metrics=METRICS,
    global_state_space=dynamics.global_state_and_shown_space,
)
