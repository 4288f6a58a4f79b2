"""Commands before a study: its cells, what runs can show, and its registration."""

from pathlib import Path
from typing import Annotated, Any

import typer

from coopbench.cli.console import console, say
from coopbench.cli.options import Only, Policies, ProtocolName, chosen

RUNS = (3, 5, 10, 20, 30)

plan = typer.Typer(
    help="Plan a study: list its cells, estimate its power, or register it.",
    no_args_is_help=True,
)


@plan.command("cells")
def cells(protocol: ProtocolName, policy: Policies = None, only: Only = False) -> None:
    """List the cells (task x policy) that 'evaluate' would play, without playing them."""
    from coopbench.protocol.loading import load_protocol
    from coopbench.workflows.evaluation import planned

    loaded = load_protocol(protocol)
    policies = _contestants(policy, loaded, only)
    to_play, _ = planned(loaded, policies, reference=not only)
    for cell, _ in to_play:
        policy_text = cell.policy if cell.run is None else f"{cell.policy} / run {cell.run}"
        episodes = loaded.episodes(loaded.task_of(cell.task))
        say(f"{cell.task:<24}{policy_text:<20}{episodes:>6} episodes")
    say(f"{len(to_play)} cell{'' if len(to_play) == 1 else 's'}; digest {loaded.digest[:16]}")


def _contestants(policy: list[str] | None, protocol: Any, only: bool) -> list[Any]:
    """Return the policies of 'evaluate': those of -p and, unless they play alone, baselines."""
    from coopbench.playing.contestants import with_baselines

    policies = chosen(policy, protocol)
    return policies if only else with_baselines(protocol, policies)


@plan.command("power")
def power(
    protocol: ProtocolName,
    runs: Annotated[
        list[int] | None,
        typer.Option(
            min=3,
            metavar="N",
            help="Number of training runs; repeat for more. Default: 3, 5, 10, 20, 30 and the "
            "protocol's.",
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="Results folder of a pilot study, from which variances are estimated."),
    ] = None,
    run_sd: Annotated[
        float,
        typer.Option(min=0, help="Without --results: standard deviation of run means, as scores."),
    ] = 0.05,
    episode_sd: Annotated[
        float,
        typer.Option(
            min=0,
            help="Without --results, or with those of one policy alone: standard deviation over "
            "episodes of the difference between two policies, as scores.",
        ),
    ] = 0.2,
    chance: Annotated[
        float, typer.Option("--power", help="Probability of detecting a difference.")
    ] = 0.8,
    tasks: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of tasks that are tested together; a task is tested at the level of the "
            "first step of Holm's method. Default: that of the largest group; 1: a single "
            "decision.",
        ),
    ] = None,
) -> None:
    """Estimate which differences a number of runs can detect."""
    from coopbench.analysis.planning import Variation, family_size, prospects, variation
    from coopbench.protocol.loading import load_protocol
    from coopbench.report.loading import load_report
    from coopbench.report.tables.comparisons import power_table
    from coopbench.report.terminal import print_table

    loaded = load_protocol(protocol)
    spread: Variation | None = Variation(run_sd, episode_sd)
    if results is not None:
        report = load_report(results)
        if report.protocol.digest != loaded.digest:
            raise ValueError(f"{results} holds results of another protocol than {loaded.name}")
        spread = variation(loaded, report.episodes, episode_sd)
    if spread is None:
        raise ValueError(
            f"{results} holds no policy with two training runs or more; give --run-sd instead"
        )
    trained = (loaded.training.runs,) if loaded.training is not None else ()
    counts = sorted({*(runs or (*RUNS, *trained))})
    family = family_size(loaded) if tasks is None else tasks
    rows = prospects(loaded, spread, counts, chance, family)
    print_table(power_table(loaded, spread, rows, chance, family), console())


@plan.command("register")
def register(
    protocol: ProtocolName,
    out: Annotated[
        Path, typer.Option(help="Results folder of the study; the file is registration.json in it.")
    ],
    policy: Policies = None,
    only: Only = False,
    hypothesis: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="'FIRST > SECOND on PLACE', a task or a group, or 'FIRST = SECOND on TASK'; "
            "repeat for more.",
        ),
    ] = None,
) -> None:
    """Register a study before it is evaluated; its report checks itself against the file.

    Its contestants are those of 'evaluate': required baselines, too, unless --only is given.
    """
    from coopbench.baselines.registry import from_code
    from coopbench.playing.contestants import name_of
    from coopbench.protocol.loading import load_protocol
    from coopbench.protocol.registration import now, registration, write_registration

    loaded = load_protocol(protocol)
    names = [name_of(from_code(name)) for name in _contestants(policy, loaded, only)]
    study = registration(loaded, names, hypothesis or (), now())
    say(f"Registered: {write_registration(out, study)}")
