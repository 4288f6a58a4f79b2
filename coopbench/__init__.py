"""coopbench: multi-agent environments with fixed protocols, honest baselines and sound statistics.

>>> import coopbench
>>> report = coopbench.evaluate("coopetition-standard", ["random", "tit_for_tat"])  # doctest: +SKIP
>>> print(report)  # doctest: +SKIP
"""

import importlib
from typing import Any

__version__ = "0.1.0"

# Loaded when first used, so that importing the package costs nothing and no cycle can arise.
_PUBLIC = {
    "Checkpoints": "coopbench.playing.models",
    "Failed": "coopbench.playing.models",
    "Models": "coopbench.playing.models",
    "Protocol": "coopbench.protocol.schema",
    "Report": "coopbench.report.report",
    "crossplay": "coopbench.workflows.crossplay",
    "environments": "coopbench.catalogue",
    "Trained": "coopbench.episodes.trained",
    "evaluate": "coopbench.workflows.evaluation",
    "find_episode": "coopbench.workflows.replay",
    "leaderboard": "coopbench.workflows.leaderboard",
    "load_protocol": "coopbench.protocol.loading",
    "load_report": "coopbench.report.loading",
    "merge": "coopbench.workflows.shards",
    "play_shard": "coopbench.workflows.shards",
    "learners": "coopbench.catalogue",
    "policies": "coopbench.catalogue",
    "record": "coopbench.workflows.episode",
    "timed_evaluate": "coopbench.workflows.timed",
    "train": "coopbench.workflows.training",
    "verify": "coopbench.workflows.verification",
    "warmup": "coopbench.catalogue",
}

__all__ = ["__version__", "protocols", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    if name == "protocols":  # a package that can be called, see there
        return importlib.import_module("coopbench.protocols")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC, "protocols"})
