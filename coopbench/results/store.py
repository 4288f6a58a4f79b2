"""Store: one folder per cell, data only; a cell is finished when its meta.json says so and fits.

meta.json       schema, protocol digest, versions, commit, machine, checksums; written last
episodes.npz    every number of the episodes, in the arrays below; the same episodes give the same
                arrays
policy.npz      the trained policy that has played, also where it was named
actions.npz     of a policy that a verifier may not have, all that it did; see episodes.actions
source.txt      the source of a policy from FILE.py:NAME or module:NAME; it is never executed

Arrays of episodes.npz; ``arrays`` in meta.json names the rows of those that hold several series:

seeds, lengths, terminated   (episodes,)
seats, returns  (episodes, agents)
trajectories    (episodes, 32) bytes, the SHA-256 of every trajectory
metrics         (metrics, episodes)
agent_metrics   (metrics, episodes, agents)
curves          (metrics, steps + 1), mean course of every metric over an episode
steps           (steps,) checksum of every step over all episodes
actions.K, rewards.K  of the recorded episode K, by step
checkpoints, progress  training runs with checkpoints: their steps, and the metrics of their
                episodes, (metrics, checkpoints, episodes)
"""

import itertools
import json
import platform
import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

import coopbench_envs
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench.baselines.own_code import LARGEST_SOURCE, CodePolicy, identity_of, is_code
from coopbench.baselines.predicting import device_of
from coopbench.baselines.registry import (
    POLICY_FILE,
    hyperparameters,
    learners,
    parse_name,
    trained_policy,
)
from coopbench.episodes.actions import Actions, unpacked
from coopbench.episodes.names import check_name, cleaned
from coopbench.episodes.table import DIGEST, Cell, Episodes, Failure, Played, Progress, Trace
from coopbench.episodes.trained import Trained
from coopbench.errors import DamagedResultError, OtherProtocolError
from coopbench.files import UNREADABLE, digest_of, make_below, parsed, read_bounded, write_bytes
from coopbench.playing.contestants import Checkpoints, Model
from coopbench.playing.trained_models import KINDS, WEIGHTS, trained_kind
from coopbench.protocol.schema import Protocol
from coopbench.provenance import commit, now, versions
from coopbench.results.manifest import link_on_the_way
from coopbench_envs.arrays import pack, proportional, unpack

SCHEMA = 4
_META = 50_000  # values in the metadata of a cell
_EPISODES = "episodes.npz"
_RESCALED = 100  # characters that say between which bounds actions are scaled
_PACKAGES, _VERSION = 50, re.compile(r"[\w.+!-]{1,100}")  # of an environment of another package
_SOURCE = "source.txt"
_ACTIONS = "actions.npz"
_SERIES = ("metrics", "agent_metrics", "curves", "progress")  # arrays of several series
# Types of the arrays that are not float64.
_TYPES = {
    **{"seeds": np.uint64, "lengths": np.int64, "terminated": np.bool_, "seats": np.bool_},
    **{"trajectories": np.uint8, "steps": np.uint64, "checkpoints": np.int64},
}


class Stored(NamedTuple):
    """The stored result of a cell: episodes, or the failure of a training run."""

    meta: dict[str, Any]
    episodes: Episodes | None
    progress: Progress | None
    failure: Failure | None
    # The policy that played, if a learner of this package trained it; also of ippo:FOLDER.
    policy: TrainedPolicy | None = None
    source: bytes | None = None  # of a policy from code, whose ``meta["code"]`` says where from
    actions: Path | None = None  # the file of the policy's actions; see ``read_actions``


