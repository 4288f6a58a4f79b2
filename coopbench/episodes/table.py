"""The episode table: the results of every episode of every cell, with named axes."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from coopbench import provenance
from coopbench.episodes.grouping import grouped
from coopbench.statistics.scores import means_of_defined

_BYTES = 240  # of a policy's name in the name of a folder, which has at most 255
_DIGITS = 32  # of the digest of a name, hexadecimal
_LONGEST = 60  # characters of a longer name that are used, or of one with other characters
DIGEST = 32  # bytes of a SHA-256
LARGEST = 1e70  # of a result in size: squares of variances of such numbers are finite


@dataclass(frozen=True)
class Cell:
    """One policy on one task; plain data, so that it can be sent to another process."""

    task: str
    policy: str
    run: int | None = None  # training seed of a learned policy; None for one without

    @property
    def folder(self) -> str:
        """Relative folder of the cell's results; different policies never share one.

        A plain name stands in it as it is, with one ``@`` at most. Every other one has a part that
        is easy to read, then ``@@`` and enough digits of its digest that no two are alike.
        """
        slug = self.policy.replace(":", "@")
        plain = re.fullmatch(r"\w[\w.,=-]*(:[\w.,=-]+)?", self.policy, re.ASCII)
        if not plain or len(slug) > _BYTES:
            digest = hashlib.sha256(self.policy.encode()).hexdigest()[:_DIGITS]
            readable = re.sub(r"[^\w.-]+", "-", self.policy, flags=re.ASCII)
            slug = readable[-_LONGEST:].strip("-.") + "@@" + digest
        return f"{self.task}/{slug}" if self.run is None else f"{self.task}/{slug}/run-{self.run}"


@dataclass(frozen=True)
class Trace:
    """Checksums that prove how the episodes of a cell were played; see fingerprints."""

    digests: np.ndarray  # (episodes, 32) uint8, SHA-256 of every episode's trajectory
    steps: np.ndarray  # (longest,) uint64, checksum of step t + 1 over all episodes
    # Episode number -> (actions, rewards) by step, for the few that are recorded.
    recorded: dict[int, tuple[np.ndarray, np.ndarray]]
    actions: bytes | None = None  # of a policy that a verifier does not have; see ``actions``

    @property
    def checksums(self) -> tuple[bytes, ...]:
        """SHA-256 of every episode's trajectory, to compare and to count."""
        content = self.digests.tobytes()
        return tuple(content[k : k + DIGEST] for k in range(0, len(content), DIGEST))

    @property
    def episodes(self) -> tuple[str, ...]:
        """SHA-256 of every episode's trajectory, in hexadecimal digits, to show and to store."""
        text, width = self.digests.tobytes().hex(), 2 * DIGEST
        return tuple(text[k : k + width] for k in range(0, len(text), width))


@dataclass(frozen=True)
class Episodes:
    """All episodes of one cell."""

    cell: Cell
    agents: tuple[str, ...]
    seeds: np.ndarray  # (episodes,) uint64
    lengths: np.ndarray  # (episodes,) int64, steps played
    terminated: np.ndarray  # (episodes,) bool; the others were truncated at the horizon
    seats: np.ndarray  # (episodes, agents) bool, those that the policy played; see rollout
    returns: np.ndarray  # (episodes, agents) float64
    metrics: dict[str, np.ndarray]  # name -> (episodes,), the game's own and trajectories'
    curves: dict[str, np.ndarray]  # name -> (steps + 1,), means over episodes; see rollout
    agent_metrics: dict[str, np.ndarray] = field(default_factory=dict)  # (episodes, agents) each
    trace: Trace | None = None  # None for results from elsewhere
    common_reward: bool = False  # every agent was paid the one reward of the team
    # Of an environment of another package: its code, and whether its episodes can be repeated.
    environment: Mapping[str, Any] = field(default_factory=dict)
    outside: int = 0  # actions of the policy that were not in its action space; see rollout
    rescaled: str = ""  # how its actions were scaled to the bounds of the game, if they were
    # Whether starts differ or the environment may have drawn random numbers in some episode. False:
    # what happened followed from the one start and from the actions alone.
    drawn: bool = True
    # Who acted by numbers in a game of choices and played the nearest ones: name -> "N choices".
    nearest: Mapping[str, str] = field(default_factory=dict)
    scores_alone: bool = False  # shipped scores: nothing but the score and the length is stored

    def __post_init__(self) -> None:
        _check_size(self.cell, {"return": self.returns} | self.metrics | self.agent_metrics)
        if self.trace is not None and np.isnan(self.returns).any():
            raise ValueError(
                f"return of {self.cell.folder} is nan in an episode: a reward of the environment "
                f"is not a number; allowed are finite ones."
            )

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def own_trace(self) -> Trace:
        """The trace; ``ValueError`` for episodes that were not played here."""
        if self.trace is None:
            raise ValueError(f"{self.cell} was not played here: it has no trace.")
        return self.trace

    @property
    def team_returns(self) -> np.ndarray:
        """Sum over agents of their returns, or the one that they have in common; (episodes,)."""
        return self.returns[:, 0] if self.common_reward else self.returns.sum(axis=1)

    @property
    def decisions(self) -> int:
        """How many actions the policy has taken, over all episodes and seats."""
        return int((self.seats.sum(axis=1) * self.lengths).sum())

    def played(self, k: int) -> str:
        """Return the agents that the policy played in episode k, in words."""
        if self.seats[k].all():
            return "all"
        seats = zip(self.agents, self.seats[k], strict=True)
        return " ".join(agent for agent, is_policys in seats if is_policys)


