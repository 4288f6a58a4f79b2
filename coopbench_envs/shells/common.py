"""Seeds, options, rendering and closing, which are the same on every interface."""

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

import gymnasium as gym
import numpy as np

from coopbench_envs.lanes import Lanes
from coopbench_envs.parameters import named
from coopbench_envs.pictures import picture, text

__all__ = [
    "RENDER_MODES",
    "Closing",
    "check_has_choices",
    "check_options",
    "check_render_mode",
    "closed",
    "draw_seed",
    "limited",
    "on_cpu",
    "rendered",
    "seed_of",
]

RENDER_MODES = ("rgb_array", "ansi")

_SEEDS = 1 << 64  # how many there are


def seed_of(seed: Any, lanes: int = 1) -> np.ndarray:
    """Seeds of all lanes: lane i of a batch seeded s is the single environment seeded s + i.

    Raises ``ValueError`` for anything but whole numbers from 0 to 2^64 - 1.
    """
    given = seed.tolist() if isinstance(seed, np.ndarray) else seed
    if isinstance(given, (list, tuple)):
        if len(given) != lanes:
            raise ValueError(
                f"A list of seeds must name one per lane: {lanes}; given {len(given)}."
            )
        numbers = [_whole(s) for s in given]
    else:
        numbers = [_whole(given) + lane for lane in range(lanes)]
    if max(numbers) >= _SEEDS:
        raise ValueError(f"A seed must be below 2^64; given {seed!r} for {lanes:,} lane(s).")
    return np.array(numbers, np.uint64)


def _whole(seed: Any) -> int:
    try:
        number = int(seed)
        is_whole = number == seed and number >= 0
    except (TypeError, ValueError, OverflowError):  # not a number, NaN, infinity
        is_whole = False
    if isinstance(seed, (bool, np.bool_)) or not is_whole:
        raise ValueError(f"A seed must be a whole number >= 0; given {seed!r}.")
    return number


def on_cpu(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a single environment without ``device``.

    Raises ``ValueError`` if that is a GPU.
    """
    device = parameters.get("device", "cpu")
    if device != "cpu":
        raise ValueError(
            f"device was {device!r}; allowed here: 'cpu'. A GPU plays one step of thousands of "
            f"games in the time that it needs for one, and a single game would wait for it at "
            f"every step: use gymnasium.make_vec(..., num_envs=..., device={device!r})."
        )
    return {name: value for name, value in parameters.items() if name != "device"}


def limited(parameters: dict[str, Any], name: str, steps: Any) -> dict[str, Any]:
    """Return the parameters with ``horizon``, which a framework calls ``name``, if that is given.

    Raises ``ValueError`` if they have another horizon.
    """
    if steps is None:
        return parameters
    horizon = parameters.get("horizon", steps)
    if horizon != steps:
        raise ValueError(
            f"{name} was {steps!r}, and horizon {horizon!r}; {name} is another name for the "
            f"parameter horizon: give one of them."
        )
    return parameters | {"horizon": steps}


def draw_seed(generator: np.random.Generator) -> int:
    """Seed for an environment that was given none."""
    return int(generator.integers(2**62))


def check_options(options: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return ``options["state"]``; other keys are left to wrappers and ignored."""
    if options is None:
        return None
    if not isinstance(options, Mapping):
        raise ValueError(f"options must be a mapping or None; given {type(options).__name__}.")
    state = options.get("state")
    if state is not None and not isinstance(state, Mapping):
        raise ValueError(
            f"options['state'] must map field names to arrays; given {type(state).__name__}."
        )
    return state


def check_has_choices(engine: Lanes) -> None:
    """Raise ``ValueError`` for masks of an environment whose actions are no choices."""
    if not engine.discrete:
        raise ValueError(f"{engine.spec.id} has no choices to mask: its actions are vectors.")


def check_render_mode(mode: str | None, *further: str) -> str | None:
    """Return a render mode; ``ValueError`` with the nearest name for one that there is not."""
    if mode is not None:
        named("render_mode", mode, dict.fromkeys((*RENDER_MODES, *further)))
    return mode


def rendered(engine: Lanes, mode: str | None, lane: int = 0) -> Any:
    """Picture or text of one lane; ``human`` prints the text."""
    if mode is None:
        raise ValueError(
            "Nothing to render: make the environment with render_mode='rgb_array' or 'ansi'."
        )
    if mode == "rgb_array":
        return picture(engine, lane)
    page = text(engine, lane)
    if mode == "ansi":
        return page
    print(page)
    return None


def closed(engine: Lanes) -> gym.error.ClosedEnvironmentError:
    """Return the error of a step or a reset after ``close``."""
    return gym.error.ClosedEnvironmentError(f"{engine.spec.id} is closed: make a new environment.")


class Closing:
    """What environments share that are no Gymnasium vectors: after ``close`` nothing is played."""

    engine: Lanes
    _plays: ClassVar[tuple[str, ...]] = ("reset", "step")  # methods that are refused then

    def close(self) -> None:
        """Release threads and environments of other packages; a second call changes nothing."""
        self.engine.close()
        for name in self._plays:  # a look at every step would slow down all that are open
            vars(self)[name] = self._refuse

    def _refuse(self, *_: Any, **_named: Any) -> NoReturn:
        raise closed(self.engine)
