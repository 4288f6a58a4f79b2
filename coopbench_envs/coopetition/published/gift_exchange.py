"""GiftExchange: an employer and a worker reciprocate gifts.

The worker depends more on the employer and has less to give. Page:
docs/environments/gift_exchange.md.
"""

from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import dynamics, reciprocity


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 100
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> Any:
    """Return the constants of the employer (agent 0) and the worker (agent 1)."""
    return reciprocity.make_constants(
        p,
        endowment=[100.0, 80.0],
        baseline_share=0.30,
        dependence=np.array([[0.0, 0.4], [0.7, 0.0]]),
        strength=1.2,
        elasticity=1.5,
        slope=1.0,
        window=3,
        trust_weight=1.2,
        dependence_weight=0.8,
    )


SPEC = reciprocity.game(
    id="coopbench/GiftExchange-v0",
    module=__name__,
    params=Params,
    constants=constants,
    agents=lambda c: ("employer_0", "worker_0"),
)