@dataclass(frozen=True)
class Progress:
    """Results of the checkpoints of one training run; axes checkpoint, episode."""

    cell: Cell
    steps: np.ndarray  # (checkpoints,) int64, steps of the environment trained so far, increasing
    metrics: dict[str, np.ndarray]  # (checkpoints, episodes) float64; always has "return"

    def __post_init__(self) -> None:
        _check_size(self.cell, self.metrics)

    def __len__(self) -> int:
        return len(self.steps)

    def means(self, score: str) -> np.ndarray:
        """Mean of a metric over the episodes of every checkpoint, (checkpoints,) float64.

        Episodes in which the metric is undefined do not count; nan if it is in all of them.
        ``score`` is the protocol's score, by which policies are compared; checkpoints that lack it,
        which only files from elsewhere do, are compared by their returns.
        """
        values = self.metrics.get(score, self.metrics["return"])
        return means_of_defined(values)

    def best(self, score: str) -> int:
        """Number of the checkpoint with the highest mean of a metric, the earliest of several.

        nan counts as the lowest.
        """
        means = self.means(score)
        return int(np.argmax(np.where(np.isnan(means), -np.inf, means)))


def _check_size(cell: Cell, results: Mapping[str, np.ndarray]) -> None:
    """Raise ``ValueError`` for a number that is too large to be averaged; nan is undefined."""
    for name, numbers in results.items():
        beyond = np.abs(numbers) > LARGEST
        if beyond.any():
            raise ValueError(
                f"{name} of {cell.folder} is {numbers[beyond][0]:g} in an episode; allowed are "
                f"numbers up to {LARGEST:g} in size. Scale "
                f"{'the rewards of the environment' if name == 'return' else 'this metric'}."
            )


@dataclass(frozen=True)
class Played:
    """Result of playing one cell."""

    episodes: Episodes
    progress: Progress | None  # of a training run with checkpoints
    seconds: float  # that it took
    machine: Mapping[str, Any] = field(default_factory=provenance.machine)  # that it was played on


@dataclass(frozen=True)
class Failure:
    """A training run that produced no policy, and why."""

    cell: Cell
    reason: str


T = TypeVar("T", Episodes, Progress)


