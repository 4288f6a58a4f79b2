"""Policies of the version 1 games' pools: what they play in situations with known answers."""

import numpy as np
import pytest

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_policy
from coopbench_envs import Engine
from coopbench_envs.core import streams

GAME = Game.at("TrustDilemma-v1")
POLICIES = (
    *("reciprocator", "cooperator", "unforgiving", "matcher", "bully", "alternator", "gradual"),
    *("extorter", "prober", "drifter", "q_learner", "tester", "weigher"),
    "switcher:cooperator,always_defect",
)


def observed(game=GAME, **parts):
    """Return the observations (1, agents, features) with these parts, alike for all agents."""
    defaults = {"productivity": 0.6} | parts
    row = np.zeros(max(part.stop for part in game.layout.values()), np.float32)
    for name, value in defaults.items():
        row[game.layout[name].index] = value
    return np.tile(row, (1, len(game.agents), 1))


def played(name, *steps, game=GAME):
    """Return the investments (steps, agents) of a policy for the observed parts of each step."""
    policy = make_policy(name, game)
    memory = policy.initial(game, streams(np.zeros(1, np.uint64), np.zeros(1, np.int64)))
    investments = []
    for parts in steps:
        actions, memory = policy.act(observed(game, **parts), memory)
        investments.append(actions[0, :, 0])
    return np.array(investments)


@pytest.mark.parametrize(
    ("other", "own", "fraction"),
    [
        (0.9, 0.9, 1.0),
        (0.3, 0.9, 0.0),
        (0.6, 0.9, 0.5),
        (0.6, 0.75, 0.75),  # 0.15 of the other's lack is excused
        (0.0, 0.0, 1.0),  # its own record excuses everything
        (0.0, 0.6, 0.0),
    ],
)
def test_a_reciprocator_compares_the_records(other, own, fraction):
    parts = {"trust_in_others": other, "trust_in_me": own}
    np.testing.assert_allclose(played("reciprocator:0.3,0.9", parts)[0], fraction, atol=1e-6)


def test_a_plain_reciprocator_excuses_nothing_and_a_forgiving_one_keeps_a_floor():
    low = {"trust_in_others": 0.1, "trust_in_me": 0.1}
    assert (played("reciprocator:contrite=0", low) == 0.0).all()
    np.testing.assert_allclose(played("reciprocator:contrite=0,floor=0.4", low), 0.4)


BAD = {"productivity": 0.1}


def records(*others, own=0.5):
    """Return the steps in which the others' record is this one."""
    return [{"trust_in_others": record, "trust_in_me": own} for record in others]


def gifts(*actions):
    """Return the steps before which the others have invested so much."""
    return [{"others_actions": action} for action in actions]


