"""Trainings on toys with known answers, what their policies do there, and updates by hand."""

from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import builders
import numpy as np
import pytest
import toy_team

from coopbench.baselines.game import Game
from coopbench.baselines.learner import Training
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.networks.network import NetworkPolicy
from coopbench.baselines.registry import make_learner
from coopbench_envs import Engine, registration
from coopbench_envs.engine import DISABLED

TEAM, PENNIES = toy_team.SPEC.id, "test/Pennies-v0"
QUICK = {"lanes": 32, "replay": 640, "batch_size": 32, "updates_per_episode": 1 / 32}
QUICK |= {"hidden": 16, "learning_rate": 5e-3, "target_every": 20, "epsilon": 1.0}
SMALL = QUICK | {"lanes": 4, "replay": 20, "batch_size": 6, "updates_per_episode": 0.5}
# Games of the pennies, in which agents die, choices are illegal and episodes differ in length.
MIXED = SMALL | {"reward": "team", "gamma": 0.9, "max_grad_norm": 1e9}


def known(*toys: ModuleType) -> Callable[[], Any]:
    """Return a fixture that registers toys for the tests of one file, which need torch."""

    @pytest.fixture(autouse=True, scope="module")
    def registered(torch: Any) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for toy in toys:
                patch.setitem(registration._modules, toy.SPEC.id, toy.__name__)
                patch.setitem(registration._specs, toy.SPEC.id, toy.SPEC)
            yield

    return registered


def trained(
    name: str,
    steps: int,
    seed: int = 0,
    changes: dict[str, Any] | None = None,
    env: str = TEAM,
    quick: dict[str, Any] = QUICK,
    **game: Any,
) -> Any:
    """Return a learner of a toy after some steps; ``changes`` are to its quick settings."""
    learner = make_learner(name, env, game, seed, **(quick | (changes or {})))
    learner.learn(steps)
    return learner


def rows_of(env: str, game: Any = None, seed: int = 7, shared: bool = False, **params: Any) -> Any:
    """Return the rows of a training with the hyperparameters that are read for them."""
    from coopbench.baselines.learners.experience import Rows

    state, values = params.pop("global_state", False), {"lanes": 5, "scale_observations": False}
    training = SimpleNamespace(**(values | {"seat_number": True} | params))
    name = "any_shared" if shared else "any"
    return Rows(Training(name, env, game or {}, seed, training), global_state=state)


class Stub:
    """Learns nothing, and remembers what it was told."""

    steps = 0

    def __init__(
        self, name: str, env_id: str, parameters: dict[str, Any], seed: int, **values: Any
    ) -> None:
        self.parameters, self.seed, self.values = parameters, seed, values
        self.targets: list[int] = []

    def learn(self, target: int) -> dict[str, float]:
        self.targets.append(target)
        self.steps = target
        return {}

    def policy(self) -> NetworkPolicy:
        return builders.trained_to_invest(0.5, 50)


def parts_of(learner: Any, steps: int) -> Iterator[tuple[Any, np.ndarray, Any, np.ndarray]]:
    """Yield every model, its inputs, its seats, and what its policy that is read again says."""
    policy = NetworkPolicy(learner.network(), learner.facts())  # as trained, not rounded
    again = read_policy(policy.pack())
    assert again.facts == policy.facts
    assert again.facts["steps"] == steps
    assert again.hyperparameters["layers"] == "16x8"
    rows = learner._rows
    outputs = builders.outputs_of(again.network, rows.engine.control.obs)
    parts = zip(learner._models, rows.cut(rows.observe()), rows.groups, strict=True)
    for model, inputs, seats in parts:
        yield model, inputs, seats, outputs[:, seats].reshape(len(inputs), -1)


