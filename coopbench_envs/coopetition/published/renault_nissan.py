"""RenaultNissan: two car makers invest in an alliance in one of four phases of its history.

The phase determines initial trust, initial reputation damage and dependence; it does not change
within an episode. Page: docs/environments/renault_nissan.md.
"""

from typing import Annotated, NamedTuple

import numpy as np

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import dynamics, key_metrics
from coopbench_envs.coopetition.trajectories import EPISODE
from coopbench_envs.parameters import one_of

# phase: initial trust, initial damage, dependence of Nissan on Renault, and of Renault on Nissan
PHASES = {
    "formation": (0.45, 0.05, 0.78, 0.66),
    "mature": (0.70, 0.02, 0.51, 0.66),
    "crisis": (0.30, 0.45, 0.35, 0.72),
    "strained": (0.40, 0.35, 0.28, 0.65),
}


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 100
    phase: Annotated[str, one_of(PHASES, "phase of the alliance, for the whole episode")] = "mature"
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> dynamics.Constants:
    """Return the constants of Nissan (agent 0) and Renault (agent 1) in their phase."""
    trust, damage, of_nissan, of_renault = PHASES[p.phase]
    return dynamics.make_constants(
        p,
        endowment=[90.0, 100.0],
        baseline_share=0.30,
        alpha=[0.48, 0.52],
        dependence=np.array([[0.0, of_nissan], [of_renault, 0.0]]),
        theta=22.0,
        gamma=0.58,
        trust_gain=0.08,
        trust_loss=0.25,
        damage_gain=0.55,
        damage_decay=0.02,
        dependence_loss=0.50,
        sensitivity=1.0,
        initial_trust=trust,
        initial_damage=damage,
    )


SPEC = dynamics.game(
    id="coopbench/RenaultNissan-v0",
    module=__name__,
    params=Params,
    constants=constants,
    agents=lambda c: ("nissan_0", "renault_0"),
    episode_metrics=EPISODE | key_metrics.RENAULT_NISSAN,
    trace=key_metrics.alliance_trace,
)
