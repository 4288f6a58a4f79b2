"""The compiled loop in which rules act: inputs, memory, and clipped linear functions of both."""

from typing import NamedTuple

import numpy as np

from coopbench_envs.compiling import compiled
from coopbench_envs.core import routine

__all__ = ["BAD", "GOOD", "UNINFORMED", "Batch", "Plan", "act"]

BAD, GOOD, UNINFORMED = 0, 1, 2  # what a seat knows of the coming step
WORTHWHILE = 0.5  # observed productivity above which a unit is worth more than a unit
FAST, SLOW = 0.4, 0.1  # weights of the last step in remembered means
LAST_STEPS = 4.0  # over which the input ``end`` rises from 0 to 1
# Columns of the memory: whether the last step counts, mean of the seat's own investments, its
# investment before; then four for each group of others; at the end the others' lowest record.
COUNTS, GAVE, BEFORE, GROUPS = 0, 1, 2, 3
LATELY, USUALLY, WORST, ANSWERS = 0, 1, 2, 3


class Plan(NamedTuple):
    """Where the inputs of one seat stand in its observation; places are -1 for what is missing."""

    starts: np.ndarray  # (columns + 1,) of each column's entries in ``entries``
    entries: np.ndarray  # places in the observation
    least: np.ndarray  # (columns,) bool: the least of its entries, not their mean
    group_starts: np.ndarray  # (groups + 1,) of each group's entries in ``group_entries``
    group_entries: np.ndarray  # places of the others' investments
    pairs: np.ndarray  # (pair parts,) places of the first other's entry
    parts: np.ndarray  # (parts,) places of single numbers in an action
    others: int
    partner: int  # place of ``last_partner``
    actions: int
    records: int
    invested: int  # place of ``own_action``
    productivity: int
    informed: int
    time: int
    level: int
    wishes: int  # place in an action
    horizon: int


class Batch(NamedTuple):
    """The weights of rules, one for each block of lanes; blocks have equal lengths."""

    single: np.ndarray  # (blocks, regimes, parts, inputs)
    pairs: np.ndarray  # (blocks, regimes, pair inputs)
    heads: np.ndarray  # (blocks, 3) time of the switch, whether the investment is scaled, latch


@routine
def regime_of(plan: Plan, row: np.ndarray) -> int:
    """Return what the seat knows of the coming step."""
    if plan.productivity < 0:
        return UNINFORMED
    if plan.informed >= 0 and row[plan.informed] < 0.5:
        return UNINFORMED
    return GOOD if row[plan.productivity] > WORTHWHILE else BAD


@routine
def of_partner(plan: Plan, row: np.ndarray, first: int) -> float:
    """Return the last partner's number in the part that begins at ``first``; 0.5 without one."""
    for k in range(plan.others):
        if row[plan.partner + k] > 0.5:
            return float(row[first + k])
    return 0.5


@routine
def investment_of(plan: Plan, row: np.ndarray, group: int) -> float:
    """Return the mean investment of a group of others."""
    if plan.partner >= 0:
        return float(of_partner(plan, row, plan.actions))
    total = 0.0
    for k in range(plan.group_starts[group], plan.group_starts[group + 1]):
        total += row[plan.group_entries[k]]
    return float(total / (plan.group_starts[group + 1] - plan.group_starts[group]))


@routine
def record_of(plan: Plan, row: np.ndarray) -> float:
    """Return the record of the last partner, or the mean record of the others; 1 without any."""
    if plan.partner >= 0:
        return float(of_partner(plan, row, plan.records))
    if plan.records < 0:
        return 1.0
    total = 0.0
    for k in range(plan.others):
        total += row[plan.records + k]
    return float(total / plan.others)


