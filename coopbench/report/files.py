"""Files of a report: every rendering is written below one folder, each in one atomic step."""

from pathlib import Path

from coopbench.files import write_all
from coopbench.report.answers import Answered
from coopbench.report.document import document, paper
from coopbench.report.latex import as_latex
from coopbench.report.markdown import as_markdown
from coopbench.report.page import as_html
from coopbench.report.serialise import as_json, columns_as_csv, tables_as_csv
from coopbench.results.folder import is_results_folder


def save(findings: Answered, folder: Path) -> dict[str, Path]:
    """Write all files of a report below ``folder``, which is made if needed.

    A results folder holds every episode already; written elsewhere, a report has ``episodes.csv``.
    Returns {what: file} with the keys html, md, tex, json, one per table of numbers such as
    estimates, and one such as ``plots/scores.svg`` per plot and format.
    Files of the same name are replaced, never half written. The same report gives the same bytes.

    Raises:
        OSError: the folder cannot be written.
    """
    shown = document(findings)
    contents: dict[str, str | bytes] = {
        f"plots/{picture.name}.svg": picture.svg for picture in shown.pictures
    }
    contents["report.json"] = as_json(findings)
    contents |= {f"{name}.csv": content for name, content in tables_as_csv(findings).items()}
    contents |= {
        "report.tex": as_latex(paper(findings)),
        "report.md": as_markdown(shown),
        "report.html": as_html(shown),
    }
    if not is_results_folder(folder):
        contents["episodes.csv"] = columns_as_csv(findings.episodes.columns())
    return write_all(folder, contents, "report")
