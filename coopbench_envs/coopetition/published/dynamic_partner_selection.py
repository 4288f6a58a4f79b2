"""DynamicPartnerSelection: equal partners with public scores invest in one venture.

Every partner invests in one common venture; a public score averages its past investments. As
published, partners cannot be chosen and the score does not affect rewards. Page:
docs/environments/dynamic_partner_selection.md.
"""

from typing import Annotated, NamedTuple

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import dynamics, key_metrics
from coopbench_envs.coopetition.trajectories import EPISODE
from coopbench_envs.core import kernel
from coopbench_envs.parameters import between
from coopbench_envs.states import array, state

MEMORY = 0.9  # weight of the previous score in the new one

State = state(
    __name__,
    dynamics.State,
    score=array(
        "public score: a moving average of invested shares, in [0, 1]",
        "num_agents",
        start=0,
        bounds=model.share_bounds,
    ),
    shown=array(
        "the score before the last step, as the global state shows it",
        "num_agents",
        start=0,
        bounds=model.share_bounds,
    ),
)
METRICS = dynamics.METRICS | {
    "mean_score": "mean of the agents' public scores after the last step, in [0, 1]",
}


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    num_agents: Annotated[int, between(2, 128, "equal partners")] = 6
    horizon: model.Horizon = 50
    reputation_weight: Annotated[float, between(0, 1, "published, but has no effect")] = 0.5
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> dynamics.Constants:
    """Return the constants of equal partners, each dependent on every other one."""
    return dynamics.make_constants(
        p,
        endowment=[100.0] * p.num_agents,
        baseline_share=0.35,
        dependence=0.40,
        theta=18.0,
        gamma=0.55,
        trust_gain=0.12,
        trust_loss=0.35,
        damage_gain=0.60,
        damage_decay=0.015,
        dependence_loss=0.45,
        sensitivity=1.2,
        initial_trust=0.50,
    )


@kernel
def rate(c, s, i, rng, actions, rewards, terminated):
    for a in range(c.num_agents):
        share = s.last_action[i, a] / c.endowment[a]
        s.shown[i, a] = s.score[i, a]
        s.score[i, a] = MEMORY * s.score[i, a] + (1.0 - MEMORY) * share


@kernel
def measure(c, s, i, measures):
    model.measure(c, s, i, measures)
    total = 0.0
    for a in range(c.num_agents):
        total += s.score[i, a]
    measures[i, 4] = total / c.num_agents


SPEC = dynamics.game(
    id="coopbench/DynamicPartnerSelection-v0",
    module=__name__,
    kernels=dynamics.KERNELS._replace(
        state=State,
        step=(*dynamics.STEP, rate),
        measure=measure,
        global_state=dynamics.global_state_and_shown,
    ),
    params=Params,
    constants=constants,
    agents=model.named("partner"),
    metrics=METRICS,
    global_state_space=dynamics.global_state_and_shown_space,
    episode_metrics=EPISODE | key_metrics.PARTNERS,
    trace=key_metrics.partners_trace,
)
