"""Sentences on battles are those of the stored tables."""

from functools import partial

import numpy as np
from stored_tables import ends_of_ranks, prose, shares, verdicts_on

from coopbench.analysis.learning import RISING, last_rise
from studies.reference import BATTLERS

LEARNERS = "mappo_shared", "qmix_shared"  # of skirmish-standard


def test_sentences_on_published_maps_are_those_of_the_stored_table(stored):
    name, learner = "skirmish-published", "qmix_shared"
    here = partial(shares, stored, name, "win")
    for page in ("results.md", f"results/{name}.md"):
        text = prose(page)
        won = [here("2c_vs_64zg", policy) for policy in (learner, "random", "kite")]
        won += [here(task, learner) for task in ("10m_vs_11m", "mmm2")]
        for value in (*won, here("bane_vs_bane", "random")):
            assert f"{value:.0f} %" in text, (page, value)
        most = max(here(task, policy) for task in ("10m_vs_11m", "mmm2") for policy in BATTLERS[1:])
        assert f"at most {most:.1g} %" in text
    verdicts = verdicts_on(stored, name, learner)
    fewer = {
        "bane_vs_bane": ("random", "smac_heuristic", "smac_heuristic_free"),
        "2s3z": ("attack_nearest", "kite"),
        "27m_vs_30m": ("smac_heuristic_free",),
    }
    for task, verdict in verdicts.items():
        assert here(task, learner) == 0.0 or task not in fewer
        decided = {policy for policy, better in verdict.items() if better is not None}
        assert decided == {*fewer.get(task, ())}
        assert not any(verdict[policy] for policy in decided)


def test_sentences_on_small_maps_are_those_of_the_stored_table(stored):
    name = "skirmish-small"
    pairs = {
        row["first"] if row["second"] == "qmix_shared" else row["second"]: row
        for row in stored.read(name, "comparisons.csv")
        if row["task"] == "3m-drawn" and "qmix_shared" in (row["first"], row["second"])
    }
    scripts = [pairs[policy] for policy in BATTLERS[1:]]
    assert all(row["decided"] == "True" for row in scripts)
    below = abs(float(pairs["smac_heuristic_free"]["difference"]))
    above = sorted(abs(float(row["difference"])) for row in scripts)[1:]
    drawn = {
        policy: shares(stored, name, "win", "3m-drawn", policy) / 100
        for policy in (*pairs, "qmix_shared")
    }
    for page in ("results.md", f"results/{name}.md"):
        text = prose(page)
        said = f"{min(above):.2f} to {max(above):.2f} above the others; all of these differences"
        assert f"`qmix_shared` is {below:.2f} below" in text
        assert said in text
        ends = "from `qmix_shared` ({qmix_shared:.2f}) to `iql_shared` ({iql_shared:.2f})"
        assert ends.format(**drawn) in text
    order = sorted(drawn, key=lambda policy: -drawn[policy])
    assert (order[0], order[1], order[5]) == ("smac_heuristic_free", "qmix_shared", "iql_shared")
    assert {*order[6:8]} == {"focus_fire", "smac_heuristic"}
    ends = ends_of_ranks(stored, name)
    first, last = ends["v1", "smac_heuristic_free"]
    for learner in order[1:6]:
        low, high = ends["v1", learner]
        assert low <= last
        assert first <= high
        for script in ("attack_nearest", "kite"):
            apart = high < ends["v1", script][0]
            assert apart == (learner in ("qmix_shared", "mappo_shared"))
    learners = ("qmix_shared", "vdn_shared", "iql_shared", "coma_shared")
    above_coma = {p for p in learners if ends["v1", p][1] < ends["v1", "coma_shared"][0]}
    assert above_coma == {"qmix_shared", "vdn_shared"}
    said = "each win {:.2f} (QMIX), {:.2f} (VDN), {:.2f} (IQL) and {:.2f} (COMA) of"
    assert said.format(*(drawn[learner] for learner in learners)) in prose("published.md")
    two, script = ("coma_shared", "qtran_shared"), "focus_fire"
    verdict = verdicts_on(stored, name, script)["3m-drawn"]
    assert all(verdict[learner] for learner in two)
    said = "win less than `focus_fire` ({:.2f} and {:.2f}; {:.2f})"
    assert said.format(*(drawn[policy] for policy in (*two, script))) in text
    means = {row["policy"]: row for row in stored.means(name) if row["group"] == "v0"}
    fixed = (float(means[policy]["estimate"]) for policy in (*two, script))
    assert "have higher means ({:.2f} and {:.2f}; {:.2f})".format(*fixed) in text


