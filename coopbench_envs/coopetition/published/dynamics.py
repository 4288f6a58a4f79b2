"""The model that all coopetition games share: trust, reputation damage, value and payoff.

An agent's payoff is what it does not invest, plus a logarithmic value of its investment, plus a
share of the synergy. Its utility adds the payoffs of others, weighted by how much it depends on
them and trusts them.
Equations: docs/environments/coopetition.md. Source: the published Coopetition-Gym suite.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from coopbench_envs.coopetition import model, picture
from coopbench_envs.coopetition.model import go_on, measure
from coopbench_envs.core import EnvSpec, Kernels, kernel, per_agent, per_pair
from coopbench_envs.elementary import exponential, logarithm
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.parameters import between, one_of
from coopbench_envs.states import array, state

REWARD_TYPES = ("integrated", "private", "cooperative")
INTEGRATED, PRIVATE, COOPERATIVE = range(3)

_FACTORS = 16  # investments in [1e-10, 1e12] whose product is a normal number

RewardType = Annotated[
    str,
    one_of(
        REWARD_TYPES,
        "integrated: own payoff plus trust-weighted others'; private; cooperative: the mean",
    ),
]
Normalize = Annotated[bool, one_of((), "divide rewards by the largest endowment")]
RewardScale = Annotated[float, between(-1e9, 1e9, "factor on every reward")]


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 100
    reward_type: RewardType = "integrated"
    normalize: Normalize = False
    reward_scale: RewardScale = 1.0


METRICS = {
    "final_trust": "mean of all pairwise trust after the last step, in [0, 1]",
    "cooperation_rate": "mean over steps and agents of investment as a share of own endowment",
    "mean_trust": "mean over steps of the mean pairwise trust, in [0, 1]",
    "length": "steps played",
}


class Constants(NamedTuple):
    """Numbers and arrays of one game, as the kernels read them."""

    num_agents: int
    horizon: int  # steps of an episode
    endowment: np.ndarray  # (agents,) units an agent can invest each step
    baseline: np.ndarray  # (agents,) units below which others read defection
    alpha: np.ndarray  # (agents,) bargaining shares of the synergy, sum 1
    dependence: np.ndarray  # (agents, agents) how much i depends on j, zero diagonal
    theta: float  # weight of the own investment's value
    gamma: float  # weight of the synergy
    trust_gain: float  # per step, at full signal
    trust_loss: float  # per step, at full signal
    damage_gain: float  # reputation damage per step, at full defection
    damage_decay: float  # share of the damage that is forgotten per step
    dependence_loss: float  # how much more trust is lost per unit of dependence
    sensitivity: float  # of the trust signal, per unit of investment
    initial_trust: float  # of each in every other one, in [0, 1]
    initial_damage: float  # of each against every other one, in [0, 1]
    reward_type: int  # position in REWARD_TYPES
    reward_factor: float  # reward_scale, over the largest endowment if normalised


def unit_bounds(c: Any) -> tuple[float, np.ndarray]:
    """Bounds of investments in states from outside: observations show them as they are."""
    return 0.0, c.endowment


State = state(
    __name__,
    trust=array(
        "trust of a in b, in [0, 1]; diagonal 1",
        "num_agents",
        "num_agents",
        bounds=model.share_bounds,
    ),
    reputation=array(
        "damage that a holds against b, in [0, 1]; diagonal 0",
        "num_agents",
        "num_agents",
        bounds=model.share_bounds,
    ),
    last_action=array(
        "last investment in units, within [0, endowment]", "num_agents", bounds=unit_bounds
    ),
    payoff=array("payoff of the last step, without the others' payoffs", "num_agents", start=0),
    utility=array("trust-weighted utility of the last step", "num_agents", start=0),
    invested=array("running sum of mean shares, for the cooperation rate", start=0),
    trusted=array("running sum of mean trust", start=0),
    signal=array("signal of the last investment, in [-1, 1]", "num_agents", scratch=True),
    mean_trust=array("mean of all pairwise trust", scratch=True),
    joint=array("synergy of the last investments, by its weight", scratch=True),
)


def make_constants(
    params: Any,
    *,
    endowment: Sequence[float] | np.ndarray,
    baseline_share: float | np.ndarray,
    dependence: float | np.ndarray,
    alpha: Sequence[float] | None = None,
    initial_damage: float = 0.0,
    kind: Any = Constants,
    **model: Any,
) -> Any:
    """Return the constants of a game, computed from its parameters.

    Args:
        params: ``horizon``, ``reward_type``, ``reward_scale`` and ``normalize`` are read from it.
        endowment: Units that each agent can invest per step, > 0.
        baseline_share: Share of the endowment below which others read defection, in [0, 1], of all
            agents or of each.
        dependence: How much agent i depends on j, (agents, agents) with a zero diagonal, or one
            number for every pair.
        alpha: Shares of the synergy, with sum 1; None: equal shares.
        initial_damage: Of each against every other one, in [0, 1].
        kind: The game's tuple of constants.
        model: The other fields of ``kind``.
    """
    units = np.asarray(endowment, np.float64)
    n = len(units)
    pairs = dependence if isinstance(dependence, np.ndarray) else dependence * (1.0 - np.eye(n))
    return kind(
        num_agents=n,
        horizon=params.horizon,
        endowment=units,
        baseline=baseline_share * units,
        alpha=np.asarray(alpha if alpha is not None else [1.0 / n] * n, np.float64),
        dependence=np.asarray(pairs, np.float64),
        initial_damage=initial_damage,
        reward_type=REWARD_TYPES.index(params.reward_type),
        # A number of NumPy's would be another type, for which games are compiled once more.
        reward_factor=float(params.reward_scale / (units.max() if params.normalize else 1.0)),
        **model,
    )


@kernel
def reset(c, s, i, rng):
    for a in range(c.num_agents):
        s.last_action[i, a] = c.baseline[a]
        for b in range(c.num_agents):
            s.trust[i, a, b] = 1.0 if a == b else c.initial_trust
            s.reputation[i, a, b] = 0.0 if a == b else c.initial_damage


@kernel
def prepare(c, s, i):
    total = 0.0
    for a in range(c.num_agents):
        s.signal[i, a] = 0.0
        for b in range(c.num_agents):
            if a != b:
                total += s.trust[i, a, b]
    s.mean_trust[i] = total / (c.num_agents * (c.num_agents - 1))
    s.joint[i] = 0.0


@per_agent
def invest(c, s, i, a, rng, actions, rewards, terminated):
    """Clip the action to [0, endowment] and compute the signal that others read from it."""
    units = min(max(actions[i, a, 0], 0.0), c.endowment[a])
    s.last_action[i, a] = units
    s.signal[i, a] = squash(c.sensitivity * (units - c.baseline[a]))


@kernel
def count(c, s, i, rng, actions, rewards, terminated):
    """Add the mean share of the endowments that was invested to its sum over steps."""
    share = 0.0
    for a in range(c.num_agents):
        share += s.last_action[i, a] / c.endowment[a]
    s.invested[i] += share / c.num_agents
    s.mean_trust[i] = 0.0


@kernel
def squash(x):
    """Return tanh(x) to 1e-16, without branches and in half the time of libm's function."""
    fades = exponential(-2.0 * min(abs(x), 20.0))
    return math.copysign((1.0 - fades) / (1.0 + fades), x)