def describe(protocol: Protocol, played: Played, model: Model | None) -> dict[str, Any]:
    """Return the metadata of a cell that has just been played by ``model``; see ``plan``."""
    episodes, progress, policy = played.episodes, played.progress, model
    if isinstance(model, Checkpoints) and progress is not None:
        policy = model.policies[_chosen_step(protocol, progress, model)]
    elif isinstance(model, Trained):
        policy = model.policy
    device = device_of(policy)
    kind = trained_kind(policy) if episodes.cell.run is None else ""
    return _meta(protocol, episodes.cell, "finished") | {
        "agents": list(episodes.agents),
        "episodes": len(episodes),
        "recorded": [] if episodes.trace is None else list(episodes.trace.recorded),
        "plays": model if isinstance(model, str) else None,  # only names can be played again
        "hyperparameters": hyperparameters(policy),
        "chosen_step": None if progress is None else _chosen_step(protocol, progress, model),
        "training": dict(model.facts) if isinstance(model, Trained) else None,
        "seconds": played.seconds,
        "machine": dict(played.machine) | ({"device": device} if device else {}),
        **({"code": model.code} if isinstance(model, CodePolicy) else {}),
        **({"model": kind} if kind else {}),  # one run of a learner, see ``trained_models``
        **({"environment": dict(episodes.environment)} if episodes.environment else {}),
        **({"outside": episodes.outside} if episodes.outside else {}),
        **({"rescaled": episodes.rescaled} if episodes.rescaled else {}),
        **({} if episodes.drawn else {"drawn": False}),
        **({"nearest": dict(episodes.nearest)} if episodes.nearest else {}),
    }


def _chosen_step(protocol: Protocol, progress: Progress, model: Model | None) -> int:
    """Return the step of the checkpoint that is evaluated.

    The training of this package has chosen it, perhaps among more tasks than are played now.
    """
    if isinstance(model, Trained) and "chosen_step" in model.facts:
        return int(model.facts["chosen_step"])
    return int(progress.steps[protocol.chosen(progress)])


def model_kind(stored: Stored) -> str:
    """Return what kind of trained model has played a cell without a training seed; "" for none.

    Weights in the cell are a trained model also where the metadata do not call them one.
    """
    weights = WEIGHTS if stored.policy is not None else ""
    return str(stored.meta.get("model") or weights)


def source_of(stored: Stored) -> str | None:
    """Return which code has played a cell; None if its source is not stored."""
    return None if stored.source is None else identity_of(stored.meta["code"])


def write(root: Path, played: Played, meta: dict[str, Any], model: Model | None = None) -> None:
    """Write a finished cell with its metadata below ``root``, and the ``model`` if it is trained.

    A trained policy that is named is written, too, as the content of its folder may change. A crash
    leaves the old cell, the new one or an unfinished one.
    """
    cell, trace = played.episodes.cell, played.episodes.own_trace
    files = {_EPISODES: pack(_arrays(played.episodes, played.progress))}
    if trace.actions is not None:
        files[_ACTIONS] = trace.actions
    policy = model.policy if isinstance(model, Trained) else None
    if isinstance(model, str):
        policy = trained_policy(model)
    if policy is not None:
        files[POLICY_FILE] = policy.pack()
    if isinstance(model, CodePolicy):
        files[_SOURCE] = model.source
    _write(root, cell, meta | {"arrays": _names(played.episodes, played.progress)}, files)


def write_failure(
    root: Path, protocol: Protocol, failure: Failure, facts: Mapping[str, Any] | None = None
) -> None:
    """Write the failure of a training run below ``root``, with further ``facts`` as metadata."""
    meta = _meta(protocol, failure.cell, "failed") | {"reason": failure.reason, **(facts or {})}
    _write(root, failure.cell, meta, {})


def copy(source: Path, root: Path, cell: Cell) -> None:
    """Copy a cell from the results folder ``source`` to ``root``, byte for byte.

    Raises ``DamagedResultError`` if a file does not fit its checksum.
    """
    old = source / cell.folder
    meta = _read_meta(old / "meta.json")
    names = files_of(meta) if meta["status"] == "finished" else []
    contents = {name: _checked(old / name, meta) for name in names}
    _put(make_below(root, cell.folder), contents, read_bounded(old / "meta.json"))


