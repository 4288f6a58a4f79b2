"""CoalitionFormation: a coalition excludes disloyal members and readmits them later.

Rewards of members are multiplied by 1.1, those of excluded agents by 0.5. Page:
docs/environments/coalition_formation.md.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.model import end
from coopbench_envs.coopetition.published import collective, dynamics
from coopbench_envs.core import kernel
from coopbench_envs.parameters import between
from coopbench_envs.states import array, state

RETURNS = 0.4  # loyalty from which excluded agents may return
MEMBER_FACTOR, OUTSIDER_FACTOR = 1.1, 0.5

Constants = model.extended(
    collective.Constants,
    __name__,
    least="smallest number of members: no more are excluded",
    exit_threshold="loyalty below which a member is excluded",
    cooldown="steps after which excluded agents may return",
)
State = state(
    __name__,
    collective.State,
    inside=array("whether the agent is a member", "num_agents", dtype=np.bool_, start=True),
    order=array("rises with the time of joining, or of exclusion", "num_agents", dtype=np.int64),
    moves=array("next number of the order", dtype=np.int64, start="num_agents"),
    cooldown=array(
        "steps until an excluded agent may return; 0 for members",
        "num_agents",
        dtype=np.int64,
        start=0,
    ),
    size=array("number of members", dtype=np.int64, scratch=True),
    sizes=array("running sum of the number of members", start=0),
)
METRICS = collective.METRICS | {
    "coalition_size": "mean over steps of the number of members",
}


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    num_agents: Annotated[int, between(2, 128, "equal agents, all initially members")] = 6
    horizon: model.Horizon = 150
    min_coalition_size: Annotated[int, between(1, 128, "minimum number of members")] = 3
    exit_threshold: Annotated[float, between(0, 1, "loyalty below which a member is excluded")] = (
        0.15
    )
    reentry_cooldown: Annotated[int, between(0, 1_000_000, "steps of an exclusion")] = 5
    omega: collective.Omega = 25.0
    beta: collective.Beta = 0.7
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> Any:
    """Return the constants; raise ``ValueError`` if the smallest coalition is too large."""
    if p.min_coalition_size > p.num_agents:
        raise ValueError(
            f"Parameter 'min_coalition_size' of coopbench/CoalitionFormation-v0 was "
            f"{p.min_coalition_size}; allowed: int in [1, num_agents = {p.num_agents}]."
        )
    return collective.make_constants(
        p,
        p.num_agents,
        kind=Constants,
        omega=p.omega,
        beta=p.beta,
        loyalty_cap=1.0,
        least=p.min_coalition_size,
        exit_threshold=p.exit_threshold,
        cooldown=p.reentry_cooldown,
    )


@kernel
def reset(c, s, i, rng):
    collective.reset(c, s, i, rng)
    for a in range(c.num_agents):
        s.order[i, a] = a


@kernel
def prepare(c, s, i):
    collective.prepare(c, s, i)
    s.size[i] = 0
    for a in range(c.num_agents):
        s.size[i] += s.inside[i, a]


@kernel
def share_out(c, s, i, rng, actions, rewards, terminated):
    regroup(c, s, i)
    for a in range(c.num_agents):
        if not s.inside[i, a]:
            rewards[i, a] *= OUTSIDER_FACTOR
        elif s.size[i] >= c.least:
            rewards[i, a] *= MEMBER_FACTOR
    s.sizes[i] += s.size[i]
    end(c, i, s.size[i] < c.least, terminated)


@kernel
def regroup(c, s, i):
    """Exclude disloyal members as long as enough remain, then readmit those whose time is over."""
    for returning in (False, True):
        while s.size[i] < c.num_agents if returning else s.size[i] > c.least:
            a = oldest(c, s, i, returning)
            if a < 0:
                break
            s.inside[i, a] = returning
            s.cooldown[i, a] = 0 if returning else c.cooldown
            s.order[i, a] = s.moves[i]
            s.moves[i] += 1
            s.size[i] += 1 if returning else -1
        for a in range(c.num_agents):
            if not returning and not s.inside[i, a]:
                s.cooldown[i, a] -= 1


@kernel
def oldest(c, s, i, returning):
    """Return the first excluded agent who may return, or member who must leave; -1 if none."""
    first = -1
    for a in range(c.num_agents):
        if returning:
            rested = not s.inside[i, a] and s.cooldown[i, a] <= 0
            moves = rested and s.loyalty[i, a] >= RETURNS
        else:
            moves = s.inside[i, a] and s.loyalty[i, a] < c.exit_threshold
        if moves and (first < 0 or s.order[i, a] < s.order[i, first]):
            first = a
    return first


@kernel
def measure(c, s, i, measures):
    collective.measure(c, s, i, measures)
    measures[i, 7] = s.sizes[i] / max(1, s.time[i])


SPEC = dynamics.game(
    id="coopbench/CoalitionFormation-v0",
    module=__name__,
    kernels=collective.KERNELS._replace(
        state=State,
        reset=reset,
        step=(*collective.STEP, share_out),
        measure=measure,
        prepare=prepare,
    ),
    params=Params,
    constants=constants,
    agents=model.named("ally"),
    metrics=METRICS,
)