@per_pair
def update_trust(c, s, i, a, b, rng, actions, rewards, terminated):
    """Update the trust of ``a`` in ``b`` and the damage, from the signal of the last investment.

    Trust grows slowly towards a ceiling of 1 - damage, and falls fast.
    """
    good, bad = max(s.signal[i, b], 0.0), max(-s.signal[i, b], 0.0)
    trust, damage = s.trust[i, a, b], s.reputation[i, a, b]
    ceiling = 1.0 - damage
    room = max(0.0, min(1.0 - trust, ceiling - trust))
    fragility = 1.0 + c.dependence_loss * c.dependence[a, b]
    trust += c.trust_gain * good * room - c.trust_loss * bad * trust * fragility
    trust = min(max(trust, 0.0), ceiling)
    decay = 0.0 if bad > 0.0 else c.damage_decay
    damage += c.damage_gain * bad * (1.0 - damage) - decay * damage
    s.trust[i, a, b] = 1.0 if a == b else trust
    s.reputation[i, a, b] = 0.0 if a == b else min(max(damage, 0.0), 1.0)


@per_pair
def add_trust(c, s, i, a, b, rng, actions, rewards, terminated):
    """Add the trust of ``a`` in ``b`` to the sum over all pairs."""
    s.mean_trust[i] += 0.0 if a == b else s.trust[i, a, b]


