"""Report: the findings about a protocol, with everything that shows and saves them."""

from functools import cached_property
from pathlib import Path
from typing import Any

from coopbench.report.answers import Answered
from coopbench.report.blocks import Document
from coopbench.report.document import document, paper
from coopbench.report.files import save
from coopbench.report.frames import frame
from coopbench.report.latex import as_latex
from coopbench.report.page import as_notebook
from coopbench.report.terminal import as_text


class Report(Answered):
    """Result of ``coopbench.evaluate``; print it, or ``save`` it."""

    def __repr__(self) -> str:
        tasks, names = len(self.protocol.task), {policy for _, policy in self.episodes.pairs}
        return f"<Report of {self.protocol.name}: tasks {tasks}, policies {len(names)}>"

    def __str__(self) -> str:
        return as_text(self.document)

    @cached_property
    def document(self) -> Document:
        """The blocks of the report, which every format renders."""
        return document(self)

    def _repr_html_(self) -> str:
        """Return what a notebook shows below a cell."""
        return as_notebook(self.document)

    def save(self, folder: str | Path) -> dict[str, Path]:
        """Write the report below ``folder``; return the files by format.

        ``report.html`` (self-contained page with plots), ``report.md``, ``report.tex``,
        ``report.json`` and one CSV file for each part, such as ``estimates.csv``;
        ``coopbench.analysis.findings.parts`` lists them. Outside of a results folder, which
        holds every episode already, there is ``episodes.csv``, too.
        """
        return save(self, Path(folder))

    def latex(self) -> str:
        """Return the tables of aggregates and of the score for a paper, as in ``report.tex``."""
        return as_latex(paper(self))

    def to_frame(self, what: str = "episodes") -> Any:
        """Return a part as a pandas ``DataFrame``; see ``coopbench.report.frames``."""
        return frame(self, what)
