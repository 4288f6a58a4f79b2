"""Commands that play: evaluate, train, crossplay, replay."""

import shlex
from pathlib import Path
from typing import Any

from coopbench.cli.console import KEPT, NOTHING, console, interruption, present, say
from coopbench.cli.options import (
    Backend,
    Environments,
    Only,
    PlayShipped,
    Policies,
    ProtocolName,
    Workers,
    argument,
    assignment,
    check_alone,
    chosen,
    contestants,
    environment_parameters,
    learner_names,
    option,
    parameter_names,
    protocol_with_maps,
    target_names,
    to_folder,
)
from coopbench.playing.bars import Bars

_SAVED = "The last written state of every run is saved; rerun the same command to resume."


def _hyperparameters(learner: str, settings: list[str] | None) -> dict[str, Any]:
    """Read ``--set NAME=VALUE`` by the types of a learner's hyperparameters."""
    from coopbench.baselines.registry import learners
    from coopbench_envs.parameters import named

    params = named("learner", learner, learners()).params
    return dict(assignment(text, "--set", params) for text in settings or [])


def evaluate(
    target: str = argument(
        "A protocol: a name from 'coopbench list', or a .toml file. Or an environment: an id, "
        "FILE.py:SPEC, gymnasium:ID or pettingzoo:MODULE (not a standard report).",
        metavar="PROTOCOL|ENV",
        autocompletion=target_names,
    ),
    policy: Policies = None,
    task: list[str] | None = option(
        "Task to play; repeat the option for more (not a standard report). Default: all tasks.",
        metavar="ID",
    ),
    only: Only = False,
    play_shipped: PlayShipped = False,
    dry_run: bool = option(
        "List the cells that a protocol asks for; play nothing.", "--dry-run", default=False
    ),
    out: Path | None = option(
        "Folder for results and report. Default: results/PROTOCOL, with --task "
        "results/PROTOCOL-TASK; of an environment nothing is written without it.",
        metavar="FOLDER",
        callback=to_folder,
    ),
    backend: Backend = "auto",
    workers: Workers = None,
    shard: str | None = option(
        "Play only part I of N, 1 <= I <= N, without a report; see 'coopbench merge'.",
        metavar="I/N",
    ),
    episodes: int | None = option("Of an environment: episodes to play, 100 if not given."),
    seed: int | None = option("Of an environment: seed of the first episode, 0 if not given."),
    param: list[str] | None = option(
        "Of an environment: a parameter, such as horizon=50, high=1.2,1.3 or map_params.path=FILE; "
        "repeat for more.",
        metavar="NAME=VALUE",
        autocompletion=parameter_names,
    ),
    partner: list[str] | None = option(
        "Of an environment: a policy in the other seats; repeat for more. Default: self-play.",
        metavar="NAME",
    ),
    maps: Path | None = option(
        "Play street-map tasks on the .map files of this folder (not a standard report).",
        metavar="FOLDER",
    ),
) -> str | None:
    """Play the tasks of a protocol with your policies and its baselines; write the report.

    Your policies come first, then the required baselines. Required learners play from the runs that
    ship with this package, or are reported with the scores that ship; nothing is trained. Finished
    cells are kept: rerun the same command to resume after an interruption.
    """
    from coopbench.playing.contestants import spelled
    from coopbench.protocol.loading import names_environment
    from coopbench.workflows.evaluation import evaluate as run

    check_alone(policy, only)
    source: Any = target
    numbered = episodes is not None or seed is not None  # 0 is a number, too
    played = shard or numbered or param or partner or workers is not None or backend != "auto"
    if dry_run and (names_environment(target) or played):
        raise ValueError(
            "--dry-run lists the cells of a protocol; allowed with it: --policy, --task, --only, "
            "--play-shipped, --maps and --out."
        )
    if names_environment(target):
        if play_shipped:
            raise ValueError(
                "--play-shipped plays runs that ship for a protocol, and none do for an "
                "environment; leave it out."
            )
        if maps is not None:
            raise ValueError(
                "--maps goes with a protocol; of an environment use --param map_params.path=FOLDER"
            )
    else:
        source = protocol_with_maps(target, maps)
        if dry_run:
            return _cells(source, policy, task, only, play_shipped)
        out = out or Path("results") / "-".join([source.protocol.name, *(task or ())])
    game = {"episodes": episodes, "seed": seed, "partners": partner} | _parameters(target, param)
    policies = [spelled(text) for text in policy] if policy else None
    with interruption(NOTHING if out is None else KEPT):
        report = run(
            source,
            policies,
            out,
            backend,
            True,
            workers,
            tasks=task,
            only=only,
            play_shipped=play_shipped,
            shard=None if shard is None else _shard(shard),
            **{name: value for name, value in game.items() if value is not None},
        )
        if shard is None:
            present(report, out)
        else:
            say("\n".join(report.notes))
    return None


