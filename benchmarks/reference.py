"""Reference results: play and train the policies of the package, and store the results.

Run ``python benchmarks/reference.py [NAME ...]``. Runs and episodes go to ``results/reference``, so
that an interrupted run can be resumed; tables and charts to ``baselines/results``. With ``--check``
nothing is played: the tables are rebuilt from the stored episodes and compared with the stored
tables. With ``--fixed`` learners are not trained, which takes hours; the tables then hold what the
folder of episodes holds.

Naming one of the two coopetition protocols trains both tracks, learner by learner and seed by seed,
and then exploiters of all runs. It can be stopped at any moment, is resumed by the same command,
and can be limited:

    python benchmarks/reference.py coopetition-standard --learner ippo --runs 2 --steps 1000000

Policies that are not trained play the same episodes in routing-medium as in routing-easy. The
learners of the published protocols and of marl-standard take a core for hours or days, so that they
are trained only if their protocol is named; a fiftieth of the published budget is

    python benchmarks/reference.py coopetition-published --steps 20000
    python benchmarks/reference.py marl-standard --steps 40000
    python benchmarks/reference.py routing-easy routing-medium --steps 400000
    python benchmarks/reference.py routing-hard routing-standard --steps 400000
    python benchmarks/reference.py skirmish-published --steps 40000

``--keep`` plays nothing: it copies the finished runs of learners to ``benchmarks/results/runs``,
from where every call of this program takes them, so that tables can be verified and rebuilt without
training:

    python benchmarks/reference.py skirmish-small --keep
    coopbench verify benchmarks/results/runs/skirmish-small

``--ship`` plays nothing: it puts the finished runs of the learners that a protocol requires into
the package, for the reports of everybody:

    python benchmarks/reference.py coopetition-standard --ship
"""

import argparse
import shutil
import sys
import tempfile
import time
from itertools import product
from math import inf
from pathlib import Path
from typing import NamedTuple

import coopbench
from coopbench.protocol.loading import load_protocol
from coopbench.report.document import document
from coopbench.report.loading import load_report
from coopbench.report.markdown import as_markdown
from coopbench.report.plots.pictures import chart_pictures
from coopbench.results.manifest import write_manifest
from coopbench.results.protocol_file import read_protocol
from coopbench.results.shipping import ship
from coopbench.workflows.exploit import exploit
from coopbench.workflows.training_run import cell_of

ROOT = Path(__file__).resolve().parent.parent
EPISODES, TABLES = ROOT / "results" / "reference", ROOT / "baselines" / "results"
RUNS = ROOT / "benchmarks" / "results" / "runs"
PLANNERS = ("random", "greedy", "potential_field", "orca", "astar_pibt", "prioritised_rrt_star")
BATTLERS = (
    *("random", "attack_nearest", "smac_heuristic", "smac_heuristic_free", "focus_fire", "kite"),
)
DISPATCHERS = (
    "random",
    "never_depart",
    "forward",
    "shortest_path",
    "deadlock_avoidance",
    "one_by_one",
    "prioritised",
    "prioritised_replan",
)
TEAM_LEARNERS = ("iql", "vdn", "qmix", "qtran", "coma", "mappo", "ippo")
CENTRAL = ("ippo_shared", "mappo_shared", "maddpg_shared")  # without and with central critics
GAME_RULES = ("random", "always_defect", "open_loop", "cooperator", "reciprocator")
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
GAMES = ("coopetition-standard", "coopetition-team")  # both tracks are trained together
LEARNERS = ("ippo", "ippo_shared", "isac")


class Reference(NamedTuple):
    """What is played under a protocol."""

    protocol: str  # a name, or a file beside this one
    fixed: tuple[str, ...]
    learners: tuple[str, ...] = ()
    long: bool = False  # the learners take hours or days: they are trained where it is named

    @property
    def source(self) -> str:
        """Return the argument for ``coopbench.evaluate``."""
        own = Path(__file__).parent / self.protocol
        return str(own) if own.is_file() else self.protocol


