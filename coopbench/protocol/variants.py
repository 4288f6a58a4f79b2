"""Variants: in what protocols differ, and protocols with fewer tasks or with maps of a user."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import coopbench_envs
from coopbench.errors import ProtocolError
from coopbench.protocol.loading import load_protocol, protocol_files
from coopbench.protocol.map_files import checksum, files_of, place_of
from coopbench.protocol.messages import reasons
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task

_NAMED = 6  # keys that are named


def are_same(one: Protocol, two: Protocol) -> bool:
    """Whether two protocols are the same; the words that describe them may differ."""
    return one.content() == two.content()


def differing_keys(one: Protocol, two: Protocol) -> str:
    """Name the keys in which two protocols differ, wording aside; empty if they are the same."""
    return _named(_keys(one.content(), two.content()))


def differing_wording(one: Protocol, two: Protocol) -> str:
    """Name the keys, wording included, in which two protocols differ; empty if in none."""
    return _named(_keys(one.model_dump(mode="json"), two.model_dump(mode="json")))


def _named(keys: Iterator[str]) -> str:
    """Write keys in a line, the first few of many."""
    names = list(dict.fromkeys(keys))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _keys(one: dict[str, Any], two: dict[str, Any], where: str = "") -> Iterator[str]:
    """Yield the keys in which two contents differ, with those of the tables that they are in."""
    for key in dict.fromkeys((*one, *two)):
        before, now = one.get(key), two.get(key)
        place = f"{where}{key}"
        if before == now and (key in one) == (key in two):
            continue
        if place == "task":
            tasks = [{task["id"]: task for task in side} for side in (before or (), now or ())]
            if list(tasks[0]) != list(tasks[1]):
                yield "task"
            for name in (name for name in tasks[0] if name in tasks[1]):
                yield from _keys(tasks[0][name], tasks[1][name], f"task.{name}.")
        elif isinstance(before, dict) and isinstance(now, dict) and not where:
            yield from _keys(before, now, f"{place}.")
        else:
            yield place


def with_tasks(protocol: Protocol, names: Sequence[str]) -> Protocol:
    """Return a protocol with the tasks of these names, in its own order; with all, if none.

    A part of a protocol has another digest, and its report is not a standard one. It has no charts,
    no training on tasks that are left out, and no comparison with such tasks.
    Raises ``ValueError`` with the nearest task for an unknown name, and ``ProtocolError`` if the
    chosen tasks need others.
    """
    chosen = {protocol.task_of(name).id for name in names}
    if not chosen or len(chosen) == len(protocol.task):
        return protocol
    tasks = [task for task in protocol.task if task.id in chosen]
    for k, task in enumerate(tasks):
        missing = {name for name in ("trained_on", "varies") if getattr(task, name) not in chosen}
        tasks[k] = task.model_copy(update=dict.fromkeys(missing))
    groups, training = {task.group for task in tasks}, protocol.training
    domains = {g: part for g, part in (protocol.report.domain or {}).items() if g in groups}
    # Charts are over the positions of all tasks.
    report = protocol.report.model_copy(update={"chart": (), "domain": domains or None})
    try:
        return protocol.changed(task=tuple(tasks), report=report, training=training)
    except ValidationError:
        training = None  # it names tasks that are left out
    try:
        return protocol.changed(task=tuple(tasks), report=report, training=training)
    except ValidationError as error:
        lines = "\n  ".join(reasons(error))
        raise ProtocolError(
            f"{protocol.name} cannot be played on {', '.join(names)} alone:\n  {lines}"
        ) from None


def is_part(whole: Protocol, protocol: Protocol) -> bool:
    """Whether a protocol is ``whole`` with some of its tasks, as ``with_tasks`` returns it."""
    names = [task.id for task in protocol.task]
    if not {*names} < {task.id for task in whole.task}:
        return False
    try:
        return are_same(with_tasks(whole, names), protocol)
    except ProtocolError:
        return False


def whole_of(protocol: Protocol) -> Protocol:
    """Return the protocol of this package that a protocol has some tasks of; else itself."""
    if protocol.protocol.name not in protocol_files():
        return protocol
    shipped = load_protocol(protocol.protocol.name)
    return shipped if is_part(shipped, protocol) else protocol


def with_maps(protocol: Protocol, folder: str | Path) -> Protocol:
    """Replace the package's map files by the user's; start positions are then drawn.

    Raises ``ProtocolError`` if no task is played on files, or if the files cannot be played on.
    """
    if not Path(folder).exists():
        raise ProtocolError(f"There is no folder {folder} to read maps from.")
    place = str(Path(folder).resolve())
    tasks = tuple(
        _moved(task, place) if files_of(task.env, task.parameters) else task
        for task in protocol.task
    )
    if tasks == protocol.task:
        raise ProtocolError(f"{protocol.name} has no task {_condition(protocol)}; remove --maps.")
    try:
        return protocol.changed(task=tasks)
    except ValidationError as error:
        lines = "\n  ".join(reasons(error))
        raise ProtocolError(f"{protocol.name} cannot be played on {place}:\n  {lines}") from None


def _moved(task: Task, place: str) -> dict[str, Any]:
    """Return the content of a task that is played on the map files at a place of the user."""
    files = coopbench_envs.spec(task.env).files
    assert files is not None
    parameters = files.moved(task.parameters, place)
    try:
        maps = checksum(task.env, parameters)
    except ValueError as error:
        raise ProtocolError(str(error)) from None
    changed = {"parameters": parameters, "instances": None, "maps": maps}
    return task.model_dump(mode="json") | changed


def _condition(protocol: Protocol) -> str:
    """Say which tasks of the protocol's environments read map files."""
    kinds = [coopbench_envs.spec(task.env).files for task in protocol.task]
    conditions = dict.fromkeys(files.condition for files in kinds if files is not None)
    return f"with {' or '.join(conditions)}" if conditions else "that reads map files"


def are_replaced(shipped: Protocol, protocol: Protocol) -> bool:
    """Whether a protocol is ``shipped`` with map files of the user, and nothing else differs."""
    places = {place_of(task.env, task.parameters) for task in protocol.task}
    users = [place for place in places if place is not None]
    return len(users) == 1 and are_same(with_maps(shipped, users[0]), protocol)


def maps_text(protocol: Protocol) -> str:
    """Say which map files a protocol is played on; empty if on none."""
    texts: dict[tuple[str | None, str], str] = {}
    for task in protocol.task:
        files = coopbench_envs.spec(task.env).files
        if files is None or not (paths := files.paths(task.parameters)):
            continue
        place, count = files.place(task.parameters), len(paths)
        plural = "s" if count > 1 else ""
        text = f"{count} file{plural} of {place}" if place else f"{count} {files.bundled}"
        texts[place, files.bundled] = text + (f" (SHA-256 {task.maps})" if task.maps else "")
    return "; ".join(texts.values())
