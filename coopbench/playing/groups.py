"""Groups: cells of one task whose policies play side by side, as lanes of one engine.

Partners are what most of the time goes into: each sits in a few lanes of every cell, so that a call
costs more than what it computes. In a group every partner acts once in a step for all cells.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from coopbench.baselines.player import Player
from coopbench.baselines.registry import is_shipped, parse_name
from coopbench.episodes.table import Cell, Played
from coopbench.episodes.trained import Trained
from coopbench.playing.contestants import Model
from coopbench.playing.jobs import Resources, Tell
from coopbench.playing.plan import game_of
from coopbench.playing.rollout import CellJob, PlayJob, play_together
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.provenance import elapsed
from coopbench_envs.batches import BatchKernels
from coopbench_envs.core import POLICY
from coopbench_envs.foreign_names import is_foreign
from coopbench_envs.states import allocated

_BYTES = 1 << 27  # that are kept of the episodes of a group while it plays, about
_NOTED = 6  # numbers of every agent that are kept of a step, about

J = TypeVar("J", bound=CellJob)


@dataclass(frozen=True, eq=False)
class Group(Generic[J]):
    """Jobs of one task that are done together; a subclass says how."""

    jobs: tuple[J, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells of the group."""
        return tuple(job.cell for job in self.jobs)

    @property
    def cost(self) -> float:
        """The cost of all cells."""
        return sum(job.cost for job in self.jobs)

    @property
    def kind(self) -> str:
        """The module whose kernels the task's environment compiles."""
        return self.jobs[0].kind

    @property
    def resources(self) -> Resources:
        """What one of its cells occupies: all are lanes of one engine."""
        return self.jobs[0].resources

    def name_after(self, text: str) -> str:
        """Return the names of the jobs, without policies that ``text`` names in quotes."""
        return " and ".join(job.name_after(text) for job in self.jobs)

    def __str__(self) -> str:
        return " and ".join(map(str, self.jobs))


class PlayGroup(Group[PlayJob]):
    """The play of cells of one task, for a backend.

    Its result is what was played of every cell, or nothing if one of several could not be played:
    they are then to be played alone, so that the error of a policy is that of its own cells.
    """

    def __call__(self, tell: Tell | None) -> tuple[Played, ...]:
        """Play the cells; the time of a group is divided among them equally."""
        if len(self.jobs) == 1:
            return (self.jobs[0](tell),)
        start = time.perf_counter()
        policies = {job.cell: job.player for job in self.jobs}
        try:
            blocks = play_together(self.jobs[0].protocol, policies, tell)
        except Exception:  # of any of the policies, which will raise it again when it plays alone
            return ()
        seconds = elapsed(start) / len(self.jobs)
        return tuple(
            Played(block, job.progress, seconds)
            for block, job in zip(blocks, self.jobs, strict=True)
        )


def groups_of(jobs: Sequence[J], models: Sequence[Model | None], workers: int) -> list[list[J]]:
    """Put jobs of a task together whose ``models`` can play side by side; the others stay alone.

    Groups are limited in memory, and in size such that there is one for each of the ``workers``.
    """
    groups: list[list[J]] = []
    open_groups: dict[str, list[J]] = {}
    most: dict[str, int] = {}
    for job, model in zip(jobs, models, strict=True):
        name = job.cell.task
        if name not in most:
            most[name] = min(largest_group(job.protocol, job.task), -(-len(jobs) // workers))
        group = open_groups.get(name)
        if most[name] < 2 or not _plays_in_group(job, model):
            groups.append([job])
        elif group is None or len(group) == most[name]:
            open_groups[name] = [job]
            groups.append(open_groups[name])
        else:
            group.append(job)
    return groups


def largest_group(protocol: Protocol, task: Task) -> int:
    """Return the number of cells of a task that one engine may play; 1 where none gains by it.

    Only partners gain, and only those of this package that do in a lane what follows from that lane
    alone, in an environment of which that holds too.
    """
    names, opponent = task.partner_names, str(task.parameters.get("opponent", ""))
    if not names or is_foreign(task.env) or opponent.startswith(POLICY):
        return 1
    game, spec = game_of(task), task.spec
    kernels = spec.kernels_of(game.constants)
    shipped = all(is_shipped(parse_name(name).kind) for name in names)
    if isinstance(kernels, BatchKernels) or not shipped:
        return 1
    if not all(Player(name, game).separable for name in names):
        return 1
    width = int(np.prod(game.action_space.shape)) + _NOTED
    noted = 8 * int(game.constants.horizon) * len(game.agents) * width
    state = sum(array.nbytes for array in allocated(kernels.state, game.constants, 1))
    return int(max(1, _BYTES // (protocol.episodes(task) * (noted + state))))


def _plays_in_group(job: CellJob, model: Model | None) -> bool:
    """Whether a policy is of this package and plays the task of its cell as its partners do."""
    if job.task.parameters != job.protocol.task_of(job.cell.task).parameters:
        return False
    if isinstance(model, Trained):
        return True
    if not isinstance(model, str) or not is_shipped(parse_name(model).kind):
        return False
    return Player(model, game_of(job.task)).separable
