"""Exchange: results out to marl-eval JSON and CSV, and results of others in."""

from coopbench.exchange.episodes_csv import progress_csv, read_episodes_csv, save_episodes_csv
from coopbench.exchange.imported import ABSOLUTE, SCALES, Imported, Run, Summary
from coopbench.exchange.marl_eval_export import obstacles, save_marl_eval, to_marl_eval
from coopbench.exchange.marl_eval_import import read_marl_eval
from coopbench.exchange.scores_csv import read_scores_csv
from coopbench.exchange.scores_report import comparison_table, save_scores_report
from coopbench.exchange.summary_table import summary_table
from coopbench.report.frames import frame

__all__ = [
    "ABSOLUTE",
    "SCALES",
    "Imported",
    "Run",
    "Summary",
    "comparison_table",
    "frame",
    "obstacles",
    "progress_csv",
    "read_episodes_csv",
    "read_marl_eval",
    "read_scores_csv",
    "save_episodes_csv",
    "save_marl_eval",
    "save_scores_report",
    "summary_table",
    "to_marl_eval",
]
