"""Tables of railways: rail_networks.md from ``studies/rail``, rail_results.md from results."""

from stored_results import number, protocol_of, read

from coopbench.report.markdown import rows_table
from studies.rail import maps
from studies.reference import DISPATCHERS

CHALLENGES = (
    *("rail-published-1", "rail-published-2", "rail-challenge-2020-1", "rail-challenge-2020-2"),
)


def parts() -> dict[str, str]:
    """Return every generated part of the page of networks."""
    return {"maps": maps.table(maps.rows_of(maps.OURS))}


def challenges() -> dict[str, str]:
    """Return the tables of tests by protocol, whose parts have no hyphens in their names."""
    return {name.replace("-", "_"): tests_table(name) for name in CHALLENGES}


def tests_table(name: str) -> str:
    """Table of the share of trains that arrived, with its interval, and the score, by test.

    A normalized return is shown as the challenges count it, which add 1.
    """
    protocol = protocol_of(name)
    metric = protocol.report.score
    added = 1.0 if metric == "normalised_return" else 0.0
    cells = {
        (row["task"], row["policy"], row["metric"]): row for row in read(name, "estimates.csv")
    }
    scores = {
        (task.id, policy): added + number(cells[task.id, policy, metric]["mean"])
        for task in protocol.task
        for policy in DISPATCHERS
    }

    def entry(task: str, policy: str) -> str:
        row = cells[task, policy, "arrived"]
        mean, low, high = (number(row[key]) for key in ("mean", "low", "high"))
        return f"{mean:.2f} ± {(high - low) / 2:.2f} / {scores[task, policy]:.3f}"

    body = [
        (
            f"{task.axes['test']:.0f} ({task.axes['trains']:.0f})",
            *(entry(task.id, p) for p in DISPATCHERS),
        )
        for task in protocol.task
    ]

    def mean(policy: str) -> str:
        arrived = [number(cells[task.id, policy, "arrived"]["mean"]) for task in protocol.task]
        all_scores = [scores[task.id, policy] for task in protocol.task]
        return f"{sum(arrived) / len(arrived):.2f} / {sum(all_scores) / len(all_scores):.3f}"

    body.append(("mean", *map(mean, DISPATCHERS)))
    return rows_table(["test (trains)", *DISPATCHERS], body)
