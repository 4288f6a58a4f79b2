"""Games: lanes against games alone, restored games against those that were kept, and partners.

Here the kernels are compiled. Every game is recorded alone, with its actions and its resets, and
then played again among others.
"""

import time
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from coopbench_envs.check.faults import Fault, drawn, place_of
from coopbench_envs.drivers import MANY_LANES
from coopbench_envs.engine import Engine
from coopbench_envs.shells.gymnasium_env import GymnasiumEnv
from coopbench_envs.shells.vector_env import VectorEnv

__all__ = ["games_apart"]

# Few lanes are played one by one, many in blocks where the environment has them.
_COUNTS = (2, MANY_LANES + 1)
_WATCHED = (0, 1, MANY_LANES)  # lanes that are also played alone
_STEPS, _SECONDS = 64, 10  # of a game; of processor time after which it ends
_KEPT = 20  # the step after which the state is kept
_EVERY = 13  # steps after which a lane is reset, each lane at another time
_HIDDEN = ("chosen", "moved", "state")  # of ``control``: what a call is about, and what may be off

Outcome = dict[str, np.ndarray]  # everything that a call leaves behind, by name, lane first


class Game(NamedTuple):
    """A game that was played alone."""

    seed: int
    actions: list[np.ndarray]  # of every step, (agents, ...)
    outcomes: list[Outcome]  # after the first reset, and after every step


def games_apart(env_id: str, parameters: dict[str, Any]) -> Iterator[Fault]:
    """Yield in what a game depends on other lanes, on what a state does not hold, or on the dead.

    Raises ``KernelError`` for kernels that cannot be compiled.
    """
    place = place_of(Engine(env_id, **parameters).kernels.parts[0])
    games = {lane: _alone(env_id, parameters, lane) for lane in _WATCHED}
    for text in (
        *(_beside(env_id, parameters, games, count) for count in _COUNTS),
        *(_restored(env_id, parameters, games, count) for count in (1, _COUNTS[-1])),
        _without_the_dead(env_id, parameters, games[0]),
        _with_partners(env_id, parameters),
    ):
        if text:
            yield Fault(place, text)
            return


def _is_reset(lane: int, step: int) -> bool:
    return (step + 3 * lane) % _EVERY == _EVERY - 1


def _outcome(engine: Engine) -> Outcome:
    """Return copies of what a call has left behind, by name."""
    control = {k: v for k, v in engine.control._asdict().items() if k not in _HIDDEN}
    told = {f"info of {name}": values for name, values in engine.info().items()}
    arrays = engine.get_state() | control | told
    return {name: np.array(values) for name, values in arrays.items()}


def _alone(env_id: str, parameters: dict[str, Any], lane: int) -> Game:
    """Play the game of a lane alone, with random actions."""
    engine, random = Engine(env_id, **parameters), np.random.default_rng(lane)
    engine.reset(np.array([lane + 1], np.uint64))
    game = Game(lane + 1, [], [_outcome(engine)])
    begin = time.process_time()
    while len(game.actions) < _STEPS:
        if len(game.actions) > _KEPT and time.process_time() - begin > _SECONDS:
            break
        if _is_reset(lane, len(game.actions)):
            engine.reset()
        actions = drawn(random, engine.action_spaces, engine.control.masks[0])
        engine.step(actions[None])
        game.actions.append(actions)
        game.outcomes.append(_outcome(engine))
    return game


def _steps(games: dict[int, Game]) -> int:
    return min(len(game.actions) for game in games.values())


def _played(
    engine: Engine, games: dict[int, Game], steps: range, resets: bool = True
) -> Iterator[tuple[int, Outcome]]:
    """Play the recorded games in their lanes, others beside them; yield every step's outcome."""
    idle = games[0].actions
    for step in steps:
        lanes = range(engine.lanes)
        again = np.array([_is_reset(lane, step) for lane in lanes])
        if resets and again.any():
            engine.reset(chosen=again)
        actions = [games[k].actions[step] if k in games else idle[step - k] for k in lanes]
        engine.step(np.array(actions))
        yield step + 1, _outcome(engine)


def _beside(env_id: str, parameters: dict[str, Any], games: dict[int, Game], count: int) -> str:
    """Return in what lanes differ from the games alone; empty if in nothing."""
    games = {lane: game for lane, game in games.items() if lane < count}
    engine = Engine(env_id, count, **parameters)
    engine.reset(np.arange(1, count + 1, dtype=np.uint64))
    outcomes = chain([(0, _outcome(engine))], _played(engine, games, range(_steps(games))))
    departure = _departure(outcomes, games)
    if departure is None:
        return ""
    step, lane, difference = departure
    return (
        f"a lane depends on another one; after {step} steps {difference} in lane {lane} of "
        f"{count}, and in the same game alone. The first index of every array of the state, and "
        f"of every output, is the lane i: read and write no other one."
    )


