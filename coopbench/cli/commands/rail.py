"""Commands for railways: rail import."""

from pathlib import Path

import typer

from coopbench.cli.console import say
from coopbench.cli.options import argument, option

rail = typer.Typer(help="Turn railways of flatland-rl into instances.", no_args_is_help=True)


@rail.command("import")
def import_railways(
    place: Path = argument(
        "Railways that flatland-rl has saved: .pkl, .mpk or .npz.", metavar="FILE|FOLDER"
    ),
    out: Path = option(
        "File of instances to write, FILE.npz.",
        default=...,
        metavar="FILE",
    ),
) -> None:
    """Write railways that flatland-rl has saved into one file of instances of Rail-v0.

    Nothing that a file names is executed; flatland-rl is not needed.
    """
    from coopbench.playing.recording import check_place
    from coopbench_envs.rail.importing import import_railways as run

    check_place(out)
    say(run(place, out))
