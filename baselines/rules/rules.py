"""Rules: clipped linear functions of inputs, one for each regime and part of the action.

A rule of a role is a vector of weights. ``Form`` says what the entries mean in a game, reads and
writes rules as data, and plays many at once: lanes stand in blocks, and every block has its rule.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.rules.acting import Batch, act
from coopbench.baselines.rules.inputs import KINDS, REGIMES, Inputs

__all__ = ["ONE", "ZERO", "Form", "RuleData"]

# {"switch": share of the horizon, "scaled": 0 or 1, "latch": record,
#  part: {regime: {input: weight}}}
RuleData = dict[str, Any]
ZERO, ONE = -1, -2  # in place of the number of a variable: the weight is constant
_SCALARS = {"switch": 1.0, "scaled": 1.0, "latch": 0.0}  # entries before the weights, by default
_HEAD = len(_SCALARS)


class Form:
    """The weights of the rules of one seat's role in a game.

    A vector holds the time of the switch, whether the investment is scaled by the level of a phase,
    and the latch: the record of the others below which the input ``fallen`` is 1 from then on. Then
    stand weights (regimes, parts, inputs) of the action's parts that are one number, and weights
    (regimes, pair inputs) of the wishes, if there are any.
    """

    def __init__(self, game: Game, seat: int) -> None:
        self.inputs = Inputs(game, seat)
        layout = game.action_layout
        single = {name: part.start for name, part in layout.items() if name != "wishes"}
        self.parts = single or {"investment": 0}
        self.wishes = layout.get("wishes")
        low, high = game.low[seat], game.high[seat]
        self._horizon = int(game.constants.horizon)
        self._width = max(part.stop for part in game.layout.values())
        self._low, self._range = low, high - low
        wishes = self.wishes.start if self.wishes else -1
        self._plan = self.inputs.plan(list(self.parts.values()), wishes)
        self._remembered = np.array([kind == "memory" for kind in self.inputs.kinds])
        self._shape = (len(REGIMES), len(self.parts), len(self.inputs.names))
        self._single = int(np.prod(self._shape))
        pairs = len(self.inputs.pair_names) if self.wishes else 0
        self._pair_shape = (len(REGIMES), pairs)
        self.size = _HEAD + self._single + len(REGIMES) * pairs

    def initial(self, lanes: int, weights: np.ndarray) -> np.ndarray:
        """Return the memory before the first step; without columns if no rule uses it."""
        used = self._single_weights(weights)[..., self._remembered].any()
        memory = self.inputs.initial(lanes)
        return memory if used else memory[:, :0]

    def act(
        self, weights: np.ndarray, observations: np.ndarray, memory: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return actions (lanes, parts) in units and the new memory.

        ``weights`` are (blocks, size): the lanes of ``observations`` (lanes, features) stand in so
        many blocks of equal length.
        """
        pairs = weights[:, _HEAD + self._single :].reshape(len(weights), *self._pair_shape)
        fractions, after = np.empty((len(observations), len(self._range))), memory.copy()
        act(
            self._plan,
            Batch(
                np.ascontiguousarray(self._single_weights(weights)),
                np.ascontiguousarray(pairs),
                np.ascontiguousarray(weights[:, :_HEAD]),
            ),
            np.ascontiguousarray(observations, np.float32),
            after,
            np.zeros(len(self.inputs.names)),
            fractions,
        )
        return self._low + fractions * self._range, after

    def _single_weights(self, weights: np.ndarray) -> np.ndarray:
        """Return the weights (blocks, regimes, parts, inputs) of parts that are one number."""
        single = weights[:, _HEAD : _HEAD + self._single]
        return single.reshape(len(weights), *self._shape)

    def over_time(self, weights: np.ndarray) -> np.ndarray:
        """Return the actions (steps, parts) of one rule that depends on nothing but the step."""
        observations = np.zeros((self._horizon, self._width), np.float32)
        time = self.inputs.game.layout["time"].start
        observations[:, time] = np.arange(self._horizon) / self._horizon
        return self.act(weights[None], observations, self.initial(self._horizon, weights[None]))[0]

    # -- which weights a class of rules has ------------------------------------------------------

    def free(self, kinds: str, regimes: tuple[str, ...], tied: bool = False) -> np.ndarray:
        """Return for each weight the number of its variable, or ``ZERO`` or ``ONE``.

        Rules may use inputs up to the kind ``kinds`` in the order of ``KINDS``. Weights of other
        ``regimes`` are 0; with ``tied`` all regimes have the same weights and nothing is scaled.
        """
        last = KINDS.index(kinds)
        used = [KINDS.index(kind) <= last for kind in self.inputs.kinds]
        single = np.broadcast_to(used, self._shape)
        numbers = np.arange(self._single).reshape(self._shape)
        paired = [KINDS.index(kind) <= last for kind in self.inputs.pair_kinds]
        pairs = np.broadcast_to(paired if self.wishes else [], self._pair_shape)
        pair_numbers = self._single + np.arange(pairs.size).reshape(self._pair_shape)
        if tied:
            numbers, pair_numbers = (n[:1].repeat(len(REGIMES), 0) for n in (numbers, pair_numbers))
        elsewhere = [name not in regimes and not tied for name in REGIMES]
        table = np.where(single, numbers, ZERO)
        table[elsewhere] = ZERO
        pair_table = np.where(pairs, pair_numbers, ZERO)
        pair_table[elsewhere] = ZERO
        switch = ZERO if kinds == "constant" else self.size
        latch = self.size + 1 if KINDS.index("memory") <= last else ZERO
        head = [switch, ZERO if tied else ONE, latch]
        flat = np.concatenate([head, table.ravel(), pair_table.ravel()])
        return _renumbered(flat)

    # -- rules as data ---------------------------------------------------------------------------

    def data(self, weights: np.ndarray) -> RuleData:
        """Write a vector of weights as data; weights of 0 are left out."""
        single = weights[_HEAD : _HEAD + self._single].reshape(self._shape)
        rule: RuleData = {"switch": _short(weights[0]), "scaled": float(weights[1])}
        if weights[2] != 0.0:
            rule["latch"] = _short(weights[2])
        for p, part in enumerate(self.parts):
            rule[part] = _named(single[:, p], self.inputs.names)
        if self.wishes is not None:
            pairs = weights[_HEAD + self._single :].reshape(self._pair_shape)
            rule["wishes"] = _named(pairs, self.inputs.pair_names)
        return rule

    def weights(self, rule: Mapping[str, Any]) -> np.ndarray:
        """Read a vector of weights from data.

        Raises ``ValueError`` for parts, regimes and inputs that the game does not have, and for
        weights that are not finite numbers.
        """
        vector = np.zeros(self.size)
        for place, (name, usual) in enumerate(_SCALARS.items()):
            vector[place] = _checked(rule.get(name, usual), name)
        single = vector[_HEAD : _HEAD + self._single].reshape(self._shape)
        for part, table in rule.items():
            if part in _SCALARS:
                continue
            if part in self.parts:
                _fill(single[:, list(self.parts).index(part)], table, self.inputs.names, part)
            elif part == "wishes" and self.wishes is not None:
                pairs = vector[_HEAD + self._single :].reshape(self._pair_shape)
                _fill(pairs, table, self.inputs.pair_names, part)
            else:
                allowed = ", ".join([*_SCALARS, *self.parts, *(["wishes"] if self.wishes else [])])
                raise ValueError(f"The rule has a part {part!r}; allowed here: {allowed}.")
        return vector