def _restored(env_id: str, parameters: dict[str, Any], games: dict[int, Game], count: int) -> str:
    """Return in what games go on otherwise that are restored; empty if in nothing.

    They are restored in every second lane of an engine that is in the middle of other games.
    """
    engine = Engine(env_id, count, **parameters)
    engine.reset(np.arange(100, 100 + count, dtype=np.uint64))
    other = {0: games[1]}
    for _ in _played(engine, other, range(_KEPT // 2), resets=False):
        pass
    chosen = np.arange(count) % 2 == 0
    games = {lane: game for lane, game in games.items() if lane < count and chosen[lane]}
    state = engine.get_state()
    for lane, game in games.items():
        for name, values in state.items():
            values[lane] = game.outcomes[_KEPT][name][0]
    try:
        engine.reset(np.arange(200, 200 + count, dtype=np.uint64), chosen=chosen, state=state)
    except ValueError as error:
        return f"a state that the game itself has reached cannot be restored; {error}"
    shown = ("obs", "masks", "alive", *state)  # the others tell of the step before
    seen = {name: values for name, values in _outcome(engine).items() if name in shown}
    outcomes = chain([(_KEPT, seen)], _played(engine, games, range(_KEPT, _steps(games))))
    departure = _departure(outcomes, games)
    if departure is None:
        return ""
    step, lane, difference = departure
    return (
        f"a game goes on otherwise from a state that was kept; {step - _KEPT} steps after it was "
        f"restored {difference} in lane {lane} of {count}, and in the game that was not "
        f"interrupted. An array that is declared scratch=True is read before prepare or the step "
        f"has written it."
    )


def _departure(
    outcomes: Iterable[tuple[int, Outcome]], games: dict[int, Game]
) -> tuple[int, int, str] | None:
    """Return the first step and lane that differ from the game of the lane, and in what."""
    for step, outcome in outcomes:
        for lane, game in games.items():
            difference = _difference(outcome, lane, game.outcomes[step])
            if difference:
                return step, lane, difference
    return None


def _without_the_dead(env_id: str, parameters: dict[str, Any], game: Game) -> str:
    """Return what changes if agents that have dropped out do something else; empty if nothing."""
    engine = Engine(env_id, **parameters)
    if engine.discrete:  # whose choices are replaced before the kernels see them
        return ""
    engine.reset(np.array([game.seed], np.uint64))
    for step, actions in enumerate(game.actions):
        if _is_reset(0, step):
            engine.reset()
        alive = engine.control.alive[0]
        engine.step(np.where(alive[:, None] | engine.control.done[0], actions, 0.0)[None])
        difference = _difference(_outcome(engine), 0, game.outcomes[step + 1])
        if difference:
            return (
                f"what an agent does that has dropped out changes the game; after {step + 1} steps "
                f"{difference} if it does 0, and if it does something else. Leave out its actions "
                f"in step."
            )
    return ""


def _with_partners(env_id: str, parameters: dict[str, Any]) -> str:
    """Return in what a lane with partners differs from the game alone; empty if in nothing."""
    options: dict[str, Any] = {"control": "focal", "ego": 1, "partner": "random", **parameters}
    count, lane = 3, 2
    if len(Engine(env_id, **parameters).agents) < 2:
        return ""
    both, alone = VectorEnv(env_id, count, **options), GymnasiumEnv(env_id, **options)
    random, is_over = np.random.default_rng(0), False
    both_seen, _ = both.reset(seed=7)
    seen, _ = alone.reset(seed=7 + lane)
    paid, both_paid = 0.0, np.zeros(count)
    for step in range(_STEPS):
        if not (np.array_equal(both_seen[lane], seen) and both_paid[lane] == paid):
            return (
                f"a lane with partners differs from the game alone after {step} steps; what "
                f"agents do must depend on their own lane alone."
            )
        resets = np.array([_is_reset(k, step) for k in range(count)])
        if resets.any():
            both_seen, _ = both.reset(options={"reset_mask": resets})
        if resets[lane]:
            seen, _ = alone.reset()
            is_over = False
        actions = np.array([_drawn_for(random, both, k) for k in range(count)])
        both_seen, both_paid, *_ = both.step(actions)
        if is_over:
            seen, _ = alone.reset()
            paid, is_over = 0.0, False
            continue
        seen, paid, ended, late, _ = alone.step(actions[lane])
        is_over = ended or late
    return ""


def _drawn_for(random: np.random.Generator, env: gym.vector.VectorEnv, lane: int) -> Any:
    engine: Any = env.engine  # type: ignore[attr-defined]
    ego: int = env.seats.ego  # type: ignore[attr-defined]
    spaces, masks = engine.action_spaces[ego : ego + 1], engine.control.masks[lane, ego : ego + 1]
    return drawn(random, spaces, masks)[0]


def _difference(outcome: Outcome, lane: int, alone: Outcome) -> str:
    """Return which value differs between a lane and a game alone; empty if none."""
    for name, values in outcome.items():
        here, there = values[lane], alone[name][0]
        differs = (here != there) & ((here == here) | (there == there))
        for place in map(tuple, np.argwhere(differs)[:1]):
            index = "".join(f"[{k}]" for k in place)
            return f"{name}{index} is {here[place]} against {there[place]}"
    return ""
