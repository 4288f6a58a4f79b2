"""Tables and figures of the pages of results: read from stored reports, nothing decided here."""

import csv
from importlib import import_module

import pytest
import scipy.stats
from stored_tables import DOCS, ends_of_ranks, prose, scores_of, shares, verdicts_on

from coopbench.statistics.two_samples import holm
from studies.reference import BATTLERS


def write(file, rows):
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, list(rows[0]), restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def tables(monkeypatch, tmp_path):
    """The module, with two policies and a learner of two runs in place of the stored results."""
    monkeypatch.syspath_prepend(str(DOCS))
    results_tables = import_module("results_tables")
    monkeypatch.setattr(results_tables.stored, "RESULTS", tmp_path)
    monkeypatch.setattr(results_tables.stored, "source", lambda name: "marl-standard")
    (folder := tmp_path / "mine").mkdir()
    row = {"statistic": "mean", "unit": "episodes", "count": "99", "group": "one"}
    rows = [
        row | {"policy": "random", "estimate": "0.1", "low": "-0.1", "high": "0.3"},
        row | {"policy": "best", "estimate": "0.9", "low": "0.8", "high": "1.0"},
        row | {"policy": "learner", "estimate": "0.5", "unit": "runs", "count": "2"},
        row | {"policy": "best", "estimate": "0.7", "low": "0.6", "high": "0.8", "group": "two"},
        row | {"policy": "best", "estimate": "0.0", "statistic": "worst_task"},
    ]
    ranks = [
        {"group": "one", "policy": "best", "low": "1", "high": "2"},
        {"group": "one", "policy": "random", "low": "3", "high": "3"},
    ]
    means = [rows[0] | {"task": "slcd", "metric": "return", "mean": "7.5", "flag": ""}]
    for name, content in {"aggregates": rows, "ranks": ranks, "estimates": means}.items():
        write(folder / f"{name}.csv", content)
    return results_tables


def test_groups_have_scores_intervals_and_ranks(tables):
    lines = tables.groups("mine").replace("\N{NO-BREAK SPACE}", " ").splitlines()
    assert lines[0] == "| Policy | `one` | `two` |"
    assert lines[2:] == [
        "| `best` | 0.90 [0.80, 1.00] (1 to 2) | 0.70 [0.60, 0.80] |",
        "| `learner`, 2 runs | 0.50 | — |",
        "| `random` | 0.10 [-0.10, 0.30] (3) | — |",
    ]


def test_shares_end_at_0_and_1_and_returns_stay_as_they_are(tables, monkeypatch):
    low = "| `random` | 0.10 [{},\N{NO-BREAK SPACE}0.30] (3) | — |"
    assert low.format("-0.10") in tables.groups("mine")
    monkeypatch.setattr(tables.stored, "source", lambda name: "skirmish-small")
    assert low.format("0.00") in tables.groups("mine")


def test_the_overview_tells_scripts_from_learners(tables):
    assert tables.leaders("mine", "one") == [
        "0.10",
        "`best` 0.90 [0.80,\N{NO-BREAK SPACE}1.00]",
        "`learner`, 2 runs 0.50",
        "-0.40, ranks overlap",  # the learner has no rank
    ]
    assert tables.leaders("mine", "two")[2:] == ["none yet", "—"]
    model = {"policy": "ippo_shared:caves", "unit": "runs", "count": "1"}
    assert tables.stored.titled("routing-medium", model).endswith("1 run at 0.02 of the budget")


def test_a_star_marks_the_best_of_a_kind_whose_ranks_overlap(tables, tmp_path):
    """Ranks shared with the other kind, or with random play, give none."""
    scores, ranks = (tables.stored.read("mine", f"{name}.csv") for name in ("aggregates", "ranks"))
    second = next(row for row in scores if row["policy"] == "best")
    write(tmp_path / "mine" / "aggregates.csv", [*scores, second | {"policy": "second"}])
    shared = {"group": "one", "low": "2", "high": "3"}
    ranks += [shared | {"policy": "learner"}, shared | {"policy": "second", "low": "3"}]
    for last, star in (("2", ""), ("3", "*")):
        ranks[0]["high"] = last
        write(tmp_path / "mine" / "ranks.csv", ranks)
        script, learner = tables.leaders("mine", "one")[1:3]
        assert script == f"`best` 0.90 [0.80,\N{NO-BREAK SPACE}1.00]{star}"
        assert learner == "`learner`, 2 runs 0.50"


