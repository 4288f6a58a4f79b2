"""Selection: a protocol with some of its tasks."""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from coopbench.errors import ProtocolError
from coopbench.protocol.differences import are_same
from coopbench.protocol.messages import reasons
from coopbench.protocol.schema import Protocol

__all__ = ["is_part", "with_tasks"]


def with_tasks(protocol: Protocol, names: Sequence[str]) -> Protocol:
    """Return a protocol with the tasks of these names, in its own order; with all, if none.

    A part of a protocol has another digest, and its report is not a standard one. Its charts
    and what it says of training beside partners, or on tasks that are left out, are left out, too.
    Raises ``ValueError`` with the nearest task for an unknown name, and ``ProtocolError`` if the
    chosen tasks need others.
    """
    chosen = {protocol.task_of(name).id for name in names}
    if not chosen or len(chosen) == len(protocol.task):
        return protocol
    content = protocol.model_dump(mode="json")
    content["task"] = [task for task in content["task"] if task["id"] in chosen]
    for task in content["task"]:
        if task.get("trained_on") not in chosen:
            task["trained_on"] = None  # models of the task itself
    report, groups = content["report"], {task.get("group") for task in content["task"]}
    report["chart"] = []  # over the positions of all tasks
    if report.get("domain"):
        report["domain"] = {g: names for g, names in report["domain"].items() if g in groups}
    if content.get("training"):
        content["training"] |= {"partners": None, "share": None}
    try:
        return _validated(content)
    except ValidationError:
        content["training"] = None  # it names tasks that are left out
    try:
        return _validated(content)
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


def _validated(content: dict[str, Any]) -> Protocol:
    return Protocol.model_validate(content, strict=False)
