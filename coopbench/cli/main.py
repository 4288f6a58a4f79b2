"""Entry point of the command line: the table of commands, and how errors end a command."""

import ast
import os
import sys
import warnings
from collections.abc import Callable
from inspect import getdoc, getsource
from typing import Annotated, Any, NoReturn, cast

import typer

from coopbench import __version__
from coopbench.cli.commands import catalogue, planning, playing, rail, results
from coopbench.cli.console import KEPT, UNWRAPPED, UNWRITABLE, fail, message, say, wraps
from coopbench.timed.command import timed

# The commands under the headings of the help, in the order in which a newcomer needs them; a
# command may return text, which is shown.
PANELS: dict[str, dict[str, Callable[..., str | None] | typer.Typer]] = {
    "Start": {
        "list": catalogue.list_all,
        "show": catalogue.show,
        "evaluate": playing.evaluate,
    },
    "Look at results": {
        "replay": playing.replay,
        "report": results.report,
    },
    "Train": {
        "train": playing.train,
        "plan": planning.plan,
    },
    "Compare and exchange": {
        "merge": results.merge,
        "crossplay": playing.crossplay,
        "timed": timed,
        "leaderboard": results.leaderboard,
        "export": results.export_results,
        "import": results.import_results,
        "rail": rail.rail,
    },
    "Check and prepare": {
        "verify": results.verify,
        "check": catalogue.check,
        "doctor": catalogue.doctor,
        "warmup": catalogue.warmup,
    },
}


class _Panels(typer.core.TyperGroup):
    """A group whose help has the headings of ``PANELS`` without frames, too."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for panel in PANELS.values() for name in panel]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for heading, panel in PANELS.items():
            with formatter.section(heading):
                shown = [(name, self.commands[name].get_short_help_str(200)) for name in panel]
                formatter.write_dl(shown)


app = typer.Typer(
    name="coopbench",
    cls=_Panels,
    help="Evaluate multi-agent policies on fixed tasks; report scores with intervals and tests.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _help(command: Any) -> str:
    """Return what a command does, from its source where Python runs without docstrings (-OO)."""
    text = getdoc(command)
    if text is None:
        (function,) = ast.parse(getsource(command)).body
        text = ast.get_docstring(cast("ast.FunctionDef", function)) or ""
    # Lines of a docstring are no lines of a terminal, paragraphs are.
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


for heading, panel in PANELS.items():
    for command_name, command in panel.items():
        if isinstance(command, typer.Typer):
            for one in command.registered_commands:
                one.help = one.help or _help(one.callback)
            app.add_typer(command, name=command_name, rich_help_panel=heading)
        else:
            app.command(command_name, help=_help(command), rich_help_panel=heading)(command)

_REGISTER = "What needs the file of an environment takes --register FILE.py:SPEC."
# (command, its option or a command below it) that are spelled otherwise, and what to write.
_SPELLED = {
    ("evaluate", "--env"): "An environment is the first argument of evaluate.",
    ("verify", "--env"): "The code of an environment is executed with --execute NAME.",
    ("show", "--env"): _REGISTER,
    ("merge", "--env"): _REGISTER,
    ("report", "--env"): _REGISTER,
    ("leaderboard", "--env"): _REGISTER,
    ("export", "--env"): _REGISTER,
    ("replay", "--env"): _REGISTER,
    ("train", "--seed"): "Training runs are named by their seeds: --run SEED.",
    ("train", "--runs"): "Training runs are named by their seeds: --run SEED.",
    ("import", "--runs"): "The folders of runs are given by --folders PATTERN.",
    ("import", "--absolute"): "A note of the report says what the file's scores are.",
    ("replay", "--html"): "The ending says what is written: --out FILE.html.",
    ("replay", "--gif"): "The ending says what is written: --out FILE.gif.",
    ("replay", "--save"): "The ending says what is written: --out FILE.npz.",
    ("replay", "--fps"): "In Python: coopbench.find_episode(EPISODE).to_gif(FILE, fps=...).",
    ("replay", "--size"): "In Python: coopbench.find_episode(EPISODE).to_gif(FILE, side=...).",
    ("verify", "--key"): "In Python: coopbench.verify(FOLDER, key=...).",
    ("warmup", "--into"): "Set COOPBENCH_WHEEL=1 and COOPBENCH_KERNELS to the folder.",
    ("plan power", "--run-sd"): "Give --sd RUNS,EPISODES.",
    ("plan power", "--episode-sd"): "Give --sd RUNS,EPISODES; ,0.2 is of episodes alone.",
    ("plan power", "--trials"): "Every power is that of 200 simulated reports.",
    ("plan", "cells"): "The cells are listed by 'coopbench evaluate PROTOCOL --dry-run'.",
}
# Commands that write finished cells into a folder and resume there.
_RESUMABLE = {"evaluate", "train", "merge", "crossplay"}
_TOO_LARGE = {
    MemoryError: "Not enough memory; choose smaller numbers",
    OverflowError: "A number is too large; choose a smaller one",
    RecursionError: "A file is nested too deeply",
}


def _print_version(wanted: bool) -> None:
    """Print the version and stop, if it is wanted."""
    if wanted:
        say(f"coopbench {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Evaluate multi-agent policies on fixed tasks; report scores with intervals and tests."""