def test_policies_differ_where_they_share_no_rank(tables):
    first, second = {"low": "1", "high": "2"}, {"low": "3", "high": "5"}
    assert tables.apart(first, second)
    assert tables.apart(second, first)
    assert not tables.apart(first, second | {"low": "2"})
    assert not tables.apart(first, None)


def test_a_task_says_by_how_much_the_best_learner_is_ahead(tables, tmp_path):
    """On slcd of marl-standard, whose bounds make scores of returns."""
    bounds = tables.stored.protocol_of("mine").task_of("slcd").bounds
    width, score = bounds.high - bounds.low, tables.stored.protocol_of("mine").report.score
    shares = {"random": 0.0, "best": 0.5, "worse": 0.25, "learner": 0.75}
    rows = [
        {"task": "slcd", "policy": name, "metric": score, "mean": str(bounds.low + share * width)}
        | {"unit": "runs" if name == "learner" else "episodes", "count": "3", "flag": ""}
        for name, share in shares.items()
    ]
    write(tmp_path / "mine" / "estimates.csv", rows)
    row = "| `slcd` | 0.00 | `best` 0.50 | `learner`, 3 runs 0.75{} | +0.25, {} |"
    assert tables.tasks("mine").splitlines()[2:] == [row.format("", "open")]
    pair = {"task": "slcd", "first": "learner", "second": "best", "decided": "True"}
    write(tmp_path / "mine" / "comparisons.csv", [pair])
    steps = [
        {"task": "slcd", "policy": "learner", "step": str(n), "estimate": str(bounds.low + share)}
        for n, share in ((1, 0.0), (2, 0.0), (3, 0.1 * width), (4, 0.2 * width))
    ]
    write(tmp_path / "mine" / "learning.csv", steps)
    assert row.format(", still rising (+0.10)", "decided") in tables.tasks("mine", "games")


def test_the_chart_names_policies_in_the_order_of_the_table(tables):
    pytest.importorskip("matplotlib")  # draws pages, and no report
    svg = tables.chart("mine")
    assert "0 and 1 are the bounds of a task" in svg
    places = [svg.index(f">{name}<") for name in ("best", "learner, 2 runs", "random")]
    assert places == sorted(places)


def test_steps_to_a_threshold_may_be_out_of_reach(tables):
    steps_text = import_module("results_pages").steps_text
    out_of_reach = {"steps": "", "steps_low": "70000.0", "steps_high": ""}
    assert steps_text(out_of_reach) == "not reached [70,000, not reached]"


def test_a_mean_over_some_of_the_episodes_states_their_share(tables):
    defined = import_module("results_pages").defined
    some = {"flag": "undefined in 979 of 1000 episodes; 3 runs", "mean": "0.5"}
    assert defined(some) == " (2.1 %)"
    assert defined(some | {"mean": ""}) == defined(some | {"flag": ""}) == ""


