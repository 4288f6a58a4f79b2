"""Store: one folder per cell, data only; a cell is finished when its meta.json says so and fits.

meta.json       schema, protocol digest, versions, commit, machine, checksums; written last
results.jsonl.gz  one line per episode, packed with gzip; without time and name, so that the
                same episodes give the same bytes
curves.npz      mean course of every metric over an episode
trace.npz       checksum of every step; actions and rewards of the recorded episodes
progress.npz    training runs with checkpoints: their steps, and every metric of their episodes
policy.npz      the trained policy that has played, also where it was named
actions.npz     of a policy that a verifier may not have, all that it did; see episodes.actions
source.txt      the source of a policy from FILE.py:NAME or module:NAME; it is never executed
"""

import io
import itertools
import json
import platform
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from pydantic_core import from_json

import coopbench_envs
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench.baselines.own_code import LARGEST_SOURCE, CodePolicy, is_code
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
from coopbench.episodes.table import Cell, Episodes, Failure, Played, Progress, Trace
from coopbench.episodes.trained import Trained
from coopbench.errors import DamagedResultError, OtherProtocolError
from coopbench.files import (
    UNREADABLE,
    digest_of,
    gunzipped,
    gzipped,
    make_below,
    parsed,
    read_bounded,
    write_bytes,
)
from coopbench.playing.contestants import Checkpoints, Model
from coopbench.protocol.schema import Protocol
from coopbench.provenance import commit, versions
from coopbench_envs.arrays import pack, proportional, unpack

SCHEMA = 3
_LINE = 1 << 20  # bytes of one line
_LISTS = 256  # and dictionaries in a line, on average
_META = 50_000  # values in the metadata of a cell
_RESULTS = "results.jsonl.gz"  # the episodes
_COURSES = ("curves.npz", "trace.npz")
_PROGRESS = "progress.npz"
_RESCALED = 100  # characters that say between which bounds actions are scaled
_PACKAGES, _VERSION = 50, re.compile(r"[\w.+!-]{1,100}")  # of an environment of another package
_SOURCE = "source.txt"
_ACTIONS = "actions.npz"
_ROW = (
    "episode",
    "seed",
    "length",
    "terminated",
    "seats",
    "trajectory",
    "returns",
    "metrics",
    "agent_metrics",
)


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
    size: int = 0  # bytes of the files of the cell


def describe(protocol: Protocol, played: Played, model: Model | None) -> dict[str, Any]:
    """Return the metadata of a cell that has just been played by ``model``; see ``plan``."""
    episodes, progress, policy = played.episodes, played.progress, model
    if isinstance(model, Checkpoints) and progress is not None:
        policy = model.policies[_chosen_step(protocol, progress, model)]
    elif isinstance(model, Trained):
        policy = model.policy
    device = device_of(policy)
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
        **({"environment": dict(episodes.environment)} if episodes.environment else {}),
        **({"outside": episodes.outside} if episodes.outside else {}),
        **({"rescaled": episodes.rescaled} if episodes.rescaled else {}),
        **({"nearest": dict(episodes.nearest)} if episodes.nearest else {}),
    }


def _chosen_step(protocol: Protocol, progress: Progress, model: Model | None) -> int:
    """Return the step of the checkpoint that is evaluated.

    The training of this package has chosen it, perhaps among more tasks than are played now.
    """
    if isinstance(model, Trained) and "chosen_step" in model.facts:
        return int(model.facts["chosen_step"])
    return int(progress.steps[protocol.chosen(progress)])


