"""Certificates of battles: plans, and victories and returns of blind and of reactive play.

A certificate is one battle's: the two best plans that a search has found, with its budget, and what
they, legal actions at random, the scripts and trained policies reach in episodes that neither the
search nor the training has met. They are data files of ``coopbench.baselines``, trained policies
with them; the policy ``open_loop`` plays their plans, and ``studies/battles`` makes them.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.player import Player
from coopbench.baselines.strategies.certified import certified_battles, learned_policy
from coopbench.baselines.strategies.plans import BattlePlan, plan_of
from coopbench.statistics import t_interval
from coopbench_envs.core import draw, streams
from coopbench_envs.engine import Engine

EVALUATION = 1_000_000  # first seed of the episodes of the figures
LEARNED, LEARNED_BLIND = "learned", "learned_blind"
WHOLE = 20.0  # return of a victory without regeneration
FIRST = 4  # episodes whose returns are stored one by one
_Z = 1.959963984540054  # quantile 0.975 of the normal distribution
_HARDLY = 0.1  # share of victories below which nothing follows from who has more of them

# Players of a certificate, by name: text, and parameters of the battle in addition to its map.
PLAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "random": ("random legal actions", {}),
    "unmasked": ("best plan found, without the mask", {}),
    "masked": ("best plan found, with the mask", {}),
    "attack_nearest": ("`attack_nearest`", {}),
    "smac_heuristic": ("`smac_heuristic`", {}),
    "free": ("`smac_heuristic_free`", {"free_orders": True}),
    "focus_fire": ("`focus_fire`", {}),
    "kite": ("`kite`", {}),
    # Where the certificate has such policies.
    LEARNED: ("learned", {}),
    LEARNED_BLIND: ("learned without observations", {}),
}
# Players that see only which choices are legal; ``unmasked`` does not see that either.
_BLIND = ("masked", "unmasked", LEARNED_BLIND)
# Players that react to what they see, with legal actions only.
_SCRIPTS = ("attack_nearest", "smac_heuristic", "focus_fire", "kite")


@dataclass(frozen=True)
class BattleFigure:
    """What one player reaches, with ends of 95 % intervals; returns are shares of 20."""

    episodes: int
    wins: int
    win_low: float  # Wilson's interval
    win_high: float
    score: float  # mean return, 1 for a victory without regeneration
    score_low: float  # interval of the t distribution
    score_high: float
    first: list[float]  # returns of the first episodes, before the division

    @property
    def win(self) -> float:
        """Share of episodes won."""
        return self.wins / self.episodes

    @classmethod
    def of(cls, wins: np.ndarray, returns: np.ndarray) -> "BattleFigure":
        """Summarise episodes."""
        low, high = _wilson(int(wins.sum()), len(wins))
        shares = returns / WHOLE
        mean = float(shares.mean())
        interval = t_interval(shares) if np.ptp(shares) > 0.0 else None
        return cls(
            episodes=len(wins),
            wins=int(wins.sum()),
            win_low=round(low, 6),
            win_high=round(high, 6),
            score=round(mean, 6),
            score_low=round(mean if interval is None else float(interval.low), 6),
            score_high=round(mean if interval is None else float(interval.high), 6),
            first=[float(value) for value in returns[:FIRST]],
        )


@dataclass(frozen=True)
class BattleCertificate:
    """One battle: its plans, how they were found, and what players reach."""

    env_id: str
    parameters: dict[str, Any]  # of the environment: the map, and the start where it has one
    search: dict[str, dict[str, Any]]  # "masked", "unmasked" -> budget, seed, episodes, steps
    plans: dict[str, list[list[str]]]  # as ``packed_plan`` writes them
    figures: dict[str, BattleFigure]  # player -> figure
    # Of each learned policy: protocol, task, learner, hyperparameters, the number of trainings of
    # which it is the best, its seed, their budget, and the steps of the checkpoint.
    training: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def players(self) -> tuple[str, ...]:
        """Names of the players that have figures."""
        trained = (LEARNED, LEARNED_BLIND)
        return tuple(name for name in PLAYERS if name not in trained or name in self.training)

    @property
    def name(self) -> str:
        """Map or drawn teams, and start: ``3m-drawn``, ``terran-5-5-drawn``."""
        start = [self.parameters["start"]] if "start" in self.parameters else []
        return "-".join([*self._who(), *start])

    @property
    def policies_of(self) -> str:
        """Name of the certificate whose trained policies play; shifted starts train none."""
        name = self.name
        return f"{name.removesuffix('-shifted')}-drawn" if name.endswith("-shifted") else name

    @property
    def battle(self) -> str:
        """The map, or the teams that are drawn: ``terran 5 against 5``."""
        first, *sizes = self._who()
        return " ".join([first, " against ".join(sizes)]) if sizes else first

    def _who(self) -> list[str]:
        """Return the map, or race and sizes of drawn teams."""
        keys = ("map",) if "map" in self.parameters else ("race", "num_agents", "num_enemies")
        return [str(self.parameters[key]) for key in keys]

    @property
    def best_blind(self) -> str:
        """Name of the better plan, or of the policy that was trained without observations."""
        return self._best(_BLIND)

    @property
    def blind(self) -> BattleFigure:
        """Figure of ``best_blind``."""
        return self.figures[self.best_blind]

    @property
    def reactive(self) -> str:
        """Name of the best script, or of the learned policy if that is better."""
        return self._best((*_SCRIPTS, LEARNED))

    def _best(self, names: tuple[str, ...]) -> str:
        players = [name for name in names if name in self.players]
        return max(players, key=lambda one: (self.figures[one].win, self.figures[one].score))

    @property
    def is_shown_to_need_sight(self) -> bool:
        """Whether the intervals agree: the blind one ends below half of where the other begins."""
        return self.blind.win_high <= 0.5 * self.figures[self.reactive].win_low

    @property
    def is_shown_to_need_no_sight(self) -> bool:
        """Whether the blind interval begins above half of where that of reactive play ends."""
        return self.blind.win_low > 0.5 * self.figures[self.reactive].win_high

    @property
    def is_hardly_won(self) -> bool:
        """Whether no play, blind or reactive, is shown to win a tenth of the episodes."""
        return max(self.figures[self.reactive].win_high, self.blind.win_high) < _HARDLY

    def to_json(self) -> str:
        """Write as JSON with sorted keys."""
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "BattleCertificate":
        """Read what ``to_json`` has written, parsed."""
        figures = {name: BattleFigure(**value) for name, value in content["figures"].items()}
        return cls(**{**content, "figures": figures})


def load_battles(env_id: str) -> dict[str, BattleCertificate]:
    """Return the certificates of an environment's battles that this package contains, by name."""
    return {name: BattleCertificate.of(one) for name, one in certified_battles(env_id).items()}


def _wilson(wins: int, episodes: int) -> tuple[float, float]:
    """Return the ends of Wilson's 95 % interval of a share."""
    share, square = wins / episodes, _Z * _Z / episodes
    middle = (share + square / 2) / (1 + square)
    half = _Z * np.sqrt(share * (1 - share) / episodes + square / (4 * episodes)) / (1 + square)
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))


# --- play ----------------------------------------------------------------------------------------


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
