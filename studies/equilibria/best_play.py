"""Best play of whole episodes of a coopetition game: constants, and sequences fixed in advance.

Every candidate is played on the real environment, with trust, extra factors and early endings.
Definitions and results: docs/games.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coopbench.baselines.match import Actor, Match, Script
from coopbench.baselines.strategies.investments import CUSTOMARY
from coopbench_envs.engine import Engine
from studies.equilibria.checks import check_count


class Arena:
    """Plays many candidates at once, each in a block of lanes with the same seeded episodes."""

    def __init__(
        self, env_id: str, candidates: int, episodes: int, seed: int, parameters: dict[str, Any]
    ) -> None:
        check_count("episodes", episodes, 1)
        check_count("seed", seed, 0, 2**63)
        self.engine = Engine(env_id, candidates * episodes, **parameters)
        if "own_action" not in self.engine.layout or self.engine.discrete:
            raise ValueError(f"{env_id}: only coopetition games have investments to search over.")
        self.tops = self.engine.action_bounds()[1].astype(np.float64)[:, 0]
        self.candidates, self.episodes = candidates, episodes
        seeds = np.arange(seed, seed + episodes, dtype=np.uint64)
        self._seeds = np.tile(seeds, candidates)

    def play(self, players: Sequence[Actor], seats: np.ndarray | None = None) -> np.ndarray:
        """Play all lanes to the end and return mean returns (candidates, agents).

        ``players`` and ``seats`` are those of a ``Match``.
        """
        returns = Match(self.engine, players, seats).play(self._seeds)
        result: np.ndarray = returns.reshape(self.candidates, self.episodes, -1).mean(axis=1)
        return result

    def sequences(self, fractions: np.ndarray) -> np.ndarray:
        """Return summed returns (candidates,) of fractions (candidates, steps or 1, agents or 1).

        Parts of actions other than the investment have their customary value.
        """
        units = np.repeat(fractions, self.episodes, axis=0) * self.tops
        last, actions = units.shape[1] - 1, np.full(self.engine.actions.shape, CUSTOMARY)

        def invested(step: int) -> np.ndarray:
            actions[:, :, 0] = units[:, min(step, last)]
            return actions

        result: np.ndarray = self.play([Script(invested)]).sum(axis=1)
        return result


@dataclass(frozen=True, eq=False)
class BestConstant:
    """The best constant investments that were tried, and the returns on the first grid."""

    env_id: str
    fraction: float  # best common fraction of own endowment, after refinement
    value: float  # its return, summed over agents, mean over episodes
    grid: np.ndarray  # (grid,) fractions, even on [0, 1]
    returns: np.ndarray  # (grid,) their returns, summed over agents
    profile: np.ndarray  # (agents,) best constant fractions; all ``fraction`` without ``profile``
    actions: np.ndarray  # (agents,) the profile in units
    profile_value: float  # return of the profile


def best_constant(
    env_id: str,
    *,
    grid: int = 101,
    episodes: int = 1,
    seed: int = 0,
    profile: bool = False,
    **parameters: Any,
) -> BestConstant:
    """Find the constant fraction of own endowments with the largest return of a whole episode.

    All ``grid`` fractions are lanes of one batch of the real environment; then as many between the
    neighbours of the best are tried. The return is summed over agents and averaged over the
    ``episodes`` seeded ``seed``, ``seed + 1``, ...; one is enough for a deterministic game. With
    ``profile``, each agent's own fraction is then refined in turn on ever narrower grids. Raises
    ``ValueError`` for a grid below 2 and games of other families.
    """
    check_count("grid", grid, 2, 100_001)
    arena = Arena(env_id, grid, episodes, seed, parameters)
    shares = np.linspace(0.0, 1.0, grid)
    returns = arena.sequences(shares[:, None, None])
    fraction, value = float(shares[returns.argmax()]), float(returns.max())
    finer = np.clip(fraction + np.linspace(-1.0, 1.0, grid) / (grid - 1), 0.0, 1.0)
    again = arena.sequences(finer[:, None, None])
    if again.max() > value:
        fraction, value = float(finer[again.argmax()]), float(again.max())
    fractions, profile_value = np.full(len(arena.tops), fraction), value
    if profile:
        fractions, profile_value = _refined(arena, fractions, profile_value)
    return BestConstant(
        env_id=arena.engine.spec.id,
        fraction=fraction,
        value=value,
        grid=shares,
        returns=returns,
        profile=fractions,
        actions=fractions * arena.tops,
        profile_value=profile_value,
    )


def _refined(arena: Arena, fractions: np.ndarray, value: float) -> tuple[np.ndarray, float]:
    """Return better fractions (agents,) and their value: one agent moves at a time.

    The first grid covers all fractions; each later one is narrower, around the best so far.
    """
    offsets = np.linspace(-1.0, 1.0, arena.candidates)
    for width in (1.0, 0.25, 0.05, 0.01, 0.002):
        for agent in range(len(fractions)):
            trial = np.tile(fractions, (arena.candidates, 1))
            trial[:, agent] = np.clip(fractions[agent] + width * offsets, 0.0, 1.0)
            returns = arena.sequences(trial[:, None, :])
            if returns.max() > value:
                fractions, value = trial[returns.argmax()], float(returns.max())
    return fractions, value


@dataclass(frozen=True, eq=False)
class OpenLoop:
    """The best sequence of investments that the search met, fixed before the episode."""

    env_id: str
    fractions: np.ndarray  # (steps, agents) of own endowment
    value: float  # its return, summed over agents
    constant: BestConstant  # where the search began
    history: np.ndarray  # (iterations + 1,) best return so far; the first is the constant's


def best_open_loop(
    env_id: str,
    *,
    iterations: int = 160,
    population: int = 128,
    elite: int = 16,
    episodes: int = 1,
    seed: int = 0,
    per_agent: bool = False,
    **parameters: Any,
) -> OpenLoop:
    """Search for the sequence of fractions with the largest summed return.

    Cross-entropy method on a batch of the real environment: draw ``population`` changes of the best
    sequence from a normal distribution, fit it to the ``elite`` best, repeat. Changes are constant
    on pieces of the episode: first its halves, then pieces that shorten towards both ends, where
    trust begins and stops to matter, then even pieces down to single steps; the ``iterations`` are
    shared out equally. The search begins at ``best_constant`` and keeps the best sequence, so it is
    never worse. All agents invest the same fraction of their endowments; with ``per_agent`` the
    second half of the iterations lets their fractions differ. The return is the mean over
    ``episodes`` seeded ``seed``, ``seed + 1``, ...; in a random game the search with one episode
    exploits the chances of that episode. ``seed`` also seeds the draws: equal arguments give equal
    results. The result is a lower bound of the optimum. Raises ``ValueError`` for counts out of
    range and games of other families. Method: Rubinstein (1999), The cross-entropy
    method for combinatorial and continuous optimization.
    """
    check_count("iterations", iterations, 1)
    check_count("population", population, 2)
    check_count("elite", elite, 1, population)
    constant = best_constant(env_id, episodes=episodes, seed=seed, **parameters)
    arena = Arena(env_id, population, episodes, seed, parameters)
    steps, agents, rng = arena.engine.horizon, len(arena.tops), np.random.default_rng(seed)
    best, history = np.full((steps, 1), constant.fraction), [constant.value]
    widths = (1, agents) if per_agent else (1,)  # numbers for each piece
    stages = [(piece, width) for width in widths for piece in _partitions(steps)]
    cuts = [iterations * k // len(stages) for k in range(len(stages) + 1)]
    for k, (piece, width) in enumerate(stages):
        best = np.broadcast_to(best, (steps, width))
        turns = cuts[k + 1] - cuts[k]
        best, values = _cross_entropy(arena, (best, history[-1]), piece, turns, elite, rng)
        history += values
    fractions = np.broadcast_to(best, (steps, agents)).copy()
    return OpenLoop(arena.engine.spec.id, fractions, history[-1], constant, np.array(history))


def _partitions(steps: int) -> list[np.ndarray]:
    """Return ever finer divisions of an episode: the number of the piece (steps,) of each step."""
    doublings = 2 ** np.arange(np.ceil(np.log2(max(steps, 2))).astype(int))
    inner = doublings[doublings <= steps // 2]
    cuts = np.unique([0, *inner, *(steps - inner)])
    towards_ends = np.searchsorted(cuts, np.arange(steps), side="right") - 1
    even = [np.arange(steps) * min(count, steps) // steps for count in (2, 16, 32, steps)]
    return [even[0], towards_ends, *even[1:]]


def _cross_entropy(
    arena: Arena,
    start: tuple[np.ndarray, float],
    piece: np.ndarray,
    turns: int,
    elite: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, list[float]]:
    """Improve a sequence by changes that are constant on each ``piece``.

    Returns the best sequence and the best value after every iteration.
    """
    (base, value), values = start, []
    best, change = base, np.zeros((piece.max() + 1, base.shape[1]))
    # The more numbers change at once, the less each may.
    centre, spread = change, np.full_like(change, 0.2 / np.sqrt(change.size))
    for _ in range(turns):
        changes = centre + spread * rng.standard_normal((arena.candidates, *centre.shape))
        changes[0] = change  # the best so far is a candidate again
        trial = np.clip(base + changes[:, piece], 0.0, 1.0)
        returns = arena.sequences(trial)
        order = np.argsort(-returns, kind="stable")[:elite]
        if returns[order[0]] > value:
            best, change, value = trial[order[0]], changes[order[0]], float(returns[order[0]])
        centre, spread = changes[order].mean(axis=0), changes[order].std(axis=0)
        values.append(value)
    return best, values
