"""Games of reciprocity: an agent that increases its investment raises the rewards of others.

Each agent compares the investment of each other agent with that agent's recent mean. The sum of
its responses, which is small compared with its endowment, scales its reward. Equations:
docs/environments/reciprocity.md.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import dynamics
from coopbench_envs.core import EnvSpec, kernel, per_agent, per_pair
from coopbench_envs.elementary import power
from coopbench_envs.states import array, state

LEAST = 0.01  # smallest factor on a reward

Constants = model.extended(
    dynamics.Constants,
    __name__,
    window="steps that an agent remembers, the current one among them",
    reply="(agents, agents) weight of the response to each other agent, zero diagonal",
    slope="slope of the response, per unit of change",
    wealth="mean endowment, the unit of the responses' sum",
)
State = state(
    __name__,
    dynamics.State,
    memory=array(
        "last investments, the one of step t at place t modulo window",
        "window",
        "num_agents",
        start=0,
    ),
    surprise=array(
        "change of each agent's investment, bounded to [-1, 1]", "num_agents", scratch=True
    ),
    response=array(
        "sum of an agent's responses to the others' changes", "num_agents", scratch=True
    ),
    factors=array("running sum of the mean factor on rewards", start=0),
)
METRICS = dynamics.METRICS | {
    "reciprocity": "mean over steps and agents of the reciprocity factor on rewards",
}


def make_constants(
    params: Any,
    *,
    strength: float,
    elasticity: float,
    slope: float,
    window: int,
    trust_weight: float,
    dependence_weight: float,
    initial_trust: float = 0.5,
    **model: Any,
) -> Any:
    """Return the constants of a game of reciprocity.

    ``strength``, ``elasticity``, ``slope``, ``trust_weight`` and ``dependence_weight`` shape the
    responses as in docs/environments/reciprocity.md; ``window`` is the number of steps that an
    agent remembers. ``model`` goes to ``dynamics.make_constants``.
    """
    plain = dynamics.make_constants(
        params,
        theta=20.0,
        gamma=0.65,
        trust_gain=0.10,
        trust_loss=0.30,
        damage_gain=0.60,
        damage_decay=0.03,
        dependence_loss=0.50,
        sensitivity=1.0,
        initial_trust=initial_trust,
        **model,
    )
    depends = plain.dependence
    answer = strength * np.vectorize(power, otypes=[float])(depends, elasticity) * (depends > 0.0)
    return Constants(
        *plain,
        window=window,
        reply=trust_weight * (1.0 + dependence_weight * depends) * answer,
        slope=slope,
        wealth=float(plain.endowment.mean()),
    )


@kernel
def prepare(c, s, i):
    dynamics.prepare(c, s, i)
    for a in range(c.num_agents):
        s.surprise[i, a] = 0.0
        s.response[i, a] = 0.0


@per_agent
def remember(c, s, i, a, rng, actions, rewards, terminated):
    """Record the investment and compare it with the agent's recent mean (at first with 0)."""
    # Only steps after the first count, as published: with t investments the last t - 1 of them.
    count = min(c.window, s.time[i])
    place = s.time[i] % c.window
    s.memory[i, place, a] = s.last_action[i, a]
    total = 0.0
    for _ in range(count):
        total += s.memory[i, place, a]
        place = place - 1 if place > 0 else c.window - 1
    s.surprise[i, a] = s.last_action[i, a] - total / max(1, count)


@per_agent
def react(c, s, i, a, rng, actions, rewards, terminated):
    """Bound the surprise to [-1, 1]."""
    s.surprise[i, a] = dynamics.squash(c.slope * s.surprise[i, a])
    s.response[i, a] = 0.0


@per_pair
def respond(c, s, i, a, b, rng, actions, rewards, terminated):
    """Add the response of ``a`` to ``b``, weighted by trust and dependence."""
    s.response[i, a] += c.reply[a, b] * s.trust[i, a, b] * s.surprise[i, b]


@kernel
def reciprocate(c, s, i, rng, actions, rewards, terminated):
    """Multiply each reward by 1 plus the agent's responses."""
    total = 0.0
    for a in range(c.num_agents):
        factor = max(LEAST, 1.0 + s.response[i, a] / c.wealth)
        rewards[i, a] *= factor
        total += factor
    s.factors[i] += total / c.num_agents


@kernel
def measure(c, s, i, measures):
    model.measure(c, s, i, measures)
    measures[i, 4] = s.factors[i] / max(1, s.time[i])


KERNELS = dynamics.KERNELS._replace(
    state=State,
    step=(*dynamics.STEP, remember, react, respond, reciprocate),
    measure=measure,
    prepare=prepare,
)


def game(
    *,
    id: str,
    module: str,
    params: type,
    agents: Callable[[Any], tuple[str, ...]],
    **numbers: Any,
) -> EnvSpec:
    """Return the specification of a game of reciprocity; ``make_constants`` takes ``numbers``."""
    return dynamics.game(
        id=id,
        module=module,
        kernels=KERNELS,
        params=params,
        constants=functools.partial(make_constants, **numbers),
        agents=agents,
        metrics=METRICS,
    )
