"""Engines of tasks, and what is known of environments from outside of this package."""

from typing import Any

from coopbench.protocol.sections import Task
from coopbench_envs.engine import Engine
from coopbench_envs.foreign.engine import ForeignEngine
from coopbench_envs.foreign.loading import code_of
from coopbench_envs.foreign_names import is_foreign

__all__ = ["engine_of", "environment_facts"]


def engine_of(task: Task, lanes: int = 1) -> Engine:
    """Return an engine that plays a task, with one lane for every episode."""
    if is_foreign(task.env):
        return ForeignEngine(task.spec, lanes, **task.parameters)
    return Engine(task.env, lanes, **task.parameters)


def environment_facts(engine: Engine) -> dict[str, Any]:
    """Return what results say of an environment from outside of this package; empty for all others.

    ``code`` are the versions of its packages, or the digest of its file; ``repeats`` is whether the
    first episode went the same way when it was played twice; ``horizon`` is the longest that an
    episode may take, and ``stated`` whether the environment itself says so. A registered
    environment has a horizon, and the same seed is the same episode.
    """
    code = code_of(engine.spec.id)
    if not code:
        return {}
    repeats = stated = True
    if isinstance(engine, ForeignEngine):
        repeats, stated = engine.repeats(), engine.constants.stated
    return {"code": code, "repeats": repeats, "horizon": engine.horizon, "stated": stated}
