"""What the games of both models of coopetition share: names, makers, and the first metrics."""

from collections import namedtuple
from collections.abc import Callable
from typing import Annotated, Any

from coopbench_envs.coopetition.trajectories import AGENT, EPISODE
from coopbench_envs.core import EnvSpec, kernel
from coopbench_envs.parameters import between

Horizon = Annotated[int, between(1, 1_000_000, "steps of an episode")]


def share_bounds(c: Any) -> tuple[float, float]:
    """Bounds of fractions in states from outside: observations show them as they are."""
    return 0.0, 1.0


def extended(base: Any, module: str, **fields: str) -> Any:
    """Return a copy of the tuple ``base`` with a game's ``fields``, name=meaning, at its end.

    Kernels access fields by name, so those written for ``base`` also work on the copy. The copy
    must be bound in ``module`` to the name of ``base``, where pickle and numba's cache look for it.
    """
    names = (*base._fields, *fields)
    kind: Any = namedtuple(base.__name__, names, module=module)  # type: ignore[misc]
    for name, meaning in fields.items():
        getattr(kind, name).__doc__ = meaning
    return kind


def named(word: str) -> Callable[[Any], tuple[str, ...]]:
    """Return a function from constants to the names word_0, word_1, ... of all agents."""
    return lambda c: tuple(f"{word}_{a}" for a in range(c.num_agents))


@kernel
def end(c, i, over, terminated):
    """Write into ``terminated`` whether the game is over, the same for all agents."""
    for a in range(c.num_agents):
        terminated[i, a] = over


@kernel
def go_on(c, s, i, rng, actions, rewards, terminated):
    """Let the game end at the horizon only."""
    end(c, i, False, terminated)


@kernel
def measure(c, s, i, measures):
    """Write the four metrics of every game, from the sums over steps."""
    played = max(1, s.time[i])
    measures[i, 0] = s.mean_trust[i]
    measures[i, 1] = s.invested[i] / played
    measures[i, 2] = s.trusted[i] / played
    measures[i, 3] = s.time[i]


def game(**fields: Any) -> EnvSpec:
    """Return the specification of a game that ends at its horizon or for all agents at once."""
    usual: dict[str, Any] = {
        "episode_metrics": EPISODE,
        "agent_metrics": AGENT,
        "vectorized": True,
    }
    return EnvSpec(**(usual | fields))
