"""SMAC's Table 2 and the win rates of this package on the same maps, for docs/published.md."""

from stored_results import number, read

from coopbench.report.markdown import rows_table
from studies.reference import BATTLERS

# Samvelyan et al. (2019), Table 2: for IQL, COMA, VDN and QMIX the highest median over five runs of
# the test win rate within the last 250,000 of two million steps, in percent, and the heuristic's.
TABLE_2 = {
    "2s_vs_1sc": (100, 98, 100, 100, 0),
    "2s3z": (75, 43, 97, 99, 90),
    "3s5z": (10, 1, 84, 97, 42),
    "1c3s5z": (21, 31, 91, 97, 81),
    "10m_vs_11m": (34, 7, 97, 97, 12),
    "2c_vs_64zg": (7, 0, 21, 58, 0),
    "bane_vs_bane": (99, 64, 94, 85, 43),
    "5m_vs_6m": (49, 1, 70, 70, 0),
    "3s_vs_5z": (45, 0, 91, 87, 0),
    "3s5z_vs_3s6z": (0, 0, 2, 2, 0),
    "6h_vs_8z": (0, 0, 0, 3, 0),
    "27m_vs_30m": (0, 0, 0, 49, 0),
    "MMM2": (0, 0, 1, 69, 0),
    "corridor": (0, 0, 0, 1, 0),
}
PUBLISHED = ("IQL", "COMA", "VDN", "QMIX", "heuristic")
OURS = "qmix_shared"  # of skirmish-published; the learners below are of skirmish-small
LEARNERS = ("iql_shared", "coma_shared", "vdn_shared", "qmix_shared")


def parts() -> dict[str, str]:
    """Return the generated parts of the page."""
    return {"smac": smac()}


def smac() -> str:
    """Percentages of battles won, as published and here."""
    small, wins = wins_of("skirmish-small"), wins_of("skirmish-published")
    medians = {
        row["task"].lower(): percent(row["median"])
        for row in read("skirmish-published", "final_medians.csv")
        if row["policy"] == OURS
    }

    def here(task: str) -> tuple[str, str]:
        scripts = " / ".join(wins[task, policy] for policy in BATTLERS)
        return f"{medians[task]} / {wins[task, OURS]}", scripts

    body = [
        (f"`{task}`", " / ".join(map(str, values)), *here(task.lower()))
        for task, values in TABLE_2.items()
    ]
    table = rows_table(
        [
            "Map",
            f"Published: {', '.join(PUBLISHED)}",
            f"Here: `{OURS}`, highest median / mean of the last policies",
            f"Here: {', '.join(BATTLERS)}",
        ],
        body,
    )
    longer = ", ".join(f"`{learner}` {small['2s3z', learner]}" for learner in LEARNERS)
    return (
        f"{table}\n\nOn `2s3z` [skirmish-small](results.md#battles) trains learners for 600,000 "
        f"steps. Percentages of battles that the\nbest checkpoints of five runs win: {longer}."
    )


def wins_of(name: str) -> dict[tuple[str, str], str]:
    """Return the percentages of battles won under a protocol, by map and policy."""
    return {
        (row["task"].lower(), row["policy"]): percent(row["mean"])
        for row in read(name, "estimates.csv")
        if row["metric"] == "win"
    }


def percent(share: str) -> str:
    """Return a share as a percentage."""
    return f"{100 * number(share):.0f}"
