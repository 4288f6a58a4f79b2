"""Inputs of rules: named numbers that a seat reads from its observation, or remembers.

The inputs follow from the layouts of a game, so rules need nothing of a game's own. An input has a
kind, which says what it depends on: a class of rules is a set of kinds that it may use.
"""

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.rules.acting import BAD, GOOD, UNINFORMED, Plan
from coopbench_envs.layouts import Part
from coopbench_envs.roles import role_of

__all__ = ["KINDS", "REGIMES", "Inputs"]

# Kinds, each with what it adds: nothing, the step, what all observe, the seat's own conduct, the
# others' conduct, what the seat remembers of it, and who the others are.
KINDS = ("constant", "time", "public", "own", "partner", "memory", "place")
# What a seat knows of the coming step; a rule has weights for each.
REGIMES = ("bad", "good", "uninformed")

_PUBLIC = frozenset({"productivity", "phase", "level"})
_OWN = frozenset({"own_action", "trust_in_me", "own_demand", "own_capital", "own_damage"})
_REMEMBERED = ("lately", "usually", "worst", "answers")  # of each group of others


class Inputs:
    """The inputs of the rules of one seat; seats of one role have the same inputs.

    ``names`` and ``kinds`` describe the inputs of the action's parts that are one number, and
    ``pair_names`` and ``pair_kinds`` those of the wishes, about each other agent. All but ``one``,
    ``answers`` and indicators are a number in [0, 1] less 0.5.
    """

    def __init__(self, game: Game, seat: int) -> None:
        self.game, self.seat = game, seat
        others = [agent for k, agent in enumerate(game.agents) if k != seat]
        self._roles = list(dict.fromkeys(map(role_of, others)))
        self._groups = [
            [k for k, agent in enumerate(others) if role_of(agent) == role] for role in self._roles
        ]
        self._others = len(others)
        self._columns: list[tuple[str, str, np.ndarray]] = []  # name, kind, observation indices
        self._least: list[tuple[str, str, np.ndarray]] = []
        self._pairs: list[tuple[str, str, np.ndarray]] = []
        for name, part in game.layout.items():
            self._add(name, part)
        described = [(name, kind) for name, kind, _ in self._columns + self._least]
        if "last_partner" in game.layout:
            described += [("partner_action", "partner"), ("partner_record", "partner")]
        described += self._memory_names()
        described += [("one", "constant"), ("start", "time"), ("end", "time"), ("after", "time")]
        self.names = tuple(name for name, _ in described)
        self.kinds = tuple(kind for _, kind in described)
        places = [(f"place.{k}", "place") for k in range(len(others))]
        pairs = [(name, kind) for name, kind, _ in self._pairs] + [("one", "constant"), *places]
        self.pair_names = tuple(name for name, _ in pairs)
        self.pair_kinds = tuple(kind for _, kind in pairs)

    def _add(self, name: str, part: Part) -> None:
        """Add the inputs of one part of the observation."""
        kind = "public" if name in _PUBLIC else "own" if name in _OWN else "partner"
        kind = "time" if name == "time" else kind
        index = np.arange(part.start, part.stop)
        if name == "informed":  # the seat's own flag makes the regime
            return
        if kind == "partner" and part.size == self._others:
            self._add_others(name, index)
        elif part.size == 1:
            self._columns.append((name, kind, index))
        else:
            self._columns += [(f"{name}.{k}", kind, index[k : k + 1]) for k in range(part.size)]

    def _add_others(self, name: str, index: np.ndarray) -> None:
        """Add a part that holds one number about each other agent: by role, and by agent."""
        self._pairs.append((name, "partner", index))
        for role, members in zip(self._roles, self._groups, strict=True):
            label = name if len(self._groups) == 1 else f"{name}.{role}"
            self._columns.append((label, "partner", index[members]))
            if len(members) > 1:
                self._least.append((f"{label}.least", "partner", index[members]))

    def _memory_names(self) -> list[tuple[str, str]]:
        names = ["gave"]
        for role in self._roles:
            suffix = "" if len(self._roles) == 1 else f".{role}"
            names += [f"{name}{suffix}" for name in _REMEMBERED]
        names.append("fallen")  # whether the others' record has ever been below the rule's latch
        return [(name, "memory") for name in names]

    def initial(self, lanes: int) -> np.ndarray:
        """Return the memory (lanes, remembered numbers) before the first step."""
        row = [0.0, 0.5, 0.0] + [0.5, 0.5, 1.0, 0.0] * len(self._groups) + [1.0]
        return np.tile(row, (lanes, 1))

    def regimes(self, observations: np.ndarray) -> np.ndarray:
        """Return the index (lanes,) in ``REGIMES`` from observations (lanes, features)."""
        layout = self.game.layout
        if "productivity" not in layout:
            return np.full(len(observations), UNINFORMED)
        good = observations[:, layout["productivity"].start] > 0.5
        regimes = np.where(good, GOOD, BAD)
        if "informed" in layout:
            regimes[observations[:, layout["informed"].start] < 0.5] = UNINFORMED
        return regimes

    def plan(self, parts: list[int], wishes: int) -> Plan:
        """Return where the inputs stand, for the compiled loop; places of an action's parts."""
        columns = [index for _, _, index in self._columns + self._least]
        least = [False] * len(self._columns) + [True] * len(self._least)
        layout = self.game.layout
        actions = layout["others_actions"].start
        groups = [actions + np.array(group) for group in self._groups]

        def place(name: str) -> int:
            return layout[name].start if name in layout else -1

        return Plan(
            starts=_starts(columns),
            entries=np.concatenate(columns).astype(np.int64),
            least=np.array(least),
            group_starts=_starts(groups),
            group_entries=np.concatenate(groups).astype(np.int64),
            pairs=np.array([index[0] for _, _, index in self._pairs], np.int64),
            parts=np.array(parts, np.int64),
            others=self._others,
            partner=place("last_partner"),
            actions=actions,
            records=place("trust_in_others"),
            invested=place("own_action"),
            productivity=place("productivity"),
            informed=place("informed"),
            time=place("time"),
            level=place("level"),
            wishes=wishes,
            horizon=int(self.game.constants.horizon),
        )


def _starts(rows: list[np.ndarray]) -> np.ndarray:
    """Return where each of the rows begins if they stand one after the other, and their end."""
    return np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)
