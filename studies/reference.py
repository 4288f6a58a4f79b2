"""Reference results: tables of scripts and learners for every protocol, and the runs behind them.

    python -m studies.reference [NAME ...]      play what is missing, and write the tables
    python -m studies.reference --check         rebuild the tables and compare them with the stored
    python -m studies.reference --plan          list the trainings, what is missing, and the hours
    python -m studies.reference --work MINUTES  train what is missing, in the order of the list

Episodes and unfinished trainings go to ``results/reference``; each command resumes what was
interrupted. A learner whose runs are complete is packed into one file: below ``baselines/trained``
if the protocol requires it at this budget, which ships with the package, else below
``benchmarks/results/runs``. Tables are made from these files, so that nobody has to train again to
rebuild them; they lie in ``benchmarks/results/tables``. Runs of a learner that still lacks others
are packed below ``benchmarks/results/unfinished``, from where ``--work`` goes on.
"""

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

import coopbench
from coopbench.baselines.registry import learners
from coopbench.episodes.table import Cell
from coopbench.playing.runner import Event
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.schema import Protocol
from coopbench.report.loading import load_report
from coopbench.results.folder import stored_cells
from coopbench.results.packed_runs import SUFFIX, pack_runs, read_runs, shipped_file
from coopbench.results.packed_scores import pack_scores
from coopbench.workflows.training_plan import budget_of
from coopbench.workflows.training_run import cell_of
from studies.exploit import exploit

ROOT = Path(__file__).resolve().parent.parent
OWN = Path(__file__).resolve().parent / "protocols"  # protocols of studies
EPISODES = ROOT / "results" / "reference"
RUNS, TABLES = (ROOT / "benchmarks" / "results" / name for name in ("runs", "tables"))
UNFINISHED = ROOT / "benchmarks" / "results" / "unfinished"
SHIPPED = ROOT / "baselines" / "trained"
EXPLOITS = "exploits-"  # what files of exploiters begin with
MINUTE = 60.0  # seconds

PLANNERS = ("random", "greedy", "potential_field", "orca", "astar_pibt", "prioritised_rrt_star")
BATTLERS = (
    *("random", "attack_nearest", "smac_heuristic", "smac_heuristic_free", "focus_fire", "kite"),
)
DISPATCHERS = (
    *("random", "never_depart", "forward", "shortest_path", "deadlock_avoidance", "one_by_one"),
    *("prioritised", "prioritised_replan"),
)
PUBLISHED = ("random", "constant:0.35", "constant:0.5", "constant:0.75", "tit_for_tat")
REACTIVE = (
    *("random", "always_defect", "best_constant", "best_script", "open_loop", "tit_for_tat"),
    *("generous_tit_for_tat", "suspicious_tit_for_tat", "grim_trigger", "win_stay_lose_shift"),
    *("trust_threshold", "cooperator", "matcher", "reciprocator", "unforgiving", "bully"),
)
TEAMS = (
    *("random", "always_defect", "cooperator", "reciprocator", "best_script", "greedy"),
    *("potential_field", "astar_pibt", "attack_nearest", "smac_heuristic", "focus_fire", "kite"),
)
# Policies that are not trained, by protocol: a name, or a file of ``protocols``.
FIXED: dict[str, tuple[str, ...]] = {
    "routing-easy": PLANNERS,
    "routing-medium": PLANNERS[:-1],
    "routing-hard": PLANNERS,
    "routing-standard": PLANNERS[:-1],
    "routing-learned": PLANNERS,
    "coopetition-published": PUBLISHED,
    "marl-standard": TEAMS,
    "skirmish-small": BATTLERS,
    "skirmish-published": BATTLERS,
    "skirmish-standard": (*BATTLERS, "open_loop"),
    "rail-standard": DISPATCHERS,
    "rail-scaling": DISPATCHERS,
    "rail-published-1": DISPATCHERS,
    "rail-published-2": DISPATCHERS,
    "rail-challenge-2020-1": DISPATCHERS,
    "rail-challenge-2020-2": DISPATCHERS,
    "coopetition-standard": REACTIVE,
}
# Protocols whose runs ship with scores, so that a report need not play them.
SCORED = ("coopetition-standard",)
PROFILES = "profiles-runs"  # what pictures of profiles of learners begin with; pages show all
# Further pictures of reports that pages show, by protocol; other charts are drawn from the tables.
SHOWN: dict[str, tuple[str, ...]] = {
    "routing-hard": tuple(
        f"chart-{metric}-by-agents"
        for metric in ("success_rate", "coordination", "flowtime", "makespan")
    ),
    "routing-learned": ("learning-random_grid_a8_o0",),
}
# Tables that pages and studies read; a report written anew has the others.
KEPT = (
    *("estimates", "aggregates", "comparisons", "efficiency", "ranks", "learning", "improvements"),
    "final_medians",
)


