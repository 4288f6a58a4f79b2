"""What many tests need: small protocols, blocks of episodes, policies and played games.

Every part has a default; a test names only what it is about.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coopbench.baselines.game import Game
from coopbench.baselines.networks.network import Network, NetworkPolicy, perceptron
from coopbench.episodes.table import Cell, Episodes
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.schema import Protocol
from coopbench.report.sections import parts
from coopbench_envs.engine import Engine
from coopbench_envs.foreign.engine import ForeignEngine
from coopbench_envs.foreign.environment import foreign_spec
from coopbench_envs.foreign_names import permit

TRUST = "coopbench/TrustDilemma-v1"
PATIENCE = 900  # seconds for which a test waits for a process or a thread; it then has failed


# -- protocols -----------------------------------------------------------------------------------


def make_task(
    name: str = "dilemma",
    env: str = TRUST,
    *,
    horizon: int = 6,
    low: float = 0.0,
    high: float = 20.0,
    **fields: Any,
) -> dict[str, Any]:
    """Return a task of a protocol; ``fields`` are added or replace those named here."""
    bounds = {"low": float(low), "high": float(high)}
    return {"id": name, "env": env, "parameters": {"horizon": horizon}, "bounds": bounds} | fields


def make_training(
    runs: int = 2, episodes: int = 2, steps: int = 20, interval: int = 10, **fields: Any
) -> dict[str, Any]:
    """Return the section on training, with one budget for all learners."""
    budgets = {"any": {"steps": steps, "interval": interval}}
    counts = {"runs": runs, "episodes": episodes}
    return {"on": "each", "plays": "own", **counts, "budgets": budgets} | fields


def content(
    name: str = "small",
    *,
    citation: str = "",
    tasks: Any = None,
    train: Any = (50, 51),
    first: int = 0,
    count: int = 6,
    selection: tuple[int, int] | None = None,
    training: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    **report: Any,
) -> dict[str, Any]:
    """Return the content of a protocol file.

    ``train`` are the training seeds (None: none), ``first`` and ``count`` the evaluation seeds,
    ``selection`` the first and the number of the selection seeds; ``training`` and ``limits`` are
    sections. ``report`` adds to the section on the report or replaces its defaults; a value None
    removes a key.
    """
    seeds: dict[str, Any] = {"evaluation": {"first": first, "count": count}}
    if train is not None:
        seeds["training"] = list(train)
    if selection is not None:
        seeds["selection"] = dict(zip(("first", "count"), selection, strict=True))
    defaults = {
        "score": "return",
        "metrics": ["return", "length"],
        "curve": "mean_trust",
        "baselines": ["random"],
    }
    shown = {key: value for key, value in (defaults | report).items() if value is not None}
    identity = {"name": name, "version": 1, "description": "Small tasks."}
    sections: dict[str, Any] = {
        "protocol": identity | ({"citation": citation} if citation else {}),
        "seeds": seeds,
        "report": shown,
    }
    optional = {"training": training, "limits": limits}
    sections |= {key: value for key, value in optional.items() if value is not None}
    return sections | {"task": [make_task()] if tasks is None else list(tasks)}


def protocol_of(*name: str, **parts: Any) -> Protocol:
    """Return a protocol without a file; the arguments are those of ``content``."""
    return Protocol.model_validate(content(*name, **parts))


def toml_of(value: Any) -> str:
    """Return a value as TOML on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f'"{key}" = {toml_of(part)}' for key, part in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_of, value)) + "]"
    return json.dumps(value)


def toml_text(content: dict[str, Any]) -> str:
    """Return the content of a file as TOML."""
    return "\n".join(f"{key} = {toml_of(part)}" for key, part in content.items())


def protocol_file(folder: Path, *name: str, **parts: Any) -> Path:
    """Write a protocol into ``folder`` and return its file; arguments as for ``content``."""
    file = folder / f"{name[0] if name else 'small'}.toml"
    file.write_text(toml_text(content(*name, **parts)), encoding="utf-8")
    return file


def small_protocol(folder: Path, *name: str, **parts: Any) -> Protocol:
    """Write a protocol into ``folder`` and load it; arguments as for ``content``."""
    return load_protocol(protocol_file(folder, *name, **parts))


def loaded(folder: Path, text: str, name: str = "small") -> Protocol:
    """Write the text of a protocol into ``folder`` and load it."""
    file = folder / f"{name}.toml"
    file.write_text(text, encoding="utf-8")
    return load_protocol(file)


def first_task(protocol: Protocol, **parts: Any) -> Protocol:
    """Return a protocol with the first of its tasks alone; ``parts`` replace other sections."""
    return protocol.model_copy(update={"task": protocol.task[:1]} | parts)


