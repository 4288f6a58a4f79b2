"""Commands of the theory of games with investments: certify, match."""

from pathlib import Path
from typing import Annotated

import typer

from coopbench.cli.console import console, say
from coopbench.cli.options import assignment

__all__ = ["certify", "match"]


def certify(
    env: Annotated[str, typer.Argument(help="An environment with investments.")],
    out: Annotated[
        Path | None, typer.Option(help="File for the certificate, as JSON; default: none.")
    ] = None,
) -> None:
    """Measure how hard a game is: price of anarchy, temptation, best constant, best sequence.

    The exit status is 1 if a criterion does not hold.
    """
    from coopbench.files import write_text
    from coopbench.theory import certify as run

    errors = console(stderr=True)
    certificate = run(env, tell=lambda text: errors.print(f"{text} ...", style="dim"))
    say(certificate.table())
    if out is not None:
        write_text(out, certificate.to_json())
    if not certificate.met:
        raise typer.Exit(1)


def match(
    env: Annotated[str, typer.Argument(help="An environment with investments.")],
    data: Annotated[
        Path,
        typer.Option(metavar="FILE", help="CSV: agents' names, then fractions in [0, 1] by step."),
    ],
    policy: Annotated[
        list[str],
        typer.Option("--policy", "-p", metavar="NAME", help="Policy to play; repeat for more."),
    ],
    episodes: Annotated[int, typer.Option(help="Episodes to play.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the first episode.")] = 0,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A parameter; repeat for more."),
    ] = None,
) -> None:
    """Score how closely policies reproduce your own series of investments; 1 = exactly."""
    from coopbench.statistics import t_interval
    from coopbench.theory import match as run

    values = dict(assignment(text, "--param") for text in param or [])
    scores = run(env, data, policy, episodes=episodes, seed=seed, **values)
    for name, matching in scores.items():
        interval = t_interval(matching)
        ends = f"95 % t interval {interval.low:.4f} to {interval.high:.4f}"
        notes = "".join(f" ({warning})" for warning in interval.warnings)
        say(f"{name:<28}series matching {interval.estimate:.4f}, {ends}{notes}")
    say(f"{episodes} episodes of each policy in all seats; 1 = exactly the series.")
