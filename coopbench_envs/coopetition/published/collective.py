"""Games of collective action: contributing is rewarded, most of all when every agent does.

A common output is reported but, as published, not paid out: rewards are those of the common model,
multiplied by factors for free riding, sustained cooperation and full cooperation. Loyalty grows
with investments of at least half of the endowment. Equations: docs/environments/collective.md.
"""

from typing import Annotated, Any

import numpy as np

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import dynamics
from coopbench_envs.core import kernel, per_agent
from coopbench_envs.elementary import power
from coopbench_envs.parameters import between, positive
from coopbench_envs.states import array, state

WINDOW = 10  # steps over which sustained cooperation is measured
RIDES, COOPERATES, LASTS = 0.3, 0.5, 0.6  # shares of the endowment
RIDER_FACTOR, LASTING_BONUS, FULL_FACTOR = 0.5, 0.15, 1.2
LOYALTY_GAIN, LOYALTY_LOSS, FIRST_LOYALTY = 0.02, 0.05, 0.5

Omega = Annotated[float, between(0, 1e6, "units of output of one unit invested; only reported")]
Beta = Annotated[float, between(0, 1, "elasticity of the output; only reported")]
Cost = Annotated[float, positive(1e6, "cost of a unit; only reported")]
Phi = Annotated[float, between(0, 10, "published, but has no effect")]

Constants = model.extended(
    dynamics.Constants,
    __name__,
    omega="output of one unit invested",
    beta="elasticity of the output",
    loyalty_cap="highest loyalty",
)
State = state(
    __name__,
    dynamics.State,
    loyalty=array("in [0, loyalty_cap]", "num_agents"),
    memory=array(
        "last investments, those of step t at place t modulo WINDOW", WINDOW, "num_agents", start=0
    ),
    output=array("running sum of the common output", start=0),
    riders=array("running sum of the share of agents that ride free", start=0),
    lately=array("mean investment over the window, over the endowment", "num_agents", scratch=True),
    full=array("whether all agents cooperate", dtype=np.bool_, scratch=True),
)
TEAM_METRICS = {
    "team_output": "mean over steps of omega times the sum of investments to the power of beta",
    "free_riders": "mean over steps of the share of agents that invest less than 0.3 of endowment",
}
METRICS = (
    dynamics.METRICS
    | TEAM_METRICS
    | {"mean_loyalty": "mean loyalty of the agents after the last step, in [0, 1]"}
)


def make_constants(
    params: Any, num_agents: int, *, kind: Any = Constants, endowment: float = 50.0, **model: Any
) -> Any:
    """Return the constants of ``num_agents`` equal agents, each with ``endowment`` units per step.

    ``model`` holds the fields of ``kind`` that differ between these games.
    """
    return dynamics.make_constants(
        params,
        kind=kind,
        endowment=[endowment] * num_agents,
        baseline_share=0.40,
        dependence=0.55,
        theta=20.0,
        gamma=0.65,
        trust_gain=0.10,
        trust_loss=0.25,
        damage_gain=0.40,
        damage_decay=0.02,
        dependence_loss=0.50,
        sensitivity=1.0,
        initial_trust=0.50,
        **model,
    )


def nash(omega: float, beta: float, cost: float, n: int, most: float) -> float:
    """Return the units per agent in the equilibrium of equal shares and private costs.

    Each of ``n`` agents receives 1/n of the output omega * total**beta and pays ``cost`` per unit.
    ``most`` is the result where the output is linear and investing pays.
    """
    if beta == 1.0:
        return most if omega / n >= cost else 0.0
    crowd = power(float(n), 2.0 - beta)
    return float(power(omega * beta / (cost * crowd), 1.0 / (1.0 - beta)))


def optimum(omega: float, beta: float, cost: float, n: int, most: float) -> float:
    """Return the units per agent that maximise the output minus all costs; see ``nash``."""
    if beta == 1.0:
        return most if omega > cost else 0.0
    return float(power(omega * beta / cost, 1.0 / (1.0 - beta))) / n


@kernel
def reset(c, s, i, rng):
    dynamics.reset(c, s, i, rng)
    for a in range(c.num_agents):
        s.loyalty[i, a] = FIRST_LOYALTY * c.loyalty_cap


@kernel
def prepare(c, s, i):
    dynamics.prepare(c, s, i)
    s.full[i] = False
    for a in range(c.num_agents):
        s.lately[i, a] = 0.0


@per_agent
def remember(c, s, i, a, rng, actions, rewards, terminated):
    """Record the investment of ``a``."""
    s.memory[i, s.time[i] % WINDOW, a] = s.last_action[i, a]


@per_agent
def look_back(c, s, i, a, rng, actions, rewards, terminated):
    """Compute the mean of the investments of ``a`` over the window, as a share of its endowment."""
    place = s.time[i] % WINDOW
    total = 0.0
    for back in range(WINDOW):  # from the last one backwards; steps before the first are zeros
        total += s.memory[i, place - back if place >= back else place - back + WINDOW, a]
    # Sums of units are exact where sums of shares are not: the mean of ten times 0.6 must be 0.6.
    s.lately[i, a] = total / min(WINDOW, s.time[i] + 1) / c.endowment[a]


@kernel
def agree(c, s, i, rng, actions, rewards, terminated):
    full = True
    for a in range(c.num_agents):
        full = full and s.last_action[i, a] / c.endowment[a] >= COOPERATES
    s.full[i] = full


@per_agent
def judge(c, s, i, a, rng, actions, rewards, terminated):
    """Update the loyalty and multiply the reward, by the present and the recent investments."""
    share, loyalty, lately = s.last_action[i, a] / c.endowment[a], s.loyalty[i, a], s.lately[i, a]
    lost = LOYALTY_LOSS * (COOPERATES - share)
    moved = loyalty + LOYALTY_GAIN * share if share >= COOPERATES else max(0.0, loyalty - lost)
    s.loyalty[i, a] = min(c.loyalty_cap, moved)
    factor = RIDER_FACTOR if share < RIDES else 1.0
    factor *= 1.0 + LASTING_BONUS * lately if lately >= LASTS else 1.0
    factor *= FULL_FACTOR if s.full[i] else 1.0
    rewards[i, a] *= factor


@kernel
def tally(c, s, i, rng, actions, rewards, terminated):
    """Add this step's common output and share of free riders to the sums for the metrics."""
    total, riders = 0.0, 0.0
    for a in range(c.num_agents):
        total += s.last_action[i, a]
        if s.last_action[i, a] / c.endowment[a] < RIDES:
            riders += 1.0
    s.output[i] += c.omega * power(total, c.beta)
    s.riders[i] += riders / c.num_agents


@kernel
def measure_team(c, s, i, measures):
    model.measure(c, s, i, measures)
    played = max(1, s.time[i])
    measures[i, 4] = s.output[i] / played
    measures[i, 5] = s.riders[i] / played


@kernel
def measure(c, s, i, measures):
    measure_team(c, s, i, measures)
    total = 0.0
    for a in range(c.num_agents):
        total += s.loyalty[i, a]
    measures[i, 6] = total / c.num_agents


STEP = (*dynamics.STEP, remember, look_back, agree, judge, tally)
KERNELS = dynamics.KERNELS._replace(
    state=State, reset=reset, step=STEP, measure=measure, prepare=prepare
)
