"""Fill the generated parts of the documentation from the code; ``--check`` only compares.

A generated part stands between ``<!-- generated: begin -->`` and ``<!-- generated: end -->``; on
the page of an environment it contains the facts, elsewhere the table of its name.
``croissant.json`` is generated as a whole.
"""

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import audit
import compute_table
import croissant
import leaderboard_page
import plots
import published_tables
import rail_tables
import results_pages
import results_tables
import speed_tables
import training_times

import coopbench_envs
from coopbench import catalogue
from coopbench.analysis.battles import load_battles
from coopbench.describe import describe_environment
from coopbench.protocol.loading import load_protocol
from coopbench.report.markdown import rows_table
from coopbench.report.sections import parts
from studies.battles.pages import counted, verdicts_table
from studies.certificates.pages import partners_text
from studies.checks import structure
from studies.validity import games

ROOT = Path(__file__).resolve().parent.parent
_PART = re.compile(r"(<!-- generated: begin ?(\w*) -->\n).*?(<!-- generated: end -->)", re.DOTALL)


def page_name(env_id: str) -> str:
    """File name of an environment's page: its module's name."""
    return f"{plots.stem(env_id)}.md"


def environments() -> str:
    """Table of all environments with their first sentences."""
    rows = []
    for env_id in coopbench_envs.ids():
        module = importlib.import_module(coopbench_envs.spec(env_id).module)
        text = (module.__doc__ or "").split("\n", 1)[0]
        what = text.split(": ", 1)[-1]
        link = f"[<code>{env_id.replace('/', '/<wbr>')}</code>]({page_name(env_id)})"
        rows.append((link, what[:1].upper() + what[1:]))
    return rows_table(["Environment", "What happens"], rows)


def policies() -> str:
    """Table of all policies."""
    return rows_table(
        ["Policy", "What it does"], [(f"`{n}`", t) for n, t in catalogue.policies().items()]
    )


def trainers() -> str:
    """Table of all learners."""
    rows = [(f"`{name}`", text) for name, text in catalogue.learners().items()]
    return rows_table(["Learner", "What it does"], rows)


def protocols() -> str:
    """Table of all protocols."""
    loaded = [load_protocol(name) for name in catalogue.protocol_names()]
    return rows_table(
        ["Protocol", "Tasks", "Episodes", "What it is"],
        [
            (
                f"`{p.protocol.name}`",
                str(len(p.task)),
                str(p.seeds.evaluation.count),
                p.protocol.description,
            )
            for p in loaded
        ],
    )


def facts(env_id: str) -> str:
    """Facts of an environment, then its plot, if any."""
    text = describe_environment(env_id)
    return f"{text}\n\n{plots.section(env_id)}" if plots.is_drawn(env_id) else text


def battles() -> tuple[str, str]:
    """Count of the published maps that need reactions, and the table of all battles searched.

    Both from drawn starts; the table says which of them ``skirmish-standard`` plays.
    """
    stored = load_battles("coopbench/Skirmish-v1")
    drawn = [one for one in stored.values() if one.parameters["start"] == "drawn"]
    standard = load_protocol("skirmish-standard")
    tasks = {
        one.name: task.id
        for one in drawn
        for task in standard.task
        if task.parameters == one.parameters
    }
    return counted(drawn), verdicts_table(drawn, tasks, standard.protocol.name)


def pages() -> dict[Path, dict[str, str]]:
    """Return the content of every generated part as {file: {name: text}}."""
    docs = ROOT / "docs"
    contents = {
        docs / "environments" / "index.md": {"environments": environments()},
        docs / "policies.md": {"policies": policies()},
    }
    for env_id in coopbench_envs.ids():
        contents[docs / "environments" / page_name(env_id)] = {"": facts(env_id)}
    for env_id, certificate in games.stored().items():
        partners = partners_text(certificate)
        contents[docs / "environments" / page_name(env_id)] |= {"partners": partners}
    contents[docs / "environments" / "rail_networks.md"] = rail_tables.parts()
    contents[docs / "environments" / "rail_results.md"] = rail_tables.challenges()
    contents[docs / "training.md"] = {"learners": trainers()} | training_times.parts()
    contents[docs / "compute.md"] = compute_table.parts()
    contents[docs / "leaderboard.md"] = leaderboard_page.parts()
    contents[docs / "results.md"] = results_tables.parts()
    for page, name in results_pages.PAGES.items():
        contents[docs / page] = results_pages.parts(name)
    contents[docs / "published.md"] = published_tables.parts()
    for name in ("speed", "speed-tables", "statistics"):
        contents[docs / f"{name}.md"] = speed_tables.parts()
    for name in ("validity", "validity-tables"):
        contents[docs / f"{name}.md"] = audit.parts()
    count, verdicts = battles()
    contents[docs / "validity.md"] |= {"battles": count}
    contents[docs / "protocols.md"] = {"protocols": protocols()}
    contents[docs / "environments" / "battles.md"] = {"battles": verdicts}
    contents[docs / "reports.md"] = {"parts": report_parts()}
    contents[docs / "architecture.md"] = {"rooms": f"```text\n{structure.picture()}\n```"}
    return contents


def report_parts() -> str:
    """Table of the parts of a report and how their rows are made."""
    rows = []
    for name, part in parts().items():
        text = (part.make.__doc__ or "").partition("\n")[0].replace("``", "`")
        rows.append((f"`{name}.csv`", f"`{part.row.__name__}`", text))
    return rows_table(["File", "Rows", "How they are made"], rows)


def filled(text: str, parts: dict[str, str]) -> str:
    """Return ``text`` with its generated parts replaced."""
    return _PART.sub(lambda m: f"{m[1]}{parts[m[2]]}\n{m[3]}", text)


def texts() -> Iterator[tuple[Path, str]]:
    """Yield every file that is made from others, as it should be."""
    for file, tables in pages().items():
        begun = file.is_file() or file.parent.name != "results"
        old = file.read_text(encoding="utf-8") if begun else results_pages.new_page(file.stem)
        yield file, filled(old, tables)
    yield croissant.FILE, croissant.text()


def main() -> int:
    """Write the files, or with ``--check`` name those that are out of date."""
    stale = []
    for file, new in texts():
        if not file.is_file() or new != file.read_text(encoding="utf-8"):
            stale.append(str(file.relative_to(ROOT)))
            if "--check" not in sys.argv:
                file.write_text(new, encoding="utf-8")
    if stale and "--check" in sys.argv:
        print(f"Out of date, run 'make docs': {', '.join(stale)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
