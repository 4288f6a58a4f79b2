"""Protocols: every shipped one is usable, and a wrong one says where and what to do."""

import json
import re
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from builders import loaded, make_task, protocol_of

import coopbench
from coopbench.baselines.game import Game
from coopbench.episodes.metrics import known_metrics
from coopbench.errors import ProtocolError
from coopbench.protocol.loading import ad_hoc, load_protocol
from coopbench.protocol.task import instance_file, instance_state
from coopbench_envs import Engine
from studies.certificates import search, sections
from studies.certificates.replay import JUDGED

ROOT = Path(__file__).resolve().parent.parent

GOOD = """
[protocol]
name = "trial"
version = 1
description = "A trial."

[seeds]
training = [100, 101]
evaluation = { first = 0, count = 5 }

[report]
score = "return"
metrics = ["return", "final_trust"]
curve = "mean_trust"
baselines = ["random"]

[[task]]
id = "one"
env = "coopbench/TrustDilemma-v0"
parameters = { horizon = 9 }
bounds = { low = 0.0, high = 4000.0 }
"""


@pytest.mark.parametrize("name", coopbench.protocol_names())
def test_shipped_protocols_load_and_their_instances_are_enough(name):
    protocol = load_protocol(name)
    assert protocol.protocol.name == name
    assert load_protocol(protocol.name).digest == protocol.digest
    assert protocol.report.baselines
    assert protocol.seeds.training
    for task in protocol.task:
        assert {*protocol.report.metrics, protocol.report.score} <= set(known_metrics(task.env))
        if task.instances is not None:
            constants = Game.at(task.env, **task.parameters).constants
            assert {len(value) for value in instance_state(task, constants, 2).values()} == {2}
            with np.load(BytesIO(instance_file(task.instances.file))) as arrays:
                assert min(map(len, arrays.values())) >= protocol.episodes(task)


@pytest.mark.parametrize("kind", ["digest", "content_digest"])
def test_digests_of_shipped_protocols_never_change(golden, kind):
    recorded = json.loads((golden / "digests.json").read_text())
    computed = {n: getattr(load_protocol(n), kind) for n in coopbench.protocol_names()}
    assert computed == {name: digests[kind] for name, digests in recorded.items()}


@pytest.mark.parametrize("name", coopbench.protocol_names())
def test_seeds_of_different_uses_are_disjoint(name):
    """Training, evaluation, selection; those of certificates lie above all of them."""
    protocol = load_protocol(name)
    uses = [
        set(protocol.seeds.training),
        set().union(*(protocol.seeds_of(task).tolist() for task in protocol.task)),
    ]
    if protocol.seeds.selection is not None:
        uses.append(set(protocol.seeds.selection.seeds))
    assert all(uses)
    every = set().union(*uses)
    assert len(every) == sum(map(len, uses))
    firsts = (JUDGED, sections.SHADOWED, search.SEARCH, search.CHOICE)
    assert max(every) < min(firsts)


_load = partial(loaded, name="trial")
SECOND = GOOD[GOOD.index("[[task]]") :].replace('"one"', '"two"')


def test_a_digest_depends_on_content_not_on_comments(tmp_path):
    protocol = _load(tmp_path, GOOD)
    assert protocol.name == "trial-v1"
    assert protocol.seeds_of(protocol.task[0]).tolist() == [0, 1, 2, 3, 4]
    assert _load(tmp_path, GOOD + "\n# a remark\n").digest == protocol.digest
    assert _load(tmp_path, GOOD.replace("count = 5", "count = 6")).digest != protocol.digest
    all_seeds = _load(tmp_path, GOOD.replace("horizon = 9 }", "horizon = 9 }\nepisodes = 5"))
    assert all_seeds.episodes(all_seeds.task[0]) == 5


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version = 1", "", r"protocol.version: is missing"),
        ("training = [100, 101]", "training = [3, 101]", r"training seeds \[3\] are also"),
        ("training = [100, 101]", "training = [100, 100]", r"training seeds repeat"),
        ('score = "return"', 'score = "retrun"', r"Did you mean 'return'"),
        ("horizon = 9", "horzion = 9", r"Unknown parameter 'horzion'.*Did you mean 'horizon'"),
        ("low = 0.0, high = 4000.0", "low = 0.0", r"task.0.bounds.high: is missing"),
        ("low = 0.0, high = 4000.0", "low = 9.0, high = 4.0", r"low must lie below high"),
        ("high = 4000.0", f"high = 1{401 * '0'}", r"task.0.bounds.high: is too large for a float"),
        ('id = "one"', f'id = "one"\naxes = {{ n = 1{401 * "0"} }}', r"task.0.axes: is too large"),
        ('score = "return"', 'score = "return"\nmargin = inf', r"report.margin: .* finite number"),
        ("bounds = { low = 0.0, high = 4000.0 }", "", r"has no bounds, .* or set normalisation"),
        ("horizon = 9 }", "horizon = 9 }\nepisodes = 6", r"wants 6 episodes, but there are only 5"),
        ('"random"]', '"random"]\nlearned = ["random"]', r"'random' is listed in baselines and"),
        ('id = "one"', 'id = "one"\ngroup = "A b"', r"task.0.group: .*given 'A b'"),
        ('id = "one"', f'id = "{"x" * 101}"', r"task.0.id: .* at most 100 characters"),
        ('id = "one"', f'id = "one"\ngroup = "{"x" * 101}"', r"task.0.group: .* at most 100"),
        ('id = "one"', 'id = "one"\npartners = ["tit_for_tt"]', r"Did you mean 'tit_for_tat'"),
        ('id = "one"', 'id = "one"\npartners = ["greedy"]', r"'greedy' cannot play"),
        ('id = "one"', 'id = "one"\npartners = ["random", "random"]', r"partners repeat 'random'"),
        ('id = "one"', 'id = "one"\npartners = { firm = [3] }', r"partners: takes a list .*table"),
        ('id = "one"', 'id = "one"\npartners = { firm = [] }', r"role 'firm' has no partners"),
        ('id = "one"', 'id = "one"\npartners = {}', r"no partners for 'firm'; every role of"),
        ('id = "one"', 'id = "one"\npartners = { firm = ["greedy"] }', r"'greedy' cannot play"),
    ],
)
def test_wrong_entries_of_a_protocol_are_named(tmp_path, old, new, message):
    assert old in GOOD
    with pytest.raises(ProtocolError, match=message) as error:
        _load(tmp_path, GOOD.replace(old, new, 1))
    assert "trial.toml" in str(error.value)