def read(root: Path, protocol: Protocol, cell: Cell) -> Stored | None:
    """Return the stored result of a cell, or None if it has not been finished.

    Raises:
        DamagedResultError: the files do not fit together; the cell must be played again.
        OtherProtocolError: the folder holds results of another protocol, or of another cell.
    """
    folder = root / cell.folder
    if not (folder / "meta.json").is_file():
        return None
    if link := link_on_the_way(root, cell.folder):
        raise DamagedResultError(link)
    meta = _read_meta(folder / "meta.json")
    _check_origin(folder, meta, protocol, cell)
    try:
        _check_facts(meta)
        if meta["status"] == "failed":
            return Stored(meta, None, None, Failure(cell, str(meta["reason"])))
        if meta["status"] != "finished":
            raise ValueError(f"its status is {meta['status']!r}")
        contents = {name: _checked(folder / name, meta) for name in files_of(meta)}
        policy, source = contents.get(POLICY_FILE), contents.get(_SOURCE)
        _check_source(meta, source)
        arrays = _checked_arrays(meta, contents[_EPISODES])
        return Stored(
            meta,
            _parsed(cell, meta, arrays, _has_common_reward(protocol, cell)),
            _progress(cell, meta, arrays),
            None,
            None if policy is None else read_policy(policy),
            source,
            folder / _ACTIONS if _ACTIONS in contents else None,
        )
    except UNREADABLE as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise DamagedResultError(f"{folder}: cannot be read ({reason}).") from None


def read_actions(stored: Stored, limit: int) -> Actions | None:
    """Return the actions of the policy of a stored cell; None if they are not stored.

    Raises ``DamagedResultError`` if they are damaged, or unpack to more than ``limit`` bytes.
    """
    if stored.actions is None:
        return None
    content = _checked(stored.actions, stored.meta)
    try:
        return unpacked(content, min(limit, proportional(content)))
    except UNREADABLE as error:
        raise DamagedResultError(f"{stored.actions} cannot be read ({error}).") from None


def numbers_sum(folder: Path) -> str:
    """Return the SHA-256 of the numbers of a cell, as its metadata state it; "" of a failed run.

    Raises ``DamagedResultError`` if the metadata cannot be read.
    """
    return str(_read_meta(folder / "meta.json").get("sha256", {}).get(_EPISODES, ""))


def results_sum(episodes: Episodes) -> str:
    """Return the SHA-256 of the results of episodes that were played here."""
    names = json.dumps(_names(episodes, None)).encode()
    return digest_of(names + pack(_arrays(episodes, None), compressed=False))


def _check_facts(meta: dict[str, Any]) -> None:
    """Raise ``ValueError`` for metadata on the policy that are not what ``describe`` writes."""
    for name in ("hyperparameters", "training"):
        if not isinstance(meta.get(name), dict | None):
            raise ValueError(f"{name!r} is not an object")
    if not isinstance(meta.get("plays"), str | None):
        raise ValueError("'plays' is not a name")
    if meta.get("model") not in (None, *KINDS):
        raise ValueError(f"'model' is none of {', '.join(KINDS)}")


def _check_source(meta: dict[str, Any], source: bytes | None) -> None:
    """Raise ``ValueError`` unless stored source is what the metadata say of it."""
    if source is None:
        return
    code = meta["code"]
    if not isinstance(code, dict) or not all(isinstance(text, str) for text in code.values()):
        raise ValueError("'code' is not an object of texts")
    name, stated = meta["policy"], f"{code['place']}:{code['attribute']}"
    if not is_code(stated) or (is_code(name) and name != stated):  # else it is a chosen name
        raise ValueError("'code' is of another policy")
    if len(source) > LARGEST_SOURCE or digest_of(source) != code["sha256"]:
        raise ValueError(f"{_SOURCE} does not have the digest that 'code' names")


def _check_origin(folder: Path, meta: dict[str, Any], protocol: Protocol, cell: Cell) -> None:
    """Raise an error unless metadata are those of a cell of a protocol; see ``read``."""
    if meta.get("digest") != protocol.digest:
        raise OtherProtocolError(
            f"{folder} holds results of protocol {meta.get('protocol')!r} with digest "
            f"{str(meta.get('digest'))[:12]}; this is {protocol.name!r} with digest "
            f"{protocol.digest[:12]}. Choose another folder."
        )
    stated = meta.get("task"), meta.get("policy"), meta.get("run")
    if stated != (cell.task, cell.policy, cell.run):
        raise DamagedResultError(f"{folder / 'meta.json'} describes another cell than its folder.")


