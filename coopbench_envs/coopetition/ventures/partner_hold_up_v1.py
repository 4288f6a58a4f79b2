"""PartnerHoldUp: two partners invest in shared capital, then bargain over its yield.

Capital cannot be withdrawn, so a partner can demand more than the contract gives it; the strong
partner prevails in a conflict, which costs both. Page:
docs/environments/partner_hold_up_v1.md.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.ventures import ventures
from coopbench_envs.core import kernel
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.parameters import between, span
from coopbench_envs.states import array, state

STRONG, WEAK = range(2)
ROUNDING = 1e-9  # claims that add up to 1 but for it do not conflict

Constants = model.extended(
    ventures.Constants,
    __name__,
    capital="(2,) range of the capital at the start",
    speed="(2,) range of the part of the way that capital goes to the investment in a step",
    reach="part of the surplus that can be demanded beyond the contract",
    waiver="part of the surplus that can be waived",
    power="part of the surplus that the strong partner gets in a conflict, at most",
    conflict_loss="part of the surplus that a conflict destroys",
    blame="loss of conduct at the largest demand",
)
State = state(
    __name__,
    ventures.State,
    speed=array(
        "part of the way that capital goes to the investment in a step",
        bounds=model.share_bounds,
    ),
    capital=array(
        "capital as a share of the own endowment, in [0, 1]",
        "num_agents",
        bounds=model.share_bounds,
    ),
    demand=array(
        "last demand, 0.5 = the contract", "num_agents", start=0.5, bounds=model.share_bounds
    ),
    part=array("part of the last surplus", "num_agents"),
    stocked=array("running sum of mean capital", start=0),
    conflicts=array("steps with a conflict", start=0),
    exposed=array("running sum of the weak partner's capital", start=0),
    seized=array("the same, each step times the strong partner's excess demand", start=0),
    earned=array("running sum of rewards", "num_agents", start=0),
)
METRICS = ventures.METRICS | {
    "capital": "mean over steps and partners of capital as a share of own endowment",
    "conflict_rate": "share of steps with a conflict",
    "hold_up": "mean excess demand of the strong partner, weighted by the weak partner's "
    "capital; 0 = the contract or less, 1 = the largest demand",
    "income_asymmetry": "mean income per endowment of the strong minus that of the weak, over "
    "their sum",
    "trust_asymmetry": "record of the strong minus that of the weak, after the last step",
}


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 100
    initial_trust: ventures.InitialTrust = (0.6, 0.9)
    capital: Annotated[ventures.Range, span(0, 1, "initial capital, drawn for each partner")] = (
        0.2,
        0.5,
    )
    speed: Annotated[
        ventures.Range, span(0, 1, "adjustment speed of capital, drawn for each episode")
    ] = (0.3, 0.4)
    contract: Annotated[float, between(0, 1, "the strong partner's share by contract")] = 0.53
    reach: Annotated[float, between(0, 1, "largest demand beyond the contract")] = 0.2
    waiver: Annotated[float, between(0, 1, "largest waiver of the share by contract")] = 0.05
    power: Annotated[float, between(0, 1, "largest share of the strong partner in a conflict")] = (
        0.85
    )
    conflict_loss: Annotated[float, between(0, 1, "fraction of the surplus lost in a conflict")] = (
        0.25
    )
    blame: Annotated[float, between(0, 100, "loss of conduct at the largest demand")] = 1.0
    high: ventures.High = (1.7, 1.8)
    low: ventures.Low = (0.15, 0.25)
    good: ventures.Good = 0.5
    persistence: ventures.Persistence = (0.92, 0.97)
    shock: ventures.Shock = (0.0, 0.02)
    noise: ventures.Noise = (0.0, 0.1)
    trembles: ventures.Trembles = 0.05
    delay: ventures.Delay = 0


def constants(p: Params) -> Any:
    """The strong partner has more to invest, and the greater share by contract."""
    return ventures.make_constants(
        p,
        kind=Constants,
        endowment=[1.1, 0.9],
        share=[p.contract, 1.0 - p.contract],
        capital=np.asarray(p.capital, np.float64),
        speed=np.asarray(p.speed, np.float64),
        reach=p.reach,
        waiver=p.waiver,
        power=p.power,
        conflict_loss=p.conflict_loss,
        blame=p.blame,
    )


@kernel
def reset(c, s, i, rng):
    ventures.reset(c, s, i, rng)
    s.speed[i] = ventures.within(c.speed, rng, i)
    for a in range(c.num_agents):
        s.capital[i, a] = ventures.within(c.capital, rng, i)
        s.part[i, a] = c.share[a]


@kernel
def sink(c, s, i, rng, actions, rewards, terminated):
    """Move capital towards the investments, up as well as down."""
    for a in range(c.num_agents):
        s.capital[i, a] += s.speed[i] * (s.fraction[i, a] - s.capital[i, a])
        s.stocked[i] += s.capital[i, a] / c.num_agents


@kernel
def haggle(c, s, i, rng, actions, rewards, terminated):
    """Store the demands."""
    for a in range(c.num_agents):
        s.demand[i, a] = min(max(actions[i, a, 1], 0.0), 1.0)
    s.exposed[i] += s.capital[i, WEAK]
    s.seized[i] += s.capital[i, WEAK] * excess(s, i, STRONG)


@kernel
def excess(s, i, a):
    """Return the demand of ``a`` beyond the contract, in [0, 1]."""
    return max(2.0 * s.demand[i, a] - 1.0, 0.0)


@kernel
def claim(c, s, i, a):
    """Part of the surplus that ``a`` demands."""
    waived = max(1.0 - 2.0 * s.demand[i, a], 0.0)
    part = c.share[a] + c.reach * excess(s, i, a) - c.waiver * waived
    return min(max(part, 0.0), 1.0)


@kernel
def split(c, s, i, rng, actions, rewards, terminated):
    """Give each its claim, or split by power if the claims conflict."""
    strong, weak = claim(c, s, i, STRONG), claim(c, s, i, WEAK)
    left = 1.0 - strong - weak
    if left < -ROUNDING:
        taken = min(strong, c.power)  # power gives no agent more than it asked for
        s.part[i, STRONG] = (1.0 - c.conflict_loss) * taken
        s.part[i, WEAK] = (1.0 - c.conflict_loss) * (1.0 - taken)
        s.conflicts[i] += 1.0
    else:
        s.part[i, STRONG] = strong + c.share[STRONG] * left
        s.part[i, WEAK] = weak + c.share[WEAK] * left


@kernel
def earn(c, s, i, rng, actions, rewards, terminated):
    """Pay what partners kept and their parts of the surplus."""
    worth = 0.0
    for a in range(c.num_agents):
        worth += s.productivity[i] * c.endowment[a] * s.capital[i, a]
    for a in range(c.num_agents):
        rewards[i, a] = c.endowment[a] * (1.0 - s.fraction[i, a]) + s.part[i, a] * worth
        s.income[i, a] = rewards[i, a]
        s.earned[i, a] += rewards[i, a]


@kernel
def judge(c, s, i, rng, actions, rewards, terminated):
    """Judge investments in the good regime, and demands beyond the contract in both regimes."""
    counts = 1.0 if s.good[i] else 0.0  # the investment, in the conduct
    for a in range(c.num_agents):
        blame = min(c.blame * excess(s, i, a), 1.0)
        s.conduct[i, a] = max(counts * s.blurred[i, a] - blame, 0.0)
        s.weight[i, a] = c.weight * max(counts, blame)


STEP = (
    ventures.invest,
    sink,
    haggle,
    split,
    earn,
    judge,
    ventures.update_records,
    ventures.turn,
    model.go_on,
)


@kernel
def observe(c, s, i, obs):
    """Write the common observation, then the capital and the demands."""
    ventures.observe(c, s, i, obs)
    end = 2 * c.num_agents + 3
    for a in range(c.num_agents):
        obs[i, a, end] = s.capital[i, a]
        obs[i, a, end + 1] = s.capital[i, 1 - a]
        obs[i, a, end + 2] = s.demand[i, a]
        obs[i, a, end + 3] = s.demand[i, 1 - a]


@kernel
def global_state(c, s, i, out):
    """Write the common global state, then all capital and all demands."""
    ventures.global_state(c, s, i, out)
    end = 2 * c.num_agents + 2
    for a in range(c.num_agents):
        out[i, end + a] = s.capital[i, a]
        out[i, end + c.num_agents + a] = s.demand[i, a]


@kernel
def measure(c, s, i, measures):
    model.measure(c, s, i, measures)
    played = max(1, s.time[i])
    strong = s.earned[i, STRONG] / c.endowment[STRONG]
    weak = s.earned[i, WEAK] / c.endowment[WEAK]
    measures[i, 4] = s.stocked[i] / played
    measures[i, 5] = s.conflicts[i] / played
    measures[i, 6] = s.seized[i] / s.exposed[i] if s.exposed[i] > 0.0 else 0.0
    measures[i, 7] = (strong - weak) / (strong + weak) if strong + weak > 0.0 else 0.0
    measures[i, 8] = s.record[i, STRONG] - s.record[i, WEAK]


def steady(c: Any, actions: np.ndarray) -> dict[str, np.ndarray]:
    """Return the steady-state capital under constant ``actions`` (lanes, agents, parts)."""
    return {"capital": np.clip(actions[:, :, 0], 0.0, 1.0)}


MEANINGS = ventures.MEANINGS | {
    "own_capital": "own capital as a share of the own endowment",
    "others_capital": "capital of the other as a share of its endowment",
    "own_demand": "own last demand",
    "others_demands": "last demand of the other",
    "demand": "claim on the surplus: 0.5 the share by contract, more above and less below",
}


def layout(c: Any) -> dict[str, Part]:
    """Named parts of one agent's observation."""
    own = ("own_capital", "others_capital", "own_demand", "others_demands")
    return consecutive(ventures.sizes(c) | dict.fromkeys(own, 1), MEANINGS)


def facts(c: Any, fields: Any, agents: tuple[str, ...]) -> list[str]:
    """Return the lines that a picture shows in addition to those of all games."""

    def each(name: str) -> str:
        return " and ".join(f"{value:.2f}" for value in fields[name])

    return [f"capital {each('capital')}", f"demands {each('demand')}", f"parts {each('part')}"]


SPEC = ventures.game(
    id="coopbench/PartnerHoldUp-v1",
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
    agents=lambda c: ("strong_0", "weak_0"),
    metrics=METRICS,
    layout=layout,
    actions=lambda c: {"investment": 1, "demand": 1},
    meanings=MEANINGS,
    world=lambda c: 4 * c.num_agents + 2,
    facts=facts,
)
