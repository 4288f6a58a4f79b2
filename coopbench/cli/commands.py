"""Command line: list, show, plan, evaluate, merge, report, crossplay, replay and more."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["app", "main"]

app = typer.Typer(
    name="coopbench",
    help="Evaluate multi-agent policies on fixed tasks and report what can be trusted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ProtocolName = Annotated[
    str, typer.Argument(metavar="PROTOCOL", help="A name from 'coopbench list', or a .toml file.")
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        "-p",
        metavar="NAME",
        help="Policy to evaluate, e.g. tit_for_tat or constant:0.35; repeat for more. "
        "Default: the protocol's required baselines.",
    ),
]

Backend = Annotated[
    str,
    typer.Option(
        help="Where cells are played: serial; processes, several at a time; or ray, on a cluster."
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        help="With --backend processes or ray: how many cells at a time. Default: one per usable "
        "core, or per core of the cluster."
    ),
]


@app.command("list")
def list_all() -> None:
    """List environments, policies and protocols."""
    from coopbench import catalogue

    console = _console()
    for title, names in (
        ("Environments", dict.fromkeys(catalogue.environments(), "")),
        ("Policies", catalogue.policies()),
        ("Learners", catalogue.learners()),
        ("Protocols", dict.fromkeys(catalogue.protocols(), "")),
    ):
        console.print(f"[bold]{title}[/bold]")
        for name, text in names.items():
            _say(f"  {name:<34}{text}".rstrip())


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="An environment, a policy or a protocol.")],
) -> None:
    """Show what an environment, a policy or a protocol is."""
    from coopbench.describe import describe

    text = describe(name)
    console = _console()
    if console.is_terminal:
        from rich.markdown import Markdown

        console.print(Markdown(text))
    else:
        _say(text)


@app.command("plan")
def show_plan(protocol: ProtocolName, policy: Policies = None) -> None:
    """Show the cells (task x policy) that 'evaluate' would play, without playing them."""
    from coopbench.playing.plan import plan
    from coopbench.protocol.loading import load_protocol
    from coopbench.workflows.evaluation import expanded

    found = load_protocol(protocol)
    cells = plan(found, expanded(found, _chosen(policy, found)))
    for cell, _ in cells:
        who = cell.policy if cell.run is None else f"{cell.policy} / run {cell.run}"
        _say(f"{cell.task:<24}{who:<20}{found.episodes(found.task_of(cell.task)):>6} episodes")
    _say(f"{len(cells)} cells; digest {found.digest[:16]}")


@app.command()
def evaluate(
    protocol: Annotated[
        str | None,
        typer.Argument(metavar="[PROTOCOL]", help="A name from 'coopbench list', or a .toml file."),
    ] = None,
    policy: Policies = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for results and report. Default: results/PROTOCOL."),
    ] = None,
    backend: Backend = "serial",
    workers: Workers = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Play part I of N only, 1 <= I <= N, and make no report; see 'coopbench merge'.",
        ),
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(
            help="Evaluate one environment instead of a protocol (not a standard report)."
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
        typer.Option(metavar="NAME=VALUE", help="With --env: a parameter; repeat for more."),
    ] = None,
    maps: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Play street-map tasks on your own .map files (not a standard report).",
        ),
    ] = None,
) -> None:
    """Play a protocol's tasks with some policies and write the standard report.

    Finished cells are kept: run the same command again after an interruption and it goes on.
    """
    from coopbench.playing.plan import plan
    from coopbench.workflows.evaluation import evaluate_cells, expanded

    if (protocol is None) == (env is None):
        raise ValueError("Name either a PROTOCOL or an environment with --env.")
    if env is not None:
        if maps is not None:
            raise ValueError("--maps goes with a PROTOCOL; with --env give map_params.")
        found = _ad_hoc(env, episodes, seed, param)
        chosen = policy or ["random"]
    else:
        if episodes is not None or seed is not None or param:
            raise ValueError(
                "--episodes, --seed and --param go with --env: a protocol fixes its own."
            )
        found = _protocol(str(protocol), maps)
        chosen = _chosen(policy, found)
        out = out or Path("results") / found.protocol.name
    with _losing(_NOTHING if out is None else _KEPT):
        if shard is not None:
            _play_shard(found, chosen, shard, out, backend, workers)
            return
        cells = plan(found, expanded(found, chosen))
        with _Progress(len(cells)) as progress:
            report = evaluate_cells(found, cells, out, backend, progress, workers)
        _present(report, out)


@app.command()
def train(
    protocol: ProtocolName,
    learner: Annotated[str, typer.Argument(help="A learner from 'coopbench list'.")],
    task: Annotated[
        list[str] | None, typer.Option(help="Task to train on; repeat for more. Default: all.")
    ] = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(help="Training seed; repeat for more. Default: the protocol's."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for runs, results and report. Default: results/PROTOCOL."),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(help="Steps of the environment for each run, instead of the protocol's."),
    ] = None,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Spend a hundredth of the budget, to try it all.")
    ] = False,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A hyperparameter; repeat for more."),
    ] = None,
    backend: Backend = "serial",
    workers: Workers = None,
) -> None:
    """Train a learner on a protocol's tasks, play what it learned, and write the report.

    Runs are kept after every interval: run the same command again after an
    interruption and it goes on. What the folder holds already is in the report,
    too: evaluate the fixed policies into it.
    """
    from coopbench.baselines.registry import learners
    from coopbench.protocol.loading import load_protocol
    from coopbench.workflows.training import runs, train_runs
    from coopbench_envs.parameters import named

    found = load_protocol(protocol)
    out = out or Path("results") / found.protocol.name
    params = named("learner", learner, learners()).params
    values = dict(_assignment(text, "--set", params) for text in setting or [])
    planned = runs(found, learner, out, task, seed, steps, smoke, values)
    budget = planned[0].budget
    _say(
        f"{len(planned)} training runs of {budget.steps:,} steps, evaluated every "
        f"{budget.interval:,}, into {out}"
    )
    kept = "Runs are kept up to their last interval; run the same command again to go on."
    with _losing(kept):
        with _Progress(len(planned), budget.steps) as progress:
            report = train_runs(found, planned, out, backend, workers, progress)
        _present(report, out)


@app.command()
def merge(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER...", help="Results folders of one protocol.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for all their results and the report.")],
) -> None:
    """Put the results of several folders together, and report on all of them.

    Cells are copied and their checksums verified; damaged ones are left out
    and named. Of one folder that all shards wrote into: coopbench merge FOLDER
    --out FOLDER.
    """
    from coopbench.workflows.shards import merge as run

    with _losing("Cells that were copied are kept; run the same command again to go on."):
        _present(run(folders, out), out)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A results folder of 'coopbench evaluate'.")],
) -> None:
    """Make the report of a results folder anew from its episodes."""
    from coopbench.workflows.evaluation import load_report

    with _losing("Files of the report may be missing; run the same command again."):
        _present(load_report(folder), folder)


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="A results folder of 'coopbench evaluate'.")],
    backend: Backend = "serial",
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="File for the answer, as JSON.")] = None,
) -> None:
    """Play a results folder again and say of every part whether it is what it claims to be.

    The exit status is 1 if anything is different or missing.
    """
    from coopbench.files import write_text
    from coopbench.playing.recording import check_place
    from coopbench.workflows.verification import show as show_verification
    from coopbench.workflows.verification import verify as run

    if out is not None:
        check_place(out)
    with _losing(_NOTHING), _Progress() as progress:
        found = run(folder, backend, workers, progress)
    show_verification(found, _console())
    if out is not None:
        write_text(out, found.to_json())
        _say(f"Answer: {out}")
    if not found.holds:
        raise typer.Exit(1)


@app.command()
def leaderboard(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER...", help="Results folders of one protocol."),
    ],
    out: Annotated[Path, typer.Option(help="File for the page; its data stand beside as JSON.")],
    unverified: Annotated[
        str,
        typer.Option(help="Folders without a manifest or with missing cells: refuse or mark."),
    ] = "refuse",
    backend: Backend = "serial",
    workers: Workers = None,
) -> None:
    """Verify results folders and merge them into one static page; one that differs is refused."""
    from coopbench.playing.recording import check_place
    from coopbench.workflows.leaderboard import leaderboard as run

    check_place(out)
    with _losing(_NOTHING), _Progress() as progress:
        found = run(folders, unverified, backend, workers, progress)
    for note in found.notes:
        _say(f"Note: {note}")
    page, data = found.save(out)
    _say(f"Leaderboard: {page}, {data}")


@app.command("export")
def export_results(
    folder: Annotated[Path, typer.Argument(help="A results folder of 'coopbench evaluate'.")],
    to: Annotated[Path, typer.Option(help="File to write, as JSON for marl-eval.")],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            "-p",
            metavar="NAME",
            help="Policy to export, or POLICY=NAME to call it otherwise; repeat for more. "
            "Default: all.",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Metric to export; repeat for more. Default: return and score."),
    ] = None,
) -> None:
    """Write the results of a folder for marl-eval, and say what it would not read there."""
    from coopbench.exchange.marl_eval_export import chosen, save_marl_eval
    from coopbench.playing.recording import check_place
    from coopbench.workflows.evaluation import load_report

    check_place(to)
    found = load_report(folder)
    hindering = save_marl_eval(found, to, chosen(found, policy), metric)
    for failure in found.episodes.failures:
        where = f"{failure.cell.task} / {failure.cell.policy} / run {failure.cell.run}"
        _say(f"Not exported: {where} failed: {failure.reason}")
    for text in hindering:
        _say(f"Note: {text}.")
    _say(f"Exported: {to}")


@app.command("import")
def import_results(
    file: Annotated[Path, typer.Argument(help="A JSON file in the format of marl-eval.")],
    absolute: Annotated[
        str,
        typer.Option(
            help="What its absolute metrics are: best_checkpoint, max_episode, last or unknown."
        ),
    ] = "unknown",
    metric: Annotated[str, typer.Option(help="Metric to summarise.")] = "return",
    scale: Annotated[
        str,
        typer.Option(
            help="minmax: 0 and 1 are the lowest and highest value of each task; given: values as "
            "they are."
        ),
    ] = "minmax",
) -> None:
    """Summarise the results of others: interquartile mean, median, mean and optimality gap."""
    from coopbench.exchange.marl_eval_import import SCALES, read_marl_eval, summary_table
    from coopbench.report.tables.overall import print_table
    from coopbench_envs.parameters import named

    scaled = named("scale", scale, SCALES)
    for found in read_marl_eval(file, absolute).values():
        print_table(summary_table(scaled(found, metric), metric), _console())
        for text in found.missing:
            _say(f"Missing: {text}")


@app.command()
def crossplay(
    protocol: ProtocolName,
    policy: Policies = None,
    task: Annotated[
        list[str] | None, typer.Option(help="Task to play; repeat for more. Default: all.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the matrices. Default: results/PROTOCOL-crossplay."),
    ] = None,
    backend: Backend = "serial",
    workers: Workers = None,
) -> None:
    """Play every policy in one seat beside every policy in the others: a matrix for each task."""
    from coopbench.episodes.table import Cell
    from coopbench.protocol.loading import load_protocol
    from coopbench.report.crossplay import show as show_matrices
    from coopbench.workflows.crossplay import crossplay as run

    found = load_protocol(protocol)
    with _losing(_NOTHING), _Progress() as progress:

        def tell(name: str, done: float) -> None:
            progress(Cell(name, "cross-play"), done, "done" if done == 1.0 else "plays")

        result = run(found, _chosen(policy, found), task, tell, backend, workers)
    show_matrices(result, _console())
    files = result.save(out or Path("results") / f"{found.protocol.name}-crossplay")
    _say(f"Matrices: {files['md']}")


@app.command()
def timed(
    protocol: ProtocolName,
    policy: Annotated[str, typer.Option("--policy", "-p", metavar="NAME", help="Policy to play.")],
    planning: Annotated[
        float | None, typer.Option(help="Seconds to the first action of an episode.")
    ] = None,
    step: Annotated[float | None, typer.Option(help="Seconds for each later action.")] = None,
    total: Annotated[float | None, typer.Option(help="Seconds for the whole evaluation.")] = None,
    timeouts: Annotated[
        int | None, typer.Option(help="Timeouts in a row that end it, 10 if not given.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File for the scores, as JSON.")] = None,
) -> None:
    """Play a protocol's episodes one by one with limits of time; score them as Flatland does.

    Limits are for protocols that have none of their own. An episode that is
    not played to its end scores -1.
    """
    from coopbench.episodes.table import Cell
    from coopbench.playing.recording import check_place
    from coopbench.workflows.timed import timed_evaluate

    if out is not None:
        check_place(out)
    asked = {"planning": planning, "step": step, "total": total, "timeouts": timeouts}
    limits = {name: value for name, value in asked.items() if value is not None}
    with _losing(_NOTHING), _Progress() as progress:

        def tell(name: str, done: float) -> None:
            progress(Cell(name, policy), done, "done" if done == 1.0 else "plays")

        scores = timed_evaluate(protocol, policy, limits or None, progress=tell)
    _say(str(scores))
    if out is not None:
        _say(f"Scores: {scores.save(out)}")


@app.command()
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
            help="File for the page. Default, if no file is asked for: named like the episode."
        ),
    ] = None,
    gif: Annotated[Path | None, typer.Option(help="File for an animated GIF.")] = None,
    save: Annotated[Path | None, typer.Option(help="File (.npz) for the episode itself.")] = None,
    stride: Annotated[
        int | None,
        typer.Option(help="With --gif: steps from picture to picture. Default: to fit into 4 MB."),
    ] = None,
    fps: Annotated[float, typer.Option(help="With --gif: pictures per second.")] = 12,
    size: Annotated[int, typer.Option(help="With --gif: pixels of the longer side at most.")] = 800,
) -> None:
    """Show an episode: on a page that plays it, or as an animated GIF.

    It is played again for that; an episode of results must come out as it did there.
    """
    from coopbench.workflows.replay import show as run

    with _losing("Files that were named are complete; no other was written."):
        for line in run(episode, html, gif, save, stride, fps, size):
            _say(line)


@app.command()
def bench(
    env: Annotated[list[str] | None, typer.Argument(help="Environments; default: all.")] = None,
    seconds: Annotated[float, typer.Option(help="Time for each measurement.")] = 1.0,
) -> None:
    """Measure the speed of environments on this machine, against their own plain-Python twin."""
    from coopbench.bench import run

    run(env, seconds, _say)


@app.command()
def certify(
    env: Annotated[str, typer.Argument(help="An environment of the coopetition families.")],
    out: Annotated[
        Path | None, typer.Option(help="File for the certificate, as JSON; default: none.")
    ] = None,
) -> None:
    """Measure how hard a game is: price of anarchy, temptation, best constant, best sequence.

    The exit status is 1 if a criterion does not hold.
    """
    from coopbench.files import write_text
    from coopbench.theory.certificates import certify as run

    console = _console(stderr=True)
    found = run(env, tell=lambda text: console.print(f"{text} ...", style="dim"))
    _say(found.table())
    if out is not None:
        write_text(out, found.to_json())
    if not found.met:
        raise typer.Exit(1)


@app.command()
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
    """Score how close play comes to a series of investments of your own; 1 = the same."""
    from coopbench.statistics import t_interval
    from coopbench.theory.series import match as run

    values = dict(_assignment(text, "--param") for text in param or [])
    scores = run(env, data, policy, episodes=episodes, seed=seed, **values)
    for name, matching in scores.items():
        found = t_interval(matching)
        ends = f"95 % t interval {found.low:.4f} to {found.high:.4f}"
        notes = "".join(f" ({warning})" for warning in found.warnings)
        _say(f"{name:<28}series matching {found.estimate:.4f}, {ends}{notes}")
    _say(f"{episodes} episodes of each policy in all seats; 1 = the series itself.")


@app.command()
def warmup() -> None:
    """Compile every environment now, so that nothing compiles later."""
    from coopbench.catalogue import warmup as run

    run(lambda env_id: _say(f"compiled {env_id}"))


def main() -> None:
    """Run the command line: errors as one message, no traceback; 130 after an interruption."""
    from coopbench.errors import CoopbenchError, WorkerError

    try:
        status = app(standalone_mode=False)
        if status == 130:  # the command-line library turns an interruption into this status
            raise KeyboardInterrupt
        sys.exit(status if isinstance(status, int) else 0)
    except WorkerError as error:
        _fail(str(error), 1)
    except (CoopbenchError, ValueError, TypeError, FileNotFoundError) as error:
        _fail(_told(error), 2)
    except OSError as error:
        what = f" {error.filename}: {error.strerror}" if error.filename else f": {error}"
        advice = "Finished cells are kept; mend that and run again to go on."
        _fail(f"Could not read or write{what}. {advice}", 1)
    except KeyboardInterrupt:
        _fail("Interrupted.", 130)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except Exception as error:
        if not hasattr(error, "show") or not hasattr(error, "exit_code"):
            raise
        error.show()  # a wrong command or option, told by the command-line library
        sys.exit(error.exit_code)


_NOTHING = "Nothing was written."
_KEPT = "Finished cells are kept; run the same command again to go on."


@contextmanager
def _losing(what: str) -> Iterator[None]:
    """After an interruption, say what became of the work, and end with status 130."""
    try:
        yield
    except KeyboardInterrupt:
        _fail(f"Interrupted. {what}", 130)


def _fail(message: str, code: int) -> None:
    _console(stderr=True).print(f"Error: {message}" if code != 130 else message, markup=False)
    sys.exit(code)


def _told(error: Exception) -> str:
    """Return what an error says, and where it came from."""
    return " ".join([str(error), *getattr(error, "__notes__", [])])


def _say(line: str) -> None:
    _console().print(line, highlight=False, markup=False, soft_wrap=True)


def _console(stderr: bool = False) -> Any:
    from rich.console import Console

    return Console(stderr=stderr)


def _chosen(policy: list[str] | None, protocol: Any) -> list[str]:
    return list(policy or protocol.report.baselines)


def _protocol(name: str, maps: Path | None) -> Any:
    from coopbench.protocol.loading import load_protocol
    from coopbench.protocol.user_maps import with_maps

    found = load_protocol(name)
    return found if maps is None else with_maps(found, maps)


def _ad_hoc(env: str, episodes: int | None, seed: int | None, param: list[str] | None) -> Any:
    from coopbench.protocol.loading import ad_hoc

    values = dict(_assignment(text, "--param") for text in param or [])
    count = 100 if episodes is None else episodes
    return ad_hoc(env, count, 0 if seed is None else seed, **values)


def _play_shard(
    protocol: Any,
    policies: list[str],
    shard: str,
    out: Path | None,
    backend: str,
    workers: int | None,
) -> None:
    """Play a part of an evaluation and say what is still to be done."""
    from coopbench.workflows.shards import play_shard

    if out is None:
        raise ValueError("--shard needs a folder for its results; name one with --out.")
    number, slash, count = shard.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal()):
        raise ValueError(f"--shard takes I/N, for instance 2/3; given {shard!r}.")
    with _Progress() as progress:
        found = play_shard(
            protocol, policies, (int(number), int(count)), out, backend, progress, workers
        )
    for note in found.notes:
        _say(note)
    _say(f"Shard {shard}: its {len(found.cells)} of {found.total} cells are finished.")
    _say(f"{out} holds {found.there} of {found.total} cells.")
    if found.there == found.total:
        _say(f"Next: coopbench merge {out} --out {out}")
    else:
        _say("Next, when all shards are finished: coopbench merge FOLDER... --out DIR")


def _assignment(text: str, option: str, params: type | None = None) -> tuple[str, Any]:
    """Parse NAME=VALUE; the value is TOML where it can be, text otherwise and for text."""
    import tomllib

    from coopbench_envs.parameters import describe as describe_parameters

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{option} takes NAME=VALUE; given {text!r}.")
    name, known = name.strip(), {} if params is None else describe_parameters(params)
    try:
        found = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value
    asked = known[name][0] if name in known else ""
    return name, value.strip() if asked == "str" and not isinstance(found, str) else found


def _present(report: Any, out: Path | None) -> None:
    from coopbench.report.tables.overall import show as show_tables

    console = _console()
    show_tables(report, console)
    if out is None:
        _say("Nothing was written; name a folder with --out to keep the results.")
        return
    files = report.save(out)
    _say(f"Report: {files['html']}")
    if report.results:
        _say(f"Digest of the results: {report.results}")


class _Progress:
    """Bars for what is played now, and a line for each cell that is done, on the error stream.

    Standard output holds the report alone. Without a terminal there are lines and no bars. Where
    every cell takes ``steps``, it is told how many are made in a second.
    """

    def __init__(self, cells: int | None = None, steps: int = 0) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description:<40}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
        )
        console = _console(stderr=True)
        self._bars = Progress(*columns, console=console, disable=not console.is_terminal)
        self._ids: dict[Any, Any] = {}
        self._cells, self._done, self._kept = cells, 0, 0
        self._steps = steps
        self._begun: dict[Any, tuple[float, float]] = {}  # first share done, and when
        self._speeds: dict[Any, str] = {}
        self._all = self._bars.add_task("", total=cells, visible=cells is not None)
        self._count()

    def __enter__(self) -> "_Progress":
        self._bars.start()
        return self

    def __call__(self, cell: Any, done: float, what: str) -> None:
        run = "" if cell.run is None else f" / run {cell.run}"
        title = f"{cell.task} / {cell.policy}{run}"
        if what == "plays":
            if cell not in self._ids:
                self._ids[cell] = self._bars.add_task(title, total=1.0)
            speed = self._speed(cell, done)
            self._bars.update(self._ids[cell], completed=done, description=f"{title}{speed}")
            return
        self._done += 1
        self._kept += what == "kept"
        if cell in self._ids:
            self._bars.remove_task(self._ids.pop(cell))
        self._count()
        if what == "done":
            text = f"{title:<40} done{self._speeds.get(cell, '')}"
            self._bars.console.print(text, highlight=False, markup=False)

    def _speed(self, cell: Any, done: float) -> str:
        """Steps per second since a cell was first heard of; empty where they are not counted."""
        import time

        now = time.monotonic()
        share, begun = self._begun.setdefault(cell, (done, now))
        if self._steps and done > share:
            speed = (done - share) * self._steps / (now - begun)
            self._speeds[cell] = f", {speed:,.0f} steps/s"
        return self._speeds.get(cell, "")

    def _count(self) -> None:
        kept = f", {self._kept} kept" if self._kept else ""
        text = f"{self._done} of {self._cells} cells{kept}"
        self._bars.update(self._all, completed=self._done, description=text)

    def __exit__(self, *exception: Any) -> None:
        self._bars.stop()
