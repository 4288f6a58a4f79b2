"""How new partners are: the measure on policies whose difference is known, and what it finds."""

import numpy as np
import pytest

from coopbench.baselines.game import Game
from coopbench.catalogue import protocol_names
from coopbench.protocol.loading import load_protocol
from coopbench_envs.roles import members_of_roles
from studies import newness

STANDARD = load_protocol("coopetition-standard")


@pytest.mark.parametrize(
    ("name", "distance"),
    [
        ("cooperator", 0.0),
        ("cooperator:0.75", 0.25),
        ("always_defect", 1.0),
        ("reciprocator:0,0,contrite=0", 0.0),  # which never withholds
    ],
)
def test_the_distance_is_that_of_investments_in_good_times(name, distance):
    played = newness.play(STANDARD.task_of("trust-dilemma.focal"), ["cooperator", name])["firm"]
    assert newness.distances(played[:1], played[1:])[0, 0] == pytest.approx(distance, abs=1e-6)


def test_trembles_hardly_count():
    """A partner does not become new because it errs: its errors are averaged."""
    names = ["cooperator:0.5", "cooperator:0.5,trembles=0.2"]
    played = newness.play(STANDARD.task_of("trust-dilemma.focal"), names)["firm"]
    assert newness.distances(played[:1], played[1:])[0, 0] < 0.05


@pytest.mark.parametrize(
    ("task", "role", "names"),
    [
        ("partner-hold-up.focal", "weak", ["matcher:0,demand=0.5", "matcher:0,demand=0.7"]),
        ("partner-selection.focal", "partner", ["matcher:0,bar=0", "matcher:0,bar=0.4"]),
        ("platform-ecosystem.focal", "platform", ["matcher:0,bar=0", "matcher:0,bar=0.9"]),
    ],
)
def test_choices_count_by_what_comes_of_them(task, role, names):
    """They invest the same, nothing: one of them demands more, or deals with fewer."""
    played = newness.play(STANDARD.task_of(task), names)[role]
    apart = abs(played[0] - played[1]).mean(axis=0)
    assert apart[0] == 0.0
    assert newness.distances(played[:1], played[1:])[0, 0] == apart[1:].max() > 0.1


def test_partners_of_shifted_tasks_are_met_and_those_of_other_groups_are_not():
    task = STANDARD.task_of("trust-dilemma.unmet")
    met = newness.met_partners(STANDARD, task)
    focal = STANDARD.task_of("trust-dilemma.focal")
    assert met == {role: tuple(names) for role, names in focal.pools.items()}
    assert {one.group for one in newness.new_tasks(STANDARD)} == {"focal-held-out", "focal-unmet"}


def test_copies_of_what_is_met_are_not_new():
    task = STANDARD.task_of("trust-dilemma.unmet")
    more = ["always_defect", "unforgiving:0.54", "alternator:3,0.5"]
    rows = {row.partner: row for row in newness.newness(STANDARD, task, more)}
    copy, near, apart = (rows[name] for name in more)
    assert (copy.nearest, copy.distance, copy.new) == ("always_defect", 0.0, False)
    assert near.nearest == "unforgiving:0.55"
    assert not near.new
    assert apart.new
    assert apart.distance >= newness.NEW


def test_every_new_partner_has_a_row_in_each_role():
    task = STANDARD.task_of("partner-hold-up.unmet")
    rows = newness.newness(STANDARD, task)
    names = set(task.partner_names)
    assert {(row.role, row.partner) for row in rows} == {
        (role, name) for role in ("strong", "weak") for name in names
    }
    assert all(np.isfinite(row.distance) for row in rows)


def _new_tasks():
    """Tasks with new partners of all protocols; those with the same game and pools once."""
    different = {}
    for name in protocol_names():
        protocol = load_protocol(name)
        for task in newness.new_tasks(protocol):
            met = newness.met_partners(protocol, task)
            key = task.env, repr(task.parameters), repr(task.pools), repr(met)
            different.setdefault(key, (protocol, task))
    return list(different.values())


@pytest.mark.slow("plays every partner of every pool with all probes, in all games")
def test_partners_that_training_may_not_meet_are_new():
    """In every role, by what they do."""
    for protocol, task in _new_tasks():
        rows = newness.newness(protocol, task)
        assert {row.role for row in rows} == set(members_of_roles(_agents(task)))
        assert not [row for row in rows if not row.new], task.id


def _agents(task):
    return Game.at(task.env, **task.parameters).agents
