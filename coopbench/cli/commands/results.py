"""Commands on results folders and files: merge, report, verify, leaderboard, export, import."""

from pathlib import Path
from shlex import quote

import typer

from coopbench.cli.console import NOTHING, UNWRITABLE, console, interruption, present, say
from coopbench.cli.options import (
    Backend,
    Environments,
    PlayShipped,
    Workers,
    argument,
    option,
    to_folder,
)
from coopbench.playing.bars import Bars


def merge(
    folders: list[Path] = argument("Results folders of one protocol.", metavar="FOLDER..."),
    out: Path = option(
        "Folder for all their results and the report.",
        default=...,
        metavar="FOLDER",
        callback=to_folder,
    ),
    env: Environments = None,
) -> None:
    """Combine the results of several folders and write one report.

    Cells are copied and their checksums verified; damaged cells are left out
    and listed. If all shards wrote into one folder: coopbench merge FOLDER
    --out FOLDER.
    """
    from coopbench.workflows.merging import merge as run

    with interruption("Cells that were copied are kept; rerun the same command to resume."):
        present(run(folders, out), out)
    say(f"No episode was played again; to find forged results: coopbench verify {quote(str(out))}")


def report(
    folder: Path = argument("A results folder of 'coopbench evaluate'."),
    env: Environments = None,
) -> None:
    """Write the report of a results folder again from its episodes.

    In a folder that is read-only the report is printed and not written.
    """
    from coopbench.report.loading import load_report
    from coopbench.report.terminal import show as show_tables

    with interruption("Files of the report may be missing; rerun the same command."):
        loaded = load_report(folder)
        try:
            loaded.save(folder)
        except OSError as error:
            if error.errno in UNWRITABLE:
                show_tables(loaded.document, console())
            raise
        present(loaded, folder)


def verify(
    folder: Path = argument("A results folder of 'coopbench evaluate'."),
    backend: Backend = "auto",
    workers: Workers = None,
    out: Path | None = option(
        "File for the findings, as JSON.",
        metavar="FILE",
    ),
    trust: list[str] | None = option(
        "Execute the stored code with this SHA-256 digest (12 or more digits), to play its cells "
        "again completely; repeat for more. Read the code first.",
        metavar="DIGEST",
    ),
    execute: list[str] | None = option(
        "Execute the code of this environment to play its cells again: of a package, such as "
        "gymnasium:CartPole-v1, or of a file, FILE.py:SPEC; repeat for more.",
        metavar="NAME",
    ),
    play_shipped: PlayShipped = False,
) -> None:
    """Play a results folder again and check whether every part can be reproduced.

    The exit status is 1 if anything is different, missing or not verifiable.
    """
    from coopbench.files import write_text
    from coopbench.playing.recording import check_place
    from coopbench.workflows.verification import verify as run
    from coopbench.workflows.verified import show as show_verification

    if out is not None:
        check_place(out)
    with interruption(NOTHING), Bars() as progress:
        verification = run(
            folder,
            backend,
            workers,
            progress.cell,
            trust or (),
            execute or (),
            play_shipped=play_shipped,
        )
    show_verification(verification, console())
    if out is not None:
        write_text(out, verification.to_json())
        say(f"Findings: {out}")
    if not verification.holds:
        raise typer.Exit(1)


def leaderboard(
    folders: list[Path] = argument(
        "Results folders; the first one decides the protocol.", metavar="FOLDER..."
    ),
    out: Path = option(
        "File for the page, FILE.html; its data are saved next to it as JSON.",
        default=...,
        metavar="FILE",
    ),
    unverified: str = option(
        "Folders without a manifest or with missing cells: refuse or mark.", default="refuse"
    ),
    env: Environments = None,
    backend: Backend = "auto",
    workers: Workers = None,
) -> None:
    """Verify results folders and merge them into one static page; refuse folders that differ."""
    from coopbench.workflows.leaderboard import check_page
    from coopbench.workflows.leaderboard import leaderboard as run

    check_page(out)
    with interruption(NOTHING), Bars() as progress:
        board = run(folders, unverified, backend, workers, progress.cell)
    for note in board.notes:
        say(f"Note: {note}")
    page, data = board.save(out)
    say(f"Leaderboard: {page}, {data}")