REFERENCES = {
    "routing-easy": Reference("routing-easy", PLANNERS, ("ippo_shared",), long=True),
    "routing-medium": Reference("routing-medium", PLANNERS, ("ippo_shared",), long=True),
    "routing-hard": Reference("routing-hard", PLANNERS, ("ippo_shared",), long=True),
    "routing-standard": Reference("routing-standard", PLANNERS[:-1], ("ippo_shared",), long=True),
    "routing-learned": Reference("routing-learned.toml", PLANNERS, (*CENTRAL, "ippo")),
    "games-learned": Reference("games-learned.toml", GAME_RULES, CENTRAL),
    "coopetition-published": Reference("coopetition-published", PUBLISHED, ("ippo",), long=True),
    "marl-standard": Reference("marl-standard", PLANNERS[:1], ("ippo",), long=True),
    "skirmish-small": Reference(
        "skirmish-small", BATTLERS, tuple(f"{name}_shared" for name in TEAM_LEARNERS), long=True
    ),
    "skirmish-small-1000": Reference("skirmish-small-1000.toml", BATTLERS),
    "skirmish-standard-1000": Reference("skirmish-standard-1000.toml", (*BATTLERS, "open_loop")),
    "skirmish-published": Reference(
        "skirmish-published", BATTLERS, ("iql_shared", "vdn_shared", "qmix_shared"), long=True
    ),
    "skirmish-standard": Reference(
        "skirmish-standard", (*BATTLERS, "open_loop"), ("mappo_shared",), long=True
    ),
    "rail-standard": Reference("rail-standard", DISPATCHERS, ("ippo_shared",), long=True),
    "rail-scaling": Reference("rail-scaling", DISPATCHERS, ("ippo_shared",), long=True),
    "coopetition-standard": Reference("coopetition-standard", REACTIVE, LEARNERS),
    "coopetition-team": Reference("coopetition-team", REACTIVE[:1], LEARNERS),
}
KEPT = (
    "estimates.csv",
    "aggregates.csv",
    "comparisons.csv",
    "charts.csv",
    "published.csv",
    "published_aggregates.csv",
    "interquartile.csv",
    "effects.csv",
    "sensitivity.csv",
)
KEPT_OF_RUNS = ("learning.csv", "efficiency.csv", "improvements.csv", "ranks.csv")


def tell(cell, done, what):
    """Print which cell is finished."""
    if what == "done":
        print(f"{cell.task} {cell.policy} {'' if cell.run is None else cell.run}", flush=True)


HOW = {"backend": "processes", "progress": tell}


def copied(source, target):
    """Copy finished runs without what training resumes from; return their number."""
    number = 0
    for meta in sorted(source.glob("*/*/run-*/meta.json")):
        cell = meta.parent
        into = target / cell.relative_to(source)
        if not (into / meta.name).is_file():
            shutil.rmtree(into, ignore_errors=True)
            shutil.copytree(cell, into, ignore=shutil.ignore_patterns("training"))
            number += 1
    if number:
        shutil.copy(source / "protocol.json", target)
    return number


def play(name, limits):
    """Play fixed policies and train learners, as far as it is missing, on all usable cores.

    Learners that take hours are trained only if the protocol is named.
    """
    reference, out = REFERENCES[name], EPISODES / name
    copied(RUNS / name, out)
    if not limits.trained:
        coopbench.evaluate(reference.source, list(reference.fixed), out=out, **HOW)
    if limits.fixed or name in GAMES or (reference.long and name not in limits.names):
        return
    seeds = load_protocol(reference.source).seeds.training
    for learner in reference.learners:
        part = {"tasks": limits.task, "steps": limits.steps, "seeds": seeds[: limits.runs]}
        coopbench.train(reference.source, learner, out, **part, **HOW)


def tables(name):
    """Return the tables and charts of a protocol as {path: content}.

    Shipped runs stand for those of required learners that the folder of episodes lacks.
    """
    report = load_report(EPISODES / name)
    learned = any(block.cell.run is not None for block in report.episodes)
    charts = chart_pictures(report) if report.protocol.report.chart else []
    kept = KEPT
    if learned:  # the whole report would take up megabytes
        charts = [
            p for p in report.document.pictures if p.name.startswith(("efficiency-", "learning-"))
        ]
        kept += KEPT_OF_RUNS
    files = {f"plots/{chart.name}.svg": chart.svg for chart in charts}
    if not learned:
        files["report.md"] = as_markdown(document(report, drawn=False))
    with tempfile.TemporaryDirectory() as place:
        for file in report.save(place).values():
            text = file.read_text(encoding="utf-8") if file.name in kept else ""
            if text.count("\n") > 1:  # more than the names of the columns
                files[file.name] = text
    return files