class Training(NamedTuple):
    """Training runs of a learner under a protocol."""

    protocol: str
    learner: str
    runs: int  # the first training seeds of the protocol
    hours: float  # of one core for all runs, by the speeds of earlier ones
    share: float = 1.0  # of the protocol's budget


class Work(NamedTuple):
    """Work with learners that trains no run of a protocol."""

    name: str
    hours: float  # of one core


STANDARDS = "standards"  # protocols of this package whose tables are complete
PUBLICATIONS = "publications, and protocols for questions of their own"
LIMITS = {  # of hours of one core, by kind
    STANDARDS: "at most 56",
    PUBLICATIONS: "at most 15 to go",
    "further work": "at most 12",
}
FURTHER = (
    Work("trials of hyperparameters", 4),
    Work("experiments on one question each", 4),
    Work("trained partners", 4),
)

# In the order of the work: each is complete before the next begins. Hours are those of a core that
# does nothing else, from the rates that docs/protocol-designs.md states.
TRAININGS = (
    Training("coopetition-standard", "ippo_recurrent", 10, 6.0),
    Training("coopetition-standard", "ippo", 10, 4.3),
    Training("coopetition-standard", "mappo_shared", 10, 4.8),
    Training("skirmish-standard", "qmix_shared", 5, 3.9),
    Training("skirmish-standard", "mappo_shared", 5, 1.3),
    Training("rail-standard", "ippo_shared", 5, 0.8),
    Training("rail-standard", "iql_shared", 5, 2.4),
    Training("routing-standard", "ippo_shared", 5, 1.2),
    Training("routing-standard", "iql_shared", 5, 1.5),
    Training("marl-standard", "qmix_shared", 10, 8.2),
    Training("marl-standard", "mappo_shared", 10, 2.3),
    Training("marl-standard", "ippo_shared", 10, 1.8),
    Training("coopetition-published", "ippo", 5, 5),
    Training("coopetition-published", "isac", 3, 0.6, 0.1),
    Training("skirmish-small", "qmix_shared", 5, 2),
    Training("skirmish-published", "qmix_shared", 3, 3.5, 0.05),
    Training("skirmish-order", "qmix_shared", 3, 1.8),
    Training("skirmish-order", "vdn_shared", 3, 1.6),
    Training("skirmish-order", "iql_shared", 3, 1.6),
    Training("routing-easy", "ippo_shared", 3, 2, 0.02),
    Training("routing-medium", "ippo_shared", 1, 1.3, 0.02),
    Training("routing-hard", "ippo_shared", 3, 0.7, 0.05),
    Training("rail-scaling", "ippo_shared", 3, 0.6, 0.1),
)


def tell(cell: Cell, _: float, what: Event) -> None:
    """Print which cell is finished."""
    if what == "done":
        print(f"{cell.task} {cell.policy} {'' if cell.run is None else cell.run}", flush=True)


def source(name: str) -> str:
    """Return the argument for ``coopbench.evaluate`` that names a protocol."""
    own = OWN / f"{name}.toml"
    return str(own) if own.is_file() else name


# --- trainings ------------------------------------------------------------------------------------


def packed(name: str, learner: str) -> Path:
    """Return the file of the runs of a learner: of all that ship, of all, or of those so far."""
    file = f"{learner}{SUFFIX}"
    places = shipped_file(name, learner), RUNS / name / file, UNFINISHED / name / file
    return next((place for place in places if place.is_file()), places[-1])


def packed_files() -> dict[str, list[Path]]:
    """Return the files of all packed runs, those that ship and the others, by protocol."""
    files: dict[str, list[Path]] = {}
    every = [file for place in (RUNS, SHIPPED) for file in place.glob(f"*/*{SUFFIX}")]
    for file in sorted(every, key=lambda file: (file.parent.name, file.name)):
        files.setdefault(file.parent.name, []).append(file)
    return files


def kind_of(name: str) -> str:
    """Return which limit of hours holds for a protocol."""
    return STANDARDS if name.endswith("-standard") else PUBLICATIONS


