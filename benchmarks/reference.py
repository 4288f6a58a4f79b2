"""Reference results: play and train the policies of the package, and store the results.

Run ``python benchmarks/reference.py [NAME ...]``. Runs and episodes go to ``results/reference``, so
that an interrupted run can be resumed; tables and charts to ``baselines/results``. With ``--check``
nothing is played: the tables are rebuilt from the stored episodes and compared with the stored
tables. With ``--fixed`` learners are not trained, which takes hours; the tables then hold what the
folder of episodes holds.

Policies that are not trained play the same episodes in routing-medium as in routing-easy. The
learner that coopetition-published requires is not trained: 115 million agent steps with its
networks and batches take a core for hours.
"""

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import coopbench
from coopbench.report.loading import load_report
from coopbench.report.markdown import as_markdown
from coopbench.report.plots.pictures import pictures

ROOT = Path(__file__).resolve().parent.parent
EPISODES, TABLES = ROOT / "results" / "reference", ROOT / "baselines" / "results"
PLANNERS = ("random", "greedy", "potential_field", "orca", "astar_pibt", "prioritised_rrt_star")
PUBLISHED = ("random", "constant:0.35", "constant:0.5", "constant:0.75", "tit_for_tat")
REACTIVE = (
    "random",
    "always_defect",
    "best_constant",
    "open_loop",
    "tit_for_tat",
    "generous_tit_for_tat",
    "suspicious_tit_for_tat",
    "grim_trigger",
    "win_stay_lose_shift",
    "trust_threshold",
    "cooperator",
    "matcher",
    "reciprocator",
    "unforgiving",
    "bully",
)
LEARNERS = ("ippo", "ippo_shared", "isac")


class Reference(NamedTuple):
    """What is played under a protocol."""

    protocol: str  # a name, or a file beside this one
    fixed: tuple[str, ...]
    learners: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Return the argument for ``coopbench.evaluate``."""
        own = Path(__file__).parent / self.protocol
        return str(own) if own.is_file() else self.protocol


REFERENCES = {
    "routing-easy": Reference("routing-easy", PLANNERS),
    "routing-medium": Reference("routing-medium", PLANNERS),
    "routing-hard": Reference("routing-hard", PLANNERS),
    "routing-standard": Reference("routing-standard", PLANNERS[:-1]),
    "routing-learned": Reference("routing-learned.toml", PLANNERS, ("ippo_shared", "ippo")),
    "coopetition-published": Reference("coopetition-published", PUBLISHED),
    "coopetition-standard": Reference("coopetition-standard", REACTIVE, LEARNERS),
    "coopetition-team": Reference("coopetition-team", REACTIVE[:1], LEARNERS),
}
KEPT = ("estimates.csv", "aggregates.csv", "comparisons.csv", "charts.csv", "published.csv")
KEPT_OF_RUNS = ("learning.csv", "efficiency.csv", "improvements.csv", "ranks.csv")


def play(name, learners=True):
    """Play and, with ``learners``, train what is missing, on all usable cores."""
    reference, out = REFERENCES[name], EPISODES / name

    def tell(cell, done, what):
        if what == "done":
            print(f"{cell.task} {cell.policy} {'' if cell.run is None else cell.run}", flush=True)

    how = {"backend": "processes", "progress": tell}
    coopbench.evaluate(reference.source, list(reference.fixed), out=out, **how)
    for learner in reference.learners if learners else ():
        coopbench.train(reference.source, learner, out, **how)


def tables(name):
    """Return the tables and charts of a protocol as {path: content}."""
    report = load_report(EPISODES / name)
    learned = bool(REFERENCES[name].learners)
    drawn = pictures(report) if learned or report.protocol.report.chart else []
    charts = [picture for picture in drawn if picture.kind == "chart"]
    kept = KEPT
    if learned:  # the whole report would take up megabytes
        charts = [p for p in drawn if p.name.startswith(("efficiency-", "learning-"))]
        kept += KEPT_OF_RUNS
    files = {f"plots/{chart.name}.svg": chart.svg for chart in charts}
    if not learned:
        files["report.md"] = as_markdown(report, charts)
    with tempfile.TemporaryDirectory() as place:
        for file in report.save(place).values():
            text = file.read_text(encoding="utf-8") if file.name in kept else ""
            if text.count("\n") > 1:  # more than the names of the columns
                files[file.name] = text
    return files


def main():
    names = [name for name in sys.argv[1:] if not name.startswith("--")] or list(REFERENCES)
    for name in names:
        if name not in REFERENCES:
            sys.exit(f"There is no reference {name!r}; there are {', '.join(REFERENCES)}.")
        if "--check" in sys.argv:
            other = [
                file
                for file, content in tables(name).items()
                if file.endswith(".csv") and (TABLES / name / file).read_text("utf-8") != content
            ]
            print(f"{name}: {', '.join(other) or 'as kept'}")
            continue
        play(name, learners="--fixed" not in sys.argv)
        for file, content in tables(name).items():
            path = TABLES / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