def _cells(
    protocol: Any, policy: list[str] | None, tasks: list[str] | None, only: bool, play_shipped: bool
) -> str:
    """Return a line for each cell (task x policy) that 'evaluate' would play."""
    from coopbench.protocol.variants import with_tasks
    from coopbench.workflows.evaluation import planned

    asked = with_tasks(protocol, tasks or ())
    policies = contestants(policy, asked, only)
    to_play = planned(asked, policies, reference=not only, play_shipped=play_shipped).cells
    lines = []
    for cell, _ in to_play:
        name = cell.policy if cell.run is None else f"{cell.policy} / run {cell.run}"
        episodes = asked.episodes(asked.task_of(cell.task))
        lines.append(f"{cell.task:<24}{name:<20}{episodes:>6} episodes")
    count = f"{len(to_play)} cell{'' if len(to_play) == 1 else 's'}"
    return "\n".join((*lines, f"{count}; digest {asked.digest[:16]}"))


def train(
    protocol: ProtocolName,
    learner: str = argument(
        "A learner from 'coopbench list'.", metavar="LEARNER", autocompletion=learner_names
    ),
    task: list[str] | None = option(
        "Task to train on; repeat for more. Default: all.", metavar="ID"
    ),
    run_seeds: list[int] | None = option(
        "Run to train, by its training seed; repeat for more. Default: the protocol's.",
        "--run",
        metavar="SEED",
    ),
    out: Path | None = option(
        "Folder for runs, results and report. Default: results/PROTOCOL, and with --smoke "
        "results/PROTOCOL-smoke.",
        metavar="FOLDER",
        callback=to_folder,
    ),
    steps: int | None = option("Steps of the environment for each run, instead of the protocol's."),
    smoke: bool = option(
        "Train for a hundredth of the budget, to check that everything works.",
        "--smoke",
        default=False,
    ),
    setting: list[str] | None = option(
        "A hyperparameter; repeat for more.", "--set", metavar="NAME=VALUE"
    ),
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
            seeds=run_seeds,
            steps=steps,
            smoke=smoke,
            backend=backend,
            workers=workers,
            progress=True,
            **values,
        )
        present(report, out)
        if smoke:
            say("A smoke run has a hundredth of the budget: it shows that everything works.")
        if not set(loaded.report.fixed) <= set(report.episodes.policies):
            tasks = [part for name in task or () for part in ("--task", name)]
            command = ["coopbench", "evaluate", protocol, *tasks, "--out", str(out)]
            say(f"To add the required baselines: {shlex.join(command)}")


def crossplay(
    protocol: ProtocolName,
    policy: Policies = None,
    task: list[str] | None = option("Task to play; repeat for more. Default: all.", metavar="ID"),
    out: Path | None = option(
        "Folder for the matrices. Default: results/PROTOCOL-crossplay.",
        metavar="FOLDER",
        callback=to_folder,
    ),
    against: bool = option(
        "In battles: play against the other policies.", "--against", default=False
    ),
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
    episode: str = argument(
        "FOLDER/TASK/POLICY/K in a results folder, PROTOCOL/TASK/POLICY/K, or a .npz file of "
        "coopbench.play_episode; K counts from 0.",
        metavar="EPISODE",
    ),
    out: list[Path] | None = option(
        "File to write, by its ending: .html for the page, .gif for an animation, .npz for the "
        "episode itself; repeat for more. Default: a page named like the episode, in its results "
        "folder if it is in one.",
        metavar="FILE",
    ),
    stride: int | None = option(
        "Of a GIF: steps between frames. Default: as few as fit into 4 MB."
    ),
    sight: bool = option("Show what agents see, in battles.", "--sight", default=False),
    env: Environments = None,
) -> None:
    """Show an episode: on a page that plays it, or as an animated GIF.

    The episode is played again. If it is from a results folder, it must give the stored results.
    """
    from coopbench.workflows.replay import show as run

    with interruption("Files listed above are complete; no others were written."):
        for line in run(episode, out or (), stride, sight):
            say(line)


def _shard(text: str) -> tuple[int, int]:
    """Parse I/N."""
    number, slash, count = text.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal()):
        raise ValueError(f"--shard takes I/N, for instance 2/3; given {text!r}.")
    return int(number), int(count)


def _parameters(target: str, param: list[str] | None) -> dict[str, Any]:
    """Read ``--param NAME=VALUE`` by the types of an environment's parameters."""
    from coopbench.protocol.loading import names_environment

    if param and not names_environment(target):
        raise ValueError(f"--param goes with an environment; {target} defines its own parameters.")
    return environment_parameters(target, param)
