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
LEARNERS = ("iql_shared", "coma_shared", "vdn_shared", "qmix_shared")  # trained on 2s3z alone


def parts() -> dict[str, str]:
    """Return the generated parts of the page."""
    return {"smac": smac()}


def smac() -> str:
    """Percentages of battles won, as published and here."""
    wins = {
        (row["task"].lower(), row["policy"]): round(100 * number(row["mean"]))
        for name in ("skirmish-small", "skirmish-published")
        for row in read(name, "estimates.csv")
        if row["metric"] == "win"
    }

    def here(task: str, policies: tuple[str, ...]) -> str:
        return " / ".join(str(wins.get((task.lower(), policy), "—")) for policy in policies)

    body = [
        (f"`{task}`", " / ".join(map(str, values)), here(task, LEARNERS), here(task, BATTLERS))
        for task, values in TABLE_2.items()
    ]
    heads = (", ".join(names) for names in (PUBLISHED, LEARNERS, BATTLERS))
    published, learners, scripts = heads
    return rows_table(
        ["Map", f"Published: {published}", f"Here: {learners}", f"Here: {scripts}"], body
    )
