"""Identities: whether policies and training runs of a folder are what their names tell apart.

A copied run makes an interval narrower, and a copy of a policy under a second name takes a second
place. Equal names, sources and weights are faults. Equal play is only named: two policies
may have learned the same.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench.baselines.own_code import identity_of
from coopbench.baselines.registry import entries
from coopbench.episodes.names import imitations
from coopbench.episodes.table import Cell, Episodes
from coopbench.files import digest_of
from coopbench.playing.contestants import contestant_of
from coopbench.protocol.schema import Protocol
from coopbench.results.store import Stored
from coopbench.workflows.episode_diff import trace_of
from coopbench_envs.arrays import pack, unpack

Cells: TypeAlias = dict[str, tuple[Cell, Stored]]  # that could be read, by folder


def mistaken(protocol: Protocol, cells: Cells) -> Iterator[tuple[str, str]]:
    """Yield folders of cells that are not of the policy or run that they name, with the reason."""
    yield from _look_alikes(cells)
    yield from _other_sources(cells)
    yield from _other_trainings(protocol, cells)
    yield from _repeated_runs(cells)


def _look_alikes(cells: Cells) -> Iterator[tuple[str, str]]:
    """Yield cells of policies with names that a reader takes for others, with the reason."""
    alike = imitations((cell.policy for cell, _ in cells.values()), entries())
    for place, (cell, _) in cells.items():
        if cell.policy in alike:
            other = alike[cell.policy]
            yield place, f"the policy is called almost like {other!r}: {cell.policy!r}"


def _other_sources(cells: Cells) -> Iterator[tuple[str, str]]:
    """Yield cells of policies that are other code in an earlier cell, with the reason."""
    seen: dict[str, tuple[str, str | None]] = {}
    for place, (cell, stored) in cells.items():
        code = None if stored.source is None else identity_of(stored.meta["code"])
        first, earlier = seen.setdefault(cell.policy, (place, code))
        if code != earlier and stored.episodes is not None:
            other = f"another source than in {first}, another name in it, or none"
            yield place, f"its policy has {other}: two policies"


def _other_trainings(protocol: Protocol, cells: Cells) -> Iterator[tuple[str, str]]:
    """Yield cells of training runs that a policy of another training played, with the reason.

    The training of a run is the one in the cell of the task that the run was trained on.
    """
    trained_on = {task.id: task.trained_on or task.id for task in protocol.task}
    for place, (cell, stored) in cells.items():
        task = protocol.family(cell.policy)[1] or trained_on[cell.task]
        home = replace(cell, task=task).folder
        trained = cells[home][1] if home in cells else None
        if stored.policy is None or cell.run is None or trained is None or home == place:
            continue
        same = trained.policy is not None and trained.policy.pack() == stored.policy.pack()
        if not same or trained.meta["training"] != stored.meta["training"]:
            yield place, f"it was played by another policy than was trained in {home}"


def _repeated_runs(cells: Cells) -> Iterator[tuple[str, str]]:
    """Yield cells of training runs with the weights of another run, with the reason.

    Runs of two seeds do not end with equal weights.
    """
    seen: dict[tuple[str, str, str], str] = {}
    for place, (cell, stored) in cells.items():
        if cell.run is not None and stored.policy is not None:
            first = seen.setdefault((cell.task, cell.policy, _weights(stored.policy)), place)
            if first != place:
                yield place, f"it repeats {first}; runs of two training seeds differ"


def _weights(policy: TrainedPolicy) -> str:
    """Return the digest of a trained policy without what its file says of itself."""
    arrays = {name: values for name, values in unpack(policy.pack()).items() if name != "header"}
    return digest_of(pack(arrays, compressed=False))


def equal_play(protocol: Protocol, cells: Cells) -> Iterator[tuple[str, str]]:
    """Yield (what, why) for training runs, and for policies, that play alike bit for bit.

    Policies are alike if they are so on every task that both have played. Fixed policies of this
    package are not compared: they are what their names say. Neither are trained ones that take one
    action only, which others may have learned.
    """
    first: dict[tuple[str, tuple[str, ...]], Cell] = {}  # of a task and what was played there
    shared: dict[tuple[str, str], set[str]] = {}  # two policies -> tasks on which they are alike
    tasks: dict[str, set[str]] = {}  # of each policy
    for cell, stored in cells.values():
        block, origin = stored.episodes, contestant_of(protocol, cell.policy).origin
        if block is None or origin == "fixed" or (stored.policy and _takes_one_action(block)):
            continue
        tasks.setdefault(cell.policy, set()).add(cell.task)
        earlier = first.setdefault((cell.task, trace_of(block).episodes), cell)
        if earlier.policy != cell.policy:
            shared.setdefault((earlier.policy, cell.policy), set()).add(cell.task)
        elif earlier != cell:
            yield cell.folder, f"plays all episodes like {earlier.folder}: two trainings rarely do"
    for (one, other), alike in shared.items():
        if alike == tasks[one] & tasks[other]:
            text = f"{len(alike)} tasks" if len(alike) > 1 else next(iter(alike))
            yield other, f"plays like {one} on {text}: they may be one policy with two names"


def _takes_one_action(block: Episodes) -> bool:
    """Return whether the policy takes one action throughout the recorded episodes."""
    taken = [
        actions[:, block.seats[k]].reshape(-1, *actions.shape[2:])
        for k, (actions, _) in trace_of(block).recorded.items()
    ]
    return all(bool((actions == taken[0][0]).all()) for actions in taken)
