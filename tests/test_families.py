"""What environments say of themselves: protocols and results name no family of them."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import pytest
import toy_pennies

from coopbench.errors import ProtocolError
from coopbench.protocol import map_files
from coopbench.protocol.loading import ad_hoc, load_protocol
from coopbench.protocol.map_files import checksum, files_of, place_of
from coopbench.protocol.user_maps import are_replaced, maps_text, with_maps
from coopbench.report.facts import training_text
from coopbench.results.protocol_file import read_protocol
from coopbench_envs.core import MapFiles
from coopbench_envs.parameters import Allowed, between
from coopbench_envs.registration import register

OURS = Path(__file__).parent / "golden"


class Params(NamedTuple):
    num_agents: Annotated[int, between(2, 8, "players")] = 3
    horizon: Annotated[int, between(1, 1000, "steps")] = 12
    boards: Annotated[str | None, Allowed("folder of the boards; none: own ones")] = None


def paths(parameters):
    place = parameters.get("boards")
    if place == "none":
        return []
    return sorted(Path(place).glob("*.board")) if place else [OURS / "trajectories.json"]


SPEC = replace(
    toy_pennies.SPEC,
    id="test/PenniesOnBoards-v0",
    params=Params,
    constants=lambda p: toy_pennies.Params(p.num_agents, p.horizon),
    files=MapFiles(
        condition="boards of any place",
        bundled="boards of the tests",
        paths=paths,
        place=lambda parameters: parameters.get("boards"),
        moved=lambda parameters, place: {**parameters, "boards": place},
    ),
)
PROTOCOL = """
[protocol]
name = "boards"
version = 1
description = "Pennies on boards."
[seeds]
training = []
evaluation = { first = 0, count = 2 }
[report]
score = "return"
metrics = ["return", "pennies"]
curve = "pennies"
baselines = ["random"]
[[task]]
id = "one"
env = "ENV"
PARAMETERS
bounds = { low = 0, high = 9 }
"""


@pytest.fixture(autouse=True, scope="module")
def toys():
    register(SPEC)
    register(toy_pennies.SPEC)


@pytest.fixture
def boards(tmp_path):
    folder = tmp_path / "boards"
    folder.mkdir()
    for name in ("a.board", "b.board"):
        (folder / name).write_text(f"board {name}", encoding="utf-8")
    return folder


def protocol(tmp_path, env=SPEC.id, parameters=""):
    file = tmp_path / "boards.toml"
    file.write_text(
        PROTOCOL.replace("ENV", env).replace("PARAMETERS", parameters), encoding="utf-8"
    )
    return load_protocol(str(file))


def test_a_protocol_on_the_files_of_a_user(tmp_path, boards):
    shipped = protocol(tmp_path)
    assert maps_text(shipped) == "1 boards of the tests"
    other = with_maps(shipped, boards)
    (task,) = other.task
    assert task.parameters == {"boards": str(boards)}
    assert [file.name for file in files_of(task.env, task.parameters)] == ["a.board", "b.board"]
    assert place_of(task.env, task.parameters) == str(boards)
    assert task.maps == checksum(task.env, task.parameters)
    assert maps_text(other) == f"2 files of {boards} (SHA-256 {task.maps})"
    assert are_replaced(shipped, other)
    assert not are_replaced(shipped, shipped)
    (boards / "a.board").write_text("changed", encoding="utf-8")
    assert task.maps != checksum(task.env, task.parameters)


def test_protocols_that_read_no_files(tmp_path, boards):
    plain = protocol(tmp_path, toy_pennies.SPEC.id)
    assert maps_text(plain) == ""
    with pytest.raises(ProtocolError, match="has no task that reads map files; remove --maps"):
        with_maps(plain, boards)
    bare = protocol(tmp_path, parameters='parameters = { boards = "none" }')
    with pytest.raises(ProtocolError, match="has no task with boards of any place; remove --maps"):
        with_maps(bare, boards)
    for env, parameters, message in (
        (toy_pennies.SPEC.id, "", "maps goes with an environment that reads files; remove it"),
        (SPEC.id, 'parameters = { boards = "none" }', "maps goes with boards of any place"),
    ):
        with pytest.raises(ProtocolError, match=message):
            protocol(tmp_path, env, f'{parameters}\nmaps = "{"0" * 64}"')


def test_metrics_that_mean_nothing_alone_are_those_of_the_environment(tmp_path):
    register(
        replace(
            SPEC,
            id="test/PenniesWithGifts-v0",
            metrics={"pennies": "held", "gifts": "given away"},
            dependent={"gifts": "pennies"},
        )
    )
    alone = PROTOCOL.replace('"return", "pennies"', '"gifts", "pennies"')
    file = tmp_path / "gifts.toml"
    for text, message in (
        (alone, "'gifts' must be reported together with 'pennies', placed right after it"),
        (PROTOCOL.replace('score = "return"', 'score = "gifts"'), "score 'gifts' means nothing"),
    ):
        content = text.replace("ENV", "test/PenniesWithGifts-v0").replace("PARAMETERS", "")
        file.write_text(content, encoding="utf-8")
        with pytest.raises(ProtocolError, match=message):
            load_protocol(str(file))
    shown = ad_hoc("test/PenniesWithGifts-v0").report.metrics
    assert shown == ("return", "pennies", "gifts", "length")
    assert protocol(tmp_path).report.metrics == ("return", "pennies")


def test_training_holds_out_values_of_the_parameter_that_the_environment_names(tmp_path):
    register(replace(SPEC, id="test/PenniesHeldOut-v0", held_out="boards"))
    budgets = "budgets = { any = { steps = 20, interval = 10 } }"
    training = '[training]\non = "any"\nheld_out = ["none"]\nruns = 1\nepisodes = 2\n'
    training += f"{budgets}\n[[task]]"
    text = PROTOCOL.replace("training = []", "training = [5]").replace("[[task]]", training)
    text = text.replace("PARAMETERS", 'parameters = { boards = "none" }')
    file = tmp_path / "boards.toml"
    for env, name, message in (
        ("test/PenniesHeldOut-v0", "None", r"held-out boards 'None'.*Did you mean 'none'"),
        (toy_pennies.SPEC.id, "none", r"held_out needs a parameter .*Pennies-v0 has none"),
    ):
        content = text.replace("ENV", env).replace('["none"]', f'["{name}"]')
        if env == toy_pennies.SPEC.id:
            content = content.replace('parameters = { boards = "none" }', "")
        file.write_text(content, encoding="utf-8")
        with pytest.raises(ProtocolError, match=message):
            load_protocol(str(file))
    file.write_text(text.replace("ENV", "test/PenniesHeldOut-v0"), encoding="utf-8")
    assert training_text(load_protocol(str(file))).startswith("one model, on any boards but none;")


def test_results_that_name_large_files_are_refused(tmp_path, boards, monkeypatch):
    file = tmp_path / "protocol.json"
    file.write_text(with_maps(protocol(tmp_path), boards).model_dump_json(), encoding="utf-8")
    assert read_protocol(file).name == "boards-v1"
    monkeypatch.setattr(map_files, "LARGEST", 5)
    with pytest.raises(ProtocolError, match="names files at"):
        read_protocol(file)