def write(root: Path, played: Played, meta: dict[str, Any], model: Model | None = None) -> None:
    """Write a finished cell with its metadata below ``root``, and the ``model`` if it is trained.

    A trained policy that is named is written, too, as the content of its folder may change. A crash
    leaves the old cell, the new one or an unfinished one.
    """
    cell, progress, trace = played.episodes.cell, played.progress, played.episodes.trace
    if trace is None:
        raise ValueError(f"{cell} was not played here: it has no trace to be verified by.")
    files = {
        _RESULTS: gzipped(lines(played.episodes)),
        "curves.npz": pack(played.episodes.curves),
        "trace.npz": pack(_traced(trace)),
    }
    if trace.actions is not None:
        files[_ACTIONS] = trace.actions
    if progress is not None:
        files[_PROGRESS] = pack({"steps": progress.steps, **progress.metrics})
    policy = model.policy if isinstance(model, Trained) else None
    if isinstance(model, str):
        policy = trained_policy(model)
    if policy is not None:
        files[POLICY_FILE] = policy.pack()
    if isinstance(model, CodePolicy):
        files[_SOURCE] = model.source
    _write(root, cell, meta, files)


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
    for place in (Path(cell.folder), *Path(cell.folder).parents[:-1]):
        if (root / place).is_symlink():
            raise DamagedResultError(f"{root / place} is a link, through which nothing is read.")
    meta = _read_meta(folder / "meta.json")
    _check_origin(folder, meta, protocol, cell)
    try:
        for name in ("hyperparameters", "training"):
            if not isinstance(meta.get(name), dict | None):
                raise ValueError(f"{name!r} is not an object")
        if not isinstance(meta.get("plays"), str | None):
            raise ValueError("'plays' is not a name")
        if meta["status"] == "failed":
            return Stored(meta, None, None, Failure(cell, str(meta["reason"])))
        if meta["status"] != "finished":
            raise ValueError(f"its status is {meta['status']!r}")
        contents = {name: _checked(folder / name, meta) for name in files_of(meta)}
        policy, source = contents.get(POLICY_FILE), contents.get(_SOURCE)
        _check_source(meta, source)
        return Stored(
            meta,
            _parsed(cell, meta, contents, _has_common_reward(protocol, cell)),
            _progress(cell, contents),
            None,
            None if policy is None else read_policy(policy),
            source,
            folder / _ACTIONS if _ACTIONS in contents else None,
            sum(map(len, contents.values())),
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


def read_lines(folder: Path) -> bytes:
    """Return the lines of the episodes of a stored cell, as its folder holds them.

    Raises ``DamagedResultError`` if they cannot be read.
    """
    try:
        return gunzipped(read_bounded(folder / _RESULTS))
    except ValueError as error:
        raise DamagedResultError(f"{folder / _RESULTS} cannot be read ({error}).") from None


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
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _write(root: Path, cell: Cell, meta: dict[str, Any], files: Mapping[str, bytes]) -> None:
    sums = {name: digest_of(content) for name, content in files.items()}
    text = json.dumps(meta | {"sha256": sums}, indent=2) + "\n"
    _put(make_below(root, cell.folder), files, text.encode())


def _put(folder: Path, files: Mapping[str, bytes], meta: bytes) -> None:
    """Write the files of a cell, its metadata last; remove other files of an earlier result."""
    for name in (
        "meta.json",
        _RESULTS,
        *_COURSES,
        _PROGRESS,
        POLICY_FILE,
        _ACTIONS,
        _SOURCE,
    ):
        if name not in files:
            (folder / name).unlink(missing_ok=True)
    for name, content in files.items():
        write_bytes(folder / name, content)
    write_bytes(folder / "meta.json", meta)


def lines(episodes: Episodes) -> bytes:
    """Return the lines that are stored of episodes that were played here."""
    rows, trace = [], episodes.trace
    if trace is None:
        raise ValueError(f"{episodes.cell} was not played here: it has no trajectories.")
    for k in range(len(episodes)):
        row = {
            "episode": k,
            "seed": int(episodes.seeds[k]),
            "length": int(episodes.lengths[k]),
            "terminated": bool(episodes.terminated[k]),
            "seats": episodes.seats[k].tolist(),
            "trajectory": trace.episodes[k],
            "returns": episodes.returns[k].tolist(),
            "metrics": {name: float(values[k]) for name, values in episodes.metrics.items()},
            "agent_metrics": {
                n: values[k].tolist() for n, values in episodes.agent_metrics.items()
            },
        }
        rows.append(json.dumps(row) + "\n")
    return "".join(rows).encode()


def _traced(trace: Trace) -> dict[str, np.ndarray]:
    arrays = {"steps": trace.steps}
    for k, (actions, rewards) in trace.recorded.items():
        arrays |= {f"actions.{k}": actions, f"rewards.{k}": rewards}
    return arrays


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        meta = parsed(read_bounded(path), _META)
    except ValueError as error:
        raise DamagedResultError(f"{path} is not JSON: {error}") from None
    if not isinstance(meta, dict) or meta.get("schema") != SCHEMA:
        raise DamagedResultError(f"{path} does not have schema {SCHEMA}.")
    return dict(cleaned(meta))


def _checked(path: Path, meta: dict[str, Any]) -> bytes:
    content = read_bounded(path)
    expected = meta["sha256"].get(path.name)
    if digest_of(content) != expected:
        raise DamagedResultError(f"{path} was changed after it was written (its checksum differs).")
    return content


def files_of(meta: dict[str, Any]) -> list[str]:
    """Return the names of the files of a finished cell, without its metadata."""
    progress = [] if meta["chosen_step"] is None else [_PROGRESS]
    policy = [POLICY_FILE] if _has_policy(meta) else []
    source = [_SOURCE] if meta.get("code") is not None and meta["run"] is None else []
    actions = [_ACTIONS] if _ACTIONS in meta["sha256"] else []
    return [_RESULTS, *_COURSES, *progress, *policy, *actions, *source]


def _has_policy(meta: dict[str, Any]) -> bool:
    """Whether a finished cell holds the policy that played: a trained one, also where named."""
    if meta["run"] is not None:
        return meta.get("training") is not None
    named = parse_name(str(meta["plays"])).kind in learners()
    return named and POLICY_FILE in meta["sha256"]


def _has_common_reward(protocol: Protocol, cell: Cell) -> bool:
    return coopbench_envs.spec(protocol.task_of(cell.task).env).common_reward


def _parsed(
    cell: Cell, meta: dict[str, Any], contents: dict[str, bytes], common_reward: bool
) -> Episodes:
    rows = _rows(gunzipped(contents[_RESULTS]))
    if not rows or len(rows) != meta["episodes"]:
        raise ValueError(f"{len(rows)} episodes instead of {meta['episodes']}")
    block = Episodes(
        cell=cell,
        agents=tuple(meta["agents"]),
        seeds=np.array([row["seed"] for row in rows], np.uint64),
        lengths=np.array([row["length"] for row in rows], np.int64),
        terminated=np.array([row["terminated"] for row in rows], np.bool_),
        seats=np.array([row["seats"] for row in rows], np.bool_),
        returns=np.array([row["returns"] for row in rows], np.float64),
        metrics=_columns(rows, "metrics"),
        curves=_arrays(contents["curves.npz"]),
        agent_metrics=_columns(rows, "agent_metrics"),
        trace=_trace(
            tuple(row["trajectory"] for row in rows),
            _arrays(contents["trace.npz"]),
            meta["recorded"],
        ),
        common_reward=common_reward,
        environment=_environment(meta),
        outside=meta.get("outside", 0),
        rescaled=meta.get("rescaled", ""),
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
    if not isinstance(block.nearest, dict) or not all(
        isinstance(text, str) and len(text) <= _RESCALED for text in block.nearest.values()
    ):
        raise ValueError("'nearest' does not say how many choices policies have")


def _arrays(content: bytes) -> dict[str, np.ndarray]:
    return unpack(content, proportional(content))


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


def _rows(content: bytes) -> list[dict[str, Any]]:
    """Return the lines of a cell; raise ``ValueError`` for any that no cell has."""
    if content.count(b"[") + content.count(b"{") > _LISTS * (content.count(b"\n") + 1):
        raise ValueError(f"lines hold more than {_LISTS} lists on average")
    return list(map(_row, io.BytesIO(content)))


def _row(line: bytes) -> dict[str, Any]:
    if len(line) > _LINE:
        raise ValueError(f"a line is longer than {_LINE:,} bytes")
    row = from_json(line, cache_strings="keys")
    if not isinstance(row, dict) or tuple(row) != _ROW:
        raise ValueError(f"a line does not hold {', '.join(_ROW)}")
    return row


def _trace(
    trajectories: tuple[str, ...], arrays: dict[str, np.ndarray], recorded: list[int]
) -> Trace:
    names = {"steps", *(f"{part}.{k}" for part in ("actions", "rewards") for k in recorded)}
    if names != set(arrays):
        raise ValueError(f"trace.npz holds {sorted(arrays)}; it should be {sorted(names)}")
    course = {k: (arrays[f"actions.{k}"], arrays[f"rewards.{k}"]) for k in recorded}
    return Trace(trajectories, arrays["steps"], course)


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
    if not all(map(str.isprintable, [*block.metrics, *block.agent_metrics, *block.curves])):
        raise ValueError("the name of a metric is not printable")


def _progress(cell: Cell, contents: Mapping[str, bytes]) -> Progress | None:
    if _PROGRESS not in contents:
        return None
    arrays = _arrays(contents[_PROGRESS])
    progress = Progress(cell, arrays.pop("steps"), arrays)
    shapes = {values.shape[:1] for values in arrays.values()}
    if "return" not in arrays or shapes != {progress.steps.shape}:
        raise ValueError("the checkpoints of progress.npz do not fit its metrics")
    return progress


def _columns(rows: list[dict[str, Any]], key: str) -> dict[str, np.ndarray]:
    """Return arrays over episodes from the dictionaries that all rows have under ``key``."""
    names = list(rows[0][key])
    if {tuple(row[key]) for row in rows} != {tuple(names)}:
        raise ValueError(f"{key} differ from line to line")
    table = np.array([list(row[key].values()) for row in rows], np.float64)
    return {name: np.ascontiguousarray(table[:, k]) for k, name in enumerate(names)}
