"""The seven reference policies of Coopetition-Gym, its oracles, on all its games.

Each invests what a formula or a solver says before the episode, whatever others do. As published,
they are named after what they compute, and are no upper bounds: ``nash``, ``social_optimum`` and
``loyalty`` solve a game of common production that no reward pays out. Where a game has no such
production or no reciprocity, they use the published default numbers. Source: class of each name in
experiments/algorithms.py of Coopetition-Gym 0.3.0.
"""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.investments import Fractions
from coopbench_envs.coopetition.published.collective import nash, optimum
from coopbench_envs.coopetition.published.stage import best_responses, payoffs
from coopbench_envs.elementary import power
from coopbench_envs.parameters import one_of

_START = 0.5  # share of the endowment from which equilibria are sought
_STEADY_TRUST, _TRUST_WEIGHT = 0.95, 0.2
_LOYALTY = 0.9
_FEW, _MOST = 50.0, 75.0  # units of nash, and of the others, where production is linear
# How much a loyal member counts the others' gain, and how much less its costs: in games that have
# no parameters for it, and by default.
_PHI = {"ApacheProject-v0": (0.75, 0.25), "CoalitionFormation-v0": (0.7, 0.3)}
_PHI |= {"TeamProduction-v0": (0.0, 0.0)}
_PHI_OF_OTHERS = {"phi_b": 0.8, "phi_c": 0.3}
_OPENING, _REVERSION, _ADJUSTMENT = 0.4, 0.05, 0.12
_HIGHEST_TRUST, _TRUST_GAIN, _TRUST_LOSS = 0.95, 0.10, 0.30
_LONGEST = 1000  # steps after which the investments of ``bounded_reciprocity`` stay as they are


def _equilibrium(game: Game) -> np.ndarray:
    """Nobody gains alone by pi_i + sum_j D_ij pi_j."""
    return best_responses(game.constants, _coopetitive(game.constants), _START)[0]


def _coopetitive(c: Any) -> Callable[[int, np.ndarray], float]:
    concern = np.eye(c.num_agents) + c.dependence
    return lambda agent, units: float(concern[agent] @ payoffs(c, units))


def _trust_aware(game: Game) -> np.ndarray:
    """The same, with a term that pays for investing beside those who invest over the baseline."""
    c = game.constants
    utility, weight = _coopetitive(c), _TRUST_WEIGHT * _STEADY_TRUST

    def trusting(agent: int, units: np.ndarray) -> float:
        over = np.delete(units - c.baseline, agent).sum()
        return float(utility(agent, units) + weight * over * units[agent])

    return best_responses(c, trusting, _START)[0]


def _reciprocity(game: Game) -> np.ndarray:
    """The same with less of that term, and one for the replies that a defection would meet."""
    c = game.constants
    utility, trust = _coopetitive(c), min(_STEADY_TRUST, c.initial_trust + 0.35)
    reply, slope, _ = _replies(c)
    deterrence = trust * slope * reply.sum(axis=1)

    def reciprocal(agent: int, units: np.ndarray) -> float:
        over = units - c.baseline
        paid = _TRUST_WEIGHT * trust * np.delete(over, agent).sum() * units[agent]
        feared = deterrence[agent] * max(over[agent], 0.0)
        return float(utility(agent, units) + (paid + feared) / c.endowment[agent])

    return best_responses(c, reciprocal, _START)[0]


def _replies(c: Any) -> tuple[np.ndarray, float, int]:
    """Return weights of responses (agents, agents), their slope and the steps remembered."""
    if hasattr(c, "reply"):
        return c.reply, c.slope, c.window
    return (1.0 + 0.6 * c.dependence) * c.dependence, 1.0, 5


