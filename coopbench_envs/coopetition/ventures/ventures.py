"""The model that all version 1 games share: a common venture with changing productivity.

In each step every agent invests a fraction of its endowment. In the good regime an invested unit is
worth more than a unit to all together but less to the investor, in bad ones it is worth less even
to all. Others observe investments with errors, and a public record sums up the conduct of every
agent. A record earns nothing: it acts through what other agents do. Equations and reasons:
docs/environments/ventures.md.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from coopbench_envs.coopetition import model, picture
from coopbench_envs.coopetition.model import go_on, measure
from coopbench_envs.core import EnvSpec, Kernels, kernel, uniform
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.parameters import between, span
from coopbench_envs.states import array, state

Range = tuple[float, ...]
InitialTrust = Annotated[Range, span(0, 1, "record at the start, drawn for each agent")]
High = Annotated[Range, span(0, 100, "value of a unit in the good regime, drawn for each episode")]
Low = Annotated[Range, span(0, 100, "value of a unit in the bad regime, drawn for each episode")]
Good = Annotated[float, between(0, 1, "long-run share of the good regime")]
Persistence = Annotated[
    Range,
    span(
        0,
        1,
        "persistence of regimes, drawn for each episode; at 1 they last forever, below 1/2 their "
        "share may not be `good`",
    ),
]
Shock = Annotated[Range, span(0, 1, "largest relative shock of a step, drawn for each episode")]
Noise = Annotated[
    Range, span(0, 1, "largest error of observed investments, drawn for each episode")
]
Trembles = Annotated[
    float, between(0, 1, "probability that a uniform draw replaces an agent's investment")
]
Delay = Annotated[int, between(0, 20, "steps until others observe an investment")]


class Constants(NamedTuple):
    """Numbers and arrays of one game, as the kernels read them; ranges are [lowest, highest]."""

    num_agents: int
    horizon: int  # steps of an episode
    endowment: np.ndarray  # (agents,) units that an agent can invest each step
    share: np.ndarray  # (agents,) part of the venture's worth that is an agent's, sum 1
    initial_trust: np.ndarray  # (2,)
    high: np.ndarray  # (2,)
    low: np.ndarray  # (2,)
    good: float  # long-run share of the good regime
    persistence: np.ndarray  # (2,)
    shock: np.ndarray  # (2,)
    noise: np.ndarray  # (2,)
    trembles: float  # probability that a uniform draw replaces an investment
    delay: int  # steps until others observe an investment
    public: bool  # whether all agents observe the regime; else only those that are informed
    norm: float  # fraction that is expected in the good regime
    weight: float  # of a judged step in a record
    drift: float  # part of the way that records return to ``rest`` in each step
    rest: float


def worth_bounds(c: Any) -> tuple[float, float]:
    """Bounds of what observations show as x / (1 + x); play does not come near the upper one."""
    return 0.0, 1e9


State = state(
    __name__,
    record=array(
        "public record of an agent's conduct, in [0, 1]", "num_agents", bounds=model.share_bounds
    ),
    high=array("value of a unit in the good regime", bounds=lambda c: (0.0, 100.0)),
    low=array("value of a unit in the bad regime", bounds=lambda c: (0.0, 100.0)),
    persistence=array("see ``turn``", bounds=model.share_bounds),
    shock=array("largest relative shock of a step", bounds=model.share_bounds),
    noise=array("largest error of observed investments", bounds=model.share_bounds),
    good=array("the coming step is in the good regime", dtype=np.bool_),
    productivity=array("value of a unit in the coming step", bounds=worth_bounds),
    informed=array(
        "observes the productivity of the coming step", "num_agents", dtype=np.bool_, start=True
    ),
    fraction=array(
        "last investment, share of own endowment", "num_agents", start=0, bounds=model.share_bounds
    ),
    blurred=array(
        "the same with the error of observation, in [0, 1]",
        "num_agents",
        start=0,
        bounds=model.share_bounds,
    ),
    seen=array(
        "what others observe: ``blurred``, ``delay`` steps late",
        "num_agents",
        start=0,
        bounds=model.share_bounds,
    ),
    expected=array("fraction that was expected in the last step", start=0),
    income=array("last reward", "num_agents", start=0, bounds=worth_bounds),
    pending=array(
        "blurred, conduct, weight; 0 without delay",
        lambda c: c.delay + 1,
        "num_agents",
        3,
        bounds=model.share_bounds,
    ),
    invested=array("running sum of mean fractions, for the cooperation rate", start=0),
    trusted=array("running sum of mean records", start=0),
    conduct=array("conduct of the last step, in [0, 1]", "num_agents", scratch=True),
    weight=array("its weight in the record, in [0, 1]", "num_agents", scratch=True),
    mean_trust=array("mean of all records", scratch=True),
)
METRICS = {
    "final_trust": "mean record of conduct after the last step, in [0, 1]",
    "cooperation_rate": "mean over steps and agents of investment as a share of own endowment",
    "mean_trust": "mean over steps of the mean record of conduct, in [0, 1]",
    "length": "steps played",
}


def make_constants(
    params: Any,
    *,
    endowment: Sequence[float],
    share: Sequence[float] | None = None,
    public: bool = True,
    norm: float = 0.5,
    weight: float = 0.25,
    drift: float = 0.0,
    rest: float = 0.0,
    kind: Any = Constants,
    **model: Any,
) -> Any:
    """Assemble the constants of a game from its parameters and its ``model`` numbers.

    Without ``share`` it is proportional to the endowment. ``kind`` is the game's own tuple if it
    has one; ``model`` then has its fields too.
    """
    units = np.asarray(endowment, np.float64)
    names = ("initial_trust", "high", "low", "persistence", "shock", "noise")
    return kind(
        num_agents=len(units),
        horizon=params.horizon,
        endowment=units,
        share=units / units.sum() if share is None else np.asarray(share, np.float64),
        good=params.good,
        trembles=params.trembles,
        delay=params.delay,
        public=public,
        norm=norm,
        weight=weight,
        drift=drift,
        rest=rest,
        **{name: np.asarray(getattr(params, name), np.float64) for name in names},
        **model,
    )


@kernel
def within(ends, rng, i):
    """Draw uniformly from the range ``ends``."""
    return ends[0] + (ends[1] - ends[0]) * uniform(rng, i)


@kernel
def reset(c, s, i, rng):
    """Draw the constants of the episode, the records and the first regime."""
    s.high[i] = within(c.high, rng, i)
    s.low[i] = within(c.low, rng, i)
    s.persistence[i] = within(c.persistence, rng, i)
    s.shock[i] = within(c.shock, rng, i)
    s.noise[i] = within(c.noise, rng, i)
    for a in range(c.num_agents):
        s.record[i, a] = within(c.initial_trust, rng, i)
    s.good[i] = uniform(rng, i) < c.good
    announce(c, s, i, rng)


@kernel
def prepare(c, s, i):
    """Set what follows from the rest of the state."""
    total = 0.0
    for a in range(c.num_agents):
        s.conduct[i, a] = 0.0
        s.weight[i, a] = 0.0
        total += s.record[i, a]
    s.mean_trust[i] = total / c.num_agents


@kernel
def announce(c, s, i, rng):
    """Set the value of a unit in the coming step."""
    level = s.high[i] if s.good[i] else s.low[i]
    s.productivity[i] = level * (1.0 + s.shock[i] * (2.0 * uniform(rng, i) - 1.0))


@kernel
def invest(c, s, i, rng, actions, rewards, terminated):
    """Invest for all agents, with trembles, and blur what others will observe.

    The norm is expected in the good regime and nothing in the bad one.
    """
    s.expected[i] = c.norm if s.good[i] else 0.0
    total = 0.0
    for a in range(c.num_agents):
        fraction = min(max(actions[i, a, 0], 0.0), 1.0)
        if uniform(rng, i) < c.trembles:
            fraction = uniform(rng, i)
        blurred = fraction + s.noise[i] * (2.0 * uniform(rng, i) - 1.0)
        s.fraction[i, a] = fraction
        s.blurred[i, a] = min(max(blurred, 0.0), 1.0)
        total += fraction
    s.invested[i] += total / c.num_agents


@kernel
def pool(c, s, i):
    """Return the units that all agents have invested in this step."""
    units = 0.0
    for a in range(c.num_agents):
        units += c.endowment[a] * s.fraction[i, a]
    return units


@kernel
def earn(c, s, i, rng, actions, rewards, terminated):
    """Pay for all that was invested."""
    pay(c, s, i, s.productivity[i] * pool(c, s, i), rewards)


@kernel
def pay(c, s, i, worth, rewards):
    """Pay what agents kept, and their shares of ``worth``."""
    for a in range(c.num_agents):
        rewards[i, a] = c.endowment[a] * (1.0 - s.fraction[i, a]) + c.share[a] * worth
        s.income[i, a] = rewards[i, a]


@kernel
def judge_in_good_times(c, s, i, rng, actions, rewards, terminated):
    """Judge each investment as it was observed, in the good regime only."""
    for a in range(c.num_agents):
        s.conduct[i, a] = s.blurred[i, a]
        s.weight[i, a] = c.weight if s.good[i] else 0.0


@kernel
def judge_answers(c, s, i, received):
    """Judge each investment as it was observed, by the weight of what it had ``received`` (agents).

    For games in which not all know the regime: an investment is expected of agents whose partners
    have just invested.
    """
    for a in range(c.num_agents):
        s.conduct[i, a] = s.blurred[i, a]
        s.weight[i, a] = c.weight * received[i, a]


@kernel
def update_records(c, s, i, rng, actions, rewards, terminated):
    """Show the investments of ``delay`` steps ago, and move records by the conduct in them.

    Conduct and weight are afterwards those that were judged in this step.
    """
    if c.delay > 0:
        queue(c, s, i)
    else:
        for a in range(c.num_agents):
            s.seen[i, a] = s.blurred[i, a]
    total = 0.0
    for a in range(c.num_agents):
        s.record[i, a] += s.weight[i, a] * (s.conduct[i, a] - s.record[i, a])
        s.record[i, a] += c.drift * (c.rest - s.record[i, a])
        total += s.record[i, a]
    s.mean_trust[i] = total / c.num_agents
    s.trusted[i] += s.mean_trust[i]


@kernel
def queue(c, s, i):
    """Put off what was invested in this step, and take out what is due; at first nothing is."""
    slots = c.delay + 1
    now, then = s.time[i] % slots, (s.time[i] + 1) % slots
    for a in range(c.num_agents):
        s.pending[i, now, a, 0] = s.blurred[i, a]
        s.pending[i, now, a, 1] = s.conduct[i, a]
        s.pending[i, now, a, 2] = s.weight[i, a]
        s.weight[i, a] = 0.0
        if s.time[i] >= c.delay:
            s.seen[i, a] = s.pending[i, then, a, 0]
            s.conduct[i, a] = s.pending[i, then, a, 1]
            s.weight[i, a] = s.pending[i, then, a, 2]


@kernel
def turn(c, s, i, rng, actions, rewards, terminated):
    """Draw the next regime, and announce the coming step.

    A good regime ends with probability 2 (1 - persistence) (1 - good), a bad one with
    2 (1 - persistence) good; at good = 1/2 regimes persist with probability ``persistence``.
    """
    other = 1.0 - c.good if s.good[i] else c.good
    ends = uniform(rng, i) < 2.0 * (1.0 - s.persistence[i]) * other
    s.good[i] = s.good[i] != ends
    announce(c, s, i, rng)


# A step of the common model, part by part; games add parts of their own or replace these.
STEP = (invest, earn, judge_in_good_times, update_records, turn, go_on)


@kernel
def observe(c, s, i, obs):
    """Write the observation of each agent, in the order of ``layout``."""
    n = c.num_agents
    productivity = s.productivity[i] / (1.0 + s.productivity[i])
    time = s.time[i] / c.horizon
    for a in range(n):
        obs[i, a, 0] = s.fraction[i, a]
        k = 0
        for b in range(n):
            if b != a:
                obs[i, a, 1 + k] = s.seen[i, b]
                obs[i, a, n + k] = s.record[i, b]
                k += 1
        obs[i, a, 2 * n - 1] = s.record[i, a]
        obs[i, a, 2 * n] = productivity if s.informed[i, a] else 0.0
        obs[i, a, 2 * n + 1] = time
        if c.public:
            income = s.income[i, a] / c.endowment[a]
            obs[i, a, 2 * n + 2] = income / (1.0 + income)
        else:  # an income would reveal the regime
            show_informed(c, s, i, a, obs)


@kernel
def show_informed(c, s, i, a, obs):
    """Write who observes the productivity: ``a`` first, then the others."""
    first = 2 * c.num_agents + 2
    obs[i, a, first] = 1.0 if s.informed[i, a] else 0.0
    k = first + 1
    for b in range(c.num_agents):
        if b != a:
            obs[i, a, k] = 1.0 if s.informed[i, b] else 0.0
            k += 1


@kernel
def global_state(c, s, i, out):
    """Fractions, records, productivity and time, all in [0, 1]."""
    n = c.num_agents
    for a in range(n):
        out[i, a] = s.fraction[i, a]
        out[i, n + a] = s.record[i, a]
    out[i, 2 * n] = s.productivity[i] / (1.0 + s.productivity[i])
    out[i, 2 * n + 1] = s.time[i] / c.horizon


KERNELS = Kernels(
    state=State,
    reset=reset,
    step=STEP,
    observe=observe,
    measure=measure,
    prepare=prepare,
    global_state=global_state,
)


# What the common parts of observations and actions are.
MEANINGS = {
    "own_action": "own last investment as a share of the endowment, after trembles",
    "others_actions": "others' last investments as observed, with noise and after the delay",
    "trust_in_others": "public records of the others' conduct",
    "trust_in_me": "own public record",
    "productivity": "A / (1 + A), A: worth of a unit in the next step; 0 if not informed",
    "time": "steps played / horizon",
    "income": "x / (1 + x), x: own last reward / endowment",
    "informed": "1 for an agent that observes the next productivity, else 0; own entry first",
    "investment": "share of the own endowment",
}


def sizes(c: Any) -> dict[str, int]:
    """Sizes of the common parts of one agent's observation; ``others`` are in index order.

    Parts of a game's own stand behind them.
    """
    others = c.num_agents - 1
    common = {
        "own_action": 1,
        "others_actions": others,
        "trust_in_others": others,
        "trust_in_me": 1,
        "productivity": 1,
        "time": 1,
    }
    return common | ({"income": 1} if c.public else {"informed": c.num_agents})


def layout(c: Any) -> dict[str, Part]:
    """Named parts of one agent's observation."""
    return consecutive(sizes(c), MEANINGS)


