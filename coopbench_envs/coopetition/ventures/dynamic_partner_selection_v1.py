"""DynamicPartnerSelection: many equal partners form pairs in each step by mutual choice.

Each pair shares a venture of two. Unmatched agents keep their endowments, and their records slowly
return to a neutral value. Page: docs/environments/dynamic_partner_selection_v1.md.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.ventures import ventures
from coopbench_envs.core import Kernels, integer, kernel
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.parameters import between
from coopbench_envs.states import array, state

WANTED = 0.5  # least wish that counts
EVEN = 1e-9  # summed differences of fractions below this are rounding
NEUTRAL, RETURN = 0.6, 0.05  # record of an agent that stays alone, and how fast it gets there
LISTED = 12  # agents whose pairs still fit on a line

State = state(
    __name__,
    ventures.State,
    partner=array(
        "partner in the last step, -1 if alone or before any",
        "num_agents",
        dtype=np.int64,
        start=-1,
        bounds=lambda c: (-1, c.num_agents - 1),
    ),
    matched=array("running number of agents with a partner", start=0),
    again=array("running number of agents with their partner of the step before", start=0),
    later=array("running number of agents with a partner, from the second step on", start=0),
    shared=array(
        "running sum over pairs of how far their fractions go together, beyond chance", start=0
    ),
    spread=array("the same if everybody had met its like", start=0),
    order=array(
        "agents in the order in which they choose", "num_agents", dtype=np.int64, scratch=True
    ),
)
METRICS = ventures.METRICS | {
    "matched_rate": "share of agents and steps with a partner",
    "loyalty": "share of agents with a partner who had the same one in the previous step, from "
    "the second step on",
    "assortment": "assortment of pairs by invested fraction: 1 = only equal ones met, 0 = random",
}


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    num_agents: Annotated[int, between(2, 64, "equal partners")] = 6
    horizon: model.Horizon = 100
    initial_trust: ventures.InitialTrust = (0.6, 0.9)
    high: ventures.High = (1.45, 1.55)
    low: ventures.Low = (0.15, 0.25)
    good: ventures.Good = 0.6
    persistence: ventures.Persistence = (0.85, 0.95)
    shock: ventures.Shock = (0.0, 0.04)
    noise: ventures.Noise = (0.0, 0.1)
    trembles: ventures.Trembles = 0.05
    delay: ventures.Delay = 0


def constants(p: Params) -> ventures.Constants:
    """Equal partners."""
    constants: ventures.Constants = ventures.make_constants(p, endowment=[1.0] * p.num_agents)
    return constants


@kernel
def prepare(c, s, i):
    ventures.prepare(c, s, i)
    line_up(c, s, i)


@kernel
def match(c, s, i, rng, actions, rewards, terminated):
    """Match the agents: in a random order, each unmatched one chooses a partner or stays alone."""
    line_up(c, s, i)
    shuffle(c, s, i, rng)
    taken, again, k = 0.0, 0.0, 0
    while k < c.num_agents:
        a, place = s.order[i, k], favourite(c, s, i, k, actions)
        if place == k:
            s.partner[i, a] = -1
            k += 1
        else:
            # The partner changes places with the next in line: who is free stands from k on.
            b = s.order[i, place]
            s.order[i, place] = s.order[i, k + 1]
            s.order[i, k + 1] = b
            again += 2.0 if s.partner[i, a] == b else 0.0
            s.partner[i, a] = b
            s.partner[i, b] = a
            taken += 2.0
            k += 2
    s.matched[i] += taken
    s.again[i] += again
    s.later[i] += taken if s.time[i] > 0 else 0.0


@kernel
def line_up(c, s, i):
    for a in range(c.num_agents):
        s.order[i, a] = a


@kernel
def shuffle(c, s, i, rng):
    """Draw a uniformly random order (Fisher-Yates)."""
    for left in range(c.num_agents, 1, -1):
        k = integer(rng, i, left)
        a = s.order[i, k]
        s.order[i, k] = s.order[i, left - 1]
        s.order[i, left - 1] = a


@kernel
def favourite(c, s, i, k, actions):
    """Return the position of the unmatched agent that the one at ``k`` prefers; ``k`` if none.

    Both must accept each other; among equal wishes the first in the random order is taken.
    """
    a = s.order[i, k]
    place, most = k, 0.0
    for m in range(k + 1, c.num_agents):
        b = s.order[i, m]
        own = wish(actions, i, a, b)
        if own >= WANTED and own > most and wish(actions, i, b, a) >= WANTED:
            place, most = m, own
    return place


@kernel
def wish(actions, i, a, b):
    """Return the wish of ``a`` for ``b``; the wishes have no entry for the agent itself."""
    return min(actions[i, a, 1 + b - (b > a)], 1.0)


@kernel
def invest(c, s, i, rng, actions, rewards, terminated):
    """Invest for matched agents; agents that are alone keep their endowment and are not judged."""
    before, total = s.invested[i], 0.0
    ventures.invest(c, s, i, rng, actions, rewards, terminated)
    for a in range(c.num_agents):
        if s.partner[i, a] < 0:
            s.fraction[i, a] = 0.0
            s.blurred[i, a] = 0.0
        total += s.fraction[i, a]
    s.invested[i] = before + total / c.num_agents


@kernel
def compare(c, s, i, rng, actions, rewards, terminated):
    """Add up the similarity of partners' investments, relative to all matched agents."""
    total, count, product, square = 0.0, 0, 0.0, 0.0
    for a in range(c.num_agents):
        total += s.fraction[i, a]
        count += s.partner[i, a] >= 0
    mean = total / max(count, 1)
    for a in range(c.num_agents):
        b = s.partner[i, a]
        if b > a:
            own, other = s.fraction[i, a] - mean, s.fraction[i, b] - mean
            product += own * other
            square += 0.5 * (own * own + other * other)
    # Two drawn by chance from so few are unlike: the products of all distances sum to zero.
    chance = square / max(count - 1, 1)
    s.shared[i] += product + chance
    s.spread[i] += square + chance


