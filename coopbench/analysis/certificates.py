"""What the package knows of the tasks that were played: their certificates."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from coopbench.analysis.battles import PLAYERS, BattleCertificate, load_battles
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import has_agreed_bounds
from coopbench.baselines.strategies.certified import certified
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Bounds, Task
from coopbench_envs.choices import resolved
from coopbench_envs.foreign_names import is_foreign
from coopbench_envs.registration import spec

_Z = 1.959963984540054  # quantile 0.975 of the normal distribution
# Figures of a game's certificate: play that observes nothing but the time, rules, and scripts.
BLIND = {"sequence": "best fixed sequence found", "constant": "best constant found"}
OBSERVING = {
    "memory": "best rule found, with memory and a latch",
    "partner": "best rule found, all observations of a step",
    "blind": "best rule found that ignores partners",
    "public": "best rule found, public state and time",
}
BEST_SCRIPT = "best script, chosen with the training partners"  # name of a criterion
SCRIPT = {"script": "best script found"}


@dataclass(frozen=True, eq=False)
class CertifiedTask(ReportRow):
    """What a task's certificate says of simple play, and of the best play that was found.

    Simple play observes only the time in self-play and in battles; with partners it is the script
    that was chosen with the partners of the training. Scores are normalized like those of the
    report, with 95 % intervals. They come from the certificate, not from the report's episodes.
    """

    task: str
    simple: str
    simple_score: float
    simple_low: float
    simple_high: float
    best: str  # best play found
    best_score: float
    best_low: float
    best_high: float
    most: float  # score of simple play up to which the claim holds
    met: bool  # the claim: simple play does not go far on this task


class _Play(NamedTuple):
    """A player, and its score with its interval."""

    name: str
    score: float
    low: float
    high: float


def certified_tasks(protocol: Protocol, table: EpisodeTable) -> tuple[CertifiedTask, ...]:
    """Look up what the certificates of this package say of the tasks that were played.

    A certificate is about a game with its parameters and partners, and about a score. It is on the
    scale of the protocol; without one, as of ``minmax``, nothing is said.
    """
    if not has_agreed_bounds(protocol):
        return ()
    played = {task for task, _ in table.pairs}
    tasks = (task for task in protocol.task if task.id in played and not is_foreign(task.env))
    rows = (_battle(protocol, task) or _game(protocol, task) for task in tasks)
    return tuple(row for row in rows if row is not None)


@cache
def _battles(env_id: str) -> tuple[BattleCertificate, ...]:
    return tuple(load_battles(env_id).values())


def _battle(protocol: Protocol, task: Task) -> CertifiedTask | None:
    """Return what the certificate of a battle says; it counts victories."""
    if protocol.report.score != "win" or task.partners:
        return None
    environment = spec(task.env)
    wanted = resolved(environment, task.parameters)
    for certificate in _battles(environment.id):
        if resolved(environment, certificate.parameters) == wanted:
            break
    else:
        return None
    blind, observing = (
        _share(certificate, player, task.bounds)
        for player in (certificate.best_blind, certificate.reactive)
    )
    most = 0.5 * certificate.figures[certificate.reactive].win_low
    met = certificate.is_shown_to_need_sight
    return CertifiedTask(task.id, *blind, *observing, _on_scale(most, task.bounds), met)


def _share(certificate: BattleCertificate, player: str, bounds: Bounds) -> _Play:
    """Return the share of battles that a player wins."""
    figure, name = certificate.figures[player], PLAYERS[player][0].replace("`", "")
    shares = figure.win, figure.win_low, figure.win_high
    return _Play(name, *(_on_scale(share, bounds) for share in shares))


def _on_scale(share: float, bounds: Bounds) -> float:
    """Return a share of battles, or a return, on the scale of the bounds."""
    return (share - bounds.low) / (bounds.high - bounds.low)


def _game(protocol: Protocol, task: Task) -> CertifiedTask | None:
    """Return what the certificate of a game says, in the score of the protocol that it is about."""
    try:
        content = certified(spec(task.env).id)
    except FileNotFoundError:
        return None
    source = load_protocol(content["protocol"])
    alike = [one.id for one in source.task if _what(one) == _what(task)]
    ids = [name for name in alike if name in content["figures"]]
    if not ids or protocol.report.score != source.report.score:
        return None
    figures = content["figures"][ids[0]]
    if task.partners:
        names = {f"{ids[0]}: {BEST_SCRIPT}"}
        scripts = ", ".join(dict.fromkeys(content["best_script"].values()))
        simple = _best(figures, {"best_script": f"best_script: {scripts}"})
    else:
        names = {f"{ids[0]}: best {kind}" for kind in BLIND}
        simple = _best(figures, BLIND)
    required = [row for row in content["criteria"] if row["name"] in names]
    most = min(row["bound"] for row in required)
    best = _best(figures, OBSERVING | SCRIPT)
    met = all(row["met"] for row in required)
    row = CertifiedTask(task.id, *simple, *best, most, met)
    own, bounds = source.task_of(ids[0]).bounds, task.bounds
    if (own.low, own.high) == (bounds.low, bounds.high):
        return row
    return _moved(row, own, bounds)


def _moved(row: CertifiedTask, own: Bounds, bounds: Bounds) -> CertifiedTask:
    """Return on other ``bounds`` what a certificate says on its ``own``."""

    def on_task(score: float) -> float:
        return _on_scale(own.low + score * (own.high - own.low), bounds)

    return replace(
        row,
        simple_score=on_task(row.simple_score),
        simple_low=on_task(row.simple_low),
        simple_high=on_task(row.simple_high),
        best_score=on_task(row.best_score),
        best_low=on_task(row.best_low),
        best_high=on_task(row.best_high),
        most=on_task(row.most),
    )


def _what(task: Task) -> tuple[Any, ...]:
    return task.env, task.parameters, task.partners


def _best(figures: Mapping[str, Any], kinds: Mapping[str, str]) -> _Play:
    """Return the best of some kinds of play, on the scale from the lower to the upper bound."""
    low, width = figures["low"]["value"], figures["high"]["value"] - figures["low"]["value"]
    kind = max((kind for kind in kinds if kind in figures), key=lambda k: figures[k]["value"])
    score, half = (figures[kind]["value"] - low) / width, _Z * figures[kind]["error"] / width
    return _Play(kinds[kind], score, score - half, score + half)