@kernel
def average(c, s, i, rng, actions, rewards, terminated):
    """Divide the sum of all trust by the pairs, and add the mean to its sum over steps."""
    s.mean_trust[i] /= c.num_agents * (c.num_agents - 1)
    s.trusted[i] += s.mean_trust[i]


@kernel
def synergy(c, s, i):
    """Return the geometric mean of all investments, which is 0 if any agent invests nothing."""
    logs, product, least = 0.0, 1.0, math.inf
    for a in range(c.num_agents):
        units = s.last_action[i, a]
        least = min(least, units)
        product *= units
        # One logarithm for as many factors as fit; those of a few investments that count all do.
        if c.num_agents > _FACTORS and (product > 1e200 or product < 1e-200):
            logs += logarithm(product)
            product = 1.0
    mean = exponential((logs + logarithm(product)) / c.num_agents)
    return mean if least > 1e-10 else 0.0


@kernel
def produce(c, s, i, rng, actions, rewards, terminated):
    s.joint[i] = c.gamma * synergy(c, s, i)


@per_agent
def pay(c, s, i, a, rng, actions, rewards, terminated):
    """Compute the payoff of ``a`` from its investment and its share of what all produce."""
    units = s.last_action[i, a]
    value = c.theta * logarithm(1.0 + units)
    s.payoff[i, a] = (c.endowment[a] - units) + value + c.alpha[a] * s.joint[i]
    s.utility[i, a] = 0.0


@per_pair
def depend(c, s, i, a, b, rng, actions, rewards, terminated):
    """Add the payoff of ``b`` to the utility of ``a``, weighted by dependence and trust.

    The diagonal of the dependence is zero.
    """
    weight = min(s.trust[i, a, b], 1.0 - s.reputation[i, a, b]) * c.dependence[a, b]
    s.utility[i, a] += weight * s.payoff[i, b]


@kernel
def earn(c, s, i, rng, actions, rewards, terminated):
    """Add the own payoffs to the utilities, and write all rewards."""
    total = 0.0
    for a in range(c.num_agents):
        s.utility[i, a] = s.payoff[i, a] + s.utility[i, a]
        total += s.utility[i, a]
    for a in range(c.num_agents):
        reward = s.utility[i, a]
        if c.reward_type == PRIVATE:
            reward = s.payoff[i, a]
        elif c.reward_type == COOPERATIVE:
            reward = total / c.num_agents
        rewards[i, a] = reward * c.reward_factor


# A step of the common model, part by part: a game adds its own parts behind, or replaces some.
STEP = (
    invest,
    count,
    update_trust,
    add_trust,
    average,
    produce,
    pay,
    depend,
    earn,
    go_on,
)


@kernel
def observe(c, s, i, obs):
    """Write investments, trust, damage, dependence and time, in the order of ``layout``."""
    n = c.num_agents
    damage = n + n * n
    blame = damage + n
    for b in range(n):
        for other in range(n):
            obs[i, 0, n + b * n + other] = s.trust[i, b, other]
    for a in range(n):
        obs[i, a, 0] = s.last_action[i, a]
        for k in range(n * n):  # copied in one go, three times as fast as a second loop over trust
            obs[i, a, n + k] = obs[i, 0, n + k]
        for b in range(n):
            obs[i, a, damage + b] = s.reputation[i, a, b]
            obs[i, a, blame + n - 1 + b] = c.dependence[a, b]
        obs[i, a, blame + 2 * n - 1] = s.time[i] / c.horizon
    for b in range(n):  # others' observations skip their own entry: those after it move up by one
        total = 0.0
        for other in range(n):
            total += s.reputation[i, b, other]
        for a in range(n):
            if a != b:
                place = b - 1 if b > a else b
                obs[i, a, 1 + place] = s.last_action[i, b]
                obs[i, a, blame + place] = total / n


@kernel
def global_state(c, s, i, out):
    """Write investments, trust, damage and dependence (matrices row by row), and steps played."""
    n = c.num_agents
    for a in range(n):
        out[i, a] = s.last_action[i, a]
        for b in range(n):
            k = n + a * n + b
            out[i, k] = s.trust[i, a, b]
            out[i, k + n * n] = s.reputation[i, a, b]
            out[i, k + 2 * n * n] = c.dependence[a, b]
    out[i, n + 3 * n * n] = s.time[i]


