"""Pages of protocols, made at every build: facts, seeds, baselines and tasks of each.

Beside a task stands whether ten runs are enough to show a difference, as far as it was simulated.
"""

import csv
from functools import partial

from checkout import ROOT

from coopbench import catalogue
from coopbench.describe import describe_protocol
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.schema import Protocol

POWER = ROOT / "benchmarks" / "results" / "power.csv"  # made by ``python -m studies.spreads``
SHOWN = 0.9  # share of reports that have to decide the difference
HEAD = "Are 0.9 in ten runs shown above 0.6?"
_WHAT = (
    "The last column says how often reports decide that ten runs with a score of 0.9 are better "
    'than a fixed policy, or ten runs of another learner, with 0.6: "yes" is in at least '
    f"{100 * SHOWN:g} % of them. Where it is less, runs spread too much for ten of them to show "
    "such a difference. The reports are simulated with the spreads of stored runs; "
    "`coopbench plan power` simulates others."
)


def page(name: str) -> str:
    """Return the page of a protocol: what ``coopbench show NAME`` prints, and its power."""
    protocol = load_protocol(name)
    power = powers(protocol)
    intro = (
        f"The protocol with its seeds, baselines and tasks, as `coopbench show {name}` "
        f"prints it. [Protocols](../protocols.md) explains the entries."
    )
    parts = [f"# {name}", intro, *([_WHAT] if power else [])]
    return "\n\n".join([*parts, describe_protocol(protocol, power)]) + "\n"


def powers(protocol: Protocol) -> dict[str, list[str]]:
    """Return a column of the tasks, {head: cells}; none for a protocol without stored power."""
    with POWER.open(encoding="utf-8", newline="") as file:
        rows = {
            row["task"]: (float(row["script"]), float(row["learner"]))
            for row in csv.DictReader(file)
            if row["protocol"] == protocol.protocol.name
        }
    cells = [_cell(*rows[task.id]) if task.id in rows else "not known" for task in protocol.task]
    return {HEAD: cells} if rows else {}


def _cell(script: float, learner: float) -> str:
    """Say against whom ten runs are too few; the arguments are shares of reports."""
    sides = {"a fixed policy": script, "ten runs": learner}
    few = [
        f"above {rival} in {100 * share:.0f} %" for rival, share in sides.items() if share < SHOWN
    ]
    return f"no: {', '.join(few)} of reports" if few else "yes"


MADE = {f"protocols/{name}.md": partial(page, name) for name in catalogue.protocol_names()}
