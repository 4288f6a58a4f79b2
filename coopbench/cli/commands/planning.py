"""Commands before a study: what runs can show, and its registration."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from coopbench.cli.console import console, say
from coopbench.cli.options import (
    Only,
    Policies,
    ProtocolName,
    check_alone,
    contestants,
    option,
    to_folder,
)

EFFECTS = (0.1, 0.2, 0.3, 0.4, 0.5)  # true differences of which the power is simulated
EPISODE_SD = 0.2  # of differences from episode to episode, where no results show it
_PAIRS = {"from_script": "from a script", "between": "between learners"}  # of these differences

plan = typer.Typer(
    help="Plan a study: estimate its power, or register it.",
    no_args_is_help=True,
)


@plan.command("power")
def power(
    protocol: ProtocolName,
    runs: list[int] | None = option(
        "Number of training runs; repeat for more. Default: the protocol's, or 10.",
        min=3,
        metavar="N",
    ),
    effect: list[float] | None = option(
        "True difference, in normalized score, >= 0; repeat for more. With 0 every decision is a "
        "false one. Default: 0.1 to 0.5.",
        metavar="D",
    ),
    group: list[str] | None = option("Group of tasks; repeat for more. Default: all."),
    level: float = option(
        "Normalized score of the better one of the two, in runs that do not fail.", default=0.9
    ),
    failing: float = option(
        "Share of runs that fail, with the floor of the task as score.", default=0.0, min=0
    ),
    results: Path | None = option(
        "Results folder of a pilot study, which shows the spreads.", metavar="FOLDER"
    ),
    sd: str | None = option(
        "Standard deviations in normalized score: of run means, and over episodes of the "
        "difference between two policies; 0.1, is of runs alone. Default: those of stored results, "
        "task by task; 0.2 over episodes where none shows it.",
        metavar="RUNS,EPISODES",
    ),
    by_task: bool = option("Print every task instead of the groups.", "--by-task", default=False),
) -> None:
    """Simulate reports: how often do they decide a difference?"""
    from coopbench.analysis.planning import LEARNER, SCRIPT, Plan, prospect
    from coopbench.protocol.loading import load_protocol
    from coopbench.report.tables.power import power_table, task_power_table
    from coopbench.report.terminal import print_table
    from coopbench_envs.parameters import named

    loaded = load_protocol(protocol)
    groups = group or list(loaded.groups)
    for name in groups:
        named("group", name, dict.fromkeys(loaded.groups))
    tasks = [task.id for name in groups for task in loaded.groups[name]]
    spreads, source = _spreads(loaded, tasks, results, *_deviations(sd))
    own = loaded.training.runs if loaded.training is not None else 10
    rows = [
        prospect(loaded, name, spreads, Plan(count, size, rival, level, failing))
        for name in dict.fromkeys(groups)
        for count in dict.fromkeys(runs or [own])
        for size in dict.fromkeys(effect or EFFECTS)
        for rival in (SCRIPT, LEARNER)
    ]
    if failing:
        source += (
            f" Of every learner {failing:.0%} of the runs fail, with the floor of the task; the "
            "effect is of means over all runs."
        )
    table = task_power_table if by_task else power_table
    print_table(table(loaded, rows, source), console())


def _deviations(text: str | None) -> tuple[float | None, float | None]:
    """Parse RUNS,EPISODES; either may be left out."""
    runs, _, episodes = (text or "").partition(",")
    try:
        given = [float(part) if part.strip() else None for part in (runs, episodes)]
        if all(value is None or 0 <= value < math.inf for value in given):
            return given[0], given[1]
    except ValueError:
        pass
    raise ValueError(
        f"--sd takes RUNS,EPISODES, numbers >= 0, for instance 0.1,0.2; given {text!r}."
    )


def _spreads(
    protocol: Any,
    tasks: Sequence[str],
    results: Path | None,
    run_sd: float | None,
    episode_sd: float | None,
) -> tuple[dict[str, Any], str]:
    """Return the variation on those of the ``tasks`` where it is known, and where it is from."""
    from coopbench.analysis.planning import Variation

    known, origin = _stored_spreads(protocol, results)
    sd, found = EPISODE_SD if episode_sd is None else episode_sd, dict[str, Any]()
    for task in tasks:
        if task in known or run_sd is not None:
            one = known.get(task, Variation(math.nan, sd, sd, tuple(_PAIRS)))
            sds = (one.from_script, one.between) if episode_sd is None else (sd, sd)
            assumed = one.assumed if episode_sd is None else ()
            of_runs = one.runs if run_sd is None else run_sd
            found[task] = Variation(of_runs, sds[0], sds[1], assumed)
    return found, _source(found, origin, run_sd, episode_sd)


def _source(
    found: Mapping[str, Any], origin: str, run_sd: float | None, episode_sd: float | None
) -> str:
    """Say which spreads are given, which are those of the ``origin``, and which are assumed."""
    of_runs, of_episodes = "for run means", "for differences from episode to episode"
    given = ((run_sd, of_runs), (episode_sd, of_episodes))
    texts = [f"{value:g} {what}" for value, what in given if value is not None]
    source = [f"Given standard deviations: {', '.join(texts)}."] if texts else []
    lacking = [one.assumed for one in found.values()]
    shown = ["runs"] if run_sd is None else []
    if episode_sd is None and any(assumed != tuple(_PAIRS) for assumed in lacking):
        shown.append("episodes")
    if found and shown:
        what = "Others" if texts else f"Spreads of {' and '.join(shown)}"
        source.append(f"{what} are those of {origin}.")
    kinds = [text for name, text in _PAIRS.items() if any(name in some for some in lacking)]
    if kinds:
        which = f" {kinds[0]}" if len(kinds) == 1 else ""
        source.append(f"Where no results show one it is {EPISODE_SD:g} {of_episodes}{which}.")
    return " ".join(source)


def _stored_spreads(protocol: Any, results: Path | None) -> tuple[dict[str, Any], str]:
    """Return the variation, by task, of a pilot or of stored results, and what they are called."""
    from coopbench.analysis.planning import shipped_variation, variation
    from coopbench.report.loading import load_report

    if results is None:
        return shipped_variation(protocol), "stored reference results"
    report = load_report(results)
    if report.protocol.digest != protocol.digest:
        raise ValueError(f"{results} holds results of another protocol than {protocol.name}")
    return variation(protocol, report.episodes, EPISODE_SD), str(results)


@plan.command("register")
def register(
    protocol: ProtocolName,
    out: Path = option(
        "Results folder of the study; the file is registration.json in it.",
        default=...,
        metavar="FOLDER",
        callback=to_folder,
    ),
    policy: Policies = None,
    only: Only = False,
    hypothesis: list[str] | None = option(
        "'FIRST > SECOND on PLACE', a task or a group, or 'FIRST = SECOND on TASK'; repeat for "
        "more.",
        metavar="TEXT",
    ),
) -> None:
    """Register a study before it is evaluated; its report checks itself against the file.

    Its contestants are those of 'evaluate': required baselines, too, unless --only is given. -p
    LEARNER is what that learner trains later.
    """
    from coopbench.protocol.loading import load_protocol
    from coopbench.protocol.registration import registration, write_registration
    from coopbench.provenance import now
    from coopbench.workflows.evaluation import contestants as named

    check_alone(policy, only)
    loaded = load_protocol(protocol)
    names = named(loaded, contestants(policy, loaded, only))
    study = registration(loaded, names, hypothesis or (), now())
    say(f"Registered: {write_registration(out, study)}")