def steps_of(training: Training, protocol: Protocol) -> int | None:
    """Return the steps of runs of a share of the budget, in whole intervals; None for all of it.

    One number is never the whole budget where tasks have budgets of their own; a share of such a
    protocol raises ``ValueError``.
    """
    if training.share == 1.0:
        return None
    if any(task.budget is not None for task in protocol.training_tasks):
        raise ValueError(
            f"{training.protocol} has tasks with budgets of their own, and {training.learner} "
            f"takes {training.share:g} of one; train it at the whole budget."
        )
    budget = budget_of(protocol, learners()[training.learner])
    return max(round(budget.steps * training.share / budget.interval), 1) * budget.interval


def missing(training: Training, protocol: Protocol) -> Iterator[tuple[int, str]]:
    """Yield the seeds and tasks of runs that are neither packed nor finished."""
    file = packed(training.protocol, training.learner)
    kept = read_runs(file, protocol).trained if file.is_file() else {}
    for seed in protocol.seeds.training[: training.runs]:
        for task in protocol.training_tasks:
            played = protocol.played_by(task.id)[0]
            cell = cell_of(protocol, training.learner, task.id, seed)
            meta = EPISODES / training.protocol / replace(cell, task=played.id).folder / "meta.json"
            if seed not in kept and seed not in kept.get(task.id, ()) and not meta.is_file():
                yield seed, task.id


def plan() -> None:
    """Print every training with the hours of one core that it takes, and their sums and limits."""
    sums: dict[str, dict[str, np.ndarray]] = {kind: {} for kind in LIMITS}
    for training in TRAININGS:
        protocol = load_protocol(source(training.protocol))
        lacking, learner = len(list(missing(training, protocol))), learners()[training.learner]
        steps, tasks = steps_of(training, protocol), protocol.training_tasks
        budgets = [budget_of(protocol, learner, steps, task=task).steps for task in tasks]
        total = training.runs * len(tasks)
        hours = np.array([training.hours, training.hours * lacking / total])
        of_kind = sums[kind_of(training.protocol)]
        of_kind[training.protocol] = of_kind.get(training.protocol, 0.0) + hours
        print(
            f"{training.protocol} {training.learner}: {total - lacking} of {total} runs, of "
            f"{training.runs * sum(budgets):,} steps together ({training.share:g} of the budget); "
            f"{text_of(hours)}"
        )
    sums["further work"] = {work.name: np.array([work.hours] * 2) for work in FURTHER}
    for kind, of_kind in sums.items():
        print(f"\n{kind}")
        for name, hours in of_kind.items():
            print(f"  {name}: {text_of(hours)}")
        print(f"  together: {text_of(sum(of_kind.values()))}; {LIMITS[kind]}")
    print(f"\nall: {text_of(sum(sum(of_kind.values()) for of_kind in sums.values()))}")


def text_of(hours: np.ndarray) -> str:
    """Return hours of one core, all and those to go, as text."""
    return f"{hours[0]:.1f} hours, {hours[1]:.1f} to go"


def work(minutes: float) -> None:
    """Train missing runs in the order of the list; no seed begins after so many minutes."""
    end = time.monotonic() + MINUTE * minutes
    for training in TRAININGS:
        protocol = load_protocol(source(training.protocol))
        lacking = list(missing(training, protocol))
        for seed in dict.fromkeys(seed for seed, _ in lacking):
            if time.monotonic() > end:
                keep(training, protocol)
                return
            coopbench.train(
                source(training.protocol),
                training.learner,
                EPISODES / training.protocol,
                seeds=[seed],
                steps=steps_of(training, protocol),
                backend="processes",
                progress=tell,
            )
        if lacking:
            keep(training, protocol)


def keep(training: Training, protocol: Protocol) -> None:
    """Pack the seeds of a learner that have trained on all tasks, if there are new ones.

    The file has the seeds that were packed before, too. It ships where the protocol requires the
    learner and no run of it is missing, with scores of its runs if the protocol is ``SCORED``; it
    is unfinished where runs are missing.
    """
    name, learner = training.protocol, training.learner
    kept, file = UNFINISHED / name / f"{learner}{SUFFIX}", packed(name, learner)
    kept.parent.mkdir(parents=True, exist_ok=True)
    earlier = read_runs(file, protocol) if file.is_file() else None
    try:
        pack_runs(EPISODES / name, learner, kept, earlier=earlier)
    except (ValueError, FileNotFoundError) as error:  # nothing has been trained since
        print(error, flush=True)
        return
    if not list(missing(training, protocol)):
        required = learner in protocol.report.learned and training.share == 1.0
        whole = protocol.training is not None and training.runs >= protocol.training.runs
        place = shipped_file(name, learner) if required and whole else RUNS / name / kept.name
        place.parent.mkdir(parents=True, exist_ok=True)
        kept = kept.replace(place)
        if place.parent.parent == SHIPPED and name in SCORED:
            models, folder = [f"{learner}:{place}"], EPISODES / name
            coopbench.evaluate(source(name), models, folder, "processes", tell, only=True)
            pairs = stored_cells(EPISODES / name, protocol, [])
            pack_scores(protocol, [pair for pair in pairs if pair[0].policy == learner], place)
    print(f"{kept.relative_to(ROOT)}: {kept.stat().st_size / 1e6:.2f} MB", flush=True)


