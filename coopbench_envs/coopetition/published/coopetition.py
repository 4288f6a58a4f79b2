"""Coopetition: agents with parameters of your own invest in a venture under the published model.

The other games of version 0 are this one with fixed parameters; some add an early end, or factors
on rewards. Page: docs/environments/coopetition.md.
"""

from typing import Annotated, NamedTuple

import numpy as np

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import dynamics
from coopbench_envs.parameters import between, describe, positive


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
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> dynamics.Constants:
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


SPEC = dynamics.game(
    id="coopbench/Coopetition-v0",
    module=__name__,
    params=Params,
    constants=constants,
    agents=model.named("agent"),
    source="the model of Coopetition-Gym",
)
