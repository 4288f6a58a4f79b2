"""What runs of other programs have in common, so that a report can compare them.

What has no counterpart in most other runs is left out, and listed: functions here append a line
for it to their ``notes``.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from coopbench.exchange.runs import Evaluation, Reading, Run, Samples, untrained

_PARTS = (20, 10, 5, 2, 1)  # of the training, over which irregular values are averaged
_ABSOLUTE = "absolute_metrics"  # how messages call what a run is judged by


class Comparable(NamedTuple):
    """Runs that can be compared."""

    runs: tuple[Run, ...]
    notes: list[str]  # what was left out or changed, a line each
    averaged: frozenset[tuple[str, str]]  # environment and task of the logs with other steps


def comparable(reading: Reading, metric: str, scale: str) -> Comparable:
    """Return the runs that can be compared, and what was left out or changed.

    All evaluations of a run, and its absolute metrics, have the same metrics; all evaluations have
    as many values of each. Left out are environments and evaluations without the score ``metric``,
    metrics that some evaluation of an environment lacks, evaluations with another number of values
    than most of their task and, on the scale "minmax", tasks on which nothing varies. Where steps
    of logs differ between runs, values are averaged over parts of the training that all runs have
    completed. Policies that were not trained may have played any number of episodes, and are never
    averaged.
    """
    runs, notes, averaged = list[Run](), list(reading.left_out), set[tuple[str, str]]()
    fixed = untrained(reading.runs)
    for environment in dict.fromkeys(run.environment for run in reading.runs):
        members = [run for run in reading.runs if run.environment == environment]
        samples = [part for run in members for _, part in _parts(run)]
        scored = [part for part in samples if metric in part]
        if not scored:
            notes.append(f"{environment} has no {metric}")
            continue
        measured = dict.fromkeys(name for part in samples for name in part)
        shared = [name for name in measured if all(name in part for part in scored)]
        lacking = sorted({*measured} - {*shared})
        notes += [f"{environment}: some evaluations lack {name}" for name in lacking]
        for task in dict.fromkeys(run.task for run in members):
            found = _scored([run for run in members if run.task == task], metric, scale, notes)
            trained = [run for run in found if run.algorithm not in fixed]
            if reading.last and trained and not _share_steps(trained):
                means = {run.label: run for run in _averaged(trained, metric, notes)}
                logs = [means.get(run.label, run) for run in found]
                found = [run for run in logs if run.algorithm in fixed or run.label in means]
                averaged.add((environment, task))
            runs += _regular(found, shared, metric, fixed, reading.last, notes)
    return Comparable(tuple(runs), notes, frozenset(averaged))


def kind_of(runs: Sequence[Run], last: bool, averaged: Container[tuple[str, str]]) -> str:
    """Say what runs are judged by, as far as that can be seen; ``last``: by their last evaluation.

    The format does not say it, and other programs write different quantities under one name. On
    ``averaged`` tasks the last evaluation is a mean.
    """
    if last:
        return _by_averaging(
            runs,
            averaged,
            "Scores are those of the last evaluation of each run{}.",
            "; where values are averaged, scores are their means over the last part",
            "Scores are means over the last part of the training that all runs have completed.",
            " Policies that were not trained are judged by all of their values.",
        )
    tested = [run for run in runs if run.absolute and len(run.evaluations) > 1]
    if tested and all(map(_is_highest, tested)):
        return (
            "The absolute metric of each run equals the highest of its evaluations. If it was "
            "chosen so, it is optimistic: do not compare it with scores of fresh episodes."
        )
    return "Absolute metrics are those of the file, which does not say what they are."


def scale_of(runs: Sequence[Run], averaged: Container[tuple[str, str]]) -> str:
    """Say what 0 and 1 of scores on the scale "minmax" are."""
    ends = _by_averaging(
        runs,
        averaged,
        "the lowest and highest value of each task in this file{}",
        ", or the lowest and highest mean over a part of the training where values are averaged",
        "the lowest and highest mean of each task over a part of the training",
        ", or value of a policy that was not trained",
    )
    return (
        f"0 and 1 of normalized scores are {ends}: they move when an algorithm is added, so scores "
        f"of two files cannot be compared."
    )


def _by_averaging(
    runs: Sequence[Run],
    averaged: Container[tuple[str, str]],
    plain: str,
    some: str,
    every: str,
    fixed: str,
) -> str:
    """Return the text for runs of which no task is averaged, some are, or all.

    The first two are ``plain`` with nothing or ``some`` for its braces. ``fixed`` follows where all
    are, and some policies were not trained.
    """
    means = {(run.environment, run.task) in averaged for run in runs}
    if means == {True}:
        return every + (fixed if untrained(runs) else "")
    return plain.format(some if True in means else "")


def early_ends(runs: Iterable[Run]) -> list[str]:
    """Name runs that end before others of their task, a line for each algorithm, task and step.

    What they are judged by is compared with what others reach in a longer training. An algorithm
    that has stopped early in all of its runs lacks none of them, so that no other list names it.
    """
    ends: dict[tuple[str, str], dict[tuple[str, int], list[str]]] = {}  # of each task
    for run in runs:
        if run.absolute and run.evaluations:
            members = ends.setdefault((run.environment, run.task), {})
            members.setdefault((run.algorithm, run.evaluations[-1].step), []).append(run.name)
    lines = []
    for (environment, task), members in ends.items():
        last = max(step for _, step in members)
        lines += [
            f"{environment} / {task} / {algorithm}: the training of {', '.join(names)} ends at "
            f"step {step}, that of others at step {last}; scores are compared as they are"
            for (algorithm, step), names in members.items()
            if step < last
        ]
    return lines


def _is_highest(run: Run) -> bool:
    """Whether every absolute metric is one value, the highest of all evaluations."""
    return all(
        len(sample) == 1 and sample[0] == max(e.samples[name].max() for e in run.evaluations)
        for name, sample in run.absolute.items()
    )


def _parts(run: Run) -> Iterator[tuple[str, Samples]]:
    """Yield the evaluations of a run and its absolute metrics, with what messages call them."""
    for evaluation in run.evaluations:
        yield f"step {evaluation.step}", evaluation.samples
    if run.absolute:
        yield _ABSOLUTE, run.absolute


def _scored(members: Sequence[Run], metric: str, scale: str, notes: list[str]) -> list[Run]:
    """Return the runs of a task that have a score; none if it has to vary and does not."""
    scores = {
        run.label: [part[metric] for _, part in _parts(run) if metric in part] for run in members
    }
    values = np.concatenate([*(part for parts in scores.values() for part in parts), np.empty(0)])
    if scale == "minmax" and values.size and values.min() == values.max():
        place = f"{members[0].environment} / {members[0].task}"
        notes.append(f"{place}, where every {metric} is {values[0]:g} and gives no scale")
        return []
    notes += [f"{label}, without a value of {metric}" for label in scores if not scores[label]]
    return [run for run in members if scores[run.label]]


def _regular(
    members: Sequence[Run],
    shared: Sequence[str],
    metric: str,
    fixed: Container[str],
    last: bool,
    notes: list[str],
) -> Iterator[Run]:
    """Iterate over the runs of a task with the usual number of values in each evaluation."""
    usual = _usual_counts([run for run in members if run.algorithm not in fixed], shared, metric)
    for run in members:
        kept: dict[str, Samples] = {}
        unlike: dict[str, list[str]] = {}  # places by reason
        for where, part in _parts(run):
            reason = _unlike(where, part, metric, {} if run.algorithm in fixed else usual)
            if reason:
                unlike.setdefault(reason, []).append(where)
            else:
                kept[where] = {name: part[name] for name in shared}
        for reason, places in unlike.items():
            more = f", as {len(places) - 1} more of it" if len(places) > 1 else ""
            notes.append(f"{run.label} / {places[0]} {reason}{more}")
        absolute = kept.pop(_ABSOLUTE, {})
        steps = [e.step for e in run.evaluations if f"step {e.step}" in kept]
        evaluations = tuple(map(Evaluation, steps, kept.values()))
        if last:
            absolute = evaluations[-1].samples if evaluations else {}
        yield replace(run, evaluations=evaluations, absolute=absolute)


def _usual_counts(
    members: Sequence[Run], shared: Sequence[str], metric: str
) -> dict[tuple[bool, str], int]:
    """Return how many values most parts have, {(whether absolute, metric): count}."""
    counts = defaultdict[tuple[bool, str], Counter[int]](Counter)
    for run in members:
        for where, part in _parts(run):
            for name in shared if metric in part else ():
                counts[where == _ABSOLUTE, name][len(part[name])] += 1
    return {key: numbers.most_common(1)[0][0] for key, numbers in counts.items()}


def _unlike(where: str, part: Samples, metric: str, usual: Mapping[tuple[bool, str], int]) -> str:
    """Return what a part lacks, or has another number of than usual; empty: nothing."""
    if metric not in part:
        return f"lacks {metric}"
    for (final, name), most in usual.items():
        if final == (where == _ABSOLUTE) and len(part[name]) != most:
            return f"has {len(part[name])} values of {name}, most have {most}"
    return ""


# --- logs whose steps differ ----------------------------------------------------------------------


def _share_steps(members: Sequence[Run]) -> bool:
    """Whether runs share at least half of the steps of the shortest of them.

    Step 0, at which most programs evaluate first, says nothing, nor does a run that ends before
    half of the usual number of steps.
    """
    usual = float(np.median([run.evaluations[-1].step for run in members]))
    long = [run for run in members if run.evaluations[-1].step >= usual / 2]
    steps = [{evaluation.step for evaluation in run.evaluations} - {0} for run in long]
    return 2 * len(set.intersection(*steps)) >= min(map(len, steps))


def _averaged(members: Sequence[Run], metric: str, notes: list[str]) -> list[Run]:
    """Return runs of a task with means over equal parts of the training as evaluations."""
    ends_at = {run.label: run.evaluations[-1].step for run in members}
    usual = float(np.median([*ends_at.values()]))
    kept = [run for run in members if ends_at[run.label] >= usual / 2]
    notes += [
        f"{label}, which ends at step {step}, others at about {usual:.0f}"
        for label, step in ends_at.items()
        if step < usual / 2
    ]
    last = max(1, min(ends_at[run.label] for run in kept))
    late = {run.label: run.evaluations[0].step for run in kept if run.evaluations[0].step > last}
    notes += [
        f"{label}, which begins at step {step}, after step {last}, where others end"
        for label, step in late.items()
    ]
    kept = [run for run in kept if run.label not in late]  # the others have a value in one part
    for parts in _PARTS:
        ends = np.arange(1, parts + 1) * last // parts
        means = [_means(run, metric, ends) for run in kept]
        if np.isfinite(means).all():
            break
    first = min(kept, key=lambda run: ends_at[run.label])
    notes.append(
        f"steps of {kept[0].task}, which differ between runs: values are means over {parts} equal "
        f"parts of the first {last} steps, where {first.algorithm} / {first.name} ends; the "
        f"longest run has {max(ends_at.values())}"
    )
    return [
        replace(
            run,
            evaluations=tuple(
                Evaluation(step, {metric: np.array([mean])})
                for step, mean in zip(ends.tolist(), row, strict=True)
            ),
        )
        for run, row in zip(kept, means, strict=True)
    ]


def _means(run: Run, metric: str, ends: np.ndarray) -> np.ndarray:
    """Return the mean of the values in each part, (parts,); nan where there are none."""
    part = np.searchsorted(ends, [evaluation.step for evaluation in run.evaluations])
    inside = part < len(ends)
    values = np.array([e.samples[metric].mean() for e in run.evaluations])[inside]
    counts = np.bincount(part[inside], minlength=len(ends))
    sums = np.bincount(part[inside], values, minlength=len(ends))
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
