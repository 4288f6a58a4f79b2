"""Compiled resampling loops: counts of how often each run is drawn, and statistics of counts.

A resample is a vector of counts, one per run and task. Cells are ordered once by value, so the
trimmed mean and the profile of a resample need one sweep over counts and no sorting.

Resample ``r`` is a pure function of ``(seed, r)``: it draws from its own SplitMix64 stream
(Steele, Lea and Flood 2014, "Fast Splittable Pseudorandom Number Generators"). Any split of the
resamples over calls, threads or processes therefore gives the same numbers. The loops release the
interpreter lock and start no threads.

Importing this module imports numba, so nothing imports it before a resample is asked for.
"""

from typing import Any, NamedTuple

import numba
import numpy as np

from coopbench_envs.compiling import storable

kernel = numba.njit(error_model="numpy")


def loop(function: Any) -> Any:
    """Compile an outermost loop and cache it on disk.

    The cache looks at nothing but the time stamp of this file, in which all lies that loops inline.
    """
    return storable(function, {"error_model": "numpy", "nogil": True})


RUNS, TASKS, HIERARCHICAL = 0, 1, 2  # what is drawn again: runs in each task, tasks, or both
MEAN, MEDIAN, IQM, CAPPED, WIDTH = 0, 1, 2, 3, 4  # columns of an aggregate row, and their number

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
_LOW, _ONE = np.uint64(0xFFFFFFFF), np.uint64(1)


class Table(NamedTuple):
    """One score matrix, task after task."""

    values: np.ndarray  # (cells,)
    capped: np.ndarray  # (cells,) min(value, gamma), for the optimality gap
    starts: np.ndarray  # (tasks + 1,) first cell of each task
    rank: np.ndarray  # (cells,) position of a cell among the sorted cells
    ordered: np.ndarray  # (cells,) sorted values


class Draw(NamedTuple):
    """One resample: which tasks stand at each place, and how often each of their runs."""

    tasks: np.ndarray  # (tasks,) task at each place
    counts: np.ndarray  # (tasks, most runs) float64 whole numbers: how often each run was drawn
    totals: np.ndarray  # (cells,) scratch: counts in the order of sorted values
    running: np.ndarray  # (cells + 1,) scratch: running sum of totals, from 0
    means: np.ndarray  # (tasks,) scratch: mean of each place


class Duel(NamedTuple):
    """Two score matrices, prepared for counting wins of the first over the second."""

    starts: np.ndarray  # (tasks + 1,) first cell of each task in x
    rivals: np.ndarray  # (tasks + 1,) first cell of each task in y
    below: np.ndarray  # (cells of x,) number of y in the same task that are smaller
    level: np.ndarray  # (cells of x,) number of y in the same task that are smaller or equal


@kernel
def mix(z):
    """Scramble 64 bits (the finaliser of SplitMix64)."""
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@kernel
def stream(seed, salt, replicate):
    """Return the start of the stream of one resample; salts keep sources independent."""
    inner = mix(mix(seed + _GAMMA) + _GAMMA * (np.uint64(salt) + _ONE))
    return mix(inner ^ (_GAMMA * (np.uint64(replicate) + _ONE)))


@kernel
def two_runs(state, bound):
    """Draw two numbers below ``bound`` from one 64-bit number.

    Multiply and shift maps 32 bits to a run (Lemire 2019, "Fast Random Integer Generation in an
    Interval"); a run is favoured by at most bound / 2^32.
    """
    z = mix(state)
    return np.int64(((z >> _S32) * bound) >> _S32), np.int64(((z & _LOW) * bound) >> _S32)


@kernel
def draw_tasks(tasks, seed, replicate, level):
    """Put a task at each place: itself, or one drawn with replacement.

    Tasks come from their own stream (salt 0), so that two matrices resampled with one seed and
    two salts stand on the same tasks.
    """
    state, bound = stream(seed, 0, replicate), np.uint64(len(tasks))
    for place in range(len(tasks)):
        state += _GAMMA
        tasks[place] = place if level == RUNS else two_runs(state, bound)[0]


@kernel
def draw(sample, starts, key, replicate, level):
    """Fill one resample; ``key`` is (seed, salt of the runs)."""
    seed, salt = key
    draw_tasks(sample.tasks, seed, replicate, level)
    state, counts = stream(seed, salt, replicate), sample.counts
    for place in range(len(starts) - 1):
        size = starts[sample.tasks[place] + 1] - starts[sample.tasks[place]]
        bound = np.uint64(size)
        for i in range(size):
            counts[place, i] = 1.0 if level == TASKS else 0.0
        for i in range(0, 0 if level == TASKS else size, 2):
            state += _GAMMA
            one, other = two_runs(state, bound)
            counts[place, one] += 1.0
            if i + 1 < size:
                counts[place, other] += 1.0


