"""Certificates of battles: plans, and victories and returns of blind and of reactive play.

A certificate is one battle's: the two best plans that a search has found, with its budget, and what
they, legal actions at random, the scripts and trained policies reach in episodes that neither the
search nor the training has met. They are data files of ``coopbench.baselines``, trained policies
with them; the policy ``open_loop`` plays their plans, and ``studies/battles`` makes them.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from coopbench.baselines.strategies.certified import certified_battles

LEARNED, LEARNED_BLIND = "learned", "learned_blind"

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