def recorded(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[Stub]:
    """Let a script make learners that learn nothing; return those that it will have made."""
    learners: list[Stub] = []

    def make(*words: Any, **values: Any) -> Stub:
        learners.append(Stub(*words, **values))
        return learners[-1]

    monkeypatch.setattr(script, "make_learner", make)
    return learners


def played(policy: Any, lanes: int = 16, env: str = TEAM, **game: Any) -> tuple[float, np.ndarray]:
    """Return the mean return, and the actions of every step, of seeds that no training has."""
    engine, seeds, actions = Engine(env, lanes, **game), np.arange(lanes, dtype=np.uint64), []
    engine.reset(seeds)
    memory = policy.initial(Game.of(engine), seeds)
    while not engine.control.done.all():
        masks = engine.control.masks != 0 if engine.discrete else None
        chosen, memory = policy.act(engine.control.obs, memory, masks)
        actions.append(chosen.copy())
        engine.step(chosen, DISABLED)
    assert not engine.control.invalid.any()
    return engine.control.returns.mean(), np.array(actions)


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    """Return whether two saved states are equal to the bit."""
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


# -- updates by hand: one sequence after the other, one step after the other ---------------------


def courses(batch: Any) -> list[tuple[list[int], list[int]]]:
    """Return the places and the steps of every sequence of a batch, in order."""
    places = np.cumsum((0, *batch.counts[:-1]))
    steps = np.cumsum((0, *batch.counts[1:-1]))
    return [
        (
            [int(places[t]) + k for t, count in enumerate(batch.counts) if k < count],
            [int(steps[t]) + k for t, count in enumerate(batch.counts[1:]) if k < count],
        )
        for k in range(batch.counts[0])
    ]


def stepwise(models: Sequence[Any], groups: Sequence[np.ndarray], batch: Any) -> tuple[Any, Any]:
    """Return outputs and memories (places, agents, ...) as torch's own unit computes them."""
    import torch

    agents, choices = batch.legal.shape[1:]
    outputs: list[Any] = [[None] * agents for _ in batch.legal]
    memories: list[Any] = [[None] * agents for _ in batch.legal]
    for places, steps in courses(batch):
        for model, seats in zip(models, groups, strict=True):
            for seat in seats:
                memory, last = torch.zeros(1, model.hidden), torch.zeros(choices)
                for t, place in enumerate(places):
                    if t:
                        chosen = batch.actions[steps[t - 1], seat]
                        last = torch.nn.functional.one_hot(chosen, choices).float()
                    seen = torch.cat([batch.inputs[place, seat], last])[None, None]
                    plain = not model.hidden
                    result, memory = (model(seen), memory) if plain else model.run(seen, memory)
                    outputs[place][seat], memories[place][seat] = result[0, 0], memory[0]
    return tuple(torch.stack([torch.stack(row) for row in rows]) for rows in (outputs, memories))


def aims_by_hand(batch: Any, following: Any, gamma: float, trace: float) -> Any:
    """Return TD targets (steps, n) from the values (places, n) of all places but the first."""
    import torch

    aims = torch.zeros(len(batch.rewards), following.shape[1])
    for places, steps in courses(batch):
        for t in reversed(range(len(steps))):
            later = following[places[t + 1]] * (1.0 - batch.terminated[steps[t]])
            if t + 1 < len(steps):
                later = (1.0 - trace) * later + trace * aims[steps[t + 1]]
            aims[steps[t]] = batch.rewards[steps[t], : len(later)] + gamma * later
    return aims


def preferred(outputs: Any, legal: Any) -> Any:
    """Return the legal choices of largest output, (places, agents)."""
    return outputs.detach().masked_fill(~legal, -np.inf).argmax(2)


def of_choices(values: Any, choices: Any) -> Any:
    """Return the values of choices (rows, agents) among those of all, (rows, agents, choices)."""
    return values.gather(2, choices.unsqueeze(2)).squeeze(2)


def gradients_agree(modules: Sequence[Any], loss: Any, update: Callable[[], Any]) -> Any:
    """Check that an update follows the gradient of a loss; return what the update returns."""
    import torch

    parameters = [p for module in modules for p in module.parameters()]
    expected = torch.autograd.grad(loss, parameters)
    report = update()
    assert any(gradient.abs().max() > 1e-3 for gradient in expected)
    for parameter, gradient in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-5)
    return report