def cell_of(path: Path) -> Cell:
    """Return the cell that a ``meta.json`` describes.

    Raises ``DamagedResultError`` if it cannot be read, or does not lie in the folder of its cell.
    """
    meta = _read_meta(path)
    run = meta.get("run")
    if not isinstance(meta.get("task"), str) or not isinstance(meta.get("policy"), str):
        raise DamagedResultError(f"{path} does not name its task and policy.")
    cell = Cell(meta["task"], meta["policy"], run if type(run) is int else None)
    try:
        check_name(cell.policy)
        folder = PurePosixPath(cell.folder).parts
    except ValueError as error:  # also one that cannot be encoded
        raise DamagedResultError(f"{path}: {error}") from None
    if path.parent.parts[-len(folder) :] != folder:
        raise DamagedResultError(f"{path} describes another cell than its folder.")
    return cell


def _meta(protocol: Protocol, cell: Cell, status: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "status": status,
        "protocol": protocol.name,
        "digest": protocol.digest,
        "task": cell.task,
        "policy": cell.policy,
        "run": cell.run,
        "versions": versions(),
        "commit": commit(),
        "platform": platform.platform(),
        "created": now(),
    }


def _write(root: Path, cell: Cell, meta: dict[str, Any], files: Mapping[str, bytes]) -> None:
    sums = {name: digest_of(content) for name, content in files.items()}
    folder = make_below(root, cell.folder)
    first = _first_created(folder, sums)
    text = json.dumps(meta | first | {"sha256": sums}, indent=2) + "\n"
    _put(folder, files, text.encode())


def _first_created(folder: Path, sums: Mapping[str, str]) -> dict[str, str]:
    """Return when a folder first had the same episodes; nothing if it has others, or none.

    Own code plays again whenever it is evaluated. Its results are not younger for that: a
    registration in between came too late.
    """
    try:
        old = _read_meta(folder / "meta.json")
        created, latest = map(datetime.fromisoformat, (old["created"], now()))
        same = old["sha256"][_EPISODES] == sums[_EPISODES]
        return {"created": old["created"]} if same and created <= latest else {}
    except (DamagedResultError, *UNREADABLE):
        return {}


def _put(folder: Path, files: Mapping[str, bytes], meta: bytes) -> None:
    """Write the files of a cell, its metadata last; remove other files of an earlier result."""
    for name in ("meta.json", _EPISODES, POLICY_FILE, _ACTIONS, _SOURCE):
        if name not in files:
            (folder / name).unlink(missing_ok=True)
    for name, content in files.items():
        write_bytes(folder / name, content)
    write_bytes(folder / "meta.json", meta)


def _names(episodes: Episodes, progress: Progress | None) -> dict[str, list[str]]:
    """Return the names of the series in each array that holds several."""
    series = episodes.metrics, episodes.agent_metrics, episodes.curves
    metrics = {} if progress is None else progress.metrics
    return {name: list(some) for name, some in zip(_SERIES, (*series, metrics), strict=True)}


def _arrays(episodes: Episodes, progress: Progress | None) -> dict[str, np.ndarray]:
    """Return everything that is stored of episodes, as listed above."""
    trace, (count, agents) = episodes.own_trace, episodes.seats.shape
    arrays = {
        "seeds": episodes.seeds,
        "lengths": episodes.lengths,
        "terminated": episodes.terminated,
        "seats": episodes.seats,
        "trajectories": trace.digests,
        "returns": episodes.returns,
        "metrics": _stacked(episodes.metrics, (count,)),
        "agent_metrics": _stacked(episodes.agent_metrics, (count, agents)),
        "curves": _stacked(episodes.curves, (0,)),
        "steps": trace.steps,
    }
    for k, (actions, rewards) in trace.recorded.items():
        arrays |= {f"actions.{k}": actions, f"rewards.{k}": rewards}
    if progress is not None:
        arrays["checkpoints"] = progress.steps
        arrays["progress"] = _stacked(progress.metrics, (len(progress), 0))
    return arrays


