"""PlatformEcosystem: one platform and its developers invest in a common product.

The platform and its developers invest in a common product; developers depend on the platform far
more than it depends on any one of them. The episode ends early when the developers' trust in the
platform has collapsed. Page: docs/environments/platform_ecosystem.md.
"""

from typing import Annotated, NamedTuple

import numpy as np

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.model import end
from coopbench_envs.coopetition.published import dynamics, key_metrics
from coopbench_envs.coopetition.trajectories import EPISODE
from coopbench_envs.core import kernel
from coopbench_envs.parameters import between

EXODUS = 0.15  # the episode ends when the developers' mean trust in the platform is below


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    num_developers: Annotated[int, between(1, 127, "developers, in addition to the platform")] = 4
    horizon: model.Horizon = 100
    platform_share: Annotated[float, between(0, 1, "the platform's share of the synergy")] = 0.30
    platform_dependency: Annotated[
        float, between(0, 1, "dependence of the platform on each developer")
    ] = 0.25
    developer_dependency: Annotated[
        float, between(0, 1, "dependence of a developer on the platform")
    ] = 0.75
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> dynamics.Constants:
    """Return the constants of the platform (agent 0) and its equal developers."""
    m = p.num_developers
    dependence = np.zeros((1 + m, 1 + m))
    dependence[0, 1:] = p.platform_dependency
    dependence[1:, 0] = p.developer_dependency
    return dynamics.make_constants(
        p,
        endowment=[150.0] + [80.0] * m,
        baseline_share=0.30,
        alpha=[p.platform_share] + [(1.0 - p.platform_share) / m] * m,
        dependence=dependence,
        theta=25.0,
        gamma=0.75,
        trust_gain=0.08,
        trust_loss=0.25,
        damage_gain=0.45,
        damage_decay=0.02,
        dependence_loss=0.40,
        sensitivity=1.0,
        initial_trust=0.60,
    )


@kernel
def leave(c, s, i, rng, actions, rewards, terminated):
    end(c, i, trust_in_platform(c, s, i) < EXODUS, terminated)


@kernel
def trust_in_platform(c, s, i):
    """Return the developers' mean trust in the platform."""
    total = 0.0
    for a in range(1, c.num_agents):
        total += s.trust[i, a, 0]
    return total / (c.num_agents - 1)


SPEC = dynamics.game(
    id="coopbench/PlatformEcosystem-v0",
    module=__name__,
    kernels=dynamics.KERNELS._replace(step=(*dynamics.STEP, leave)),
    params=Params,
    constants=constants,
    agents=lambda c: ("platform_0", *(f"developer_{a}" for a in range(c.num_agents - 1))),
    episode_metrics=EPISODE | key_metrics.PLATFORM,
    trace=key_metrics.platform_trace,
)
