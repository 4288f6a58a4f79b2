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
    "Checkpoints": "coopbench.plan",
    "Failed": "coopbench.plan",
    "Models": "coopbench.plan",
    "Protocol": "coopbench.protocol",
    "Report": "coopbench.report.report",
    "crossplay": "coopbench.pairing",
    "environments": "coopbench.catalogue",
    "Trained": "coopbench.trained",
    "evaluate": "coopbench.evaluation",
    "find_episode": "coopbench.replay",
    "leaderboard": "coopbench.standings",
    "load_protocol": "coopbench.protocol",
    "load_report": "coopbench.evaluation",
    "merge": "coopbench.shards",
    "play_shard": "coopbench.shards",
    "learners": "coopbench.catalogue",
    "policies": "coopbench.catalogue",
    "record": "coopbench.recording",
    "timed_evaluate": "coopbench.timed",
    "train": "coopbench.training",
    "verify": "coopbench.verification",
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
