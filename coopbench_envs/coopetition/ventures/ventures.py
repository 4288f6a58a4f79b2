"""The model that all version 1 games share: a common venture with changing productivity.

In each step every agent invests a fraction of its endowment. In good regimes an invested unit is
worth more than a unit to all together but less to the investor, in bad ones it is worth less even
to all. What an agent receives depends on how much the others trust it. Equations and reasons:
docs/environments/ventures.md.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from coopbench_envs.coopetition import picture
from coopbench_envs.coopetition.published.dynamics import METRICS, prepare
from coopbench_envs.coopetition.trajectories import AGENT, EPISODE
from coopbench_envs.core import EnvSpec, Kernels, kernel, uniform
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.parameters import between, span

Horizon = Annotated[int, between(1, 1_000_000, "steps of an episode")]
Range = tuple[float, ...]
InitialTrust = Annotated[Range, span(0, 1, "initial trust, drawn for each ordered pair")]
Dependence = Annotated[
    Range, span(0, 1, "fraction of an agent's share that depends on others' trust")
]
High = Annotated[Range, span(0, 100, "value of a unit in good regimes, drawn for each episode")]
Low = Annotated[Range, span(0, 100, "value of a unit in bad regimes, drawn for each episode")]
Persistence = Annotated[
    Range, span(0, 1, "probability that the regime persists, drawn for each episode")
]
Shock = Annotated[Range, span(0, 1, "largest relative shock of a step, drawn for each episode")]
Noise = Annotated[
    Range, span(0, 1, "largest error of observed investments, drawn for each episode")
]


class Constants(NamedTuple):
    """Numbers and arrays of one game, as the kernels read them; ranges are [lowest, highest]."""

    num_agents: int
    horizon: int
    endowment: np.ndarray  # (agents,) units that an agent can invest each step
    share: np.ndarray  # (agents,) part of the venture's worth that is an agent's, sum 1
    initial_trust: np.ndarray  # (2,)
    dependence: np.ndarray  # (agents, 2)
    high: np.ndarray  # (2,)
    low: np.ndarray  # (2,)
    persistence: np.ndarray  # (2,)
    shock: np.ndarray  # (2,)
    noise: np.ndarray  # (2,)
    norm: float  # fraction that is expected in good regimes
    trust_gain: float  # per step, at full signal
    trust_loss: float


class State(NamedTuple):
    """Arrays over lanes; axis 0 is always the lane ``i``."""

    time: np.ndarray  # (lanes,) int64, steps played; written by the driver
    trust: np.ndarray  # (lanes, agents, agents) trust of a in b, in [0, 1]; diagonal 1
    dependence: np.ndarray  # (lanes, agents) fraction of the share that depends on others' trust
    high: np.ndarray  # (lanes,) value of a unit in good regimes
    low: np.ndarray  # (lanes,) value of a unit in bad regimes
    persistence: np.ndarray  # (lanes,) probability that the regime persists
    shock: np.ndarray  # (lanes,) largest relative shock of a step
    noise: np.ndarray  # (lanes,) largest error of observed investments
    good: np.ndarray  # (lanes,) bool, the coming step is in a good regime
    productivity: np.ndarray  # (lanes,) value of a unit in the coming step
    fraction: np.ndarray  # (lanes, agents) last investment, share of own endowment
    seen: np.ndarray  # (lanes, agents) the same as observed by others, in [0, 1]
    expected: np.ndarray  # (lanes,) fraction that was expected in the last step
    income: np.ndarray  # (lanes, agents) last reward
    invested: np.ndarray  # (lanes,) running sum of mean fractions, for the cooperation rate
    trusted: np.ndarray  # (lanes,) running sum of mean trust
    signal: np.ndarray  # (lanes, agents) scratch: signal of the last investment, in [-1, 1]
    mean_trust: np.ndarray  # (lanes,) scratch: mean of all pairwise trust


SCRATCH = frozenset({"signal", "mean_trust"})


def make_constants(
    params: Any,
    *,
    endowment: Sequence[float],
    share: Sequence[float] | None = None,
    dependence: Any = None,
    norm: float = 0.5,
    trust_gain: float = 0.15,
    trust_loss: float = 0.30,
    kind: Any = Constants,
    **model: Any,
) -> Any:
    """Assemble the constants of a game from its parameters and its ``model`` numbers.

    Without ``share`` it is proportional to the endowment; ``dependence`` is one range for all
    (default: the parameter) or one per agent. A range in ``model`` takes the place of the parameter
    of its name. ``kind`` is the game's own tuple if it has one.
    """
    units = np.asarray(endowment, np.float64)
    n = len(units)
    dependences = params.dependence if dependence is None else dependence
    ranges = {
        name: np.asarray(model.pop(name) if name in model else getattr(params, name), np.float64)
        for name in ("initial_trust", "high", "low", "persistence", "shock", "noise")
    }
    return kind(
        num_agents=n,
        horizon=params.horizon,
        endowment=units,
        share=units / units.sum() if share is None else np.asarray(share, np.float64),
        dependence=np.broadcast_to(np.asarray(dependences, np.float64), (n, 2)).copy(),
        norm=norm,
        trust_gain=trust_gain,
        trust_loss=trust_loss,
        **ranges,
        **model,
    )


def common(c: Any, lanes: int) -> dict[str, np.ndarray]:
    """Arrays of the fields that every game has."""
    n = c.num_agents
    drawn = ("high", "low", "persistence", "shock", "noise")
    played = ("productivity", "expected", "invested", "trusted", "mean_trust")
    each = ("dependence", "fraction", "seen", "income", "signal")
    return {
        "time": np.zeros(lanes, np.int64),
        "trust": np.zeros((lanes, n, n)),
        "good": np.zeros(lanes, np.bool_),
        **{name: np.zeros(lanes) for name in (*drawn, *played)},
        **{name: np.zeros((lanes, n)) for name in each},
    }


def allocate(c: Any, lanes: int) -> State:
    """Allocate the state of ``lanes`` games."""
    return State(**common(c, lanes))


@kernel
def within(ends, rng, i):
    """Draw uniformly from the range ``ends``."""
    return ends[0] + (ends[1] - ends[0]) * uniform(rng, i)


@kernel
def reset(c, s, i, rng):
    """Draw the constants of the episode and its first regime."""
    s.high[i] = within(c.high, rng, i)
    s.low[i] = within(c.low, rng, i)
    s.persistence[i] = within(c.persistence, rng, i)
    s.shock[i] = within(c.shock, rng, i)
    s.noise[i] = within(c.noise, rng, i)
    s.expected[i] = 0.0
    s.invested[i] = 0.0
    s.trusted[i] = 0.0
    for a in range(c.num_agents):
        s.dependence[i, a] = within(c.dependence[a], rng, i)
        s.fraction[i, a] = 0.0
        s.seen[i, a] = 0.0
        s.income[i, a] = 0.0
        for b in range(c.num_agents):
            s.trust[i, a, b] = 1.0 if a == b else within(c.initial_trust, rng, i)
    s.good[i] = uniform(rng, i) < 0.5
    announce(c, s, i, rng)


@kernel
def announce(c, s, i, rng):
    """Set the value of a unit in the coming step."""
    level = s.high[i] if s.good[i] else s.low[i]
    s.productivity[i] = level * (1.0 + s.shock[i] * (2.0 * uniform(rng, i) - 1.0))


@kernel
def step(c, s, i, rng, actions, rewards, terminated):
    """Play one step of the common model, which ends only at the horizon."""
    invest(c, s, i, rng, actions)
    earn(c, s, i, rewards)
    update_trust(c, s, i)
    turn(c, s, i, rng)
    go_on(c, i, terminated)


@kernel
def invest(c, s, i, rng, actions):
    """Set the expected fraction (the norm in good regimes, else 0) and invest for all agents."""
    s.expected[i] = c.norm if s.good[i] else 0.0
    put_in(c, s, i, rng, actions, 1.0)


@kernel
def put_in(c, s, i, rng, actions, full):
    """Clip the investments to [0, 1] and store how others observe and evaluate them.

    The expected fraction is in the state; a fraction of ``full`` gives the largest signal.
    """
    width = max(s.expected[i], full - s.expected[i])
    total = 0.0
    for a in range(c.num_agents):
        fraction = min(max(actions[i, a, 0], 0.0), 1.0)
        seen = fraction + s.noise[i] * (2.0 * uniform(rng, i) - 1.0)
        s.fraction[i, a] = fraction
        s.seen[i, a] = min(max(seen, 0.0), 1.0)
        s.signal[i, a] = min((s.seen[i, a] - s.expected[i]) / width, 1.0)
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
def standing(c, s, i, a):
    """Return the fraction of its share that ``a`` receives at the others' trust in it."""
    total = 0.0
    for b in range(c.num_agents):
        total += s.trust[i, b, a]
    mean = (total - s.trust[i, a, a]) / (c.num_agents - 1)
    return 1.0 - s.dependence[i, a] * (1.0 - mean)


