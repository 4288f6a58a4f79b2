"""Curves: scores along the training, as other programs log them, as runs that can be compared."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coopbench.episodes.names import one_line
from coopbench.exchange.runs import LABELS, Reading, Run

_PARTS = (20, 10, 5, 2, 1)  # of the training, over which irregular values are averaged
# How programs name runs: folders of one's own, CleanRL, Stable-Baselines3's logs for TensorBoard.
_PATTERNS = (
    "{algorithm}/{task}/{run}",
    "{task}__{algorithm}__{run}__*",
    "{task}__{algorithm}__{run}",
    "{algorithm}_{run}",
)


@dataclass(frozen=True)
class Curve:
    """The scores of one run along its training."""

    algorithm: str
    task: str
    run: str
    steps: np.ndarray  # (evaluations,) int64, rising
    values: tuple[np.ndarray, ...]  # for each evaluation (values,) float64

    @property
    def label(self) -> str:
        """How messages call the run."""
        return f"{self.task} / {self.algorithm} / {self.run}"


def labels_of(names: Sequence[str], pattern: str, place: Path) -> list[tuple[str, str, str]]:
    """Return algorithm, task and run of every name, by a pattern that fits all of them.

    A pattern such as "{task}__{algorithm}__{run}__*" has these three in braces, and ``*`` for any
    text; a task or an algorithm that it leaves out is called as ``place`` is. Without a pattern
    those of usual programs are tried. Raises ``ValueError`` if none fits, and for two runs of one
    algorithm, task and run.
    """
    for tried in [pattern] if pattern else _PATTERNS:
        found = [_matched(tried, name) for name in names]
        fitting = [parts for parts in found if parts is not None]
        if len(fitting) == len(names):
            stem = one_line(place.stem)
            labels = [
                (parts.get("algorithm", stem), parts.get("task", stem), parts.get("run", "0"))
                for parts in fitting
            ]
            check_distinct(
                zip(names, labels, strict=True),
                place,
                "rename one, or name a pattern with --runs that tells them apart, such as "
                "'{task}__{algorithm}__{run}'",
            )
            return labels
    odd = next(name for name, parts in zip(names, found, strict=True) if parts is None)
    raise ValueError(
        f"{place}: the run {one_line(odd)!r} does not fit {pattern or ' or '.join(_PATTERNS)}; "
        f"name a pattern with --runs, such as '{{algorithm}}/{{task}}/seed-{{run}}'."
    )


def check_distinct(
    runs: Iterable[tuple[str, tuple[str, str, str]]], place: Path, advice: str
) -> None:
    """Raise ``ValueError`` for two runs of one algorithm, task and run.

    ``runs`` are their names in ``place`` with these labels; ``advice`` says how to tell them apart.
    """
    names: dict[tuple[str, str, str], str] = {}
    for name, label in runs:
        if label in names:
            algorithm, task, run = label
            raise ValueError(
                f"{place}: {one_line(names[label])!r} and {one_line(name)!r} are both the run "
                f"{run!r} of {algorithm!r} on {task!r}; {advice}."
            )
        names[label] = name


def whole_step(step: float, where: str) -> int:
    """Return a number of steps; raise ``ValueError`` unless it is a whole one, 0 to 2^63 - 1."""
    if not (0 <= step < 1 << 63 and step == int(step)):
        raise ValueError(f"{where}: the step is {step:g}; allowed: whole numbers >= 0.")
    return int(step)


def _matched(pattern: str, name: str) -> dict[str, str] | None:
    """Return the parts of a name, or None if it does not fit."""
    expression = ""
    for part in re.split(r"(\{\w+\}|\*)", pattern):
        label = part.strip("{}")
        if part == "*":
            expression += ".*"
        elif part.startswith("{"):
            if label not in LABELS or f"<{label}>" in expression:
                raise ValueError(
                    f"The pattern {pattern!r} has {part}; allowed: "
                    f"{', '.join(f'{{{name}}}' for name in LABELS)}, each once, and *."
                )
            expression += rf"(?P<{label}>[^/]+?)"
        else:
            expression += re.escape(part)
    match = re.fullmatch(expression, name)
    return match and {key: one_line(text) for key, text in match.groupdict().items()}


def runs_of(curves: Sequence[Curve], environment: str, metric: str) -> Reading:
    """Return curves as runs, whose score is that of the last evaluation.

    Runs of a task that were evaluated at the same steps are compared at these. Where steps differ,
    as they do in logs of the training, values are averaged over equal parts of the training that
    all runs have gone through. Returns also what was left out.
    """
    runs, left_out = list[Run](), list[str]()
    for task in dict.fromkeys(curve.task for curve in curves):
        members = [curve for curve in curves if curve.task == task and len(curve.steps)]
        left_out += [
            f"{curve.label}, without a value of {metric}"
            for curve in curves
            if curve.task == task and not len(curve.steps)
        ]
        if members:
            kept, notes = _regular(members) if _are_regular(members) else _averaged(members)
            left_out += notes
            runs += [_run(curve, environment, metric) for curve in kept]
    return Reading(tuple(runs), tuple(left_out), "last")


def _run(curve: Curve, environment: str, metric: str) -> Run:
    values = np.stack(curve.values)
    labels = environment, curve.task, curve.algorithm, curve.run
    return Run(*labels, curve.steps, {metric: values}, {metric: values[-1]})


def _are_regular(curves: Sequence[Curve]) -> bool:
    """Whether runs share at least half of the steps of the shortest of them."""
    shared = set.intersection(*(set(curve.steps.tolist()) for curve in curves))
    return 2 * len(shared) >= min(len(curve.steps) for curve in curves)


def _regular(curves: Sequence[Curve]) -> tuple[list[Curve], list[str]]:
    """Return curves with the usual number of values at every step."""
    counts = Counter(len(values) for curve in curves for values in curve.values)
    usual = counts.most_common(1)[0][0]
    kept, left_out = [], []
    for curve in curves:
        places = [k for k, values in enumerate(curve.values) if len(values) == usual]
        odd = len(curve.values) - len(places)
        if odd:
            left_out.append(
                f"{odd} of {len(curve.values)} evaluations of {curve.label}, with another number "
                f"of values than {usual}"
            )
        if places:
            values = tuple(curve.values[k] for k in places)
            kept.append(_changed(curve, curve.steps[places], values))
    return kept, left_out


def _averaged(curves: Sequence[Curve]) -> tuple[list[Curve], list[str]]:
    """Return curves of means over equal parts of the training."""
    usual = float(np.median([curve.steps[-1] for curve in curves]))
    short = [curve for curve in curves if curve.steps[-1] < usual / 2]
    left_out = [
        f"{curve.label}, which ends at step {curve.steps[-1]}, others at about {usual:.0f}"
        for curve in short
    ]
    kept = [curve for curve in curves if curve.steps[-1] >= usual / 2]
    last = max(1, min(int(curve.steps[-1]) for curve in kept))
    for parts in _PARTS:
        ends = np.arange(1, parts + 1) * last // parts
        means = [_means(curve, ends) for curve in kept]
        if all(np.isfinite(row).all() for row in means):
            break
    left_out.append(
        f"steps of {kept[0].task}, which differ between runs: values are means over {parts} equal "
        f"parts of the first {last} steps"
    )
    return [
        _changed(curve, ends, tuple(row[:, None])) for curve, row in zip(kept, means, strict=True)
    ], left_out


def _means(curve: Curve, ends: np.ndarray) -> np.ndarray:
    """Return the mean of the values in each part, (parts,); nan where there are none."""
    part = np.searchsorted(ends, curve.steps)
    inside = part < len(ends)
    values = np.array([sample.mean() for sample in curve.values])[inside]
    counts = np.bincount(part[inside], minlength=len(ends))
    sums = np.bincount(part[inside], values, minlength=len(ends))
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _changed(curve: Curve, steps: np.ndarray, values: tuple[np.ndarray, ...]) -> Curve:
    return Curve(curve.algorithm, curve.task, curve.run, steps, values)


def curve_of(labels: tuple[str, str, str], steps: np.ndarray, values: np.ndarray) -> Curve:
    """Return the curve of single values: by step, finite ones, of a repeated step the last."""
    finite = np.isfinite(values)
    latest = dict(zip(steps[finite].tolist(), values[finite].tolist(), strict=True))
    order = sorted(latest)
    samples = tuple(np.array([latest[step]]) for step in order)
    return Curve(*labels, np.array(order, np.int64), samples)
