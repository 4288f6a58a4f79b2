"""PlatformEcosystem: a platform observes the regime and sets a commission for its developers.

Each developer on the platform makes it more valuable to all others. Both sides can refuse to deal
with partners of poor record. Page: docs/environments/platform_ecosystem_v1.md.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.ventures import ventures
from coopbench_envs.core import kernel
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.parameters import between, positive
from coopbench_envs.states import array, state

PLATFORM = 0
INVESTMENT, TERMS, BAR = 0, 1, 2  # parts of an action

Constants = model.extended(
    ventures.Constants,
    __name__,
    customary="customary commission",
    reach="how far the commission can go from the customary one, up or down",
    blame="loss of the platform's conduct at the highest commission",
    floor="worth of a unit for a platform without developers, over that with all of them",
    outside="income of an absent developer on top of its endowment, as part of it",
    wait="least steps between leaving and entering",
    pull="part of the way that developers' records return to ``home`` in each step",
    home="record to which developers' records return",
)
State = state(
    __name__,
    ventures.State,
    present=array(
        "on the platform in the last step; the platform always is",
        "num_agents",
        dtype=np.bool_,
        start=True,
    ),
    away=array(
        "steps since leaving, while absent",
        "num_agents",
        dtype=np.int64,
        start=0,
        bounds=lambda c: (0, 10**9),
    ),
    received=array(
        "the platform's investment that was observed before the last step", "num_agents", start=0
    ),
    commission=array("last commission", start="customary", bounds=model.share_bounds),
    stayed=array("running sum of shares of developers present", start=0),
    exits=array("times that a developer left or was shut out", start=0),
    entries=array("times that a developer came back", start=0),
    charged=array("running sum of commissions", start=0),
    worth=array("running sum of units invested, times what the network makes of a unit", start=0),
    bare=array("the same, had it been a platform without network effects", start=0),
)
METRICS = ventures.METRICS | {
    "retention": "mean over steps of the share of developers on the platform",
    "exits": "number of departures of developers, voluntary or not",
    "entries": "number of returns of developers",
    "network_effect": "value of all invested units over their value without network effects, "
    "minus 1, whatever the regime; 0 if nothing was invested with developers present",
    "mean_commission": "mean over steps of the commission",
}


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    num_developers: Annotated[int, between(1, 127, "developers, in addition to the platform")] = 3
    horizon: model.Horizon = 100
    initial_trust: ventures.InitialTrust = (0.87, 0.97)
    customary: Annotated[float, between(0, 1, "customary commission")] = 0.30
    reach: Annotated[float, between(0, 1, "largest deviation from the customary commission")] = 0.15
    blame: Annotated[
        float, between(0, 100, "loss of the platform's conduct at the highest commission")
    ] = 4.0
    floor: Annotated[
        float,
        positive(1, "factor on values without developers; with all of them it is 1"),
    ] = 0.6
    outside: Annotated[
        float, between(0, 100, "extra income of absent developers, as a fraction of endowment")
    ] = 0.0
    wait: Annotated[
        int, between(1, 1_000_000, "minimum number of steps before a developer can return")
    ] = 1
    high: ventures.High = (1.9, 2.1)
    low: ventures.Low = (0.15, 0.25)
    good: ventures.Good = 0.5
    persistence: ventures.Persistence = (0.9, 0.94)
    shock: ventures.Shock = (0.0, 0.04)
    noise: ventures.Noise = (0.0, 0.1)
    trembles: ventures.Trembles = 0.05
    delay: ventures.Delay = 0


WEIGHT, PULL, HOME = 0.1, 0.1, 0.87  # of records
UNITS = (1.0, 0.8)  # endowments of the platform and of a developer


def constants(p: Params) -> Any:
    """Agent 0 is the platform, which observes the regime; the others are equal developers."""
    m = p.num_developers
    return ventures.make_constants(
        p,
        kind=Constants,
        endowment=[UNITS[0]] + [UNITS[1]] * m,
        share=[p.customary] + [(1.0 - p.customary) / m] * m,
        public=False,
        weight=WEIGHT,
        customary=p.customary,
        reach=p.reach,
        blame=p.blame,
        floor=p.floor,
        outside=p.outside,
        wait=p.wait,
        pull=PULL,
        home=HOME,
    )


@kernel
def reset(c, s, i, rng):
    ventures.reset(c, s, i, rng)
    for a in range(c.num_agents):
        s.informed[i, a] = a == PLATFORM


@kernel
def move(c, s, i, rng, actions, rewards, terminated):
    """Let developers leave and return, before the investments.

    One is on the platform if each side's record reaches the other's bar.
    """
    for a in range(1, c.num_agents):
        s.received[i, a] = s.seen[i, PLATFORM]
    terms, bar = s.record[i, PLATFORM], unit(actions[i, PLATFORM, BAR])
    for a in range(1, c.num_agents):
        agreed = s.record[i, a] >= bar and terms >= unit(actions[i, a, BAR])
        if s.present[i, a]:
            stays = agreed
            s.exits[i] += 0.0 if stays else 1.0
        else:
            stays = agreed and s.away[i, a] >= c.wait
            s.entries[i] += 1.0 if stays else 0.0
        s.present[i, a] = stays
        s.away[i, a] = 0 if stays else s.away[i, a] + 1
    s.stayed[i] += on_platform(c, s, i) / (c.num_agents - 1)


@kernel
def unit(value):
    """Clip an action to [0, 1]."""
    return min(max(value, 0.0), 1.0)


@kernel
def on_platform(c, s, i):
    """Number of developers present."""
    count = 0
    for a in range(1, c.num_agents):
        count += s.present[i, a]
    return count


@kernel
def invest(c, s, i, rng, actions, rewards, terminated):
    """Invest for all agents; investments of absent ones are lost, and no agent sees them.

    Otherwise a platform could spare developers a bad regime by shutting them out, and they would
    not need to infer anything.
    """
    ventures.invest(c, s, i, rng, actions, rewards, terminated)
    for a in range(c.num_agents):
        if not s.present[i, a]:
            s.blurred[i, a] = 0.0


@kernel
def pool(c, s, i):
    """Return the units that the agents present have invested in this step."""
    units = 0.0
    for a in range(c.num_agents):
        if s.present[i, a]:
            units += c.endowment[a] * s.fraction[i, a]
    return units


@kernel
def charge(c, s, i, rng, actions, rewards, terminated):
    """Set the commission by the platform's terms."""
    above = 2.0 * unit(actions[i, PLATFORM, TERMS]) - 1.0
    s.commission[i] = unit(c.customary + c.reach * above)
    s.charged[i] += s.commission[i]