RELATIVE = (0.5, 0.4, 0.36, 0.34, 0.5)
LATE = [{"trust_in_others": 1.0, "time": t} for t in (0.0, 0.97, 0.98, 0.99)]
COURSES = {  # what is said of a policy: its name, what it sees in every step, what it invests
    "a slow reciprocator moves its opinion by a part": (
        ("reciprocator:0.3,0.9,smooth=0.1", records(0.9, 0.3, 0.3, own=0.9), [1.0, 0.9, 0.81]),
        # It begins with its own opinion.
        (
            "reciprocator:0.3,0.9,smooth=0.5,opinion=0.3",
            records(0.9, 0.3, 0.3, own=0.9),
            [0.5, 0.25, 0.125],
        ),
    ),
    "an unforgiving agent never invests again": (
        ("unforgiving:0.4", records(0.9, 0.3, 0.9), [1.0, 0.0, 0.0]),
    ),
    "thresholds can be shares of the first record": (
        ("unforgiving:0.7,0.9,relative=1", records(*RELATIVE), [0.9, 0.9, 0.9, 0.0, 0.0]),
        ("reciprocator:0.6,1,contrite=0,relative=1", records(*RELATIVE), [1.0, 0.5, 0.3, 0.2, 1.0]),
    ),
    # Its own record has lost a fifth, the others' too: their lack is excused.
    "a contrite reciprocator compares both records with the first ones": (
        (
            "reciprocator:0.6,1,relative=1",
            [*records(0.5, own=0.4), *records(0.4, own=0.32)],
            [1.0, 1.0],
        ),
    ),
    "who begins without a record is not blamed for it": (
        ("unforgiving:0.7,relative=1", records(0.0, 0.2, 0.1), [1.0, 1.0, 1.0]),
    ),
    "nothing is invested in the last steps": (
        ("unforgiving:0.4,last=2", LATE, [1.0, 1.0, 0.0, 0.0]),
        ("reciprocator:last=2", LATE, [1.0, 1.0, 0.0, 0.0]),
    ),
    # After a step of the bad regime, in which nobody invested, nobody is blamed.
    "a matcher gives a share of what it got in good times": (
        ("matcher:0.6", [{}, *gifts(0.8), gifts(0.5)[0] | BAD, *gifts(0.0)], [0.6, 0.48, 0.0, 0.3]),
    ),
    "an alternator counts good steps alone": (
        ("alternator:2,0.8", [{}, BAD, {}, {}, {}, {}], [0.8, 0.0, 0.8, 0.0, 0.0, 0.8]),
    ),
    # After an offence come n steps of punishment, then two in which it is not offended: offended
    # at the second step, one of punishment, two of peace besides the bad one, and so on.
    "a gradual agent punishes longer each time and makes peace between": (
        (
            "gradual:0.5",
            [*gifts(1.0, 0.2), gifts(0.0)[0] | BAD, *gifts(0.0, *[0.2] * 3, *[1.0] * 5)],
            [1, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 1],
        ),
    ),
    # Its share is 1, falls by 0.1 three times, rises by 0.2 when they gave half of the usual.
    "an extorter gives less until the others do": (
        ("extorter:0.5,0.1", gifts(0.0, 1.0, 1.0, 1.0, 0.5, 0.5), [1.0, 0.9, 0.8, 0.7, 0.45, 0.5]),
    ),
    "a prober searches what the others accept": (
        # Everything is accepted: .45, half of that and so on; then it gives a margin on top.
        (
            "prober:2,0.1",
            gifts(*[1.0] * 9),
            [1, 1, 0.45, 0.45, *[0.175] * 2, *[0.0375] * 2, 0.1375],
        ),
        # They punish .45 and accept .725 and .5875, its last estimate.
        (
            "prober:2,0.1",
            gifts(1.0, 1.0, 1.0, 0.2, 0.2, *[1.0] * 6),
            [1.0, 1.0, 0.45, 0.45, 1.0, 1.0, 0.725, 0.725, 0.5875, 0.5875, 0.6875],
        ),
    ),
    # With more from the others it goes up; it turns when they give half, and turns again.
    "a drifter goes on while it fares better": (
        ("drifter:0.1,0.5,0", gifts(1.0, 1.0, 1.0, 0.5, 0.5), [0.5, 0.6, 0.7, 0.6, 0.7]),
    ),
    "a tester exploits those who let it": (
        ("tester:2", gifts(*[1.0] * 9), [0, 0, 1, 1, 0, 0, 1, 1, 0]),
    ),
    "a tester matches those who punish after it has made amends": (
        ("tester:2", gifts(1.0, 1.0, 0.2, 0.2, 0.8, 0.8, 0.8, 0.5), [0, 0, 1, 1, 1, 1, 0.8, 0.5]),
    ),
    "a bully gives more to worse records": (
        ("bully:0.2,0.6", records(0.1, 0.4, 0.9), [1.0, 0.5, 0.0]),
    ),
}


@pytest.mark.parametrize("rule", COURSES)
def test_policies_invest_by_their_rule(rule):
    for name, steps, course in COURSES[rule]:
        np.testing.assert_allclose(played(name, *steps)[:, 0], course, atol=1e-6)


def test_nobody_invests_in_bad_times():
    bad = {"productivity": 0.1, "trust_in_others": 0.9, "trust_in_me": 0.9}
    for name in POLICIES:
        assert (played(name, bad, bad) == 0.0).all(), name


