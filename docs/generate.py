"""Fill the generated parts of the documentation from the code; ``--check`` only compares.

A generated part stands between ``<!-- generated: begin -->`` and ``<!-- generated: end -->``; on
the page of an environment it contains the facts, in README.md the table of its name.
"""

import csv
import importlib
import re
import sys
from pathlib import Path

import plots

import coopbench_envs
from coopbench import catalogue
from coopbench.analysis.findings import MAKERS, row_types
from coopbench.baselines.learners.learner import LearnerEntry
from coopbench.baselines.registry import learners, preset
from coopbench.describe import describe_environment, describe_protocol
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.schema import Protocol
from coopbench.report.markdown import rows_table
from coopbench.theory import load_certificate
from coopbench.theory.pages import certificate_page
from coopbench_envs.parameters import Allowed
from coopbench_envs.parameters import describe as describe_parameters

ROOT = Path(__file__).resolve().parent.parent
_NO_BREAK = "\N{NO-BREAK SPACE}"
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
        link = f"[`{env_id}`](docs/environments/{page_name(env_id)})"
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


def hyperparameters() -> str:
    """Tables of the hyperparameters of all learners; one for learners that share them."""
    shared: dict[type, list[LearnerEntry]] = {}
    for entry in learners().values():
        shared.setdefault(entry.params, []).append(entry)
    parts = [
        f"### {' and '.join(f'`{entry.name}`' for entry in entries)}\n\n{learner_table(entries[0])}"
        for entries in shared.values()
    ]
    return "\n\n".join(parts)


def learner_table(entry: LearnerEntry) -> str:
    """Hyperparameters of a learner, with its default and the presets of the protocols."""
    presets = {name: preset(name, entry.name) for name in catalogue.protocols()}
    presets = {name: values for name, values in presets.items() if values}
    rows = [
        (
            f"`{key}`",
            str(default),
            *(str(values.get(key, default)) for values in presets.values()),
            text,
        )
        for key, (kind, default, allowed) in describe_parameters(entry.params).items()
        for text in [f"{allowed.text}; {allowed}" if has_range(kind, allowed) else allowed.text]
    ]
    return rows_table(["Hyperparameter", "Default", *presets, "Meaning"], rows)


def has_range(kind: str, allowed: Allowed) -> bool:
    """Whether the allowed values of a parameter are narrower than its type."""
    return bool(allowed.choices) or kind in ("int", "float")


def protocols() -> str:
    """Table of all protocols."""
    loaded = [load_protocol(name) for name in catalogue.protocols()]
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


def certificate(env_id: str) -> str:
    """Tables of an environment's certificate; nothing if it has none."""
    try:
        stored = load_certificate(env_id)
    except FileNotFoundError:
        return ""
    command = f"`coopbench certify {env_id.split('/')[1]}`:"
    return f"{command}\n\n{certificate_page(stored)}"


def listing() -> str:
    """Facts of all protocols; tasks that two of them share are listed once."""
    parts: list[str] = []
    shown: list[Protocol] = []
    for protocol in map(load_protocol, catalogue.protocols()):
        same = [other.protocol.name for other in shown if other.task == protocol.task]
        parts.append(f"## {protocol.protocol.name}\n\n{describe_protocol(protocol, *same[:1])}")
        shown.append(protocol)
    return "\n\n".join(parts)


def reference(name: str) -> str:
    """Mean success and coordination of every reference policy on every task of a protocol."""
    rows = _rows(name, "estimates.csv")
    means = {(row["task"], row["policy"], row["metric"]): float(row["mean"]) for row in rows}
    names = list(dict.fromkeys(row["policy"] for row in rows))

    def cell(task: str, policy: str) -> str:
        if (task, policy, "success_rate") not in means:
            return "—"  # not played
        return " / ".join(f"{means[task, policy, m]:.3f}" for m in ("success_rate", "coordination"))

    tasks = dict.fromkeys(row["task"] for row in rows)
    body = [(f"`{task}`", *(cell(task, name) for name in names)) for task in tasks]
    return rows_table(["Task", *(name.replace("_", " ") for name in names)], body)