def exploited(name: str, learner: str, steps: int) -> None:
    """Train exploiters of all runs of a learner and store their table."""
    folder = EPISODES / f"{name}-exploit-{learner}"
    result = exploit(EPISODES / name, learner, folder, steps=steps)
    for file in result.save(folder).values():
        path = TABLES / name / f"{EXPLOITS}{learner}{file.suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.read_text(encoding="utf-8"), encoding="utf-8")


# --- tables ---------------------------------------------------------------------------------------


def play(name: str) -> None:
    """Play fixed policies and packed runs of learners, as far as results are missing."""
    kept = packed_files().get(name, [])
    models = [f"{file.name.removesuffix(SUFFIX)}:{file}" for file in kept]
    policies, folder = [*FIXED[name], *models], EPISODES / name
    coopbench.evaluate(source(name), policies, folder, "processes", tell)


def tables(name: str) -> dict[str, str]:
    """Return the tables and pictures of a protocol, {path: content}."""
    report = load_report(EPISODES / name, coopbench.load_protocol(source(name)).report.fixed)
    files: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as place:
        for file in report.save(place).values():
            drawn = file.stem.startswith(PROFILES) or file.stem in SHOWN.get(name, ())
            kept = {".svg": drawn, ".csv": file.stem in KEPT}
            if not kept.get(file.suffix, False):
                continue
            text = file.read_text(encoding="utf-8")
            if text.count("\n") > 1:  # more than the names of the columns
                files[str(file.relative_to(place))] = text
    return files


def write_tables(name: str) -> None:
    """Store the tables and pictures of a protocol in place of earlier ones."""
    made = tables(name)
    for old in (TABLES / name).rglob("*.*"):
        if not old.name.startswith(EXPLOITS):
            old.unlink()
    for file, content in made.items():
        path = TABLES / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def differing(name: str) -> list[str]:
    """Return the stored tables of a protocol that its episodes give otherwise, or not at all."""
    made = {file: text for file, text in tables(name).items() if file.endswith(".csv")}
    folder = TABLES / name
    kept = {
        str(file.relative_to(folder)): file.read_text(encoding="utf-8")
        for file in folder.rglob("*.csv")
        if not file.name.startswith(EXPLOITS)
    }
    return sorted(file for file in {**made, **kept} if made.get(file) != kept.get(file))


def rows(name: str, table: str) -> list[dict[str, str]]:
    """Return the rows of a stored table of a protocol."""
    with (TABLES / name / f"{table}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def parsed() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="protocols; default: all", metavar="NAME")
    parser.add_argument("--check", action="store_true", help="compare stored tables, play nothing")
    parser.add_argument("--plan", action="store_true", help="list the trainings")
    parser.add_argument("--work", type=float, metavar="MINUTES", help="train what is missing")
    parser.add_argument("--exploit", metavar="LEARNER", help="train exploiters of its runs")
    parser.add_argument("--exploit-steps", type=int, default=400_000, help="of each exploiter")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in FIXED:
            sys.exit(f"There is no reference {name!r}; there are {', '.join(FIXED)}.")
    return arguments


def main() -> None:
    """Do what the command line asks."""
    arguments = parsed()
    if arguments.plan:
        plan()
    elif arguments.work is not None:
        work(arguments.work)
    rest = () if arguments.plan or arguments.work is not None else FIXED
    for name in arguments.names or rest:
        if arguments.check:
            print(f"{name}: {', '.join(differing(name)) or 'as kept'}")
        elif arguments.exploit:
            exploited(name, arguments.exploit, arguments.exploit_steps)
        else:
            play(name)
            write_tables(name)


if __name__ == "__main__":
    main()