def test_sentences_on_teams_are_those_of_the_stored_tables(stored):
    name, learners = "marl-standard", ("mappo_shared", "qmix_shared", "ippo_shared")
    central, mixed, independent = learners
    text, overview = prose(f"results/{name}.md"), prose("results.md")
    ends = ends_of_ranks(stored, name)

    def above(group, first, second):  # decided, as the text says
        return ends[group, first][1] < ends[group, second][0]

    for group, best in {
        "games": "cooperator",
        "pathfinding": "astar_pibt",
        "battles": "focus_fire",
    }.items():
        assert all(above(group, best, learner) for learner in learners)
        assert above(group, central, independent) == (group != "pathfinding")
        assert above(group, mixed, independent) == (group != "pathfinding")
    assert above("games", central, mixed)
    assert ends["pathfinding", central] == ends["pathfinding", independent]
    for learner in (central, independent):
        assert above("pathfinding", learner, "greedy")
    assert above("pathfinding", "greedy", mixed)
    for learner in (central, mixed):
        assert ends["battles", learner][0] <= ends["battles", "kite"][1]
        assert ends["battles", "kite"][0] <= ends["battles", learner][1]
    for policy in ("attack_nearest", "smac_heuristic"):
        assert above("battles", central, policy)
        assert above("battles", policy, independent)
    scores = scores_of(stored, name, "return")
    for task, order, said in (
        (
            "trust-dilemma",
            (independent, mixed),
            "{:.2f}, as `cooperator` does, and `qmix_shared` {:.2f}.",
        ),
        ("recovery-race", learners, "scores {:.2f}, `qmix_shared` {:.2f} and `ippo_shared` {:.2f}"),
        ("slcd", learners, "In `slcd` they score {:.2f}, {:.2f} and {:.2f};"),
    ):
        assert said.format(*(scores[task, learner] for learner in order)) in text
    games = ("recovery-race", "slcd", "trust-dilemma")
    first, second, third = ([scores[task, learner] for task in games] for learner in learners)
    assert (min(third), max(third)) == (third[0], third[2])
    said = (
        "In games `mappo_shared` scores {:.2f} to {:.2f}, `qmix_shared`, which ranks next, {:.2f}"
    )
    assert said.format(min(first), max(first), min(second)) in overview
    said = (
        "to {:.2f}, and `ippo_shared` from {:.2f} in `recovery-race` to {:.2f} in `trust-dilemma`."
    )
    assert said.format(max(second), min(third), max(third)) in overview
    said = "than both in the maze ({:.2f}) and less on both grids ({:.2f} and {:.2f}), all decided."
    assert said.format(*(scores[t, mixed] for t in ("maze_a4", "grid_a4", "grid_a8"))) in overview
    for policy, said in (
        (central, "`mappo_shared` brings {:.2f} to {:.2f} of the agents home"),
        (independent, "brings {:.2f} to {:.2f} of the agents home (`success_rate`), and so does"),
        ("greedy", "more than `greedy` ({:.2f} to {:.2f})"),
        ("potential_field", "less than `potential_field` ({:.2f} to {:.2f})"),
        ("astar_pibt", "which knows the whole map, brings {:.2f} to {:.2f} home."),
    ):
        tasks = ("grid_a4", "grid_a8", "maze_a4")
        home = [shares(stored, name, "success_rate", task, policy) / 100 for task in tasks]
        assert said.format(min(home), max(home)) in text
    home = [
        shares(stored, name, "success_rate", task, mixed) / 100
        for task in ("maze_a4", "grid_a4", "grid_a8")
    ]
    for share, place in zip(
        home, ("home in the maze", "on `grid_a4`", "on `grid_a8`"), strict=True
    ):
        assert f"{share:.2f} {place}" in text
    for learner in learners:
        won = [shares(stored, name, "win", task, learner) / 100 for task in ("3m", "2s3z", "8m")]
        numbers = "{:.2f}, {:.2f} and {:.2f}".format(*won)
        assert f"`{learner}` wins {numbers}" in text or f"`{learner}` {numbers}" in text


