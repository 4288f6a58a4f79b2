"""Report: the findings about a protocol, with everything that shows and saves them."""

import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopbench.analysis.findings import Findings
from coopbench.files import write_all
from coopbench.report.blocks import Document
from coopbench.report.document import document, paper
from coopbench.report.latex import as_latex
from coopbench.report.markdown import as_markdown
from coopbench.report.page import as_html, as_notebook
from coopbench.report.sections import parts
from coopbench.report.serialise import as_json, columns_as_csv, frame, tables_as_csv
from coopbench.report.terminal import as_text
from coopbench.results.folder import check_report, is_results_folder
from coopbench_envs.reading import read_regular

_LARGEST = 1 << 26  # bytes of a report in Markdown


class Report(Findings):
    """The report of an evaluation: print it, ``save`` it, or read its parts.

    ``print`` shows the summary, and ``save`` writes the page and all other files. A part is a tuple
    of rows with named fields, in full precision: ``estimates`` has every metric of every policy on
    every task, ``aggregates`` and ``ranks`` the scores over each group of tasks, ``comparisons``
    and ``group_comparisons`` all pairs of policies; ``coopbench.report.sections.parts`` lists
    all parts, and ``to_frame`` returns one as a data frame. ``episodes`` are the results that
    everything is made of. ``is_standard`` tells whether the protocol was followed, ``deviations``
    why it was not, and ``notes`` what else a reader has to know.
    """

    def __repr__(self) -> str:
        tasks, policies = len(self.protocol.task), len(self.episodes.policies)
        return f"<Report of {self.protocol.name}: tasks {tasks}, policies {policies}>"

    def __str__(self) -> str:
        text = as_text(self.document)
        return f"{text}\nReport: {self.page}" if self.page else text

    if not TYPE_CHECKING:  # or a mistyped name would pass; ``rows`` returns typed rows

        def __getattr__(self, name: str) -> tuple[Any, ...]:
            """Return the rows of the part of a section."""
            if name.startswith("_") or name not in parts():
                raise AttributeError(f"{type(self).__name__!r} has no attribute or part {name!r}.")
            return self.rows(parts()[name])

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *parts()]

    @cached_property
    def document(self) -> Document:
        """The blocks of the report, which every format renders."""
        return document(self)

    def _repr_html_(self) -> str:
        """Return what a notebook shows below a cell."""
        return as_notebook(self.document)

    def save(self, folder: str | Path) -> dict[str, Path]:
        """Write the report below ``folder``, which is made if needed; return {what: file}.

        ``report.html`` (self-contained page with plots), ``report.md``, ``report.tex``,
        ``report.json``, the plots, and one CSV file for each part, such as ``estimates.csv``;
        ``coopbench.report.sections.parts`` lists the parts. Outside of a results folder, which
        holds every episode already, there is ``episodes.csv``, too. The keys are html, md, tex,
        json, the names of parts, and paths such as ``plots/scores.svg``. Files of the same name
        are replaced, never half written. Those of parts that this report leaves out, because few
        reports have them, are removed, and so are plots that an earlier ``report.md`` shows and
        this one does not. The same report gives the same bytes.

        Raises ``ValueError`` for a results folder of other results, whose report this would
        replace, and ``OSError`` if the folder cannot be written.
        """
        inside = is_results_folder(Path(folder))
        if inside:
            check_report(Path(folder), self.protocol, self.results)
        contents: dict[str, str | bytes] = {
            f"plots/{picture.name}.svg": picture.svg for picture in self.document.pictures
        }
        contents |= {
            "report.json": as_json(self),
            **{f"{name}.csv": content for name, content in tables_as_csv(self).items()},
            "report.tex": self.latex(),
            "report.md": as_markdown(self.document),
            "report.html": as_html(self.document),
        }
        if not inside:
            contents["episodes.csv"] = columns_as_csv(self.episodes.columns())
        earlier = _pictures_of(Path(folder) / "report.md")
        written = write_all(Path(folder), contents, "report")
        gone = [f"{name}.csv" for name in parts().keys() - written.keys()]
        for name in (*gone, *(earlier - contents.keys())):
            (Path(folder) / name).unlink(missing_ok=True)
        return written

    def latex(self) -> str:
        """Return the tables of aggregates and of the score for a paper, as in ``report.tex``."""
        return as_latex(paper(self))

    def to_frame(self, what: str = "episodes") -> Any:
        """Return a part as a pandas ``DataFrame``; see ``coopbench.report.serialise``."""
        return frame(self, what)


def _pictures_of(page: Path) -> set[str]:
    """Return the plots that a report in Markdown shows, as paths below its folder."""
    try:
        text = read_regular(page, _LARGEST, links=False).decode()
    except (OSError, ValueError):  # there is none, or it is not ours
        return set()
    return set(re.findall(r"\]\((plots/[\w.-]+\.svg)\)", text))
