"""The command ``timed``."""

from pathlib import Path
from typing import Annotated, Any

import typer


def timed(
    protocol: Annotated[str, typer.Argument(help="A name from 'coopbench list', or a .toml file.")],
    policy: Annotated[
        list[str],
        typer.Option(
            "--policy",
            "-p",
            metavar="POLICY",
            help="The policy to play, as of evaluate; NAME=FILE.py:OBJECT names your own code.",
        ),
    ],
    task: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Task to play; repeat. Default: all.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for the scores, as JSON."),
    ] = None,
) -> str:
    """Play a protocol's episodes one by one within its time limits; score them as Flatland does."""
    from coopbench.playing.bars import Bars
    from coopbench.playing.contestants import name_of, spelled
    from coopbench.playing.recording import check_place
    from coopbench.timed.evaluation import timed_evaluate

    if out is not None:
        check_place(out)
    if len(policy) > 1:
        raise ValueError(f"timed plays one policy; given {', '.join(policy)}. Time each by itself.")
    player: Any = spelled(policy[0])
    name = name_of(player)
    with Bars() as bars:
        scores = timed_evaluate(protocol, player, task, lambda t, share: bars.task(t, name, share))
    if out is None:
        return str(scores)
    scores.save(out)
    return f"{scores}\nScores: {out}"