# Pairs of policies that pages call decided on single tasks: protocol, better, worse, tasks.
DECIDED = [
    (
        *("routing-standard", "potential_field", "ippo_shared"),
        ("random_grid_a8_o60", "random_grid_a8_o100"),
    ),
    *(
        ("routing-standard", "ippo_shared", policy, ("random_grid_a32_o20",))
        for policy in ("potential_field", "astar_pibt", "orca", "greedy")
    ),
    *(
        ("coopetition-standard", *pair, tuple(f"{game}.focal" for game in games))
        for *pair, games in (
            ("ippo_recurrent", "ippo", ("trust-dilemma", "recovery-race", "synergy-search")),
            ("ippo_recurrent", "mappo_shared", ("trust-dilemma", "recovery-race")),
            ("ippo", "ippo_recurrent", ("slcd", "partner-selection")),
            ("mappo_shared", "ippo_recurrent", ("slcd", "partner-selection")),
            (
                *("best_script", "ippo_recurrent"),
                ("trust-dilemma", "partner-hold-up", "platform-ecosystem", "recovery-race"),
            ),
            ("best_script", "ippo_recurrent", ("slcd", "renault-nissan")),
        )
    ),
    *(
        ("skirmish-standard", *pair)
        for learner in ("mappo_shared", "qmix_shared")
        for pair in (
            (learner, "focus_fire", ("2s_vs_1sc", "3s_vs_5z")),
            (learner, "focus_fire", ("2s_vs_1sc.shifted", "3s_vs_5z.shifted")),
            ("focus_fire", learner, ("8m.shifted", "2s3z.shifted")),
        )
    ),
    *(
        ("coopetition-standard", *pair, tasks)
        for other in ("ippo", "mappo_shared")
        for *pair, tasks in (
            (other, "ippo_recurrent", ("partner-selection.shifted", "slcd.shifted")),
            (other, "ippo_recurrent", ("renault-nissan",)),
            ("ippo_recurrent", other, ("platform-ecosystem",)),
        )
    ),
    ("coopetition-standard", "ippo_recurrent", "ippo", ("recovery-race.unmet",)),
    ("coopetition-published", "isac", "ippo", ("recovery-race",)),
    ("coopetition-published", "ippo", "isac", ("dynamic-partner-selection", "slcd")),
    ("marl-standard", "focus_fire", "mappo_shared", ("3m", "8m")),
    ("marl-standard", "mappo_shared", "focus_fire", ("2s3z",)),
    ("marl-standard", "attack_nearest", "mappo_shared", ("8m",)),
    ("marl-standard", "smac_heuristic", "mappo_shared", ("8m",)),
    *(("marl-standard", "ippo_shared", policy, ("3m",)) for policy in ("kite", "attack_nearest")),
    ("marl-standard", "cooperator", "mappo_shared", ("slcd",)),
    ("marl-standard", "cooperator", "qmix_shared", ("trust-dilemma", "recovery-race", "slcd")),
    ("marl-standard", "mappo_shared", "qmix_shared", ("trust-dilemma", "recovery-race", "2s3z")),
    *(
        ("marl-standard", *pair)
        for other in ("mappo_shared", "ippo_shared")
        for pair in (("qmix_shared", other, ("maze_a4",)), (other, "qmix_shared", ("grid_a8",)))
    ),
    *(
        ("marl-standard", other, "qmix_shared", ("grid_a4",))
        for other in ("mappo_shared", "ippo_shared")
    ),
    ("marl-standard", "qmix_shared", "greedy", ("maze_a4",)),
    ("marl-standard", "qmix_shared", "mappo_shared", ("3m", "8m")),
    ("marl-standard", "qmix_shared", "focus_fire", ("3m",)),
    ("marl-standard", "focus_fire", "qmix_shared", ("8m", "2s3z")),
    *(
        (
            "rail-published-1",
            "never_depart",
            policy,
            tuple(f"test_{k:02}" for k in range(first, 13)),
        )
        for policy, first in (("random", 2), ("shortest_path", 3))
    ),
    *(
        ("rail-published-2", "never_depart", policy, tuple(f"test_{k:02}" for k in range(first, 9)))
        for policy, first in (("random", 2), ("shortest_path", 3))
    ),
    *(
        (name, "prioritised_replan", "prioritised", tuple(f"trains_{k}" for k in tasks))
        for name, tasks in (
            ("rail-standard", (20, "20_malfunctions")),
            ("rail-scaling", (25, 50, 100, 200, 400)),
        )
    ),
    ("routing-easy", "greedy", "ippo_shared", ("labmaze_a32_c0.4",)),
    ("routing-learned", "greedy", "ippo", ("random_grid_a8_o20",)),
    (
        *("rail-scaling", "deadlock_avoidance", "ippo_shared"),
        tuple(f"trains_{number}" for number in (10, 25, 50, 100, 200, 400)),
    ),
    (
        *("rail-scaling", "one_by_one", "ippo_shared"),
        tuple(f"trains_{number}" for number in (25, 50, 100, 200, 400)),
    ),
]