@kernel
def earn(c, s, i, rewards):
    """Pay for all that was invested."""
    pay(c, s, i, s.productivity[i] * pool(c, s, i), rewards)


@kernel
def pay(c, s, i, worth, rewards):
    """Pay what agents kept and receive of ``worth``, at the trust before this step."""
    for a in range(c.num_agents):
        kept = c.endowment[a] * (1.0 - s.fraction[i, a])
        rewards[i, a] = kept + c.share[a] * worth * standing(c, s, i, a)
        s.income[i, a] = rewards[i, a]


@kernel
def update_trust(c, s, i):
    """Update the trust in each agent by the signal of its investment."""
    total = 0.0
    for a in range(c.num_agents):
        # The diagonal like the rest, so that the loop runs as vectors.
        for b in range(c.num_agents):
            s.trust[i, a, b] = moved(c, s.trust[i, a, b], s.signal[i, b], 1.0)
        s.trust[i, a, a] = 0.0  # so as not to count in the sum
        for b in range(c.num_agents):
            total += s.trust[i, a, b]
        s.trust[i, a, a] = 1.0
    s.mean_trust[i] = total / (c.num_agents * (c.num_agents - 1))
    s.trusted[i] += s.mean_trust[i]


@kernel
def moved(c, trust, signal, ceiling):
    """Return the trust in an agent after the ``signal`` of its investment."""
    # Gain and loss without a branch, for loops that run as vectors.
    good, bad = max(signal, 0.0), max(-signal, 0.0)
    trust += c.trust_gain * good * (ceiling - trust) - c.trust_loss * bad * trust
    return min(max(trust, 0.0), ceiling)


