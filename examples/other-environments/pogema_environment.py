"""POGEMA's pathfinding as an environment of another package: pettingzoo:pogema_environment.py:grid.

POGEMA 1.4.0 was written for pydantic 1 and Gymnasium 0.28. Install it with ``pip install --no-deps
pogema``; this file gives it what later versions no longer have.
"""

import sys
from typing import Any

import gymnasium
import pydantic
import pydantic.v1

sys.modules["pydantic"] = pydantic.v1
try:
    from pogema import GridConfig, pogema_v0
finally:
    sys.modules["pydantic"] = pydantic


def _attribute(wrapper: Any, name: str) -> Any:
    """Return an attribute of what is wrapped, as wrappers of Gymnasium did before 1.0."""
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(wrapper.env, name)


if not hasattr(gymnasium.Wrapper, "__getattr__"):
    gymnasium.Wrapper.__getattr__ = _attribute


def grid(**settings: Any) -> Any:
    """Make the PettingZoo environment of a grid; ``settings`` are those of ``GridConfig``."""
    return pogema_v0(GridConfig(integration="PettingZoo", **settings))