def _rows(name: str, file: str) -> list[dict[str, str]]:
    with (ROOT / "baselines" / "results" / name / file).open(encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def interval(mean: float, low: float, high: float, form: str) -> str:
    """Return an estimate with its interval, whose limits stay on one line."""
    return f"{mean:{form}} [{low:{form}},{_NO_BREAK}{high:{form}}]"


def scores(name: str, metric: str, policies: tuple[str, ...], group: str) -> str:
    """Mean and interval of a metric of some policies on the tasks of a group."""
    estimates = {
        (r["task"], r["policy"]): r for r in _rows(name, "estimates.csv") if r["metric"] == metric
    }

    def cell(task: str, policy: str) -> str:
        row = estimates[task, policy]
        return interval(*(float(row[key]) for key in ("mean", "low", "high")), ".1f")

    body = [
        (f"`{task.id}`", *(cell(task.id, policy) for policy in policies))
        for task in load_protocol(name).groups[group]
    ]
    return rows_table(["Task", *(policy.replace("_", " ") for policy in policies)], body)


def leads(name: str, over: str, learned: tuple[str, ...], group: str) -> str:
    """Lead of learned policies over another one, with intervals and p-values."""
    comparisons = {(r["task"], r["first"], r["second"]): r for r in _rows(name, "comparisons.csv")}

    def cell(task: str, policy: str) -> str:
        turned = (task, policy, over) not in comparisons
        row = comparisons[(task, over, policy) if turned else (task, policy, over)]
        ends = [float(row[key]) for key in ("difference", "low", "high")]
        mean, low, high = (-ends[0], -ends[2], -ends[1]) if turned else ends
        p = float(row["p_holm"])
        words = ("p", "<", "0.0001") if p < 1e-4 else ("p", "=", f"{p:.2g}")
        return f"{interval(mean, low, high, '+.2f')}, {_NO_BREAK.join(words)}"

    body = [
        (f"`{task.id}`", *(cell(task.id, policy) for policy in learned))
        for task in load_protocol(name).groups[group]
    ]
    return rows_table(["Task", *(policy.replace("_", " ") for policy in learned)], body)


def aggregated(name: str) -> str:
    """Mean over tasks and interval of every policy on every group of tasks."""
    aggregates = {
        (r["group"], r["policy"]): r
        for r in _rows(name, "aggregates.csv")
        if r["statistic"] == "mean"
    }
    groups, policies = (list(dict.fromkeys(key[k] for key in aggregates)) for k in (0, 1))

    def cell(group: str, policy: str) -> str:
        row = aggregates[group, policy]
        return interval(*(float(row[key]) for key in ("estimate", "low", "high")), ".2f")

    body = [(f"`{policy}`", *(cell(group, policy) for group in groups)) for policy in policies]
    return rows_table(["Policy", *groups], body)


def learned(name: str) -> tuple[str, ...]:
    """Policies with training runs among reference results."""
    rows = _rows(name, "estimates.csv")
    return tuple(dict.fromkeys(row["policy"] for row in rows if row["unit"] == "runs"))


def learners_results() -> dict[str, str]:
    """Tables of the results of learners on coopetition-standard."""
    name = "coopetition-standard"
    policies = learned(name)
    fixed = ("best_constant", "open_loop", "conditional_cooperator")
    return {
        "learned": scores(name, "own_return", (*fixed, *policies), "self-play"),
        "over_constant": leads(name, "best_constant", policies, "self-play"),
        "over_sequence": leads(name, "open_loop", policies, "self-play"),
        "groups": aggregated(name),
        "pathfinders": pathfinders(),
    }


def pathfinders() -> str:
    """Success and return of learners and planners on the tasks of routing-learned."""
    rows = _rows("routing-learned", "estimates.csv")
    estimates = {(row["task"], row["policy"], row["metric"]): row for row in rows}
    tasks, policies = (list(dict.fromkeys(row[key] for row in rows)) for key in ("task", "policy"))

    def cell(task: str, policy: str, metric: str, places: int) -> str:
        row = estimates[task, policy, metric]
        return interval(*(float(row[key]) for key in ("mean", "low", "high")), f".{places}f")

    measures = (("success_rate", 3), ("return", 0))
    head = [f"`{task}`: {metric}" for task in tasks for metric, _ in measures]
    body = [
        (f"`{policy}`", *(cell(task, policy, *measure) for task in tasks for measure in measures))
        for policy in policies
    ]
    return rows_table(["Policy", *head], body)


def pages() -> dict[Path, dict[str, str]]:
    """Return the content of every generated part as {file: {name: text}}."""
    tables = {"environments": environments(), "policies": policies(), "protocols": protocols()}
    contents = {ROOT / "README.md": tables}
    for env_id in coopbench_envs.ids():
        contents[ROOT / "docs" / "environments" / page_name(env_id)] = {
            "": facts(env_id),
            "certificate": certificate(env_id),
        }
    contents[ROOT / "docs" / "protocol-tables.md"] = {"": listing()}
    parts = {"learners": trainers(), "hyperparameters": hyperparameters()}
    contents[ROOT / "docs" / "training.md"] = parts
    names = ("routing-easy", "routing-hard", "routing-standard")
    tables = {name.partition("-")[2]: reference(name) for name in names}
    contents[ROOT / "docs" / "results.md"] = tables | learners_results()
    contents[ROOT / "docs" / "reports.md"] = {"parts": report_parts()}
    structure = ROOT / "tests" / "structure.py"
    if structure.is_file():
        contents[ROOT / "docs" / "architecture.md"] = {"rooms": rooms(structure)}
    return contents


def report_parts() -> str:
    """Table of the parts of a report and how their rows are made."""
    rows = []
    for name, make in MAKERS.items():
        text = (make.__doc__ or "").partition("\n")[0].replace("``", "`")
        rows.append((f"`{name}.csv`", f"`{row_types()[name].__name__}`", text))
    return rows_table(["File", "Rows", "How they are made"], rows)


def rooms(structure: Path) -> str:
    """Modules and folders of all packages by layer, from the table of the test."""
    sys.path.insert(0, str(structure.parent))
    return f"```text\n{importlib.import_module(structure.stem).picture()}\n```"


def filled(text: str, parts: dict[str, str]) -> str:
    """Return ``text`` with its generated parts replaced."""
    return _PART.sub(lambda m: f"{m[1]}{parts[m[2]]}\n{m[3]}", text)


def main() -> int:
    """Write the pages, or with ``--check`` name those that are out of date."""
    stale = []
    for file, parts in pages().items():
        old = file.read_text(encoding="utf-8")
        new = filled(old, parts)
        if new != old:
            stale.append(str(file.relative_to(ROOT)))
            if "--check" not in sys.argv:
                file.write_text(new, encoding="utf-8")
    if stale and "--check" in sys.argv:
        print(f"Out of date, run 'make docs': {', '.join(stale)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
