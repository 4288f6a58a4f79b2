"""The command ``timed``."""

from pathlib import Path
from typing import Annotated

import typer


def timed(
    protocol: Annotated[str, typer.Argument(help="A name from 'coopbench list', or a .toml file.")],
    policy: Annotated[str, typer.Option("--policy", "-p", metavar="NAME", help="Policy to play.")],
    task: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Task to play; repeat. Default: all.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for the scores, as JSON."),
    ] = None,
) -> str:
    """Play a protocol's episodes one by one within its time limits; score them as Flatland does."""
    from coopbench.files import check_no_folder
    from coopbench.playing.bars import Bars
    from coopbench.playing.recording import check_place
    from coopbench.timed.evaluation import timed_evaluate

    if out is not None:
        check_no_folder("--out", out, "scores.json")
        check_place(out)
    with Bars() as bars:
        scores = timed_evaluate(
            protocol, policy, task, lambda t, share: bars.task(t, policy, share)
        )
    if out is None:
        return str(scores)
    scores.save(out)
    return f"{scores}\nScores: {out}"