@kernel
def leave_out(sample, starts, labels, label):
    """Fill the sample that lacks the cells of one label; a label that no cell has lacks none."""
    for task in range(len(starts) - 1):
        sample.tasks[task] = task
        for i in range(starts[task + 1] - starts[task]):
            sample.counts[task, i] = 0.0 if labels[starts[task] + i] == label else 1.0


@kernel
def tally(table, sample):
    """Fill totals and means from the counts; return places used, cells drawn, mean capped score.

    The sums run over cells in a fixed order, not in the order of drawing: equal resamples give
    equal bits, so that ties with the estimate are seen as ties.
    """
    totals, counts = sample.totals, sample.counts
    totals[:] = 0.0
    used, drawn, capped = 0, 0.0, 0.0
    for place in range(len(sample.tasks)):
        first = table.starts[sample.tasks[place]]
        size, total, part = 0.0, 0.0, 0.0
        for i in range(table.starts[sample.tasks[place] + 1] - first):
            count = counts[place, i]
            size += count
            total += count * table.values[first + i]
            part += count * table.capped[first + i]
            totals[table.rank[first + i]] += count
        if size > 0.0:  # a place is empty only when its one run or its task is left out
            sample.means[used] = total / size
            capped += part / size
            drawn += size
            used += 1
    return used, drawn, capped / used


@kernel
def sort_means(means, used):
    """Sort the first ``used`` means in place by insertion; there are few tasks."""
    for i in range(1, used):
        value, j = means[i], i - 1
        while j >= 0 and means[j] > value:
            means[j + 1] = means[j]
            j -= 1
        means[j + 1] = value


@kernel
def trimmed(ordered, totals, drawn):
    """Average the middle half of the drawn cells, walking the sorted cells once."""
    if drawn == 0.0:
        return np.nan
    low = np.floor(0.25 * drawn)
    high = drawn - low
    q, seen = 0, totals[0]
    while seen <= low:
        q += 1
        seen += totals[q]
    total = (min(seen, high) - low) * ordered[q]
    while seen < high:
        q += 1
        weight = min(totals[q], high - seen)
        total += weight * ordered[q]
        seen += totals[q]
    return total / (high - low)


