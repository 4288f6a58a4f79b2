"""Exchange: results out to marl-eval JSON and CSV, and results of others in."""

from coopbench.exchange.exports import (
    EXPORTERS,
    obstacles,
    progress_csv,
    save_episodes_csv,
    save_marl_eval,
    to_marl_eval,
)
from coopbench.exchange.imports import IMPORTERS, SCALES, import_results
from coopbench.exchange.runs import ABSOLUTE
from coopbench.report.frames import frame

__all__ = [
    "ABSOLUTE",
    "EXPORTERS",
    "IMPORTERS",
    "SCALES",
    "frame",
    "import_results",
    "obstacles",
    "progress_csv",
    "save_episodes_csv",
    "save_marl_eval",
    "to_marl_eval",
]
