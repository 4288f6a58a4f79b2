"""Figures on the pages of environments: what they state is what play and stored tables give."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from coopbench_envs import Engine

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "environments"
ROW = re.compile(
    r"^\| (?:best constant: )?`constant:([\d.]+)` \| ([\d .]+) \| (\d+) \|$", re.MULTILINE
)
WITHIN = re.compile(r"always within ([\d.]+) % of 1")


def pages(holds):
    """Return the pages on which a pattern is found, as (id of the environment, text)."""
    texts = {file: file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob("*.md"))}
    found = {
        re.search(r"`(coopbench/\w+-v0)`", text)[1]: text
        for text in texts.values()
        if holds.search(text)
    }
    return pytest.mark.parametrize(("env_id", "text"), found.items(), ids=list(found))


def earned(env_id, share, state):
    """Return the sum of the returns if all agents invest a share of their endowments; and steps."""
    engine = Engine(env_id)
    engine.reset(np.array([0]), state=state)
    actions = share * engine.constants.endowment[None, :, None]
    steps = 0
    while not engine.control.done[0]:
        engine.step(actions)
        steps += 1
    return float(engine.control.returns[0].sum()), steps


@pages(ROW)
def test_constants_earn_what_the_page_states(env_id, text):
    weight = re.search(r"weight (\d\.\d+)\.", text)
    state = {"gamma": float(weight[1])} if env_id.endswith("SynergySearch-v0") else None
    rows = ROW.findall(text)
    assert len(rows) >= 3
    for share, stated, steps in rows:
        figure = stated.replace(" ", "")
        decimals = len(figure.partition(".")[2])
        value, length = earned(env_id, float(share), state)
        assert (f"{value:.{decimals}f}", length) == (figure, int(steps)), share


@pages(WITHIN)
def test_reciprocity_changes_rewards_by_no_more_than_the_page_states(env_id, text):
    """At full trust, and where all investments of the others have changed as much as possible."""
    constants = Engine(env_id).constants
    largest = 100.0 * constants.reply.sum(axis=1).max() / constants.wealth
    stated = float(WITHIN.search(text)[1])
    assert stated - 0.1 < largest <= stated


def test_the_page_of_planners_has_what_the_stored_tables_have():
    text = (FOLDER / "routing_planners.md").read_text(encoding="utf-8")
    tables = ROOT / "benchmarks" / "results" / "tables"
    with (tables / "routing-easy" / "estimates.csv").open(encoding="utf-8") as file:
        means = {(r["task"], r["policy"], r["metric"]): r["mean"] for r in csv.DictReader(file)}
    policies, compared = [], 0
    metrics = ("success_rate", "coordination", "makespan")
    for line in text.splitlines():
        cells = [cell.strip(" `") for cell in line.strip("|").split(" | ")]
        if line.startswith("| task |"):
            policies = cells[1:]
        elif line.startswith(("| `random_grid", "| `labmaze")) and " / " in line:
            for policy, cell in zip(policies, cells[1:], strict=True):
                if policy == "ceiling":
                    continue
                for metric, shown in zip(metrics, cell.split(" / "), strict=False):
                    decimals = len(shown.partition(".")[2])
                    stored = float(means[cells[0], policy, metric])
                    assert f"{stored:.{decimals}f}" == shown, (line, policy, metric)
                    compared += 1
    assert compared == 12 * (2 * 3 + 3 * 2)
