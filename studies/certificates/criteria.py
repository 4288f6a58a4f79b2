"""Criteria: what is required of the figures of a certificate."""

from collections.abc import Iterator, Mapping

import numpy as np

from coopbench.analysis.certificates import BEST_SCRIPT
from studies.certificates.games import Criterion, Figure

Figures = Mapping[str, Mapping[str, Figure]]
_Z = 1.959963984540054  # quantile 0.975 of the normal distribution


def criteria(
    figures: Figures, groups: Mapping[str, str], hidden: bool, agents: int
) -> tuple[Criterion, ...]:
    """Compare figures with what is required.

    ``groups`` has the group of each task, ``hidden`` says that not all agents observe the regime.
    """
    rows = list(_repeated(figures.get("repeated game", {}), 0.03 if hidden or agents > 2 else 0.02))
    for task, group in groups.items():
        if group == "self-play":
            rows += _self_play(task, figures[task], hidden)
        else:
            rows += _focal(task, figures[task], group)
    return tuple(rows)


def _row(name: str, value: float, error: float, bound: float, above: bool) -> Criterion:
    met = value - _Z * error >= bound if above else value + _Z * error <= bound
    return Criterion(name, value, error, bound, above, bool(met))


def _repeated(figures: Mapping[str, Figure], most: float) -> Iterator[Criterion]:
    """Yield the conditions of the repeated game, for every role."""
    texts = {
        "cooperator": ("against cooperators, gain of the best response", 0.05, True),
        "always_defect": (
            "against defectors, gain of the best response over investing",
            0.05,
            True,
        ),
        "reference": ("against the reference, gain of the best response", most, False),
    }
    for name, value in figures.items():
        opponent, role, *invests = name.split(".")
        if invests:
            if opponent == "cooperator":
                text = f"{role}: against cooperators, investment of the best response over theirs"
                yield _row(text, value.value, value.error, 0.5, False)
            continue
        text, bound, above = texts[opponent]
        yield _row(f"{role}: {text}", value.value, value.error, bound, above)


def _self_play(task: str, figures: Mapping[str, Figure], hidden: bool) -> Iterator[Criterion]:
    """Yield what is required of a task in which one rule per role plays all seats."""
    low, high = figures["low"], figures["high"]
    width = high.value - low.value

    def score(name: str) -> tuple[float, float]:
        return (figures[name].value - low.value) / width, figures[name].error / width

    yield _ratio(f"{task}: cooperators over defectors", figures["cooperator"], low, 1.2)
    yield _ratio(f"{task}: joint optimum over defectors (price of anarchy)", high, low, 1.2)
    best, error = max(score(name) for name in ("public", "blind", "partner", "memory"))
    reference = score("reference")
    yield _row(
        f"{task}: reference over the best rule", reference[0] / best, reference[1], 0.9, True
    )
    yield _row(f"{task}: best rule", best, error, 1.02, False)
    for name in ("constant", "sequence"):
        yield _row(f"{task}: best {name}", *score(name), 0.3, False)
    if hidden:
        blind = score("blind")
        yield _row(f"{task}: best rule that ignores partners", *blind, 0.85, False)
        text = f"{task}: best rule minus the best rule that ignores partners"
        yield _row(text, best - blind[0], float(np.hypot(error, blind[1])), 0.1, True)


def _focal(task: str, figures: Mapping[str, Figure], group: str) -> Iterator[Criterion]:
    """Yield what is required of a task in which one seat plays among partners.

    Play that does not look at its partners has a score of at most 0 by the definition of the scale.
    """
    low, high = figures["low"], figures["high"]
    width = high.value - low.value

    def score(name: str) -> tuple[float, float]:
        return (figures[name].value - low.value) / width, figures[name].error / width

    yield _ratio(
        f"{task}: best responses over the best rule that ignores partners", high, low, 1.04
    )
    yield _row(f"{task}: player that knows the pool", *score("bayesian"), 0.75, True)
    if "best_script" in figures:
        most = 0.85 if group in ("focal", "shifted") else 0.8
        yield _row(f"{task}: {BEST_SCRIPT}", *score("best_script"), most, False)
    (script, error), (defecting, other) = score("script"), score("always_defect")
    text = f"{task}: best script of this task minus always_defect"
    yield _row(text, script - defecting, float(np.hypot(error, other)), 0.15, True)
    if "cooperators" in figures:
        text = f"{task}: cooperators over defectors"
        yield _ratio(text, figures["cooperators"], figures["defectors"], 1.15)


def _ratio(name: str, above: Figure, below: Figure, bound: float) -> Criterion:
    """Return the requirement on a ratio of two independent figures."""
    value = above.value / below.value
    error = np.hypot(above.error, value * below.error) / below.value
    return _row(name, value, float(error), bound, True)
