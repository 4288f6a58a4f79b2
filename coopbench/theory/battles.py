"""Certificates of battles: victories and returns of blind and of reactive play, map by map.

A certificate is one battle's: the two best plans that a search has found, with its budget, and what
they, legal actions at random, the scripts and trained policies reach in episodes that neither the
search nor the training has met. They are data files of ``coopbench.baselines``, trained policies
with them; the policy ``open_loop`` plays their plans.
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
from coopbench_envs.core import draw, streams
from coopbench_envs.engine import Engine

EVALUATION = 1_000_000  # first seed of the episodes of the figures


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
        figures[player] = BattleFigure.of(*play_battle(certificate, player, episodes))
    return replace(certificate, figures=figures)


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