@pytest.mark.parametrize(("name", "better", "worse", "tasks"), DECIDED)
def test_what_pages_call_decided_is(stored, name, better, worse, tasks):
    verdicts = verdicts_on(stored, name, better)
    for task in tasks:
        assert verdicts[task][worse] is True, task


# Pairs that they call open: protocol, two policies, tasks.
OPEN = [
    *(
        ("coopetition-standard", policy, "ippo_recurrent", tuple(f"{game}.focal" for game in games))
        for policy, games in (
            ("best_script", ("partner-selection", "synergy-search")),
            ("ippo", ("partner-hold-up", "platform-ecosystem", "renault-nissan")),
        )
    ),
    ("marl-standard", "cooperator", "mappo_shared", ("trust-dilemma", "recovery-race")),
    ("marl-standard", "mappo_shared", "qmix_shared", ("slcd",)),
    *(
        ("skirmish-published", policy, "qmix_shared", ("2c_vs_64zg", "10m_vs_11m", "mmm2"))
        for policy in BATTLERS  # three runs of QMIX, which win a map always or never
    ),
    (
        *("routing-easy", "greedy", "ippo_shared"),
        tuple(
            f"labmaze_{kind}"
            for kind in ("a8_c0.4", "a8_c0.65", "a8_c1.0", "a32_c0.65", "a32_c1.0")
        ),
    ),
    ("routing-learned", "greedy", "ippo", ("random_grid_a8_o0",)),
    (
        *("rail-standard", "prioritised", "prioritised_replan"),
        ("trains_7", "trains_7_malfunctions"),
    ),
    ("rail-scaling", "prioritised", "prioritised_replan", ("trains_10",)),
]


@pytest.mark.parametrize(("name", "one", "other", "tasks"), OPEN)
def test_what_pages_call_open_is(stored, name, one, other, tasks):
    verdicts = verdicts_on(stored, name, one)
    for task in tasks:
        assert verdicts[task][other] is None, task


def test_sentences_on_pathfinding_are_those_of_the_stored_table(stored):
    name = "routing-standard"
    text = prose(f"results/{name}.md")
    ends = ends_of_ranks(stored, name)
    tasks = [task.id for task in stored.protocol_of(name).task]
    for policy in ("astar_pibt", "potential_field"):
        home = [shares(stored, name, "success_rate", task, policy) for task in tasks]
        assert f"brings {min(home):.0f} to {max(home):.0f} % of the agents home" in text
    for group in stored.protocol_of(name).groups:
        assert ends[group, "astar_pibt"] == (1, 1)
        overlap = ends[group, "ippo_shared"][0] <= ends[group, "potential_field"][1]
        assert overlap == (group == "random_grid")
        assert ends[group, "ippo_shared"][1] < ends[group, "iql_shared"][0]


def test_the_reward_of_the_team_changes_every_game():
    """Welch's tests of the run means that the page has, all of them decided after Holm."""
    with (DOCS.parent / "benchmarks" / "results" / "team-reward.csv").open() as file:
        rows = list(csv.DictReader(file))
    samples = {
        (task, reward): [
            float(row["own_return"])
            for row in rows
            if (row["task"], row["reward"]) == (task, reward)
        ]
        for task in {row["task"] for row in rows}
        for reward in ("own", "team")
    }
    tests = [
        scipy.stats.ttest_ind(samples[task, "own"], samples[task, "team"], equal_var=False)
        for task, reward in samples
        if reward == "own"
    ]
    assert len(tests) == 8
    assert holm([test.pvalue for test in tests]).max() < 0.05
    assert all(test.statistic < 0.0 for test in tests)  # more with the reward of the team


