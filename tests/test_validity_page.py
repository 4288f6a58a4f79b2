"""Numbers on the page of validity are those of its tables, and of tables that are stored."""

import csv
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import spearmanr

from coopbench.protocol.loading import load_protocol
from studies.checks.folders import ROOT
from studies.validity import games
from studies.validity.decisions import POLICIES, TIES
from studies.validity.regime import ratios

FALSE = ("false on a task", "false over the group")
RANK = f"any false rank of {POLICIES}"


def text(name):
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page():
    return " ".join(text("validity.md").split())


def tables(title):
    """Return the tables of a section of the page of tables, as lists of rows with their head."""
    section = text("validity-tables.md").partition(f"## {title}\n")[2].partition("\n## ")[0]
    found = []
    for block in re.findall(r"(?:^\|.*\n?)+", section, re.MULTILINE):
        head, _, *rows = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()
        ]
        found.append([head, *rows])
    return found


def span(values):
    """Return the lowest and the highest value as the page writes them."""
    low, high = (f"{float(end):.2f}".removeprefix("0") for end in (min(values), max(values)))
    return f"{low} to {high}"


def test_ratios_are_those_of_the_stored_tables():
    (head, *rows), _ = tables("Coverage")
    assert [head, *rows] == list(ratios(SimpleNamespace()))


def test_coverage(page):
    _, (_, *rows) = tables("Coverage")
    covered = {
        kinds: {
            of: [float(c) for row in rows if row[0] in kinds for c in row[first : first + 3]]
            for of, first in (("task", 2), ("group", 6))
        }
        for kinds in (
            ("normal", "t(3)"),
            ("lognormal",),
            ("Beta near 1",),
            ("a tenth fails",),
            ("a fifth fails",),
        )
    }
    sentences = page.partition("**Coverage**")[2].partition("- **Decisions**")[0]
    for kinds, spans in covered.items():
        for of, values in spans.items():
            assert span(values) in sentences, (kinds, of, span(values))
    for row in rows:  # and the shortfall is that of the row
        for first in (2, 6):
            lowest = min(map(float, row[first : first + 3]))
            assert float(row[first + 3]) == pytest.approx(
                max(0.0, 0.95 - lowest), abs=1.1e-3
            )  # rounded


def test_false_decisions(page):
    sentences = page.partition("- **Decisions**")[2].partition("- **Power**")[0]
    ((head, *rows),) = tables("Equal policies")
    rows = [dict(zip(head, row, strict=True)) for row in rows]
    equal = [row for row in rows if "fixed" not in row["scores"] and row["scores"] != TIES]
    mixed = [row for row in rows if "fixed" in row["scores"]]
    for which in (equal, mixed):
        for column in FALSE:
            values = [row[column] for row in which]
            assert span(values) in sentences, (column, span(values))
        worst = max(which, key=lambda row: float(row[RANK]))
        rank = f"{worst[RANK]} ± {worst['standard error']}".replace("0.", ".")
        assert rank in sentences, rank
    assert all(
        float(row[column]) == 0.0 for row in rows if row["scores"] == TIES for column in FALSE
    )
    ((_, *claims),) = tables("False decisions on one task")
    for share, rival in (("a tenth fails", "fixed policy"), ("a tenth fails", "normal learner")):
        (row,) = [row for row in claims if row[:2] == [share, rival]]
        assert span(row[2:]) in sentences, (rival, span(row[2:]))


def test_profiles(page):
    ((_, *rows),) = tables("Performance profiles")
    apart, together = ([float(row[k]) for row in rows for k in ks] for ks in ((2, 4, 6), (8, 10)))
    assert f"the band covers {span(apart)} for runs that play one task each" in page
    assert f"and {span(together)} for runs that play all tasks" in page
    widths = [float(row[3]) for row in rows if row[0] == "5"]
    assert f"with five runs on one task it is {span(widths)} wide" in page


def test_improvement_and_groups(page):
    ((_, *rows),) = tables("Probability of improvement")
    for column in (3, 5):
        assert span([row[column] for row in rows]) in page
    widths = [row[k] for row in rows if row[:2] == ["1", "3"] for k in (4, 6)]
    assert f"{span(widths)} wide" in page
    ((_, *rows),) = tables("Groups of tasks")
    for column in (2, 4, 5):
        assert span([row[column] for row in rows]) in page


