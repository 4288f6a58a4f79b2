"""Exchange: results out to JSON and CSV, and results of other programs in."""

from coopbench.exchange.episodes_csv import save_episodes_csv
from coopbench.exchange.exports import EXPORTERS
from coopbench.exchange.flat_json import save_flat
from coopbench.exchange.imports import IMPORTERS, SCALES, import_results
from coopbench.exchange.marl_eval_export import obstacles, save_marl_eval, to_marl_eval
from coopbench.exchange.runs import ABSOLUTE
from coopbench.report.serialise import frame

__all__ = [
    "ABSOLUTE",
    "EXPORTERS",
    "IMPORTERS",
    "SCALES",
    "frame",
    "import_results",
    "obstacles",
    "save_episodes_csv",
    "save_flat",
    "save_marl_eval",
    "to_marl_eval",
]