def export_results(
    folder: Path = argument("A results folder of 'coopbench evaluate'."),
    to: Path = option(
        "File to write, in the JSON of marl-eval.",
        default=...,
        metavar="FILE",
    ),
    policy: list[str] | None = option(
        "Policy to export, or POLICY=NAME to rename it; repeat for more. Default: all.",
        "--policy",
        "-p",
        metavar="NAME",
    ),
    metric: list[str] | None = option(
        "Metric to export; repeat for more. Default: return and score.", metavar="NAME"
    ),
    env: Environments = None,
) -> None:
    """Export the results of a folder as JSON for marl-eval; what it would not accept is listed.

    For other formats, Report.to_frame() makes data frames of pandas.
    """
    from coopbench.exchange.marl_eval_export import save_marl_eval
    from coopbench.playing.recording import check_place
    from coopbench.report.loading import load_report
    from coopbench.results.folder import LEFT_OUT

    check_place(to)
    if to.suffix.lower() != ".json":
        raise ValueError(
            f"--to was {to}; allowed: a .json file for marl-eval. A table of all episodes is "
            f"coopbench.load_report({str(folder)!r}).to_frame().to_csv({str(to)!r})."
        )
    results = load_report(folder)
    present = {block.cell.policy for block in results.episodes}
    notes = save_marl_eval(results, to, _renamed(policy, present), metric)
    for note in results.notes:
        if note.startswith(LEFT_OUT):
            say(f"Not exported: {note.removeprefix(LEFT_OUT)}")
    for failure in results.episodes.failures:
        where = f"{failure.cell.task} / {failure.cell.policy} / run {failure.cell.run}"
        say(f"Not exported: {where} failed: {failure.reason}")
    for text in notes:
        say(f"Note: {text}.")
    say(f"Exported: {to}")


def import_results(
    file: Path = argument(
        "A .csv file with the columns algorithm, task, run and one for each metric; a .json file "
        "of marl-eval or a folder of them; or a folder with event files of TensorBoard."
    ),
    metric: str = option("Metric to use as the score.", default="return"),
    scale: str = option(
        "minmax: 0 and 1 are the lowest and highest value of each task; given: scores are already "
        "normalized.",
        default="minmax",
    ),
    columns: str = option(
        "Names of the columns algorithm, task, run, step and episode, for instance "
        "algorithm=algo,task=env,run=seed,step=global_step.",
        default="",
        metavar="LABEL=NAME,...",
    ),
    folders: str = option(
        "Pattern of the folders of runs of TensorBoard, for instance "
        "'{task}__{algorithm}__{run}__*'.",
        default="{algorithm}/{task}/{run}",
        metavar="PATTERN",
    ),
    out: Path | None = option(
        "Folder for the report. By default no report is written.",
        metavar="FOLDER",
        callback=to_folder,
    ),
) -> None:
    """Make the report of results of other programs, with the same tables and plots as of our own.

    What cannot be compared with the rest is left out, and named in the notes.
    """
    from coopbench_envs.rail.importing import is_railway

    if is_railway(file):
        place = quote(str(file))
        raise ValueError(f"{file} is a railway: 'coopbench rail import {place} --out FILE.npz'.")
    from coopbench.exchange.imports import import_results as read

    with interruption("Files of the report may be missing; rerun the same command."):
        chosen = read(file, metric, scale, columns=_pairs(columns), folders=folders)
        if out is not None:
            chosen.save(out)
        present(chosen, out)


def _renamed(texts: list[str] | None, present: set[str]) -> dict[str, str] | None:
    """Parse the policies to export, POLICY or POLICY=NAME; names may have signs of equality."""
    names = {}
    for text in texts or ():
        policy, equals, name = text.rpartition("=")
        whole = text in present or not equals
        names[text if whole else policy] = text if whole else name
    return names or None


def _pairs(text: str) -> dict[str, str]:
    """Parse "label=name,label=name"."""
    names = dict[str, str]()
    for part in filter(None, text.split(",")):
        label, _, name = (word.strip() for word in part.partition("="))
        if not name or label in names:
            wrong = "is named twice" if name else "has no name"
            raise ValueError(
                f"--columns was {text!r}; allowed: LABEL=NAME, several with commas, each label "
                f"once; {label!r} {wrong}."
            )
        names[label] = name
    return names