def _stacked(series: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Return series as rows of one array; ``shape`` is that of a row where there is none."""
    return np.stack([*series.values()]) if series else np.empty((0, *shape))


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        meta = _cleaned_meta(read_bounded(path))
    except ValueError as error:
        raise DamagedResultError(f"{path} is not JSON: {error}") from None
    if not isinstance(meta, dict) or meta.get("schema") != SCHEMA:
        raise DamagedResultError(
            f"{path} does not have schema {SCHEMA}: it is of another version of this package, or "
            f"damaged. Play it again, into another folder."
        )
    return dict(meta)


@lru_cache(maxsize=4096)  # a report reads the metadata of every cell several times
def _cleaned_meta(content: bytes) -> Any:
    return cleaned(parsed(content, _META))


def _checked(path: Path, meta: dict[str, Any]) -> bytes:
    content = read_bounded(path)
    expected = meta["sha256"].get(path.name)
    if digest_of(content) != expected:
        raise DamagedResultError(f"{path} was changed after it was written (its checksum differs).")
    return content


def files_of(meta: dict[str, Any]) -> list[str]:
    """Return the names of the files of a finished cell, without its metadata."""
    policy = [POLICY_FILE] if _has_policy(meta) else []
    source = [_SOURCE] if meta.get("code") is not None and meta["run"] is None else []
    actions = [_ACTIONS] if _ACTIONS in meta["sha256"] else []
    return [_EPISODES, *policy, *actions, *source]


def _has_policy(meta: dict[str, Any]) -> bool:
    """Whether a finished cell holds the policy that played: a trained one, also where named."""
    if meta["run"] is not None:
        return meta.get("training") is not None
    named = parse_name(str(meta["plays"])).kind in learners()
    return named and POLICY_FILE in meta["sha256"]


def _has_common_reward(protocol: Protocol, cell: Cell) -> bool:
    return coopbench_envs.spec(protocol.task_of(cell.task).env).common_reward


def _checked_arrays(meta: dict[str, Any], content: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of a finished cell; raise ``ValueError`` unless they are all and no more.

    Arrays of several series have a name for each.
    """
    arrays, known = unpack(content, proportional(content)), {*_TYPES, "returns", *_SERIES}
    if meta["chosen_step"] is None:
        known -= {"checkpoints", "progress"}
    recorded = {f"{part}.{k}" for part in ("actions", "rewards") for k in meta["recorded"]}
    if set(arrays) != known | recorded:
        expected = sorted(known | recorded)
        raise ValueError(f"{_EPISODES} holds {sorted(arrays)}; it should be {expected}")
    for name in known:
        kind = np.dtype(_TYPES.get(name, np.float64))
        if arrays[name].dtype != kind:
            raise ValueError(f"{name} is {arrays[name].dtype}; it should be {kind}")
    for name in _SERIES:
        _check_names(name, meta["arrays"][name], len(arrays[name]) if name in arrays else 0)
    return arrays


def _check_names(array: str, names: Any, count: int) -> None:
    """Raise ``ValueError`` unless each of so many series has a name of its own."""
    if not isinstance(names, list) or not all(
        isinstance(name, str) and name.isprintable() for name in names
    ):
        raise ValueError(f"the names of {array} are not printable texts")
    if not len(names) == len(set(names)) == count:
        raise ValueError(f"{array} has {count} series; {len(set(names))} are named")


def _parsed(
    cell: Cell, meta: dict[str, Any], arrays: dict[str, np.ndarray], common_reward: bool
) -> Episodes:
    if not 0 < len(arrays["seeds"]) == meta["episodes"]:
        raise ValueError(f"{len(arrays['seeds'])} episodes instead of {meta['episodes']}")
    metrics, agent_metrics, curves = (_series(meta, arrays, name) for name in _SERIES[:3])
    block = Episodes(
        cell=cell,
        agents=tuple(meta["agents"]),
        seeds=arrays["seeds"],
        lengths=arrays["lengths"],
        terminated=arrays["terminated"],
        seats=arrays["seats"],
        returns=arrays["returns"],
        metrics=metrics,
        curves=curves,
        agent_metrics=agent_metrics,
        trace=_trace(arrays, meta["recorded"]),
        common_reward=common_reward,
        environment=_environment(meta),
        outside=meta.get("outside", 0),
        rescaled=meta.get("rescaled", ""),
        drawn=meta.get("drawn", True),
        nearest=meta.get("nearest", {}),
    )
    _check_shapes(block)
    _check_actions(block)
    return block


def _check_actions(block: Episodes) -> None:
    """Raise ``ValueError`` for anything but a number of actions, and a short text."""
    if type(block.outside) is not int or not 0 <= block.outside <= block.decisions:
        raise ValueError("'outside' is not a number of actions of the policy")
    if not isinstance(block.rescaled, str) or len(block.rescaled) > _RESCALED:
        raise ValueError("'rescaled' is not a description of bounds")
    if type(block.drawn) is not bool:
        raise ValueError("'drawn' is not true or false")
    if not isinstance(block.nearest, dict) or not all(
        isinstance(text, str) and len(text) <= _RESCALED for text in block.nearest.values()
    ):
        raise ValueError("'nearest' does not say how many choices policies have")


def _environment(meta: dict[str, Any]) -> dict[str, Any]:
    """Return what metadata say of an environment of another package; empty for all others.

    Raises ``ValueError`` for anything but names, versions, flags and a number.
    """
    facts = meta.get("environment", {})
    if not facts:
        return {}
    plain = {name: facts[name] for name in ("code", "repeats", "horizon", "stated")}
    kinds = [type(value) for value in plain.values()]
    if kinds != [dict, bool, int, bool] or len(plain["code"]) > _PACKAGES:
        raise ValueError("'environment' is not a description of an environment")
    for text in itertools.chain.from_iterable(plain["code"].items()):
        if not isinstance(text, str) or _VERSION.fullmatch(text) is None:
            raise ValueError("'environment' names no packages and versions")
    return plain


def _series(
    meta: dict[str, Any], arrays: dict[str, np.ndarray], name: str
) -> dict[str, np.ndarray]:
    """Return the series of an array by their names."""
    return dict(zip(meta["arrays"][name], arrays[name], strict=True))


def _trace(arrays: dict[str, np.ndarray], recorded: list[int]) -> Trace:
    digests = arrays["trajectories"]
    if digests.shape != (len(arrays["seeds"]), DIGEST):
        raise ValueError(f"trajectories has shape {digests.shape}")
    course = {k: (arrays[f"actions.{k}"], arrays[f"rewards.{k}"]) for k in recorded}
    return Trace(digests, arrays["steps"], course)


def _check_shapes(block: Episodes) -> None:
    """Raise ``ValueError`` for arrays that are not those of these episodes and agents."""
    count, agents = len(block), len(block.agents)
    shapes: dict[str, tuple[Any, tuple[int, ...]]] = {
        "lengths": (block.lengths, (count,)),
        "terminated": (block.terminated, (count,)),
        "seats": (block.seats, (count, agents)),
        "returns": (block.returns, (count, agents)),
        **{name: (values, (count,)) for name, values in block.metrics.items()},
        **{name: (values, (count, agents)) for name, values in block.agent_metrics.items()},
        **{name: (values, (values.size,)) for name, values in block.curves.items()},
    }
    for name, (values, shape) in shapes.items():
        if values.shape != shape:
            raise ValueError(f"{name} has shape {values.shape}; it should be {shape}")
    if not all(isinstance(agent, str) for agent in block.agents):
        raise ValueError(f"the agents are {block.agents!r}; they should be names")


def _progress(cell: Cell, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Progress | None:
    if meta["chosen_step"] is None:
        return None
    progress = Progress(cell, arrays["checkpoints"], _series(meta, arrays, "progress"))
    shapes = {values.shape[:1] for values in progress.metrics.values()}
    if "return" not in progress.metrics or shapes != {progress.steps.shape}:
        raise ValueError("the checkpoints of the training do not fit their metrics")
    return progress