def write_tables(name):
    """Store the tables and charts of a protocol."""
    files = tables(name)
    if "report.md" not in files:  # one of an earlier call, before learners were trained
        (TABLES / name / "report.md").unlink(missing_ok=True)
    for file, content in files.items():
        path = TABLES / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def coopetition(limits):
    """Train the learners of both coopetition protocols seed by seed, then their exploiters.

    The first seed of all games comes first, so that an early stop leaves a run of each. No stage
    begins once ``limits.minutes`` are over; the next call resumes what was begun.
    """
    end = time.monotonic() + 60.0 * limits.minutes
    learners = limits.learner or LEARNERS
    seeds = load_protocol(GAMES[0]).seeds.training[: limits.runs]
    for learner, seed, name in product(learners, seeds, GAMES):
        if time.monotonic() < end:
            coopbench.train(
                name,
                learner,
                EPISODES / name,
                tasks=limits.task,
                seeds=[seed],
                steps=limits.steps,
                **HOW,
            )
    for learner, name in product(learners, GAMES):
        if time.monotonic() < end and trained(name, learner, limits.task, seeds):
            exploited(name, learner, limits)


def trained(name, learner, tasks, seeds):
    """Return whether all runs of a learner are finished: exploiters need the whole set."""
    protocol = load_protocol(name)
    names = tasks or [task.id for task in protocol.trained_tasks]
    folders = [
        EPISODES / name / cell_of(protocol, learner, t, s).folder for t in names for s in seeds
    ]
    lacking = [folder for folder in folders if not (folder / "meta.json").is_file()]
    if lacking:
        print(f"{name} {learner}: not exploited, {len(lacking)} runs are missing", flush=True)
    return not lacking


def exploited(name, learner, limits):
    """Train exploiters of all runs of a learner and store their table."""
    folder = EPISODES / f"{name}-exploit-{learner}"
    how = {"steps": limits.exploit_steps, "tasks": limits.task}
    result = exploit(EPISODES / name, learner, folder, **how, **HOW)
    for file in result.save(folder).values():
        path = TABLES / name / f"{file.stem}-{learner}{file.suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.read_text(encoding="utf-8"), encoding="utf-8")


def shipped(name, folder):
    """Put the finished runs of required learners into the package; print them and their size."""
    protocol = read_protocol(folder)
    if protocol.digest != load_protocol(name).digest:
        sys.exit(f"{folder} holds results of another protocol than {name}.")
    for learner in protocol.report.learned:
        for policy, seeds in ship(folder, TABLES / name, learner).items():
            print(f"{name} {policy}: runs {', '.join(map(str, seeds))}")
    size = sum(file.stat().st_size for file in TABLES.rglob("runs/**/*") if file.is_file())
    print(f"all reference runs together: {size / 1e6:.2f} MB")


def parsed():
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="protocols; default: all")
    parser.add_argument("--check", action="store_true", help="compare stored tables, play nothing")
    parser.add_argument("--keep", action="store_true", help="put finished runs into the repository")
    parser.add_argument("--ship", action="store_true", help="put finished runs into the package")
    parser.add_argument("--folder", type=Path, help="with --ship: folder of results to ship from")
    parser.add_argument("--fixed", action="store_true", help="play fixed policies, train nothing")
    parser.add_argument("--trained", action="store_true", help="play no fixed policies")
    limits = parser.add_argument_group("limits of the learners")
    limits.add_argument("--learner", action="append", choices=LEARNERS, help="of both tracks")
    limits.add_argument("--task", action="append", help="a trained task")
    limits.add_argument("--runs", type=int, help="training seeds, the first ones; default: all")
    limits.add_argument("--steps", type=int, help="of each run; default: the protocol's")
    limits.add_argument("--exploit-steps", type=int, default=400_000, help="of each exploiter")
    limits.add_argument("--minutes", type=float, default=inf, help="after which no stage begins")
    return parser.parse_args()


def main():
    arguments = parsed()
    names = arguments.names or list(REFERENCES)
    for name in names:
        if name not in REFERENCES:
            sys.exit(f"There is no reference {name!r}; there are {', '.join(REFERENCES)}.")
        if arguments.keep:
            number = copied(EPISODES / name, RUNS / name)
            write_manifest(RUNS / name, read_protocol(RUNS / name))
            print(f"{name}: {number} more runs kept")
            continue
        if arguments.ship:
            shipped(name, arguments.folder or EPISODES / name)
            continue
        if arguments.check:
            other = [
                file
                for file, content in tables(name).items()
                if file.endswith(".csv") and (TABLES / name / file).read_text("utf-8") != content
            ]
            print(f"{name}: {', '.join(other) or 'as kept'}")
            continue
        play(name, arguments)
    if arguments.check or arguments.ship or arguments.keep:
        return
    if not arguments.fixed and set(names) & set(GAMES):
        coopetition(arguments)
    for name in names:
        write_tables(name)


if __name__ == "__main__":
    main()