def test_returns_and_scores_of_pathfinding_agree(page):
    file = ROOT / "benchmarks" / "results" / "tables" / "routing-standard" / "estimates.csv"
    values = {"return": {}, "spl": {}}
    with file.open(encoding="utf-8", newline="") as opened:
        for row in csv.DictReader(opened):
            if row["metric"] in values and row["mean"]:
                values[row["metric"]][row["task"], row["policy"]] = float(row["mean"])
    pairs = sorted(values["spl"])
    found = spearmanr(*([values[metric][pair] for pair in pairs] for metric in values)).statistic
    assert f"have a rank correlation of {found:.2f} ({len(pairs)} pairs)" in page


def ends(values, places=2):
    """Return the lowest and the highest value as the sentences on games write them."""
    return f"{min(values):z.{places}f} to {max(values):z.{places}f}"


def test_games(page):
    """Sentences on the version 1 games, from the certificates."""
    stored, loaded = games.stored(), load_protocol("coopetition-standard")
    scores = {
        task.id: {kind: games._score(one, task.id, names) for kind, names in games.KINDS.items()}
        for task, one in games.certified_tasks(stored)
        if task.partners
    }
    kinds = ("blind", "partner", "memory", "best script", "`best_script`")
    known = {task: max(row[kind] for kind in kinds) for task, row in scores.items()}
    below = {task: known[task] - row["`best_script`"] for task, row in scores.items()}
    aside = {task: row["memory"] - row["partner"] for task, row in scores.items()}
    groups = {group: [t.id for t in members] for group, members in loaded.groups.items()}

    def of(names, *among):
        """Return the tasks of some games in some groups."""
        return [task for group in among for task in groups[group] if task.startswith(names)]

    more = sum(row["best script"] > row["memory"] for row in scores.values())
    assert f"In {more} of the {len(scores)} tasks with partners the best script" in page
    near = sum(abs(row["defect"]) <= 0.03 for row in scores.values())
    assert f"in {near} of the {len(scores)} tasks with partners `always_defect`" in page
    chance = [
        f"{np.mean([scores[task]['random'] for task in members]):.1f}"
        for group, members in groups.items()
        if group != "self-play"
    ]
    said = "`random` scores about {} here, {} in `focal-held-out`, {} in `focal-unmet` and {} in"
    assert said.format(*chance) in page
    bayes = [row["Bayesian"] for row in scores.values()]
    assert f"and {ends(bayes)} on a task" in page
    means = [
        np.mean([scores[task]["Bayesian"] for task in members])
        for group, members in groups.items()
        if group != "self-play"
    ]
    assert f"the Bayesian policy has {ends(means)} in the mean of a group" in page
    gains = [100 * (t.bounds.high / t.bounds.low - 1) for t in loaded.task if t.partners]
    assert f"earn only {ends(gains, 0)} % more return" in page

    alike = ("trust-dilemma", "partner-hold-up", "partner-selection")
    held = of(alike, "focal", "focal-held-out", "shifted")
    assert f"it is within {math.ceil(100 * max(below[t] for t in held)) / 100:.2f} of" in page
    unmet = ends([below[task] for task in groups["focal-unmet"]])
    assert f"it is {unmet} below the best known rule in all six games" in page
    others = [task for task in groups["focal-held-out"] if not task.startswith(alike)]
    assert f"in `focal-held-out` {ends([below[task] for task in others])} below it" in page
    above = [row["Bayesian"] - known[task] for task, row in scores.items()]
    assert f"The Bayesian policy is {ends(above)} above" in page
    hidden = of(("trust-dilemma", "partner-hold-up", "renault-nissan"), "focal", "shifted")
    assert f"Rules with memory are {ends([aside[task] for task in hidden])} above" in page
    public = ("partner-selection", "platform-ecosystem", "synergy-search", "slcd")
    most = max(aside[task] for task in of(public, "focal", "shifted"))
    assert f"but at most {most:.2f} in" in page
