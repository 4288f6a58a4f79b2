"""Registration: what a study will compare, written down before anything is evaluated.

The file holds the digest of the protocol's content, the contestants, the hypotheses and the date; a
report checks itself against it.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from coopbench.errors import DamagedResultError
from coopbench.files import make_folder, parsed, read_bounded, write_text
from coopbench.protocol.base import Strict, as_tuple
from coopbench.protocol.messages import explained
from coopbench.protocol.schema import Protocol, check_printable
from coopbench_envs.parameters import named

FILE = "registration.json"  # in a results folder
_FORM = re.compile(r"(\S+)\s*([>=])\s*(\S+)(?:\s+on\s+(\S+))?")


class Hypothesis(Strict):
    """One policy scores higher than another, or the same within the margin, on a task or group."""

    first: str
    relation: Literal[">", "="]
    second: str
    where: str  # id of a task or name of a group; "" is the only group of a protocol without groups

    def __str__(self) -> str:
        place = f" on {self.where}" if self.where else ""
        return f"{self.first} {self.relation} {self.second}{place}"


class Registration(Strict):
    """What was registered, and when."""

    version: Literal[1] = Field(default=1, alias="schema")
    protocol: str
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")  # of the content, see ``content_digest``
    contestants: Annotated[tuple[str, ...], Field(min_length=1)]
    hypotheses: tuple[Hypothesis, ...] = ()
    date: str = Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")  # UTC

    _lists = field_validator("contestants", "hypotheses", mode="before")(as_tuple)

    @model_validator(mode="before")
    @classmethod
    def _shown(cls, content: Any) -> Any:
        """Refuse text that would steer a terminal or a page on which a report is shown."""
        check_printable(content)
        return content


def parse_hypothesis(text: str, protocol: Protocol, contestants: Sequence[str]) -> Hypothesis:
    """Read "FIRST > SECOND on PLACE", where the place is a task or a group of the protocol.

    "=" says that both are equal within the protocol's margin, on a task. Without a place it is the
    only group of the protocol.

    Raises:
        ValueError: for another form, an unknown place, a name that is no contestant, or "=" where
            the protocol has no margin or the place is a group.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"--hypothesis takes 'FIRST > SECOND on PLACE' or 'FIRST = SECOND on TASK'; given "
            f"{text!r}"
        )
    first, relation, second, where = match.groups()
    for name in (first, second):
        named("contestant", name, dict.fromkeys(contestants, ""), "the registration")
    tasks = {task.id: "task" for task in protocol.task}
    places = dict.fromkeys(protocol.groups, "group") | tasks
    if where is None and len(protocol.groups) > 1:
        raise ValueError(f"{text!r} names no place; {protocol.name} has several groups: name one")
    place = next(iter(protocol.groups)) if where is None else where
    kind = named("task or group", place, places, protocol.name)
    if relation == "=" and (kind == "group" or protocol.report.margin is None):
        raise ValueError(
            f"{text!r}: equality is tested on single tasks of protocols that declare a margin; "
            "name a task of such a protocol, or use '>'"
        )
    return Hypothesis(
        first=first, relation="=" if relation == "=" else ">", second=second, where=place
    )


def registration(
    protocol: Protocol, contestants: Sequence[str], hypotheses: Sequence[str], date: str
) -> Registration:
    """Return the registration of a study; ``date`` is that of ``provenance.now``.

    Raises:
        ValueError: if a hypothesis is not allowed, see ``parse_hypothesis``, or there are no
            contestants.
    """
    names = tuple(dict.fromkeys(contestants))
    if not names:
        raise ValueError("A registration needs contestants; name them with --policy")
    return Registration(
        schema=1,
        protocol=protocol.name,
        digest=protocol.content_digest,
        contestants=names,
        hypotheses=tuple(parse_hypothesis(text, protocol, names) for text in hypotheses),
        date=date,
    )


def read_registration(root: Path) -> Registration | None:
    """Return the registration of a results folder; None if it has none.

    Raises ``DamagedResultError`` if it cannot be read.
    """
    file = root / FILE
    if not file.exists():
        return None
    content = read_bounded(file)
    try:
        return Registration.model_validate(parsed(content))
    except ValidationError as error:
        problems = explained(error, model=Registration)
        raise DamagedResultError(f"{file} is not a registration:\n{problems}") from None
    except ValueError as error:
        raise DamagedResultError(f"{file} is not a registration: {error}") from None


def write_registration(root: Path, registration: Registration) -> Path:
    """Write a registration into a folder, which is made if needed; return the file.

    Raises:
        FileExistsError: there is one; a registration is never edited.
    """
    file = root / FILE
    if file.exists():
        raise FileExistsError(
            f"{file} exists, and a registration is not edited; choose another folder"
        )
    make_folder(root)
    write_text(file, registration.model_dump_json(indent=1, by_alias=True) + "\n")
    return file