def trial(folder: Path, task: dict[str, Any], steps: int, interval: int, **parts: Any) -> Protocol:
    """Write and load a protocol with which a learner has one run on one task."""
    defaults: dict[str, Any] = {
        "train": [5],
        "first": 100,
        "count": 4,
        "selection": (200, 3),
        "training": make_training(runs=1, episodes=3, steps=steps, interval=interval),
        "score": "own_return",
        "metrics": ["own_return"],
        "baselines": None,
        "resamples": 200,
    }
    return small_protocol(folder, "trial", tasks=[task], **(defaults | parts))


# -- episodes ------------------------------------------------------------------------------------


def make_block(cell: Cell, returns: Any, **fields: Any) -> Episodes:
    """Return episodes of one cell with these ``returns`` (episodes, agents) and nothing of note."""
    earned = np.asarray(returns, np.float64)
    count, agents = earned.shape
    values = {
        "agents": tuple(f"agent_{a}" for a in range(agents)),
        "seeds": np.arange(count, dtype=np.uint64),
        "lengths": np.full(count, 4),
        "terminated": np.zeros(count, np.bool_),
        "seats": np.ones((count, agents), np.bool_),
        "metrics": {},
        "curves": {},
    }
    return Episodes(cell=cell, returns=earned, **(values | fields))


# -- groups of tasks -----------------------------------------------------------------------------

GROUP_TASKS = {"a-one": ("a", 5), "a-two": ("a", 6), "b-one": ("b", 7)}  # group and horizon
GROUP_LEVELS = {"low": 3.0, "middle": 5.0, "high": 5.5}  # mean returns of three policies
GROUP_EPISODES, GROUP_HIGH = 20, 10.0  # a return of GROUP_HIGH counts as 1
GROUP_CURVE = "mean_trust"


def group_protocol(**parts: Any) -> Protocol:
    """Return a protocol with two tasks in one group and one in another."""
    tasks = [
        make_task(name, group=group, horizon=horizon, high=GROUP_HIGH)
        for name, (group, horizon) in GROUP_TASKS.items()
    ]
    defaults: dict[str, Any] = {"metrics": ["return"], "baselines": None, "resamples": 500}
    seeds: dict[str, Any] = {"train": (900, 901, 902), "first": 5, "count": GROUP_EPISODES}
    return protocol_of("invented", tasks=tasks, **(seeds | defaults | parts))


def group_block(name: str, policy: str, returns: np.ndarray, run: int | None = None) -> Episodes:
    """Return episodes of one cell with these returns of the team."""
    return make_block(
        Cell(name, policy, run),
        np.stack([returns, np.zeros(len(returns))], axis=1),
        agents=("left_0", "right_0"),
        seeds=np.arange(5, 5 + len(returns), dtype=np.uint64),
        metrics={GROUP_CURVE: np.zeros(len(returns))},
        curves={GROUP_CURVE: np.zeros(5)},
    )


def group_blocks(
    levels: dict[str, float], runs: tuple[int | None, ...] = (None,), shared: bool = True
) -> list[Episodes]:
    """Return blocks of policies with these mean returns; ``shared`` luck is the same for all."""
    rng = np.random.default_rng(3)
    luck = {name: rng.normal(0.0, 2.0, GROUP_EPISODES) for name in GROUP_TASKS}
    blocks = []
    for policy, level in levels.items():
        for name in GROUP_TASKS:
            for k, run in enumerate(runs):
                chance = luck[name] if shared else rng.normal(0.0, 2.0, GROUP_EPISODES)
                wobble = rng.normal(0.0, 0.2, GROUP_EPISODES) + 0.1 * k
                blocks.append(group_block(name, policy, level + chance + wobble, run))
    return blocks


# -- play ----------------------------------------------------------------------------------------


def constant_network(game: Game, share: float) -> Network:
    """Return a perceptron that always invests a share, whatever it observes."""
    features, actions = max(part.stop for part in game.layout.values()), game.high.shape[1]
    return Network(
        seats=np.zeros(len(game.agents), np.int64),
        layers=perceptron(
            [np.zeros((1, features, actions), np.float32)],
            [np.full((1, actions), 2.0 * share - 1.0, np.float32)],
        ),
        centre=np.zeros(features, np.float32),
        scale=np.ones(features, np.float32),
        identity=False,
        activation="tanh",
        head="clip",
    )


def trained_to_invest(share: float, seed: int) -> NetworkPolicy:
    """A perceptron that always invests a share, as if ippo had trained it for 20 steps."""
    network = constant_network(Game.at(TRUST), share)
    facts = {"environment": TRUST, "learner": "ippo", "seed": seed, "steps": 20}
    return NetworkPolicy(network, facts | {"hyperparameters": {}})