def test_a_weigher_sums_records_and_answers():
    """The average of the answers is 1, 0.6 and 0.36 with a weight of 0.4 for the newest."""
    steps = [{"trust_in_others": 0.9, "trust_in_me": 0.5, "others_actions": 0.0}] * 3
    course = played("weigher:0.5,0.5,0.25,-0.5", *steps)[:, 0]
    by_records = 0.5 + 0.5 * (0.9 - 0.7) - 0.5 * (0.5 - 0.7)
    expected = [by_records + 0.25 * (m - 0.7) for m in (1.0, 0.6, 0.36)]
    np.testing.assert_allclose(course, expected, atol=1e-6)


def test_a_weigher_stops_for_good():
    records = [{"trust_in_others": r, "trust_in_me": 0.5} for r in (0.5, 0.36, 0.34, 0.5)]
    course = played("weigher:0.9,threshold=0.7,relative=1", *records)[:, 0]
    np.testing.assert_allclose(course, [0.9, 0.9, 0.0, 0.0])
    answers = [{"trust_in_others": 0.9, "others_actions": a} for a in (0.0, 0.0, 0.0, 1.0)]
    assert played("weigher:1,least=0.5", *answers)[:, 0].tolist() == [1.0, 1.0, 0.0, 0.0]
    lean = [dict(step, productivity=0.1) for step in answers]  # nobody has to answer bad times
    assert played("weigher:1,least=0.5", *lean, answers[0])[-1, 0] == 1.0


def test_a_q_learner_returns_what_it_gets_until_it_has_learned_otherwise():
    given = [1.0, 1.0, 0.5, 0.0]
    course = played("q_learner:0.5,0", *gifts(*given))[:, 0]
    np.testing.assert_allclose(course, [1.0, 1.0, 0.5, 0.0], atol=1e-6)
    # Who gives everything to those that give nothing is exploited in the end.
    learned = played("q_learner:0.5,0.3", *[{"others_actions": 1.0}] * 150)[:, 0]
    assert learned[:10].mean() > 0.7 > 0.4 > learned[-50:].mean()


def test_a_switcher_plays_one_policy_and_then_the_other():
    game = Game.at("TrustDilemma-v1", horizon=4)
    course = played("switcher:cooperator,always_defect,0.5", *[{}] * 4, game=game)[:, 0]
    assert course.tolist() == [1.0, 1.0, 0.0, 0.0]


def test_trembles_are_of_the_episode_and_the_seat():
    engine = Engine("TrustDilemma-v1", 500)
    match = Match(engine, [Player("cooperator:1,trembles=0.2", Game.of(engine))])
    match.begin(np.arange(500, dtype=np.uint64), {"good": np.ones(500, np.bool_)})
    engine.control.obs[:, :, engine.layout["productivity"].index] = 0.6
    actions = match.actions()[:, :, 0]
    assert (actions < 1.0).mean() == pytest.approx(0.2, abs=0.05)
    assert (actions[:, 0] != actions[:, 1]).any()


@pytest.mark.parametrize("name", ["SynergySearch-v1", "SLCD-v1", "PlatformEcosystem-v1"])
def test_uninformed_agents_follow_what_informed_ones_invest(name):
    """From 1/3 of the level on they take investments as a sign of the good regime."""
    game = Game.at(name)
    others = len(game.agents) - 1
    parts = {
        "productivity": 0.0,
        "informed": [0.0, *[1.0] * others],
        "trust_in_others": 0.9,
        "trust_in_me": 0.9,
    }
    if "level" in game.layout:
        parts["level"] = 1.0
    steps = [parts | {"others_actions": seen} for seen in (0.3, 0.5, 0.7)]
    course = played("reciprocator", *steps, game=game)[:, 0]
    np.testing.assert_allclose(course, [0.0, 0.5, 1.0], atol=1e-6)


@pytest.mark.parametrize("name", ["SynergySearch-v1", "SLCD-v1", "PlatformEcosystem-v1"])
def test_informed_agents_judge_those_too_who_are_not(name):
    game = Game.at(name)
    others = len(game.agents) - 1
    parts = {"productivity": 0.9, "informed": [1.0, *[0.0] * others], "others_actions": 1.0}
    if "level" in game.layout:
        parts["level"] = 1.0
    trusted, distrusted = (
        played("reciprocator", parts | {"trust_in_others": record, "trust_in_me": 0.9}, game=game)
        for record in (0.9, 0.1)
    )
    assert trusted[0, 0] == pytest.approx(1.0)
    assert distrusted[0, 0] < 0.5
