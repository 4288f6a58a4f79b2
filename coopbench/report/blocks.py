"""Blocks: what reports, leaderboards and cross-plays consist of; every format renders blocks."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Union

from coopbench.report.plots.marks import Style
from coopbench.report.plots.style import Picture
from coopbench.report.tables.model import Table

# Where a section is shown: also in a terminal and a notebook; in all files; or on the page alone.
ALWAYS, FILES, PAGE = "always", "files", "page"


@dataclass(frozen=True)
class Verdict:
    """What kind of report it is, in a line; ``deviations`` say why it is not a standard one.

    ``warning`` marks a report of a protocol that was not followed.
    """

    title: str
    deviations: tuple[str, ...]
    warning: bool = False


@dataclass(frozen=True)
class Facts:
    """Labels with their texts."""

    pairs: Mapping[str, str]
    shown: str = ALWAYS


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    warning: bool = False


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Code:
    """A text that is shown as it is."""

    text: str


@dataclass(frozen=True)
class Pictures:
    """Plots, which are drawn when they are rendered."""

    drawn: tuple[Picture, ...]


@dataclass(frozen=True)
class Player:
    """The HTML of a page that plays an episode."""

    page: str


@dataclass(frozen=True)
class Row:
    """Blocks that stand side by side where there is room."""

    blocks: tuple["Block", ...]


@dataclass(frozen=True)
class Details:
    """Blocks that a page folds unless ``open``; a terminal leaves out what is folded."""

    title: str
    blocks: tuple["Block", ...]
    kind: str = ""  # class of the element
    open: bool = False


@dataclass(frozen=True)
class Deferred:
    """Blocks that are made when they are rendered, because making them takes long."""

    make: Callable[[], tuple["Block", ...]]

    @cached_property
    def blocks(self) -> tuple["Block", ...]:
        """The blocks."""
        return self.make()


@dataclass(frozen=True)
class Section:
    """Blocks under a heading; one with an ``anchor`` is linked at the top of a page."""

    title: str
    blocks: tuple["Block", ...]
    anchor: str = ""
    shown: str = FILES


Block = Union[  # noqa: UP007  (its parts refer to it by name)
    Verdict,
    Facts,
    Text,
    Items,
    Code,
    Table,
    Pictures,
    Player,
    Row,
    Details,
    Deferred,
    Section,
]


@dataclass(frozen=True)
class Document:
    """Blocks under a title, in the order in which every format shows them."""

    title: str
    blocks: tuple[Block, ...]
    kind: str = "coopbench report"
    looks: Mapping[str, Style] = field(default_factory=dict)  # of policies, by name
    footer: str = ""
    scripts: bool = True  # whether its page sorts tables and plays episodes

    @property
    def sections(self) -> tuple[Section, ...]:
        """The sections of the document, without those inside of others."""
        return tuple(block for block in self.blocks if isinstance(block, Section))

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """All plots, in their order."""
        return tuple(_pictures(self.blocks))


def _pictures(blocks: tuple[Block, ...]) -> Iterator[Picture]:
    for block in blocks:
        if isinstance(block, Pictures):
            yield from block.drawn
        elif isinstance(block, Row | Details | Section):
            yield from _pictures(block.blocks)