@kernel
def earn(c, s, i, rng, actions, rewards, terminated):
    """Divide the earnings of the platform."""
    count = on_platform(c, s, i)
    bare = c.floor * pool(c, s, i) if count > 0 else 0.0
    network = c.floor + (1.0 - c.floor) * count / (c.num_agents - 1)
    s.bare[i] += bare
    s.worth[i] += bare * network / c.floor
    worth = s.productivity[i] * bare * network / c.floor
    part = (1.0 - s.commission[i]) * worth / max(count, 1)
    for a in range(c.num_agents):
        rewards[i, a] = c.endowment[a] * (1.0 - s.fraction[i, a])
        if a == PLATFORM:
            rewards[i, a] += s.commission[i] * worth
        else:
            rewards[i, a] += part if s.present[i, a] else c.outside * c.endowment[a]
        s.income[i, a] = rewards[i, a]


@kernel
def judge(c, s, i, rng, actions, rewards, terminated):
    """Judge the platform by its terms, and developers by their answers to its investments."""
    ventures.judge_answers(c, s, i, s.received)
    above = max(2.0 * unit(actions[i, PLATFORM, TERMS]) - 1.0, 0.0)
    s.conduct[i, PLATFORM] = max(1.0 - c.blame * above, 0.0)
    s.weight[i, PLATFORM] = c.weight
    for a in range(1, c.num_agents):
        if not s.present[i, a]:
            s.weight[i, a] = 0.0
        s.record[i, a] += c.pull * (c.home - s.record[i, a])


STEP = (move, invest, charge, earn, judge, ventures.update_records, ventures.turn, model.go_on)