LONE = """
[[task]]
id = "lone"
env = "coopbench/Routing-v0"
parameters = { num_agents = 1 }
partners = ["random"]
bounds = { low = 0.0, high = 1.0 }
"""
# A trained partner is refused before it is read: the digest names a folder, not what lies in it.
TRAINED = SECOND.replace("bounds", 'partners = ["ippo:/nowhere"]\nbounds')


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (SECOND.replace('"two"', '"one"'), "two tasks are called 'one'"),
        (SECOND, "'one' and 'two' are the same"),
        (LONE, r"partners need seats.*has one agent"),
        (TRAINED, r"'ippo:/nowhere' is read from a file.*allowed"),
    ],
)
def test_what_a_second_task_may_not_be(tmp_path, task, message):
    with pytest.raises(ProtocolError, match=message):
        _load(tmp_path, GOOD + task)


def test_tasks_differ_by_their_partners_and_are_grouped(tmp_path):
    focal = SECOND.replace("bounds", 'partners = ["random"]\nbounds')
    protocol = _load(tmp_path, GOOD + focal)
    assert [t.partners for t in protocol.task] == [(), ("random",)]
    assert list(protocol.groups) == [""]
    grouped = (GOOD + focal).replace('id = "one"', 'id = "one"\ngroup = "self-play"')
    with pytest.raises(ProtocolError, match="task 'two' has no group, but others have"):
        _load(tmp_path, grouped)
    protocol = _load(tmp_path, grouped.replace('id = "two"', 'id = "two"\ngroup = "focal"'))
    assert {name: [t.id for t in tasks] for name, tasks in protocol.groups.items()} == {
        "self-play": ["one"],
        "focal": ["two"],
    }


def test_the_example_of_the_documentation(tmp_path):
    text = (ROOT / "docs" / "protocols.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml title=.*?\n(.*?)```", text, re.DOTALL)
    protocol = _load(tmp_path, example)
    assert list(protocol.groups) == ["self-play", "focal"]
    assert len(protocol.task[1].partners) == 5


# --- extending -----------------------------------------------------------------------------------

SHORTER = """
extends = "trial.toml"
[protocol]
name = "shorter"
[seeds]
evaluation = { first = 7, count = 2 }
[report]
alpha = 0.01
"""


def _extended(tmp_path, text, base=GOOD):
    (tmp_path / "trial.toml").write_text(base, encoding="utf-8")
    return loaded(tmp_path, text, "shorter")


def test_extending_replaces_key_by_key_and_the_digest_is_of_what_comes_out(tmp_path):
    whole = GOOD.replace('"trial"', '"shorter"').replace('"random"]', '"random"]\nalpha = 0.01')
    whole = whole.replace("first = 0, count = 5", "first = 7, count = 2")
    extended = _extended(tmp_path, SHORTER)
    assert extended.name == "shorter-v1"
    assert extended.digest == _load(tmp_path, whole).digest


def test_tasks_of_an_extending_protocol_replace_all(tmp_path):
    task = SECOND.replace('"two"', '"mine"')
    extended = _extended(tmp_path, SHORTER + task, GOOD + SECOND.replace("9", "8"))
    assert [t.id for t in extended.task] == ["mine"]


def test_a_protocol_can_extend_one_that_extends_another(tmp_path):
    (tmp_path / "middle.toml").write_text(SHORTER, encoding="utf-8")
    extended = _extended(tmp_path, 'extends = "middle.toml"\n[report]\nconfidence = 0.9\n')
    assert (extended.report.confidence, extended.report.alpha, extended.name) == (
        0.9,
        0.01,
        "shorter-v1",
    )