@kernel
def aggregate(table, sample, out, r):
    """Write mean, median, IQM and mean capped score of one sample into row ``r``."""
    used, drawn, out[r, CAPPED] = tally(table, sample)
    means = sample.means
    total = 0.0
    for place in range(used):
        total += means[place]
    sort_means(means, used)
    out[r, MEAN] = total / used
    out[r, MEDIAN] = 0.5 * (means[(used - 1) // 2] + means[used // 2])
    out[r, IQM] = trimmed(table.ordered, sample.totals, drawn)


@kernel
def profile(table, sample, thresholds, out, r):
    """Write the shares above each threshold into row ``r``; ``thresholds`` is (taus, positions).

    The thresholds ascend. A position is the number of cells that are not above; without positions
    (an empty array) the shares are of task means, else of cells.
    """
    taus, positions = thresholds
    used, drawn, _ = tally(table, sample)
    if len(positions) == 0:
        sort_means(sample.means, used)
        below = 0
        for t in range(len(taus)):
            while below < used and sample.means[below] <= taus[t]:
                below += 1
            out[r, t] = (used - below) / used
    else:  # running counts first: one gather per threshold is cheaper than a walk with branches
        seen = 0.0
        for q in range(len(sample.totals)):
            seen += sample.totals[q]
            sample.running[q + 1] = seen
        for t in range(len(positions)):
            out[r, t] = (drawn - sample.running[positions[t]]) / drawn


@kernel
def workspace(starts):
    """Allocate one resample."""
    tasks, widest = len(starts) - 1, 0
    for task in range(tasks):
        widest = max(widest, starts[task + 1] - starts[task])
    return Draw(
        np.zeros(tasks, np.int64),
        np.zeros((tasks, widest)),
        np.zeros(starts[tasks]),
        np.zeros(starts[tasks] + 1),
        np.zeros(tasks),
    )


@loop
def resample_aggregates(table, key, first, level, out):
    """Fill ``out[r]`` (resamples, WIDTH) with the aggregates of resample ``first + r``."""
    sample = workspace(table.starts)
    for r in range(len(out)):
        draw(sample, table.starts, key, first + r, level)
        aggregate(table, sample, out, r)


@loop
def jackknife_aggregates(table, labels, out):
    """Fill ``out[d]`` with the aggregates of the data without the cells labelled ``d``.

    A label that no cell bears gives the aggregates of all the data.
    """
    sample = workspace(table.starts)
    for d in range(len(out)):
        leave_out(sample, table.starts, labels, d)
        aggregate(table, sample, out, d)


@loop
def resample_profile(table, key, level, thresholds, out):
    """Fill ``out[r]`` (resamples, thresholds) with the profile of resample ``r``."""
    sample = workspace(table.starts)
    for r in range(len(out)):
        draw(sample, table.starts, key, r, level)
        profile(table, sample, thresholds, out, r)


@loop
def jackknife_profile(table, labels, thresholds, out):
    """Fill ``out[d]`` with the profile without the cells labelled ``d``."""
    sample = workspace(table.starts)
    for d in range(len(out)):
        leave_out(sample, table.starts, labels, d)
        profile(table, sample, thresholds, out, d)


@loop
def lattice_quantiles(distribution, steps, levels, out):
    """Fill ``out`` (levels, columns) with quantiles of shares that are multiples of 1 / steps.

    Counting replaces sorting. ``levels`` is (levels, columns); the interpolation is linear, as
    numpy's default (type 7 of Hyndman and Fan 1996).
    """
    reps = len(distribution)
    counts = np.zeros(steps + 1, np.int64)
    for c in range(distribution.shape[1]):
        counts[:] = 0
        for r in range(reps):
            counts[np.int64(distribution[r, c] * steps + 0.5)] += 1
        for k in range(len(levels)):
            position = levels[k, c] * (reps - 1)
            below, seen = 0, counts[0]
            while seen <= np.floor(position):
                below += 1
                seen += counts[below]
            above = below
            while seen <= np.ceil(position):
                above += 1
                seen += counts[above]
            part = position - np.floor(position)
            out[k, c] = (below + part * (above - below)) / steps


@kernel
def wins(duel, x, y, cumulative):
    """Return the mean over places of the share of drawn pairs that x wins, ties one half."""
    total, used = 0.0, 0
    for place in range(len(x.tasks)):
        task = x.tasks[place]
        first, size = duel.starts[task], duel.starts[task + 1] - duel.starts[task]
        rivals = duel.rivals[task + 1] - duel.rivals[task]
        cumulative[0] = 0.0
        for j in range(rivals):
            cumulative[j + 1] = cumulative[j] + y.counts[place, j]
        drawn, twice = 0.0, 0.0
        for i in range(size):
            count = x.counts[place, i]
            drawn += count
            below, level = duel.below[first + i], duel.level[first + i]
            twice += count * (cumulative[below] + cumulative[level])
        pairs = drawn * cumulative[rivals]
        if pairs > 0.0:
            total += twice / (2.0 * pairs)
            used += 1
    return total / used


@loop
def resample_wins(duel, seed, level, out):
    """Fill ``out[r]`` with the probability of improvement in resample ``r``."""
    x, y = workspace(duel.starts), workspace(duel.rivals)
    cumulative = np.zeros(y.counts.shape[1] + 1)
    for r in range(len(out)):
        draw(x, duel.starts, (seed, 1), r, level)
        draw(y, duel.rivals, (seed, 2), r, level)
        out[r] = wins(duel, x, y, cumulative)


@loop
def jackknife_wins(duel, labels, rival_labels, out):
    """Fill ``out[d]`` with the estimate without the cells labelled ``d``."""
    x, y = workspace(duel.starts), workspace(duel.rivals)
    cumulative = np.zeros(y.counts.shape[1] + 1)
    for d in range(len(out)):
        leave_out(x, duel.starts, labels, d)
        leave_out(y, duel.rivals, rival_labels, d)
        out[d] = wins(duel, x, y, cumulative)


@kernel
def at_point(tables, p):
    """Return the table of one point; all but ``starts`` have a leading axis of points."""
    return Table(
        tables.values[p], tables.capped[p], tables.starts, tables.rank[p], tables.ordered[p]
    )


@loop
def resample_curves(tables, key, level, out):
    """Fill ``out`` (resamples, points, WIDTH) with the aggregates of whole resampled runs.

    A run keeps all its points: the counts are drawn once for the whole curve.
    """
    sample = workspace(tables.starts)
    for r in range(len(out)):
        draw(sample, tables.starts, key, r, level)
        for p in range(out.shape[1]):
            aggregate(at_point(tables, p), sample, out[r], p)


@loop
def jackknife_curves(tables, labels, out):
    """Fill ``out[d]`` (points, WIDTH) with the aggregates without the cells labelled ``d``."""
    sample = workspace(tables.starts)
    for d in range(len(out)):
        leave_out(sample, tables.starts, labels, d)
        for p in range(out.shape[1]):
            aggregate(at_point(tables, p), sample, out[d], p)


@loop
def draw_cells(starts, key, replicate, level, tasks, cells):
    """Write the tasks at each place and the drawn cell numbers in the order of drawing.

    For statistics that are not compiled: these are the runs that the compiled ones see in this
    resample. Returns how many cells were written.
    """
    draw_tasks(tasks, key[0], replicate, level)
    state, used = stream(key[0], key[1], replicate), 0
    for task in tasks:
        size = starts[task + 1] - starts[task]
        for i in range(0, size, 2):
            one, other = i, i + 1
            if level != TASKS:
                state += _GAMMA
                one, other = two_runs(state, np.uint64(size))
            cells[used] = starts[task] + one
            used += 1
            if i + 1 < size:
                cells[used] = starts[task] + other
                used += 1
    return used