def _renumbered(table: np.ndarray) -> np.ndarray:
    """Return the numbers of variables without gaps; what is negative stays."""
    numbers = np.unique(table[table >= 0])
    return np.where(table < 0, table, np.searchsorted(numbers, table))


def _short(value: float) -> float:
    """Return a weight as it is written: with five significant digits."""
    return float(f"{value:.5g}")


def _named(table: np.ndarray, names: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Return the weights (regimes, inputs) that are not 0, by name."""
    rows = {
        regime: {name: _short(w) for name, w in zip(names, row, strict=True) if w != 0.0}
        for regime, row in zip(REGIMES, table, strict=True)
    }
    return {regime: row for regime, row in rows.items() if row}


def _fill(target: np.ndarray, table: Any, names: tuple[str, ...], part: str) -> None:
    """Write named weights into ``target`` (regimes, inputs)."""
    for regime, row in _mapping(table, part).items():
        if regime not in REGIMES:
            raise ValueError(
                f"{part} of the rule has a regime {regime!r}; allowed: {', '.join(REGIMES)}."
            )
        for name, value in _mapping(row, f"{part}, {regime}").items():
            if name not in names:
                raise ValueError(
                    f"{part} of the rule reads {name!r}, which this game does not have; allowed: "
                    f"{', '.join(names)}."
                )
            target[REGIMES.index(regime), names.index(name)] = _checked(value, name)


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} of the rule was a {type(value).__name__}; allowed: a table.")
    return value


def _checked(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise ValueError(f"The weight {name!r} of the rule was {value!r}; allowed: a number.")
    return float(value)
