"""Registration: what a study will compare, written down before anything is evaluated.

The file holds the digest of the protocol's content, the contestants, the hypotheses and the date; a
report checks itself against it.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, ValidationError, field_validator, model_validator

from coopbench.baselines.registry import learners
from coopbench.errors import DamagedResultError
from coopbench.files import make_folder, parsed, read_bounded, write_text
from coopbench.protocol.base import Strict, as_tuple
from coopbench.protocol.messages import explained
from coopbench.protocol.schema import Protocol, check_printable
from coopbench_envs.parameters import named

FILE = "registration.json"  # in a results folder
_PLACE = re.compile(r"(.*\S)\s+on\s+(\S+)", re.DOTALL)


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


class _Reading(NamedTuple):
    """What a hypothesis says if its text is split in one of the ways that its form allows."""

    first: str
    relation: Literal[">", "="]
    second: str
    where: str | None


def parse_hypothesis(text: str, protocol: Protocol, contestants: Sequence[str]) -> Hypothesis:
    """Read "FIRST > SECOND on PLACE", where the place is a task or a group of the protocol.

    "=" says that both are equal within the protocol's margin, on a task. Without a place it is the
    only group of the protocol. Names may hold blanks, ">", "=" and " on ": the text is split so
    that its parts are contestants and a place.

    Raises:
        ValueError: for another form, an unknown place, a name that is no contestant, a text that
            can be split in several ways, a place that is both a task and a group, two that reports
            do not compare there, or "=" where the protocol has no margin or the place is a group.
    """
    first, relation, second, where = _reading(text, protocol, contestants)
    for name in (first, second):
        named("contestant", name, dict.fromkeys(contestants, ""), "the registration")
    if where is None and len(protocol.groups) > 1:
        raise ValueError(f"{text!r} names no place; {protocol.name} has several groups: name one")
    place = next(iter(protocol.groups)) if where is None else where
    kind = named("task or group", place, _places(protocol), protocol.name)
    if kind == "task" and place in protocol.groups:
        raise ValueError(
            f"{text!r}: {place!r} is a task of {protocol.name} and a group; rename one of them in "
            f"the protocol, or name another place"
        )
    if relation == "=" and (kind == "group" or protocol.report.margin is None):
        raise ValueError(
            f"{text!r}: equality is tested on single tasks of protocols that declare a margin; "
            "name a task of such a protocol, or use '>'"
        )
    _check_compared(text, protocol, (first, second), place)
    return Hypothesis(first=first, relation=relation, second=second, where=place)


def _check_compared(text: str, protocol: Protocol, names: tuple[str, str], place: str) -> None:
    """Raise ``ValueError`` for two contestants that no report compares at a place."""
    one, two = (protocol.family(name)[0] for name in names)
    if one == two:
        raise ValueError(f"{text!r} compares {one} with itself; name two methods")
    for task in protocol.groups.get(place) or [protocol.task_of(place)]:
        for name in names:
            if not protocol.report.has_play(name, task):
                raise ValueError(
                    f"{text!r}: {name} is a baseline of other groups, and does not play "
                    f"{task.id!r}; name a place that both play"
                )


def _places(protocol: Protocol) -> dict[str, str]:
    """Return what the places of a protocol are: "task" or "group"."""
    tasks = {task.id: "task" for task in protocol.task}
    return dict.fromkeys(protocol.groups, "group") | tasks


def _reading(text: str, protocol: Protocol, contestants: Sequence[str]) -> _Reading:
    """Return the reading whose parts are contestants and a place.

    Where there is none, it is the one with most of them, so that errors are about the other parts.
    """
    readings = list(_readings(text.strip()))
    if not readings:
        raise ValueError(
            f"--hypothesis takes 'FIRST > SECOND on PLACE' or 'FIRST = SECOND on TASK'; given "
            f"{text!r}"
        )
    names, places = set(contestants), set(_places(protocol))
    whole = [
        one
        for one in readings
        if {one.first, one.second} <= names
        and (one.where in places or (one.where is None and len(protocol.groups) == 1))
    ]
    if len(whole) > 1:
        shown = " or ".join(repr(tuple(part for part in one if part)) for one in whole)
        raise ValueError(f"{text!r} can be read as {shown}; give a contestant another name")

    def known(one: _Reading) -> tuple[int, int]:
        parts = (one.first in names) + (one.second in names) + (one.where in places)
        return parts, -len(f"{one.first} {one.second}".split())

    return max(whole or readings, key=known)


def _readings(text: str) -> Iterator[_Reading]:
    """Iterate over the ways to split a text at a relation and at the last " on ", if any."""
    for at, sign in enumerate(text):
        first, rest = text[:at].rstrip(), text[at + 1 :].lstrip()
        if sign not in (">", "=") or not first or not rest:
            continue
        relation: Literal[">", "="] = "=" if sign == "=" else ">"
        yield _Reading(first, relation, rest, None)
        if match := _PLACE.fullmatch(rest):
            yield _Reading(first, relation, *match.groups())


def registration(
    protocol: Protocol, contestants: Sequence[str], hypotheses: Sequence[str], date: str
) -> Registration:
    """Return the registration of a study; ``date`` is that of ``provenance.now``.

    A learner stands for its models, ``learner:task`` where each of them plays all tasks.

    Raises:
        ValueError: if a hypothesis is not allowed, see ``parse_hypothesis``, or stands twice, or
            there are no contestants.
    """
    models = [protocol.models_called(n) if n in learners() else (n,) for n in contestants]
    names = tuple(dict.fromkeys(itertools.chain.from_iterable(models)))
    if not names:
        raise ValueError("A registration needs contestants; name them with --policy")
    claims = [parse_hypothesis(text, protocol, names) for text in hypotheses]
    for claim in claims:
        if claims.count(claim) > 1:
            raise ValueError(f"'{claim}' is registered twice; give each hypothesis once")
    return Registration(
        schema=1,
        protocol=protocol.name,
        digest=protocol.content_digest,
        contestants=names,
        hypotheses=tuple(claims),
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
