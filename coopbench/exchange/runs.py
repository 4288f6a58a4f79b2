"""Runs as files of other programs hold them, and what the readers of these files share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coopbench_envs.reading import read_regular

_LIMIT = 1 << 29  # bytes; the largest published experiments have less
# What ``absolute_metrics`` of a file hold. The format has no place for it, so the reader says it.
ABSOLUTE = {
    "best_checkpoint": "the best checkpoint of each run, played on fresh episodes",
    "max_episode": "the highest single value of all evaluations of each run, which is optimistic",
    "last": "the policy at the end of each run",
    "unknown": "of unknown kind: neither the file nor --absolute names it",
}
LABELS = ("algorithm", "task", "run")  # of a run


@dataclass(frozen=True)
class Options:
    """What the caller says about a file."""

    metric: str = "return"  # the score
    absolute: str = "unknown"  # what its absolute metrics are, a key of ``ABSOLUTE``
    columns: Mapping[str, str] = field(default_factory=dict)  # {label: name of the column}
    names: str = ""  # pattern of the names of runs, see ``curves.labels_of``


@dataclass(frozen=True)
class Run:
    """One run of an algorithm on a task."""

    environment: str
    task: str
    algorithm: str
    name: str
    steps: np.ndarray  # (evaluations,) int64, steps of the environment trained so far, rising
    metrics: dict[str, np.ndarray]  # name -> (evaluations, values) float64
    absolute: dict[str, np.ndarray]  # name -> (values,) float64; empty if the file has none


class Reading(NamedTuple):
    """What a reader has found."""

    runs: tuple[Run, ...]
    left_out: tuple[str, ...] = ()  # what was left out, and how values were summarised
    absolute: str = ""  # what the absolute metrics are, a key of ``ABSOLUTE``; empty: as told


def read_import(path: Path) -> bytes:
    """Return the content of a file to import.

    Raises ``FileNotFoundError`` if there is none, and ``ValueError`` if it is too large or cannot
    be read.
    """
    try:
        return read_regular(path, _LIMIT)
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no file {path} to import.") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read as a file: {error.strerror}.") from None


class Names:
    """Names of a file, each in one spelling: marl-eval reads all of them in lower case."""

    def __init__(
        self, advice: str = "rename it in the file, or spell both alike if they are one"
    ) -> None:
        self._advice = advice
        self._spelled: dict[tuple[str, str], str] = {}

    def check(self, kind: str, name: str, where: str) -> None:
        """Raise ``ValueError`` for a name that marl-eval cannot keep apart from others."""
        if not name.strip() or "," in name:
            why = "a comma, with which marl-eval joins names" if name.strip() else "no letters"
            raise ValueError(f"{where}: the {kind} {name!r} has {why}; {self._advice}.")
        self.check_case(kind, name, where)

    def check_case(self, kind: str, name: str, where: str) -> None:
        """Raise ``ValueError`` for a name that differs from an earlier one in case only."""
        other = self._spelled.setdefault((kind, name.lower()), name)
        if other != name:
            raise ValueError(
                f"{where}: the {kind} {name!r} differs from {other!r} in upper and lower case "
                f"only, and marl-eval takes them for one; {self._advice}."
            )