def main() -> None:
    """Run the command line: errors are one message without a traceback; 130 after Ctrl-C."""
    layout: dict[str, Any] = {}
    if not wraps():  # frames have a width, too
        layout["terminal_width"] = UNWRAPPED
    app.rich_markup_mode = None if layout else "rich"
    usual, warnings.formatwarning = warnings.formatwarning, _warning
    try:
        status = app(standalone_mode=False, **layout)
        if status == 130:  # how the command-line library returns an interruption
            raise KeyboardInterrupt
        if isinstance(status, str):  # what a command returns is shown
            say(status)
        sys.exit(status if isinstance(status, int) else 0)
    except KeyboardInterrupt:
        fail("Interrupted.", 130)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except Exception as error:
        _end(error)
    finally:
        warnings.formatwarning = usual


def _warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Return a warning as one line, without the place in this package that it comes from."""
    return f"Warning: {message}\n"


def _end(error: Exception) -> NoReturn:
    """Print the message of an error that a user can mend and exit; raise any other error again."""
    from coopbench.errors import CoopbenchError, DamagedResultError, WorkerError
    from coopbench.playing.jobs import comes_from_own_code

    if isinstance(error, BrokenPipeError):  # the reader has stopped; results are written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    if isinstance(error, (WorkerError, DamagedResultError)):
        fail(str(error), 1)
    if comes_from_own_code(error):
        fail(f"{type(error).__name__}: {message(error)}", 1)
    for kind, reason in _TOO_LARGE.items():
        if isinstance(error, kind):
            fail(f"{reason} ({message(error) or type(error).__name__}).", 2)
    said = isinstance(error, OSError) and error.errno is None  # raised by this package
    if said or isinstance(error, (CoopbenchError, ValueError, TypeError, FileNotFoundError)):
        fail(message(error), 2)
    if isinstance(error, OSError):
        cause = f" {error.filename}: {error.strerror}" if error.filename else f": {error}"
        mended = "Fix the problem"
        if error.errno in UNWRITABLE:
            mended = "Make the folder writable, or name a copy of it that is"
        resumed = _RESUMABLE & {*sys.argv[1:2]}
        advice = f"{mended}. {KEPT}" if resumed else f"{mended}, and try again."
        fail(f"Could not read or write{cause}. {advice}", 1)
    if hasattr(error, "show") and hasattr(error, "exit_code"):
        _show(error)
        sys.exit(error.exit_code)
    raise error


def _show(error: Any) -> None:
    """Print what is wrong with a command or an option, in the words of the command-line library.

    In a terminal it draws a frame; elsewhere a frame would break the sentence into lines.
    """
    helps = "NoArgs" in type(error).__name__  # its message is the help
    if helps or sys.stderr.isatty() or not getattr(error, "message", ""):
        error.show()
        return
    context = getattr(error, "ctx", None)
    usage = context.get_usage() if context is not None else ""
    names = list[str]()  # of the command and those above it, but the program
    while context is not None and context.parent is not None:
        names, context = [context.info_name, *names], context.parent
    wrong = getattr(error, "option_name", None) or "".join(error.message.split("'")[1:2])
    spelled = _SPELLED.get((" ".join(names), wrong), "")
    say(f"{usage}\nError: {error.format_message()} {spelled}".strip(), stderr=True)
