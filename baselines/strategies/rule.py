"""Rule: plays a rule of a game's certificate, or of a file.

``rule:trust-dilemma/memory`` is the best rule that the search for the certificate has found for
self-play in the task trust-dilemma; ``rule:trust-dilemma.focal/blind`` is the lower bound of that
task. A file holds one rule per role, as certificates do: ``{"firm": {"investment": ...}}``.
"""

import json
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.rules.rules import Form
from coopbench.baselines.strategies.certified import certificate_entry
from coopbench_envs.parameters import Allowed, named
from coopbench_envs.reading import read_regular
from coopbench_envs.roles import role_of

_LARGEST = 1 << 20  # bytes of a file


class Params(NamedTuple):
    """What stands after the colon: ``rule:trust-dilemma/memory`` or ``rule:rules.json``."""

    rule: Annotated[str, Allowed("SECTION/CLASS of the game's certificate, or a JSON file")]


class RulePolicy:
    """Plays the rule of each seat's role."""

    def __init__(self, game: Game, parameters: Params) -> None:
        game.require("rule", "own_action", "others_actions", "trust_in_others", "time")
        rules = _rules(game, parameters.rule)
        self._seats: list[tuple[Form, np.ndarray]] = []
        for seat, agent in enumerate(game.agents):
            rule = named("role of the rule", role_of(agent), rules)
            form = Form(game, seat)
            try:
                self._seats.append((form, form.weights(rule)[None]))
            except (ValueError, AttributeError) as error:
                raise ValueError(f"Policy 'rule:{parameters.rule}': {error}") from None

    def initial(self, game: Game, seeds: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the memory of each seat before the first step."""
        return tuple(form.initial(len(seeds), weights) for form, weights in self._seats)

    def act(
        self, observations: np.ndarray, memory: tuple[np.ndarray, ...]
    ) -> tuple[Any, tuple[np.ndarray, ...]]:
        """Act by the rule of each seat."""
        actions, memories = [], []
        for seat, ((form, weights), recalled) in enumerate(zip(self._seats, memory, strict=True)):
            played, after = form.act(weights, observations[:, seat], recalled)
            actions.append(played)
            memories.append(after)
        return np.stack(actions, axis=1), tuple(memories)


def _rules(game: Game, name: str) -> dict[str, Any]:
    """Return the rules by role that a name means."""
    if name.endswith(".json"):
        return _from_file(Path(name))
    section, _, kind = name.partition("/")
    rules = certificate_entry("rule", game, "rules")
    classes = {k: v for k, v in named("section", section, rules).items() if k != "informed"}
    return dict(named("class of rules", kind, classes))


def _from_file(path: Path) -> dict[str, Any]:
    """Read rules by role from a JSON file."""
    try:
        content = json.loads(read_regular(path, _LARGEST))
        if not isinstance(content, dict):
            raise ValueError("it holds no table of roles")
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(
            f"Policy 'rule:{path}' cannot be read ({error}); allowed: a JSON file with one rule "
            f"per role."
        ) from None
    return dict(content)


ENTRY = Entry(
    "rule", RulePolicy, "plays a searched rule of a certificate or a file", "local", Params
)
