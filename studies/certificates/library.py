"""Library of rules from which searches begin: kinds of play that are good against somebody."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from coopbench.baselines.rules.rules import Form, RuleData

_EVER = ("bad", "good", "uninformed")


def library(form: Form) -> np.ndarray:
    """Return the weights (rules, size) of the library in the form of a game and role.

    Every investment is combined with two choices of the other parts, so that each choice occurs.
    """
    choices, rules = _parts(form), []
    for number, investment in enumerate(_investments(form)):
        rules += [investment | choices[0], investment | choices[number % len(choices)]]
    return np.array([form.weights(rule) for rule in rules])


def _investments(form: Form) -> Iterator[dict[str, Any]]:
    """Yield rules for the investment alone."""
    records = [name for name in form.inputs.names if name.startswith("trust_in_others")]
    actions = [name for name in form.inputs.names if name.startswith("others_actions")]
    record = next(name for name in records if not name.endswith(".least"))
    action = next(name for name in actions if not name.endswith(".least"))
    follow = {"one": 0.5, action: 3.0}
    for level in (0.0, 0.3, 0.5, 0.7, 0.85, 1.0):
        yield _rule({"one": level}, {"one": level})
        yield _rule({"one": level}, {"one": 0.5 * level, action: 3.0 * level})
        yield _rule({"one": level}, {"one": level}, bad={"one": level})
    for least in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):  # as good a record as is needed
        keep = {"one": 8.0 * (least - 0.5), "trust_in_me": -8.0}
        yield _rule(keep, keep)
        yield _rule(keep, follow)
    for latch in (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6):  # until the others' record fell once
        for level in (0.85, 1.0):
            keep = {"one": level, "fallen": -2.0}
            yield _rule(keep, keep) | {"latch": latch}
            yield _rule(keep, follow | {"fallen": -4.0}) | {"latch": latch}
    for gain in (1.0, 5 / 3, 2.5, 4.0):  # by the others' records, excused by the own one
        for level in (0.7, 1.0):
            excused = {"one": level, record: gain, "trust_in_me": -gain}
            yield _rule(excused, follow)
            yield _rule(excused, excused)
        for other in (record, action):
            graded = {"one": 0.5, other: gain}
            yield _rule(graded, graded)
            yield _rule(graded, follow)
    for time in (0.1, 0.25, 0.4, 0.6, 0.75, 0.9):
        for before, change in ((1.0, -1.0), (0.0, 1.0)):
            turn = {"one": before, "after": change}
            yield _rule(turn, turn) | {"switch": time}
            mirror = {"one": 1.5 * before - 0.5 * (1 - before), action: 2.0, "after": 2 * change}
            yield _rule(turn, mirror) | {"switch": time}


def _rule(
    good: Mapping[str, float],
    uninformed: Mapping[str, float],
    bad: Mapping[str, float] | None = None,
) -> RuleData:
    """Return a rule with these weights of the investment."""
    rows = {"good": dict(good), "uninformed": dict(uninformed), "bad": dict(bad or {})}
    return {"switch": 1.0, "investment": {name: row for name, row in rows.items() if row}}


def _parts(form: Form) -> list[dict[str, Any]]:
    """Return rules for the other parts of an action: customary, and away from that."""
    choices: list[dict[str, Any]] = [{}]
    for name in form.parts:
        if name == "investment":
            continue
        levels = (0.0, 0.5, 0.8) if name == "bar" else (0.5, 0.75, 1.0)
        rows = [{name: {regime: {"one": level} for regime in _EVER}} for level in levels]
        choices = [choice | row for choice in choices for row in rows]
    if form.wishes is None:
        return choices
    wishes: list[dict[str, float]] = [{"one": 1.0}]
    wishes += [
        {"one": 0.5 + gain * (0.5 - bar), "trust_in_others": gain}
        for gain in (1.0, 4.0)
        for bar in (0.4, 0.6, 0.8)
    ]
    rows = [{"wishes": dict.fromkeys(_EVER, wish)} for wish in wishes]
    rows.append({"wishes": {"good": wishes[2], "uninformed": wishes[2]}})
    return [choice | row for choice in choices for row in rows]