def test_sentences_on_groups_of_battles_are_those_of_the_stored_table(stored):
    name = "skirmish-standard"
    means = {(row["group"], row["policy"]): float(row["estimate"]) for row in stored.means(name)}
    ends = ends_of_ranks(stored, name)
    drawn, shifted = ([means[group, p] for p in LEARNERS] for group in ("maps", "shifted"))
    assert min(drawn) > 2.0 * max(means["maps", policy] for policy in BATTLERS)
    assert {f"{mean:.2f}" for mean in drawn} == {"0.64"}
    for learner in LEARNERS:
        assert all(ends["maps", learner][1] < ends["maps", p][0] for p in (*BATTLERS, "open_loop"))
        overlap = {p for p in BATTLERS if ends["shifted", p][0] <= ends["shifted", learner][1]}
        assert overlap == {"focus_fire", "smac_heuristic_free", "kite"}
        assert ends["shifted", learner][0] == 1
    assert ends["maps", LEARNERS[0]] == ends["maps", LEARNERS[1]]
    assert ends["maps", "open_loop"] == ends["maps", "smac_heuristic"]
    page, overview = prose(f"results/{name}.md"), prose("results.md")
    assert "each win 0.64 of the battles, twice as many as the best scripts" in page
    assert "each win 0.64 of the battles, twice as many as the best scripts" in overview
    said = "`mappo_shared` wins {:.2f} and `qmix_shared` {:.2f}; their ranks overlap those of the"
    assert said.format(*shifted) in page
    assert "From shifted starts they win {:.2f} and {:.2f}, and".format(*shifted) in overview
    parts = []
    for learner in LEARNERS:
        leads = {
            task: shares(stored, name, "win", task, learner)
            - shares(stored, name, "win", task, "focus_fire")
            for task in ("2s_vs_1sc", "3s_vs_5z", "2s3z", "8m")
        }
        parts.append(100 * (leads["2s_vs_1sc"] + leads["3s_vs_5z"]) / sum(leads.values()))
    assert "leads over `focus_fire` {:.0f} and {:.0f} % come from".format(*parts) in page


