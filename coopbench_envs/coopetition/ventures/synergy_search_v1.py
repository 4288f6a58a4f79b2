"""SynergySearch: one of two firms observes the regime; the other has to infer it from the first.

In each episode one firm is drawn to be informed, which both know. It cannot tell the other what it
observes but by investing. Page: docs/environments/synergy_search_v1.md.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.ventures import ventures
from coopbench_envs.core import kernel, uniform
from coopbench_envs.parameters import one_of
from coopbench_envs.states import array, state

WEIGHT, DRIFT, REST = 0.25, 0.03, 0.75  # of records: see ``ventures.update_records``

Constants = model.extended(
    ventures.Constants,
    __name__,
    both="bool: both firms are informed",
)
State = state(
    __name__,
    ventures.State,
    received=array(
        "investment of the other that was observed before the last step", "num_agents", start=0
    ),
    fits=array(
        "running sum of shares of uninformed firms that were right about the regime", start=0
    ),
    followed=array("running sum of shares of firms that repeated what they had received", start=0),
    regret=array("running sum of what two informed firms would have had on top", start=0),
)
METRICS = ventures.METRICS | {
    "inference_accuracy": "share of steps in which the uninformed firm's fraction was on the right "
    "side of 1/2 for the regime, 1 if both are informed; 0 before the end",
    "following": "closeness of the uninformed firm's fraction to the other's before, mean over "
    "steps from the second, 1 if both are informed, in [0, 1]",
    "regret": "expected welfare of two informed firms that invest in the good regime only minus "
    "that of this play, all steps; 0 before the end",
    "informed_firm": "index of the firm that observes the regime; -1 if both do",
}


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 100
    initial_trust: ventures.InitialTrust = (0.7, 0.9)
    high: ventures.High = (1.65, 1.75)
    low: ventures.Low = (0.15, 0.25)
    good: ventures.Good = 0.5
    persistence: ventures.Persistence = (0.94, 0.97)
    shock: ventures.Shock = (0.0, 0.04)
    noise: ventures.Noise = (0.0, 0.1)
    trembles: ventures.Trembles = 0.05
    delay: ventures.Delay = 0
    reveal_times: Annotated[bool, one_of((), "both firms observe the regime")] = False


def constants(p: Params) -> Any:
    """Two firms with equal endowments and shares; at most one of them observes the regime."""
    return ventures.make_constants(
        p,
        kind=Constants,
        endowment=[1.0, 1.0],
        public=False,
        weight=WEIGHT,
        drift=DRIFT,
        rest=REST,
        both=p.reveal_times,
    )


@kernel
def reset(c, s, i, rng):
    ventures.reset(c, s, i, rng)
    first = uniform(rng, i) < 0.5
    s.informed[i, 0] = c.both or first
    s.informed[i, 1] = c.both or not first


@kernel
def receive(c, s, i, rng, actions, rewards, terminated):
    """Note what each firm has received before it acts."""
    for a in range(c.num_agents):
        s.received[i, a] = s.seen[i, 1 - a]


@kernel
def judge(c, s, i, rng, actions, rewards, terminated):
    """Judge answers to what was received."""
    ventures.judge_answers(c, s, i, s.received)


@kernel
def compare(c, s, i, rng, actions, rewards, terminated):
    """Add up how the uninformed firm's investments fit the regime and follow the other's."""
    worth = s.high[i] if s.good[i] else s.low[i]
    blind, right, close = 0, 0.0, 0.0
    for a in range(c.num_agents):
        fraction = s.fraction[i, a]
        # A unit kept in the good regime would have made its worth; one invested in the bad one
        # would have stayed a unit.
        s.regret[i] += max(1.0, worth) - (1.0 - fraction) - worth * fraction
        if not s.informed[i, a]:
            blind += 1
            right += 1.0 if (fraction > 0.5) == s.good[i] else 0.0
            close += 1.0 - abs(fraction - s.received[i, a])
    s.fits[i] += right if blind > 0 else 1.0
    follows = close if blind > 0 else 1.0
    s.followed[i] += follows if s.time[i] > 0 else 0.0


STEP = (
    receive,
    ventures.invest,
    compare,
    ventures.earn,
    judge,
    ventures.update_records,
    ventures.turn,
    model.go_on,
)


@kernel
def global_state(c, s, i, out):
    """Write the common global state, then who is informed."""
    ventures.global_state(c, s, i, out)
    first = 2 * c.num_agents + 2
    for a in range(c.num_agents):
        out[i, first + a] = 1.0 if s.informed[i, a] else 0.0


@kernel
def measure(c, s, i, measures):
    """Write the common metrics; those that depend on the regime only when the episode is over."""
    model.measure(c, s, i, measures)
    over = 1.0 if s.time[i] >= c.horizon else 0.0
    measures[i, 4] = over * s.fits[i] / c.horizon
    measures[i, 5] = s.followed[i] / max(1, s.time[i] - 1)
    measures[i, 6] = over * s.regret[i]
    if s.informed[i, 0] and s.informed[i, 1]:
        measures[i, 7] = -1.0
    else:
        measures[i, 7] = 0.0 if s.informed[i, 0] else 1.0


def trace(c: Any, s: Any) -> dict[str, np.ndarray]:
    """Return the input of the trajectory metrics; an uninformed firm is expected to follow."""
    traces = ventures.trace(c, s)
    answer = np.where(s.informed, traces["baseline"], c.norm * s.received)
    return traces | {"baseline": answer}


def facts(c: Any, fields: Any, agents: tuple[str, ...]) -> list[str]:
    """Return the lines that a picture shows in addition to those of all games."""
    informed = [agent for agent, sees in zip(agents, fields["informed"], strict=True) if sees]
    return [f"informed of the regime: {', '.join(informed)}"]


SPEC = ventures.game(
    id="coopbench/SynergySearch-v1",
    module=__name__,
    kernels=ventures.KERNELS._replace(
        state=State,
        reset=reset,
        step=STEP,
        measure=measure,
        global_state=global_state,
    ),
    params=Params,
    constants=constants,
    agents=model.named("firm"),
    metrics=METRICS,
    trace=trace,
    world=lambda c: 3 * c.num_agents + 2,
    facts=facts,
)
