"""Commands that play: evaluate, train, crossplay, replay."""

from pathlib import Path
from typing import Annotated, Any

import typer

from coopbench.cli.console import KEPT, NOTHING, console, interruption, present, say
from coopbench.cli.options import (
    PROTOCOL,
    Backend,
    Environments,
    Only,
    Policies,
    ProtocolName,
    Workers,
    assignment,
    assignments,
    chosen,
    environment_names,
    learner_names,
    named_policy,
    parameter_names,
    protocol_with_maps,
)
from coopbench.playing.bars import Bars

Steps = Annotated[
    int | None,
    typer.Option(help="Steps of the environment for each run, instead of the protocol's."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A hyperparameter; repeat for more."),
]
_SAVED = "The last written state of every run is saved; rerun the same command to resume."


def _hyperparameters(learner: str, settings: list[str] | None) -> dict[str, Any]:
    """Read ``--set NAME=VALUE`` by the types of a learner's hyperparameters."""
    from coopbench.baselines.registry import learners
    from coopbench_envs.parameters import named

    params = named("learner", learner, learners()).params
    return dict(assignment(text, "--set", params) for text in settings or [])


def evaluate(
    protocol: Annotated[str | None, PROTOCOL] = None,
    policy: Policies = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Task to play; repeat the option for more (not a standard report). Default: all "
            "tasks.",
        ),
    ] = None,
    only: Only = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for results and report. Default: results/PROTOCOL, or with --task "
            "results/PROTOCOL-TASK; with --env nothing is written without it."
        ),
    ] = None,
    backend: Backend = "auto",
    workers: Workers = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Play only part I of N, 1 <= I <= N, without a report; see 'coopbench merge'.",
        ),
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(
            help="Evaluate one environment instead of a protocol (not a standard report).",
            autocompletion=environment_names,
        ),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(help="With --env: episodes to play, 100 if not given.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="With --env: seed of the first episode, 0 if not given.")
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="With --env: a parameter, such as horizon=50, high=1.2,1.3 or "
            "map_params.path=FILE; repeat for more.",
            autocompletion=parameter_names,
        ),
    ] = None,
    partner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With --env: a policy in the other seats; repeat for more. Default: self-play.",
        ),
    ] = None,
    maps: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Play street-map tasks on your own .map files (not a standard report).",
        ),
    ] = None,
) -> None:
    """Play the tasks of a protocol with your policies and its baselines; write the report.

    Your policies come first, then the required baselines. Required learners play from the runs that
    ship with this package; nothing is trained. Finished cells are kept: rerun the same command to
    resume after an interruption.
    """
    from coopbench.playing.contestants import with_baselines
    from coopbench.protocol.variants import with_tasks
    from coopbench.workflows.evaluation import evaluate as run

    if (protocol is None) == (env is None):
        raise ValueError("Name either a PROTOCOL or an environment with --env.")
    if env is not None:
        if task:
            raise ValueError("--task goes with a PROTOCOL; --env plays one environment.")
        if maps is not None:
            raise ValueError(
                "--maps goes with a PROTOCOL; with --env use --param map_params.path=DIR"
            )
        if only:
            raise ValueError("--only goes with a PROTOCOL; --env has no required baselines.")
        played = _ad_hoc(env, episodes, seed, param, partner)
        policies = [named_policy(text) for text in policy or ["random"]]
    else:
        if only and not policy:
            raise ValueError("--only plays the policies of -p alone; name one with -p.")
        if episodes is not None or seed is not None or param or partner:
            raise ValueError(
                "--episodes, --seed, --param and --partner go with --env; a protocol defines its "
                "own."
            )
        played = with_tasks(protocol_with_maps(str(protocol), maps), task or ())
        named = chosen(policy, played)
        policies = named if only else with_baselines(played, named)
        out = out or Path("results") / "-".join([played.protocol.name, *(task or ())])
    with interruption(NOTHING if out is None else KEPT):
        if shard is not None:
            _play_shard(played, policies, shard, out, backend, workers, not only)
            return
        report = run(
            played,
            policies,
            out,
            backend,
            True,
            workers,
            reference=not only,
        )
        present(report, out)


def train(
    protocol: ProtocolName,
    learner: Annotated[
        str,
        typer.Argument(
            metavar="LEARNER",
            help="A learner from 'coopbench list'.",
            autocompletion=learner_names,
        ),
    ],
    task: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Task to train on; repeat for more. Default: all."),
    ] = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Training seed; repeat for more. Default: the protocol's."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for runs, results and report. Default: results/PROTOCOL, and with --smoke "
            "results/PROTOCOL-smoke."
        ),
    ] = None,
    steps: Steps = None,
    smoke: Annotated[
        bool,
        typer.Option(
            "--smoke", help="Train for a hundredth of the budget, to check that everything works."
        ),
    ] = False,
    setting: Settings = None,
    backend: Backend = "serial",
    workers: Workers = None,
) -> None:
    """Train a learner on a protocol's tasks, play what it learned, and write the report.

    Runs are saved regularly: rerun the same command to resume after
    an interruption. The report includes all results that the folder already
    holds, for instance those of fixed policies that were evaluated into it.
    """
    from coopbench.protocol.loading import load_protocol
    from coopbench.workflows.training import train as run

    loaded = load_protocol(protocol)
    out = out or Path("results") / f"{loaded.protocol.name}{'-smoke' if smoke else ''}"
    values = _hyperparameters(learner, setting)
    with interruption(_SAVED):
        report = run(
            loaded,
            learner,
            out,
            tasks=task,
            seeds=seed,
            steps=steps,
            smoke=smoke,
            backend=backend,
            workers=workers,
            progress=True,
            **values,
        )
        present(report, out)


