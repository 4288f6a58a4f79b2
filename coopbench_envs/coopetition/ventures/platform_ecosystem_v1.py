"""PlatformEcosystem: a platform sets its commission, and developers enter and leave.

Each developer on the platform makes it more valuable to all others. A developer that loses trust in
the platform leaves, and returns only when trust has recovered. Page:
docs/environments/platform_ecosystem_v1.md.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.coopetition.published import dynamics
from coopbench_envs.coopetition.ventures import ventures
from coopbench_envs.core import kernel
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.parameters import between, span

PLATFORM = 0
WANTED = 0.5  # least "terms" with which a developer wants to be on the platform

Constants = dynamics.extended(
    ventures.Constants,
    __name__,
    customary="customary commission",
    reach="how far the commission can go from the customary one, up or down",
    blame="loss of signal at the highest commission",
    credit="gain of signal at the lowest commission",
    floor="worth of a unit for a platform without developers, over that with all of them",
    outside="income of an absent developer on top of its endowment, as part of it",
    exit_trust="trust in the platform below which a developer leaves",
    entry_trust="trust in the platform from which on an absent developer may enter",
    delay="least steps between leaving and entering",
)
State = dynamics.extended(
    ventures.State,
    __name__,
    present="(lanes, agents) bool, on the platform in the last step; the platform always is",
    away="(lanes, agents) int64, steps since leaving, while absent",
    commission="(lanes,) last commission",
    stayed="(lanes,) running sum of shares of developers present",
    exits="(lanes,) times that a developer left",
    entries="(lanes,) times that a developer came back",
    charged="(lanes,) running sum of commissions",
    worth="(lanes,) running sum of what was earned on the platform, before distrust withholds",
    bare="(lanes,) the same, had it been a platform without network effects",
)
METRICS = ventures.METRICS | {
    "retention": "mean over steps of the share of developers on the platform",
    "exits": "number of departures of developers",
    "entries": "number of returns of developers",
    "network_effect": "value of all investments over their value without network effects, "
    "minus 1; 0 if nothing was invested with developers present",
    "mean_commission": "mean over steps of the commission",
}


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    num_developers: Annotated[int, between(1, 127, "developers, in addition to the platform")] = 4
    horizon: ventures.Horizon = 100
    initial_trust: ventures.InitialTrust = (0.6, 0.9)
    platform_dependence: Annotated[
        ventures.Range, span(0, 1, "fraction of the platform's share that depends on others' trust")
    ] = (0.3, 0.5)
    developer_dependence: Annotated[
        ventures.Range, span(0, 1, "fraction of a developer's share that depends on others' trust")
    ] = (0.6, 0.9)
    customary: Annotated[float, between(0, 1, "customary commission")] = 0.30
    reach: Annotated[float, between(0, 1, "largest deviation from the customary commission")] = 0.15
    blame: Annotated[float, between(0, 100, "loss of signal at the highest commission")] = 4.0
    credit: Annotated[float, between(0, 100, "gain of signal at the lowest commission")] = 0.5
    floor: Annotated[
        float,
        between(0, 1, "value factor without network effects; 1 = with all developers", above=True),
    ] = 0.5
    outside: Annotated[
        float, between(0, 100, "extra income of absent developers, as a fraction of endowment")
    ] = 0.05
    exit_trust: Annotated[
        float, between(0, 1, "trust in the platform below which a developer leaves")
    ] = 0.15
    entry_trust: Annotated[float, between(0, 1, "trust in the platform required to return")] = 0.30
    delay: Annotated[
        int, between(1, 1_000_000, "minimum number of steps before a developer can return")
    ] = 3
    high: ventures.High = (1.6, 1.9)
    low: ventures.Low = (0.1, 0.3)
    persistence: ventures.Persistence = (0.85, 0.95)
    shock: ventures.Shock = (0.0, 0.04)
    noise: ventures.Noise = (0.0, 0.1)


def constants(p: Params) -> Any:
    """Agent 0 is the platform, the others are equal developers."""
    m = p.num_developers
    return ventures.make_constants(
        p,
        kind=Constants,
        endowment=[1.5] + [0.8] * m,
        share=[p.customary] + [(1.0 - p.customary) / m] * m,
        dependence=[p.platform_dependence] + [p.developer_dependence] * m,
        customary=p.customary,
        reach=p.reach,
        blame=p.blame,
        credit=p.credit,
        floor=p.floor,
        outside=p.outside,
        exit_trust=p.exit_trust,
        entry_trust=p.entry_trust,
        delay=p.delay,
    )


def allocate(c: Any, lanes: int) -> Any:
    """Allocate the state of ``lanes`` games."""
    one = ("commission", "stayed", "exits", "entries", "charged", "worth", "bare")
    return State(
        **ventures.common(c, lanes),
        present=np.zeros((lanes, c.num_agents), np.bool_),
        away=np.zeros((lanes, c.num_agents), np.int64),
        **{name: np.zeros(lanes) for name in one},
    )


@kernel
def reset(c, s, i, rng):
    ventures.reset(c, s, i, rng)
    s.commission[i] = c.customary
    s.stayed[i] = 0.0
    s.exits[i] = 0.0
    s.entries[i] = 0.0
    s.charged[i] = 0.0
    s.worth[i] = 0.0
    s.bare[i] = 0.0
    for a in range(c.num_agents):
        s.present[i, a] = True
        s.away[i, a] = 0


@kernel
def step(c, s, i, rng, actions, rewards, terminated):
    move(c, s, i, actions)
    invest(c, s, i, rng, actions)
    charge(c, s, i, actions)
    earn(c, s, i, rewards)
    ventures.update_trust(c, s, i)
    ventures.turn(c, s, i, rng)
    ventures.go_on(c, i, terminated)


@kernel
def move(c, s, i, actions):
    """Let developers leave and return, before the investments."""
    for a in range(1, c.num_agents):
        trust, wants = s.trust[i, a, PLATFORM], actions[i, a, 1] >= WANTED
        if s.present[i, a]:
            stays = wants and trust >= c.exit_trust
            s.exits[i] += 0.0 if stays else 1.0
        else:
            stays = wants and trust >= c.entry_trust and s.away[i, a] >= c.delay
            s.entries[i] += 1.0 if stays else 0.0
        s.present[i, a] = stays
        s.away[i, a] = 0 if stays else s.away[i, a] + 1
    s.stayed[i] += on_platform(c, s, i) / (c.num_agents - 1)


@kernel
def on_platform(c, s, i):
    """Number of developers present."""
    count = 0
    for a in range(1, c.num_agents):
        count += s.present[i, a]
    return count


@kernel
def invest(c, s, i, rng, actions):
    """Invest for the agents present; absent ones keep their endowment and are not judged."""
    before, total = s.invested[i], 0.0
    ventures.invest(c, s, i, rng, actions)
    for a in range(c.num_agents):
        if not s.present[i, a]:
            s.fraction[i, a] = 0.0
            s.seen[i, a] = 0.0
            s.signal[i, a] = 0.0
        total += s.fraction[i, a]
    s.invested[i] = before + total / c.num_agents


@kernel
def charge(c, s, i, actions):
    """Set the commission, which adds to the signal of the platform's investment."""
    above = 2.0 * min(max(actions[i, PLATFORM, 1], 0.0), 1.0) - 1.0
    s.commission[i] = min(max(c.customary + c.reach * above, 0.0), 1.0)
    s.charged[i] += s.commission[i]
    signal = s.signal[i, PLATFORM] - (c.blame if above > 0.0 else c.credit) * above
    s.signal[i, PLATFORM] = min(max(signal, -1.0), 1.0)


