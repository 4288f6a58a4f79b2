"""Identities: whether policies and training runs of a folder are what their names tell apart.

A copied run makes an interval narrower; other weights, or another source, are another policy.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench.episodes.table import Cell
from coopbench.files import digest_of
from coopbench.protocol.schema import Protocol
from coopbench.results.store import Stored, source_of
from coopbench_envs.arrays import pack, unpack

Cells: TypeAlias = dict[str, tuple[Cell, Stored]]  # that could be read, by folder


def mistaken(protocol: Protocol, cells: Cells) -> Iterator[tuple[str, str]]:
    """Yield folders of cells that are not of the policy or run that they name, with the reason."""
    yield from _other_sources(cells)
    yield from _other_trainings(protocol, cells)
    yield from _repeated_runs(cells)


def _other_sources(cells: Cells) -> Iterator[tuple[str, str]]:
    """Yield cells of policies that are other code in an earlier cell, with the reason."""
    seen: dict[str, tuple[str, str | None]] = {}
    for place, (cell, stored) in cells.items():
        code = source_of(stored)
        first, earlier = seen.setdefault(cell.policy, (place, code))
        if code != earlier and stored.episodes is not None:
            other = f"another source than in {first}, another name in it, or none"
            yield place, f"its policy has {other}: two policies"


def _other_trainings(protocol: Protocol, cells: Cells) -> Iterator[tuple[str, str]]:
    """Yield cells of training runs that a policy of another training played, with the reason.

    The training of a run is the one in the cell of the task that the run was trained on.
    """
    origins = {task.id: task.origin for task in protocol.task}
    for place, (cell, stored) in cells.items():
        task = protocol.family(cell.policy)[1] or origins[cell.task]
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
