"""Model of a table: made once as plain data, then written as text, Markdown, HTML or LaTeX."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One cell of a table."""

    text: str
    value: float | str | None = None  # what it is sorted by, in full precision; None comes last
    marks: tuple[str, ...] = ()  # letters of the footnotes that qualify it
    strong: bool = False  # a claim that holds, such as an adjusted p below the protocol's alpha
    below: str = ""  # a second line, which sorting ignores

    @property
    def marked(self) -> str:
        """The text with the letters of its footnotes."""
        return self.text + "".join(f" ({mark})" for mark in self.marks)

    @property
    def lines(self) -> tuple[str, ...]:
        """The text with its footnotes, and the second line if there is one."""
        return tuple(filter(None, (self.marked, self.below)))


@dataclass(frozen=True)
class Column:
    """Name and meaning of a column."""

    name: str
    meaning: str
    numeric: bool = True

    @property
    def is_interval(self) -> bool:
        """Whether it holds the intervals of the column before it."""
        return self.name.endswith("interval")


@dataclass(frozen=True)
class Group:
    """Rows that belong together and are sorted among themselves; ``name`` may be empty."""

    name: str
    meaning: str
    rows: tuple[tuple[Entry, ...], ...]


@dataclass(frozen=True)
class Table:
    """A table with its notes."""

    title: str
    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    unit: str  # unit of inference
    footnotes: tuple[tuple[str, str], ...] = ()  # letter, sentence
    kind: str = "Metric"  # what the names of the groups are
    matrix: bool = False  # with a column for each of many policies or tasks

    @property
    def grouped(self) -> bool:
        """Whether the groups have names."""
        return any(group.name for group in self.groups)

    @property
    def notes(self) -> list[str]:
        """Lines under the table: footnotes, meaning of its groups, unit of inference."""
        footnotes = [f"({letter}) {text}" for letter, text in self.footnotes]
        meanings = [f"{group.name}: {group.meaning}" for group in self.groups if group.meaning]
        return [*footnotes, *meanings, self.unit]


class Footnotes:
    """Sentences under a table, each once; ``mark`` returns the letter of one."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def mark(self, text: str) -> tuple[str, ...]:
        """Return the letter of a sentence, or nothing for an empty one."""
        if not text:
            return ()
        count = len(self._letters)
        letter = chr(97 + count % 26) * (1 + count // 26)
        return (self._letters.setdefault(text, letter),)

    def all(self) -> tuple[tuple[str, str], ...]:
        """Return all pairs (letter, sentence)."""
        return tuple((letter, text) for text, letter in self._letters.items())
