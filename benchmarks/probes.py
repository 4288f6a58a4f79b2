"""Runs probes: scripts of ``benchmarks/peers`` that measure one program in its own interpreter.

A probe prints, as its last line, JSON with ``steps``, ``seconds`` of processor time and
``versions``. Probes that are compared run in turns, so that what else the machine does slows all of
them alike, and every figure is the median of several rounds.
"""

import json
import os
import statistics
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

SCRIPTS = Path(__file__).resolve().parent / "peers"
LIMIT = 300.0  # seconds on the clock of one run
ONE_CORE = {
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


class Probe(NamedTuple):
    """A script of ``benchmarks/peers``, and how it is run."""

    python: Path  # interpreter
    script: str
    arguments: tuple[str, ...] = ()
    settings: Mapping[str, str] = {}  # variables of the environment


class Measured(NamedTuple):
    """What one run of a probe has printed."""

    rate: float  # steps per second of processor time
    versions: dict[str, str]


class ProbeError(Exception):
    """A probe that has no result; the message says why, in one line."""


class MissingError(ProbeError):
    """A probe whose interpreter does not exist."""


def measure(probe: Probe, limit: float = LIMIT) -> Measured:
    """Run a probe once; raise ``ProbeError`` if its program is missing or fails."""
    if not probe.python.is_file():
        raise MissingError("not installed")
    try:
        run = subprocess.run(
            [probe.python, SCRIPTS / probe.script, *probe.arguments],
            env=os.environ | ONE_CORE | {"PYTHONWARNINGS": "ignore"} | probe.settings,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ProbeError(f"{probe.script}: not finished after {limit:g} s") from None
    except OSError as error:
        raise ProbeError(f"{probe.script}: does not start: {error.strerror}") from None
    lines = run.stdout.strip().splitlines()
    if run.returncode or not lines:
        reason = (run.stderr.strip().splitlines() or ["printed nothing"])[-1]
        raise ProbeError(f"{probe.script}: {reason}")
    try:
        line = json.loads(lines[-1])
        return Measured(line["steps"] / line["seconds"], line["versions"])
    except (ValueError, KeyError, TypeError, ZeroDivisionError):
        raise ProbeError(f"{probe.script}: printed {lines[-1]!r} instead of its result") from None


class Pair(NamedTuple):
    """Two programs measured in turns."""

    first: float  # steps per second of processor time, median
    second: float
    ratio: float  # of the first to the second, median of the rounds
    versions: dict[str, str]  # of the second


def compare(first: Probe, second: Probe, rounds: int) -> Pair:
    """Run two probes in turns and return the medians; raise ``ProbeError`` if one has no result."""
    runs = [(measure(second), measure(first)) for _ in range(rounds)]
    ours, theirs = [run[1].rate for run in runs], [run[0].rate for run in runs]
    return Pair(
        statistics.median(ours),
        statistics.median(theirs),
        statistics.median(a / b for a, b in zip(ours, theirs, strict=True)),
        runs[0][0].versions,
    )
