"""Command line: list, show, plan, evaluate, report, crossplay, replay, certify, match and more."""

import sys
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
    str, typer.Option(help="Where cells are played: serial, or several at a time in processes.")
]
Workers = Annotated[
    int | None,
    typer.Option(help="With --backend processes: how many. Default: one per usable core."),
]


@app.command("list")
def list_all() -> None:
    """List environments, policies and protocols."""
    from coopbench import catalogue

    console = _console()
    for title, names in (
        ("Environments", dict.fromkeys(catalogue.environments(), "")),
        ("Policies", catalogue.policies()),
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
    from coopbench.plan import plan
    from coopbench.protocol import load_protocol

    found = load_protocol(protocol)
    cells = plan(found, _chosen(policy, found))
    tasks = {task.id: task for task in found.task}
    for cell, _ in cells:
        _say(f"{cell.task:<24}{cell.policy:<20}{found.episodes(tasks[cell.task]):>6} episodes")
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
    from coopbench.evaluation import evaluate as run
    from coopbench.maps import with_maps
    from coopbench.protocol import ad_hoc, load_protocol

    if (protocol is None) == (env is None):
        raise ValueError("Name either a PROTOCOL or an environment with --env.")
    if env is not None:
        if maps is not None:
            raise ValueError("--maps goes with a PROTOCOL; with --env give map_params.")
        values = dict(_assignment(text) for text in param or [])
        count = 100 if episodes is None else episodes
        found = ad_hoc(env, count, 0 if seed is None else seed, **values)
        chosen = policy or ["random"]
    else:
        if episodes is not None or seed is not None or param:
            raise ValueError(
                "--episodes, --seed and --param go with --env: a protocol fixes its own."
            )
        found = load_protocol(str(protocol))
        found = found if maps is None else with_maps(found, maps)
        chosen = _chosen(policy, found)
        out = out or Path("results") / found.protocol.name
    with _Progress(len(found.task) * len(chosen)) as progress:
        report = run(found, chosen, out, backend, progress, workers)
    _present(report, out)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A results folder of 'coopbench evaluate'.")],
) -> None:
    """Make the report of a results folder anew from its episodes."""
    from coopbench.evaluation import load_report

    _present(load_report(folder), folder)


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
    from coopbench.episodes import Cell
    from coopbench.pairing import crossplay as run
    from coopbench.protocol import load_protocol
    from coopbench.report.crossplay import show as show_matrices

    found = load_protocol(protocol)
    try:
        with _Progress() as progress:

            def tell(name: str, done: float) -> None:
                progress(Cell(name, "cross-play"), done, "done" if done == 1.0 else "plays")

            result = run(found, _chosen(policy, found), task, tell, backend, workers)
    except KeyboardInterrupt:
        _fail("Interrupted. Nothing was written.", 130)
    show_matrices(result, _console())
    files = result.save(out or Path("results") / f"{found.protocol.name}-crossplay")
    _say(f"Matrices: {files['md']}")


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
    from coopbench.replay import show as run

    try:
        for line in run(episode, html, gif, save, stride, fps, size):
            _say(line)
    except KeyboardInterrupt:
        _fail("Interrupted. Files that were named are complete; no other was written.", 130)


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
    from coopbench.certificates import certify as run
    from coopbench.store import write_text

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
    from coopbench.series import match as run
    from coopbench.statistics import t_interval

    values = dict(_assignment(text) for text in param or [])
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
    from coopbench.backends import WorkerError
    from coopbench.protocol import ProtocolError

    try:
        status = app(standalone_mode=False)
        if status == 130:  # the command-line library turns an interruption into this status
            raise KeyboardInterrupt
        sys.exit(status if isinstance(status, int) else 0)
    except (ProtocolError, ValueError, TypeError, FileNotFoundError) as error:
        _fail(_told(error), 2)
    except OSError as error:
        what = f" {error.filename}: {error.strerror}" if error.filename else f": {error}"
        advice = "Finished cells are kept; mend that and run again to go on."
        _fail(f"Could not read or write{what}. {advice}", 1)
    except WorkerError as error:
        _fail(str(error), 1)
    except KeyboardInterrupt:
        _fail("Interrupted. Finished cells are kept; run the same command again to go on.", 130)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except Exception as error:
        if not hasattr(error, "show") or not hasattr(error, "exit_code"):
            raise
        error.show()  # a wrong command or option, told by the command-line library
        sys.exit(error.exit_code)


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


def _assignment(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE; the value is TOML where it can be, text otherwise."""
    import tomllib

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"--param takes NAME=VALUE; given {text!r}.")
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value


def _present(report: Any, out: Path | None) -> None:
    from coopbench.report.tables import show as show_tables

    console = _console()
    show_tables(report, console)
    if out is None:
        _say("Nothing was written; name a folder with --out to keep the results.")
        return
    files = report.save(out)
    _say(f"Report: {files['html']}")


class _Progress:
    """Bars for what is played now, and a line for each cell that is done, on the error stream.

    Standard output holds the report alone. Without a terminal there are lines and no bars.
    """

    def __init__(self, cells: int | None = None) -> None:
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
        self._all = self._bars.add_task("", total=cells, visible=cells is not None)
        self._count()

    def __enter__(self) -> "_Progress":
        self._bars.start()
        return self

    def __call__(self, cell: Any, done: float, what: str) -> None:
        title = f"{cell.task} / {cell.policy}"
        if what == "plays":
            if cell not in self._ids:
                self._ids[cell] = self._bars.add_task(title, total=1.0)
            self._bars.update(self._ids[cell], completed=done)
            return
        self._done += 1
        self._kept += what == "kept"
        if cell in self._ids:
            self._bars.remove_task(self._ids.pop(cell))
        self._count()
        if what == "done":
            self._bars.console.print(f"{title:<40} done", highlight=False, markup=False)

    def _count(self) -> None:
        kept = f", {self._kept} kept" if self._kept else ""
        text = f"{self._done} of {self._cells} cells{kept}"
        self._bars.update(self._all, completed=self._done, description=text)

    def __exit__(self, *exception: Any) -> None:
        self._bars.stop()