@dataclass(frozen=True)
class EpisodeTable:
    """Episodes of all finished cells; axes task, policy, run, checkpoint, episode, agent.

    ``blocks`` are the evaluation episodes, those of the best checkpoint where there are several;
    ``progress`` holds the checkpoint axis of the runs that have one; ``trained`` the steps of the
    environment that the run of a cell was trained, where they are recorded; ``settings`` the
    hyperparameters of the run. ``own_episodes`` says that every run has played episodes of its own,
    as those of other programs have: equal seeds then mean nothing. ``bare`` are the policies that
    are one trained model without a training seed, {policy: what kind of model}; the run of their
    cells is None.
    """

    blocks: tuple[Episodes, ...]
    progress: tuple[Progress, ...] = ()
    failures: tuple[Failure, ...] = ()
    trained: Mapping[Cell, int] = field(default_factory=dict)
    settings: Mapping[Cell, Mapping[str, Any]] = field(default_factory=dict)
    own_episodes: bool = False
    bare: Mapping[str, str] = field(default_factory=dict)
    # What follows from the episodes and is asked for again, by whom it is asked for.
    kept: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return sum(len(block) for block in self.blocks)

    def __iter__(self) -> Iterator[Episodes]:
        return iter(self.blocks)

    def of(self, task: str, policy: str, run: int | None = None) -> Episodes | None:
        """Return the episodes of one cell, or None if it has not been finished."""
        blocks = (block for block in self.runs(task, policy) if block.cell.run == run)
        return next(blocks, None)

    def runs(self, task: str, policy: str) -> tuple[Episodes, ...]:
        """Return the episodes of a policy on a task: one block for each of its runs, in order.

        A policy without training seeds has one block, whose run is None. Empty if nothing has been
        finished.
        """
        return self._index.get((task, policy), ())

    def progress_of(self, task: str, policy: str) -> tuple[Progress, ...]:
        """Return the checkpoints of a policy on a task, by run; empty if there are none."""
        return self._courses.get((task, policy), ())

    @cached_property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Every (task, policy) that has been played, in the order of the blocks."""
        return tuple(self._index)

    @cached_property
    def policies(self) -> tuple[str, ...]:
        """Every policy that has been played, in the order of the blocks."""
        return tuple(dict.fromkeys(policy for _, policy in self.pairs))

    def policies_on(self, task: str) -> list[str]:
        """Return the policies that have played a task, in the order of the blocks."""
        return [policy for name, policy in self.pairs if name == task]

    def failed(self, task: str, policy: str) -> tuple[int, ...]:
        """Return the training seeds of the runs of a policy on a task that failed, in order."""
        return self._failed.get((task, policy), ())

    def has_begun(self, task: str, policy: str) -> bool:
        """Say whether a policy has played a task, or a run of it has failed there."""
        return bool(self.runs(task, policy) or self.failed(task, policy))

    def contestants(self, task: str) -> list[str]:
        """Return the policies that have played a task, then those all of whose runs failed on it.

        A policy that has played no task at all is not among them.
        """
        played = self.policies_on(task)
        none = [name for name in self.policies if name not in played and self.failed(task, name)]
        return [*played, *none]

    @cached_property
    def _failed(self) -> dict[tuple[str, str], tuple[int, ...]]:
        runs: dict[tuple[str, str], set[int]] = {}
        for cell in (failure.cell for failure in self.failures):
            if cell.run is not None:
                runs.setdefault((cell.task, cell.policy), set()).add(cell.run)
        return {key: tuple(sorted(some)) for key, some in runs.items()}

    @cached_property
    def _index(self) -> dict[tuple[str, str], tuple[Episodes, ...]]:
        return _by_pair(self.blocks)

    @cached_property
    def _courses(self) -> dict[tuple[str, str], tuple[Progress, ...]]:
        return _by_pair(self.progress)

    def columns(self) -> Iterator[dict[str, Sequence[object]]]:
        """Iterate over cells as columns for metrics and agents, one value per episode."""
        return (_columns(block, self.run_of(block.cell)) for block in self.blocks)

    def run_of(self, cell: Cell) -> int | None:
        """Return the run of a cell in tables: its training seed, and 0 of one trained model.

        None, an empty field, stands for a fixed policy.
        """
        return 0 if cell.run is None and cell.policy in self.bare else cell.run


# Columns of episodes and checkpoints that metrics of other programs must not have the names of.
COLUMNS = (
    *("task", "policy", "run", "episode", "step", "seed", "length", "terminated", "seats"),
    *("return", "return_team", "trajectory"),
)


def _columns(block: Episodes, run: int | None) -> dict[str, Sequence[object]]:
    """Return the columns of the flat rows of a cell, one value per episode."""
    cell, count = block.cell, len(block)
    columns: dict[str, Sequence[object]] = {
        "task": [cell.task] * count,
        "policy": [cell.policy] * count,
        "run": [run] * count,
        "episode": range(count),
        "seed": block.seeds.tolist(),
        "length": block.lengths.tolist(),
        "terminated": block.terminated.tolist(),
        "seats": _seats(block),
        "return": block.team_returns.tolist(),
    }
    if block.trace is not None:
        columns["trajectory"] = block.trace.episodes
    columns |= {name: v.tolist() for name, v in block.metrics.items() if name not in columns}
    for name, values in ({"return": block.returns} | block.agent_metrics).items():
        columns |= {f"{name}_{a}": values[:, seat].tolist() for seat, a in enumerate(block.agents)}
    return columns


def _seats(block: Episodes) -> list[str]:
    """Return ``played`` of all episodes of a cell, of equal ones once."""
    keys = [row.tobytes() for row in block.seats]
    first = {key: k for k, key in reversed(list(enumerate(keys)))}
    texts = {key: block.played(k) for key, k in first.items()}
    return [texts[key] for key in keys]


def _by_pair(parts: tuple[T, ...]) -> dict[tuple[str, str], tuple[T, ...]]:
    """Return the parts of a table by task and policy, in the order of their runs."""
    by_pair = grouped(((part.cell.task, part.cell.policy), part) for part in parts)
    return {
        key: tuple(sorted(members, key=lambda part: part.cell.run or 0))
        for key, members in by_pair.items()
    }
