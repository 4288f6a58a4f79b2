"""RecoveryRace: two partners repair the damage of a breach by costly acts.

Damage caps an agent's record and fades slowly, faster when the agent invests more than the norm
in the good regime. Until the records have recovered the market pays both partners less. Page:
docs/environments/recovery_race_v1.md.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.ventures import ventures
from coopbench_envs.coopetition.ventures.ventures import prepare
from coopbench_envs.core import kernel
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.parameters import between, span
from coopbench_envs.states import array, state

HEAL, REPAIR, HARM = 0.004, 0.04, 0.15  # per step: by itself, by investing all, and nothing

Constants = model.extended(
    ventures.Constants,
    __name__,
    damage="(2,) range of the damage at the start",
    target="mean record at which the partners have recovered",
    penalty="part of the good regime's productivity that is missing before",
    heal="part of the damage that fades each step",
    repair="part of the damage that full investment in the good regime makes up for",
    harm="part of what is undamaged that withholding everything damages",
)
State = state(
    __name__,
    ventures.State,
    damage=array("damage to an agent's record, in [0, 1]", "num_agents", bounds=model.share_bounds),
    recovery=array(
        "steps played when the mean record first reached the target, -1 before",
        dtype=np.int64,
        start=-1,
    ),
    peak=array("highest mean record so far", start=0),
    damaged=array("running sum of mean damage", start=0),
)
METRICS = ventures.METRICS | {
    "recovered": "1 if the mean record has reached the target, else 0",
    "recovery_time": "steps until the mean record first reached the target over the horizon; "
    "1 if never",
    "peak_trust": "highest mean record of the episode, in [0, 1]",
    "mean_damage": "mean over steps of the agents' mean damage, in [0, 1]",
}


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 150
    initial_trust: ventures.InitialTrust = (0.1, 0.3)
    damage: Annotated[
        ventures.Range, span(0, 1, "initial damage, drawn for each agent; caps its record")
    ] = (0.3, 0.6)
    recovery_target: Annotated[float, between(0, 1, "mean record that ends the penalty")] = 0.8
    market_penalty: Annotated[
        float, between(0, 1, "fraction of productivity withheld in the good regime until recovery")
    ] = 0.15
    high: ventures.High = (1.55, 1.65)
    low: ventures.Low = (0.15, 0.25)
    good: ventures.Good = 0.6
    persistence: ventures.Persistence = (0.85, 0.95)
    shock: ventures.Shock = (0.0, 0.04)
    noise: ventures.Noise = (0.0, 0.1)
    trembles: ventures.Trembles = 0.05
    delay: ventures.Delay = 0


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


@kernel
def reset(c, s, i, rng):
    ventures.reset(c, s, i, rng)
    for a in range(c.num_agents):
        s.damage[i, a] = ventures.within(c.damage, rng, i)
        s.record[i, a] = min(s.record[i, a], 1.0 - s.damage[i, a])
    prepare(c, s, i)
    take_stock(c, s, i, 0)
    doubt(c, s, i)


@kernel
def heal(c, s, i, rng, actions, rewards, terminated):
    """Update damage by the investments that have just been judged.

    It fades; in the good regime investments above the norm repair it, and lower ones add to it.
    """
    for a in range(c.num_agents):
        damage, relative = s.damage[i, a], (s.conduct[i, a] - c.norm) / max(c.norm, 1.0 - c.norm)
        signal = relative if s.weight[i, a] > 0.0 else 0.0
        damage += c.harm * max(-signal, 0.0) * (1.0 - damage)
        damage -= (c.heal + c.repair * max(signal, 0.0)) * s.damage[i, a]
        s.damage[i, a] = min(max(damage, 0.0), 1.0)
        s.damaged[i] += s.damage[i, a] / c.num_agents


@kernel
def cap(c, s, i, rng, actions, rewards, terminated):
    """Cap records by the damage."""
    s.trusted[i] -= s.mean_trust[i]  # the step counts with the records that it ends with
    for a in range(c.num_agents):
        s.record[i, a] = min(s.record[i, a], 1.0 - s.damage[i, a])
    prepare(c, s, i)
    s.trusted[i] += s.mean_trust[i]


@kernel
def recover(c, s, i, rng, actions, rewards, terminated):
    take_stock(c, s, i, s.time[i] + 1)


@kernel
def take_stock(c, s, i, played):
    """Record the highest mean record, and whether it has reached the target."""
    s.peak[i] = max(s.peak[i], s.mean_trust[i])
    reached = s.recovery[i] < 0 and s.mean_trust[i] >= c.target
    s.recovery[i] = played if reached else s.recovery[i]


@kernel
def turn(c, s, i, rng, actions, rewards, terminated):
    """Draw the next regime, and lower the value of a unit while the partners have not recovered."""
    ventures.turn(c, s, i, rng, actions, rewards, terminated)
    doubt(c, s, i)


@kernel
def doubt(c, s, i):
    """Lower the value of a unit in the good regime until the partners have recovered."""
    s.productivity[i] *= 1.0 - c.penalty if s.good[i] and s.recovery[i] < 0 else 1.0


STEP = (
    ventures.invest,
    ventures.earn,
    ventures.judge_in_good_times,
    ventures.update_records,
    heal,
    cap,
    recover,
    turn,
    model.go_on,
)


@kernel
def observe(c, s, i, obs):
    """Write the common observation, then the own damage, the others' and whether all recovered."""
    ventures.observe(c, s, i, obs)
    n = c.num_agents
    first = 2 * n + 3
    for a in range(n):
        obs[i, a, first] = s.damage[i, a]
        k = first + 1
        for b in range(n):
            if b != a:
                obs[i, a, k] = s.damage[i, b]
                k += 1
        obs[i, a, k] = 1.0 if s.recovery[i] >= 0 else 0.0


