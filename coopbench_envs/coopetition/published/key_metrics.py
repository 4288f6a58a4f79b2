"""Metrics that the published protocol names for single games, without defining them.

Definitions: docs/metrics.md. Formulas take ``played`` and traces as those of ``trajectories`` do.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from coopbench_envs.coopetition.published import dynamics
from coopbench_envs.coopetition.trajectories import final
from coopbench_envs.core import TrajectoryMetric
from coopbench_envs.elementary_arrays import exponentials, logarithms

__all__ = [
    "PARTNERS",
    "PLATFORM",
    "RENAULT_NISSAN",
    "SYNERGY",
    "alliance_trace",
    "partners_trace",
    "platform_trace",
    "synergy_trace",
]

# Trust below which an agent no longer counts as retained: where PlatformEcosystem ends.
STAYS = 0.15
SETTLED = 0.05  # share of the endowment within which investments count as settled


# --- several games --------------------------------------------------------------------------------


def welfare(played: np.ndarray, payoff: np.ndarray) -> np.ndarray:
    """Sum over agents and steps of the payoffs, without the weights of trust, (episodes,)."""
    return np.asarray(payoff[1:].sum(axis=0, where=played[:, :, None]).sum(axis=1))


def _mean(played: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Mean over the steps that were played of (steps, episodes) values, (episodes,)."""
    steps = np.maximum(1, played.sum(axis=0))
    return np.asarray(values.sum(axis=0, where=played) / steps)


def network_effect(played: np.ndarray, fraction: np.ndarray) -> np.ndarray:
    """Mean over steps of the synergy as a share of that of full investment, in [0, 1].

    The synergy is the geometric mean of the investments, hence the share that of the fractions.
    """
    # Step by step: arrays that fit into the cache. A fraction of 0 has the logarithm -inf, hence no
    # synergy.
    steps = [exponentials(logarithms(values).mean(axis=1)) for values in fraction[1:]]
    return _mean(played, np.array(steps).reshape(played.shape))


WELFARE = TrajectoryMetric(
    "sum over agents and steps of the payoffs, without those of others", ("payoff",), welfare
)
NETWORK_EFFECT = TrajectoryMetric(
    "mean over steps of the synergy as a share of that of full investment, in [0, 1]",
    ("fraction",),
    network_effect,
)


# --- PlatformEcosystem ----------------------------------------------------------------------------


def platform_developer_trust(played: np.ndarray, bond: np.ndarray) -> np.ndarray:
    """Mean after the last step of the trust between the platform and developers, both ways."""
    last = final(played, bond)
    return np.asarray((last[:, 0] + last[:, 1:].mean(axis=1)) / 2.0)


def retention(played: np.ndarray, bond: np.ndarray) -> np.ndarray:
    """Share of developers whose trust in the platform after the last step is at least 0.15."""
    return np.asarray((final(played, bond)[:, 1:] >= STAYS).mean(axis=1))


def platform_trace(c: Any, s: Any) -> Mapping[str, np.ndarray]:
    """Return the traces of all games, payoffs, and the trust between platform and developers.

    "bond" of the platform is its mean trust in the developers; theirs is their trust in it.
    """
    bond = s.trust[:, :, 0].copy()
    bond[:, 0] = s.trust[:, 0, 1:].mean(axis=1)
    return dynamics.trace(c, s) | {"payoff": s.payoff, "bond": bond}


PLATFORM = {
    "welfare": WELFARE,
    "platform_developer_trust": TrajectoryMetric(
        "mean trust between platform and developers, both ways, after the last step, in [0, 1]",
        ("bond",),
        platform_developer_trust,
    ),
    "retention": TrajectoryMetric(
        "share of developers whose trust in the platform is at least 0.15 after the last step",
        ("bond",),
        retention,
    ),
    "network_effect": NETWORK_EFFECT,
}


# --- DynamicPartnerSelection ----------------------------------------------------------------------


def trusted(played: np.ndarray, trust_received: np.ndarray) -> np.ndarray:
    """Share of partners that the others trust at least 0.15 on average after the last step."""
    return np.asarray((final(played, trust_received) >= STAYS).mean(axis=1))


def partners_trace(c: Any, s: Any) -> Mapping[str, np.ndarray]:
    """Return the traces of all games, and payoffs."""
    return dynamics.trace(c, s) | {"payoff": s.payoff}


PARTNERS = {
    "welfare": WELFARE,
    "retention": TrajectoryMetric(
        "share of partners that the others trust at least 0.15 on average after the last step",
        ("trust_received",),
        trusted,
    ),
    "network_effect": NETWORK_EFFECT,
}


# --- SynergySearch --------------------------------------------------------------------------------


def synergy_trace(c: Any, s: Any) -> Mapping[str, np.ndarray]:
    """Return the traces of all games, payoffs, and what an informed firm would do.

    "best" is the investment that is best for both at the hidden weight, as a fraction, "middle"
    that at the middle of the weight's range, "optimum" half of the welfare of a step at the best;
    "inferred" is the weight at which a firm's last investment would be best.
    """
    n = c.num_agents
    best = _best(c, s.gamma)
    payoff = c.endowment[0] - best + c.theta * logarithms(1.0 + best) + s.gamma * best / n
    middle = _best(c, np.array([(c.gamma_low + c.gamma_high) / 2.0]))
    shares = {"best": best / c.endowment[0], "optimum": payoff, "weight": s.gamma}
    return (
        dynamics.trace(c, s)
        | {name: np.repeat(value[:, None], n, axis=1) for name, value in shares.items()}
        | {"payoff": s.payoff, "middle": np.repeat(middle / c.endowment[0], n)}
        | {"inferred": _inferred(c, s.last_action)}
    )