def unit_box(size: int) -> Box:
    """Vectors of ``size`` numbers in [0, 1]."""
    return Box(0.0, 1.0, (size,), np.float32)


def trace(c: Any, s: Any) -> dict[str, np.ndarray]:
    """Return the input of the trajectory metrics, (lanes, agents) each."""
    others = c.num_agents - 1
    return {
        "fraction": s.fraction,
        "baseline": np.broadcast_to(s.expected[:, None], s.fraction.shape),
        "trust_given": (s.record.sum(axis=1, keepdims=True) - s.record) / others,
        "trust_received": s.record,
    }


def game(
    *,
    layout: Callable[[Any], Mapping[str, Part]] = layout,
    actions: Callable[[Any], Mapping[str, int]] | None = None,
    meanings: Mapping[str, str] = MEANINGS,
    world: Callable[[Any], int] = lambda c: 2 * c.num_agents + 2,
    facts: picture.Facts | None = None,
    **own: Any,
) -> EnvSpec:
    """Return the specification of a game of this model.

    ``actions`` gives the sizes of the parts of an action, ``{"investment": 1, ...}``, if there are
    more than that one, and ``meanings`` says what they are; in all further parts 0.5 means what is
    customary. ``world`` is the size of
    the global state; ``facts(constants, fields, agents)`` returns what else a picture should say;
    ``own`` are the other fields of ``EnvSpec`` that the game does not share.
    """
    acted, show = actions or (lambda c: {"investment": 1}), picture.venture_panels(facts)
    usual: dict[str, Any] = {
        "kernels": KERNELS,
        "metrics": METRICS,
        "observation_space": lambda c, agent: unit_box(max(p.stop for p in layout(c).values())),
        "action_space": lambda c, agent: unit_box(sum(acted(c).values())),
        "action_layout": lambda c: consecutive(acted(c), meanings),
        "layout": layout,
        "picture": picture.picture(show),
        "scene": picture.scene(show, own["agents"]),
        "text": partial(picture.venture_text, facts=facts),
        "global_state_space": lambda c: unit_box(world(c)),
        "trace": trace,
        "source": f"coopbench, {own['id'].split('/')[1]}",
    }
    return model.game(**(usual | own))