def test_shipped_protocols_can_be_extended(tmp_path):
    name = coopbench.protocol_names()[0]
    for written in (name, load_protocol(name).name):
        extended = _load(tmp_path, f'extends = "{written}"\n[protocol]\nname = "mine"\n')
        assert extended.task == load_protocol(name).task
    assert _load(tmp_path, f'extends = "{name}"').digest == load_protocol(name).digest


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ('"absent.toml"', "extends 'absent.toml'; there is no file .*absent.toml"),
        ('"routing-esy"', "extends 'routing-esy': Unknown protocol.*Did you mean 'routing-easy'"),
        ('"routing-easy-v9"', "extends 'routing-easy-v9': There is no version 9"),
        ('"TrustDilemma-v0"', "an ad-hoc evaluation cannot be extended"),
        ("3", "'extends' takes the name of a protocol; given 3"),
    ],
)
def test_wrong_bases_are_named(tmp_path, name, message):
    with pytest.raises(ProtocolError, match=message) as error:
        _load(tmp_path, f"extends = {name}")
    assert "trial.toml" in str(error.value)


def test_circles_are_named_in_full(tmp_path):
    for one, two in ("ab", "bc", "ca"):
        (tmp_path / f"{one}.toml").write_text(f'extends = "{two}.toml"', encoding="utf-8")
    with pytest.raises(ProtocolError, match=r"a.toml extends b.toml extends c.toml extends a.toml"):
        load_protocol(tmp_path / "a.toml")


def test_ad_hoc_files_cannot_be_extended(tmp_path):
    with pytest.raises(ProtocolError, match="'ad_hoc' cannot be set in a file"):
        _extended(tmp_path, SHORTER, "ad_hoc = true\n" + GOOD)


def test_missing_files_and_files_that_are_not_toml_are_refused(tmp_path):
    for name, message in (
        (tmp_path / "absent.toml", "no protocol file"),
        ("coopetition-standrad", "Did you mean 'coopetition-standard'"),
        ("coopetition-standard-v7", "no version 7 of coopetition-standard"),
    ):
        with pytest.raises(ProtocolError, match=message):
            load_protocol(name)
    with pytest.raises(ProtocolError, match="not valid TOML"):
        _load(tmp_path, "[protocol\n")


def test_tasks_of_other_packages_differ_by_their_limits_of_steps_and_what_they_measure():
    task = partial(make_task, env="gymnasium:CartPole-v1", parameters={})
    first = {"steps": 10, "info": ["x"]}
    parts = {"metrics": ["return"], "curve": "x", "baselines": None}
    for second in ({"steps": 20}, {"info": {"x": "mean"}}):
        tasks = [task("one", **first), task("two", **first | second)]
        assert len(protocol_of(tasks=tasks, **parts).task) == 2
    with pytest.raises(ValueError, match="'one' and 'two' are the same"):
        protocol_of(tasks=[task("one", **first), task("two", **first)], **parts)


def test_charts_have_a_panel_for_every_value():
    """Also where values agree in the six digits that names have otherwise."""
    places = [(n, day) for day in (0.5, 20240101, 20240102) for n in (1, 2)]
    tasks = [
        make_task(f"t{k}", horizon=6 + k, axes={"n": n, "day": day})
        for k, (n, day) in enumerate(places)
    ]
    chart = {"metric": "return", "x": "n", "per": "day"}
    protocol = protocol_of(tasks=tasks, chart=[chart])
    panels = protocol.report.chart[0].panels(protocol.task)
    assert {name: [task.id for task in panel] for name, panel in panels.items()} == {
        "return-by-n-day-0.5": ["t0", "t1"],
        "return-by-n-day-20240101": ["t2", "t3"],
        "return-by-n-day-20240102": ["t4", "t5"],
    }
    assert protocol.report.chart[0].value_of(protocol.task[4]) == "20240102"


def test_changed_instances_are_refused():
    task = load_protocol("routing-easy").task[0]
    changed = task.model_copy(
        update={"instances": task.instances.model_copy(update={"sha256": "0" * 64})}
    )
    engine = Engine(task.env, **task.parameters)
    with pytest.raises(ProtocolError, match="checksum differs"):
        instance_state(changed, engine.constants, 10)


def test_the_error_of_a_refused_task_appears_once():
    with pytest.raises(ProtocolError, match="'horizon'") as error:
        ad_hoc("TrustDilemma-v1", horizon=-1)
    assert len(str(error.value).splitlines()) == 2  # not also: a protocol needs a task


def test_ad_hoc_protocols_take_parameters_and_seeds():
    protocol = ad_hoc("TrustDilemma-v0", episodes=3, seed=8, horizon=5)
    assert protocol.ad_hoc
    assert protocol.seeds_of(protocol.task[0]).tolist() == [8, 9, 10]
    with pytest.raises(ProtocolError, match="Did you mean 'horizon'"):
        ad_hoc("TrustDilemma-v0", horizonn=5)
