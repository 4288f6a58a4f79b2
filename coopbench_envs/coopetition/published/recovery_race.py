"""RecoveryRace: two partners start with broken trust and can slowly rebuild it.

Trust is low and reputation damage is high at the start. The episode ends early when mean trust
reaches a target. Page: docs/environments/recovery_race.md.
"""

from typing import Annotated, Any, NamedTuple

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.model import end
from coopbench_envs.coopetition.published import dynamics
from coopbench_envs.core import kernel
from coopbench_envs.parameters import between
from coopbench_envs.states import array, state

Constants = model.extended(
    dynamics.Constants, __name__, target="mean trust at which the race is won"
)
State = state(
    __name__,
    dynamics.State,
    peak=array("highest mean trust so far in the episode", start="initial_trust"),
)
METRICS = dynamics.METRICS | {
    "peak_trust": "highest mean pairwise trust of the episode, in [0, 1]",
    "recovered": "1 if mean trust reached the target, else 0",
}


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 150
    initial_trust: Annotated[float, between(0, 1, "initial trust of each in the other")] = 0.25
    initial_reputation_damage: Annotated[
        float, between(0, 1, "initial reputation damage that each holds against the other")
    ] = 0.50
    recovery_target: Annotated[float, between(0, 1, "mean trust that ends the episode")] = 0.90
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> Any:
    """Return the constants of two equal partners with initial damage."""
    return dynamics.make_constants(
        p,
        kind=Constants,
        endowment=[100.0, 100.0],
        baseline_share=0.35,
        dependence=0.55,
        theta=20.0,
        gamma=0.60,
        trust_gain=0.08,
        trust_loss=0.35,
        damage_gain=0.70,
        damage_decay=0.01,
        dependence_loss=0.40,
        sensitivity=1.0,
        initial_trust=p.initial_trust,
        initial_damage=p.initial_reputation_damage,
        target=p.recovery_target,
    )


@kernel
def recover(c, s, i, rng, actions, rewards, terminated):
    s.peak[i] = max(s.peak[i], s.mean_trust[i])
    end(c, i, s.mean_trust[i] >= c.target, terminated)


@kernel
def measure(c, s, i, measures):
    model.measure(c, s, i, measures)
    measures[i, 4] = s.peak[i]
    measures[i, 5] = 1.0 if s.peak[i] >= c.target else 0.0


SPEC = dynamics.game(
    id="coopbench/RecoveryRace-v0",
    module=__name__,
    kernels=dynamics.KERNELS._replace(state=State, step=(*dynamics.STEP, recover), measure=measure),
    params=Params,
    constants=constants,
    agents=model.named("partner"),
    metrics=METRICS,
)
