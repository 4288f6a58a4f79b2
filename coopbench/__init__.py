"""coopbench: multi-agent environments with fixed protocols, baselines and reports with intervals.

>>> import coopbench
>>> report = coopbench.evaluate("coopetition-standard", ["random", "tit_for_tat"])  # doctest: +SKIP
>>> print(report)  # doctest: +SKIP
"""

import importlib
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any

import coopbench_envs  # noqa: F401 - registers the environments with Gymnasium and PettingZoo

__version__ = "0.1.0"

# In a checkout the parts of this package lie side by side. Python that is started there takes it
# instead of the installed one, which has them inside.
_PARENT, _FOLDER = os.path.split(os.path.dirname(__file__))
if not os.path.isdir(os.path.join(_PARENT, _FOLDER, "baselines")):

    class _Checkout:
        """Finds the two parts of this package that lie beside it."""

        @staticmethod
        def find_spec(name: str, *_: Any) -> ModuleSpec | None:
            if name in ("coopbench.baselines", "coopbench.protocols"):
                return PathFinder.find_spec(name, [_PARENT])
            return None

    sys.meta_path.append(_Checkout)

# Loaded when first used, so that importing the package loads no more than the environments, and no
# cycle can arise.
_PUBLIC = {
    "Checkpoints": "coopbench.playing.contestants",
    "Failed": "coopbench.playing.contestants",
    "Fixed": "coopbench.playing.wrapped",
    "TrainedRuns": "coopbench.playing.contestants",
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
    "merge": "coopbench.workflows.merging",
    "learners": "coopbench.catalogue",
    "policies": "coopbench.catalogue",
    "protocol_names": "coopbench.catalogue",
    "play_episode": "coopbench.workflows.replay",
    "train": "coopbench.workflows.training",
    "verify": "coopbench.workflows.verification",
    "warmup": "coopbench.catalogue",
}

# Names of revisions before the first release, and what has their place.
_RENAMED = {
    "Models": "TrainedRuns",
    "record": "play_episode",
    "play_shard": "evaluate(..., shard=(i, n))",
}

__all__ = ["__version__", *sorted(_PUBLIC)]


if TYPE_CHECKING:  # the same names for type checkers and editors; a test compares the two lists
    from coopbench.catalogue import environments as environments
    from coopbench.catalogue import learners as learners
    from coopbench.catalogue import policies as policies
    from coopbench.catalogue import protocol_names as protocol_names
    from coopbench.catalogue import warmup as warmup
    from coopbench.episodes.trained import Trained as Trained
    from coopbench.playing.contestants import Checkpoints as Checkpoints
    from coopbench.playing.contestants import Failed as Failed
    from coopbench.playing.contestants import TrainedRuns as TrainedRuns
    from coopbench.playing.wrapped import Fixed as Fixed
    from coopbench.protocol.loading import load_protocol as load_protocol
    from coopbench.protocol.schema import Protocol as Protocol
    from coopbench.report.loading import load_report as load_report
    from coopbench.report.report import Report as Report
    from coopbench.workflows.crossplay import crossplay as crossplay
    from coopbench.workflows.evaluation import evaluate as evaluate
    from coopbench.workflows.leaderboard import leaderboard as leaderboard
    from coopbench.workflows.merging import merge as merge
    from coopbench.workflows.replay import find_episode as find_episode
    from coopbench.workflows.replay import play_episode as play_episode
    from coopbench.workflows.training import train as train
    from coopbench.workflows.verification import verify as verify

else:  # type checkers would accept any name

    def __getattr__(name: str) -> Any:
        if name in _PUBLIC:
            return getattr(importlib.import_module(_PUBLIC[name]), name)
        if name in _RENAMED:
            raise AttributeError(f"coopbench.{name} is coopbench.{_RENAMED[name]} now.")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
