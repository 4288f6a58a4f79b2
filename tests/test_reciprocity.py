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
POLICIES = [
    "reciprocator",
    "cooperator",
    "unforgiving",
    "matcher",
    "bully",
    "alternator",
    "gradual",
    "extorter",
    "prober",
    "drifter",
    "q_learner",
    "tester",
    "weigher",
    "switcher:cooperator,always_defect",
]


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


@pytest.mark.parametrize(
    ("settings", "course"),
    [
        ("smooth=0.1", [1.0, 0.9, 0.81]),
        ("smooth=0.5,opinion=0.3", [0.5, 0.25, 0.125]),  # it begins with its own opinion
    ],
)
def test_a_slow_reciprocator_moves_its_opinion_by_a_part(settings, course):
    good, bad = ({"trust_in_others": r, "trust_in_me": 0.9} for r in (0.9, 0.3))
    invested = played(f"reciprocator:0.3,0.9,{settings}", good, bad, bad)[:, 0]
    np.testing.assert_allclose(invested, course, atol=1e-6)


def test_nobody_invests_in_bad_times():
    bad = {"productivity": 0.1, "trust_in_others": 0.9, "trust_in_me": 0.9}
    for name in POLICIES:
        assert (played(name, bad, bad) == 0.0).all(), name


def test_an_unforgiving_agent_never_invests_again():
    low, high = {"trust_in_others": 0.3}, {"trust_in_others": 0.9}
    assert played("unforgiving:0.4", high, low, high)[:, 0].tolist() == [1.0, 0.0, 0.0]


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


def test_thresholds_can_be_shares_of_the_first_record():
    records = [{"trust_in_others": r, "trust_in_me": 0.5} for r in (0.5, 0.4, 0.36, 0.34, 0.5)]
    course = played("unforgiving:0.7,0.9,relative=1", *records)[:, 0]
    np.testing.assert_allclose(course, [0.9, 0.9, 0.9, 0.0, 0.0])
    graded = played("reciprocator:0.6,1,contrite=0,relative=1", *records)[:, 0]
    np.testing.assert_allclose(graded, [1.0, 0.5, 0.3, 0.2, 1.0], atol=1e-6)


def test_a_contrite_reciprocator_compares_both_records_with_the_first_ones():
    """Its own record has lost a fifth, the others' too: their lack is excused."""
    both = [{"trust_in_others": r, "trust_in_me": s} for r, s in ((0.5, 0.4), (0.4, 0.32))]
    assert (played("reciprocator:0.6,1,relative=1", *both) == 1.0).all()


def test_who_begins_without_a_record_is_not_blamed_for_it():
    begins = [{"trust_in_others": r} for r in (0.0, 0.2, 0.1)]
    assert (played("unforgiving:0.7,relative=1", *begins) == 1.0).all()


@pytest.mark.parametrize("name", ["unforgiving:0.4,last=2", "reciprocator:last=2"])
def test_nothing_is_invested_in_the_last_steps(name):
    steps = [{"trust_in_others": 1.0, "time": t} for t in (0.0, 0.97, 0.98, 0.99)]
    assert played(name, *steps)[:, 0].tolist() == [1.0, 1.0, 0.0, 0.0]


def test_a_matcher_gives_a_share_of_what_it_got_in_good_times():
    steps = [
        {},
        {"others_actions": 0.8},
        {"others_actions": 0.5, "productivity": 0.1},  # a step of the bad regime follows
        {"others_actions": 0.0},  # nobody invested in it, and nobody is blamed
    ]
    course = played("matcher:0.6", *steps)[:, 0]
    np.testing.assert_allclose(course, [0.6, 0.48, 0.0, 0.3], atol=1e-6)


def test_an_alternator_counts_good_steps_alone():
    steps = [{}, {"productivity": 0.1}, {}, {}, {}, {}]
    course = played("alternator:2,0.8", *steps)[:, 0]
    np.testing.assert_allclose(course, [0.8, 0.0, 0.8, 0.0, 0.0, 0.8], atol=1e-6)


