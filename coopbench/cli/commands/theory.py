"""Commands of the theory of games with investments: certify."""

from pathlib import Path
from typing import Annotated

import typer

from coopbench.cli.console import console, say

__all__ = ["certify"]


def certify(
    env: Annotated[
        str | None,
        typer.Argument(help="A version 1 game, or Skirmish; default: the game of the task."),
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="Protocol whose tasks of the game are measured, or its file.")
    ] = "coopetition-standard",
    task: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Only this task, or battle (3m-drawn); repeat for more."),
    ] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Search the best rules anew; else play stored ones.")
    ] = False,
    effort: Annotated[int, typer.Option(min=1, help="Budget of the search, times the usual.")] = 1,
    stored: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Certificate to play; default: that of the package."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File for the certificate, as JSON; default: none.")
    ] = None,
) -> None:
    """Measure what a game asks: the repeated game, every task of a protocol, and their bounds.

    The rules of the game's certificate are played again, or searched anew. The exit status is 1 if
    a criterion does not hold. Of Skirmish, the plans and scripts of each battle are played again,
    and the exit status is 1 if a figure is not the stored one.
    """
    from coopbench.analysis.battles import load_battles
    from coopbench.files import write_text
    from coopbench.theory import certify as run
    from coopbench.theory import load_certificate, read_certificate
    from coopbench.theory.pages import bounds_lines, certificate_page

    errors = console(stderr=True)
    env_id = env or _game_of(protocol, task)
    if load_battles(env_id):
        if search or stored or out:
            raise typer.BadParameter("battles are played again as stored; studies/battles searches")
        _replay_battles(env_id, task)
        return
    content = None
    if not search:
        content = load_certificate(env_id) if stored is None else read_certificate(stored)
    certificate = run(
        env_id,
        protocol=protocol,
        tasks=task,
        stored=content,
        effort=effort,
        tell=lambda text: errors.print(f"{text} ...", style="dim"),
    )
    say(certificate_page(certificate))
    say("\n".join(bounds_lines(certificate)))
    if out is not None:
        write_text(out, certificate.to_json())
    if not certificate.met:
        raise typer.Exit(1)


def _replay_battles(env_id: str, names: list[str] | None) -> None:
    """Play the certificates of these battles again; exit with status 1 if a figure differs."""
    from coopbench.analysis.battles import load_battles
    from coopbench.theory.battles.certificates import measured
    from coopbench.theory.battles.pages import battles_page
    from coopbench_envs.parameters import named

    errors, same = console(stderr=True), True
    battles, played = load_battles(env_id), {}
    for name in names or battles:
        old = named("battle", name, battles)
        episodes = old.figures["random"].episodes
        new = measured(old, episodes, lambda text: errors.print(f"{text} ...", style="dim"))
        played[name] = new
        same &= new == old
        say(f"{name}: {'as stored' if new == old else 'differs from what is stored'}")
    say(battles_page(played))
    if not same:
        raise typer.Exit(1)


def _game_of(protocol: str, tasks: list[str] | None) -> str:
    """Return the environment of the first task named."""
    from coopbench.protocol.loading import load_protocol

    if not tasks:
        raise typer.BadParameter("name a game, or a task with --task")
    return load_protocol(protocol).task_of(tasks[0]).env
