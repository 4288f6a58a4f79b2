"""Coopetition: agents with parameters of your own invest in a venture under the published model.

The other games of version 0 are this one with fixed parameters; some add an early end, or factors
on rewards. Page: docs/environments/coopetition.md.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import dynamics
from coopbench_envs.core import kernel
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.parameters import between, describe, one_of, positive

OBSERVATIONS = ("full", "asymmetric", "minimal")
FULL, ASYMMETRIC, MINIMAL = range(3)

Constants = model.extended(
    dynamics.Constants,
    __name__,
    observation="position in OBSERVATIONS",
    timed="bool: observations end with the time",
)


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol.

    The defaults are those of the published model.
    """

    num_agents: Annotated[int, between(2, 128, "agents")] = 2
    horizon: model.Horizon = 100
    endowments: Annotated[
        float | tuple[float, ...], positive(1e6, "units to invest per step; a list: by agent")
    ] = 100.0
    baseline_share: Annotated[
        float | tuple[float, ...],
        between(0, 1, "share of the endowment below which others read defection; a list: by agent"),
    ] = 0.30
    alpha: Annotated[
        tuple[float, ...] | None, between(0, 1, "shares of the synergy, sum 1; None: equal ones")
    ] = None
    dependence: Annotated[
        float | tuple[tuple[float, ...], ...],
        between(0, 1, "of each on each other; a matrix: row a of agent a, with a zero diagonal"),
    ] = 0.50
    theta: Annotated[float, between(0, 1e6, "weight of the own investment's value")] = 20.0
    gamma: Annotated[float, between(0, 1e6, "weight of the synergy")] = 0.65
    trust_gain: Annotated[float, between(0, 1, "trust gained at full signal")] = 0.10
    trust_loss: Annotated[float, between(0, 1, "trust lost at full signal")] = 0.30
    damage_gain: Annotated[float, between(0, 1, "damage gained at full defection")] = 0.60
    damage_decay: Annotated[float, between(0, 1, "share of damage forgotten per step")] = 0.03
    dependence_loss: Annotated[
        float, between(0, 1e3, "how much more trust is lost per unit of dependence")
    ] = 0.50
    sensitivity: Annotated[float, between(0, 1e3, "slope of the trust signal, per unit")] = 1.0
    initial_trust: Annotated[float, between(0, 1, "initial trust of each in each other")] = 0.50
    initial_damage: Annotated[float, between(0, 1, "initial damage of each against each other")] = (
        0.0
    )
    observation: Annotated[
        str,
        one_of(
            OBSERVATIONS,
            "full: the trust of all in all; asymmetric: the agent's own trust in others; minimal: "
            "its last investment and its own trust",
        ),
    ] = "full"
    observe_time: Annotated[
        bool, one_of((), "whether observations have the time; minimal ones never do")
    ] = True
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> Any:
    """Return the constants of agents as the parameters describe them."""
    pairs = _numbers(p, "dependence", 2)
    if pairs.ndim and np.diag(pairs).any():
        raise _refused(p, "dependence", "a matrix with a diagonal of zeros")
    if p.alpha is not None and abs(_numbers(p, "alpha", 1).sum() - 1.0) > 1e-6:
        raise _refused(p, "alpha", "shares with sum 1")
    return dynamics.make_constants(
        p,
        endowment=np.broadcast_to(_numbers(p, "endowments", 1), p.num_agents),
        baseline_share=_numbers(p, "baseline_share", 1),
        alpha=p.alpha,
        dependence=pairs if pairs.ndim else float(pairs),
        theta=p.theta,
        gamma=p.gamma,
        trust_gain=p.trust_gain,
        trust_loss=p.trust_loss,
        damage_gain=p.damage_gain,
        damage_decay=p.damage_decay,
        dependence_loss=p.dependence_loss,
        sensitivity=p.sensitivity,
        initial_trust=p.initial_trust,
        initial_damage=p.initial_damage,
        kind=Constants,
        observation=OBSERVATIONS.index(p.observation),
        timed=p.observe_time and p.observation != "minimal",
    )


def _numbers(p: Params, name: str, dimensions: int) -> np.ndarray:
    """Return a parameter, one number or one for each agent or pair, as an array."""
    shape, allowed = (p.num_agents,) * dimensions, describe(Params)[name][2]
    try:
        array = np.asarray(getattr(p, name), np.float64)
    except ValueError:  # rows of several lengths
        array = np.empty(0)
    if array.shape not in ((), shape) or not all(map(allowed.admits, array.ravel().tolist())):
        size = " x ".join(map(str, shape))
        raise _refused(p, name, f"{size} numbers {allowed}, as num_agents is {p.num_agents}")
    return array


def _refused(p: Params, name: str, allowed: str) -> ValueError:
    given = getattr(p, name)
    return ValueError(f"Parameter {name!r} of {SPEC.id} was {given!r}; allowed: {allowed}.")


@kernel
def observe(c, s, i, obs):
    """Write the parts of ``layout`` in their order."""
    n = c.num_agents
    for a in range(n):
        obs[i, a, 0] = s.last_action[i, a]
        k = 1
        if c.observation != MINIMAL:
            for b in range(n):
                if b != a:
                    obs[i, a, k] = s.last_action[i, b]
                    k += 1
        for b in range(n):
            for other in range(n):
                if c.observation == FULL or (a == b and other != a):
                    obs[i, a, k] = s.trust[i, b, other]
                    k += 1
        if c.observation != MINIMAL:
            for b in range(n):
                obs[i, a, k + b] = s.reputation[i, a, b]
            k += n
            for b in range(n):
                if b != a:
                    total = 0.0
                    for other in range(n):
                        total += s.reputation[i, b, other]
                    obs[i, a, k] = total / n
                    k += 1
            for b in range(n):
                obs[i, a, k + b] = c.dependence[a, b]
            if c.timed:
                obs[i, a, k + n] = s.time[i] / c.horizon


def layout(c: Any) -> dict[str, Part]:
    """Return the named parts of one agent's observation; others are in the order of their index."""
    others = c.num_agents - 1
    if c.observation == MINIMAL:
        return consecutive({"own_action": 1, "trust_in_others": others}, dynamics.MEANINGS)
    shapes: dict[str, int | tuple[int, ...]] = {}
    for name, part in dynamics.layout(c).items():
        if name == "trust" and c.observation == ASYMMETRIC:
            shapes["trust_in_others"] = others
        elif name != "time" or c.timed:
            shapes[name] = part.shape
    return consecutive(shapes, dynamics.MEANINGS)


def observation_space(c: Any, agent: int) -> Box:
    """Return the bounds of an agent's observation: those of its parts in the full one."""
    full, parts = dynamics.observation_space(c, agent), dynamics.layout(c)
    bounds = []
    for name, part in layout(c).items():
        begin = parts["trust" if name == "trust_in_others" else name].start
        bounds.append(slice(begin, begin + part.size))
    low, high = (np.concatenate([ends[part] for part in bounds]) for ends in (full.low, full.high))
    return Box(low, high, dtype=np.float32)


SPEC = dynamics.game(
    id="coopbench/Coopetition-v0",
    module=__name__,
    kernels=dynamics.KERNELS._replace(observe=observe),
    params=Params,
    constants=constants,
    agents=model.named("agent"),
    observation_space=observation_space,
    layout=layout,
    source="the model of Coopetition-Gym",
)
