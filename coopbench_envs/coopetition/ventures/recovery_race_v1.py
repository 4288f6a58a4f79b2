"""RecoveryRace: two partners repair the damage of a breach by costly acts.

Damage caps trust and heals slowly, faster when a partner invests more than the norm; until trust
has recovered the market pays them less. Page: docs/environments/recovery_race_v1.md.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.coopetition.published import dynamics
from coopbench_envs.coopetition.ventures import ventures
from coopbench_envs.coopetition.ventures.ventures import prepare
from coopbench_envs.core import kernel
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.parameters import between, span

HEAL, REPAIR, HARM = 0.004, 0.04, 0.15  # of damage per step: by itself, at full signal up and down

Constants = dynamics.extended(
    ventures.Constants,
    __name__,
    damage="(2,) range of the damage at the start",
    target="mean trust at which the partners have recovered",
    penalty="part of good times' productivity that is missing before",
    heal="part of the damage that fades each step",
    repair="part of the damage that full investment in good times makes up for",
    harm="part of what is undamaged that full defection damages",
)
State = dynamics.extended(
    ventures.State,
    __name__,
    damage="(lanes, agents, agents) damage that a holds against b, in [0, 1]; diagonal 0",
    recovery="(lanes,) steps played when mean trust first reached the target, -1 before",
    peak="(lanes,) highest mean trust so far",
    damaged="(lanes,) running sum of mean damage",
)
METRICS = ventures.METRICS | {
    "recovered": "1 if mean trust has reached the target, else 0",
    "recovery_time": "steps until mean trust first reached the target over the horizon; 1 if never",
    "peak_trust": "highest mean pairwise trust of the episode, in [0, 1]",
    "mean_damage": "mean over steps of the mean damage held, in [0, 1]",
}


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: ventures.Horizon = 150
    initial_trust: ventures.InitialTrust = (0.1, 0.3)
    damage: Annotated[
        ventures.Range, span(0, 1, "initial damage, drawn for each ordered pair; caps trust")
    ] = (0.3, 0.6)
    recovery_target: Annotated[float, between(0, 1, "mean trust that ends the penalty")] = 0.8
    market_penalty: Annotated[
        float, between(0, 1, "fraction of productivity withheld in good regimes until recovery")
    ] = 0.15
    dependence: ventures.Dependence = (0.4, 0.7)
    high: ventures.High = (1.7, 1.9)
    low: ventures.Low = (0.1, 0.3)
    persistence: ventures.Persistence = (0.80, 0.90)
    shock: ventures.Shock = (0.0, 0.04)
    noise: ventures.Noise = (0.0, 0.1)


def constants(p: Params) -> Any:
    """Two equal partners with initial damage."""
    return ventures.make_constants(
        p,
        kind=Constants,
        endowment=[1.0, 1.0],
        damage=np.asarray(p.damage, np.float64),
        target=p.recovery_target,
        penalty=p.market_penalty,
        heal=HEAL,
        repair=REPAIR,
        harm=HARM,
    )


def allocate(c: Any, lanes: int) -> Any:
    """Allocate the state of ``lanes`` games."""
    one = {name: np.zeros(lanes) for name in ("peak", "damaged")}
    return State(
        **ventures.common(c, lanes),
        damage=np.zeros((lanes, c.num_agents, c.num_agents)),
        recovery=np.zeros(lanes, np.int64),
        **one,
    )


@kernel
def reset(c, s, i, rng):
    ventures.reset(c, s, i, rng)
    for a in range(c.num_agents):
        for b in range(c.num_agents):
            s.damage[i, a, b] = 0.0 if a == b else ventures.within(c.damage, rng, i)
            s.trust[i, a, b] = min(s.trust[i, a, b], 1.0 - s.damage[i, a, b])
    prepare(c, s, i)
    s.recovery[i] = -1
    s.peak[i] = 0.0
    s.damaged[i] = 0.0
    take_stock(c, s, i, 0)
    doubt(c, s, i)


@kernel
def step(c, s, i, rng, actions, rewards, terminated):
    ventures.invest(c, s, i, rng, actions)
    ventures.earn(c, s, i, rewards)
    heal(c, s, i)
    update_trust(c, s, i)
    take_stock(c, s, i, s.time[i] + 1)
    ventures.turn(c, s, i, rng)
    doubt(c, s, i)
    ventures.go_on(c, i, terminated)


@kernel
def heal(c, s, i):
    """Update damage: it decays, is repaired by investments above the norm, grows by lower ones."""
    total = 0.0
    for a in range(c.num_agents):
        for b in range(c.num_agents):
            if a != b:
                damage, signal = s.damage[i, a, b], s.signal[i, b]
                repair = c.repair * max(signal, 0.0) if s.good[i] else 0.0
                damage += c.harm * max(-signal, 0.0) * (1.0 - damage) - (c.heal + repair) * damage
                s.damage[i, a, b] = min(max(damage, 0.0), 1.0)
                total += s.damage[i, a, b]
    s.damaged[i] += total / (c.num_agents * (c.num_agents - 1))


@kernel
def update_trust(c, s, i):
    """Update trust by the observed investments, below the ceiling set by the damage."""
    for a in range(c.num_agents):
        for b in range(c.num_agents):
            if a != b:
                ceiling = 1.0 - s.damage[i, a, b]
                s.trust[i, a, b] = ventures.moved(c, s.trust[i, a, b], s.signal[i, b], ceiling)
    prepare(c, s, i)
    s.trusted[i] += s.mean_trust[i]


@kernel
def take_stock(c, s, i, played):
    """Record the highest mean trust, and whether it has reached the target."""
    s.peak[i] = max(s.peak[i], s.mean_trust[i])
    if s.recovery[i] < 0 and s.mean_trust[i] >= c.target:
        s.recovery[i] = played


@kernel
def doubt(c, s, i):
    """Lower the value of a unit in good regimes until the partners have recovered."""
    if s.good[i] and s.recovery[i] < 0:
        s.productivity[i] *= 1.0 - c.penalty


@kernel
def observe(c, s, i, obs):
    """Write the common observation, then damage against the agent, damage held and recovery."""
    ventures.observe(c, s, i, obs)
    others = c.num_agents - 1
    for a in range(c.num_agents):
        k = 3 * c.num_agents + 2
        for b in range(c.num_agents):
            if b != a:
                obs[i, a, k] = s.damage[i, b, a]
                obs[i, a, k + others] = s.damage[i, a, b]
                k += 1
        obs[i, a, k + others] = 1.0 if s.recovery[i] >= 0 else 0.0


@kernel
def global_state(c, s, i, out):
    """Write the common global state, then all damage row by row and the recovery flag."""
    ventures.global_state(c, s, i, out)
    n = c.num_agents
    first = n * (n + 2) + 2
    for a in range(n):
        for b in range(n):
            out[i, first + a * n + b] = s.damage[i, a, b]
    out[i, first + n * n] = 1.0 if s.recovery[i] >= 0 else 0.0


@kernel
def measure(c, s, i, measures):
    ventures.measure(c, s, i, measures)
    recovered = s.recovery[i] >= 0
    measures[i, 4] = 1.0 if recovered else 0.0
    measures[i, 5] = s.recovery[i] / c.horizon if recovered else 1.0
    measures[i, 6] = s.peak[i]
    measures[i, 7] = s.damaged[i] / max(1, s.time[i])


def layout(c: Any) -> dict[str, Part]:
    """Named parts of one agent's observation."""
    others = c.num_agents - 1
    own = {"damage_against_me": others, "damage_held": others, "recovered": 1}
    return consecutive(ventures.sizes(c) | own)


def facts(c: Any, fields: Any, agents: tuple[str, ...]) -> list[str]:
    """Return the lines that a picture shows in addition to those of all games."""
    damage, steps = fields["damage"], int(fields["recovery"])
    names = [name.replace("_", " ") for name in agents]
    return [
        f"damage held: {damage[0, 1]:.2f} by {names[0]}, {damage[1, 0]:.2f} by {names[1]}",
        f"recovered after {steps} steps" if steps >= 0 else "not recovered",
    ]


SPEC = ventures.game(
    id="coopbench/RecoveryRace-v1",
    module=__name__,
    kernels=ventures.KERNELS._replace(
        allocate=allocate,
        reset=reset,
        step=step,
        observe=observe,
        measure=measure,
        global_state=global_state,
    ),
    params=Params,
    constants=constants,
    agents=dynamics.named("partner"),
    metrics=METRICS,
    layout=layout,
    world=lambda c: 2 * c.num_agents * (c.num_agents + 1) + 3,
    facts=facts,
)
