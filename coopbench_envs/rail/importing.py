"""Importing: a folder of flatland-rl environments as one file of instances.

Every file is one environment: one that flatland-rl saved (``pkl``, ``mpk``), or an npz with the
arrays that ``instances`` describes. The result has a leading axis of environments, in the order of
the names of folders and files, in which Level_2 comes before Level_10; lists of different lengths
are filled up with -1. ``coopbench rail import`` does this.
"""

import hashlib
import io
import itertools
import json
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from coopbench_envs.arrays import pack
from coopbench_envs.parameters import resolve
from coopbench_envs.rail.instances import FORMS, LISTS, check_forms, check_values, fields_of
from coopbench_envs.rail.rail import SPEC
from coopbench_envs.rail.saved import Saved, read_saved
from coopbench_envs.reading import read_regular

__all__ = ["SAVED", "check", "files_of", "import_railways", "is_railway", "read_folder", "task_of"]

SAVED = (".pkl", ".mpk")  # endings of the files of flatland-rl
# Bytes of a file; a byte of a pickle makes many.
_LARGEST = {".npz": 1 << 26, **dict.fromkeys(SAVED, 1 << 23)}
_UNPACKED = 1 << 30  # bytes of the arrays of an npz file
_FIXED = tuple(name for name in FORMS if name not in LISTS)
# What flatland-rl saves of no environment.
_NOT_SAVED = (
    "Files of flatland-rl do not hold acceleration, braking, the prices of the rewards, and "
    "whether trains stay at their targets (remove_agents_at_target=False, which is not offered "
    "here). If the environment had others than flatland-rl's defaults, give them to the task: "
    "acceleration, braking, late_factor and the other parameters of Rail-v0."
)
_NO_ENVIRONMENT = (ValueError, OSError, zipfile.BadZipFile, EOFError, MemoryError, RecursionError)


def files_of(place: Path) -> list[Path]:
    """Return a file, or the pkl, mpk and npz files of a folder and its folders.

    Numbers in names count as such; endings may be in capitals. Raises ``ValueError`` if there are
    none, and ``FileNotFoundError`` if there is no such place.
    """
    if not place.exists():
        raise FileNotFoundError(f"There is no file {place} to import.")
    if not place.is_dir():
        if _ending(place) not in _LARGEST:
            raise ValueError(
                f"{place} has the ending {place.suffix!r}; allowed: {', '.join(_LARGEST)}."
            )
        return [place]

    def order(file: Path) -> list[tuple[int, str]]:
        parts = re.split(r"(\d+)", file.relative_to(place).as_posix())
        return [(int(part) if part.isdecimal() else -1, part) for part in parts]

    files = [file for file in place.rglob("*") if _ending(file) in _LARGEST]
    if not files:
        raise ValueError(f"There are no {', '.join(_LARGEST)} files in {place}.")
    return sorted(files, key=order)


def _ending(file: Path) -> str:
    return file.suffix.lower()


def is_railway(place: Path) -> bool:
    """Return whether a file is an environment, or a folder holds one, by name and first array."""
    if place.is_dir():
        return any(is_railway(file) for file in place.rglob("*") if _ending(file) in _LARGEST)
    if _ending(place) != ".npz":
        return _ending(place) in SAVED
    try:
        with zipfile.ZipFile(io.BytesIO(read_regular(place, _LARGEST[".npz"]))) as archive:
            return "grid.npy" in archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile):
        return False


def read_folder(folder: Path) -> dict[str, np.ndarray]:
    """Read all environments of a folder and its folders, and stack their arrays.

    Raises ``ValueError`` that names the file for one that is no such environment.
    """
    return _stacked([(file, _read(file)) for file in files_of(folder)])


def _read(file: Path) -> Saved:
    """Return the environment in a file; of an npz malfunctions are those that the arrays hold."""
    try:
        content = read_regular(file, _LARGEST[_ending(file)])
        if _ending(file) in SAVED:
            read = read_saved(content)
            return read._replace(arrays=_episode(read.arrays))
        arrays = _episode(_arrays(content))
    except _NO_ENVIRONMENT as error:
        reason = str(error) or "it does not fit into memory."
        raise ValueError(f"{file}: {reason}") from None
    task = task_of({name: values[None] for name, values in arrays.items()})
    chances = task["horizon"] * task["num_agents"]
    rate = int((arrays["strikes"][:, 0] > 0).sum()) / chances
    return Saved(arrays, rate, task["malfunction_duration"], ())


def _stacked(read: Sequence[tuple[Path, Saved]]) -> dict[str, np.ndarray]:
    """Return the arrays of all files with a leading axis; raise if their shapes differ."""
    episodes = [saved.arrays for _, saved in read]
    for (file, saved), name in itertools.product(read, _FIXED):
        shapes = episodes[0][name].shape, saved.arrays[name].shape
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"{file}: {name!r} has the shape {shapes[1]}, in {read[0][0]} {shapes[0]}; "
                f"instances of one task have the same size. Import such files one by one."
            )
    fixed = {name: np.stack([episode[name] for episode in episodes]) for name in _FIXED}
    lists = {name: _filled([episode[name] for episode in episodes]) for name in LISTS}
    return fixed | lists


