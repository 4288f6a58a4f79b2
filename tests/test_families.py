"""What environments say of themselves: protocols and results name no family of them."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import builders
import pytest
import toy_pennies

from coopbench.errors import ProtocolError
from coopbench.protocol import map_files
from coopbench.protocol.loading import ad_hoc
from coopbench.protocol.map_files import checksum, files_of, place_of
from coopbench.protocol.variants import are_replaced, maps_text, with_maps
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


@pytest.fixture(autouse=True, scope="module")
def toys():
    register(SPEC)


@pytest.fixture
def boards(tmp_path):
    folder = tmp_path / "boards"
    folder.mkdir()
    for name in ("a.board", "b.board"):
        (folder / name).write_text(f"board {name}", encoding="utf-8")
    return folder


def protocol(tmp_path, env=SPEC.id, task=None, **parts):
    """A protocol with one task, whose entries ``task`` adds to."""
    tasks = [builders.make_task("one", env, **({"parameters": {}} | (task or {})))]
    shown = {"metrics": ["return", "pennies"], "curve": "pennies", "train": None}
    return builders.small_protocol(tmp_path, "boards", tasks=tasks, **(shown | parts))


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
    plain, none = toy_pennies.SPEC.id, {"parameters": {"boards": "none"}}
    assert maps_text(protocol(tmp_path, plain)) == ""
    with pytest.raises(ProtocolError, match="has no task that reads map files; remove --maps"):
        with_maps(protocol(tmp_path, plain), boards)
    with pytest.raises(ProtocolError, match="has no task with boards of any place; remove --maps"):
        with_maps(protocol(tmp_path, task=none), boards)
    digest = {"maps": "0" * 64}
    with pytest.raises(ProtocolError, match="maps goes with an environment that reads files; rem"):
        protocol(tmp_path, plain, digest)
    with pytest.raises(ProtocolError, match="maps goes with boards of any place"):
        protocol(tmp_path, task=none | digest)


def test_metrics_that_mean_nothing_alone_are_those_of_the_environment(tmp_path):
    env = "test/PenniesWithGifts-v0"
    metrics = {"pennies": "held", "gifts": "given away"}
    register(replace(SPEC, id=env, metrics=metrics, dependent={"gifts": "pennies"}))
    words = "'gifts' must be reported together with 'pennies', placed right after it"
    with pytest.raises(ProtocolError, match=words):
        protocol(tmp_path, env, metrics=["gifts", "pennies"])
    with pytest.raises(ProtocolError, match="score 'gifts' means nothing"):
        protocol(tmp_path, env, score="gifts")
    assert ad_hoc(env).report.metrics == ("return", "pennies", "gifts", "fairness", "length")
    assert protocol(tmp_path).report.metrics == ("return", "pennies")


def test_training_holds_out_values_of_the_parameter_that_the_environment_names(tmp_path):
    held, plain = "test/PenniesHeldOut-v0", toy_pennies.SPEC.id
    register(replace(SPEC, id=held, held_out="boards"))

    def trained(env, value, task):
        training = builders.make_training(runs=1, on="any", plays="all", held_out=[value])
        return protocol(tmp_path, env, task, train=[50], training=training)

    none = {"parameters": {"boards": "none"}}
    with pytest.raises(ProtocolError, match=r"held-out boards 'None'.*Did you mean 'none'"):
        trained(held, "None", none)
    with pytest.raises(ProtocolError, match=r"held_out needs a parameter .*Pennies-v0 has none"):
        trained(plain, "none", {})
    text = training_text(trained(held, "none", none))
    assert text.startswith("one model, on any boards but none;")


def test_results_that_name_large_files_are_refused(tmp_path, boards, monkeypatch):
    file = tmp_path / "protocol.json"
    file.write_text(with_maps(protocol(tmp_path), boards).model_dump_json(), encoding="utf-8")
    assert read_protocol(tmp_path).name == "boards-v1"
    monkeypatch.setattr(map_files, "LARGEST", 5)
    with pytest.raises(ProtocolError, match="names files at"):
        read_protocol(tmp_path)
