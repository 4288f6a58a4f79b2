"""Scripts: all registered strategies with grids of their parameters, and the best of them.

A certificate compares rules and learners with the best script: what somebody can write down in a
minute and tune by one or two numbers.
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.registry import make_policy

# Parameters of each strategy, as they stand after the colon; those with ``bar`` are also tried as
# they stand in pools of platforms, where the strict choose whom they deal with.
_SHARES = ("1", "0.8", "0.6", "0.4")
_PAIRS = (
    *("0.2,0.6", "0.3,0.9", "0.4,1", "0.5,0.5", "0.5,0.9", "0.6,0.6", "0.6,0.9", "0.7,1", "0.8,1"),
)
_RECORDS = (
    *("0.02", "0.03", "0.05", "0.08", "0.1", "0.15", "0.2", "0.25", "0.3"),
    *("0.35", "0.4", "0.45", "0.5", "0.55", "0.6", "0.7", "0.8"),
)
_SHARES_OF_FIRST = ("0.4", "0.5", "0.55", "0.6", "0.65", "0.7", "0.75", "0.8", "0.85", "0.9")
_PHASES = ("cooperator", "reciprocator", "always_defect")
WEIGHTS = Path(__file__).with_name("weights.csv")  # what a search found; see ``weights``


def _weights() -> tuple[str, ...]:
    """Return the settings of ``weigher`` that were found for tasks and roles, each once."""
    with WEIGHTS.open(encoding="utf-8", newline="") as file:
        return tuple(dict.fromkeys(row["setting"] for row in csv.DictReader(file)))


GRIDS: dict[str, tuple[str, ...]] = {
    "always_defect": ("",),
    "alternator": ("1", "2", "4"),
    "bully": ("0.2,0.6", "0.1,0.4", "0.4,0.7"),
    "constant": _SHARES,
    "cooperator": _SHARES,
    "drifter": ("0.1", "0.2,0.5"),
    "extorter": ("0.3", "0.6"),
    "generous_tit_for_tat": ("0.1", "0.3"),
    "gradual": ("0.3", "0.5", "0.7"),
    "grim_trigger": tuple(map(",".join, product(("0.5", "1"), ("0.1", "0.2", "0.3", "0.4")))),
    "matcher": ("1", "0.9", "0.8", "0.6", "1,0.5", "0.9,0.5"),
    "prober": ("4", "8,0.2"),
    "q_learner": ("",),
    "reciprocator": tuple(
        f"{pair},contrite={contrite},floor={floor}"
        for pair, contrite, floor in product(_PAIRS, ("0", "0.5", "1"), ("0", "0.3"))
    )
    + tuple(
        f"{pair},contrite={contrite},relative={relative},last=2"
        for pair, contrite, relative in product(_PAIRS, ("0", "0.5", "1"), ("0", "1"))
    ),
    "suspicious_tit_for_tat": ("",),
    "switcher": tuple(
        f"{first},{second},{time}"
        for first, second in product(_PHASES, _PHASES)
        if first != second
        for time in ("0.1", "0.25", "0.5", "0.75", "0.9")
    ),
    "tester": ("4", "8"),
    "tit_for_tat": ("",),
    "trust_threshold": tuple(map(",".join, product(("0.5", "1"), ("0.1", "0.3", "0.5")))),
    "unforgiving": tuple(map(",".join, product(_RECORDS, ("1", "0.9", "0.8", "0.7"))))
    + tuple(f"{record},0.9,last=2" for record in _RECORDS)
    + tuple(
        f"{share},{level},relative=1,last={last}"
        for share, level, last in product(_SHARES_OF_FIRST, ("1", "0.9", "0.8"), ("0", "2"))
    ),
    "weigher": _weights(),
    "win_stay_lose_shift": tuple(map(",".join, product(("0.5", "1"), ("0.2", "0.4")))),
}
STRICT = "bar=0.8,ignore=0.16,follow=0.96"
_STRICTLY = (
    *("unforgiving", "reciprocator", "matcher", "gradual", "extorter", "alternator", "weigher"),
)
_TIE = 0.002  # of the return: about two standard errors of the difference of two scripts
_FINALISTS = 8  # scripts of which the best is chosen in more episodes


def scripts(game: Game) -> list[str]:
    """Return the names of all scripts that can play a game, as policies are named."""
    return [name for name in _named(_chooses(game)) if _plays(name, game)]


def best_script(
    names: Sequence[str],
    values: Callable[[Sequence[str], int, int], np.ndarray],
    episodes: int,
    more: int,
    *,
    elsewhere: bool = False,
) -> str:
    """Return the name of the best script by ``values(names, episodes, stage)``.

    All play ``episodes`` in stage 0; the best of them play ``more`` in stage 1, which decides. For
    play ``elsewhere``, too, in ranges that it is not chosen in, a script with thresholds relative
    to the first record is taken where it earns as much but for ``_TIE``.
    """
    order = np.argsort(-values(names, episodes, 0), kind="stable")
    finalists = [names[k] for k in order[:_FINALISTS]]
    earned = values(finalists, more, 1)
    if elsewhere:
        ties = earned >= earned.max() * (1.0 - _TIE)
        relative = np.array(["relative=1" in name for name in finalists])
        if (ties & relative).any():
            earned = np.where(ties & relative, earned, -np.inf)
    best: str = finalists[int(earned.argmax())]
    return best


def _chooses(game: Game) -> bool:
    """Whether strictness matters: some agents choose partners, or do not know the regime."""
    chosen = {"bar", "wishes"} & set(game.action_layout)
    return bool(chosen) or not bool(getattr(game.constants, "public", True))


def _named(strictly: bool) -> Iterator[str]:
    """Yield the names of all scripts."""
    for strategy, settings in GRIDS.items():
        for setting in settings:
            yield f"{strategy}:{setting}" if setting else strategy
            if strictly and strategy in _STRICTLY:
                yield f"{strategy}:{setting},{STRICT}" if setting else f"{strategy}:{STRICT}"


def _plays(name: str, game: Game) -> bool:
    """Whether a script can play a game: some need trust or actions that all observe."""
    try:
        make_policy(name, game)
    except ValueError:
        return False
    return True
