"""SynergySearch: two firms share a venture of unknown type, which only investing reveals.

No observation reveals the type except the returns on investments, which have large shocks. Page:
docs/environments/synergy_search_v1.md.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.coopetition.published import dynamics
from coopbench_envs.coopetition.ventures import ventures
from coopbench_envs.core import kernel
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.parameters import between, one_of, span

Constants = dynamics.extended(
    ventures.Constants,
    __name__,
    grace="steps until the full norm is expected",
    reveal="bool: observations and global state end with the type",
    late="step with which the last third of the episode begins",
)
State = dynamics.extended(
    ventures.State,
    __name__,
    late="(lanes, agents) running sum of fractions in the last third of the episode",
    searched="(lanes,) steps up to the last with a fraction on the wrong side of 1/2 for the type",
    regret="(lanes,) running sum of what informed play at full trust would have had on top",
)
METRICS = ventures.METRICS | {
    "inference_accuracy": "share of agents whose mean fraction in the last third fits the type; "
    "0 before the end",
    "exploration_steps": "steps until all fractions stay on the right side of 1/2 for the type; 0 "
    "before the end",
    "regret": "expected welfare of informed play at full trust minus that of this play, all steps; "
    "0 before the end",
}


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: ventures.Horizon = 100
    initial_trust: ventures.InitialTrust = (0.6, 0.9)
    dependence: ventures.Dependence = (0.5, 0.8)
    high: Annotated[
        ventures.Range, span(0, 100, "mean value of a unit in a good venture, per episode")
    ] = (1.6, 1.9)
    low: Annotated[
        ventures.Range, span(0, 100, "mean value of a unit in a bad venture, per episode")
    ] = (0.3, 0.6)
    shock: ventures.Shock = (0.5, 0.9)
    noise: ventures.Noise = (0.0, 0.1)
    grace: Annotated[int, between(0, 1_000_000, "steps until the full norm is expected")] = 10
    reveal_type: Annotated[bool, one_of((), "append the type (1: good) to observations")] = False


def constants(p: Params) -> Any:
    """Two firms with equal endowments and shares; the regime never changes."""
    return ventures.make_constants(
        p,
        kind=Constants,
        endowment=[1.0, 1.0],
        persistence=(1.0, 1.0),
        grace=p.grace,
        reveal=p.reveal_type,
        late=p.horizon - max(1, p.horizon // 3),
    )


def allocate(c: Any, lanes: int) -> Any:
    """Allocate the state of ``lanes`` games."""
    one = {name: np.zeros(lanes) for name in ("searched", "regret")}
    return State(**ventures.common(c, lanes), late=np.zeros((lanes, c.num_agents)), **one)


@kernel
def reset(c, s, i, rng):
    ventures.reset(c, s, i, rng)
    s.searched[i] = 0.0
    s.regret[i] = 0.0
    for a in range(c.num_agents):
        s.late[i, a] = 0.0


@kernel
def step(c, s, i, rng, actions, rewards, terminated):
    invest(c, s, i, rng, actions)
    compare(c, s, i)
    ventures.earn(c, s, i, rewards)
    ventures.update_trust(c, s, i)
    ventures.turn(c, s, i, rng)
    ventures.go_on(c, i, terminated)


@kernel
def invest(c, s, i, rng, actions):
    """Invest for all agents; the expected fraction is the same for both types."""
    s.expected[i] = c.norm * (s.time[i] / c.grace if s.time[i] < c.grace else 1.0)
    ventures.put_in(c, s, i, rng, actions, 1.0)


@kernel
def compare(c, s, i):
    """Add up how the investments fit the type, and the regret against informed play."""
    worth = s.high[i] if s.good[i] else s.low[i]
    for a in range(c.num_agents):
        fraction = s.fraction[i, a]
        right = fraction > 0.5 if s.good[i] else fraction < 0.5
        if not right:
            s.searched[i] = s.time[i] + 1.0
        if s.time[i] >= c.late:
            s.late[i, a] += fraction
        # Of each unit kept a good venture would have made its worth, of each invested in a bad
        # one a unit is left; and what distrust withholds is lost in both.
        s.regret[i] += c.endowment[a] * (max(1.0, worth) - (1.0 - fraction))
    total = worth * ventures.pool(c, s, i)
    for a in range(c.num_agents):
        s.regret[i] -= c.share[a] * total * ventures.standing(c, s, i, a)


@kernel
def observe(c, s, i, obs):
    """Write the common observation without the productivity; the type only if revealed."""
    end = 3 * c.num_agents
    for a in range(c.num_agents):
        ventures.look_around(c, s, i, a, obs)
        obs[i, a, end] = s.time[i] / c.horizon
        if c.reveal:
            obs[i, a, end + 1] = 1.0 if s.good[i] else 0.0


@kernel
def global_state(c, s, i, out):
    """Write the common global state without the productivity; the type only if revealed."""
    end = c.num_agents * (c.num_agents + 2)
    ventures.survey(c, s, i, out)
    out[i, end] = s.time[i] / c.horizon
    if c.reveal:
        out[i, end + 1] = 1.0 if s.good[i] else 0.0


@kernel
def measure(c, s, i, measures):
    """Write the common metrics; those that depend on the type only when the episode is over."""
    ventures.measure(c, s, i, measures)
    over = 1.0 if s.time[i] >= c.horizon else 0.0
    right = 0.0
    for a in range(c.num_agents):
        right += (s.late[i, a] > 0.5 * (c.horizon - c.late)) == s.good[i]
    measures[i, 4] = over * right / c.num_agents
    measures[i, 5] = over * s.searched[i]
    measures[i, 6] = over * s.regret[i]


def layout(c: Any) -> dict[str, Part]:
    """Named parts of one agent's observation."""
    sizes = ventures.sizes(c)
    del sizes["productivity"]
    return consecutive(sizes | ({"type": 1} if c.reveal else {}))


def facts(c: Any, fields: Any, agents: tuple[str, ...]) -> list[str]:
    """Return the lines that a picture shows in addition to those of all games."""
    kind, level = ("good", "high") if fields["good"] else ("bad", "low")
    worth = float(fields[level])
    return [f"hidden from the agents: a {kind} venture, a unit is worth {worth:.2f} on average"]


SPEC = ventures.game(
    id="coopbench/SynergySearch-v1",
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
    agents=dynamics.named("firm"),
    metrics=METRICS,
    layout=layout,
    world=lambda c: c.num_agents * (c.num_agents + 2) + 1 + c.reveal,
    facts=facts,
)