@kernel
def turn(c, s, i, rng):
    """Draw the next regime, and announce the coming step."""
    stays = uniform(rng, i) < s.persistence[i]
    s.good[i] = s.good[i] == stays
    announce(c, s, i, rng)


@kernel
def go_on(c, i, terminated):
    """Terminate no agent: episodes end only at the horizon."""
    for a in range(c.num_agents):
        terminated[i, a] = False


@kernel
def observe(c, s, i, obs):
    """Write the observation of each agent, in the order of ``layout``."""
    end = 3 * c.num_agents
    for a in range(c.num_agents):
        look_around(c, s, i, a, obs)
        obs[i, a, end] = s.productivity[i] / (1.0 + s.productivity[i])
        obs[i, a, end + 1] = s.time[i] / c.horizon


@kernel
def look_around(c, s, i, a, obs):
    """Write the first ``3 * num_agents`` numbers of the observation: ``a``, then the others."""
    n = c.num_agents
    obs[i, a, 0] = s.fraction[i, a]
    k = 0
    for b in range(n):
        if b != a:
            obs[i, a, 1 + k] = s.seen[i, b]
            obs[i, a, n + k] = s.trust[i, a, b]
            obs[i, a, 2 * n - 1 + k] = s.trust[i, b, a]
            k += 1
    income = s.income[i, a] / c.endowment[a]
    obs[i, a, 3 * n - 2] = s.dependence[i, a]
    obs[i, a, 3 * n - 1] = income / (1.0 + income)


