"""Commands about what exists: list, show, doctor, warmup."""

from typing import Any

import typer

from coopbench.cli.console import console, interruption, say
from coopbench.cli.options import Environments, argument, environment_parameters, option


def list_all() -> None:
    """List environments, policies, learners and protocols."""
    from coopbench import catalogue

    for title, names in (
        ("Environments", dict.fromkeys(catalogue.environments(), "")),
        ("Policies", catalogue.policies()),
        ("Learners", catalogue.learners()),
        ("Protocols", dict.fromkeys(catalogue.protocol_names(), "")),
    ):
        console().print(f"[bold]{title}[/bold]")
        for name, text in names.items():
            say(f"  {name:<34}{text}".rstrip())


def show(
    name: str = argument("A name from 'coopbench list', a .toml file, or code as FILE.py:NAME."),
    env: Environments = None,
) -> None:
    """Describe an environment, a policy, a learner or a protocol."""
    from coopbench.describe import describe

    text = describe(name)
    terminal = console()
    if terminal.is_terminal:
        from rich.markdown import Markdown

        terminal.print(Markdown(text))
    else:
        say(text)


def check(
    env: str = argument(
        "FILE.py:SPEC, an id, or gymnasium:... and pettingzoo:...; it is executed.", metavar="ENV"
    ),
    param: list[str] | None = option(
        "A parameter of the environment, as of evaluate; repeat for more.", metavar="NAME=VALUE"
    ),
    policy: list[str] | None = option(
        "A policy whose actions in one episode must be in the action space; repeat for more.",
        "--policy",
        "-p",
    ),
) -> None:
    """Look for faults in an environment: spaces, metrics, indices, seeds, ends, masks.

    The exit status is 1 if there is one.
    """
    from coopbench_envs.check import check_environment
    from coopbench_envs.errors import KernelError

    if env.endswith(".py"):
        raise ValueError(
            f"{env} is a file: name the environment in it, {env}:SPEC. To check a policy, name an "
            f"environment and -p {env}:NAME."
        )
    try:
        values = environment_parameters(env, param)
    except KernelError:
        values = {}  # the check says what is wrong with it
    faults = list(map(str, check_environment(env, **values)))
    if policy and not faults:
        faults = _actions_outside(env, policy, values)
    for fault in faults:
        say(fault)
    if faults:
        say(f"{env}: {len(faults)} fault{'s' if len(faults) > 1 else ''} found.")
        raise typer.Exit(1)
    say(f"{env}: no fault found.")


def _actions_outside(env: str, policies: list[str], values: dict[str, Any]) -> list[str]:
    """Say which policies take actions outside of the action space in an episode."""
    from coopbench.playing.contestants import spelled
    from coopbench.report.sections.outside import OUTSIDE
    from coopbench.workflows.evaluation import evaluate

    chosen = [spelled(text) for text in policies]
    played = evaluate(env, chosen, backend="serial", episodes=1, only=True, **values)
    return [
        f"{row.policy} took {row.actions:,} of its actions ({100 * row.share:.3g} %) outside of "
        f"the action space: numbers beyond the bounds are clipped, and choices that do not exist "
        f"replaced by doing nothing."
        for row in played.rows(OUTSIDE)
    ]


def doctor() -> None:
    """Print versions, processor, GPU, compiler, cache and kernels, and check that they work.

    The exit status is 1 if a check fails.
    """
    from coopbench.doctor import examine

    broken = []
    for name, text, good in examine():
        say(f"{name:<20}{text}" if good else f"{name:<20}FAILED: {text}")
        broken += [] if good else [name]
    if broken:
        raise typer.Exit(1)
    say("All checks passed.")


def warmup(
    workers: int = option("How many processes compile at the same time.", default=1, min=1),
) -> None:
    """Compile environments, planners and rules now, so that nothing is compiled later."""
    from coopbench.catalogue import compilations
    from coopbench.catalogue import warmup as run
    from coopbench.playing.bars import Bars

    with (
        interruption("What is compiled is kept; rerun the same command to go on."),
        Bars(len(compilations()), what="parts") as progress,
    ):
        run(progress.show, workers)
