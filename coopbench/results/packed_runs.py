"""Packed runs: all training runs of a learner under a protocol in one file, without episodes.

The file is an npz of numbers:

header              JSON as bytes: schema, protocol, its digest, learner, and by task and training
                    seed the facts of each training, or why it failed
TASK/SEED/policy    the trained policy, as bytes of a policy.npz
TASK/SEED/steps     checkpoints of the training
TASK/SEED/METRIC    of the selection episodes, (checkpoints, episodes): the return and the scores

Where the score is an agent's mean return, the return of all agents is as many times that, but for
rounding. It is then stored as what it differs by, in units of its last bit, and the header has the
number of agents by task: unlike numbers that differ in every bit, this takes no space.

Episodes are not stored: policies play them again, to the same bits, in any evaluation.
Runs of learners that a protocol requires ship with this package, in ``baselines/trained``.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.registry import parse_name
from coopbench.episodes.table import Cell, Progress
from coopbench.episodes.trained import Trained
from coopbench.errors import DamagedResultError, OtherProtocolError
from coopbench.files import UNREADABLE, digest_of, parsed, read_bounded, write_bytes
from coopbench.playing.contestants import Failed, PolicyArgument, TrainedRuns, name_of
from coopbench.playing.plan import game_of
from coopbench.protocol.schema import Protocol
from coopbench.protocol.variants import whole_of
from coopbench.results.folder import models_of, models_of_part
from coopbench.results.protocol_file import read_protocol
from coopbench_envs.arrays import LIMIT, pack, proportional, unpack
from coopbench_envs.reading import read_regular

__all__ = [
    *("SUFFIX", "digest_of_shipped", "is_shipped", "lacking_learners", "pack_runs", "read_runs"),
    *("shipped_file", "shipped_runs", "stored_trainings", "with_shipped"),
]

SUFFIX = ".runs.npz"  # ends the name of a file of packed runs
_SCHEMA = 1
_STEPS, _POLICY = "steps", "policy"
_PACKED = "packed"  # fact of a run that was read from a file: the digest of this file
_SUM, _SHARE = "return", "own_return"  # metrics: of all agents together, and of one in the mean


def pack_runs(
    folder: str | Path, learner: str, file: str | Path, *, earlier: TrainedRuns | None = None
) -> TrainedRuns:
    """Write the training runs of a learner in a results folder to one file, and return them.

    They are those of training seeds that have finished all tasks that they are trained on, and the
    ``earlier`` ones, which were packed before; of a seed in both, the file has the run of the
    folder. Raises ``ValueError`` if there are none, and for damaged cells; see ``models_of``.
    """
    protocol = read_protocol(Path(folder))
    models = _complete(models_of(folder, learner, protocol), protocol)
    if earlier is not None:
        models = _joined(_complete(earlier, protocol), models)
    if not any(models.trained.values()):
        raise ValueError(f"{folder} holds no run of {learner} on all of its tasks.")
    arrays: dict[str, np.ndarray] = {}
    facts: dict[str, dict[str, Any]] = {}
    kept, agents = _metrics(protocol), dict[str, int]()
    for task, runs in models.trained.items():
        whole = protocol.task_of(task)
        if protocol.report.score == _SHARE and not whole.partners:
            agents[task] = len(game_of(whole).agents)
        for seed, model in runs.items():
            place = f"{task}/{seed}"
            if isinstance(model, Failed):
                facts[place] = {"failed": model.reason}
                continue
            facts[place] = {name: fact for name, fact in model.facts.items() if name != _PACKED}
            arrays[f"{place}/{_POLICY}"] = np.frombuffer(model.policy.pack(), np.uint8)
            if model.progress is not None:
                metrics = {name: model.progress.metrics[name] for name in kept}
                if task in agents:
                    metrics[_SUM] = _bits(metrics[_SUM]) - _bits(agents[task] * metrics[_SHARE])
                arrays[f"{place}/{_STEPS}"] = model.progress.steps
                arrays |= {f"{place}/{name}": values for name, values in metrics.items()}
    header = {
        "schema": _SCHEMA,
        "protocol": protocol.name,
        "digest": protocol.digest,
        "learner": learner,
        "runs": facts,
        **({"agents": agents} if agents else {}),
    }
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    write_bytes(Path(file), pack(arrays))
    return models


def _bits(values: np.ndarray) -> np.ndarray:
    """Return float64 numbers as the whole numbers that their bits spell."""
    return values.view(np.int64)


def _complete(models: TrainedRuns, protocol: Protocol) -> TrainedRuns:
    """Return the models of the training seeds that have finished all tasks; by task and seed."""
    tasks = [task.id for task in protocol.trained_tasks]
    if _is_one_for_all(protocol):
        return TrainedRuns(models.name, {tasks[0]: models.trained})
    of_tasks = [set(models.trained.get(task, ())) for task in tasks]
    seeds = set.intersection(*of_tasks)
    return TrainedRuns(
        models.name, {task: {s: models.trained[task][s] for s in sorted(seeds)} for task in tasks}
    )


def _joined(earlier: TrainedRuns, later: TrainedRuns) -> TrainedRuns:
    """Return the models of both; both have the same tasks."""
    return TrainedRuns(
        later.name, {task: earlier.trained[task] | runs for task, runs in later.trained.items()}
    )


def _is_one_for_all(protocol: Protocol) -> bool:
    """Return whether one model per training seed plays all tasks."""
    return protocol.training is not None and protocol.training.on == "any"


def _metrics(protocol: Protocol) -> list[str]:
    """Return the metrics of selection episodes that learning curves and choices need."""
    return [*dict.fromkeys((_SUM, protocol.report.score))]


def read_runs(file: str | Path, protocol: Protocol) -> TrainedRuns:
    """Return the training runs of a file by task and training seed.

    ``protocol`` is the one that they were trained under, or a choice of its tasks: then they are
    the runs of these.

    Raises ``OtherProtocolError`` for runs of another protocol, and ``ValueError`` for a file that
    cannot be read.
    """
    path = Path(file)
    try:
        content = read_regular(path, LIMIT)
        arrays = unpack(content, proportional(content))
        header = parsed(arrays.pop("header").tobytes())
        if header["schema"] != _SCHEMA:
            raise ValueError(f"its schema is {header['schema']!r} instead of {_SCHEMA}")
        learner, digest = str(header["learner"]), str(header["digest"])
        models = _models(header, arrays, digest_of(content))
    except UNREADABLE as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path} holds no training runs that can be read ({reason}).") from None
    whole = whole_of(protocol)
    if digest not in (protocol.digest, whole.digest):
        raise OtherProtocolError(
            f"{path} holds runs of another protocol (digest {digest[:12]}; {protocol.name} has "
            f"{protocol.digest[:12]}). Train under this protocol, or name the policy of one run."
        )
    if _is_one_for_all(whole):  # a choice of tasks without held-out ones has no training
        return TrainedRuns(learner, next(iter(models.values())))
    return TrainedRuns(learner, models_of_part(models, whole, protocol))


def _models(
    header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], digest: str
) -> dict[str, dict[int, Trained | Failed]]:
    """Return models by task and training seed; ``digest`` is that of their file."""
    models: dict[str, dict[int, Trained | Failed]] = {}
    agents = header.get("agents", {})  # by task, where returns are stored as differences
    for place, known in header["runs"].items():
        task, _, seed = place.rpartition("/")
        runs = models.setdefault(task, {})
        if "failed" in known:
            runs[int(seed)] = Failed(str(known["failed"]))
            continue
        own = {
            name.removeprefix(f"{place}/"): values
            for name, values in arrays.items()
            if name.startswith(f"{place}/")
        }
        policy = read_policy(own.pop(_POLICY).tobytes())
        progress = None
        if _STEPS in own:
            if task in agents:
                multiple = _bits(agents[task] * own[_SHARE])
                own[_SUM] = (multiple + own[_SUM]).view(np.float64)
            progress = Progress(Cell(task, policy.name, int(seed)), own.pop(_STEPS), own)
        runs[int(seed)] = Trained(policy, progress, {**known, _PACKED: digest})
    return models


def shipped_file(protocol: str, learner: str) -> Path:
    """Return where the runs of a learner under a protocol lie that ship with this package."""
    root = Path(str(resources.files("coopbench.baselines"))) / "trained"
    return root / protocol / f"{learner}{SUFFIX}"


def is_shipped(protocol: str, meta: Mapping[str, Any]) -> bool:
    """Return whether the metadata of a cell are those of a run that ships with this package."""
    facts = meta.get("training")
    if not isinstance(facts, dict) or "packed" not in facts:
        return False
    file = shipped_file(protocol, parse_name(str(meta["policy"])).kind)
    return bool(facts["packed"] == digest_of_shipped(file))


@cache  # files of a package do not change
def digest_of_shipped(file: Path) -> str:
    """Return the SHA-256 of a file in hex digits; empty if there is none."""
    return digest_of(file.read_bytes()) if file.is_file() else ""


def shipped_runs(protocol: Protocol, learner: str) -> TrainedRuns:
    """Return the runs of a learner that ship with this package; see ``read_runs``."""
    return read_runs(shipped_file(protocol.protocol.name, learner), protocol)


def lacking_learners(
    protocol: Protocol,
    policies: Sequence[PolicyArgument],
    out: str | Path | None,
    required: Sequence[str],
) -> list[str]:
    """Return the ``required`` learners whose shipped runs belong to an evaluation.

    These are all that have any, unless a policy of the learner is among ``policies``, or the
    results folder ``out`` holds runs of its own.
    """
    kinds = {parse_name(_name_of(policy)).kind for policy in policies}
    return [
        learner
        for learner in required
        if learner not in kinds
        and shipped_file(protocol.protocol.name, learner).is_file()
        and all("packed" in facts for facts in stored_trainings(out, learner))
    ]


def with_shipped(
    protocol: Protocol,
    policies: Sequence[PolicyArgument],
    learners: Sequence[str],
    named: Collection[str] = (),
) -> tuple[list[PolicyArgument], tuple[str, ...]]:
    """Add the shipped runs of learners to policies, with notes on them.

    Notes say which runs are added, and which are left out, and why; runs of ``named`` learners
    raise that as ``OtherProtocolError``.
    """
    added, notes = list[PolicyArgument](policies), list[str]()
    for learner in learners:
        try:
            models = shipped_runs(protocol, learner)
        except OtherProtocolError as error:
            if learner in named:
                raise
            notes.append(f"The shipped runs of {learner} are left out: {error}")
            continue
        added.append(models)
        every = [models.trained] if _is_one_for_all(protocol) else models.trained.values()
        seeds = sorted({seed for runs in every for seed in runs})
        notes.append(f"Runs of {learner} ship with coopbench: {', '.join(map(str, seeds))}.")
    return added, tuple(notes)


def _name_of(policy: PolicyArgument) -> str:
    """Return the name of a policy, or of all models of a learner."""
    return policy.name if isinstance(policy, TrainedRuns) else name_of(policy)


def stored_trainings(out: str | Path | None, learner: str) -> Iterator[Mapping[str, Any]]:
    """Yield what the cells of a learner in a results folder state of their trainings."""
    for file in [] if out is None else sorted(Path(out).glob(f"*/{learner}*/run-*/meta.json")):
        try:
            meta = parsed(read_bounded(file))
            facts = meta["training"] if parse_name(meta["policy"]).kind == learner else None
        except (DamagedResultError, *UNREADABLE):  # the evaluation names what is damaged
            continue
        if isinstance(facts, dict):
            yield facts