@kernel
def observe(c, s, i, obs):
    """Write the common observation, then presence, commission and the agent's own waiting time."""
    ventures.observe(c, s, i, obs)
    end = 3 * c.num_agents + 2
    present = on_platform(c, s, i) / (c.num_agents - 1)
    for a in range(c.num_agents):
        obs[i, a, end] = 1.0 if s.present[i, a] else 0.0
        obs[i, a, end + 1] = present
        obs[i, a, end + 2] = s.commission[i]
        obs[i, a, end + 3] = waiting(c, s, i, a)


@kernel
def waiting(c, s, i, a):
    """Return the remaining fraction of the wait before ``a`` can return."""
    return 0.0 if s.present[i, a] else max(c.wait - s.away[i, a], 0) / c.wait


@kernel
def global_state(c, s, i, out):
    """Write the common global state, then presence and waiting of developers, the commission."""
    ventures.global_state(c, s, i, out)
    end = 2 * c.num_agents + 2
    for a in range(1, c.num_agents):
        out[i, end + a - 1] = 1.0 if s.present[i, a] else 0.0
        out[i, end + c.num_agents + a - 2] = waiting(c, s, i, a)
    out[i, end + 2 * c.num_agents - 2] = s.commission[i]


@kernel
def measure(c, s, i, measures):
    model.measure(c, s, i, measures)
    played = max(1, s.time[i])
    measures[i, 4] = s.stayed[i] / played
    measures[i, 5] = s.exits[i]
    measures[i, 6] = s.entries[i]
    measures[i, 7] = s.worth[i] / s.bare[i] - 1.0 if s.bare[i] > 0.0 else 0.0
    measures[i, 8] = s.charged[i] / played


def steady(c: Any, actions: np.ndarray) -> dict[str, np.ndarray]:
    """Return the presence that constant ``actions`` (lanes, agents, parts) lead to.

    A developer is there if the bars of both sides admit full records.
    """
    bars = actions[:, :, BAR]
    present = (bars < 1.0) & (bars[:, :1] < 1.0)
    present[:, PLATFORM] = True
    return {"present": present}


MEANINGS = ventures.MEANINGS | {
    "own_presence": "1 if the agent is on the platform, else 0",
    "developers_present": "share of developers on the platform",
    "commission": "share of the earnings that the platform took last",
    "waiting": "rest of the wait before a developer that has left can return, as a share of it",
    "terms": "the platform's commission, 0.5 the customary one; of developers without effect",
    "bar": "lowest record with which the agent deals with the other side",
}


def layout(c: Any) -> dict[str, Part]:
    """Named parts of one agent's observation."""
    own = ("own_presence", "developers_present", "commission", "waiting")
    return consecutive(ventures.sizes(c) | dict.fromkeys(own, 1), MEANINGS)


def trace(c: Any, s: Any) -> dict[str, np.ndarray]:
    """Return the input of the trajectory metrics; developers present are expected to follow."""
    traces = ventures.trace(c, s)
    answer = np.where(s.informed, traces["baseline"], c.norm * s.received)
    return traces | {"baseline": np.where(s.present, answer, 0.0)}


def facts(c: Any, fields: Any, agents: tuple[str, ...]) -> list[str]:
    """Return the lines that a picture shows in addition to those of all games."""
    absent = [agent for agent, here in zip(agents, fields["present"], strict=True) if not here]
    count = f"{c.num_agents - 1 - len(absent)} of {c.num_agents - 1} developers present"
    return [f"commission {100 * float(fields['commission']):.0f} %", count]


SPEC = ventures.game(
    id="coopbench/PlatformEcosystem-v1",
    module=__name__,
    kernels=ventures.KERNELS._replace(
        state=State,
        reset=reset,
        step=STEP,
        observe=observe,
        measure=measure,
        global_state=global_state,
    ),
    steady=steady,
    params=Params,
    constants=constants,
    agents=lambda c: ("platform_0", *(f"developer_{a}" for a in range(c.num_agents - 1))),
    metrics=METRICS,
    layout=layout,
    actions=lambda c: {"investment": 1, "terms": 1, "bar": 1},
    meanings=MEANINGS,
    world=lambda c: 4 * c.num_agents + 1,
    trace=trace,
    facts=facts,
)
