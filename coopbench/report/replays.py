"""Replays of a report: the best and the worst episode, played again from recorded actions."""

from collections.abc import Iterator

import numpy as np

from coopbench.analysis.findings import Findings
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell, Episodes, Trace
from coopbench.errors import ReplayError
from coopbench.playing.recording import episode_of
from coopbench.report.blocks import Block, Details, Player, Text
from coopbench.report.player import as_html
from coopbench_envs.foreign_names import is_foreign

RULE = (
    "The first task, and the best policy that has recorded episodes there: of these, the one with "
    "the highest score and the one with the lowest. The best policy has the highest mean over the "
    "task's group, or, where there are no aggregates, the highest mean score."
)
NO_REPLAY = (
    "No episode can be shown: these results hold no recorded actions in environments that draw "
    "themselves."
)
_SHARE = 0.2  # of the size of a separate page


def replays(findings: Findings) -> tuple[Block, ...]:
    """Return the rule by which episodes are chosen, and their players: two, one, or none."""
    found = next(_recorded(findings), None)
    if found is None:
        return (Text(NO_REPLAY),)
    block, trace = found
    scores = values(block, findings.protocol.report.score)
    order = sorted(trace.recorded, key=lambda k: -np.nan_to_num(scores[k], nan=-np.inf))
    chosen = dict.fromkeys((order[0], order[-1]))
    names = ("Best", "Worst") if len(chosen) > 1 else ("An",)
    players = (
        _replay(findings, block.cell, k, trace.recorded[k], f"{name} episode", float(scores[k]))
        for name, k in zip(names, chosen, strict=True)
    )
    return (Text(RULE), *players)


def _recorded(findings: Findings) -> Iterator[tuple[Episodes, Trace]]:
    """Iterate over blocks with recorded episodes, by task, those of better policies first."""
    for task in (task for task in findings.protocol.task if not is_foreign(task.env)):
        played = findings.episodes.policies_on(task.id)
        rank = _ranks(findings, task.id, task.group)
        for policy in sorted(played, key=lambda name: -rank.get(name, -np.inf)):
            for block in findings.episodes.runs(task.id, policy):
                if block.trace is not None and block.trace.recorded:
                    yield block, block.trace


def _ranks(findings: Findings, task: str, group: str) -> dict[str, float]:
    """Return the scores to rank policies by: aggregates of a group, or means on a task."""
    score = findings.protocol.report.score
    overall = {row.policy: row.estimate for row in findings.aggregates_of("mean", group)}
    means = {row.policy: row.mean for row in findings.estimates_of(task, score)}
    scores = overall or means
    return {name: value for name, value in scores.items() if np.isfinite(value)}


def _replay(
    findings: Findings,
    cell: Cell,
    k: int,
    recorded: tuple[np.ndarray, np.ndarray],
    name: str,
    score: float,
) -> Details:
    """Return the player of an episode, or why it cannot be played again."""
    run = "" if cell.run is None else f", run {cell.run}"
    metric = findings.protocol.report.score
    title = f"{name}: {cell.policy}{run} on {cell.task}, episode {k}, {metric} {score:.6g}"
    try:
        episode = episode_of(findings.protocol, cell, k, *recorded)
        shown: Block = Player(as_html(episode, _SHARE))
    except ReplayError as error:
        shown = Text(str(error), warning=True)
    return Details(title, (shown,), "replay")
