"""Files of a report: every rendering is written below one folder, each in one atomic step."""

import hashlib
import json
from importlib.metadata import version
from pathlib import Path

import coopbench_envs
from coopbench.analysis.findings import Findings
from coopbench.errors import DamagedResultError
from coopbench.files import by_key, parsed, read_bounded, write_all, write_text
from coopbench.report.data import as_json, columns_as_csv, tables_as_csv
from coopbench.report.data import contents as report_contents
from coopbench.report.latex import as_latex
from coopbench.report.markdown import as_markdown
from coopbench.report.page import as_html
from coopbench.report.plots.pictures import pictures
from coopbench.results.folder import is_results_folder

__all__ = ["LIST", "save"]

LIST = "report.files.json"  # what the files of a report were made from, with their checksums
_MAIN = "report"
# Packages whose code and templates make a report.
_MAKERS = (Path(__file__).parent.parent, Path(coopbench_envs.__file__).parent)


def save(findings: Findings, folder: Path, *, keep: bool = False) -> dict[str, Path]:
    """Write all files of a report below ``folder``, which is made if needed.

    A results folder holds every episode already; written elsewhere, a report has ``episodes.csv``.
    Returns {what: file} with the keys html, md, tex, json, one per table of numbers such as
    estimates, and one such as ``plots/scores.svg`` per plot and format.
    Files of the same name are replaced, never half written. The same report gives the same bytes.

    With ``keep`` nothing is written to a results folder whose files are those of the same results,
    made by the same code. This is for folders of one's own: whoever can change a page there could
    also change the list by which it is kept.

    Raises:
        OSError: the folder cannot be written.
    """
    in_results = is_results_folder(folder)
    origin = _origin(findings) if in_results and findings.results else ""
    names = _unchanged(folder, origin) if keep and origin else ()
    if names:
        return by_key(folder, names, _MAIN)
    contents = _contents(findings)
    if not in_results:
        contents["episodes.csv"] = columns_as_csv(findings.played.columns())
    written = write_all(folder, contents, _MAIN)
    if origin:
        sums = {name: _sum(content) for name, content in contents.items()}
        write_text(folder / LIST, json.dumps({"origin": origin, "sha256": sums}, indent=1) + "\n")
    return written


def _contents(findings: Findings) -> dict[str, str | bytes]:
    """Return the contents of all files but ``episodes.csv``."""
    drawn = pictures(findings)
    contents: dict[str, str | bytes] = {f"plots/{pic.name}.svg": pic.svg for pic in drawn}
    contents["report.json"] = as_json(findings)
    contents |= {f"{name}.csv": content for name, content in tables_as_csv(findings).items()}
    return contents | {
        "report.tex": as_latex(findings),
        "report.md": as_markdown(findings, drawn),
        "report.html": as_html(findings, drawn),
    }


def _origin(findings: Findings) -> str:
    """Return a digest of all that the files depend on: findings, stored results and code."""
    numbers = json.dumps(report_contents(findings))
    parts = [numbers, findings.results, *(version(name) for name in ("matplotlib", "jinja2"))]
    total = hashlib.sha256("\n".join(map(_sum, parts)).encode())
    for root in _MAKERS:
        for file in sorted(root.rglob("*")):
            if file.suffix in (".py", ".html", ".css", ".js"):
                total.update(f"{file.relative_to(root)}\n".encode() + file.read_bytes())
    return total.hexdigest()


def _unchanged(folder: Path, origin: str) -> tuple[str, ...]:
    """Return the names of the files in ``folder`` if all are there and of this ``origin``."""
    try:
        stored = parsed(read_bounded(folder / LIST))
        sums = dict(stored["sha256"]) if stored["origin"] == origin else {}
        same = all(_sum((folder / name).read_bytes()) == total for name, total in sums.items())
    except (DamagedResultError, ValueError, LookupError, TypeError, OSError):
        return ()
    return tuple(sums) if same else ()


def _sum(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()
