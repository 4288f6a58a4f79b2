"""Trajectories: metrics of trust and exploitation over the whole course of an episode.

Formulas take ``played``, (steps, episodes) bool, whether step t + 1 was part of the episode, and
traces, (steps + 1, episodes, agents), whose entry 0 is the state after the reset and entry t that
after step t. T is the number of steps of an episode; without any step, means over steps are 0.
"""

import numpy as np

from coopbench_envs.core import TrajectoryMetric

__all__ = ["AGENT", "EPISODE", "TRACES"]

# The traces of the games of this family: (lanes, agents), or (agents,) if the same in all lanes.
TRACES = {
    "fraction": "last investment as a share of the agent's endowment, in [0, 1]",
    "baseline": "fraction below which others read the last investment as defection",
    "trust_given": "mean trust of the agent in the others, or mean record of these, in [0, 1]",
    "trust_received": "mean trust of the others in the agent, or its public record, in [0, 1]",
}
FALL = 0.5  # share of the initial trust below which trust has fallen
RETURN = 0.8  # share of the trust before the fall at which it has recovered


# --- one value per episode ------------------------------------------------------------------------


def trust_stability(played: np.ndarray, trust_received: np.ndarray) -> np.ndarray:
    """Variance of trust over an episode, (episodes,) in [0, 1/4]; 0 is the most stable.

    With the mean trust m_t that agents receive, the variance of m_0, ..., m_T with divisor T + 1.
    """
    counted = np.concatenate([np.ones((1, played.shape[1]), np.bool_), played])
    return np.asarray(trust_received.mean(axis=2).var(axis=0, where=counted))


def exploitation_rate(played: np.ndarray, fraction: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """Share of ordered pairs of agents and steps with exploitation, (episodes,) in [0, 1/2].

    sum over t = 1..T and i != j of [x_i < b_i and x_j >= b_j] / (n (n - 1) T), with the fraction x
    and the baseline b of step t. Of a pair at most one exploits the other, hence at most 1/2.
    """
    return np.asarray(exploiting(played, fraction, baseline).mean(axis=1))


def exploitation_asymmetry(
    played: np.ndarray, fraction: np.ndarray, baseline: np.ndarray
) -> np.ndarray:
    """Difference between the agents that gain most and least by exploitation, (episodes,).

    It is the maximum minus the minimum over agents of d_i = (rate at which i exploits) - (rate at
    which i is exploited), both as shares of the other agents and the steps, and lies in
    [0, n / (n - 1)]. The d_i add up to 0. At 0 every agent exploits as
    often as it is exploited; at 2, which takes two agents, one always exploits the other.
    """
    gains = exploiting(played, fraction, baseline) - exploited(played, fraction, baseline)
    return np.asarray(np.ptp(gains, axis=1))


def recovery_events(played: np.ndarray, trust_received: np.ndarray) -> np.ndarray:
    """Count how often trust fell and came back, (episodes,).

    The mean trust m_t falls at the first step with m_t < 0.5 m_0. The value before the
    fall is the largest m_t from the last recovery (first: from the reset) to the step before it.
    Trust has recovered at the first later step at which m_t is at least 0.8 of that value and at
    least 0.5 m_0; only then can it fall again. A fall without recovery does not count.
    """
    first, *later = trust_received.mean(axis=2)
    low, peak = FALL * first, first
    down = np.zeros(len(first), np.bool_)
    events = np.zeros(len(first))
    for trust, on in zip(later, played, strict=True):
        falls = on & ~down & (trust < low)
        recovers = on & down & (trust >= np.maximum(RETURN * peak, low))
        events += recovers
        down = (down | falls) & ~recovers
        peak = np.where(recovers, trust, np.where(down, peak, np.maximum(peak, trust)))
    return events


# --- one value per agent --------------------------------------------------------------------------


def mean(played: np.ndarray, trace: np.ndarray) -> np.ndarray:
    """Mean over steps, (episodes, agents): sum over t = 1..T of x_t, divided by T."""
    total = trace[1:].sum(axis=0, where=played[:, :, None])
    return np.asarray(total / _steps(played)[:, None])


def final(played: np.ndarray, trace: np.ndarray) -> np.ndarray:
    """Return the value after the last step, (episodes, agents): x_T."""
    return np.asarray(trace[played.sum(axis=0), np.arange(played.shape[1])])


def exploiting(played: np.ndarray, fraction: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """Rate at which an agent i exploits others, (episodes, agents) in [0, 1].

    sum over t = 1..T and j != i of [x_i < b_i and x_j >= b_j] / ((n - 1) T).
    """
    below = fraction[1:] < baseline[1:]
    return _rate(played, below * (~below).sum(axis=2, keepdims=True))


def exploited(played: np.ndarray, fraction: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """Rate at which an agent j is exploited by others, (episodes, agents) in [0, 1].

    sum over t = 1..T and i != j of [x_i < b_i and x_j >= b_j] / ((n - 1) T).
    """
    below = fraction[1:] < baseline[1:]
    return _rate(played, ~below * below.sum(axis=2, keepdims=True))


def _rate(played: np.ndarray, partners: np.ndarray) -> np.ndarray:
    """Mean over steps of a number of other agents, as a share of all others."""
    total = partners.sum(axis=0, where=played[:, :, None])
    return np.asarray(total / (_steps(played)[:, None] * (partners.shape[2] - 1)))


def _steps(played: np.ndarray) -> np.ndarray:
    """Steps of every episode, at least 1, so that it can be a divisor."""
    return np.asarray(np.maximum(1, played.sum(axis=0)))


EPISODE: dict[str, TrajectoryMetric] = {
    "trust_stability": TrajectoryMetric(
        "variance over time of the mean trust that agents receive, from the reset; 0 = most stable",
        ("trust_received",),
        trust_stability,
    ),
    "exploitation_rate": TrajectoryMetric(
        "share of ordered pairs and steps in which one is below its baseline and the other is not",
        ("fraction", "baseline"),
        exploitation_rate,
    ),
    "exploitation_asymmetry": TrajectoryMetric(
        "largest minus smallest difference of an agent's exploiting and exploited rate, in [0, 2]",
        ("fraction", "baseline"),
        exploitation_asymmetry,
    ),
    "recovery_events": TrajectoryMetric(
        "times that mean trust fell below half its initial value and came back to 80 % of its peak",
        ("trust_received",),
        recovery_events,
    ),
}

AGENT: dict[str, TrajectoryMetric] = {
    "cooperation_rate": TrajectoryMetric(
        "mean over steps of investment as a share of own endowment", ("fraction",), mean
    ),
    "final_trust": TrajectoryMetric(
        "trust that the agent receives after the last step, in [0, 1]",
        ("trust_received",),
        final,
    ),
    "mean_trust": TrajectoryMetric(
        "mean over steps of the trust that the agent receives, in [0, 1]",
        ("trust_received",),
        mean,
    ),
    "exploitation_rate": TrajectoryMetric(
        "share of other agents and steps in which it is below its baseline and the other is not",
        ("fraction", "baseline"),
        exploiting,
    ),
}