def test_a_gradual_agent_punishes_longer_each_time_and_makes_peace_between():
    """After an offence come n steps of punishment, then two in which it is not offended."""
    actions = [1.0, 0.2, 0.2, 0.2, 0.2, 1.0, 1.0, 1.0, 1.0, 1.0]
    bad = {"others_actions": 0.0, "productivity": 0.1}  # a step of the bad regime follows
    steps = [*({"others_actions": a} for a in actions[:2]), bad]
    steps += [{"others_actions": 0.0}, *({"others_actions": a} for a in actions[2:])]
    course = played("gradual:0.5", *steps)[:, 0]
    # offended at the second step: one of punishment, then two of peace besides the bad one
    assert course.tolist() == [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_an_extorter_gives_less_until_the_others_do():
    actions = [0.0, 1.0, 1.0, 1.0, 0.5, 0.5]
    course = played("extorter:0.5,0.1", *({"others_actions": a} for a in actions))[:, 0]
    # its share is 1, falls by 0.1 three times, rises by 0.2 when they gave half of the usual
    np.testing.assert_allclose(course, [1.0, 0.9, 0.8, 0.7, 0.45, 0.5], atol=1e-6)


@pytest.mark.parametrize(
    ("others", "course"),
    [
        # Everything is accepted: .45, half of that and so on; then it gives a margin on top.
        ([1.0] * 9, [1.0, 1.0, 0.45, 0.45, 0.175, 0.175, 0.0375, 0.0375, 0.1375]),
        # They punish .45 and accept .725 and .5875, its last estimate.
        (
            [1.0, 1.0, 1.0, 0.2, 0.2, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
            [1.0, 1.0, 0.45, 0.45, 1.0, 1.0, 0.725, 0.725, 0.5875, 0.5875, 0.6875],
        ),
    ],
)
def test_a_prober_searches_what_the_others_accept(others, course):
    invested = played("prober:2,0.1", *({"others_actions": a} for a in others))[:, 0]
    np.testing.assert_allclose(invested, course, atol=1e-6)


def test_a_drifter_goes_on_while_it_fares_better():
    actions = [1.0, 1.0, 1.0, 0.5, 0.5]
    course = played("drifter:0.1,0.5,0", *({"others_actions": a} for a in actions))[:, 0]
    # With more from the others it goes up; it turns when they give half, and turns again.
    np.testing.assert_allclose(course, [0.5, 0.6, 0.7, 0.6, 0.7], atol=1e-6)


def test_a_q_learner_returns_what_it_gets_until_it_has_learned_otherwise():
    given = [1.0, 1.0, 0.5, 0.0]
    course = played("q_learner:0.5,0", *({"others_actions": a} for a in given))[:, 0]
    np.testing.assert_allclose(course, [1.0, 1.0, 0.5, 0.0], atol=1e-6)
    # Who gives everything to those that give nothing is exploited in the end.
    learned = played("q_learner:0.5,0.3", *[{"others_actions": 1.0}] * 150)[:, 0]
    assert learned[:10].mean() > 0.7 > 0.4 > learned[-50:].mean()


def test_a_tester_exploits_those_who_let_it():
    steps = [{"others_actions": 1.0}] * 9
    assert played("tester:2", *steps)[:, 0].tolist() == [0, 0, 1, 1, 0, 0, 1, 1, 0]


def test_a_tester_matches_those_who_punish_after_it_has_made_amends():
    actions = [1.0, 1.0, 0.2, 0.2, 0.8, 0.8, 0.8, 0.5]
    course = played("tester:2", *({"others_actions": a} for a in actions))[:, 0]
    np.testing.assert_allclose(course, [0, 0, 1, 1, 1, 1, 0.8, 0.5], atol=1e-6)


def test_a_bully_gives_more_to_worse_records():
    records = [{"trust_in_others": r} for r in (0.1, 0.4, 0.9)]
    np.testing.assert_allclose(played("bully:0.2,0.6", *records)[:, 0], [1.0, 0.5, 0.0], atol=1e-6)


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