def test_sentences_on_single_battles_are_those_of_the_stored_table(stored):
    """What is decided between the learners, and on maps where one script or plan is named."""
    name = "skirmish-standard"
    page, overview = prose(f"results/{name}.md"), prose("results.md")

    def won(task, *policies):
        return [shares(stored, name, "win", task, policy) / 100 for policy in policies]

    verdicts = {learner: verdicts_on(stored, name, learner) for learner in LEARNERS}
    assert {task: verdict["mappo_shared"] for task, verdict in verdicts["qmix_shared"].items()} == {
        **{"8m": True, "3s_vs_5z": True, "2s3z": False, "2s_vs_1sc": None},
        **{"8m.shifted": None, "3s_vs_5z.shifted": True, "2s3z.shifted": False},
        "2s_vs_1sc.shifted": None,
    }
    others = (*BATTLERS, "open_loop")
    for learner, plain in zip(LEARNERS, (False, None), strict=True):
        verdict = verdicts[learner]
        assert verdict["8m"]["smac_heuristic_free"] is plain
        assert verdict["8m.shifted"]["open_loop"] is plain
        assert {verdict["8m.shifted"][script] for script in BATTLERS[1:]} == {False}
        assert verdict["2s3z.shifted"]["focus_fire"] is False
        assert {verdict["3s_vs_5z.shifted"][policy] for policy in others} == {True}
        decided = verdict["2s_vs_1sc.shifted"]["open_loop"]
        assert decided is (True if learner == "mappo_shared" else None)
    both = "qmix_shared", "mappo_shared"
    numbers = {
        "`smac_heuristic_free` wins {:.2f}, more than": won("8m", "smac_heuristic_free"),
        "`mappo_shared` ({:.2f}), which is decided; its": won("8m", "mappo_shared"),
        "from `qmix_shared` ({:.2f}) is open": won("8m", "qmix_shared"),
        "On `8m` they win {:.2f} and {:.2f} instead of {:.2f} and {:.2f}": (
            *won("8m.shifted", *LEARNERS),
            *won("8m", *LEARNERS),
        ),
        "which cannot react, wins {:.2f}: more than `mappo_shared`": won("8m.shifted", "open_loop"),
        "On `2s3z` they win {:.2f} and {:.2f}, less than `focus_fire` ({:.2f})": won(
            "2s3z.shifted", *LEARNERS, "focus_fire"
        ),
        "they win {:.2f} and {:.2f}, more than every": won("3s_vs_5z.shifted", *LEARNERS),
        "only `open_loop` wins battles ({:.2f}), they win {:.2f} and {:.2f}": won(
            "2s_vs_1sc.shifted", "open_loop", *LEARNERS
        ),
        "wins more on `3s_vs_5z` ({:.2f} and {:.2f}; shifted {:.2f} and {:.2f})": (
            *won("3s_vs_5z", *both),
            *won("3s_vs_5z.shifted", *both),
        ),
        "wins more on `2s3z` ({:.2f} and {:.2f}; shifted {:.2f} and {:.2f})": (
            *won("2s3z", *LEARNERS),
            *won("2s3z.shifted", *LEARNERS),
        ),
    }
    for said, values in numbers.items():
        assert said.format(*values) in page
    for said, values in {
        "wins more than `mappo_shared` ({:.2f} and {:.2f})": won(
            "8m", "smac_heuristic_free", "mappo_shared"
        ),
        "against `qmix_shared` ({:.2f}) it is open": won("8m", "qmix_shared"),
        "on `8m` ({:.2f} and {:.2f} instead of {:.2f})": won("8m.shifted", *LEARNERS, "focus_fire"),
    }.items():
        assert said.format(*values) in overview
    for task in ("2s_vs_1sc", "2s_vs_1sc.shifted"):
        assert not any(won(task, *BATTLERS))
        assert all(won(task, "open_loop"))


def test_sentences_on_runs_of_battles_are_those_of_the_stored_table(stored):
    """Standard deviations of runs, and where learning curves still rise."""
    name, maps = "skirmish-standard", ("2s_vs_1sc", "3s_vs_5z", "2s3z", "8m")
    page = prose(f"results/{name}.md")
    spread = {
        (row["policy"], row["task"]): float(row["std"])
        for row in stored.read(name, "estimates.csv")
        if row["metric"] == "win" and row["policy"] in LEARNERS
    }
    two = sorted(maps, key=lambda task: -spread["qmix_shared", task])[:2]
    assert two == ["2s_vs_1sc", "3s_vs_5z"]
    said = "a standard deviation of {:.2f} (`mappo_shared` {:.2f}), then on `3s_vs_5z` ({:.2f} and"
    values = [spread[learner, task] for task in two for learner in reversed(LEARNERS)]
    assert f"{said.format(*values[:3])} {values[3]:.2f})" in page
    rises = {}
    for learner in LEARNERS:
        for task in maps:
            curve = [
                (float(row["step"]), float(row["estimate"]))
                for row in stored.read(name, "learning.csv")
                if (row["task"], row["policy"]) == (task, learner)
            ]
            rises[learner, task] = last_rise(*np.array(curve).T)
    assert {pair for pair, rise in rises.items() if rise <= RISING} == {("qmix_shared", "8m")}
    first = [rises["mappo_shared", task] for task in maps]
    second = [rises["qmix_shared", task] for task in maps[:3]]
    for text, said in (
        (page, "on every map, by {:.2f} to {:.2f}, and those of `qmix_shared` by {:.2f} to {:.2f}"),
        (
            prose("protocol-designs.md"),
            "`mappo_shared` by {:.2f} to {:.2f} on every map, `qmix_shared` by {:.2f} to {:.2f} on",
        ),
    ):
        assert said.format(min(first), max(first), min(second), max(second)) in text
