"""Runs of other programs, as readers of files find them and as a report needs them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from coopbench.episodes.names import one_line
from coopbench_envs.reading import read_regular

_LIMIT = 1 << 29  # bytes; the largest published experiments have less
LABELS = ("algorithm", "task", "run")  # of a run
Samples: TypeAlias = Mapping[str, np.ndarray]  # metric -> (values,) float64


@dataclass(frozen=True)
class Options:
    """What the caller says about a file."""

    metric: str = "return"  # the score
    columns: Mapping[str, str] = field(default_factory=dict)  # {label: name of the column}
    folders: str = "{algorithm}/{task}/{run}"  # pattern of the folders of runs


class Evaluation(NamedTuple):
    """An evaluation of a run along its training."""

    step: int  # of the environment, trained so far
    samples: Samples


@dataclass(frozen=True)
class Run:
    """One run of an algorithm on a task."""

    environment: str
    task: str
    algorithm: str
    name: str
    evaluations: tuple[Evaluation, ...]  # by rising step
    absolute: Samples  # what the run is judged by; empty if the file has none
    source: str = ""  # the file or folder that holds it

    @property
    def label(self) -> str:
        """How messages call the run."""
        return f"{self.environment} / {self.task} / {self.algorithm} / {self.name}"

    @property
    def samples(self) -> tuple[Samples, ...]:
        """The metrics of all evaluations, and what the run is judged by."""
        return (*(part.samples for part in self.evaluations), self.absolute)


class Reading(NamedTuple):
    """What a reader has found."""

    runs: tuple[Run, ...]
    left_out: tuple[str, ...] = ()
    last: bool = False  # runs have evaluations alone, and are judged by the last one


def untrained(runs: Iterable[Run]) -> set[str]:
    """Return the algorithms that were not trained: all their runs have step 0 alone."""
    steps: dict[str, set[int]] = {}
    for run in runs:
        steps.setdefault(run.algorithm, set()).update(part.step for part in run.evaluations)
    return {name for name, found in steps.items() if found == {0}}


def read_import(path: Path) -> bytes:
    """Return the content of a file to import.

    Raises ``FileNotFoundError`` if there is none, and ``ValueError`` if it is too large or cannot
    be read.
    """
    try:
        return read_regular(path, _LIMIT)
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no file {path} to import.") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read as a file: {error.strerror}.") from None


def visible(folder: Path, pattern: str) -> tuple[list[Path], list[str]]:
    """Return the files below a folder whose names fit, and a line for each that is not read.

    Hidden files and folders hold copies, such as those of editors and file managers. Links to
    folders are not followed: they may lead back.
    """
    files, unread = list[Path](), list[str]()
    for file in sorted(file for file in folder.rglob(pattern) if file.is_file()):
        if any(part.startswith(".") for part in file.relative_to(folder).parts):
            unread.append(f"{file}, which is hidden")
        else:
            files.append(file)
    links = sorted(path for path in folder.rglob("*") if path.is_symlink() and path.is_dir())
    unread += [f"{path}, which is a link to a folder" for path in links]
    return files, unread


def check_distinct(runs: Iterable[Run]) -> None:
    """Raise ``ValueError`` for a run that two files or folders hold."""
    holders: dict[str, str] = {}
    for run in runs:
        holder = holders.setdefault(run.label, run.source)
        if holder != run.source:
            raise ValueError(
                f"{holder} and {run.source} both hold the run {run.label}; move one of them away, "
                f"or tell folders apart with --folders, such as '{{algorithm}}/{{task}}/{{run}}'."
            )


def labels_of(name: str, pattern: str, default: str) -> tuple[str, str, str]:
    """Return algorithm, task and run of a folder: the texts at their places in a pattern.

    A pattern such as "{task}__{algorithm}__{run}__*" has these in braces, and ``*`` for any text;
    a label that it leaves out is the ``default``. Raises ``ValueError`` if it does not fit.
    """
    expression = re.escape(pattern).replace(r"\*", ".*")
    for label in LABELS:
        text = ".+?" if label == "task" else "[^/]+?"  # ids of tasks may have a namespace
        expression = expression.replace(rf"\{{{label}\}}", f"(?P<{label}>{text})", 1)
    if r"\{" in expression:
        allowed = ", ".join(f"{{{label}}}" for label in LABELS)
        raise ValueError(f"The pattern {pattern!r} has other braces; allowed: {allowed}, once, *.")
    match = re.fullmatch(expression, name)
    if match is None:
        raise ValueError(
            f"The folder {one_line(name)!r} of a run does not fit {pattern}; name a pattern with "
            f"--folders, such as '{{task}}__{{algorithm}}__{{run}}__*'."
        )
    algorithm, task, run = (one_line(match.groupdict().get(label, default)) for label in LABELS)
    return algorithm, task, run