def random_network(seed: int = 0) -> NetworkPolicy:
    """Return a perceptron of random weights, another one for every seed."""
    policy, rng = trained_to_invest(0.5, 50), np.random.default_rng(seed)
    network, width = policy.network, len(policy.network.centre)
    numbers = rng.normal(0, 0.3, (1, width, 8)), rng.normal(0, 0.3, (1, 8, 1))
    weights = [layer.astype(np.float32) for layer in numbers]
    biases = [np.zeros((1, layer.shape[2]), np.float32) for layer in weights]
    layers = perceptron(weights, biases)
    changed = replace(network, layers=layers, activation="relu", head="tanh")
    return NetworkPolicy(changed, policy.facts)


def outputs_of(network: Network, observations: np.ndarray) -> np.ndarray:
    """Return what a network says at the first step, (lanes, agents, actions)."""
    shape = observations.shape[:2]
    frames = observations.reshape(*shape, network.history, -1)
    last = np.zeros((*shape, network.actions), np.float32)
    hidden = np.zeros((*shape, network.hidden), np.float32)
    return network.step(network.inputs(frames, last), hidden)[0]


class Invests:
    """A policy that always invests one amount; further facts become attributes of the policy."""

    def __init__(self, amount: float, name: str = "invests", **facts: Any) -> None:
        self.amount, self.name = amount, name
        if facts:
            self.hyperparameters = facts

    def act(self, observations: np.ndarray) -> np.ndarray:
        return np.full((*observations.shape[:2], 1), self.amount)


class Last:
    """A policy that takes its last legal choice."""

    uses_masks = True

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        return None

    def act(
        self, observations: np.ndarray, memory: None, masks: np.ndarray
    ) -> tuple[np.ndarray, None]:
        return masks.shape[2] - 1 - masks[:, :, ::-1].argmax(axis=2), None


def begun(
    env: str, lanes: int = 1, *, seed: int = 0, state: Any = None, **parameters: Any
) -> Engine:
    """Return an engine whose lane i has begun the episode of seed ``seed`` + i."""
    engine = Engine(env, lanes, **parameters)
    engine.reset(np.uint64(seed) + np.arange(lanes, dtype=np.uint64), state=state)
    return engine


def run_python(*words: Any, cwd: Path | None = None, **environment: str) -> str:
    """Run an interpreter that has to end without an error; return what it has printed."""
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def refused(*words: str, kind: Any = ValueError) -> Iterator[None]:
    """Check that an error of this kind is raised, whose message holds all of these words."""
    with pytest.raises(kind) as error:
        yield
    for word in words:
        assert word in str(error.value), str(error.value)


# -- results -------------------------------------------------------------------------------------


def copied(source: Path, target: Path) -> Path:
    """Copy a folder of the sources, which may be read-only, to one that may be written to."""
    for file in (file for file in sorted(source.rglob("*")) if file.is_file()):
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    return target


def altered(report: Any, **rows: Any) -> Any:
    """Return a report with other rows of some parts, as if it had found these."""
    other, made = replace(report), parts()
    vars(other).update(rows)
    other._made.update({made[name]: value for name, value in rows.items() if name in made})
    return other


def stored_files(folder: Path) -> dict[str, bytes]:
    """Return the files of all cells but the metadata, which have times, by their places."""
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for meta in folder.rglob("meta.json")
        for file in meta.parent.iterdir()
        if file != meta
    }


def edit_meta(cell: Path, **changes: Any) -> dict[str, Any]:
    """Change the metadata in the folder of a cell; return what they were."""
    file = cell / "meta.json"
    meta: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if changes:
        file.write_text(json.dumps(meta | changes, indent=2) + "\n", encoding="utf-8")
    return meta


# -- environments of other packages ----------------------------------------------------------------

LAMPS = "pettingzoo:toy_foreign"  # a game of ``toy_foreign``, and a protocol of two tasks with it
GUESSES = """
[protocol]
name = "lamps"
version = 1
description = "Guesses"
[seeds]
evaluation = { first = 3, count = 6 }
[report]
score = "own_return"
metrics = ["return", "hit", "total.hits", "length"]
curve = "hit"
baselines = ["random"]
normalisation = "minmax"
[[task]]
id = "short"
env = "pettingzoo:toy_foreign"
parameters = { max_steps = 4 }
info = { hit = "mean", "total.hits" = "last" }
[[task]]
id = "long"
env = "pettingzoo:toy_foreign"
parameters = { max_steps = 9 }
info = { hit = "sum", "total.hits" = "max" }
steps = 7
"""


def foreign_engine(
    name: str, lanes: int = 1, metrics: Any = None, steps: Any = None, **keywords: Any
) -> Any:
    """Return an engine of an environment of another package, for policies."""
    permit(name)
    return ForeignEngine(foreign_spec(name, metrics, steps), lanes, **keywords)


def lit(observations: np.ndarray) -> np.ndarray:
    """Choose the number that is seen, where all agents of the game of lamps see it."""
    return observations[:, :, 0].astype(np.int64)


def block_of(report: Any, policy: str = "random", task: str | None = None) -> Any:
    """Return the episodes of a policy, by default on the first task."""
    return report.episodes.of(task or report.protocol.task[0].id, policy)
