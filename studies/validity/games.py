"""What kinds of play reach in the tasks of coopetition-standard; a table of ``validity.py``.

Figures come from the certificates of the games, or with ``--play`` from their rules and policies,
which then play again: the same episodes, hence the same figures, in one to two minutes per game.
"""

import argparse
import sys
from collections.abc import Iterator

import numpy as np

from coopbench.protocol.loading import load_protocol
from coopbench.protocol.task import Task
from coopbench_envs.registration import spec
from studies.certificates import PROTOCOL, certify
from studies.certificates.games import Certificate, load_certificate

Certificates = dict[str, Certificate]

# Head of the column, and names of the figure: the first one that a task has.
KINDS = {
    "defect": ("always_defect", "low"),
    "constant": ("constant",),
    "sequence": ("sequence",),
    "state only": ("public",),
    "blind": ("blind", "low"),
    "partner": ("partner",),
    "memory": ("memory",),
    "best script": ("script",),
    "`best_script`": ("best_script",),
    "Bayesian": ("bayesian",),
    "optimum": ("high",),
    "reference": ("reference",),
    "random": ("random",),
}
_EPISODES = 1000  # of an evaluation under the protocol


def games(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield for every task two rows: scores, and mean own returns with their standard errors."""
    certificates = stored()
    if arguments.play:
        certificates = {env_id: replayed(old) for env_id, old in certificates.items()}
    scores, returns = score_rows(certificates), return_rows(certificates)
    yield ["task", "unit", *next(scores)[1:]]
    next(returns)
    for score_row, return_row in zip(scores, returns, strict=True):
        yield [score_row[0], "score", *score_row[1:]]
        yield [return_row[0], "return", *return_row[1:], ""]


def stored() -> Certificates:
    """Return the certificates of this package by environment; names those that are missing."""
    certificates = {}
    for env_id in dict.fromkeys(spec(task.env).id for task in load_protocol(PROTOCOL).task):
        try:
            certificates[env_id] = load_certificate(env_id)
        except FileNotFoundError as error:
            print(error, file=sys.stderr)
    return certificates


def replayed(certificate: Certificate) -> Certificate:
    """Play the rules of a certificate again; say whether its figures are the same."""

    def tell(part: str) -> None:
        print(f"{certificate.env_id}, {part}", file=sys.stderr, flush=True)

    again = certify(certificate.env_id, stored=certificate, tell=tell)
    tell("as stored" if again.figures == certificate.figures else "differs from what is stored")
    return again


def score_rows(certificates: Certificates, group: str = "") -> Iterator[list[str]]:
    """Yield the head, then the scores of every kind of play in each task (of a group)."""
    yield ["task", *KINDS, f"standard error, {_EPISODES} episodes"]
    for task, certificate in certified_tasks(certificates, group):
        figures = certificate.figures[task.id]
        scores = [_score(certificate, task.id, names) for names in KINDS.values()]
        width = figures["high"].value - figures["low"].value
        best = figures["memory"]
        error = best.error * np.sqrt(best.episodes / _EPISODES) / width
        yield [f"`{task.id}`", *("" if s is None else f"{s:z.2f}" for s in scores), f"{error:z.3f}"]


def return_rows(certificates: Certificates) -> Iterator[list[str]]:
    """Yield the head, then the mean own returns of every kind of play in each task."""
    yield ["task", *KINDS]
    for task, certificate in certified_tasks(certificates):
        figures = certificate.figures[task.id]
        cells = []
        for names in KINDS.values():
            figure = next((figures[name] for name in names if name in figures), None)
            cells.append("" if figure is None else f"{figure.value:z.2f} ± {figure.error:z.2f}")
        yield [f"`{task.id}`", *cells]


def group_rows(certificates: Certificates) -> Iterator[list[str]]:
    """Yield the head, then the mean score over the certified tasks of each group."""
    yield ["group", "tasks", *KINDS]
    for group in load_protocol(PROTOCOL).groups:
        rows = [
            [_score(certificate, task.id, names) for names in KINDS.values()]
            for task, certificate in certified_tasks(certificates, group)
        ]
        columns = [[s for s in column if s is not None] for column in zip(*rows, strict=True)]
        means = ["" if not column else f"{np.mean(column):z.2f}" for column in columns]
        if rows:
            yield [f"`{group}`", str(len(rows)), *means]


def certified_tasks(
    certificates: Certificates, group: str = ""
) -> Iterator[tuple[Task, Certificate]]:
    """Yield the tasks of the protocol (of a group) that a certificate has measured."""
    for task in load_protocol(PROTOCOL).task:
        certificate = certificates.get(spec(task.env).id)
        if certificate and task.id in certificate.figures and group in ("", task.group):
            yield task, certificate


def _score(certificate: Certificate, task: str, names: tuple[str, ...]) -> float | None:
    """Return the score of the first of these figures that the task has; None without any."""
    for name in names:
        if name in certificate.figures[task]:
            return certificate.score(task, name)
    return None
