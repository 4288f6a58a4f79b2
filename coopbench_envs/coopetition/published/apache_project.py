"""ApacheProject: contributors invest in an open-source project in one of its four phases.

Phases differ in the number of contributors and their maximum loyalty. Page:
docs/environments/apache_project.md.
"""

from typing import Annotated, Any, NamedTuple

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import collective, dynamics
from coopbench_envs.core import kernel
from coopbench_envs.parameters import one_of
from coopbench_envs.states import array, state

BETA = 0.7
# phase: contributors, highest loyalty, units of output of one unit invested, expected investment
PHASES = {
    "emergence": (8, 1.00, 20.0, 35.0),
    "growth": (15, 0.85, 25.0, 30.0),
    "maturity": (40, 0.70, 30.0, 22.0),
    "evolution": (35, 0.60, 28.0, 18.0),
}

Constants = model.extended(
    collective.Constants, __name__, expected="historical mean investment in this phase, in units"
)
State = state(
    __name__,
    collective.State,
    deviation=array("running sum of deviations from the expected", start=0),
)
METRICS = collective.METRICS | {
    "effort_deviation": "mean over steps of |mean investment - expected| / expected",
}


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 60
    phase: Annotated[str, one_of(PHASES, "phase of the project, for the whole episode")] = (
        "maturity"
    )
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> Any:
    """Return the constants of equal contributors, whose number depends on the phase."""
    contributors, loyalty_cap, omega, expected = PHASES[p.phase]
    return collective.make_constants(
        p,
        contributors,
        kind=Constants,
        omega=omega,
        beta=BETA,
        loyalty_cap=loyalty_cap,
        expected=expected,
    )


@kernel
def deviate(c, s, i, rng, actions, rewards, terminated):
    total = 0.0
    for a in range(c.num_agents):
        total += s.last_action[i, a]
    s.deviation[i] += abs(total / c.num_agents - c.expected) / c.expected


@kernel
def measure(c, s, i, measures):
    collective.measure(c, s, i, measures)
    measures[i, 7] = s.deviation[i] / max(1, s.time[i])


SPEC = dynamics.game(
    id="coopbench/ApacheProject-v0",
    module=__name__,
    kernels=collective.KERNELS._replace(
        state=State, step=(*collective.STEP, deviate), measure=measure
    ),
    params=Params,
    constants=constants,
    agents=model.named("contributor"),
    metrics=METRICS,
)