def test_sentences_on_groups_are_those_of_the_stored_tables(stored):
    """Means over groups that sentences of the page of results name."""
    text = prose("results.md")
    for sentence, *places in (
        (
            "`greedy` brings more home: {} on random grids, {} in mazes and {} in cities",
            *((("routing-easy", group, "greedy")) for group in ("random_grid", "labmaze")),
            ("routing-hard", "", "greedy"),
        ),
        (
            "`ippo` has the highest mean of four learners, {}, and `greedy` has {};",
            *((("routing-learned", "random_grid", policy)) for policy in ("ippo", "greedy")),
        ),
        (
            "which makes no plan, scores {} with seven trains and {} with twenty",
            *(
                ("rail-standard", group, "deadlock_avoidance")
                for group in ("seven-trains", "twenty-trains")
            ),
        ),
        (
            "planners that know the network score {} to {}.",
            ("rail-standard", "twenty-trains", "prioritised"),
            ("rail-standard", "seven-trains", "prioritised_replan"),
        ),
    ):
        values = [
            f"{float(row['estimate']):.2f}"
            for name, group, policy in places
            for row in stored.means(name)
            if (row["group"], row["policy"]) == (group, policy)
        ]
        assert sentence.format(*values) in text


def test_sentences_on_scripts_are_those_of_the_stored_table(stored):
    name = "coopetition-standard"
    text = prose(f"results/{name}.md")
    means = {(row["group"], row["policy"]): float(row["estimate"]) for row in stored.means(name)}
    best = [means[group, "best_script"] for group in ("focal", "shifted", "focal-held-out")]
    said = "It scores {:.2f} with the partners for which it was chosen, {:.2f} in shifted ranges"
    assert f"{said} and {{:.2f}} with held-out partners".format(*best) in text
    unmet = {policy: mean for (group, policy), mean in means.items() if group == "focal-unmet"}
    leader = max(unmet, key=lambda policy: unmet[policy])
    assert unmet[leader] < 0.0
    assert f"`{leader}` leads with {unmet[leader]:.2f}, and `best_script` scores" in text
    assert f"`best_script` scores {unmet['best_script']:.2f}" in text
    more = [
        means[group, "reciprocator"] - means[group, "cooperator"]
        for group in stored.protocol_of(name).groups
        if group != "self-play"
    ]
    assert f"`reciprocator` scores {min(more):.2f} to {max(more):.2f} more" in text


def test_means_over_new_partners_hide_what_is_decided(stored):
    name, group = "coopetition-standard", "focal-unmet"
    protocol, page = stored.protocol_of(name), prose(f"results/{name}.md")
    scores, tasks = scores_of(stored, name, "own_return"), protocol.groups[group]
    leaders = {}
    for task in tasks:
        rows = [
            row
            for row in stored.read(name, "estimates.csv")
            if (row["task"], row["metric"]) == (task.id, "own_return") and row["unit"] == "episodes"
        ]
        leader = max(rows, key=lambda row: float(row["mean"]))
        assert task.bounds.normalise(float(leader["low"])) > 0.0
        leaders[task.id] = leader["policy"]
    best = [scores[pair] for pair in leaders.items()]
    said = f"the best script scores {min(best):.2f} to {max(best):.2f}"
    assert f"In each of its games {said}, with its whole interval above 0: `matcher` in" in page
    assert f"in each of its games {said}." in prose("results.md")
    others = {task: policy for task, policy in leaders.items() if policy != "matcher"}
    assert others == {
        "platform-ecosystem.unmet": "best_script",
        "partner-selection.unmet": "reciprocator",
    }
    every = "partner-hold-up", "platform-ecosystem"
    for learner, more, less in (
        ("mappo_shared", ("trust-dilemma", "recovery-race", "renault-nissan"), every),
        ("ippo", ("trust-dilemma", "renault-nissan"), every),
        ("ippo_recurrent", ("recovery-race", "renault-nissan"), (*every, "partner-selection")),
    ):
        verdicts, games = verdicts_on(stored, name, learner), {}
        for task in (task.id for task in tasks):
            if (higher := verdicts[task]["best_script"]) is not None:
                ahead = scores[task, learner] - scores[task, "best_script"]
                games.setdefault(higher, {})[task.removesuffix(".unmet")] = ahead
        assert (set(games[True]), set(games[False])) == ({*more}, {*less})
        assert page.count(f"`{learner}` scores more")
        for game, ahead in (games[True] | games[False]).items():
            assert f"`{game}` ({ahead:+.2f})" in page


