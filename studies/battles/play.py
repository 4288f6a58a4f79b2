"""The play of a certificate's battles, and the figures that it gives.

Every player of a certificate plays episodes that neither the search of its plans nor the training
of its policies has met.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from coopbench.analysis.battles import PLAYERS, BattleCertificate, BattleFigure
from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.player import Player
from coopbench.baselines.strategies.certified import learned_policy
from coopbench.baselines.strategies.plans import BattlePlan, plan_of
from coopbench.statistics import t_interval
from coopbench_envs.core import draw, streams
from coopbench_envs.engine import Engine

EVALUATION = 1_000_000  # first seed of the episodes of the figures
WHOLE = 20.0  # return of a victory without regeneration
FIRST = 4  # episodes whose returns are stored one by one
_Z = 1.959963984540054  # quantile 0.975 of the normal distribution


def play_battle(
    certificate: BattleCertificate, player: str, episodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Play the first ``episodes`` of a certificate; return victories and returns, (episodes,)."""
    parameters = {**certificate.parameters, **PLAYERS[player][1]}
    engine = Engine(certificate.env_id, episodes, **parameters)
    match = Match(engine, [Player(_policy(certificate, player, engine), Game.of(engine))])
    returns = match.play(np.arange(EVALUATION, EVALUATION + episodes))
    return engine.control.measures[:, 0].copy(), returns[:, 0].copy()


def measured(
    certificate: BattleCertificate,
    episodes: int,
    tell: Callable[[str], None] = lambda text: None,
) -> BattleCertificate:
    """Return the certificate with the figures of all players in ``episodes`` episodes."""
    figures = {}
    for player in certificate.players:
        tell(f"{certificate.name}: {player}")
        figures[player] = figure_of(*play_battle(certificate, player, episodes))
    return replace(certificate, figures=figures)


def figure_of(wins: np.ndarray, returns: np.ndarray) -> BattleFigure:
    """Return the figure of a player from the victories and returns of its episodes."""
    low, high = _wilson(int(wins.sum()), len(wins))
    shares = returns / WHOLE
    mean = float(shares.mean())
    interval = t_interval(shares) if np.ptp(shares) > 0.0 else None
    return BattleFigure(
        episodes=len(wins),
        wins=int(wins.sum()),
        win_low=round(low, 6),
        win_high=round(high, 6),
        score=round(mean, 6),
        score_low=round(mean if interval is None else float(interval.low), 6),
        score_high=round(mean if interval is None else float(interval.high), 6),
        first=[float(value) for value in returns[:FIRST]],
    )


def _wilson(wins: int, episodes: int) -> tuple[float, float]:
    """Return the ends of Wilson's 95 % interval of a share."""
    share, square = wins / episodes, _Z * _Z / episodes
    middle = (share + square / 2) / (1 + square)
    half = _Z * np.sqrt(share * (1 - share) / episodes + square / (4 * episodes)) / (1 + square)
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))


class _RandomLegal:
    """Draws among the legal choices; each seat of each episode has a stream of its own."""

    uses_masks = True

    def initial(self, game: Game, seeds: np.ndarray) -> np.ndarray:
        return streams(seeds[:, None], np.arange(len(game.agents))[None, :])

    def act(
        self, observations: np.ndarray, memory: np.ndarray, masks: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        states = memory.copy()
        number = (draw(states) * masks.sum(axis=2)).astype(np.int64)
        return (masks.cumsum(axis=2) > number[:, :, None]).argmax(axis=2), states


def _policy(certificate: BattleCertificate, player: str, engine: Engine) -> Any:
    if player == "random":
        return _RandomLegal()
    if player in certificate.plans:
        masks = player == "masked"
        choices = engine.control.masks.shape[2]
        plan = plan_of(asdict(certificate), masks=masks, choices=choices)
        return BattlePlan(plan, masks=masks)
    if player in certificate.training:
        return read_policy(learned_policy(certificate.env_id, certificate.policies_of, player))
    return "smac_heuristic_free" if player == "free" else player
