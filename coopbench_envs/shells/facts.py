"""Facts: who is told what besides observations and rewards; all interfaces lay it out.

Gymnasium and vectors tell all of it; with focal control the agent is told its own part of what is
not in ``OF_ALL``. PettingZoo tells every agent its part, and Stable-Baselines3 every row. What an
environment adds by ``EnvSpec.info`` is told everywhere, and metrics at the end of an episode.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from coopbench_envs.lanes import Lanes

__all__ = ["FIELDS", "OF_AGENTS", "OF_ALL", "OF_ROWS", "Facts", "handed_out"]

# What infos tell of the fields of ``Control`` and ``Finals``.
FIELDS = {
    "action_mask": "masks",
    "invalid_actions": "invalid",
    "alive": "alive",
    "state": "state",
}

# Told of all agents, also to one that plays with partners.
OF_ALL = frozenset(("invalid_actions", "alive", "state"))

# Told to each agent in PettingZoo, where the dead leave or are told that they are, and to each row
# of Stable-Baselines3, whose learners take no other words.
OF_AGENTS = ("action_mask", "invalid_actions")
OF_ROWS = ("action_mask", "alive")


class Facts:
    """What is told of an engine's games: now, or of the episodes that SAME_STEP has just finished.

    ``names`` are the fields that are told. With ``ego``, the number of an agent, it is what that
    agent is told, else what all are told.
    """

    def __init__(
        self, engine: Lanes, names: Iterable[str] = FIELDS, ego: int | None = None
    ) -> None:
        there = {
            "action_mask": engine.discrete,
            "invalid_actions": engine.discrete,
            "alive": engine.falling,
            "state": engine.control.state.shape[1] > 0,  # with ``global_state=True``
        }
        self.engine, self._ego = engine, ego
        self._fields = tuple((name, FIELDS[name]) for name in names if there[name])
        self._adds = engine.spec.info is not None

    def __bool__(self) -> bool:
        """Whether anything is ever told."""
        return bool(self._fields) or self._adds

    def kept(self, arrays: Any) -> dict[str, Any]:
        """Return the fields of a ``Control`` or ``Finals``, on any device, that are told."""
        return {name: getattr(arrays, field) for name, field in self._fields}

    def single(self) -> Mapping[str, np.ndarray]:
        """Return views of what is told of lane 0, (agents, ...) by name."""
        told = self._first
        if "alive" in told and self.engine.first.ended:
            told = told | self._own({"alive": self.engine.present()[0]}, self._ego)
        if not self._adds:
            return told
        added = {name: values[0] for name, values in self.engine.info().items()}
        return told | self._own(added, self._ego)

    @cached_property
    def _first(self) -> dict[str, np.ndarray]:
        """What the driver keeps of lane 0: the same views at every step."""
        return self._own(self.kept(self.engine.first), self._ego)

    def lanes(self, *, final: bool = False) -> Mapping[str, np.ndarray]:
        """Return views of what is told of all lanes, (lanes, agents, ...) by name."""
        engine = self.engine
        table = self.kept(engine.finals if final else engine.control)
        if "alive" in table:
            table["alive"] = engine.present(final=final)
        if self._adds:
            table |= engine.final_info if final else engine.info()
        return self._own(table, (slice(None), self._ego))

    def _own(self, table: dict[str, np.ndarray], place: Any) -> dict[str, np.ndarray]:
        """Return the part in ``place`` of what the ego is told of itself."""
        if self._ego is None:
            return table
        return {name: v if name in OF_ALL else v[place] for name, v in table.items()}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out views, which would become arrays of their own."""
        return {name: value for name, value in self.__dict__.items() if name != "_first"}


def handed_out(told: Mapping[str, np.ndarray], rows: Sequence[int]) -> list[dict[str, Any]]:
    """Return what the agents with these numbers are told of arrays (agents, ...), each by name.

    These are copies of their parts, and where they are numbers Python's own.
    """
    infos: list[dict[str, Any]] = [{} for _ in rows]
    for name, values in told.items():
        if values.ndim == 1:
            numbers = values.tolist()
            for info, row in zip(infos, rows, strict=True):
                info[name] = numbers[row]
        else:
            for info, row in zip(infos, rows, strict=True):
                info[name] = values[row].copy()
    return infos
