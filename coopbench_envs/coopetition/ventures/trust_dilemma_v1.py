"""TrustDilemma: two equal firms share a venture with changing productivity and noisy signals.

Investing benefits both in the good regime only, and withholding always pays in the short run.
What a firm loses by it is the other's answer to its record. Page:
docs/environments/trust_dilemma_v1.md.
"""

from typing import NamedTuple

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.ventures import ventures


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 100
    initial_trust: ventures.InitialTrust = (0.6, 0.9)
    high: ventures.High = (1.4, 1.5)
    low: ventures.Low = (0.15, 0.25)
    good: ventures.Good = 0.6
    persistence: ventures.Persistence = (0.85, 0.95)
    shock: ventures.Shock = (0.0, 0.04)
    noise: ventures.Noise = (0.0, 0.1)
    trembles: ventures.Trembles = 0.05
    delay: ventures.Delay = 0


def constants(p: Params) -> ventures.Constants:
    """Two firms with equal endowments and shares."""
    constants: ventures.Constants = ventures.make_constants(p, endowment=[1.0, 1.0])
    return constants


SPEC = ventures.game(
    id="coopbench/TrustDilemma-v1",
    module=__name__,
    params=Params,
    constants=constants,
    agents=model.named("firm"),
)