def crossplay(
    protocol: ProtocolName,
    policy: Policies = None,
    task: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Task to play; repeat for more. Default: all."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the matrices. Default: results/PROTOCOL-crossplay."),
    ] = None,
    against: Annotated[
        bool, typer.Option("--against", help="In battles: play against the other policies.")
    ] = False,
    backend: Backend = "auto",
    workers: Workers = None,
) -> None:
    """Play every policy in one seat with every policy in the others: one matrix for each task."""
    from coopbench.files import make_folder
    from coopbench.protocol.loading import load_protocol
    from coopbench.report.crossplay import document
    from coopbench.report.terminal import show
    from coopbench.workflows.crossplay import crossplay as run

    loaded = load_protocol(protocol)
    out = out or Path("results") / f"{loaded.protocol.name}-crossplay"
    with interruption(NOTHING), Bars() as progress:

        def tell(name: str, share: float) -> None:
            make_folder(out)  # before the long work, and after all names have been checked
            progress.task(name, "cross-play", share)

        result = run(loaded, chosen(policy, loaded), task, tell, backend, workers, against)
    show(document(result), console())
    files = result.save(out)
    say(f"Matrices: {files['md']}")


def replay(
    episode: Annotated[
        str,
        typer.Argument(
            metavar="EPISODE",
            help="FOLDER/TASK/POLICY/K in a results folder, PROTOCOL/TASK/POLICY/K, or a .npz file "
            "of coopbench.record; K counts from 0.",
        ),
    ],
    html: Annotated[
        Path | None,
        typer.Option(
            help="File for the page. Default without --gif and --save: named like the episode."
        ),
    ] = None,
    gif: Annotated[Path | None, typer.Option(help="File for an animated GIF.")] = None,
    save: Annotated[Path | None, typer.Option(help="File (.npz) for the episode itself.")] = None,
    stride: Annotated[
        int | None,
        typer.Option(help="With --gif: steps between frames. Default: as few as fit into 4 MB."),
    ] = None,
    fps: Annotated[float, typer.Option(help="With --gif: frames per second.")] = 12,
    size: Annotated[int, typer.Option(help="With --gif: longer side in pixels, at most.")] = 800,
    sight: Annotated[
        bool, typer.Option("--sight", help="Show what agents see, in battles.")
    ] = False,
    env: Environments = None,
) -> None:
    """Show an episode: on a page that plays it, or as an animated GIF.

    The episode is played again. If it is from a results folder, it must give the stored results.
    """
    from coopbench.workflows.replay import show as run

    with interruption("Files listed above are complete; no others were written."):
        files = {".html": html, ".gif": gif, ".npz": save}
        for line in run(episode, files, stride, fps, size, sight):
            say(line)


def _play_shard(
    protocol: Any,
    policies: list[Any],
    shard: str,
    out: Path | None,
    backend: str,
    workers: int | None,
    reference: bool,
) -> None:
    """Play one shard of an evaluation and print which cells are missing."""
    from coopbench.workflows.shards import play_shard

    if out is None:
        raise ValueError("--shard needs a folder for its results; name one with --out.")
    number, slash, count = shard.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal()):
        raise ValueError(f"--shard takes I/N, for instance 2/3; given {shard!r}.")
    part = int(number), int(count)
    played = play_shard(protocol, policies, part, out, backend, True, workers, reference=reference)
    for note in played.notes:
        say(note)
    say(f"Shard {shard}: its {len(played.cells)} of {played.total} cells are finished.")
    say(f"{out} holds {played.finished} of {played.total} cells.")
    if played.finished == played.total:
        say(f"Next: coopbench merge {out} --out {out}")
    else:
        say("Next, when all shards are finished: coopbench merge FOLDER... --out DIR")


def _ad_hoc(
    env: str,
    episodes: int | None,
    seed: int | None,
    param: list[str] | None,
    partner: list[str] | None,
) -> Any:
    """Make the protocol that plays one environment."""
    from coopbench.protocol.loading import ad_hoc
    from coopbench_envs.registration import spec

    params = spec(env).params
    values = assignments(param, "--param", params)
    count = 100 if episodes is None else episodes
    return ad_hoc(env, count, 0 if seed is None else seed, partners=partner or (), **values)