def _best(c: Any, gamma: np.ndarray) -> np.ndarray:
    """Return the equal investments of two firms with the largest sum of payoffs in a step.

    They solve theta / (1 + a) + gamma / 2 = 1; from a weight of 2 on they are the endowment.
    """
    slack = np.maximum(1e-12, 1.0 - gamma / 2.0)
    return np.asarray(np.clip(c.theta / slack - 1.0, 0.0, c.endowment[0]))


def _inferred(c: Any, units: np.ndarray) -> np.ndarray:
    """Return the weights, in their range, at which equal investments of ``units`` are best."""
    weights = 2.0 * (1.0 - c.theta / (1.0 + units))
    return np.asarray(np.clip(weights, c.gamma_low, c.gamma_high))


def inference_accuracy(
    played: np.ndarray, fraction: np.ndarray, best: np.ndarray, middle: np.ndarray
) -> np.ndarray:
    """Share of firms and steps on the side of the middle where the best investment lies."""
    right = (fraction[1:] > middle[1:]) == (best[1:] > middle[1:])
    return _mean(played, right.mean(axis=2))


def exploration_steps(played: np.ndarray, fraction: np.ndarray) -> np.ndarray:
    """Steps after which all investments stay within 0.05 of the last ones, (episodes,)."""
    last = final(played, fraction)
    away = (np.abs(fraction[1:] - last) > SETTLED).any(axis=2) & played
    steps = np.arange(1, len(played) + 1)[:, None]
    return np.asarray(np.where(away, steps, 0).max(axis=0, initial=0).astype(np.float64))


def regret(played: np.ndarray, payoff: np.ndarray, optimum: np.ndarray) -> np.ndarray:
    """Welfare of two informed firms minus that of the play, over all steps, (episodes,)."""
    return welfare(played, optimum) - welfare(played, payoff)


def synergy_weight(played: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the hidden weight of the synergy, (episodes,)."""
    return np.asarray(weight[0, :, 0].copy())


def inferred_weight(played: np.ndarray, inferred: np.ndarray) -> np.ndarray:
    """Mean over firms of the weight at which the investment of the last step would be best."""
    return np.asarray(final(played, inferred).mean(axis=1))


SYNERGY = {
    "welfare": WELFARE,
    "inference_accuracy": TrajectoryMetric(
        "share of firms and steps whose investment is on the right side of the middle",
        ("fraction", "best", "middle"),
        inference_accuracy,
    ),
    "exploration_steps": TrajectoryMetric(
        "steps after which all investments stay within 5 % of the endowment of the last ones",
        ("fraction",),
        exploration_steps,
    ),
    "regret": TrajectoryMetric(
        "welfare of two firms that know the weight minus that of this play, over all steps",
        ("payoff", "optimum"),
        regret,
    ),
    "synergy_weight": TrajectoryMetric(
        "hidden weight of the synergy in the episode", ("weight",), synergy_weight
    ),
    "inferred_weight": TrajectoryMetric(
        "mean over firms of the weight at which their last investment would be best",
        ("inferred",),
        inferred_weight,
    ),
}


# --- RenaultNissan --------------------------------------------------------------------------------


def alliance_trace(c: Any, s: Any) -> Mapping[str, np.ndarray]:
    """Return the traces of all games and the level of the phase.

    "level" is the equilibrium of agents with the trust at the beginning of the phase, as fractions.
    """
    pairs = tuple(map(float, c.dependence[~np.eye(2, dtype=np.bool_)]))
    weight = min(c.initial_trust, 1.0 - c.initial_damage)
    alpha, endowment = tuple(map(float, c.alpha)), tuple(map(float, c.endowment))
    level = _equilibrium(pairs, weight, alpha, endowment, c.theta, c.gamma)
    return dynamics.trace(c, s) | {"level": np.array(level)}


@lru_cache(maxsize=64)
def _equilibrium(
    dependence: tuple[float, float],
    weight: float,
    alpha: tuple[float, float],
    endowment: tuple[float, float],
    theta: float,
    gamma: float,
) -> tuple[float, float]:
    """Return the fractions at which neither of two agents gains by investing more or less.

    Agent i maximises its payoff plus weight D_ij times that of the other: theta / (1 + a_i) +
    gamma / 2 sqrt(a_j / a_i) (alpha_i + weight D_ij alpha_j) = 1, solved by turns.
    """
    shares = [alpha[i] + weight * dependence[i] * alpha[1 - i] for i in range(2)]
    level = [0.3 * units for units in endowment]
    for _ in range(200):
        for i in range(2):
            low, high = 1e-9, endowment[i]
            for _ in range(60):
                a = (low + high) / 2.0
                slope = theta / (1.0 + a) + gamma / 2.0 * (level[1 - i] / a) ** 0.5 * shares[i]
                low, high = (a, high) if slope > 1.0 else (low, a)
            level[i] = (low + high) / 2.0
    return level[0] / endowment[0], level[1] / endowment[1]


def phase_matching(played: np.ndarray, fraction: np.ndarray, level: np.ndarray) -> np.ndarray:
    """One minus the mean distance of the fractions from the level of the phase, in [0, 1]."""
    return _mean(played, 1.0 - np.abs(fraction[1:] - level[1:]).mean(axis=2))


RENAULT_NISSAN = {
    "phase_matching": TrajectoryMetric(
        "one minus the mean distance of fractions from the equilibrium of the phase, in [0, 1]",
        ("fraction", "level"),
        phase_matching,
    ),
}
