"""Selection: a protocol with some of its tasks."""

from collections.abc import Sequence

from pydantic import ValidationError

from coopbench.errors import ProtocolError
from coopbench.protocol.messages import reasons
from coopbench.protocol.schema import Protocol

__all__ = ["with_tasks"]


def with_tasks(protocol: Protocol, names: Sequence[str]) -> Protocol:
    """Return a protocol with the tasks of these names, in its own order; with all, if none.

    A part of a protocol has another digest, and its report is not a standard one. Raises
    ``ValueError`` with the nearest task for an unknown name, and ``ProtocolError`` if the chosen
    tasks need others, for instance those whose models play them.
    """
    chosen = {protocol.task_of(name).id for name in names}
    if not chosen or len(chosen) == len(protocol.task):
        return protocol
    content = protocol.model_dump(mode="json")
    content["task"] = [task for task in content["task"] if task["id"] in chosen]
    try:
        return Protocol.model_validate(content, strict=False)
    except ValidationError as error:
        lines = "\n  ".join(reasons(error))
        raise ProtocolError(
            f"{protocol.name} cannot be played on {', '.join(names)} alone:\n  {lines}"
        ) from None