@kernel
def global_state(c, s, i, out):
    """Write the common global state, then all damage and the recovery flag."""
    ventures.global_state(c, s, i, out)
    first = 2 * c.num_agents + 2
    for a in range(c.num_agents):
        out[i, first + a] = s.damage[i, a]
    out[i, first + c.num_agents] = 1.0 if s.recovery[i] >= 0 else 0.0


@kernel
def measure(c, s, i, measures):
    model.measure(c, s, i, measures)
    recovered = s.recovery[i] >= 0
    measures[i, 4] = 1.0 if recovered else 0.0
    measures[i, 5] = s.recovery[i] / c.horizon if recovered else 1.0
    measures[i, 6] = s.peak[i]
    measures[i, 7] = s.damaged[i] / max(1, s.time[i])


MEANINGS = ventures.MEANINGS | {
    "own_damage": "damage to the own record, which it limits",
    "others_damage": "damage to the other's record",
    "recovered": "1 once the mean record has reached the target, else 0",
}


def layout(c: Any) -> dict[str, Part]:
    """Named parts of one agent's observation."""
    own = {"own_damage": 1, "others_damage": c.num_agents - 1, "recovered": 1}
    return consecutive(ventures.sizes(c) | own, MEANINGS)


def facts(c: Any, fields: Any, agents: tuple[str, ...]) -> list[str]:
    """Return the lines that a picture shows in addition to those of all games."""
    damage, steps = fields["damage"], int(fields["recovery"])
    names = [name.replace("_", " ") for name in agents]
    return [
        f"damage: {damage[0]:.2f} of {names[0]}, {damage[1]:.2f} of {names[1]}",
        f"recovered after {steps} steps" if steps >= 0 else "not recovered",
    ]


SPEC = ventures.game(
    id="coopbench/RecoveryRace-v1",
    module=__name__,
    kernels=ventures.KERNELS._replace(
        state=State,
        reset=reset,
        step=STEP,
        observe=observe,
        measure=measure,
        global_state=global_state,
    ),
    params=Params,
    constants=constants,
    agents=model.named("partner"),
    metrics=METRICS,
    layout=layout,
    world=lambda c: 3 * c.num_agents + 3,
    facts=facts,
)