@kernel
def earn(c, s, i, rng, actions, rewards, terminated):
    """Pay half of the pair's output to each."""
    for a in range(c.num_agents):
        rewards[i, a] = c.endowment[a] * (1.0 - s.fraction[i, a])
        b = s.partner[i, a]
        if b >= 0:
            units = c.endowment[a] * s.fraction[i, a] + c.endowment[b] * s.fraction[i, b]
            rewards[i, a] += 0.5 * s.productivity[i] * units
        s.income[i, a] = rewards[i, a]


@kernel
def judge(c, s, i, rng, actions, rewards, terminated):
    """Judge investments in the good regime; records of agents that are alone become neutral."""
    ventures.judge_in_good_times(c, s, i, rng, actions, rewards, terminated)
    for a in range(c.num_agents):
        if s.partner[i, a] < 0:
            s.conduct[i, a] = NEUTRAL
            s.weight[i, a] = RETURN


STEP = (match, invest, compare, earn, judge, ventures.update_records, ventures.turn, model.go_on)


@kernel
def observe(c, s, i, obs):
    """Write the common observation, then the last partner and the share of agents with one."""
    ventures.observe(c, s, i, obs)
    first = 2 * c.num_agents + 3
    last = first + c.num_agents - 1
    count = 0.0
    for a in range(c.num_agents):
        count += s.partner[i, a] >= 0
    for a in range(c.num_agents):
        k = first
        for b in range(c.num_agents):
            if b != a:
                obs[i, a, k] = 1.0 if s.partner[i, a] == b else 0.0
                k += 1
        obs[i, a, last] = count / c.num_agents


@kernel
def global_state(c, s, i, out):
    """Write the common global state, then the number of each agent's last partner, 0 if alone."""
    ventures.global_state(c, s, i, out)
    first = 2 * c.num_agents + 2
    for a in range(c.num_agents):
        out[i, first + a] = (s.partner[i, a] + 1) / c.num_agents


@kernel
def measure(c, s, i, measures):
    model.measure(c, s, i, measures)
    measures[i, 4] = s.matched[i] / (c.num_agents * max(1, s.time[i]))
    measures[i, 5] = s.again[i] / s.later[i] if s.later[i] > 0.0 else 0.0
    measures[i, 6] = s.shared[i] / s.spread[i] if s.spread[i] > EVEN else 0.0


MEANINGS = ventures.MEANINGS | {
    "last_partner": "1 for the last partner, 0 for every other agent",
    "matched": "share of agents that had a partner",
    "wishes": "one per other agent: at least 0.5 accepts it, a higher one prefers it",
}


def layout(c: Any) -> dict[str, Part]:
    """Named parts of one agent's observation."""
    own = {"last_partner": c.num_agents - 1, "matched": 1}
    return consecutive(ventures.sizes(c) | own, MEANINGS)


def trace(c: Any, s: Any) -> dict[str, np.ndarray]:
    """Return the input of the trajectory metrics; nothing is expected of agents that are alone."""
    traces = ventures.trace(c, s)
    return traces | {"baseline": np.where(s.partner >= 0, traces["baseline"], 0.0)}


def facts(c: Any, fields: Any, agents: tuple[str, ...]) -> list[str]:
    """Return the lines that a picture shows in addition to those of all games."""
    partner = fields["partner"]
    if len(agents) > LISTED:
        return [f"{int((partner >= 0).sum())} of {len(agents)} have a partner"]
    pairs = [f"{a} and {b}" for a, b in enumerate(partner) if b > a]
    alone = [str(a) for a, b in enumerate(partner) if b < 0]
    return [f"pairs: {', '.join(pairs) or 'none'}", f"alone: {', '.join(alone) or 'none'}"]


SPEC = ventures.game(
    id="coopbench/DynamicPartnerSelection-v1",
    module=__name__,
    kernels=Kernels(
        state=State,
        reset=ventures.reset,
        step=STEP,
        observe=observe,
        measure=measure,
        prepare=prepare,
        global_state=global_state,
    ),
    params=Params,
    constants=constants,
    agents=model.named("partner"),
    metrics=METRICS,
    layout=layout,
    actions=lambda c: {"investment": 1, "wishes": c.num_agents - 1},
    meanings=MEANINGS,
    world=lambda c: 3 * c.num_agents + 2,
    trace=trace,
    facts=facts,
)
