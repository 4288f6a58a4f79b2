"""Certificates: the figures on the pages are those of the code, and hold what is required."""

from importlib import resources

import numpy as np
import pytest

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_policy
from coopbench.protocol.loading import load_protocol
from coopbench_envs import Engine
from coopbench_envs.roles import role_of
from studies.certificates import certify, check, renewed
from studies.certificates.criteria import criteria
from studies.certificates.games import Figure, load_certificate, read_certificate
from studies.certificates.pages import certificate_page
from studies.certificates.replay import Sizes, replayed
from studies.certificates.scripts import best_script
from studies.certificates.search import Budget
from studies.certificates.sections import Effort

GAMES = sorted(
    file.name.removesuffix(".json")
    for file in (resources.files("coopbench.baselines") / "certificates").iterdir()
    if file.name.endswith(".json")
)
FEW = Sizes(bounds=1_040, others=520, bayesian=130)


def _compare(again, stored):
    """Compare figures of fewer episodes with stored ones, by their standard errors."""
    for section in again.figures:
        table = stored.figures[section]
        assert again.figures[section].keys() == table.keys()
        for name, value in table.items():
            other = again.figures[section][name]
            if name.endswith(".invests"):
                assert other.value == pytest.approx(value.value, abs=0.1), (section, name)
                continue
            error = np.hypot(value.error, other.error)
            assert abs(other.value - value.value) <= 4.5 * error + 1e-9, (section, name)


@pytest.mark.slow("plays and searches thousands of episodes")
@pytest.mark.parametrize("name", GAMES)
def test_certificate_is_met_and_computed_again(name):
    """Self-play, and of the tasks beside partners another one for every game."""
    stored = load_certificate(name)
    assert stored.met, certificate_page(stored)
    protocol = load_protocol(stored.protocol)
    alone, beside = [], []
    for task in stored.bounds():
        (beside if protocol.task_of(task).pools else alone).append(task)
    tasks = [*alone, beside[GAMES.index(name) % len(beside)]]
    again = certify(name, stored=stored, sizes=FEW, tasks=tasks)
    _compare(again, stored)
    assert again.figures.keys() >= set(tasks)
    assert again.rules == stored.rules
    assert {c.name for c in again.criteria} <= {c.name for c in stored.criteria}


def test_bounds_of_the_protocol_are_those_of_the_certificates():
    tasks = {task.id: task for task in load_protocol("coopetition-standard").task}
    stored = [load_certificate(name) for name in GAMES]
    for one in stored:
        groups = {name: task.group for name, task in tasks.items() if name in one.figures}
        game = Game.at(one.env_id)
        hidden, agents = "informed" in game.layout, len(game.agents)
        assert criteria(one.figures, groups, hidden, agents) == one.criteria
        assert one.met
    bounds = {task: numbers for one in stored for task, numbers in one.bounds().items()}
    assert {id: task.bounds.model_dump(exclude_none=True) for id, task in tasks.items()} == bounds


@pytest.mark.parametrize(
    ("name", "section"),
    [("TrustDilemma-v1", "repeated game"), ("SynergySearch-v1", "synergy-search")],
)
def test_stored_figures_are_played_again_to_the_bit(name, section):
    """What a best response gains, and what those earn who are all informed."""
    stored = load_certificate(name)
    assert replayed(stored, [section]) == {section: stored.figures[section]}


@pytest.mark.parametrize(
    ("elsewhere", "best"), [(False, "matcher:1"), (True, "unforgiving:0.7,relative=1")]
)
def test_for_other_ranges_a_relative_script_is_taken_if_it_earns_as_much(elsewhere, best):
    earned = {
        "matcher:1": 100.0,
        "unforgiving:0.7,relative=1": 99.9,
        "unforgiving:0.8,relative=1": 99.8,
        "unforgiving:0.5,relative=1": 90.0,
    }

    def values(names, episodes, stage):
        return np.array([earned[name] for name in names])

    assert best_script(list(earned), values, 1, 1, elsewhere=elsewhere) == best
    del earned["unforgiving:0.7,relative=1"], earned["unforgiving:0.8,relative=1"]
    assert best_script(list(earned), values, 1, 1, elsewhere=elsewhere) == "matcher:1"


@pytest.mark.slow("searches rules and scripts, more than 5 s")
def test_what_is_not_searched_again_is_kept_but_for_scripts(monkeypatch):
    """Partners of one task have changed, and there are scripts that there were not before."""
    few = Budget(library=1, rounds=1, candidates=4, episodes=1, elite=2, choice=2)
    monkeypatch.setattr(Effort, "of", lambda *_: Effort(few, few, (few, few), (15, 30)))
    stored, task = load_certificate("TrustDilemma-v1"), "trust-dilemma.unmet"
    result = renewed(stored, [task], sizes=FEW)
    for name, rules in stored.rules.items():
        kept = {kind: result.rules[name][kind] == rules[kind] for kind in rules}
        assert all(same for kind, same in kept.items() if kind != "script") == (name != task)
        figures = result.figures[name]
        changed = {k for k, value in stored.figures[name].items() if figures[k] != value}
        assert changed == (set(figures) if name == task else changed & {"script", "best_script"})
    assert result.best_script.keys() == {"firm"}
    with pytest.raises(ValueError, match=r"trust-dilema.*Did you mean"):
        renewed(stored, ["trust-dilema"])


