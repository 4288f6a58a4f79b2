"""AppleAppStore: a platform, a large and a small developer invest in an app store.

Developers depend on the platform several times as much as it depends on them. Page:
docs/environments/apple_app_store.md.
"""

import numpy as np

from coopbench_envs.coopetition.published import dynamics, reciprocity
from coopbench_envs.parameters import joined

Params = joined(__name__, dynamics.Params, horizon=66)
SPEC = reciprocity.game(
    id="coopbench/AppleAppStore-v0",
    module=__name__,
    params=Params,
    agents=lambda c: ("platform_0", "developer_0", "developer_1"),
    endowment=[100.0, 80.0, 60.0],
    baseline_share=0.30,
    dependence=np.array([[0.0, 0.3, 0.2], [0.8, 0.0, 0.15], [0.85, 0.1, 0.0]]),
    strength=1.0,
    elasticity=1.2,
    slope=0.8,
    window=4,
    trust_weight=1.0,
    dependence_weight=0.8,
    initial_trust=0.6,
)