def _bounded_reciprocity(game: Game) -> np.ndarray:
    """Investments that follow each other's changes and fall back to the baselines, by step."""
    c = game.constants
    reply, slope, window = _replies(c)
    units = c.baseline + _OPENING * (c.endowment - c.baseline)
    trust, played = np.full(reply.shape, c.initial_trust), list[np.ndarray]()
    for _ in range(min(c.horizon, _LONGEST)):
        recent = np.array(played[-window:] or [units])
        signal = recent[-1] - recent.mean(axis=0)
        gained = _TRUST_GAIN * np.maximum(0.0, _HIGHEST_TRUST - trust)
        room = np.where(signal > 0.0, gained, _TRUST_LOSS * trust)
        trust = np.clip(trust + signal * room, 0.0, 1.0)
        push = (reply * trust) @ np.tanh(slope * signal)
        units = units + _ADJUSTMENT * push * c.endowment - _REVERSION * (units - c.baseline)
        units = np.clip(units, 0.0, c.endowment.max())  # of the agent that has most, as published
        played.append(units)
    return np.array(played)


def _production(game: Game) -> tuple[float, float, float, int]:
    """Return the factor and the elasticity of the output, the cost of a unit, and the agents."""
    c = game.constants
    if not hasattr(c, "omega"):
        return 1.0, 0.5, 1.0, c.num_agents
    return c.omega, c.beta, getattr(game.parameters, "c", 1.0), c.num_agents


def _nash(game: Game) -> np.ndarray:
    """Members of a team who get equal shares of its output and pay for their own units."""
    omega, beta, cost, n = _production(game)
    return np.full(n, _FEW if beta == 1.0 else nash(omega, beta, cost, n, _FEW))


def _social_optimum(game: Game) -> np.ndarray:
    """Units that maximise the output of a team minus all costs."""
    omega, beta, cost, n = _production(game)
    return np.full(n, _MOST if beta == 1.0 else optimum(omega, beta, cost, n, _MOST))


def _loyalty(game: Game) -> np.ndarray:
    """Loyal members, who count a part of the others' gain and less of their own costs."""
    omega, beta, cost, n = _production(game)
    own = tuple(getattr(game.parameters, key, usual) for key, usual in _PHI_OF_OTHERS.items())
    gain, relief = _PHI.get(game.env_id.rpartition("/")[2], own)
    worth = omega * beta * (1.0 + gain * _LOYALTY * (n - 1))
    cost *= n * (1.0 - relief * _LOYALTY)
    if beta == 1.0 or cost <= 0.0:
        return np.full(n, _MOST)
    return np.full(n, power(worth / cost, 1.0 / (1.0 - beta)))


_KINDS: dict[str, Callable[[Game], np.ndarray]] = {
    "equilibrium": _equilibrium,
    "trust_aware": _trust_aware,
    "nash": _nash,
    "social_optimum": _social_optimum,
    "loyalty": _loyalty,
    "reciprocity": _reciprocity,
    "bounded_reciprocity": _bounded_reciprocity,
}


class Params(NamedTuple):
    """What stands after the colon: ``oracle:trust_aware``."""

    kind: Annotated[str, one_of(_KINDS, "which of the published reference policies")] = (
        "equilibrium"
    )


class Oracle:
    """Invests the units of each step; after the last step, the last ones."""

    def __init__(self, game: Game, parameters: Params) -> None:
        self._fractions = Fractions(game, "oracle")
        if not hasattr(game.constants, "theta"):
            raise ValueError(
                f"Policy 'oracle' cannot play {game.env_id}: its formulas are those of the "
                f"coopetition games of version 0."
            )
        units = np.atleast_2d(_KINDS[parameters.kind](game))
        self._sequence = units / game.constants.endowment

    def initial(self, game: Game, seeds: np.ndarray) -> np.ndarray:
        """Return the steps played: none."""
        return np.zeros(len(seeds), np.int64)

    def act(self, observations: np.ndarray, memory: np.ndarray) -> tuple[Any, np.ndarray]:
        """Look up the step's investments."""
        played = self._sequence[np.minimum(memory, len(self._sequence) - 1)]
        return self._fractions.units(played), memory + 1


ENTRY = Entry(
    "oracle", Oracle, "plays a reference policy of Coopetition-Gym, by its kind", "none", Params
)
