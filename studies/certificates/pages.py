"""Certificates as Markdown: criteria, scores, shares of the score, and bounds to paste."""

from collections.abc import Iterator, Mapping

from coopbench.analysis.certificates import BLIND, OBSERVING, SCRIPT
from coopbench.protocol.loading import load_protocol
from coopbench.report.markdown import rows_table
from studies.certificates.games import REPEATED, Certificate, Criterion

_NAMES = {
    "high": "upper bound",
    "low": "lower bound",
    **OBSERVING,
    **BLIND,
    **SCRIPT,
    "best_script": "`best_script`, chosen with the training partners",
    "bayesian": "player that knows the pool, but not which partner it meets",
    "always_defect": "`always_defect`",
    "cooperator": "`cooperator`",
    "reference": "reference policy",
    "random": "`random`",
}
SIMPLE = "best_script"  # name of a figure
_KNOWN = (*OBSERVING, *SCRIPT, SIMPLE)
_LADDER = (("public", "public state"), ("blind", "own conduct"), ("partner", "partner"))
_SHARES = (*_LADDER, ("memory", "memory"))
_CLASS = (
    "Rules are linear functions of what an agent observes, of means of the past, and of one latch: "
    "whether the others' record has ever been below a level. A share of 0 means that the search "
    "found no better rule with these inputs, not that none exists."
)


def certificate_page(certificate: Certificate) -> str:
    """Write the criteria, then the scores in every task and what they need."""
    tasks = [name for name in certificate.figures if name != REPEATED]
    parts = [
        f"Reference policy: {_policies(certificate.references)}. "
        f"`best_script`: {_policies(certificate.best_script)}.",
        _criteria_table(certificate.criteria),
        rows_table(
            ["Score, 0 = lower bound, 1 = upper bound", *tasks], _scores(certificate, tasks)
        ),
    ]
    if tasks:
        parts.append(
            rows_table(
                ["Gain from each kind of input, as a share of the best score", *tasks],
                _parts(certificate, tasks),
            )
        )
        parts.append(_CLASS)
    return "\n\n".join(parts)


def partners_text(certificate: Certificate) -> str:
    """Write what it is worth to know the partners: the scores in every task that has partners.

    Scores are those of the player that knows the pool, of the best rule or script and of
    ``best_script``. The text is empty without such a task.
    """
    rows = []
    for task in load_protocol(certificate.protocol).task:
        figures = certificate.figures.get(task.id, {})
        if "bayesian" in figures:
            known = max(certificate.score(task.id, name) for name in _KNOWN if name in figures)
            pool, simple = (certificate.score(task.id, name) for name in ("bayesian", SIMPLE))
            rows.append((f"`{task.group}`", *(f"{score:z.2f}" for score in (pool, known, simple))))
    if not rows:
        return ""
    heads = ["Group", "Player that knows the pool", "Best known rule or script", f"`{SIMPLE}`"]
    return "\n\n".join(
        [
            "Scores of one seat among partners. 0 is the best rule found that ignores its "
            "partners, and 1 the best response to each partner. The player of the second column "
            "knows the pool of partners, but not which of them it meets.",
            rows_table(heads, rows),
            "The difference between the second and the third column is what the best known play "
            "could gain by identifying its partners as well as that player.",
        ]
    )


def _criteria_table(rows: tuple[Criterion, ...]) -> str:
    """Write criteria as a Markdown table."""
    cells = [
        (
            row.name,
            f"{row.value:z.3f} ± {row.error:z.3f}",
            f"{'>=' if row.above else '<='} {row.bound:g}",
            "yes" if row.met else "**no**",
        )
        for row in rows
    ]
    header = ["Criterion", "Value ± standard error", "Required of the 95 % interval", "Holds"]
    return rows_table(header, cells)


def _policies(roles: Mapping[str, str]) -> str:
    """Name the policies of roles; the role stands behind where roles differ."""
    if len(set(roles.values())) == 1:
        return f"`{next(iter(roles.values()))}`"
    return ", ".join(f"`{policy}` ({role})" for role, policy in roles.items())


def _scores(certificate: Certificate, tasks: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield a row for every kind of play: its score in each task, with its standard error."""
    for name, text in _NAMES.items():
        cells = [_score(certificate, task, name) for task in tasks]
        if any(cells):
            yield (text, *cells)


def _score(certificate: Certificate, task: str, name: str) -> str:
    figures = certificate.figures[task]
    if name not in figures:
        return ""
    if name in ("low", "high"):
        return f"{figures[name].value:z.2f} ± {figures[name].error:z.2f}"
    width = figures["high"].value - figures["low"].value
    return f"{certificate.score(task, name):z.2f} ± {figures[name].error / width:z.2f}"


def _parts(certificate: Certificate, tasks: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield what each class of rules adds to the class before it, as a share of the best score."""
    for place, (_, text) in enumerate(_SHARES):
        cells = []
        for task in tasks:
            reached = [0.0]
            for other, _ in _SHARES:
                name = "low" if other == "blind" and _is_focal(certificate, task) else other
                score = certificate.score(task, name)
                reached.append(max(score, reached[-1]))
            whole = reached[-1]
            share = (reached[place + 1] - reached[place]) / whole if whole > 0.0 else 0.0
            cells.append(f"{share:z.2f}")
        yield (f"with {text}: more by", *cells)


def _is_focal(certificate: Certificate, task: str) -> bool:
    """Return whether the lower bound of a task is the best rule that ignores partners."""
    return "blind" not in certificate.figures[task]


def bounds_lines(certificate: Certificate) -> list[str]:
    """Return one line per task: its bounds as a protocol's file holds them."""
    lines = certificate.bounds()
    width = max((len(name) for name in lines), default=0)
    return [f"{name:<{width}}  {bounds_text(bounds)}" for name, bounds in lines.items()]


def bounds_text(numbers: Mapping[str, float]) -> str:
    """Return bounds as a protocol's file holds them."""
    return f"bounds = {{ {', '.join(f'{key} = {value}' for key, value in numbers.items())} }}"
