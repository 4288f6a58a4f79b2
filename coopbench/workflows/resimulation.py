"""Resimulation: the episodes of a stored cell are played again, as far as possible, and compared.

A registered or trained policy plays all of its episodes again. Those of any other policy are played
again from their seeds and its stored actions. No file is trusted.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from coopbench.episodes.actions import Actions, largest, stored_episodes
from coopbench.episodes.fingerprints import recordable
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell, Episodes
from coopbench.episodes.trained import Trained
from coopbench.errors import DamagedResultError
from coopbench.playing.contestants import Model, PolicyLike, contestant_of
from coopbench.playing.groups import Group
from coopbench.playing.rollout import (
    CellJob,
    Keyed,
    engine_of,
    play_again,
    play_selection,
    play_together,
)
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.results.store import Stored, read_actions
from coopbench.workflows.consistency import (
    episode_discrepancies,
    metadata_discrepancies,
    recorded_discrepancies,
)
from coopbench.workflows.episode_diff import agreement, compared, part, stated
from coopbench.workflows.players import expected_policy
from coopbench.workflows.verdicts import (
    BY_INTERVAL,
    IDENTICAL,
    REPLAYED,
    RERUN,
    Check,
    Discrepancy,
    concluded,
    elsewhere,
)

_BY_CHANCE = 1e-4  # probability with which the score of an honest policy is called different
_KEYS = 3  # of random numbers, with which a policy that draws plays all episodes


@dataclass(frozen=True, eq=False)
class CheckJob(CellJob):
    """The check of one stored cell, for a backend; its result is a ``Check``."""

    stored: Stored  # with episodes
    trust: tuple[str, ...] = ()  # digests of stored code that may be executed
    key: int = 0  # from which policies of strangers get their random numbers

    @property
    def _block(self) -> Episodes:
        if self.stored.episodes is None:
            raise ValueError("A failed run has no episodes to check.")
        return self.stored.episodes

    @property
    def model(self) -> Model | None:
        """The policy of this package that must have played the cell; None if it is another one."""
        contestant = contestant_of(self.protocol, self.cell.policy)
        if contestant.origin == "trained" and self.stored.policy is not None:
            return Trained(self.stored.policy, None, {})
        return contestant.family if contestant.origin == "fixed" else None

    @cached_property
    def odd(self) -> list[Discrepancy]:
        """What is not of the protocol, and so is not played."""
        protocol, block, task = self.protocol, self._block, self.task
        return [
            *episode_discrepancies(protocol, task, block),
            *metadata_discrepancies(protocol, self.stored),
        ] or list(recorded_discrepancies(protocol, block, recordable(engine_of(task), len(block))))

    def __call__(self, tell: Callable[[float], None] | None) -> Check:
        """Check the cell."""
        return self.check(tell)

    def check(self, tell: Callable[[float], None] | None, again: Episodes | None = None) -> Check:
        """Check the cell; ``again`` are its episodes where they have been played already."""
        try:
            return self._checked(tell, again)
        except Exception as error:  # the content of a file may cause any error
            text = f"cannot be played again: {type(error).__name__}: {error}"
            return concluded(self.cell.folder, [Discrepancy(text)], episodes=len(self._block))

    def _checked(self, tell: Callable[[float], None] | None, again: Episodes | None) -> Check:
        protocol, block, task = self.protocol, self._block, self.task
        if self.odd:
            return concluded(block.cell.folder, self.odd, episodes=len(block))
        policy, discrepancies = expected_policy(protocol, task, self.stored, self.trust)
        where = elsewhere(self.stored.meta)
        how, played, by_interval = RERUN, len(block), ""
        if policy is not None:
            actor = self._keyed(policy)
            if again is None:
                again, _ = _again(protocol, block, actor, range(len(block)), tell)
            differing = [*compared(block, again, range(len(block))), *stated(block, again)]
            close = where and all(discrepancy.close for discrepancy in differing)
            if isinstance(actor, Keyed) and differing and not close:
                by_interval, differing = self._by_chance(actor, again, differing)
            discrepancies += [*_selection_discrepancies(protocol, self.stored), *differing]
        if policy is None or by_interval:
            how = REPLAYED
            try:
                actions = _stored_actions(task, self.stored, block)
            except DamagedResultError as error:
                played = 0
                discrepancies.append(Discrepancy(str(error)))
            else:
                played = len(actions.episodes)
                discrepancies += _replay_discrepancies(protocol, block, actions, tell)
        facts = {"how": how, "episodes": len(block), "played": played}
        check = concluded(block.cell.folder, discrepancies, where, **facts)
        if by_interval:
            verdict = BY_INTERVAL if check.verdict == IDENTICAL else check.verdict
            text = f"with random numbers of {_KEYS} keys from {self.key} {by_interval}"
            return replace(check, verdict=verdict, reasons=(*check.reasons, text))
        if self.stored.source is None or policy is not None:
            return check
        return replace(check, code=self.stored.meta["code"]["sha256"])

    def _by_chance(
        self, actor: Keyed, again: Episodes, differing: list[Discrepancy]
    ) -> tuple[str, list[Discrepancy]]:
        """Say what chance explains of the differences of a policy that draws random numbers.

        ``again`` are its episodes with the key of ``actor``. A policy that plays alike with another
        key draws none: its differences stand.
        """
        plays = [again]
        for number in range(1, _KEYS):
            other = Keyed(actor.policy, (*actor.key, number))
            more, _ = _again(self.protocol, self._block, other, range(len(self._block)), None)
            if more.own_trace.checksums == again.own_trace.checksums:
                text = "its random numbers are no reason: it plays alike with two keys"
                return "", [Discrepancy(text), *differing]
            plays.append(more)
        text, found = _score_difference(self.protocol, self._block, plays)
        return text, [*found, *_odd_episodes(self._block, plays)]

    def _keyed(self, policy: PolicyLike) -> PolicyLike | Keyed:
        """Return a policy, that of a stranger without seeds by which it could look answers up."""
        contestant = contestant_of(self.protocol, self.cell.policy)
        if policy is self.stored.policy or not contestant.elsewhere:
            return policy
        return Keyed(policy, (self.key, *self.cell.folder.encode()))


class CheckGroup(Group[CheckJob]):
    """The check of stored cells of one task, for a backend; its result is a ``Check`` of each."""

    def __call__(self, tell: Callable[[float], None] | None) -> tuple[Check, ...]:
        """Play the cells again together, as far as that is possible, and check each."""
        again = self._played(tell)
        return tuple(job.check(tell, again.get(job.cell)) for job in self.jobs)

    def _played(self, tell: Callable[[float], None] | None) -> dict[Cell, Episodes]:
        """Return the episodes of cells by policies of this package; empty if one cannot play."""
        try:
            played = [job for job in self.jobs if job.model is not None and not job.odd]
            if len(played) < 2:
                return {}
            policies = {job.cell: _expected(job) for job in played}
            blocks = [job.stored.episodes for job in played]
            until = {b.cell: _until(b.lengths) for b in blocks if b is not None}
            recorded = {b.cell: b.own_trace.recorded for b in blocks if b is not None}
            again = play_together(played[0].protocol, policies, tell, until, recorded)
        except Exception:  # its own check says what is wrong with a cell
            return {}
        return dict(zip(policies, again, strict=True))


def _expected(job: CheckJob) -> PolicyLike:
    """Return the policy of this package that must have played a cell."""
    policy, _ = expected_policy(job.protocol, job.task, job.stored)
    if policy is None:
        raise ValueError(f"There is no policy that plays {job}.")
    return policy


def _score_difference(
    protocol: Protocol, block: Episodes, plays: Sequence[Episodes]
) -> tuple[str, list[Discrepancy]]:
    """Say how the mean score that is stored differs from that of ``plays`` with several keys.

    How far chance goes follows from the spread over keys within episodes, not from what is stored.
    A difference beyond it is a discrepancy: one that a policy of 10,000 makes by chance.
    """
    from scipy.stats import t

    score, count = protocol.report.score, len(plays)
    stored, again = values(block, score), np.array([values(one, score) for one in plays])
    known = np.isfinite(stored) & np.isfinite(again).all(axis=0)
    if not known.any():
        return f"its mean {score} cannot be compared: no episode has one", []
    stored, again = stored[known], again[:, known]
    mean, episodes = float(again.mean() - stored.mean()), len(stored)
    variance = float(again.var(axis=0, ddof=1).mean()) * (1 + 1 / count) / episodes
    half = float(t.ppf(1 - _BY_CHANCE / 2, episodes * (count - 1))) * math.sqrt(variance)
    text = f"its mean {score} differs by {mean:.6g}; by chance it does by up to {half:.6g}"
    return text, [Discrepancy(text)] if abs(mean) > half else []


def _odd_episodes(block: Episodes, plays: Sequence[Episodes]) -> Iterator[Discrepancy]:
    """Yield whether the stored returns differ too often where those of all ``plays`` are alike.

    If one play of an episode differs from all others, which are alike, each is as likely to be it.
    Returns are alike within tolerance, since another machine may round otherwise in all episodes.
    """
    from scipy.stats import binom

    returns = np.array([one.returns for one in (block, *plays)])
    odd = [0] * len(returns)
    for k, own in enumerate(returns):
        others = np.delete(returns, k, axis=0)
        alike = agreement(others, np.broadcast_to(others[0], others.shape))[1].all(axis=(0, 2))
        odd[k] = int((alike & ~agreement(own, others[0])[1].all(axis=1)).sum())
    if binom.sf(odd[0] - 1, sum(odd), 1 / len(odd)) < _BY_CHANCE:
        yield Discrepancy(
            f"{odd[0]} episodes differ that it plays alike with {len(plays)} keys; with one key "
            f"that differ from all others there are {', '.join(map(str, odd[1:]))}"
        )


def _again(
    protocol: Protocol,
    block: Episodes,
    actor: PolicyLike | Keyed | Actions,
    numbers: Sequence[int],
    tell: Callable[[float], None] | None,
) -> tuple[Episodes, Actions | None]:
    """Play episodes of a cell again: with other random numbers to their ends, else as long."""
    longest = None if isinstance(actor, Keyed) else _until(block.lengths[list(numbers)])
    recorded = block.own_trace.recorded
    return play_again(protocol, block.cell, actor, numbers, recorded, longest, tell)


def _until(lengths: np.ndarray) -> int:
    """Return how many steps to play of episodes with the stored ``lengths``: one more than all.

    An episode that has been cut off is then longer than what is stored of it.
    """
    return int(lengths.max()) + 1


def _selection_discrepancies(protocol: Protocol, stored: Stored) -> Iterator[Discrepancy]:
    """Play the selection episodes with the chosen checkpoint; yield differences from those stored.

    The policies of the other checkpoints are not stored.
    """
    progress = stored.progress
    if stored.policy is None or progress is None:
        return
    again = play_selection(protocol, progress.cell, stored.policy, progress.metrics)
    best = protocol.chosen(progress)
    for name, scores in again.items():
        same, near = agreement(progress.metrics[name][best], scores)
        if not same.all():
            text = f"{name} of the selection episodes differs from what is stored"
            yield Discrepancy(text, close=bool(near.all()))


# --- stored actions -------------------------------------------------------------------------------


def _stored_actions(task: Task, stored: Stored, block: Episodes) -> Actions:
    """Return the actions of the policy of a cell.

    Raises ``DamagedResultError`` if they are not those that have to be stored.
    """
    engine = engine_of(task)
    numbers = stored_episodes(block, int(np.prod(engine.actions.shape[2:])), engine.horizon)
    longest, width = int(block.lengths[numbers].max()), engine.actions[0].size
    actions = read_actions(stored, largest(len(numbers), longest, width))
    if actions is None:
        raise DamagedResultError("a policy that is not of this package has to have actions.npz")
    joint, shape = actions.joint, (len(numbers), longest, *engine.actions.shape[1:])
    if not np.array_equal(actions.episodes, numbers):
        raise DamagedResultError(
            f"actions.npz holds {len(actions.episodes)} episodes; it should hold {len(numbers)}, "
            f"those that the results choose"
        )
    if joint.shape != shape or joint.dtype != engine.actions.dtype:
        raise DamagedResultError(f"the actions are {joint.shape} of {joint.dtype}, not {shape}")
    return actions


def _replay_discrepancies(
    protocol: Protocol, block: Episodes, actions: Actions, tell: Callable[[float], None] | None
) -> Iterator[Discrepancy]:
    """Play episodes again from the actions of their policy; yield differences."""
    numbers = actions.episodes.tolist()
    again, played = _again(protocol, block, actions, numbers, tell)
    if played is not None:
        yield from _action_discrepancies(actions, played)
    if len(numbers) < len(block):
        block, again = part(block, numbers), part(again, range(len(numbers)))
    yield from compared(block, again, numbers)


def _action_discrepancies(stored: Actions, again: Actions) -> Iterator[Discrepancy]:
    """Yield how stored actions differ from what was played with them.

    They may differ in the seats of partners and after the end of an episode, where they are zeros.
    """
    if stored.joint.shape != again.joint.shape:
        yield Discrepancy(f"the actions are those of {stored.joint.shape[1]} steps")
        return
    same, _ = agreement(stored.joint, again.joint)
    if not same.all():
        k, step = (int(index) for index in np.argwhere(~same)[0, :2])
        text = f"the actions of step {step + 1} are not those that were played"
        yield Discrepancy(text, step=step + 1, episodes=(int(stored.episodes[k]),))