def _arrays(content: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of an npz file, none of them pickled."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        sizes = sum(member.file_size for member in archive.zip.infolist())
        if sizes > _UNPACKED:
            raise ValueError(f"it unpacks to {sizes:,} bytes")
        return {name: archive[name] for name in archive.files}


def _episode(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays of an instance; recordings have malfunctions by step and train."""
    meta = json.loads(str(arrays["meta"])) if "meta" in arrays else {}
    if not isinstance(meta, dict):
        raise ValueError("its 'meta' must be a JSON object.")
    if not meta.get("remove_agents_at_target", True):
        raise ValueError(
            "its trains stay at their targets (remove_agents_at_target=False), where others run "
            "into them; export it with remove_agents_at_target=True."
        )
    values = dict(arrays)
    if "max_speed" in values:
        values.setdefault("init_speed", values["max_speed"])
    if "strikes" not in values and "malf_new" in values:
        new = values["malf_new"]
        if new.ndim != 2 or new.dtype.kind not in "iub":
            raise ValueError(
                f"'malf_new' must be whole numbers with 2 axes, (steps, trains); given {new.dtype} "
                f"of shape {new.shape}."
            )
        steps, trains = np.nonzero(new)
        lengths = new[steps, trains]
        values["strikes"] = np.stack([steps + 1, trains, lengths], axis=1)
    missing = [name for name in _FIXED if name not in values]
    if missing:
        raise ValueError(f"it has no array {missing[0]!r}.")
    for name in LISTS:
        values.setdefault(name, np.zeros((0, int(FORMS[name][1])), np.int64))
    values = {name: np.asarray(values[name]) for name in FORMS}
    check_forms(values)
    check_values(values)
    return {n: array.astype(np.int64) if n in LISTS else array for n, array in values.items()}


def _filled(lists: Sequence[np.ndarray]) -> np.ndarray:
    """Stack lists of rows of different lengths, filled up with -1."""
    longest = max(len(rows) for rows in lists)
    out = np.full((len(lists), longest, lists[0].shape[1]), -1, np.int64)
    for k, rows in enumerate(lists):
        out[k, : len(rows)] = rows
    return out


def task_of(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the parameters that instances need: sizes, speeds, and room for malfunctions."""
    lengths = arrays["strikes"][..., 2]
    lengths = lengths[lengths > 0]
    speeds = {f"{over}/{under}" for over, under in arrays["max_speed"].reshape(-1, 2).tolist()}
    # Both ends of a line are waypoints, too; stops are numbered from 0.
    stops = int(arrays["waypoints"][..., 1].max(initial=1)) + 1
    return {
        "num_agents": arrays["init_dir"].shape[1],
        "height": arrays["grid"].shape[1],
        "width": arrays["grid"].shape[2],
        "cities": 0,
        "speeds": {speed: 1 / len(speeds) for speed in sorted(speeds)},
        "malfunction_rate": 0.01 if len(lengths) else 0.0,
        "malfunction_duration": (
            (int(lengths.min()) - 1, int(lengths.max()) - 1) if len(lengths) else (20, 50)
        ),
        "line_length": max(2, stops),
        "horizon": int(arrays["max_episode_steps"].max()),
    }


def check(arrays: Mapping[str, np.ndarray], names: Sequence[str] | None = None) -> None:
    """Raise ``ValueError`` for instances that cannot be played; ``names``: theirs in errors."""
    fields_of(SPEC.constants(resolve(SPEC.params, task_of(arrays), SPEC.id)), arrays, names=names)


def import_railways(place: Path, out: Path) -> str:
    """Write a file, or all environments of a folder, into one file of instances.

    Returns what was written: the keys of a task that plays the instances, with the rate of
    malfunctions and the shares of speeds that the files have, and what the files do not hold. An
    earlier ``out`` in the folder is not read. Raises ``ValueError`` that names the file, and its
    cell or train, and for an ``out`` that is ``place`` or does not end in .npz.
    """
    if out.suffix != ".npz" or out.resolve() == place.resolve():
        raise ValueError(f"{out} cannot take the instances; name another file that ends in .npz.")
    files = [file for file in files_of(place) if file.resolve() != out.resolve()]
    if not files:
        raise ValueError(f"In {place} there is only {out}, which is to be written.")
    read = [(file, _read(file)) for file in files]
    arrays = _stacked(read)
    check(arrays, [str(file) for file, _ in read])
    content = pack(arrays)
    part = out.with_name(f".{uuid4().hex}.tmp")
    try:
        part.write_bytes(content)
        os.replace(part, out)
    finally:
        part.unlink(missing_ok=True)
    durations = [saved.malfunction_duration for _, saved in read if saved.malfunction_rate > 0]
    speeds = [f"{over}/{under}" for over, under in arrays["max_speed"].reshape(-1, 2).tolist()]
    parameters = task_of(arrays) | {
        "speeds": {speed: speeds.count(speed) / len(speeds) for speed in sorted(set(speeds))},
        "malfunction_rate": float(np.mean([saved.malfunction_rate for _, saved in read])),
    }
    if durations:
        shortest, longest = zip(*durations, strict=True)
        parameters["malfunction_duration"] = (min(shortest), max(longest))
    lines = [
        f"{out}: {len(read)} instance{'s' * (len(read) > 1)}. Keys of a task that plays them:",
        'env = "coopbench/Rail-v0"',
        f"parameters = {_toml(parameters)}",
        f"instances = {_toml({'file': str(out), 'sha256': hashlib.sha256(content).hexdigest()})}",
        *(f"{file} holds {text}." for file, saved in read for text in saved.assumed),
    ]
    if any(_ending(file) in SAVED for file, _ in read):
        lines.append(_NOT_SAVED)
    return "\n".join(lines)


def _toml(value: Any) -> str:
    """Return a value as TOML has it: tables in one line, and texts as in JSON."""
    if not isinstance(value, Mapping):
        return json.dumps(value)
    members = (
        f"{key if key.isidentifier() else json.dumps(key)} = {_toml(member)}"
        for key, member in value.items()
    )
    return f"{{ {', '.join(members)} }}"
