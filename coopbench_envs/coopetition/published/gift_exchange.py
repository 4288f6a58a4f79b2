"""GiftExchange: an employer and a worker reciprocate gifts.

The worker depends more on the employer and has less to give. Page:
docs/environments/gift_exchange.md.
"""

import numpy as np

from coopbench_envs.coopetition.published import dynamics, reciprocity
from coopbench_envs.parameters import joined

Params = joined(__name__, dynamics.Params)
SPEC = reciprocity.game(
    id="coopbench/GiftExchange-v0",
    module=__name__,
    params=Params,
    agents=lambda c: ("employer_0", "worker_0"),
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
