"""One step of a game as a game of its own, played on the real environment.

``coopbench.theory.published_stage`` solves the version 0 games from their formulas. This module
only plays, so it takes every game with investments: it searches the worst equilibrium and the
optimum of a single step, and what a lone deviation from the optimum gains.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.baselines.strategies.investments import CUSTOMARY
from coopbench_envs.engine import DISABLED, Engine
from coopbench_envs.layouts import Part
from coopbench_envs.parameters import describe
from coopbench_envs.roles import members_of_roles

__all__ = ["Stage", "single_parts", "solve"]

_STARTS = (0.0, 0.5, 1.0)  # fractions from which equilibria and the optimum are sought
_SWEEPS = 30
_ROUNDING = 1e-9  # of payoffs: a smaller gain moves nobody, so that searches converge


@dataclass(frozen=True, eq=False)
class Stage:
    """Solution of one step; profiles are fractions (regimes, roles, parts).

    A game with good and bad regimes has two, in the order bad, good; other games have one.
    """

    env_id: str
    trust: float | None  # of every agent in every other; None: as in the situations met in play
    roles: tuple[str, ...]  # agents of one role play alike
    parts: tuple[str, ...]  # names of the action's parts that were searched over
    nash: np.ndarray  # (regimes, roles, parts) the equilibrium of least welfare
    nash_welfare: float  # sum of all agents' payoffs, mean over regimes
    optimum: np.ndarray  # (regimes, roles, parts)
    optimum_welfare: float
    # (regimes, roles) gain of the best lone deviation from the optimum, per unit of endowment
    temptation: np.ndarray

    @property
    def price_of_anarchy(self) -> float:
        """Welfare of the optimum over that of the worst equilibrium; 1 if they are equal."""
        return self.optimum_welfare / self.nash_welfare


def single_parts(layout: Mapping[str, Part]) -> dict[str, int]:
    """Return the index of every part of an action that is one number.

    An empty ``layout`` means that the investment is the only part.
    """
    parts = layout or {"investment": Part(0, 1)}
    return {name: part.start for name, part in parts.items() if part.size == 1}


def solve(
    env_id: str,
    *,
    trust: float | None = 1.0,
    situations: int = 64,
    levels: int = 11,
    seed: int = 3_000_000,
    **parameters: Any,
) -> Stage:
    """Solve one step of ``env_id`` with every agent trusting every other by ``trust``.

    The step is averaged over ``situations`` met in play: one per episode seeded ``seed``, ``seed +
    1``, ..., at steps spread evenly over the episode; the agents know the regime. Stocks that
    follow from play (a game's ``steady``) are set to what the actions would sustain permanently.
    Agents of one role play alike. Each part of an action that is one number is searched on
    ``levels`` even values; longer parts keep their customary value. Equilibria come from repeated
    best responses of one agent of each role, from 0, 0.5 and 1, and the one of least welfare
    counts; the optimum comes from moving one role at a time from the same starts. Games with a
    ``reward_type`` use private rewards. Raises ``ValueError`` for a game without investments, and
    ``RuntimeError`` if no search for an equilibrium converges.
    """
    if trust is not None and not 0.0 <= trust <= 1.0:
        raise ValueError(f"trust was {trust!r}; allowed: a number in [0, 1], or None.")
    for name, value, least in (("situations", situations, 1), ("levels", levels, 2)):
        if value < least:
            raise ValueError(f"{name} was {value!r}; allowed: >= {least}.")
    game = _Step(env_id, trust, situations, levels, seed, parameters)
    equilibria = [end for end in map(game.equilibrium, _STARTS) if end is not None]
    if not equilibria:
        raise RuntimeError(f"No equilibrium of one step of {env_id} was found from {_STARTS}.")
    worst = _by_regime(game, equilibria, np.argmin)
    best = _by_regime(game, [game.optimum(start) for start in _STARTS], np.argmax)
    temptation = np.stack(
        [game.temptation(best, role) for role in range(len(game.members))], axis=1
    )
    return Stage(
        env_id=game.engine.spec.id,
        trust=trust,
        roles=tuple(members_of_roles(game.engine.agents)),
        parts=tuple(game.names),
        nash=worst[:, :, game.searched],
        nash_welfare=float(game.welfare(worst[None])[0].mean()),
        optimum=best[:, :, game.searched],
        optimum_welfare=float(game.welfare(best[None])[0].mean()),
        temptation=temptation,
    )


def _by_regime(game: "_Step", ends: list[np.ndarray], pick: Any) -> np.ndarray:
    """Combine profiles: each regime comes from the one that ``pick`` chooses by its welfare."""
    profiles = np.array(ends)
    welfare = game.welfare(profiles)
    result: np.ndarray = profiles[pick(welfare, axis=0), np.arange(welfare.shape[1])]
    return result


class _Step:
    """One step of a game from a fixed set of situations, for many profiles at once."""

    def __init__(
        self,
        env_id: str,
        trust: float | None,
        situations: int,
        levels: int,
        seed: int,
        parameters: dict[str, Any],
    ) -> None:
        single = Engine(env_id, situations, **parameters)
        if "own_action" not in single.layout or single.discrete:
            raise ValueError(f"{env_id}: only coopetition games have investments to search over.")
        if "reward_type" in describe(single.spec.params):
            parameters = {**parameters, "reward_type": "private"}
        places = single_parts(single.action_layout)
        self.names, self.searched = list(places), list(places.values())
        self.members = list(members_of_roles(single.agents).values())
        grid = np.linspace(0.0, 1.0, levels)
        axes = np.meshgrid(*[grid] * len(self.searched), indexing="ij")
        self.levels = np.stack([axis.ravel() for axis in axes], axis=1)  # (responses, parts)
        self.situations = _situations(single, seed)
        if trust is not None and "trust" in self.situations:
            matrix = np.full_like(self.situations["trust"], trust)
            matrix[:, np.arange(len(single.agents)), np.arange(len(single.agents))] = 1.0
            self.situations["trust"] = matrix
        self.count = situations
        self.parameters = parameters
        good = self.situations.get("good")
        self.regimes = np.zeros(situations, np.int64) if good is None else good.astype(np.int64)
        if len(np.unique(self.regimes)) == 1:
            self.regimes[:] = 0
        self.engine = Engine(env_id, situations, **parameters)
        self.endowment = np.asarray(single.constants.endowment, np.float64)
        self.low, self.high = single.action_bounds()

    def payoffs(self, actions: np.ndarray) -> np.ndarray:
        """Return mean payoffs (candidates, regimes, agents).

        ``actions`` are fractions (candidates, regimes, agents, parts).
        """
        candidates = len(actions)
        lanes = candidates * self.count
        if self.engine.lanes != lanes:
            self.engine = Engine(self.engine.spec.id, lanes, **self.parameters)
        fractions = actions[:, self.regimes].reshape(lanes, *actions.shape[2:])
        units = self.low + fractions * (self.high - self.low)
        state = {
            name: np.broadcast_to(value, (candidates, *value.shape)).reshape(
                lanes, *value.shape[1:]
            )
            for name, value in self.situations.items()
        }
        steady = self.engine.spec.steady
        if steady is not None:
            state |= steady(self.engine.constants, fractions)
        self.engine.reset(np.zeros(lanes, np.uint64), state=state)
        self.engine.step(units, DISABLED)
        paid = self.engine.control.rewards.reshape(candidates, self.count, -1)
        return np.stack([paid[:, self.regimes == k].mean(axis=1) for k in self._regimes], axis=1)

    @property
    def _regimes(self) -> range:
        """Numbers of the regimes that the situations hold."""
        return range(int(self.regimes.max()) + 1)

    def everyone(self, profiles: np.ndarray) -> np.ndarray:
        """Repeat the actions of each role for all of its agents: axis 2 becomes agents."""
        role = np.zeros(len(self.endowment), np.int64)
        for index, members in enumerate(self.members):
            role[members] = index
        return profiles[:, :, role]

    def welfare(self, profiles: np.ndarray) -> np.ndarray:
        """Return the summed payoffs (candidates, regimes) of profiles."""
        result: np.ndarray = self.payoffs(self.everyone(profiles)).sum(axis=2)
        return result

    def start(self, fraction: float) -> np.ndarray:
        """Return the profile (regimes, roles, parts) with ``fraction`` in every searched part."""
        shape = (len(self._regimes), len(self.members), self.low.shape[1])
        profile = np.full(shape, CUSTOMARY)
        profile[:, :, self.searched] = fraction
        return profile

    def responses(self, profile: np.ndarray, role: int, alone: bool) -> np.ndarray:
        """Return the profile and every response to it, (1 + responses, regimes, agents, parts).

        With ``alone`` only the first agent of the role responds, otherwise all of them do.
        """
        movers = self.members[role][:1] if alone else self.members[role]
        trial = np.repeat(self.everyone(profile[None]), 1 + len(self.levels), axis=0)
        for mover in movers:
            trial[1:, :, mover, self.searched] = self.levels[:, None, :]
        return trial

    def improved(self, profile: np.ndarray, role: int, alone: bool) -> np.ndarray:
        """Return the profile after the role's best response.

        It maximises the payoff of one agent of the role if ``alone``, else welfare.
        """
        paid = self.payoffs(self.responses(profile, role, alone))
        value = paid[:, :, self.members[role][0]] if alone else paid.sum(axis=2)
        after = profile.copy()
        for k in self._regimes:
            best = int(value[:, k].argmax())
            if value[best, k] > value[0, k] + _ROUNDING:
                after[k, role, self.searched] = self.levels[best - 1]
        return after

    def converged(self, fraction: float, alone: bool) -> np.ndarray | None:
        """Let the roles respond in turn until none moves; None if that does not happen."""
        profile = self.start(fraction)
        for _ in range(_SWEEPS):
            before = profile
            for role in range(len(self.members)):
                profile = self.improved(profile, role, alone)
            if np.array_equal(before, profile):
                return profile
        return None

    def equilibrium(self, fraction: float) -> np.ndarray | None:
        """Return a profile from which no agent gains by deviating alone, or None."""
        return self.converged(fraction, alone=True)

    def optimum(self, fraction: float) -> np.ndarray:
        """Return a profile whose welfare no single role can raise."""
        profile = self.converged(fraction, alone=False)
        return self.start(fraction) if profile is None else profile

    def temptation(self, profile: np.ndarray, role: int) -> np.ndarray:
        """Return the gain (regimes,) of the best lone deviation, as a share of the endowment."""
        agent = self.members[role][0]
        value = self.payoffs(self.responses(profile, role, alone=True))[:, :, agent]
        result: np.ndarray = (value.max(axis=0) - value[0]) / self.endowment[agent]
        return result


def _situations(engine: Engine, seed: int) -> dict[str, np.ndarray]:
    """Return the state of every lane at one step; the steps are spread evenly over the episode."""
    lanes = engine.lanes
    seeds = np.arange(seed, seed + lanes, dtype=np.uint64)
    # Multiples of the golden ratio fill the episode evenly, however many there are.
    stops = ((np.arange(lanes) * 0.6180339887498949) % 1.0 * engine.horizon).astype(np.int64)
    playable = "trust_in_others" in engine.layout
    player = Player("conditional_cooperator" if playable else "constant:0.5", Game.of(engine))
    match = Match(engine, [player])
    match.begin(seeds)
    situations = engine.get_state()
    for step, _ in enumerate(match.steps(), 1):
        stopping = (stops >= step) & ~engine.control.done
        if not stopping.any():
            break
        for field, value in engine.get_state().items():
            situations[field][stopping] = value[stopping]
    return situations