@kernel
def global_state_and_shown(c, s, i, out):
    """Write the common global state, and ``shown``, what a game tells there of each agent."""
    global_state(c, s, i, out)
    first = out.shape[1] - c.num_agents
    for a in range(c.num_agents):
        out[i, first + a] = s.shown[i, a]


KERNELS = Kernels(
    state=State,
    reset=reset,
    step=STEP,
    observe=observe,
    measure=measure,
    prepare=prepare,
    global_state=global_state,
)


# What the parts of observations are.
MEANINGS = {
    "own_action": "own last investment, in units",
    "others_actions": "others' last investments, in units",
    "trust": "row a, column b: trust of agent a in agent b",
    "trust_in_others": "own trust in each of the others",
    "own_damage": "damage to the own trust in each agent",
    "others_mean_damage": "damage to the trust of each other agent, mean over all agents",
    "dependence": "how much the agent depends on each agent",
    "time": "steps played / horizon",
}


def layout(c: Any) -> dict[str, Part]:
    """Return the named parts of one agent's observation; others are in the order of their index."""
    n = c.num_agents
    shapes: dict[str, int | tuple[int, ...]] = {
        "own_action": 1,
        "others_actions": n - 1,
        "trust": (n, n),
        "own_damage": n,
        "others_mean_damage": n - 1,
        "dependence": n,
        "time": 1,
    }
    return consecutive(shapes, MEANINGS)


def observation_space(c: Any, agent: int) -> Box:
    """Return the bounds of an agent's observation: investments in units, the rest in [0, 1]."""
    n = c.num_agents
    others = [c.endowment[b] for b in range(n) if b != agent]
    rest = n * n + n + (n - 1)
    reach = np.maximum(1.0, np.abs(c.dependence[agent]))
    high = np.concatenate([[c.endowment[agent]], others, np.ones(rest), reach, [1.0]])
    low = np.zeros_like(high)
    return Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)


def action_space(c: Any, agent: int) -> Box:
    """Return the bounds of an agent's action: the units that it invests, in [0, endowment]."""
    return Box(0.0, float(c.endowment[agent]), (1,), np.float32)


def global_state_space(c: Any) -> Box:
    """Return the bounds of the vector that ``global_state`` writes."""
    n = c.num_agents
    reach = np.maximum(1.0, np.abs(c.dependence)).ravel()
    high = np.concatenate([c.endowment, np.ones(2 * n * n), reach, [c.horizon]])
    return Box(np.zeros_like(high).astype(np.float32), high.astype(np.float32), dtype=np.float32)


def global_state_and_shown_space(c: Any) -> Box:
    """Return the bounds of the vector that ``global_state_and_shown`` writes."""
    n = c.num_agents
    return appended(global_state_space(c), [0.0] * n, [1.0] * n)


def appended(space: Box, low: Sequence[float], high: Sequence[float]) -> Box:
    """Return ``space`` with further entries at its end, whose bounds are ``low`` and ``high``."""
    return Box(
        np.concatenate([space.low, np.asarray(low, np.float32)]),
        np.concatenate([space.high, np.asarray(high, np.float32)]),
        dtype=np.float32,
    )


def trace(c: Any, s: Any) -> dict[str, np.ndarray]:
    """Return the arrays named in ``TRACES``: (lanes, agents), and (agents,) for ``baseline``."""
    others = c.num_agents - 1  # the diagonal of trust is 1 and does not count
    return {
        "fraction": s.last_action / c.endowment,
        "baseline": c.baseline / c.endowment,
        "trust_given": (s.trust.sum(axis=2) - 1.0) / others,
        "trust_received": (s.trust.sum(axis=1) - 1.0) / others,
    }


def game(**own: Any) -> EnvSpec:
    """Return the specification of a game of this model.

    ``own`` are the fields of ``EnvSpec`` that the game does not share with the other games.
    """
    usual: dict[str, Any] = {
        "kernels": KERNELS,
        "metrics": METRICS,
        "observation_space": observation_space,
        "action_space": action_space,
        "layout": layout,
        "picture": picture.picture(picture.panels),
        "scene": picture.scene(picture.panels, own["agents"]),
        "text": picture.text,
        "global_state_space": global_state_space,
        "trace": trace,
        "source": f"Coopetition-Gym, {own['id'].split('/')[1]}",
    }
    return model.game(**(usual | own))
