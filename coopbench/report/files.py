"""Files of a report: every rendering is written below one folder, each in one atomic step."""

from pathlib import Path

from coopbench.analysis.findings import Findings
from coopbench.files import write_all
from coopbench.report.data import as_json, columns_as_csv, tables_as_csv
from coopbench.report.latex import as_latex
from coopbench.report.markdown import as_markdown
from coopbench.report.page import as_html
from coopbench.report.plots.pictures import pictures

__all__ = ["save"]


def save(findings: Findings, folder: Path) -> dict[str, Path]:
    """Write all files of a report below ``folder``, which is made if needed.

    Returns {what: file} with the keys html, md, tex, json, one per table of numbers such as
    estimates or episodes, and one such as ``plots/iqm.svg`` per plot and format.
    Files of the same name are replaced, never half written. The same report gives the same bytes.

    Raises:
        OSError: the folder cannot be written.
    """
    drawn = pictures(findings)
    contents: dict[str, str | bytes] = {}
    for picture in drawn:
        contents[f"plots/{picture.name}.svg"] = picture.svg
    contents["report.json"] = as_json(findings)
    contents |= {f"{name}.csv": content for name, content in tables_as_csv(findings).items()}
    contents |= {
        "episodes.csv": columns_as_csv(findings.played.columns()),
        "report.tex": as_latex(findings),
        "report.md": as_markdown(findings, drawn),
        "report.html": as_html(findings, drawn),
    }
    return write_all(folder, contents, "report")