def test_isac_shares_the_ranks_of_ippo_in_published_games(stored):
    name = "coopetition-published"
    ends, scores = ends_of_ranks(stored, name), scores_of(stored, name, "return")
    assert ends["games", "isac"] == ends["games", "ippo"]
    games = [task.id for task in stored.protocol_of(name).groups["games"]]
    verdicts = verdicts_on(stored, name, "isac")
    decided = {game for game in games if verdicts[game]["ippo"] is not None}
    assert decided == {"recovery-race", "dynamic-partner-selection", "slcd"}
    text = prose(f"results/{name}.md")
    for game in decided:
        assert f"`{game}` ({scores[game, 'isac'] - scores[game, 'ippo']:+.2f})" in text


def test_ranks_of_learners_of_coopetition_are_as_the_pages_say(stored):
    """Which ranks are above those of ``ippo``, which overlap, and where its interval is below 0."""
    name, learner = "coopetition-standard", "ippo"
    above: dict[str, set[str]] = {}
    overlapping: dict[str, set[str]] = {}
    ends = ends_of_ranks(stored, name)
    for (group, policy), (low, high) in ends.items():
        first, last = ends[group, learner]
        above.setdefault(group, set()).update({policy} if high < first else ())
        shared = policy != learner and low <= last and first <= high
        overlapping.setdefault(group, set()).update({policy} if shared else ())
    scripts = {"cooperator", "reciprocator", "best_script", "unforgiving", "matcher"}
    assert above["self-play"] == scripts
    assert overlapping == {
        "self-play": {"bully", "mappo_shared"},
        "focal": {"reciprocator", "unforgiving", "ippo_recurrent", "mappo_shared"},
        "focal-held-out": {"reciprocator", "ippo_recurrent", "mappo_shared"},
        "focal-unmet": {"unforgiving", "best_script", "mappo_shared"},
        "shifted": {"reciprocator", "mappo_shared"},
    }
    memory = {group: ends[group, "ippo_recurrent"] for group in overlapping}
    for other in (learner, "mappo_shared"):
        assert {g for g, (_, last) in memory.items() if last < ends[g, other][0]} == {"shifted"}
        lower = {g for g, (first, _) in memory.items() if first > ends[g, other][1]}
        assert lower == {"self-play", "focal-unmet"}
        decided = {g for g in memory if ends[g, other][0] > ends[g, "best_script"][1]}
        assert set(memory) - decided == {"focal-unmet"}
    assert all(first > ends[g, "best_script"][1] for g, (first, _) in memory.items())
    for other in ("ippo_recurrent", "mappo_shared"):
        assert all(ends["self-play", s][1] < ends["self-play", other][0] for s in scripts)
    means = {row["group"]: row for row in stored.means(name) if row["policy"] == learner}
    below = {group for group, row in means.items() if float(row["high"]) < 0.0}
    assert below == {"focal-held-out", "focal-unmet"}
    page = prose(f"results/{name}.md")
    curve = {
        int(row["step"]): float(row["estimate"])
        for row in stored.read(name, "learning.csv")
        if (row["group"], row["task"], row["policy"]) == ("self-play", "", learner)
    }
    best, last = max(curve, key=curve.__getitem__), max(curve)
    said = f"curve of `ippo` is highest ({curve[best]:.2f}) after {best:,} steps and ends at"
    assert f"{said} {curve[last]:.2f};" in page
    assert f"for 1,000,000 steps, and scores {float(means['self-play']['estimate']):.2f}." in page