@kernel
def global_state(c, s, i, out):
    """Fractions, trust (row by row), dependence, productivity, time, all in [0, 1]."""
    n = c.num_agents
    survey(c, s, i, out)
    out[i, 2 * n + n * n] = s.productivity[i] / (1.0 + s.productivity[i])
    out[i, 2 * n + n * n + 1] = s.time[i] / c.horizon


@kernel
def survey(c, s, i, out):
    """Write the first ``n * (n + 2)`` numbers of the global state, which describe the agents."""
    n = c.num_agents
    for a in range(n):
        out[i, a] = s.fraction[i, a]
        out[i, n + n * n + a] = s.dependence[i, a]
        for b in range(n):
            out[i, n + a * n + b] = s.trust[i, a, b]


@kernel
def measure(c, s, i, measures):
    played = max(1, s.time[i])
    measures[i, 0] = s.mean_trust[i]
    measures[i, 1] = s.invested[i] / played
    measures[i, 2] = s.trusted[i] / played
    measures[i, 3] = s.time[i]


KERNELS = Kernels(
    allocate=allocate,
    reset=reset,
    step=step,
    observe=observe,
    measure=measure,
    prepare=prepare,
    global_state=global_state,
)


def sizes(c: Any) -> dict[str, int]:
    """Sizes of the parts of one agent's observation; ``others`` are in index order."""
    others = c.num_agents - 1
    return {
        "own_action": 1,
        "others_actions": others,
        "trust_in_others": others,
        "trust_in_me": others,
        "dependence": 1,
        "income": 1,
        "productivity": 1,
        "time": 1,
    }


def layout(c: Any) -> dict[str, Part]:
    """Named parts of one agent's observation."""
    return consecutive(sizes(c))


def unit_box(size: int) -> Box:
    """Vectors of ``size`` numbers in [0, 1]."""
    return Box(0.0, 1.0, (size,), np.float32)


def game(
    *,
    id: str,
    module: str,
    params: type,
    constants: Callable[[Any], Any],
    agents: Callable[[Any], tuple[str, ...]],
    kernels: Kernels = KERNELS,
    metrics: Mapping[str, str] = METRICS,
    scratch: frozenset[str] = SCRATCH,
    layout: Callable[[Any], Mapping[str, Part]] = layout,
    actions: Callable[[Any], Mapping[str, int]] | None = None,
    world: Callable[[Any], int] = lambda c: 2 * c.num_agents + c.num_agents**2 + 2,
    facts: picture.Facts | None = None,
    **own: Any,
) -> EnvSpec:
    """Describe a game of this model.

    ``actions`` gives the sizes of the parts of an action, ``{"investment": 1, ...}``, if there are
    more than that one; in all further parts 0.5 means what is customary. ``world`` is the size of
    the global state; ``facts(constants, fields, agents)`` returns what else a picture should say;
    ``own`` goes to ``EnvSpec`` as it is.
    """
    acted = actions or (lambda c: {"investment": 1})
    usual: dict[str, Any] = {
        "observation_space": lambda c, agent: unit_box(max(p.stop for p in layout(c).values())),
        "action_space": lambda c, agent: unit_box(sum(acted(c).values())),
        "action_layout": lambda c: consecutive(acted(c)),
        "layout": layout,
        "picture": partial(picture.venture, facts=facts),
        "text": partial(picture.venture_text, facts=facts),
        "global_state_space": lambda c: unit_box(world(c)),
        "trace": trace,
        "episode_metrics": EPISODE,
        "agent_metrics": AGENT,
        "source": f"coopbench, {id.split('/')[1]}",
    }
    return EnvSpec(
        id=id,
        module=module,
        kernels=kernels,
        params=params,
        constants=constants,
        agents=agents,
        metrics=metrics,
        scratch=scratch,
        **(usual | own),
    )


def trace(c: Any, s: Any) -> dict[str, np.ndarray]:
    """Return the input of the trajectory metrics, (lanes, agents) each."""
    others = c.num_agents - 1
    return {
        "fraction": s.fraction,
        "baseline": np.broadcast_to(s.expected[:, None], s.fraction.shape),
        "trust_given": (s.trust.sum(axis=2) - 1.0) / others,
        "trust_received": (s.trust.sum(axis=1) - 1.0) / others,
    }
