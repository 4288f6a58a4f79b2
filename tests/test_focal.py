"""Focal play: the seats rotate evenly, every seat's actions come from who sits there."""

import numpy as np
import pytest
from builders import make_task, protocol_of

import coopbench
from coopbench.baselines.game import Game
from coopbench.baselines.match import seating, seating_by_role
from coopbench.baselines.player import Player
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell
from coopbench.playing.rollout import play
from coopbench.protocol.schema import Protocol
from coopbench.report.facts import task_facts
from coopbench.results import store
from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED

POOL = ("tit_for_tat", "random", "constant:0.75")
GAMES = {"coopbench/TrustDilemma-v0": {}, "coopbench/PlatformEcosystem-v0": {"num_developers": 3}}


def make_protocol(env, partners=POOL, count=14, **parameters):
    pool = partners if isinstance(partners, dict) else list(partners)
    settings = {"horizon": 9} | GAMES[env] | parameters
    return protocol_of(
        "focal",
        tasks=[make_task("one", env, parameters=settings, partners=pool, high=5000)],
        train=None,
        first=3,
        count=count,
        score="own_return",
        metrics=["own_return", "return"],
        curve="final_trust",
        baselines=None,
    )


# --- who sits where ------------------------------------------------------------------------------


@pytest.mark.parametrize(("agents", "partners"), [(2, 1), (2, 3), (3, 2), (5, 7)])
def test_seats_and_partners_are_balanced(agents, partners):
    """Over agents * partners episodes every partner has every place once; before, almost."""
    whole = seating(agents * partners, agents, partners)
    assert ((whole == -1).sum(axis=1) == 1).all()
    for own in range(agents):
        rows = whole[whole[:, own] == -1]
        assert len(rows) == partners
        for seat in set(range(agents)) - {own}:
            assert sorted(rows[:, seat]) == list(range(partners))
    some = seating(100, agents, partners)
    pairs = [
        np.count_nonzero((some[:, own] == -1) & (some[:, seat] == partner))
        for own in range(agents)
        for seat in range(agents)
        for partner in range(partners)
        if seat != own
    ]
    assert max(pairs) - min(pairs) <= 1


def test_seating_by_hand():
    assert seating(5, 2, 2).tolist() == [[-1, 0], [0, -1], [-1, 1], [1, -1], [-1, 0]]
    assert seating(4, 3, 2).tolist() == [[-1, 0, 1], [0, -1, 1], [0, 1, -1], [-1, 1, 0]]
    assert (seating(4, 3, 0) == -1).all()


@pytest.mark.parametrize(("agents", "partners"), [(2, 2), (5, 7)])
def test_one_role_for_all_is_seated_as_without_roles(agents, partners):
    roles = seating_by_role(60, ["firm"] * agents, {"firm": partners})
    assert (roles == seating(60, agents, partners)).all()


def test_seating_by_role_by_hand():
    """Seats a, b, b; partner 0 is of role a, partners 1 and 2 are of role b."""
    seats = seating_by_role(6, ["a", "b", "b"], {"a": 1, "b": 2})
    expected = [[-1, 1, 2], [0, -1, 1], [0, 1, -1], [-1, 2, 1], [0, -1, 2], [0, 2, -1]]
    assert seats.tolist() == expected
    assert (seating_by_role(4, ["a", "b"], {}) == -1).all()


def test_every_seat_is_taken_by_a_partner_of_its_role():
    roles = ["a", "b", "a", "c", "b", "b"]
    pools = {"a": range(3), "b": range(3, 5), "c": range(5, 6)}
    seats = seating_by_role(36, roles, {role: len(pool) for role, pool in pools.items()})
    assert ((seats == -1).sum(axis=0) == 6).all()
    for seat, role in enumerate(roles):
        partners = seats[seats[:, seat] != -1, seat]
        counts = [np.count_nonzero(partners == partner) for partner in pools[role]]
        assert sum(counts) == len(partners) == 30
        assert max(counts) - min(counts) <= 1