@pytest.mark.parametrize("learner", ["ippo", "mappo_shared"])
def test_learners_without_memory_lead_where_the_pages_say(stored, learner):
    name = "coopetition-standard"
    learners = set(stored.protocol_of(name).report.learned)
    verdicts = verdicts_on(stored, name, learner)
    ahead = {task: rivals for task, rivals in verdicts.items() if task.endswith(".focal")}
    leads = ahead.pop("partner-selection.focal")
    assert all(leads[rival] for rival in leads.keys() - learners)
    assert ahead.pop("synergy-search.focal")["best_script"] is None
    assert len(ahead) == 6
    assert {rivals["best_script"] for rivals in ahead.values()} == {False}


def test_one_difference_between_ippo_and_mappo_is_decided(stored):
    name = "coopetition-standard"
    verdicts = verdicts_on(stored, name, "mappo_shared")
    decided = {task: v["ippo"] for task, v in verdicts.items() if v["ippo"] is not None}
    assert decided == {"trust-dilemma.shifted": False}
    scores = scores_of(stored, name, "own_return")
    page = prose(f"results/{name}.md")
    two = (scores["trust-dilemma.shifted", policy] for policy in ("ippo", "mappo_shared"))
    said = "decided in one, `trust-dilemma.shifted`, where `ippo` scores more ({:.2f} and {:.2f})"
    assert f"Of the {len(verdicts)} tasks" in page
    assert said.format(*two) in page


def test_sentences_on_the_learner_in_games_are_those_of_the_stored_table(stored):
    name, learner = "coopetition-standard", "ippo"
    pages = (DOCS / "results" / f"{name}.md", DOCS / "results.md", DOCS / "learners" / "ippo.md")
    page, overview, failures = (" ".join(file.read_text("utf-8").split()) for file in pages)
    protocol = stored.protocol_of(name)
    every = scores_of(stored, name, "own_return")
    scores = {task: score for (task, policy), score in every.items() if policy == learner}
    focal = sorted((task.id for task in protocol.groups["focal"]), key=scores.__getitem__)
    least, most = focal[0], focal[-1]
    assert (least, most) == ("platform-ecosystem.focal", "partner-selection.focal")
    said = f"goes from {scores[least]:.2f} in `platform-ecosystem` to {scores[most]:.2f} in"
    assert f"{said} `partner-selection`, and" in overview
    others = {task: every[task, "ippo_recurrent"] for task in scores}
    central = {task: every[task, "mappo_shared"] for task in scores}
    by_score = sorted(focal, key=central.__getitem__)
    assert (by_score[0], by_score[-1]) == (least, most)
    said = f"`mappo_shared` from {central[least]:.2f} to {central[most]:.2f} in the same games;"
    assert said in overview
    memory = sorted(focal, key=others.__getitem__)
    said = "goes from {:.2f} in `platform-ecosystem` to {:.2f} in `synergy-search`."
    assert said.format(others[memory[0]], others[memory[-1]]) in overview
    for task in ("trust-dilemma", "recovery-race", "synergy-search", "slcd", "partner-selection"):
        two = others[f"{task}.focal"], scores[f"{task}.focal"]
        assert "`{}` ({:.2f} and {:.2f})".format(task, *two) in page
    said = "`ippo` ({:.2f}) and `mappo_shared` ({:.2f}) are above every script in"
    assert said.format(scores[most], central[most]) in page
    said = "In `platform-ecosystem` `ippo` scores {:.2f}, `ippo_recurrent` {:.2f} and"
    assert said.format(scores[least], others[memory[0]]) in page
    assert f"`mappo_shared` {central[least]:.2f}; 0 is the best rule" in page
    played = sorted((task.id for task in protocol.groups["self-play"]), key=scores.__getitem__)
    least, second, most = played[0], played[1], played[-1]
    said = f"`ippo` scores {scores[least]:.2f} in `{least}` to {scores[most]:.2f} in `{most}`."
    assert said in page
    memory = sorted((task.id for task in protocol.groups["self-play"]), key=others.__getitem__)
    said = "scores {:.2f} in `{}` to {:.2f} in `{}`. Each agent".format(
        *(part for task in (memory[0], memory[-1]) for part in (others[task], task))
    )
    assert said in page
    said = f"{scores[least]:.2f} in `{least}` and {scores[second]:.2f} to {scores[most]:.2f} in the"
    assert said in failures
