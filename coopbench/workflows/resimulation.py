"""Resimulation: the episodes of a stored cell are played again, as far as possible, and compared.

A policy that is known by name plays all of its episodes again. Of any other policy the recorded
episodes are played again from their seeds and actions. No file is trusted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import begin_players
from coopbench.baselines.player import Player
from coopbench.episodes.fingerprints import Fingerprints, extremes, recordable
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Episodes
from coopbench.episodes.trajectories import Recorder
from coopbench.playing.cell_job import CellJob
from coopbench.playing.recording import recorded_episode
from coopbench.playing.rollout import play
from coopbench.protocol.schema import Protocol
from coopbench.protocol.sections import Task
from coopbench.results.store import Stored
from coopbench.workflows.comparison import (
    agreement,
    columns,
    compared,
    differences,
    trace_of,
    trajectories,
)
from coopbench.workflows.consistency import episode_findings, metadata_findings
from coopbench.workflows.players import player_of
from coopbench.workflows.verdicts import RECORDED, RERUN, Check, Finding, concluded, elsewhere
from coopbench_envs.engine import DISABLED, Engine

__all__ = ["CheckJob"]


@dataclass(frozen=True, eq=False)
class CheckJob(CellJob):
    """The check of one stored cell, for a backend; its result is a ``Check``."""

    stored: Stored  # with episodes
    trust: tuple[str, ...] = ()  # digests of stored code that may be executed

    @property
    def _block(self) -> Episodes:
        if self.stored.episodes is None:
            raise ValueError("A failed run has no episodes to check.")
        return self.stored.episodes

    def __call__(self, tell: Callable[[float], None] | None) -> Check:
        """Check the cell."""
        try:
            return self._checked(tell)
        except Exception as error:  # the content of a file may cause any error
            text = f"cannot be played again: {type(error).__name__}: {error}"
            return concluded(self.cell.folder, [Finding(text)], episodes=len(self._block))

    def _checked(self, tell: Callable[[float], None] | None) -> Check:
        protocol, block, task = self.protocol, self._block, self.task
        findings = [
            *episode_findings(protocol, task, block),
            *metadata_findings(protocol, self.stored),
        ]
        if findings:  # what is not of the protocol is not played: it could be of any size
            return concluded(block.cell.folder, findings, episodes=len(block))
        policy, findings = player_of(protocol, task, self.stored, self.trust)
        if policy is not None:
            again = play(protocol, block.cell, policy, tell)
            how, played = RERUN, len(block)
            findings += [*_selection_findings(protocol, self.stored), *compared(block, again)]
        else:
            how, played = RECORDED, len(trace_of(block).recorded)
            findings += _recorded_findings(protocol, task, block)
        facts = {"how": how, "episodes": len(block), "played": played}
        check = concluded(block.cell.folder, findings, elsewhere(self.stored.meta), **facts)
        if self.stored.source is None or policy is not None:
            return check
        digest = self.stored.meta["code"]["sha256"]
        text = f"its code was not executed; to do so after reading source.txt, trust {digest}"
        return replace(check, reasons=(*check.reasons, text))


def _selection_findings(protocol: Protocol, stored: Stored) -> Iterator[Finding]:
    """Play the selection episodes with the chosen checkpoint; yield differences from those stored.

    The policies of the other checkpoints are not stored.
    """
    progress, selection = stored.progress, protocol.seeds.selection
    if stored.policy is None or progress is None or selection is None:
        return
    seeds = np.array(selection.seeds, np.uint64)
    again = play(protocol, progress.cell, stored.policy, seeds=seeds)
    best = progress.best(protocol.report.score)
    for name, scores in progress.metrics.items():
        same, near = agreement(scores[best], values(again, name))
        if not same.all():
            text = f"{name} of the selection episodes differs from what is stored"
            yield Finding(text, close=bool(near.all()))


# --- recorded episodes ----------------------------------------------------------------------------


def _recorded_findings(protocol: Protocol, task: Task, block: Episodes) -> Iterator[Finding]:
    """Play the recorded episodes again from their actions; yield differences from those stored."""
    recorded = trace_of(block).recorded
    numbers = list(recorded)
    if len(numbers) == 1 and len(block) > 1:
        numbers *= 2  # numpy adds up a single lane in another order: the last bits would differ
    engine = Engine(task.env, len(numbers), **task.parameters)
    expected = extremes(values(block, protocol.report.score)[: recordable(engine, len(block))])
    if tuple(recorded) != expected:
        yield Finding(f"the episodes {tuple(recorded)} are recorded; it should be {expected}")
        return
    shapes = list(_shape_findings(block, engine))
    if shapes:
        yield shapes[0]
        return
    starts = [recorded_episode(protocol, block, k).start for k in numbers]
    state = {name: np.stack([start[name] for start in starts]) for name in starts[0]}
    engine.reset(block.seeds[numbers], state=state)
    yield from _replay_findings(task, block, engine, numbers)


def _shape_findings(block: Episodes, engine: Engine) -> Iterator[Finding]:
    """Yield recorded episodes whose actions and rewards are not arrays of the game."""
    width, agents = engine.actions.shape[1:], len(block.agents)
    for k, (actions, rewards) in trace_of(block).recorded.items():
        steps = int(block.lengths[k])
        shapes = actions.shape == (steps, *width) and rewards.shape == (steps, agents)
        kinds = actions.dtype == engine.actions.dtype and rewards.dtype == np.float64
        if not (shapes and kinds):
            arrays = f"{actions.shape} of {actions.dtype}, {rewards.shape} of {rewards.dtype}"
            yield Finding(f"episode {k} is recorded as {arrays}", episodes=(k,))


def _replay_findings(
    task: Task, block: Episodes, engine: Engine, numbers: list[int]
) -> Iterator[Finding]:
    """Play the recorded actions of episodes in an engine that has been reset; compare results."""
    recorded, control = trace_of(block).recorded, engine.control
    recorder, prints = Recorder(engine), Fingerprints(engine)
    partners = _Partners(task, engine, numbers)
    recorder.note()
    for step in range(int(block.lengths[numbers].max())):
        lanes = [lane for lane, k in enumerate(numbers) if step < block.lengths[k]]
        joint = np.zeros_like(engine.actions)
        for lane in lanes:
            joint[lane] = recorded[numbers[lane]][0][step]
        yield from partners.compared(joint, lanes, step)
        engine.step(joint, DISABLED)
        recorder.note()
        prints.note()
        for lane in lanes:
            rewards = recorded[numbers[lane]][1][step]
            yield from _reward_findings(numbers[lane], step, rewards, control.rewards[lane])
    over = control.done & (engine.state.time == block.lengths[numbers])
    if not over.all():
        k = numbers[int(np.flatnonzero(~over)[0])]
        yield Finding(f"episode {k} does not end with step {block.lengths[k]}", episodes=(k,))
        return
    again = _outcome(engine, recorder)
    stored = {name: column[numbers] for name, column in columns(block).items() if name in again}
    yield from differences(stored, again, numbers)
    hashes = prints.trace(np.zeros(len(numbers)), block.lengths[numbers]).episodes
    yield from trajectories([trace_of(block).episodes[k] for k in numbers], hashes, numbers)


def _outcome(engine: Engine, recorder: Recorder) -> dict[str, np.ndarray]:
    """Return the results of the episodes in an engine, under the names of ``columns``."""
    control = engine.control
    return {
        "returns": control.returns,
        "terminated": control.ended,
        **dict(zip(engine.spec.metrics, control.measures.T, strict=True)),
        **recorder.metrics(),
        **{f"{name} of agents": metric for name, metric in recorder.agent_metrics().items()},
    }


class _Partners:
    """The partners of a task: as they are named, their recorded actions can be checked, too."""

    def __init__(self, task: Task, engine: Engine, numbers: list[int]) -> None:
        seats = task.seating(max(numbers) + 1, engine.agents)
        self._engine, self._numbers, self._seats = engine, numbers, seats[numbers]
        self._players = [Player(name, Game.of(engine)) for name in task.partner_names]
        begin_players(engine, self._players, first=1)  # stream 0 is the policy's

    def compared(self, joint: np.ndarray, lanes: list[int], step: int) -> Iterator[Finding]:
        """Compare the partners' actions now with their part of the recorded ones."""
        for number, player in enumerate(self._players):
            control = self._engine.control
            actions = player.act(control.obs, self._engine.view(), control.masks)
            for lane in lanes:
                seats = self._seats[lane] == number
                same, near = agreement(joint[lane][seats], actions[lane][seats])
                if not same.all():
                    k = self._numbers[lane]
                    text = (
                        f"partner {player.label} did not act so in step {step + 1} of episode {k}"
                    )
                    yield Finding(text, bool(near.all()), step + 1, (k,))


def _reward_findings(k: int, step: int, stored: np.ndarray, again: np.ndarray) -> Iterator[Finding]:
    same, near = agreement(stored, again)
    if not same.all():
        text = f"the rewards of step {step + 1} of episode {k} are {stored}; again {again}"
        yield Finding(text, close=bool(near.all()), step=step + 1, episodes=(k,))