def test_figures_that_are_not_the_stored_ones_are_shown(monkeypatch, capsys):
    def checked(status=0):
        monkeypatch.setattr("sys.argv", ["check", "TrustDilemma-v1", "--task", task])
        with pytest.raises(SystemExit) as stop:
            check.main()
        assert stop.value.code == status
        return capsys.readouterr().out

    stored = load_certificate("TrustDilemma-v1")
    figures = stored.figures["trust-dilemma.focal"]
    played = {name: value for name, value in figures.items() if name != "bayesian"}
    monkeypatch.setattr(check, "replayed", lambda *_, **__: {task: played})
    task = "trust-dilemma.focal"
    shown = checked()
    assert f"{task}: player that knows the pool: 0.866 ± 0.012, required >= 0.75: holds" in shown
    assert "trust-dilemma.unmet" not in shown
    assert f"{task}: as stored" in shown
    played["low"] = Figure(1.0, 0.5, 20_000)
    shown = checked(status=1)
    assert f"1.0000 ± 0.5000; stored: {figures['low'].value:.4f} ± " in shown
    assert f"{task}: 1 of {len(played)} figures differ from what is stored" in shown


def test_policies_play_what_the_certificate_says():
    game = Game.of(Engine("TrustDilemma-v1"))
    stored = load_certificate("TrustDilemma-v1")
    width = max(part.stop for part in game.layout.values())
    observations = np.zeros((3, 2, width), np.float32)
    constant, _ = make_policy("best_constant", game).act(observations, None)
    np.testing.assert_array_equal(constant, np.full((3, 2, 1), stored.best_constant["firm"][0]))
    policy = make_policy("open_loop", game)
    memory = np.array([0, 7, 10_000])
    actions, after = policy.act(observations, memory)
    loop = stored.open_loop["firm"]
    np.testing.assert_array_equal(actions[:, 1, 0], [loop[0], loop[7], loop[-1]])
    np.testing.assert_array_equal(after, memory + 1)


def test_a_stored_rule_earns_its_figure_as_a_policy():
    stored = load_certificate("TrustDilemma-v1")
    engine = Engine("TrustDilemma-v1", 1_000)
    for name in ("blind", "memory"):
        player = Player(f"rule:trust-dilemma/{name}", Game.of(engine))
        returns = Match(engine, [player]).play(np.arange(1_000_000, 1_001_000))
        value = stored.figures["trust-dilemma"][name]
        assert returns.mean() == pytest.approx(value.value, abs=8 * value.error)


def test_the_best_script_plays_the_strategy_of_each_role():
    """In games with roles each seat plays that of its own, and remembers what it has observed."""
    game = Game.at("PlatformEcosystem-v1")
    stored = load_certificate("PlatformEcosystem-v1")
    assert set(stored.best_script) == {"developer", "platform"}
    shape = 4, len(game.agents), max(part.stop for part in game.layout.values())
    steps = [np.full(shape, level, np.float32) for level in (0.9, 0.55, 0.9)]

    def played(name):
        policy = make_policy(name, game)
        memory, actions = policy.initial(game, np.zeros(4, np.uint64)), []
        for seen in steps:
            acted, memory = policy.act(seen, memory)
            actions.append(acted)
        return np.stack(actions, axis=1)

    actions = played("best_script")
    assert (actions[:, 2] != actions[:, 0]).any()  # one of them does not forgive
    for seat, agent in enumerate(game.agents):
        alone = played(stored.best_script[role_of(agent)])
        np.testing.assert_array_equal(actions[:, :, seat], alone[:, :, seat])


@pytest.mark.parametrize("name", ["best_constant", "open_loop", "rule:trust-dilemma/blind"])
def test_policies_without_a_certificate_say_so(name):
    with pytest.raises(ValueError, match=r"cannot play"):
        make_policy(name, Game.of(Engine("TrustDilemma-v0")))


def test_errors_name_what_is_wrong(tmp_path):
    with pytest.raises(ValueError, match=r"trust-dilema.*Did you mean 'trust-dilemma'"):
        replayed(load_certificate("TrustDilemma-v1"), ["trust-dilema"])
    path = tmp_path / "none.json"
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match="cannot be read as a certificate"):
        read_certificate(path)
