"""Certificates: what a version 1 game asks of its agents, in reproducible figures.

A certificate holds the best rules that a search has found, as playable data, and what they and
fixed policies earn: in the repeated game against single policies, and in every task of a protocol.
The policies ``best_constant``, ``open_loop`` and ``rule`` play what the certificates of this
package hold; ``studies/certificates`` makes certificates and plays their figures again.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from coopbench.baselines.strategies.certified import certified

REPEATED = "repeated game"  # name of the section that belongs to no task


@dataclass(frozen=True)
class Figure:
    """A measured value, its standard error and the number of episodes behind it."""

    value: float
    error: float
    episodes: int


@dataclass(frozen=True)
class Criterion:
    """One requirement on a game, with the value that was measured and its standard error.

    It is met if the end of the 95 % interval of the value that makes it harder to meet is within
    the bound.
    """

    name: str
    value: float
    error: float
    bound: float
    above: bool  # True: value must be >= bound; False: <= bound
    met: bool


@dataclass(frozen=True)
class Certificate:
    """Figures and rules of one game; sections are its tasks and ``repeated game``."""

    env_id: str
    protocol: str
    effort: int  # budgets of the searches, as multiples of the usual ones
    references: dict[str, str]  # reference policy of each role
    best_script: dict[str, str]  # role -> script, tuned on the tasks that training may meet
    best_constant: dict[str, list[float]]  # role -> action, as fractions of the action's range
    open_loop: dict[str, list[float]]  # role -> investment at each step, as a fraction
    rules: dict[str, dict[str, Any]]  # section -> class -> role -> rule, or line-up -> rule
    figures: dict[str, dict[str, Figure]]  # section -> name -> figure
    criteria: tuple[Criterion, ...]

    @property
    def met(self) -> bool:
        """Whether every criterion holds."""
        return all(criterion.met for criterion in self.criteria)

    def score(self, task: str, name: str) -> float:
        """Return a figure of a task on the task's scale from ``low`` to ``high``."""
        figures = self.figures[task]
        low, high = figures["low"].value, figures["high"].value
        return (figures[name].value - low) / (high - low)

    def bounds(self) -> dict[str, dict[str, float]]:
        """Return the bounds of every task with their standard errors, as protocols hold them.

        The floor is the mean return of random play, where that is below the lower bound.
        """
        return {
            name: _bounds(figures) for name, figures in self.figures.items() if name != REPEATED
        }

    def to_json(self) -> str:
        """Write as JSON with sorted keys."""
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Certificate":
        """Read what ``to_json`` has written, parsed."""
        figures = {
            section: {name: Figure(**value) for name, value in table.items()}
            for section, table in content["figures"].items()
        }
        rows = tuple(Criterion(**row) for row in content["criteria"])
        return cls(**{**content, "figures": figures, "criteria": rows})


def _bounds(figures: Mapping[str, Figure]) -> dict[str, float]:
    low, high, random = (figures[name] for name in ("low", "high", "random"))
    bounds = {"low": low.value, "high": high.value}
    bounds |= {"floor": random.value} if random.value < low.value else {}
    bounds |= {"low_error": low.error, "high_error": high.error}
    return {name: round(value, 4) for name, value in bounds.items()}


def load_certificate(env_id: str) -> Certificate:
    """Return the certificate of an environment that this package contains.

    Raises ``FileNotFoundError`` if the environment has none.
    """
    return Certificate.of(certified(env_id))


def read_certificate(path: Path) -> Certificate:
    """Read a certificate from a file that ``to_json`` has written.

    Raises ``ValueError`` if it is none.
    """
    try:
        return Certificate.of(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{path} cannot be read as a certificate ({error}); allowed: a file that 'python -m "
            f"studies.certificates --out' has written."
        ) from None