# --- who acts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", GAMES)
def test_every_seat_acts_as_its_policy(env):
    """Each episode again, alone and seat by seat, by other means."""
    protocol = make_protocol(env)
    task = protocol.task[0]
    block = play(protocol, Cell("one", "random"), "random")
    agents = len(block.agents)
    for k, seed in enumerate(protocol.seeds_of(task)):
        engine = Engine(env, 1, **task.parameters)
        engine.reset(np.array([seed]))
        names = ("random", *POOL)
        players = [Player(name, Game.of(engine)) for name in names]
        for number, player in enumerate(players):
            player.begin(engine.control.seed, engine.control.episode, np.ones(1, bool), number)
        sitting = [1 + (k // agents + place) % len(POOL) for place in range(agents - 1)]
        sitting.insert(k % agents, 0)
        while not engine.control.done.all():
            every = [player.act(engine.control.obs) for player in players]
            actions = np.stack([every[who][:, seat] for seat, who in enumerate(sitting)], axis=1)
            engine.step(actions, DISABLED)
        np.testing.assert_array_equal(block.returns[k], engine.control.returns[0])
        assert block.seats[k].tolist() == [who == 0 for who in sitting]
        assert values(block, "own_return")[k] == block.returns[k, k % agents]


def test_games_are_described_without_an_engine(kind_id):
    game, engine = Game.at(kind_id), Engine(kind_id)
    assert (game.env_id, game.agents) == (engine.spec.id, engine.agents)
    assert game.layout == engine.layout
    if not engine.discrete:
        np.testing.assert_array_equal(game.low, engine.action_bounds()[0])
        np.testing.assert_array_equal(game.high, engine.action_bounds()[1])


# --- what is kept --------------------------------------------------------------------------------


def test_seats_are_kept_and_shown(tmp_path):
    protocol = make_protocol("coopbench/PlatformEcosystem-v0", count=5)
    report = coopbench.evaluate(protocol, ["tit_for_tat"], out=tmp_path)
    block = store.read(tmp_path, protocol, Cell("one", "tit_for_tat")).episodes
    np.testing.assert_array_equal(block.seats, report.episodes.of("one", "tit_for_tat").seats)
    (columns,) = report.episodes.columns()
    assert columns["seats"] == [*block.agents, block.agents[0]]
    assert "the policy in one seat" in task_facts(report, protocol.task[0])["Players"]


# --- partners by role ----------------------------------------------------------------------------

ROLES = {"platform": ["constant:0.25", "random"], "developer": ["constant:0.75", "tit_for_tat"]}


def test_partners_of_a_role_play_the_agents_of_that_role():
    protocol = make_protocol("coopbench/PlatformEcosystem-v0", ROLES, count=16)
    (task,) = protocol.task
    assert task.partner_names == ("constant:0.75", "tit_for_tat", "constant:0.25", "random")
    block = play(protocol, Cell("one", "constant:0.5"), "constant:0.5")
    seats = task.seating(16, block.agents)
    assert (block.seats == (seats == -1)).all()
    shares = block.agent_metrics["cooperation_rate"]
    for number, share in ((-1, 0.5), (0, 0.75), (2, 0.25)):
        assert (seats == number).any()
        assert shares[seats == number] == pytest.approx(share)
    platform = np.array([agent.startswith("platform") for agent in block.agents])
    assert set(seats[:, platform].ravel()) == {-1, 2, 3}
    assert set(seats[:, ~platform].ravel()) == {-1, 0, 1}


def test_results_with_partners_by_role_verify_and_can_be_shown(tmp_path):
    protocol = make_protocol("coopbench/PlatformEcosystem-v0", ROLES, count=4)
    report = coopbench.evaluate(protocol, ["constant:0.5"], tmp_path / "r")
    assert coopbench.verify(tmp_path / "r").identical
    players = task_facts(report, protocol.task[0])["Players"]
    pools = "constant:0.75, tit_for_tat as developer; constant:0.25, random as platform"
    assert players.endswith(f"in the others {pools}")
    recording = coopbench.find_episode(f"{tmp_path}/r/one/constant@0.5/1")
    others = ("constant:0.75", "tit_for_tat")
    assert recording.players == ("constant:0.25", "constant:0.5", *others)


def test_the_order_of_roles_changes_nothing():
    env = "coopbench/PlatformEcosystem-v0"
    one, two = make_protocol(env, ROLES), make_protocol(env, dict(reversed(ROLES.items())))
    assert one.digest == two.digest != make_protocol(env).digest
    assert one.task[0].partner_names == two.task[0].partner_names
    stored = Protocol.model_validate_json(one.model_dump_json(), strict=False)
    assert stored == one