@kernel
def earn(c, s, i, rewards):
    """Divide the earnings of the platform, at the trust before this step."""
    count = on_platform(c, s, i)
    bare = c.floor * s.productivity[i] * ventures.pool(c, s, i) if count > 0 else 0.0
    network = c.floor + (1.0 - c.floor) * count / (c.num_agents - 1)
    worth = bare * network / c.floor
    s.bare[i] += bare
    s.worth[i] += worth
    each = (1.0 - s.commission[i]) * worth / max(count, 1)
    for a in range(c.num_agents):
        kept = c.endowment[a] * (1.0 - s.fraction[i, a])
        part = s.commission[i] * worth if a == PLATFORM else each
        joined = part * ventures.standing(c, s, i, a)
        rewards[i, a] = kept + (joined if s.present[i, a] else c.outside * c.endowment[a])
        s.income[i, a] = rewards[i, a]


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
    """Return the remaining fraction of the delay before ``a`` can return."""
    return 0.0 if s.present[i, a] else max(c.delay - s.away[i, a], 0) / c.delay


@kernel
def global_state(c, s, i, out):
    """Write the common global state, then presence and waiting of developers, the commission."""
    ventures.global_state(c, s, i, out)
    end = c.num_agents * (c.num_agents + 2) + 2
    for a in range(1, c.num_agents):
        out[i, end + a - 1] = 1.0 if s.present[i, a] else 0.0
        out[i, end + c.num_agents + a - 2] = waiting(c, s, i, a)
    out[i, end + 2 * c.num_agents - 2] = s.commission[i]


@kernel
def measure(c, s, i, measures):
    ventures.measure(c, s, i, measures)
    played = max(1, s.time[i])
    measures[i, 4] = s.stayed[i] / played
    measures[i, 5] = s.exits[i]
    measures[i, 6] = s.entries[i]
    measures[i, 7] = s.worth[i] / s.bare[i] - 1.0 if s.bare[i] > 0.0 else 0.0
    measures[i, 8] = s.charged[i] / played


def steady(c: Any, actions: np.ndarray) -> dict[str, np.ndarray]:
    """Return the steady-state presence under constant ``actions`` (lanes, agents, parts)."""
    present = actions[:, :, 1] >= WANTED
    present[:, PLATFORM] = True
    return {"present": present}


def layout(c: Any) -> dict[str, Part]:
    """Named parts of one agent's observation."""
    own = ("own_presence", "developers_present", "commission", "waiting")
    return consecutive(ventures.sizes(c) | dict.fromkeys(own, 1))


def trace(c: Any, s: Any) -> dict[str, np.ndarray]:
    """Return the input of the trajectory metrics; nothing is expected of absent agents."""
    traces = ventures.trace(c, s)
    return traces | {"baseline": np.where(s.present, traces["baseline"], 0.0)}


def facts(c: Any, fields: Any, agents: tuple[str, ...]) -> list[str]:
    """Return the lines that a picture shows in addition to those of all games."""
    absent = [agent for agent, here in zip(agents, fields["present"], strict=True) if not here]
    count = f"{c.num_agents - 1 - len(absent)} of {c.num_agents - 1} developers present"
    return [f"commission {100 * float(fields['commission']):.0f} %", count]


SPEC = ventures.game(
    id="coopbench/PlatformEcosystem-v1",
    module=__name__,
    kernels=ventures.KERNELS._replace(
        allocate=allocate,
        reset=reset,
        step=step,
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
    actions=lambda c: {"investment": 1, "terms": 1},
    world=lambda c: c.num_agents * (c.num_agents + 4) + 1,
    trace=trace,
    facts=facts,
)
