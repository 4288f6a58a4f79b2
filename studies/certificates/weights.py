"""Search the weights of the strategy ``weigher`` for every task with partners, by role.

    python -m studies.certificates.weights            # all; 15 minutes of one core
    python -m studies.certificates.weights TASK ...   # prints only

Without names it writes ``weights.csv``, from which the grid of scripts takes them: a short rule
with a few numbers that somebody tunes has to be among the scripts that certificates know.
"""

import sys
from collections.abc import Iterator

import numpy as np

from coopbench.files import write_text
from coopbench.protocol.loading import load_protocol
from studies.certificates.arena import Arena
from studies.certificates.certify import PROTOCOL
from studies.certificates.games import load_certificate
from studies.certificates.scripts import STRICT, WEIGHTS
from studies.certificates.search import Budget, Problem, searched
from studies.certificates.sections import Focal

_NAMES = ("level", "record", "answers", "own", "threshold", "least", "newest", "relative", "last")
_LOW = np.array([0.0, -2.0, -2.0, -2.0, 0.0, 0.0, 0.1, 0.0, 0.0])
_HIGH = np.array([1.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 4.0])
_WHOLE = ("relative", "last")
# Where searches begin: a grim trigger on records, on shares of the first ones, and mirrors.
_STARTS = np.array(
    [
        [0.9, 0.0, 0.0, 0.0, 0.65, 0.0, 0.4, 1.0, 2.0],
        [0.9, 0.0, 0.0, 0.0, 0.5, 0.0, 0.4, 0.0, 2.0],
        [0.9, 0.0, 0.0, 0.0, 0.3, 0.0, 0.4, 0.0, 2.0],
        [0.5, 1.7, 0.0, -1.7, 0.0, 0.0, 0.4, 0.0, 2.0],
        [0.5, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 2.0],
        [0.8, 0.2, 1.2, -0.9, 0.2, 0.0, 1.0, 0.0, 2.0],
    ]
)
_BUDGET = Budget(
    library=112,
    rounds=24,
    candidates=32,
    episodes=112,
    elite=6,
    choice=1120,
    spread=0.2,
    least=0.03,
)


def setting(vector: np.ndarray) -> str:
    """Return what stands after the colon of ``weigher`` for a vector of shares of the ranges."""
    numbers = _LOW + np.clip(vector, 0.0, 1.0) * (_HIGH - _LOW)
    written = {name: f"{number:.2f}" for name, number in zip(_NAMES, numbers, strict=True)}
    written |= {
        n: f"{number:.0f}" for n, number in zip(_NAMES, numbers, strict=True) if n in _WHOLE
    }
    return ",".join(f"{name}={text}" for name, text in written.items())


def best_weights(arena: Arena, strict: bool) -> str:
    """Return the best setting found in the seats of an arena's rules."""
    table = arena.table

    def value(vectors: np.ndarray, episodes: int, seed: int) -> np.ndarray:
        end = f",{STRICT}" if strict else ""
        names = [f"weigher:{setting(vector)}{end}" for vector in vectors[0]]
        seated = table.seating(*names)
        lineups, share = np.arange(len(seated.lineups)), -(-episodes // len(table.lineups))
        played = Arena(seated).play({}, lineups, share, seed)
        result: np.ndarray = played.returns.reshape(len(names), -1).mean(axis=1)
        return result[None]

    problem = Problem(1, len(_NAMES), value)
    return setting(searched(problem, (_STARTS - _LOW) / (_HIGH - _LOW), _BUDGET)[0])


def found(tasks: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the task, the role and the setting of each search; all tasks if none is named."""
    for task in load_protocol(PROTOCOL).task:
        if task.pools and (not tasks or task.id in tasks) and task.group != "shifted":
            certificate = load_certificate(task.env)
            for role, arena in Focal(task, certificate.references).arenas.items():
                strict = STRICT in certificate.best_script[role]
                yield task.id, role, best_weights(arena, strict)


def main() -> None:
    """Print what is found, and write it if it is all."""
    rows = []
    for row in found(sys.argv[1:]):
        print(*row, flush=True)
        rows.append(row)
    if not sys.argv[1:]:
        lines = [("task", "role", "setting"), *rows]
        write_text(WEIGHTS, "".join(f'{task},{role},"{text}"\n' for task, role, text in lines))


if __name__ == "__main__":
    main()