@routine
def remember(plan: Plan, row: np.ndarray, memory: np.ndarray, regime: int) -> None:
    """Bring the memory of a lane up to what is observed of the last step."""
    invested, weight = row[plan.invested], memory[COUNTS]
    for g in range(len(plan.group_starts) - 1):
        k, seen = GROUPS + 4 * g, investment_of(plan, row, g)
        memory[k + LATELY] += FAST * weight * (seen - memory[k + LATELY])
        memory[k + USUALLY] += SLOW * weight * (seen - memory[k + USUALLY])
        memory[k + WORST] = min(memory[k + WORST], memory[k + LATELY])
        answer = (seen - memory[k + USUALLY]) * (memory[BEFORE] - memory[GAVE])
        memory[k + ANSWERS] += SLOW * weight * (answer - memory[k + ANSWERS])
    memory[-1] = min(memory[-1], record_of(plan, row))
    memory[GAVE] += SLOW * weight * (invested - memory[GAVE])
    if weight > 0.0:
        memory[BEFORE] = invested
    memory[COUNTS] = 0.0 if regime == BAD else 1.0


@routine
def read(
    plan: Plan, row: np.ndarray, memory: np.ndarray, head: np.ndarray, values: np.ndarray
) -> None:
    """Write the inputs of a lane into ``values``; ``head`` is that of its rule."""
    stop = len(plan.starts) - 1
    for column in range(stop):
        total, smallest = 0.0, 2.0
        for k in range(plan.starts[column], plan.starts[column + 1]):
            total += row[plan.entries[k]]
            smallest = min(smallest, row[plan.entries[k]])
        mean = total / (plan.starts[column + 1] - plan.starts[column])
        values[column] = (smallest if plan.least[column] else mean) - 0.5
    if plan.partner >= 0:
        values[stop] = of_partner(plan, row, plan.actions) - 0.5
        values[stop + 1] = of_partner(plan, row, plan.records) - 0.5
        stop += 2
    if len(memory) > 0:
        values[stop] = memory[GAVE] - 0.5
        for k in range(GROUPS, len(memory) - 1):
            answers = (k - GROUPS) % 4 == ANSWERS
            values[stop + k - 2] = 4.0 * memory[k] if answers else memory[k] - 0.5
        values[-5] = 1.0 if memory[-1] < head[2] else 0.0
    time = row[plan.time]
    values[-4] = 1.0
    values[-3] = 1.0 if time * plan.horizon < 0.5 else 0.0
    values[-2] = min(max(1.0 + (time - 1.0) * plan.horizon / LAST_STEPS, 0.0), 1.0)
    values[-1] = 1.0 if time >= head[0] else 0.0


@routine
def wish(plan: Plan, row: np.ndarray, weights: np.ndarray, regime: int, out: np.ndarray) -> None:
    """Write the wish for each other agent into ``out``."""
    count = len(plan.pairs)
    for k in range(plan.others):
        score = weights[regime, count] + weights[regime, count + 1 + k]
        for part in range(count):
            score += weights[regime, part] * (row[plan.pairs[part] + k] - 0.5)
        out[plan.wishes + k] = min(max(score, 0.0), 1.0)


@compiled
def act(
    plan: Plan,
    batch: Batch,
    observations: np.ndarray,
    memory: np.ndarray,
    values: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write the fractions of every lane into ``out`` (lanes, action), and bring its memory on."""
    length = len(observations) // len(batch.single)
    for lane in range(len(observations)):
        block, row = lane // length, observations[lane]
        regime = regime_of(plan, row)
        if memory.shape[1] > 0:
            remember(plan, row, memory[lane], regime)
        read(plan, row, memory[lane], batch.heads[block], values)
        for part in range(len(plan.parts)):
            score = 0.0
            for k in range(len(values)):
                score += batch.single[block, regime, part, k] * values[k]
            out[lane, plan.parts[part]] = min(max(score, 0.0), 1.0)
        if (
            plan.level >= 0 and batch.heads[block, 1] > 0.5
        ):  # a phase takes in no more than its level
            out[lane, plan.parts[0]] *= row[plan.level]
        if plan.wishes >= 0:
            wish(plan, row, batch.pairs[block], regime, out[lane])
